"""Bootstraps: the law of their counts, and what replicates of the rows come to."""

import math
from collections import Counter
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from maillard.evaluation import bootstrap, passes
from maillard.evaluation.arrays import ArrayLog
from maillard.evaluation.bootstrap import (
    counts_of_draws,
    counts_of_rows,
    poisson_counts,
)
from maillard.evaluation.evaluation import Evaluation, evaluate


def ends(found: Evaluation, estimator: str, interval: str) -> tuple[float, float]:
    one = next(e for e in found.estimates if (e.estimator, e.interval) == (estimator, interval))
    return one.low, one.high


def uniform_log(seed: int, rows: int) -> ArrayLog:
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, rows)
    reward = (rng.random(rows) < np.array([0.3, 0.6])[arm]).astype(float)
    return ArrayLog(2, arm, np.full(rows, 0.5), reward, np.full((rows, 2), 0.5))


def log_with_zeros(seed: int, rows: int) -> ArrayLog:
    """In every fifth row arm 1 could not be drawn."""
    rng = np.random.default_rng(seed)
    probabilities = np.tile([0.5, 0.5], (rows, 1))
    probabilities[::5] = [1.0, 0.0]
    arm = np.where(probabilities[:, 1] > 0, rng.integers(0, 2, rows), 0)
    propensity = probabilities[np.arange(rows), arm]
    return ArrayLog(2, arm, propensity, rng.random(rows), probabilities)


def agrees(observed: Any, probabilities: Any) -> bool:
    """Whether a chi-squared test at 1e-6 takes the counts for drawn with these probabilities."""
    observed, probabilities = np.asarray(observed), np.asarray(probabilities)
    total = observed.sum()
    large = probabilities * total >= 10.0
    observed = np.append(observed[large], observed[~large].sum())
    expected = np.append(probabilities[large], 1.0 - probabilities[large].sum()) * total
    if expected[-1] < 10.0:  # too few to be judged apart
        observed[-2] += observed[-1]
        expected[-2] += expected[-1]
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return bool(stats.chi2.sf(statistic, len(expected) - 1) > 1e-6)


# --------------------------------------------------------------------------------------------------
# Counts


@pytest.mark.parametrize("mean", [1.0, 0.96, 0.37, 0.0])
def test_bytes_and_what_they_leave_make_up_the_poisson_law(mean: float) -> None:
    """Every probability, against 40 digits: shares of the bytes, and of those that remain."""
    table, first, law = bootstrap._poisson_table(mean)
    assert len(table) == 256
    decided = Counter(table[:first])
    rest = np.diff(law, prepend=0.0) * (256 - first)
    with mpmath.workdps(40):
        for k in range(30):
            exact = mpmath.exp(-mean) * mpmath.mpf(mean) ** k / mpmath.factorial(k)
            share = (decided[k] + (rest[k] if k < len(rest) else 0.0)) / 256.0
            assert share == pytest.approx(float(exact), abs=1e-15)


@pytest.mark.parametrize("mean", [1.0, 0.6])
def test_poisson_counts_are_poisson(mean: float) -> None:
    common, rare = np.random.default_rng(1), np.random.default_rng(2)
    counts = poisson_counts(1_000_000, mean, common, rare)
    found = np.bincount(counts, minlength=12)
    assert agrees(found, stats.poisson.pmf(np.arange(len(found)), mean))
    # Neighbours come from one random number of 64 bits: they must not know of each other.
    pairs = Counter(zip(counts[::2].tolist(), counts[1::2].tolist(), strict=True))
    each = stats.poisson.pmf(np.arange(6), mean)
    observed = [pairs[i, j] for i, j in product(range(6), repeat=2)]
    others = 500_000 - sum(observed)
    law = [*np.outer(each, each).ravel(), 1.0 - each.sum() ** 2]
    assert agrees([*observed, others], law)


def test_a_row_counts_the_same_in_every_batch() -> None:
    whole = np.concatenate(list(counts_of_rows(3, 0, 2500, 7)))
    assert whole.shape == (2500, 7)
    for first, stop in ((0, 1), (5, 300), (1000, 1030), (1024, 2048), (2047, 2500)):
        part = np.concatenate(list(counts_of_rows(3, first, stop, 7)))
        np.testing.assert_array_equal(part, whole[first:stop])
    other = np.concatenate(list(counts_of_rows(4, 0, 2500, 7)))
    assert np.mean(other == whole) < 0.5
    assert np.mean(whole[:1024] == whole[1024:2048]) < 0.5


@pytest.mark.parametrize("margin", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("rows", [3, 30])
def test_draws_with_replacement(monkeypatch: pytest.MonkeyPatch, rows: int, margin: float) -> None:
    """Counts of three rows, against the multinomial law; half are drawn anew without a margin."""
    monkeypatch.setattr(bootstrap, "_MARGIN", margin)
    replicates = 60_000
    counts = counts_of_draws(rows, replicates, np.random.default_rng(rows))
    assert counts.shape == (replicates, rows)
    assert np.all(counts.sum(axis=1, dtype=int) == rows)
    found = Counter(map(tuple, counts[:, [0, 1, rows - 1]].tolist()))
    cells = list(product(range(4), repeat=3))
    law = []
    for cell in cells:
        rest = rows - sum(cell)
        if rest < 0 or (rows == 3 and rest > 0):
            law.append(0.0)
            continue
        ways = math.factorial(rows) // math.prod(map(math.factorial, (*cell, rest)))
        law.append(ways * (rows - 3) ** rest / rows**rows)
    observed = [found[cell] for cell in cells]
    assert all(n == 0 for n, p in zip(observed, law, strict=True) if p == 0.0)
    assert agrees([*observed, replicates - sum(observed)], [*law, max(0.0, 1.0 - sum(law))])


def test_few_rows_are_drawn_too() -> None:
    assert counts_of_draws(1, 5, np.random.default_rng(0)).tolist() == [[1]] * 5
    two = counts_of_draws(2, 4000, np.random.default_rng(0))
    assert agrees(np.bincount(two[:, 0], minlength=3), [0.25, 0.5, 0.25])


# --------------------------------------------------------------------------------------------------
# Intervals


@pytest.mark.parametrize("kind", ["bootstrap", "poisson-bootstrap"])
@pytest.mark.parametrize("zeros", [False, True])
def test_percentiles_of_replicates_worked_out_one_by_one(
    monkeypatch: pytest.MonkeyPatch, kind: str, zeros: bool
) -> None:
    """The same counts, and the estimators' formulas written down once more."""
    rows, replicates, seed = 1400, 60, 8
    monkeypatch.setattr(passes, "BATCH", 600)
    monkeypatch.setattr(bootstrap, "_COUNTS", 20 * rows)  # a few replicates at a time
    log = log_with_zeros(4, rows) if zeros else uniform_log(4, rows)
    assert log._probabilities is not None
    if kind == "bootstrap":
        rng = np.random.default_rng(seed)
        counts = np.concatenate([counts_of_draws(rows, 20, rng) for _ in range(3)])
    else:
        counts = np.concatenate(list(counts_of_rows(seed, 0, rows, replicates))).T
    weight, reward, arm = 0.5 / log._propensity, log._reward, log._arm
    usable = log._probabilities[:, 1] > 0.0
    found = evaluate(
        log, estimators=["dm", "ipw", "snipw"], intervals=kind, replicates=replicates, seed=seed
    )
    estimates: dict[str, list[float]] = {"dm": [], "ipw": [], "snipw": []}
    for row in counts.astype(float):
        means = [np.sum(row * reward * (arm == a)) / np.sum(row * (arm == a)) for a in (0, 1)]
        total = np.sum((row * weight * reward)[usable])
        estimates["dm"].append(sum(means) / 2)
        estimates["ipw"].append(total / row[usable].sum())
        estimates["snipw"].append(total / np.sum((row * weight)[usable]))
    for name, values in estimates.items():
        expected = np.quantile(values, [0.025, 0.975])
        assert ends(found, name, kind) == pytest.approx(tuple(expected), rel=1e-11)


def test_pieces_of_the_ordinary_bootstrap_merge() -> None:
    log = uniform_log(6, 900)
    options: Any = {"estimators": ["aipw", "dm"], "intervals": "bootstrap", "replicates": 40}
    found = evaluate(log, **options)
    assert found.source is not None
    whole = found.source[1]
    first, second = log.pieces(2)
    left = whole.piece(first)
    merged = whole.merge(left, whole.piece(second, whole.history(first)))
    for name, estimator in whole.estimators.items():
        interval, _ = whole.intervals["bootstrap"]
        point = estimator.finish(merged.estimators[name])
        one = interval.ends(estimator, point, merged.intervals["bootstrap"], merged.seen)
        assert one[:2] == pytest.approx(ends(found, name, "bootstrap"), rel=1e-12)


@pytest.mark.parametrize("kind", ["bootstrap", "poisson-bootstrap"])
def test_bootstraps_of_many_independent_rows_are_normal(kind: str) -> None:
    log = uniform_log(1, 4000)
    found = evaluate(
        log, estimators=["ipw", "snipw", "dm", "aipw"], intervals=["normal", kind], replicates=400
    )
    for name in ("ipw", "snipw", "dm", "aipw"):
        normal, again = ends(found, name, "normal"), ends(found, name, kind)
        width = normal[1] - normal[0]
        assert again[1] - again[0] == pytest.approx(width, rel=0.2)
        assert sum(again) / 2 == pytest.approx(sum(normal) / 2, abs=0.15 * width)


def test_poisson_bootstrap_knows_no_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    log = uniform_log(2, 3000)
    options: Any = {"estimators": ["ipw", "dm"], "intervals": "poisson-bootstrap", "replicates": 50}
    whole = evaluate(log, **options)
    for size in (100, 1024, 1500):
        monkeypatch.setattr(passes, "BATCH", size)
        for one, other in zip(evaluate(log, **options).estimates, whole.estimates):
            assert one.low == pytest.approx(other.low, rel=1e-12)
            assert one.high == pytest.approx(other.high, rel=1e-12)
    other_seed = evaluate(log, seed=1, **options)
    assert other_seed.estimates[0].low != whole.estimates[0].low


def test_bootstraps_leave_out_what_was_impossible() -> None:
    log = log_with_zeros(0, 500)
    assert log._probabilities is not None
    kept = log._probabilities[:, 1] > 0
    few = ArrayLog(
        2, log._arm[kept], log._propensity[kept], log._reward[kept], log._probabilities[kept]
    )
    for kind in ("bootstrap", "poisson-bootstrap"):
        options: Any = {"estimators": "ipw", "intervals": kind, "replicates": 300}
        all_rows, usable = evaluate(log, **options).best, evaluate(few, **options).best
        assert all_rows.estimate == pytest.approx(usable.estimate)
        assert all_rows.high - all_rows.low == pytest.approx(usable.high - usable.low, rel=0.3)
