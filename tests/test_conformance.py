"""What every policy of the catalogue must do, without being named here."""

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maillard as mb
from histories import needed, random_history, replay
from maillard import compiled

CATALOGUE = mb.catalogue()
#: Cheap enough for many states: the others are tried on fewer.
EXAMPLES = 8 if compiled.disabled() else 25

#: What float() would take, or change, without a word.
NO_NUMBERS: list[Any] = [
    "1", None, [1.0, 0.0], np.array("1"), np.array([1.0]), np.complex64(1.0), bytearray(b"1"),
    np.timedelta64(1, "s"), np.ma.masked, memoryview(b"1"),
]  # fmt: skip

every_policy = pytest.mark.parametrize("name", CATALOGUE)


def make(name: str, arms: Any, **given: Any) -> mb.Policy:
    """A policy with what it needs."""
    count = arms if isinstance(arms, int) else len(arms)
    return mb.policy(name, arms, **{**needed(CATALOGUE[name], count), **given})


def brought(name: str, arms: Any, seed: int, length: int, **given: Any) -> mb.Policy:
    """A policy that has seen a random binary history."""
    count = arms if isinstance(arms, int) else len(arms)
    return replay(make(name, arms, **given), random_history(seed, count, length))


def check_distribution(policy: mb.Policy) -> None:
    """On the simplex, and p and log p tell the same story."""
    p, log_p = policy.probabilities(), policy.log_probabilities()
    assert p.shape == log_p.shape == (len(policy.arms),)
    assert np.all(p >= 0.0)
    assert abs(p.sum() - 1.0) <= 1e-12
    big = p > 1e-250
    np.testing.assert_allclose(np.exp(log_p[big]), p[big], rtol=1e-10)
    assert np.all(log_p[~big] <= math.log(1e-249))


@every_policy
def test_the_catalogue_tells_all(name: str) -> None:
    entry = mb.describe(CATALOGUE[name])
    for key in ("title", "description", "formula", "reference", "setting", "probabilities"):
        assert entry[key], key
    assert len(entry["description"].splitlines()[0]) <= 110
    for parameter in entry["parameters"]:
        assert parameter["help"]
        assert parameter["range"]
    json.dumps(entry)
    policy = eval(entry["example"], {"mb": mb})
    assert isinstance(policy, CATALOGUE[name])
    assert getattr(mb, entry["class"]) is CATALOGUE[name]


@every_policy
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 10_000), arms=st.integers(2, 6), length=st.integers(0, 60))
def test_simplex(name: str, seed: int, arms: int, length: int) -> None:
    check_distribution(brought(name, arms, seed, length))


@every_policy
def test_first_choice(name: str) -> None:
    shuffled, in_order = make(name, 4), make(name, 4, initial="in-order")
    if name != "fixed":
        np.testing.assert_allclose(shuffled.probabilities(), 0.25, rtol=1e-12)
    if in_order.forced:
        np.testing.assert_array_equal(in_order.probabilities(), [1, 0, 0, 0])
        rng = np.random.default_rng(0)
        for expected in range(4):
            decision = in_order.decide(rng)
            assert (decision.arm, decision.propensity) == (expected, 1.0)
            in_order.update(decision, 0.5 if name != "npts" else 1.0)


@every_policy
@pytest.mark.parametrize("length", [0, 2, 5, 37])
def test_state_round_trip_keeps_every_bit(name: str, length: int) -> None:
    before = brought(name, ["red", "green", "blue"], 5, length)
    rng = np.random.default_rng(1)
    for text in (json.dumps(before.state()), before.state()):
        after = mb.from_state(text)
        assert type(after) is type(before)
        np.testing.assert_array_equal(after.log_probabilities(), before.log_probabilities())
        assert after.state() == before.state()
    after = pickle.loads(pickle.dumps(before))
    for _ in range(5):
        decision = before.decide(rng)
        for policy in (before, after):
            policy.update(decision, 1.0)
        np.testing.assert_array_equal(after.probabilities(), before.probabilities())


@every_policy
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 10_000), length=st.integers(4, 40), order=st.permutations(range(4)))
def test_relabelling(name: str, seed: int, length: int, order: list[int]) -> None:
    """Another order of the arms permutes the distribution and changes nothing else."""
    history = random_history(seed, 4, length)
    where = {arm: position for position, arm in enumerate(order)}
    weights = {"weights": [1.0 + a for a in order]} if name == "fixed" else {}
    one = replay(make(name, 4), history)
    other = replay(make(name, 4, **weights), [(where[a], r, p) for a, r, p in history])
    if name == "dmed":  # plays its lists in the order of the arms: only the lists are the same
        return
    np.testing.assert_allclose(
        other.log_probabilities(), one.log_probabilities()[list(order)], rtol=1e-9, atol=1e-9
    )


@every_policy
def test_equal_arms_have_equal_probabilities(name: str) -> None:
    if name in ("fixed", "dmed"):
        pytest.skip("an arm's place matters by design")
    for arms in (2, 3, 17, 40):  # on both sides of the width of a vector register
        policy = make(name, arms)
        for reward in (1.0, 0.0, 0.0):
            # Simultaneous updates, all of one propensity: the arms stay interchangeable.
            note = policy._note(policy.arms, policy.probabilities())
            batch = [mb.Decision(a, 0.25, math.log(0.25), 1, note) for a in range(arms)]
            policy.update(batch, [reward] * arms)
        p = policy.probabilities()
        np.testing.assert_allclose(p, 1.0 / arms, rtol=1e-10)
        if policy.exactness.startswith("closed form"):
            assert len(set(p.tolist())) == 1


@every_policy
def test_rewards_scale_with_their_range(name: str) -> None:
    cls = CATALOGUE[name]
    if "bounded" not in cls.ranges:
        pytest.skip("not for bounded rewards")
    options = {"family": "bernoulli"} if name == "exp-kl-ms" else {}
    one, other = make(name, 3, **options), make(name, 3, rewards=(-4.0, 12.0), **options)
    history = random_history(2, 3, 40)
    for policy, scale, shift in ((one, 1.0, 0.0), (other, 16.0, -4.0)):
        replay(policy, [(a, shift + scale * r, p) for a, r, p in history])
    np.testing.assert_array_equal(one.log_probabilities(), other.log_probabilities())
    np.testing.assert_allclose(other.means, -4.0 + 16.0 * one.means, rtol=1e-14)


@every_policy
def test_late_and_batched_rewards(name: str) -> None:
    """Decisions first, rewards later; one at a time or together gives the same policy."""
    rng = np.random.default_rng(3)
    one, many = brought(name, 3, 4, 12), brought(name, 3, 4, 12)
    before = one.probabilities()
    batch = one.decide(rng, size=20)
    np.testing.assert_array_equal(one.probabilities(), before)
    assert len(batch) == len(list(batch)) == len(batch.arm) == 20
    for decision in batch:
        assert decision.propensity == before[decision.arm]
        assert decision.round == 13
    rewards = (rng.random(20) < 0.5).astype(float)
    many.update(batch, rewards)
    for decision, reward in zip(batch, rewards, strict=True):
        one.update(mb.Decision.from_dict(json.loads(json.dumps(decision.to_dict()))), reward)
    np.testing.assert_array_equal(one.log_probabilities(), many.log_probabilities())


@every_policy
def test_eligible_arms(name: str) -> None:
    policy = brought(name, ["a", "b", "c", "d"], 6, 30)
    rng = np.random.default_rng(0)
    before = policy.state()
    p = policy.probabilities(eligible=["d", "b"])
    assert p[0] == p[2] == 0.0
    assert abs(p.sum() - 1.0) <= 1e-12
    for _ in range(5):
        decision = policy.decide(rng, eligible=["b", "d"])
        assert decision.arm in ("b", "d")
        assert decision.propensity == p["abcd".index(decision.arm)]
    assert policy.decide(rng, eligible=["c"]).propensity == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_array_equal(
        policy.probabilities(eligible=list("abcd")), policy.probabilities()
    )
    assert policy.state() == before


@every_policy
def test_arms_come_and_go(name: str) -> None:
    policy = brought(name, ["a", "b", "c"], 7, 30)
    rng = np.random.default_rng(0)
    policy.retire_arm("b")
    assert policy.arms == ("a", "c")
    check_distribution(policy)
    with pytest.raises(ValueError, match="'b' was retired"):
        policy.update("b", 1.0, propensity=0.5)
    if name == "fixed":
        with pytest.raises(ValueError, match="new arm"):
            policy.add_arm("d")
        assert policy.arms == ("a", "c")
    else:
        policy.add_arm("d")
        assert policy.arms == ("a", "c", "d")
        if policy.forced:
            np.testing.assert_array_equal(policy.probabilities(), [0.0, 0.0, 1.0])
    for _ in range(10):
        policy.update(policy.decide(rng), float(rng.random() < 0.5))
        check_distribution(policy)
    again = mb.from_state(json.loads(json.dumps(policy.state())))
    np.testing.assert_array_equal(again.log_probabilities(), policy.log_probabilities())
    with pytest.raises(ValueError, match="retired"):
        again.add_arm("b")
    if name == "fixed":
        return
    policy.retire_arm("d")
    with pytest.raises(ValueError, match="two arms"):
        policy.retire_arm("a")


@every_policy
def test_floor(name: str) -> None:
    plain, floored = (brought(name, 4, 8, 30, floor=e) for e in (0.0, 0.2))
    if plain.needs_propensity and name == "tsallis-inf":
        pass  # the same propensities were replayed to both
    np.testing.assert_allclose(
        floored.probabilities(), 0.8 * plain.probabilities() + 0.05, rtol=1e-12
    )
    np.testing.assert_allclose(
        floored.log_probabilities(), np.log(floored.probabilities()), rtol=1e-12, atol=1e-15
    )


@every_policy
def test_choices_follow_the_probabilities(name: str) -> None:
    """A million draws from one state; the chance of a false alarm is 1e-9 for each policy."""
    draws = 20_000 if compiled.disabled() else 1_000_000
    policy = brought(name, 4, 9, 12)
    p = policy.probabilities()
    batch = policy.decide(np.random.default_rng(11), size=draws)
    counts = np.bincount(batch._index, minlength=4)
    # Many choices at once are the ones that would have been made one by one.
    one_by_one = np.random.default_rng(11)
    for decision in batch[:20]:
        assert decision == policy.decide(one_by_one)
    assert np.all(counts[p == 0.0] == 0)
    # Bernstein's inequality, two-sided, over four arms.
    log_term = math.log(8.0 / 1e-9)
    slack = np.sqrt(2.0 * draws * p * (1.0 - p) * log_term) + 2.0 * log_term / 3.0
    assert np.all(np.abs(counts - draws * p) <= slack)


@every_policy
def test_misuse_leaves_the_state_alone(name: str) -> None:
    policy = brought(name, ["a", "b", "c"], 10, 20)
    before = policy.state()
    p = 0.5
    low, high = policy.rewards
    bad: list[tuple[Any, Any, str]] = [
        ("z", 1.0, "unknown arm 'z'"),
        (["a", "z"], [1.0, 1.0], "unknown arm 'z'"),
        ("a", math.nan, "reward nan of arm 'a'"),
        ("a", math.inf, "reward inf of arm 'a'"),
        ("a", 10**400, "one number"),
        (["a"], "1", "1 choices but"),
        (["a", "b"], [1.0, "x"], "of arm 'b'"),
        *(("a", reward, "one number") for reward in NO_NUMBERS),
        (True, 1.0, "unknown arm True"),
        (1.0, 1.0, "unknown arm 1.0"),
        ([["a"]], [1.0], "unknown arm"),
        (["a", "b"], [1.0], "2 choices but 1 rewards"),
        (["a", "b"], {0: 1.0, 1: 1.0}, "2 choices but rewards is"),
        ({"a", "b"}, [1.0, 1.0], "unknown arm"),
        (["a", "b"], [1.0, math.nan], "reward nan of arm 'b'"),
    ]
    if math.isfinite(high):
        bad.append(("b", high + 0.5, "of arm 'b'"))
    if math.isfinite(low):
        bad.append((["c", "b"], [high if math.isfinite(high) else 1.0, low - 0.5], "of arm 'b'"))
    for choice, reward, message in bad:
        count = len(choice) if isinstance(choice, list) else 0
        with pytest.raises(ValueError, match=message):
            policy.update(choice, reward, propensity=[p] * count if count else p)
        assert policy.state() == before
    for eligible in ([], "ab", 5):
        with pytest.raises(ValueError, match="eligible must"):
            policy.probabilities(eligible=eligible)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown arm"):
        policy.probabilities(eligible=["a", "q"])
    with pytest.raises(TypeError, match="Generator"):
        policy.decide(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Generator"):
        policy.decide(7, size=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size"):
        policy.decide(np.random.default_rng(0), size=0)
    assert policy.state() == before


@every_policy
def test_parameters_are_validated(name: str) -> None:
    cls = CATALOGUE[name]
    with pytest.raises(ValueError, match="has no parameter 'wrong'"):
        make(name, 3, wrong=1)
    for parameter, spec in cls._declared.items():
        if spec.required:
            others = {k: v for k, v in needed(cls, 3).items() if k != parameter}
            with pytest.raises(ValueError, match=f"{parameter}="):
                mb.policy(name, 3, **others)
        bad: list[Any] = [math.nan, "nonsense"]
        if math.isfinite(spec.low):
            bad.append(spec.low - 1)
        if math.isfinite(spec.high):
            bad.append(spec.high + 1)
        for value in bad:
            given = (value,) * len(spec.parts) if len(spec.parts) > 1 else value
            given = [value] * 3 if spec.vector else given
            with pytest.raises(ValueError, match=parameter):
                make(name, 3, **{parameter: given})


@every_policy
def test_binarised_rewards(name: str) -> None:
    cls = CATALOGUE[name]
    if "bounded" not in cls.ranges:
        pytest.skip("not for bounded rewards")
    options = {"family": "bernoulli"} if name == "exp-kl-ms" else {}
    one, two = (make(name, 3, rewards=(0, 10), binarise=4, **options) for _ in range(2))
    history = [(a, 10 * r, p) for a, r, p in random_history(12, 3, 30, binary=False)]
    replay(one, history)
    np.testing.assert_array_equal(one._state[1], np.round(one._state[1]))
    raw = [np.mean([r for b, r, _ in history if b == a]) for a in range(3)]
    np.testing.assert_allclose(one.means, raw, rtol=1e-12)
    # The coin goes on where it stopped.
    replay(two, history[:10])
    restored = mb.from_state(json.dumps(two.state()))
    for policy in (two, restored):
        replay(policy, history[10:])
        np.testing.assert_array_equal(policy.probabilities(), one.probabilities())


@every_policy
def test_damaged_states_are_refused(name: str) -> None:
    state = brought(name, 3, 13, 10).state()
    for key in state:
        broken = {k: v for k, v in state.items() if k != key}
        with pytest.raises(ValueError, match=r"missing|not the state"):
            mb.from_state(broken)
    statistics = state["statistics"]
    for change in (
        {"statistics": {**statistics, "pulls": [-1.0, 1.0, 1.0]}},
        {"statistics": {**statistics, "pulls": [1.0, 1.0]}},
        {"statistics": {**statistics, "total": [math.nan, 1.0, 1.0]}},
        {"statistics": {}},
        {"seen": 10_000},
        {"seen": "ten"},
        {"arms": ["a", "a", "b"]},
        {"floor": 2.0},
        {"seen": 10**400},
        {"arms": 10**30},
        {"retired": [["x", {"pulls": math.nan, "total": 0.0}]]},
        {"retired": [[1.5, {"pulls": 0, "total": 0.0}]]},
        {"retired": [["x", {"pulls": -3, "total": 0.0}]]},
        {"retired": [[state["arms"][0], {"pulls": 0, "total": 0.0}]]},
        {"retired": [["x", {"pulls": 0}]]},
        {"retired": None},
        {"parameters": [1]},
        {"rewards": "01"},
        {"coin": 5},
        {"statistics": {**statistics, "total": [1e308, 1.0, 1.0]}},
        {"statistics": {**statistics, "total": [True, 1.0, 1.0]}},
        *(
            {"statistics": {**statistics, row: [-0.5, 1.0, 1.0]}}
            for row in ("spread", "place", "active", "weight")
            if row in statistics
        ),
        *({"laws": laws} for laws in (None, [None] * 3, [[["x", 1]]] * 3) if "laws" in state),
    ):
        with pytest.raises(ValueError, match="damaged") as raised:
            mb.from_state({**state, **change})
        assert "object" not in str(raised.value).replace("an object", "")  # no Python in it
    with pytest.raises(ValueError, match="format 99"):
        mb.from_state({**state, "format": 99})
