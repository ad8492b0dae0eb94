"""What a pass works out once for a block of rows: sums, running sums, positions, order, history."""

import gc
import itertools
import math
import weakref
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maillard as mb
from maillard.evaluation import passes
from maillard.evaluation.arrays import ArrayLog
from maillard.evaluation.catalogue import ESTIMATORS
from maillard.evaluation.estimators import RowLocal, Setting
from maillard.evaluation.moments import Moments, centred, dot, running
from maillard.evaluation.passes import Order, Pass, order_of
from maillard.evaluation.rows import History, added, counted
from maillard.evaluation.targets import Fixed
from maillard.logs.sources import cut


def columns(rows: int, arms: int, seed: int = 0, most: float = 0.9) -> tuple[Any, Any, Any]:
    """Arms of which the last is played most often, propensities, rewards."""
    rng = np.random.default_rng(seed)
    p = np.full(arms, (1.0 - most) / max(arms - 1, 1))
    p[-1] = most if arms > 1 else 1.0
    arm = rng.choice(arms, rows, p=p).astype(np.int32)
    return arm, p[arm] * rng.uniform(0.5, 1.0, rows), rng.random(rows)


# --------------------------------------------------------------------------------------------------
# Sums


@pytest.mark.parametrize("rows", [0, 1, 15, 1023, 1024, 1039, 8191, 8192, 8193, 20_000])
def test_dot_and_running_sums(rows: int) -> None:
    rng = np.random.default_rng(rows)
    x, y = rng.normal(size=rows), rng.normal(size=rows)
    exact = math.fsum(float(a) * float(b) for a, b in zip(x, y))
    assert dot(x, y) == pytest.approx(exact, rel=1e-12, abs=1e-11)
    sums, total = running(x), Fraction(0)
    assert sums[0] == 0.0
    assert len(sums) == rows + 1
    for i in range(rows):
        total += Fraction(float(x[i]))
        if i % 17 == 0 or i > rows - 40:
            assert sums[i + 1] == pytest.approx(float(total), abs=1e-10)


def test_running_sums_of_whole_numbers_are_exact() -> None:
    x = np.random.default_rng(0).integers(0, 2, 50_001).astype(np.float64)
    np.testing.assert_array_equal(running(x)[1:], np.cumsum(x.astype(np.int64)))


@pytest.mark.parametrize("value", [0.1, 0.3, -1e300, 7.0, 0.0])
def test_equal_numbers_have_no_spread_at_all(value: float) -> None:
    for rows in (1, 3, 1000, 65_536, 70_001):
        mean, deviations = centred(np.full(rows, value))
        assert mean == value
        assert not deviations.any()
    pieces = [Moments.of([np.full(n, value)]) for n in (10, 65_536, 3)]
    found = pieces[0].merged(pieces[1]).merged(pieces[2])
    assert found.mean[0] == value
    assert found.comoment[0, 0] == 0.0


@pytest.mark.parametrize("arms", [1, 2, 3, 4, 12, 13, 256, 257])
def test_sums_by_arm(arms: int) -> None:
    for rows in (1, 7, 5000, 70_000):
        arm, _, reward = columns(rows, arms, seed=rows)
        pulls, sums = counted(arm, arms), added(arm, reward, arms)
        assert len(pulls) == len(sums) == arms
        for a in {0, arms // 2, arms - 1}:
            mine = reward[arm == a]
            assert pulls[a] == len(mine)
            assert sums[a] == pytest.approx(math.fsum(mine), rel=1e-12, abs=0.0)


# --------------------------------------------------------------------------------------------------
# Blocks


def whole_pass(arms: int, names: tuple[str, ...], cap: float = 3.0, **options: Any) -> Pass:
    weights = np.full(arms, 1.0 / arms)
    setting = Setting(1000, arms, weights, cap)
    return Pass(
        arms, Fixed("uniform", weights), None, {name: ESTIMATORS[name](setting) for name in names},
        {}, probabilities=False, prior=0.5, **options,
    )  # fmt: skip


@pytest.mark.parametrize("arms", [1, 2, 3, 5, 13])
def test_positions_rewards_and_the_history_after(arms: int) -> None:
    arm, p, reward = columns(3000, arms)
    log = ArrayLog(arms, arm, p, reward)
    earlier = History(5, np.full(arms, 2.0), np.full(arms, 0.7), np.zeros((3, arms)))
    (batch,) = log.batches()
    rows = whole_pass(arms, ("aipw",)).rows(batch, earlier)
    for a in range(arms):
        np.testing.assert_array_equal(rows.by_arm[a], np.flatnonzero(arm == a))
        np.testing.assert_array_equal(rows.paid[a], reward[arm == a])
    np.testing.assert_array_equal(rows.pulls, np.bincount(arm, minlength=arms))
    expected = earlier + History.of(arm, p, reward, arms)
    for knows in (False, True):
        if knows:
            assert rows.value.shape == (3000,)
        found = rows.history_after(weighs=False)
        assert found.rows == expected.rows == 3005
        np.testing.assert_array_equal(found.pulls, expected.pulls)
        np.testing.assert_allclose(found.totals, expected.totals, rtol=1e-13)
    np.testing.assert_allclose(rows.history_after().inverse, expected.inverse, rtol=1e-12)


@pytest.mark.parametrize("certain", [False, True])
def test_a_block_is_free_without_the_garbage_collector(certain: bool) -> None:
    arm, p, reward = columns(500, 3)
    if certain:
        p[10] = 1.0
    names = ("ipw", "snipw", "clipped-ipw", "aipw", "switch-dr", "dm")
    whole = whole_pass(3, names)
    (batch,) = ArrayLog(3, arm, p, reward).batches()
    gc.disable()
    try:
        rows = whole.rows(batch, History.empty(3))
        state = whole.step(whole.start(), rows, Order())
        assert state.seen.impossible == int(certain)
        gone = weakref.ref(rows)
        del rows
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("arms", [2, 3, 11, 13])
def test_large_blocks_are_the_same_as_small_ones(
    arms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm, p, reward = columns(70_000, arms)
    log = ArrayLog(arms, arm, p, reward)
    names = ("dm", "ipw", "snipw", "clipped-ipw", "aipw", "sndr", "switch-dr")
    options: Any = {"estimators": names, "intervals": "normal", "clip": 5.0}
    found = mb.evaluate(log, **options)
    monkeypatch.setattr(passes, "BATCH", 999)
    for one, other in zip(mb.evaluate(log, **options).estimates, found.estimates, strict=True):
        assert one.estimator == other.estimator
        assert one.estimate == pytest.approx(other.estimate, rel=1e-12), one.estimator
        assert one.standard_error == pytest.approx(other.standard_error, rel=1e-11), one.estimator


@pytest.mark.parametrize("arms", [2, 12, 13, 300])
def test_arm_means_of_constant_rewards_have_no_error(arms: int) -> None:
    arm, p, _ = columns(140_000, arms, most=0.5)
    log = ArrayLog(arms, arm, p, np.full(len(arm), 0.1))
    (found,) = mb.evaluate(log, estimators="dm", intervals="normal").estimates
    assert found.estimate == pytest.approx(0.1, rel=1e-15)
    assert found.standard_error == 0.0


@pytest.mark.parametrize("arms", [3, 40])
def test_arm_means_of_large_rewards_that_hardly_differ(arms: int) -> None:
    arm, p, noise = columns(20_000, arms, most=0.5)
    reward = 1e6 + noise
    log = ArrayLog(arms, arm, p, reward, rewards=(0.0, 1e7))
    (found,) = mb.evaluate(log, estimators="dm", intervals="normal").estimates
    parts = [np.var(noise[arm == a], ddof=1) / np.sum(arm == a) for a in range(arms)]
    assert found.standard_error == pytest.approx(math.sqrt(sum(parts)) / arms, rel=1e-8)


@pytest.mark.parametrize("name", ["clipped-ipw", "truncated-ipw", "switch-dr"])
@pytest.mark.parametrize("cap", [1.5, 4.0, 1e9])
def test_terms_below_the_cap_are_those_of_the_estimator_named(name: str, cap: float) -> None:
    arm, p, reward = columns(400, 3)
    (batch,) = ArrayLog(3, arm, p, reward).batches()
    whole = whole_pass(3, (name,), cap)
    rows = whole.rows(batch, History.empty(3))
    estimator = whole.estimators[name]
    assert isinstance(estimator, RowLocal)
    (found,) = estimator.columns(rows)
    (expected,) = estimator.terms(rows, np, cap)
    np.testing.assert_array_equal(found, expected)
    assert (rows.heaviest <= cap) == (cap > 1e6)


# --------------------------------------------------------------------------------------------------
# The order of rounds

Rounds = list[tuple[int, int, int]]


def slow_order(rows: Rounds, named: bool) -> Order | str:
    """Row by row: (run, round, arm); or where the first round falls."""
    runs, repeated = 1, 0
    for i, (before, after) in enumerate(itertools.pairwise(rows)):
        same = before[0] == after[0] if named else True
        if same and after[1] < before[1]:
            if named or after[1] != 1:
                return f"row {i + 1}: round {after[1]} comes after round {before[1]}"
            same = False
        runs += not same
        repeated += same and before[1:] == after[1:]
    first, last = rows[0], rows[-1]
    return Order(
        (first[0] if named else -1, first[1]), (last[0] if named else -1, last[1]), runs, repeated
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=8
    ),
    st.booleans(), st.sampled_from(["int64", "int32", "double"]),
)  # fmt: skip
def test_order_of_rounds(rows: Rounds, named: bool, kind: str) -> None:
    run, rounds, arm = (list(column) for column in zip(*rows))
    table = {"round": pa.array(rounds).cast(kind), "arm": arm}
    if named:
        table["run"] = pa.array(run).cast(kind)
    n = len(rows)
    log = mb.Log.read(pa.table({**table, "propensity": [0.5] * n, "reward": [1.0] * n}), arms=2)
    (batch,) = log.batches()
    expected = slow_order(rows, named)
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            order_of(batch)
    else:
        assert order_of(batch) == expected


# --------------------------------------------------------------------------------------------------
# Pieces


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 6),
    st.floats(1.0, 3.0),
)  # fmt: skip
def test_cuts_are_consecutive_and_about_as_long_as_they_should_be(
    sizes: list[int], count: int, first: float
) -> None:
    found = cut(sizes, count, first)
    assert 1 <= len(found) <= count
    assert [i for one in found for i in range(one.start, one.stop)] == list(range(len(sizes)))
    assert all(one.stop > one.start for one in found)
    each, most = sum(sizes) / (first + count - 1), max(sizes)
    if len(sizes) >= count and len(found) > 1:
        assert abs(sum(sizes[found[0]]) - first * each) <= most


@pytest.mark.parametrize("labels", [None, ["left", "right", "middle"]])
def test_the_first_of_two_pieces_can_be_longer(labels: list[str] | None, tmp_path: Path) -> None:
    arm, p, reward = columns(5000, 3)
    column = arm if labels is None else pa.array(labels).take(pa.array(arm))
    table = pa.table({"arm": column, "propensity": p, "reward": reward})
    log = mb.Log.read(table, arms=labels or 3)
    log.write(tmp_path / "log.parquet")
    assert [len(part) for part in log.pieces(2, 1.5)] == [3000, 2000]
    assert [len(p) for p in ArrayLog(3, arm, p, reward).pieces(3, 2.0)] == [2500, 1250, 1250]
    for source in (log, mb.Log.read(tmp_path / "log.parquet")):
        parts = list(source.outcomes(999))
        np.testing.assert_array_equal(np.concatenate([found for found, _ in parts]), arm)
        np.testing.assert_array_equal(np.concatenate([found for _, found in parts]), reward)


def test_what_is_wrong_with_a_row_is_said_by_the_piece_that_has_it() -> None:
    from concurrent.futures import ThreadPoolExecutor

    arm, p, reward = columns(100, 3)
    arm[7] = 5
    log = mb.Log.read(pa.table({"arm": arm, "propensity": p, "reward": reward}), arms=3)
    with (
        ThreadPoolExecutor(2) as executor,
        pytest.raises(ValueError, match="row 7: arm 5 is none of the arms"),
    ):
        mb.evaluate(log, estimators="aipw", intervals="normal", executor=executor)


@pytest.mark.parametrize("mapped", [1, 3000, 1 << 27])
def test_a_file_is_mapped_in_stretches(
    mapped: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    from maillard.logs import sources

    monkeypatch.setattr(sources, "_MAPPED", mapped)
    arm, p, reward = columns(1000, 3)
    table = pa.table({"arm": arm, "propensity": p, "reward": reward})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=64)
    log = mb.Log.read(tmp_path / "log.parquet", arms=3)
    for whole in (log.pieces(1), log.pieces(3)):
        rewards = [batch.reward for piece in whole for batch in piece.batches()]
        assert (len(rewards) > 3) == (mapped < 10_000)
        np.testing.assert_array_equal(np.concatenate(rewards), reward)
