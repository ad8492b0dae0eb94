"""The online life of a policy, where the conformance suite does not look."""

import json
import math

import numpy as np
import pytest

import maillard as mb
from histories import random_history, replay


def test_labels() -> None:
    assert mb.policy("uniform", 3).arms == (0, 1, 2)
    assert mb.policy("uniform", np.int64(2)).arms == (0, 1)
    assert mb.policy("uniform", np.array(["a", "b"])).arms == ("a", "b")
    assert mb.policy("uniform", ("x", 7)).arms == ("x", 7)
    for arms, message in (
        (1, "at least 2 arms"),
        (0, "at least 2 arms"),
        (["a"], "at least 2 arms"),
        (["a", "b", "a"], "'a' is named twice"),
        ("red", "list of labels"),
        (2.5, "list of labels"),
        (True, "list of labels"),
        ([1.5, 2], "string or an integer"),
        ([True, 2], "string or an integer"),
        ([None, "a"], "string or an integer"),
        ({"a", "b"}, "list of labels"),
        (-1, "not -1"),
    ):
        with pytest.raises(ValueError, match=message):
            mb.policy("uniform", arms)  # type: ignore[arg-type]


def test_unknown_names_suggest_near_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown policy 'kl-usb': did you mean kl-ucb"):
        mb.policy("kl-usb", 2)
    with pytest.raises(ValueError, match="see `maillard policies`"):
        mb.policy("quux", 2)
    with pytest.raises(ValueError, match="did you mean 'variance'"):
        mb.policy("ms", 2, varience=1)
    with pytest.raises(ValueError, match="did you mean green"):
        mb.policy("ms", ["green", "blue"]).update("gren", 1.0)


def test_common_options_are_validated() -> None:
    for options, message in (
        ({"rewards": (1, 1)}, "L < U"),
        ({"rewards": (0, math.nan)}, "L < U"),
        ({"rewards": 3}, "pair"),
        ({"rewards": (0, math.inf)}, "kl-ms is for rewards in"),
        ({"initial": "random"}, "shuffled"),
        ({"floor": -0.1}, "floor"),
        ({"floor": 1.1}, "floor"),
        ({"floor": math.nan}, "floor"),
        ({"rewards": (-1e308, 1e308)}, "finite ends"),
        ({"rewards": (0, 10**400)}, "pair"),
        ({"binarise": True}, "binarise"),
        ({"binarise": -1}, "binarise"),
        ({"binarise": "x"}, "binarise"),
        ({"reward": (0, 1)}, "did you mean 'rewards'"),
    ):
        with pytest.raises(ValueError, match=message):
            mb.policy("kl-ms", 2, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bounded interval"):
        mb.policy("ms", 2, rewards=(-math.inf, math.inf), binarise=1)


@pytest.mark.parametrize("name", ["moss", "kl-ucb++", "mots", "mots-j", "ada-ucb"])
def test_horizons(name: str) -> None:
    with pytest.raises(ValueError, match="needs horizon="):
        mb.policy(name, 2)
    for horizon in (0, -5, 2.5, math.inf, "many"):
        with pytest.raises(ValueError, match="horizon must be"):
            mb.policy(name, 2, horizon=horizon)
    assert mb.policy(name, 2, horizon=np.int64(100)).horizon == 100


def test_reward_ranges() -> None:
    real = mb.policy("ms", 2, rewards=(-math.inf, math.inf), variance=4.0)
    real.update([0, 1], [-1e6, 3e4])
    with pytest.raises(ValueError, match="reward inf"):
        real.update(0, math.inf)
    below = mb.policy("med", 2, rewards=(-math.inf, 5.0))
    below.update([0, 1, 0], [-100.0, 5.0, 4.0])
    with pytest.raises(ValueError, match=r"reward 5.5 of arm 0 is not in \(-inf, 5\]"):
        below.update(0, 5.5)
    np.testing.assert_array_equal(below.means, [-48.0, 5.0])
    with pytest.raises(ValueError, match="exponential rewards"):
        mb.policy("exp-kl-ms", 2, family="exponential", rewards=(0, 1))
    with pytest.raises(ValueError, match=r"reward 0.0 of arm 1"):
        mb.policy("exp-kl-ms", 2, family="exponential").update(1, 0.0)
    for top in (-3.1, -1.7, 1e16, 1e100):
        edge = mb.policy("med", 2, rewards=(-math.inf, top))
        edge.update([0, 1], [top, top])
        np.testing.assert_array_equal(edge._state[1], 1.0)
        edge.update([0], [top - abs(top) * 1e-15 - 1e-9])
        assert edge._state[1, 0] <= 2.0
    for name in ("imed", "dmed"):
        with pytest.raises(ValueError, match="bounded interval"):
            mb.policy(name, 2, divergence="kl", rewards=(-math.inf, 1.0))
    with pytest.raises(ValueError, match="reward 1e\\+300"):
        mb.policy("ms", 2, rewards=(-math.inf, math.inf)).update(0, 1e300)
    whole = mb.policy("kl-ms", 2)
    for reward in (True, 1, np.float32(0.5), np.int8(1), np.array(0.25)):
        whole.update(0, reward)
    assert whole.pulls[0] == 5


def test_counts_are_the_same_as_rewards() -> None:
    history = random_history(1, 3, 50, binary=False)
    for name, squares in (("kl-ms", False), ("ucb-v", True), ("thompson", False)):
        one = replay(mb.policy(name, 3, rewards=(-1, 3)), history)
        other = mb.policy(name, 3, rewards=(-1, 3))
        for part in (history[:20], history[20:]):
            rewards = [[r for a, r, _ in part if a == arm] for arm in range(3)]
            given = [np.array([f(r) for r in rewards]) for f in (len, sum)]
            if squares:
                given.append(np.array([sum(x * x for x in r) for r in rewards]))
            other.update_counts(*given)
        np.testing.assert_array_equal(other.pulls, one.pulls)
        np.testing.assert_allclose(other.means, one.means, rtol=1e-12)
        np.testing.assert_allclose(other.probabilities(), one.probabilities(), rtol=1e-9)
        assert other.round == one.round == 51


def test_impossible_counts() -> None:
    policy = mb.policy("kl-ms", ["a", "b"])
    before = policy.state()
    for pulls, totals, message in (
        ([-1, 2], [0, 1], "pulls of arm 'a' must be a count"),
        ([1.5, 2], [0, 1], "pulls of arm 'a' must be a count"),
        ([1, math.nan], [0, 1], "pulls of arm 'b' must be a count"),
        ([1, 2], [0, 3], "total 3 of arm 'b' is impossible"),
        ([1, 0], [0, 1], "total 1 of arm 'b' is impossible"),
        ([1, 2], [0, math.nan], "total nan of arm 'b'"),
        ([1e300, 2], [0, 1], "pulls of arm 'a' must be a count"),
        ([10**400, 2], [0, 1], "pulls must be numbers"),
        ([1], [0], "one number for each of 2 arms"),
    ):
        with pytest.raises(ValueError, match=message):
            policy.update_counts(pulls, totals)
    assert policy.state() == before
    with pytest.raises(ValueError, match="needs single rewards"):
        mb.policy("exp3", 2).update_counts([1, 1], [0, 1])
    with pytest.raises(ValueError, match="binarises"):
        mb.policy("kl-ms", 2, binarise=1).update_counts([1, 1], [0, 1])
    with pytest.raises(ValueError, match="squares"):
        mb.policy("ucb-v", 2).update_counts([1, 1], [0, 1])
    for squares in ([1e9, 1.0], [0.0, -5.0], [0.0, math.nan], [0.0, 0.5]):
        with pytest.raises(ValueError, match="squares of arm"):
            mb.policy("ucb-v", 2).update_counts([1, 1], [0, 1], squares)
    with pytest.raises(ValueError, match="total 0 of arm 0"):
        mb.policy("exp-kl-ms", 2, family="exponential").update_counts([5, 5], [0, 1])


@pytest.mark.parametrize("name", ["exp3", "exp3-ix", "exp3++", "tsallis-inf"])
def test_propensities_come_back(name: str) -> None:
    policy = mb.policy(name, 2)
    with pytest.raises(ValueError, match="propensity of the time"):
        policy.update(0, 1.0)
    for propensity in (0.0, -0.1, 1.5, math.nan, "half", 5e-324):
        with pytest.raises(ValueError, match="propensity"):
            policy.update(0, 1.0, propensity=propensity)
    for round in (0, -4, "x", None, 2.0):
        with pytest.raises(ValueError, match="round of a decision"):
            policy.update(mb.Decision(0, 0.5, math.log(0.5), round), 1.0)
    policy.update([], [])
    assert policy.round == 1
    policy.update(0, 1.0, propensity=0.5)
    assert policy.round == 2


def test_states_of_other_things_are_refused() -> None:
    for state, message in (
        ("{", "not JSON"),
        ("[]", "not the state"),
        ({}, "not the state"),
        ({"format": 1}, "not the state"),
        ({"format": 2, "policy": "kl-ms"}, "format 2"),
        ({"format": 1, "policy": "kl-sm"}, "unknown policy"),
        ({"format": 1, "policy": "kl-ms"}, "missing"),
    ):
        with pytest.raises(ValueError, match=message):
            mb.from_state(state)  # type: ignore[arg-type]


def test_parameters_are_fixed() -> None:
    policy = mb.policy("ms", 2)
    for name, value in (("variance", 3.0), ("floor", 0.5), ("rewards", (0, 2)), ("initial", "x")):
        with pytest.raises(AttributeError):
            setattr(policy, name, value)


def test_labels_of_numpy_become_plain() -> None:
    policy = mb.policy("kl-ms", np.array([3, 5]))
    policy.add_arm(np.int64(7))
    policy.update(np.int64(7), 1.0)
    policy.retire_arm(np.int64(5))
    assert json.loads(json.dumps(policy.state()))["arms"] == [3, 7]
    for label in (7.0, True, None, ["x"]):
        with pytest.raises(ValueError, match="arm"):
            policy.retire_arm(label)


def test_a_failed_first_use_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt while the formula is compiled must not leave an empty distribution behind."""
    policy = mb.policy("kl-ms", 2)

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(policy, "_choose", interrupted)
        with pytest.raises(KeyboardInterrupt):
            policy.probabilities()
    np.testing.assert_array_equal(policy.probabilities(), [0.5, 0.5])


def test_npts_shares_ties_and_keeps_its_floor() -> None:
    rng = np.random.default_rng(0)
    ties = mb.policy("npts", 4)
    ties.update(0, 0.5)
    counts = np.bincount(ties.decide(rng, size=3_000).arm, minlength=4)
    assert counts[0] == 0
    assert np.all(np.abs(counts[1:] - 1_000) < 6 * math.sqrt(3_000 * 2 / 9))
    floored = mb.policy("npts", 2, floor=1.0)
    floored.update([0, 1] * 20, [0.999, 0.001] * 20)
    assert abs(sum(floored.decide(rng, size=2_000).arm) - 1_000) < 6 * math.sqrt(500)


def test_npts_does_not_pretend() -> None:
    policy = mb.policy("npts", ["a", "b", "c"])
    policy.update(["a", "b", "c"], [1.0, 0.0, 0.5])
    for method in (policy.probabilities, policy.log_probabilities):
        with pytest.raises(mb.InexactProbabilityError, match="binarise"):
            method()
    rng = np.random.default_rng(0)
    decision = policy.decide(rng)
    assert math.isnan(decision.propensity)
    assert math.isnan(decision.log_propensity)
    batch = policy.decide(rng, size=3_000, eligible=["b", "c"])
    counts = [batch.arm.count(arm) for arm in "abc"]
    # θ_b = w with w uniform on [0, 1], θ_c = ½(1 + w'): P(θ_b > θ_c) = E[(1 − w')/2] = 1/4.
    assert counts[0] == 0
    assert abs(counts[1] - 750) < 6 * math.sqrt(3_000 * 3 / 16)
    policy.update(batch[:3], [0.1, 0.2, 0.3])
    assert mb.from_state(json.dumps(policy.state())).round == 7


def test_tsallis_rv_needs_its_decision() -> None:
    """Its baseline goes to every arm that was likely at the time, later arms left alone."""
    policy = mb.policy("tsallis-inf", ["a", "b"], estimator="rv")
    rng = np.random.default_rng(0)
    for _ in range(40):
        policy.update(policy.decide(rng), 1.0)
    decision = policy.decide(rng)
    assert set(decision.note) <= {"a", "b"}
    policy.add_arm("c")
    policy.retire_arm("b" if decision.arm == "a" else "a")
    policy.update(mb.Decision.from_dict(decision.to_dict()), 0.0)
    assert abs(policy.probabilities().sum() - 1.0) <= 1e-12


def test_fixed_never_has_an_empty_distribution() -> None:
    policy = mb.policy("fixed", 3, weights=[1, 0, 0])
    with pytest.raises(ValueError, match="positive weight"):
        policy.probabilities(eligible=[1, 2])
    with pytest.raises(ValueError, match="positive weight"):
        policy.retire_arm(0)
    np.testing.assert_array_equal(policy.probabilities(), [1, 0, 0])


def test_fixed_keeps_its_proportions() -> None:
    policy = mb.policy("fixed", ["a", "b", "c"], weights=[1, 2, 5])
    np.testing.assert_allclose(policy.probabilities(), [1 / 8, 2 / 8, 5 / 8])
    np.testing.assert_allclose(policy.probabilities(eligible=["a", "b"]), [1 / 3, 2 / 3, 0])
    policy.retire_arm("b")
    np.testing.assert_allclose(policy.probabilities(), [1 / 6, 5 / 6])
    np.testing.assert_allclose(mb.from_state(policy.state()).probabilities(), [1 / 6, 5 / 6])
    for weights, message in (
        ([1, 2], "2 weights for 3 arms"),
        ([0, 0, 0], "must be positive"),
        ([1, 2, -1], "weights must be"),
        (3, "one number for each arm"),
    ):
        with pytest.raises(ValueError, match=message):
            mb.policy("fixed", 3, weights=weights)


def test_representation() -> None:
    policy = mb.policy("ms", ["a", "b"], variance=1)
    assert repr(policy) == "MS(['a', 'b'], variance=1.0, booster=1.0, seen=0)"
    assert "horizon" in str(mb.MOSS.__signature__)
    batch = policy.decide(np.random.default_rng(0), size=3)
    assert repr(batch) == "Decisions(3 at round 1)"
    assert batch[1:] == [batch[1], batch[2]]
