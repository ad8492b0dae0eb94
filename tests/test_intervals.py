"""Intervals: against other arithmetic, brute force, and their own promise in simulations."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from maillard.evaluation import passes
from maillard.evaluation.arrays import ArrayLog
from maillard.evaluation.evaluation import Evaluation, evaluate
from maillard.evaluation.likelihood import budget_of, likelihood_ends
from maillard.evaluation.sequences import (
    _CEILINGS,
    _SHARES,
    _last_refuted,
    arm_bounds,
    hedged_interval,
    kt_interval,
    lower_bound,
    pseudo_outcomes,
)
from maillard.evaluation.targets import Fixed


def most_misses(trials: int, rate: float) -> int:
    """More misses than this happen with probability at most 1e-6 at this rate."""
    return int(stats.binom.isf(1e-6, trials, rate))


def ends(found: Evaluation, estimator: str, interval: str) -> tuple[float, float]:
    one = next(e for e in found.estimates if (e.estimator, e.interval) == (estimator, interval))
    return one.low, one.high


def uniform_log(seed: int, rows: int, means: Any = (0.3, 0.6)) -> ArrayLog:
    rng = np.random.default_rng(seed)
    arms = len(means)
    arm = rng.integers(0, arms, rows)
    reward = (rng.random(rows) < np.array(means)[arm]).astype(float)
    return ArrayLog(arms, arm, np.full(rows, 1 / arms), reward, np.full((rows, arms), 1 / arms))


# --------------------------------------------------------------------------------------------------
# The KT mixture


@pytest.mark.parametrize(
    ("n", "s"),
    [(1, 0), (1, 1), (1, 0.3), (10, 4), (10, 10), (7, 0), (1000, 1), (10**4, 9000.5), (10**7, 3e6)],
)
@pytest.mark.parametrize("alpha", [0.05, 1e-4])
def test_kt_ends_against_sixty_digits(n: int, s: float, alpha: float) -> None:
    """At the ends the mixture's likelihood ratio is 1/α, or the end is 0 or 1."""
    with mpmath.workdps(60):
        low, high = (mpmath.mpf(float(x)) for x in kt_interval(n, s, alpha))
        s_, rest = mpmath.mpf(s), n - mpmath.mpf(s)

        def evidence(mu: Any) -> Any:
            mixture = mpmath.beta(s_ + 0.5, rest + 0.5) / mpmath.beta(0.5, 0.5)
            return mixture / (mu**s_ * (1 - mu) ** rest) * alpha

        mean = s_ / n
        assert low <= mean <= high
        assert evidence(mean) < 1
        tolerance = mpmath.mpf("1e-4")
        if s == 0:
            assert low == 0
        else:
            assert abs(evidence(low) - 1) < tolerance
        if s == n:
            assert high == 1
        else:
            assert abs(evidence(high) - 1) < tolerance


def test_kt_of_nothing_says_nothing() -> None:
    low, high = kt_interval([0, 0], [0.0, 0.0], 0.05)
    assert low.tolist() == [0.0, 0.0]
    assert high.tolist() == [1.0, 1.0]


def test_kt_takes_arrays_of_any_shape() -> None:
    n, s = np.array([[5, 10], [20, 40]]), np.array([[1.0, 7.0], [3.0, 39.0]])
    low, high = kt_interval(n, s, 0.05)
    for i in np.ndindex(2, 2):
        one = kt_interval(n[i], s[i], 0.05)
        assert (low[i], high[i]) == (float(one[0]), float(one[1]))


def test_arm_bounds_and_the_best_arm() -> None:
    found = arm_bounds([100, 1000, 5], [20.0, 900.0, 3.0])
    assert found.best_arms.tolist() == [False, True, True]
    low, high = found.best_mean
    assert low == found.low[1]
    assert high == max(found.high)
    scaled = arm_bounds([100, 1000, 5], [-60.0, 800.0, 1.0], rewards=(-1.0, 1.0))
    np.testing.assert_allclose(scaled.low, 2.0 * found.low - 1.0, atol=1e-12)


# --------------------------------------------------------------------------------------------------
# Betting


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [1, 3, 40, 333])
def test_hedged_betting_against_a_fine_grid(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.beta(4, 2, n) if seed % 2 else (rng.random(n) < 0.2).astype(float)
    alpha = 0.05
    grid = np.linspace(0, 1, 2001)[1:-1]
    up, down = np.zeros_like(grid), np.zeros_like(grid)
    total, squares, variance = 0.5, 0.25, 0.25
    for t, value in enumerate(x, start=1):
        bet = math.sqrt(2 * math.log(2 / alpha) / (variance * t * math.log(1 + t)))
        up += np.log1p(np.minimum(bet, 0.5 / grid) * (value - grid))
        down += np.log1p(-np.minimum(bet, 0.5 / (1 - grid)) * (value - grid))
        total += value
        mean = total / (t + 1)
        squares += (value - mean) ** 2
        variance = squares / (t + 1)
    kept = grid[(up < math.log(2 / alpha)) & (down < math.log(2 / alpha))]
    low, high = hedged_interval(x, alpha)
    assert kept.min() - 5.1e-4 <= low <= kept.min()
    assert kept.max() <= high <= kept.max() + 5.1e-4


@pytest.mark.parametrize(
    ("excess", "root"),
    [
        (lambda m: 0.3 - m, 0.3),
        (lambda m: 1.0 / m - 1e4, 1e-4),
        (lambda m: 1e6 if m < 0.7 else -1e-3, 0.7),
        (lambda m: 1e-12 if m < 0.2 else -1e9, 0.2),
        (lambda m: -((m - 0.5) ** 9), 0.5),
        (lambda m: math.exp(200.0 * (0.1 - m)) - 1.0, 0.1),
        (lambda m: math.log(0.999_999 / m), 0.999_999),
        (lambda m: 0.0 if m <= 0.6 else -1.0, 0.6),
    ],
)
def test_the_last_point_refuted(excess: Any, root: float) -> None:
    """On the refuted side, nearer than the tolerance to the other, in not too many steps."""
    asked = []

    def counted(m: float) -> float:
        asked.append(m)
        return float(excess(m))

    for tolerance in (1e-9, 2.0**-24):
        asked.clear()
        found = _last_refuted(counted, tolerance=tolerance)
        assert excess(found) >= 0.0
        assert excess(found + tolerance) < 0.0
        assert abs(found - root) <= tolerance or excess(root) == excess(found)
        assert len(asked) <= 70


def test_nothing_and_everything_refuted() -> None:
    assert _last_refuted(lambda m: -m) == 0.0
    assert _last_refuted(lambda m: 2.0 - m) == 1.0


def test_betting_is_narrower_than_kt_for_rewards_that_vary_little() -> None:
    rng = np.random.default_rng(0)
    rows = 2000
    arm = rng.integers(0, 2, rows)
    log = ArrayLog(2, arm, np.full(rows, 0.5), 0.5 + 0.05 * rng.standard_normal(rows).clip(-3, 3))
    found = evaluate(log, estimators="dm", intervals=["kt", "betting"])
    kt, betting = ends(found, "dm", "kt"), ends(found, "dm", "betting")
    assert betting[1] - betting[0] < 0.4 * (kt[1] - kt[0])


@pytest.mark.parametrize("seed", range(3))
def test_doubly_robust_betting_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = 57
    terms = np.stack(
        [rng.pareto(1.3, rows) * 0.4 - k * (rng.random(rows) < 0.1) for k in _CEILINGS]
    )
    found = lower_bound(terms, 0.05)

    def capital(nu: float) -> Any:
        gamblers = [
            mpmath.fprod(1 + mpmath.mpf(c) / (nu + k) * (mpmath.mpf(x) - nu) for x in phi)
            for k, phi in zip(_CEILINGS, terms)
            for c in _SHARES
        ]
        return sum(gamblers) / len(gamblers)

    assert 0.0 < found < 1.0
    assert capital(found) >= 20
    assert capital(found + 1e-6) < 20


def test_giant_and_vanishing_terms_do_not_break_the_betting() -> None:
    terms = np.zeros((len(_CEILINGS), 40))
    assert lower_bound(terms, 0.05) == 0.0
    terms[:, 0] = 1e300
    assert 0.0 <= lower_bound(terms, 0.05) <= 1.0
    assert lower_bound(np.zeros((len(_CEILINGS), 0)), 0.05) == 0.0
    assert lower_bound(np.full((len(_CEILINGS), 20000), 1.0), 0.05) > 0.9


# --------------------------------------------------------------------------------------------------
# Promises


def kl_ms_courses(runs: int, rounds: int, means: Any, seed: int) -> Any:
    """Arms, rewards [runs, rounds] and probabilities [runs, rounds, 2] of KT-smoothed KL-MS."""
    rng = np.random.default_rng(seed)
    pulls, totals = np.zeros((runs, 2)), np.zeros((runs, 2))
    each = np.arange(runs)
    arm = np.empty((runs, rounds), dtype=np.int32)
    reward, probabilities = np.empty((runs, rounds)), np.empty((runs, rounds, 2))
    for t in range(rounds):
        m = (totals + 0.5) / (pulls + 1.0)
        best = m.max(axis=1, keepdims=True)
        kl = m * np.log(m / best) + (1 - m) * np.log((1 - m) / (1 - best))
        weight = np.exp(-pulls * kl)
        p = weight / weight.sum(axis=1, keepdims=True)
        arm[:, t] = rng.random(runs) >= p[:, 0]
        reward[:, t] = rng.random(runs) < np.array(means)[arm[:, t]]
        probabilities[:, t] = p
        pulls[each, arm[:, t]] += 1
        totals[each, arm[:, t]] += reward[:, t]
    return arm, reward, probabilities


def test_kt_misses_no_more_often_than_promised_at_any_time() -> None:
    """400 runs looked at after every round: more misses than allowed has probability < 1e-6."""
    runs, rounds, means, alpha = 400, 500, (0.5, 0.8), 0.1
    arm, reward, _ = kl_ms_courses(runs, rounds, means, seed=1)
    missed = np.zeros(runs, dtype=bool)
    pulls = np.stack([np.cumsum(arm == a, axis=1) for a in (0, 1)], axis=-1)
    totals = np.stack([np.cumsum(reward * (arm == a), axis=1) for a in (0, 1)], axis=-1)
    low, high = kt_interval(pulls, totals, alpha / 2)
    missed = ((low @ [0.5, 0.5] > 0.65) | (high @ [0.5, 0.5] < 0.65)).any(axis=1)
    either = ((low > means) | (high < means)).any(axis=(1, 2))
    assert missed.sum() <= either.sum() <= most_misses(runs, alpha)


def test_betting_sequences_miss_no_more_often_than_promised() -> None:
    """100 runs, looked at four times each; the bound has a false-alarm rate below 1e-6."""
    runs, rounds, means, alpha = 100, 320, (0.4, 0.7), 0.2
    arm, reward, probabilities = kl_ms_courses(runs, rounds, means, seed=2)
    truth = 0.55
    target = Fixed("", np.array([0.5, 0.5]))
    hedged, robust, informative = 0, 0, 0
    for i in range(runs):
        own = probabilities[i, np.arange(rounds), arm[i]]
        log = ArrayLog(2, arm[i], own, reward[i], probabilities[i])
        whole = passes.Pass(2, target, None, {}, {}, probabilities=True, prior=0.5)
        batch = next(log.batches(probabilities=True))
        rows = whole.rows(batch, passes.History.empty(2))
        terms = np.array([pseudo_outcomes(rows, (0.0, 1.0), k) for k in _CEILINGS])
        bad, wrong = False, False
        for t in (40, 100, 200, rounds):
            low = lower_bound(terms[:, 0, :t], alpha / 2)
            high = 1.0 - lower_bound(terms[:, 1, :t], alpha / 2)
            bad |= not low <= truth <= high
            for a, mean in enumerate(means):
                x = reward[i, :t][arm[i, :t] == a]
                ends = hedged_interval(x, alpha / 2)
                wrong |= not ends[0] <= mean <= ends[1]
        informative += low > 0.1 and high < 0.95
        robust += bad
        hedged += wrong
    assert robust <= most_misses(runs, alpha)
    assert hedged <= most_misses(runs, alpha)
    assert informative > runs / 2


def test_classical_intervals_cover_on_a_uniform_log() -> None:
    """400 independent logs, 90 % intervals; misses off by more than chance (1e-6) would show."""
    logs, rows = 400, 300
    names = [("ipw", "normal"), ("ipw", "t"), ("dm", "t"), ("aipw", "normal"), ("snipw", "t")]
    misses = dict.fromkeys([*names, ("ipw", "empirical-bernstein"), ("dm", "kt")], 0)
    for seed in range(logs):
        found = evaluate(
            uniform_log(seed, rows), level=0.9, estimators=["ipw", "snipw", "dm", "aipw"],
            intervals=["normal", "t", "kt", "empirical-bernstein"],
        )  # fmt: skip
        for pair in misses:
            low, high = ends(found, *pair)
            misses[pair] += not low <= 0.45 <= high
    for pair in names:
        assert misses[pair] <= most_misses(logs, 0.11), pair
        assert misses[pair] >= 10, pair
    assert misses["ipw", "empirical-bernstein"] <= most_misses(logs, 0.1)
    assert misses["dm", "kt"] <= most_misses(logs, 0.1)


# --------------------------------------------------------------------------------------------------
# Formulas of the classical ones


def test_normal_and_t_by_hand() -> None:
    log = uniform_log(3, 80)
    found = evaluate(log, level=0.9, estimators=["ipw", "dm"], intervals=["normal", "t"])
    one = found.estimates[-1]
    by_name = {(e.estimator, e.interval): e for e in found.estimates}
    one = by_name["ipw", "normal"]
    assert one.high - one.estimate == pytest.approx(stats.norm.isf(0.05) * one.standard_error)
    one = by_name["ipw", "t"]
    assert one.high - one.estimate == pytest.approx(stats.t.isf(0.05, 79) * one.standard_error)
    groups = [log._reward[log._arm == a] for a in (0, 1)]
    welch = stats.ttest_ind(groups[0], -groups[1], equal_var=False).confidence_interval(0.9)
    one = by_name["dm", "t"]
    assert one.low == pytest.approx(welch.low / 2)
    assert one.high == pytest.approx(welch.high / 2)


def test_empirical_bernstein_by_hand() -> None:
    log = uniform_log(5, 200)
    found = evaluate(log, {0: 0.25, 1: 0.75}, estimators="ipw", intervals="empirical-bernstein")
    w = np.array([0.5, 1.5])[log._arm] * log._reward
    log_term = math.log(4 / 0.05)
    margin = math.sqrt(2 * w.var(ddof=1) * log_term / 200) + 7 * 1.5 * log_term / (3 * 199)
    low, high = ends(found, "ipw", "empirical-bernstein")
    assert (high - low) / 2 == pytest.approx(margin)
    assert (high + low) / 2 == pytest.approx(w.mean())


def test_empirical_bernstein_refuses_a_learning_policy() -> None:
    arm, reward, probabilities = (x[0] for x in kl_ms_courses(1, 50, (0.5, 0.8), seed=3))
    log = ArrayLog(2, arm, probabilities[np.arange(50), arm], reward, probabilities)
    one = evaluate(log, estimators="ipw", intervals="empirical-bernstein").estimates[0]
    assert math.isnan(one.low)
    assert "the rows are not independent" in one.verdict


# --------------------------------------------------------------------------------------------------
# The likelihood ratio


@pytest.mark.parametrize(("n", "s"), [(1, 0), (1, 1), (1, 0.3), (20, 7), (10**6, 3), (50, 50)])
def test_likelihood_ends_of_one_arm_by_sixty_digits(n: int, s: float) -> None:
    budget = math.log(20)
    low, high = (float(x) for x in likelihood_ends(np.ones(1), [n], [s / n], budget))
    with mpmath.workdps(60):
        mean = mpmath.mpf(s / n)

        def spent(mu: float) -> Any:
            mu = mpmath.mpf(mu)
            up = mean * mpmath.log(mean / mu) if mean > 0 else 0
            return n * (up + ((1 - mean) * mpmath.log((1 - mean) / (1 - mu)) if mean < 1 else 0))

        for end, edge in ((low, 0.0), (high, 1.0)):
            if mean == edge:
                assert end == edge
            else:
                assert spent(end) == pytest.approx(budget, rel=1e-8)


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.9, 0.1), (1.0, -1.0)])
def test_likelihood_ends_of_two_arms_against_a_grid(weights: tuple[float, float]) -> None:
    pulls, means, budget = np.array([12.0, 40.0]), np.array([0.25, 0.95]), math.log(20)
    low, high = (float(x) for x in likelihood_ends(np.array(weights), pulls, means, budget))
    grid = np.linspace(0, 1, 2001)[1:-1]
    kl = [
        n * (m * np.log(m / grid) + (1 - m) * np.log((1 - m) / (1 - grid)))
        for n, m in zip(pulls, means)
    ]
    values = weights[0] * grid[:, None] + weights[1] * grid
    kept = values[kl[0][:, None] + kl[1] <= budget]
    assert low == pytest.approx(kept.min(), abs=2e-3)
    assert high == pytest.approx(kept.max(), abs=2e-3)
    assert low <= kept.min()
    assert high >= kept.max()


def test_likelihood_ends_take_many_logs_at_once() -> None:
    pulls, means = np.array([[3.0, 9.0], [100.0, 1.0]]), np.array([[0.0, 0.5], [0.7, 1.0]])
    low, high = likelihood_ends(np.array([0.3, 0.7]), pulls, means, 3.0)
    for i in range(2):
        one = likelihood_ends(np.array([0.3, 0.7]), pulls[i], means[i], 3.0)
        assert (low[i], high[i]) == (float(one[0]), float(one[1]))


def test_likelihood_ratio_in_other_units_and_in_the_limit() -> None:
    """Of many rows it is 2.4477/1.96 as wide as the normal interval; a range scales it."""
    assert budget_of(0.05, 1) == budget_of(0.05, 2) == pytest.approx(math.log(20))
    assert budget_of(0.1, 7) == pytest.approx(stats.chi2.isf(0.1, 7) / 2)
    log = uniform_log(7, 40_000)
    found = evaluate(log, estimators="dm", intervals=["likelihood-ratio", "normal"])
    wide, normal = ends(found, "dm", "likelihood-ratio"), ends(found, "dm", "normal")
    factor = math.sqrt(2 * math.log(20)) / stats.norm.isf(0.025)
    assert wide[1] - wide[0] == pytest.approx(factor * (normal[1] - normal[0]), rel=0.01)
    scaled = ArrayLog(2, log._arm, log._propensity, 3.0 - 4.0 * log._reward, rewards=(-1.0, 3.0))
    turned = ends(
        evaluate(scaled, estimators="dm", intervals="likelihood-ratio"), "dm", "likelihood-ratio"
    )
    assert turned == pytest.approx((3.0 - 4.0 * wide[1], 3.0 - 4.0 * wide[0]), abs=1e-9)
    contrast = evaluate(log, 1, versus=0, estimators="dm", intervals="likelihood-ratio").best
    assert 0.27 < contrast.low < contrast.estimate < contrast.high < 0.33


def test_intervals_for_a_range_refuse_rewards_outside_of_it() -> None:
    log = ArrayLog(2, [0, 1] * 20, np.full(40, 0.5), np.linspace(0, 3, 40))
    del log.metadata["rewards"]
    found = evaluate(
        log, estimators=["dm", "ipw"],
        intervals=["likelihood-ratio", "kt", "empirical-bernstein", "normal"],
    )  # fmt: skip
    for one in found.estimates:
        assert math.isnan(one.low) == (one.interval != "normal")
