"""Short cuts by which coverage is measured give what `evaluate` gives; the page is made of them."""

import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

import maillard as mb
from maillard.evaluation import verdicts
from maillard.evaluation.refit import Experiment, Pool
from maillard.evaluation.sequences import (
    DoublyRobustBetting,
    hedged_interval,
    kt_interval,
    lower_bound,
)

ROOT = Path(__file__).parent.parent
MEANS = (0.8, 0.9)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that measures."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import coverage_of_intervals

    return coverage_of_intervals


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that writes the page."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import coverage_page

    return coverage_page


def collected(policy: str, horizon: int, runs: int, seed: int = 0) -> Any:
    return mb.collect(policy, mb.Bernoulli(list(MEANS)), horizon=horizon, runs=runs, seed=seed)


def sums_of_log(log: Any, runs: int, horizon: int) -> np.ndarray:
    """Pulls, rewards and squares of every run and arm, straight from the rows."""
    found = np.zeros((3, runs, 2))
    table = log.to_arrow()
    run, arm, reward = (table[name].to_numpy() for name in ("run", "arm", "reward"))
    for power in range(3):
        np.add.at(found[power], (run, arm), reward**power)
    assert np.all(found[0].sum(axis=1) == horizon)
    return found


def ends_of(found: Any) -> dict[tuple[str, str], tuple[float, float]]:
    return {(e.estimator, e.interval): (e.low, e.high) for e in found.estimates}


@pytest.mark.slow
def test_sums_are_those_of_logs(bench: ModuleType) -> None:
    log = collected("kl-ms", 150, 5, seed=3)
    found = bench.sums_of("kl-ms", mb.Bernoulli(list(MEANS)), 150, 5, seed=3)
    np.testing.assert_array_equal(found, sums_of_log(log, 5, 150))


@pytest.mark.slow
def test_arm_intervals_from_sums(bench: ModuleType) -> None:
    """Formulas over many logs at once, and simulated experiments kept from log to log."""
    runs, horizon = 6, 150
    log = collected("kl-ms", horizon, runs, seed=1)
    pulls, totals, squares = sums_of_log(log, runs, horizon)
    experiment = Experiment({"policy": "kl-ms"}, horizon)
    for name, weights in bench.targets_of(2).items():
        target = name if name == "uniform" else int(name[-1])
        formulas = bench.closed_forms(pulls, totals, weights)
        pool = Pool(experiment, (0.0, 1.0), 2, 0)
        alone = bench.policy_bootstraps(pulls, totals, squares, weights, pool)
        shared = bench.policy_bootstraps(
            np.tile(pulls, (3, 1)), np.tile(totals, (3, 1)), np.tile(squares, (3, 1)),
            weights, bench.SharedPool(experiment, 2, seed=5),
        )  # fmt: skip
        for run in range(runs):
            found = ends_of(
                mb.evaluate(
                    log, target, run=run, estimators="dm",
                    intervals=["normal", "t", "kt", "likelihood-ratio", "policy-bootstrap"],
                )
            )  # fmt: skip
            for interval, (low, high) in formulas.items():
                expected = found["dm", interval]
                assert (low[run], high[run]) == pytest.approx(expected, abs=1e-9, nan_ok=True)
            one = found["dm", "policy-bootstrap"]
            assert alone[run] == pytest.approx(one, abs=1e-12)
            # With other random numbers: a standard error of the tail is some 2 % of the width.
            for again in shared[run::runs]:
                assert again == pytest.approx(one, abs=0.12 * (one[1] - one[0]))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["KL-MS", "uniform"])
def test_many_logs_through_one_pass(bench: ModuleType, policy: str) -> None:
    cell = bench.Cell(policy, "0.8, 0.9", 200)
    log = collected(bench.POLICIES[policy], 200, 3, seed=cell.seed)
    for name, weights in bench.targets_of(2).items():
        target = name if name == "uniform" else int(name[-1])
        evaluator = bench.Evaluator(200, weights)
        for number, run in enumerate(bench.runs_of(cell, 3)):
            direct = ends_of(
                mb.evaluate(
                    log, target, run=number, estimators="all",
                    intervals=["normal", "t", "kt", "likelihood-ratio", "empirical-bernstein"],
                )
            )  # fmt: skip
            found = {(e, i): (low, high) for e, i, low, high in evaluator.intervals_of(run)}
            assert found.keys() == direct.keys()
            for pair, ends in found.items():
                assert ends == pytest.approx(direct[pair], rel=1e-9, abs=1e-12, nan_ok=True), pair


@pytest.mark.slow
def test_monte_carlo_propensities_are_frequencies(bench: ModuleType) -> None:
    """Of the same choices as those with exact propensities; never 0 or 1."""
    exact = list(bench.runs_of(bench.Cell("Thompson", "0.8, 0.9", 150), 3))
    drawn = list(bench.runs_of(bench.Cell(bench.MONTE_CARLO, "0.8, 0.9", 150), 3))
    for one, other in zip(exact, drawn):
        np.testing.assert_array_equal(one._arm, other._arm)
        np.testing.assert_array_equal(one._reward, other._reward)
        counts = other._propensity * bench.DRAWS
        assert np.all((counts == np.round(counts)) | (counts == 0.5) | (counts == 999.5))
        error = np.sqrt(one._propensity * (1 - one._propensity) / bench.DRAWS)
        assert np.all(np.abs(one._propensity - other._propensity) <= 5.5 * error + 0.5e-3 + 1e-12)
        np.testing.assert_allclose(np.exp(other._log_propensity), other._propensity)


def test_a_sequence_misses_when_bets_against_the_truth_have_won(bench: ModuleType) -> None:
    rng = np.random.default_rng(2)
    missed = 0
    for mean, truth in ((0.7, 0.7), (0.9, 0.7), (0.4, 0.7)):
        x = (rng.random(120) < mean).astype(float)
        kt, hedge = bench.kt_refutes(x, truth, 0.05), bench.hedge_refutes(x, truth, 0.05)
        for t in range(1, 121):
            low, high = (float(end) for end in kt_interval(t, x[:t].sum(), 0.05))
            assert kt[t - 1] == (not low <= truth <= high)
            low, high = hedged_interval(x[:t], 0.05)
            assert hedge[t - 1] == (not low <= truth <= high)
        missed += kt.any() + hedge.any()
    assert 2 <= missed <= 4  # two of the three means are wrong


def test_doubly_robust_bets_against_the_truth(bench: ModuleType) -> None:
    """The capital at some value, against the interval's ends; some values are refuted."""
    rng = np.random.default_rng(5)
    n = 300
    p = rng.uniform(0.1, 0.9, n)
    arm = (rng.random(n) >= p).astype(int)
    own = np.where(arm == 0, p, 1 - p)
    run = bench.Run(arm, own, np.log(own), (rng.random(n) < 0.3 + 0.4 * arm).astype(float))
    weights = np.array([0.5, 0.5])
    evaluator = bench.Evaluator(n, weights)
    refuted = []
    for value in (0.05, 0.3, 0.5, 0.7, 0.95):
        found = bench.robust_refutes(run, value, evaluator)
        for t in (50, 180, n):
            rows = evaluator.whole.rows(next(iter(run.batches(size=t))), bench.History.empty(2))
            sides = [
                np.array([bench.sequences.pseudo_outcomes(rows, (0.0, 1.0), k)[side]
                          for k in bench.sequences._CEILINGS])
                for side in (0, 1)
            ]  # fmt: skip
            low = lower_bound(sides[0], 0.025)
            high = 1.0 - lower_bound(sides[1], 0.025)
            assert found[t - 1] == (not low <= value <= high)
        refuted.append(bool(found[-1]))
    assert refuted[0]
    assert refuted[-1]
    assert not refuted[2]
    assert DoublyRobustBetting.anytime


def test_what_holds_between_pulls(bench: ModuleType) -> None:
    found = bench._held(np.array([False, True, False]), np.array([1, 4, 6]), 9)
    assert found.tolist() == [False] * 4 + [True] * 2 + [False] * 3


def test_tallies(bench: ModuleType) -> None:
    tally = bench.Tally(0.5)
    tally.add([0.4, 0.6, math.nan], [0.5, 0.8, math.nan])
    tally.add(0.1, 0.9)
    assert tally.row() == [0.5, pytest.approx((0.1 + 0.2 + 0.8) / 3), 4]


@pytest.mark.slow
def test_tasks_leave_files_and_are_not_done_twice(
    bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["arms uniform 0.2, 0.25 1000"]
    bench.run(tmp_path, words, 0.001)
    assert "arms uniform" in capsys.readouterr().out
    (path,) = tmp_path.glob("arms_uniform*_1000.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["found"]["uniform"]["dm kt"][2] == 2
    assert not list(tmp_path.glob("*.claim"))
    bench.run(tmp_path, words, 0.001)
    assert capsys.readouterr().out == ""


# --------------------------------------------------------------------------------------------------
# The page


@pytest.fixture
def data() -> Any:
    """What was measured."""
    return json.loads((ROOT / "docs" / "coverage.json").read_text(encoding="utf-8"))


def test_the_page_is_made_of_its_data(pages: ModuleType, data: Any) -> None:
    assert pages.page(data) == (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")


def test_what_is_recommended_is_read_off_the_table(pages: ModuleType, data: Any) -> None:
    """Of what covers in every cell of learning policies, the narrowest; then without the policy."""
    every = [s for s in (pages.summary(data, pair) for pair in pages.pairs_of(data)) if s]
    sound = [s for s in every if s.enough == s.cells >= 48]
    sound.sort(key=lambda s: s.width)
    assert sound[0].pair == "dm policy-bootstrap"
    others = [s.pair for s in sound if s.pair != "dm policy-bootstrap"]
    assert others[0] == "dm likelihood-ratio"
    assert all(s.logs >= 2_000 for s in sound)
    assert verdicts._WITHOUT_CONTEXT[0] == tuple(sound[0].pair.split())
    assert verdicts._WITHOUT_CONTEXT[1] == tuple(others[0].split())
    # Where rounds are independent the textbook's interval is no wider, and covers.
    for one in pages.seen(data, "dm t", learning=False):
        if one.policy == "uniform":
            assert one.coverage >= pages.ENOUGH - 0.015


def test_sequences_miss_no_more_than_they_promise(data: Any) -> None:
    """In no cell with exact propensities; the false-alarm rate of all bounds is below 1e-6."""
    found = [
        row
        for name, kinds in data["cells"].items()
        if "Monte Carlo" not in name
        for pairs in kinds.get("ever", {}).values()
        for row in pairs.values()
    ]
    assert found
    for share, _, logs in found:
        assert round(share * logs) <= stats.binom.isf(1e-6 / len(found), logs, 0.05)


def test_page_of_a_few_numbers(pages: ModuleType) -> None:
    """Least, mean and relative width over the cells of learning policies."""
    cells = {
        "KL-MS 0.2, 0.25 1000": {
            "arms": {
                "uniform": {"dm normal": [0.9, 0.1, 50], "dm kt": [1.0, 0.2, 50]},
                "arm 0": {"dm normal": [0.95, 0.4, 50], "dm kt": [0.97, 0.4, 50]},
            }
        },
        "uniform 0.2, 0.25 1000": {"arms": {"uniform": {"dm kt": [0.1, 9.0, 50]}}},
    }
    few = {"cells": cells}
    found = pages.summary(few, "dm kt")
    assert (found.cells, found.enough, found.logs) == (2, 2, 50)
    assert found.least.place == "KL-MS, (0.2, 0.25), T = 1,000, arm 0"
    assert found.mean == pytest.approx(0.985)
    assert found.width == pytest.approx(math.sqrt(2.0))
    assert pages.summary(few, "dm normal").enough == 1
    assert pages.summary(few, "aipw t") is None
    assert "| `dm` `kt`" in pages.overview(few, many=False)
    assert pages.overview(few, many=True) == ""
    assert "97.0 · 0.4" in pages.settings(few, "KL-MS", "arm 0")
