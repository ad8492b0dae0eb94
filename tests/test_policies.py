"""Every policy's probabilities and indices against the slow oracles of naive.py."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import maillard as mb
import naive
from histories import counts_history, exactly, random_history, replay

#: The catalogue's word for what the oracles call otherwise.
RENAMED = {"ms-booster": "ms", "kl-ms-booster": "kl-ms"}
F = {"1+t ln^2 t": "1+t-log2-t", "ln t + c ln ln t": "log-t"}

#: What a policy's probabilities may be wrong by, relatively; quadrature is allowed more.
TOLERANCE = 1e-11


def ours(slug: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The catalogue's name and parameters for those of an oracle."""
    given = dict(params)
    if "alpha" in given and slug in ("kl-ms-kt", "thompson", "top-two-thompson"):
        given["prior"] = (given.pop("alpha"), given.pop("beta"))
    if slug.endswith("-booster"):
        given["booster"] = given.pop("B")
    if slug == "kl-ucb":
        given["f"] = F[given["f"]]
    if slug == "exp3++":
        given["version"] = str(given["version"])
    if slug == "fixed":
        given["weights"] = given.pop("probabilities")
    return RENAMED.get(slug, slug), given


CASES = [
    pytest.param(slug, params, id=f"{slug}-{i}")
    for slug, examples in naive.EXAMPLES.items()
    for i, params in enumerate(examples)
    if not (slug == "ucb1" and params)  # Auer's constant is the only one that we offer
]


def histories(slug: str, params: dict[str, Any]) -> list[tuple[int, Any]]:
    """(arms, history) pairs that a policy of this kind is tried on."""
    family = params.get("family")
    if family in ("poisson", "geometric", "gaussian", "exponential"):
        cases = []
        for seed in range(4):
            drawn = random_history(seed, 3, 12 + 6 * seed, binary=False)
            cases.append((3, [(a, 4 * r + 0.25, p) for a, r, p in drawn]))
        return cases
    cases = [(3, random_history(seed, 3, 5 + 9 * seed)) for seed in range(4)]
    cases += [(2, random_history(10, 2, 40)), (5, random_history(11, 5, 60))]
    cases += [(3, counts_history([1, 1, 1], [1, 0, 1])), (3, counts_history([4, 2, 3], [0, 0, 0]))]
    cases += [(3, counts_history([4, 2, 3], [4, 2, 2])), (3, counts_history([3, 6, 9], [1, 2, 2]))]
    if slug != "npts":
        cases += [(3, random_history(20 + seed, 3, 30, binary=False)) for seed in range(3)]
    if slug == "fixed":
        cases = [case for case in cases if case[0] == 3]
    return cases


@pytest.mark.slow
@pytest.mark.parametrize(("slug", "params"), CASES)
def test_probabilities_match_the_oracle(slug: str, params: dict[str, Any]) -> None:
    name, given = ours(slug, params)
    for arms, history in histories(slug, params):
        policy = replay(mb.policy(name, arms, **given), history)
        expected = naive.ORACLES[slug](exactly(history), arms, params)
        p, log_p = policy.probabilities(), policy.log_probabilities()
        for a in range(arms):
            want = float(expected[a])
            assert p[a] == pytest.approx(want, rel=TOLERANCE, abs=1e-250), (history, p, expected)
            if expected[a] > 0:
                assert log_p[a] == pytest.approx(float(naive.mp.log(expected[a])), abs=TOLERANCE)
            else:
                assert log_p[a] == -np.inf


@pytest.mark.parametrize(
    ("slug", "params"), [case for case in CASES if case.values[0] in naive.INDICES]
)
def test_indices_match_the_oracle(slug: str, params: dict[str, Any]) -> None:
    name, given = ours(slug, params)
    for arms, history in histories(slug, params):
        policy = replay(mb.policy(name, arms, **given), history)
        expected = [float(x) for x in naive.INDICES[slug](exactly(history), arms, params)]
        assert policy.indices() == pytest.approx(expected, rel=1e-12, abs=1e-13)


def test_indices_keep_their_digits_where_an_arm_has_nearly_all_pulls() -> None:
    """ln(t/N) with t = N + 4 and ln₊(t/(KN)) with t = KN + 1 are tiny, and so are the indices."""
    policy = mb.policy("kl-ucb+", 2)
    policy.update_counts([3, 994_552], [2.0, 0.0])
    level = naive.ln(Fraction(994_556, 994_552)) / 994_552
    expected = 1 - naive.mp.exp(-level)
    assert policy.indices()[1] == pytest.approx(float(expected), rel=1e-14)
    policy = mb.policy("moss-anytime", 2)
    policy.update_counts([10**6, 10**6], [0.0, 1.0])
    level = naive.ln(Fraction(2 * 10**6 + 1, 2 * 10**6)) / 10**6
    expected = naive.mp.sqrt(naive.real(2.35) / 2 * level)
    assert policy.indices()[0] == pytest.approx(float(expected), rel=1e-14)


def test_bernoulli_med_is_kl_ms() -> None:
    for seed in range(20):
        history = random_history(seed, 4, 60)
        med = replay(mb.policy("med", 4), history).log_probabilities()
        klms = replay(mb.policy("kl-ms", 4), history).log_probabilities()
        np.testing.assert_allclose(med, klms, rtol=1e-12, atol=1e-12)


def test_bernoulli_exp_kl_ms_without_offset_is_kl_ms() -> None:
    history = random_history(3, 4, 60)
    exp = replay(mb.policy("exp-kl-ms", 4, family="bernoulli", offset=0), history)
    klms = replay(mb.policy("kl-ms", 4), history)
    np.testing.assert_array_equal(exp.log_probabilities(), klms.log_probabilities())


def test_log_probabilities_outlive_their_probabilities() -> None:
    policy = mb.policy("kl-ms", 2)
    policy.update_counts([2_000_000, 2_000_000], [200_000, 1_800_000])
    p, log_p = policy.probabilities(), policy.log_probabilities()
    assert p[0] == 0.0
    exact = -2_000_000 * naive.kl(naive.real(0.1), naive.real(0.9))
    # The means are doubles: 0.1 is not 1/10, and kl is taken between what they are.
    assert log_p[0] == pytest.approx(float(exact), rel=1e-14)
    assert log_p[1] == 0.0


def test_a_zero_is_reported_as_a_zero() -> None:
    policy = mb.policy("kl-ms", 3)
    policy.update([0, 1, 2], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(policy.probabilities(), [0.5, 0.0, 0.5])
    assert policy.log_probabilities()[1] == -np.inf
    floored = mb.policy("kl-ms", 3, floor=0.3)
    floored.update([0, 1, 2], [1.0, 0.0, 1.0])
    np.testing.assert_allclose(floored.probabilities(), [0.45, 0.1, 0.45], rtol=1e-15)
    smoothed = mb.policy("kl-ms-kt", 3)
    smoothed.update([0, 1, 2], [1.0, 0.0, 1.0])
    assert smoothed.probabilities()[1] > 0.0


def test_kl_ms_may_give_an_arm_more_than_ms_does() -> None:
    """The paper's remark that it never does holds for two arms only."""
    klms, ms = mb.policy("kl-ms", 3), mb.policy("ms", 3)
    for policy in (klms, ms):
        policy.update_counts([20, 10, 4], [11.0, 5.0, 0.2])
    assert klms.probabilities()[1] > ms.probabilities()[1]
    two = [mb.policy(name, 2) for name in ("kl-ms", "ms")]
    for n, s in itertools.product([1, 3, 10], repeat=2):
        for policy in two:
            policy.update_counts([n, s], [n * 0.75, s * 0.25])
        assert two[0].probabilities()[1] <= two[1].probabilities()[1] * (1 + 1e-12)


def own_history(name: str, given: dict[str, Any], arms: int, length: int, seed: int) -> Any:
    """What a policy that chooses for itself sees, and the policy at the end."""
    choices, rewards = np.random.default_rng(seed), np.random.default_rng(seed + 100)
    policy = mb.policy(name, arms, initial="in-order", **given)
    history = []
    for _ in range(length):
        decision = policy.decide(choices)
        reward = float(rewards.random() < 0.3 + 0.4 * decision.arm / arms)
        policy.update(decision, reward)
        history.append((decision.arm, reward, decision.propensity))
    return policy, history


@pytest.mark.parametrize(
    ("slug", "params"),
    [c for c in CASES if c.values[0] in ("dmed", "efficient-ucb-v", "exp3", "exp3++", "exp3-ix")],
)
def test_sequential_policies_match_the_oracle_along_their_own_way(
    slug: str, params: dict[str, Any]
) -> None:
    name, given = ours(slug, params)
    for length in (4, 7, 12, 20, 35):
        policy, history = own_history(name, given, 3, length, seed=length)
        expected = naive.ORACLES[slug](exactly(history), 3, params)
        assert policy.probabilities() == pytest.approx([float(x) for x in expected], rel=1e-11)
