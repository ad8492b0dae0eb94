"""Short cuts by which coverage is measured give what `evaluate` gives; the page is made of them."""

import importlib
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
from maillard.evaluation.catalogue import ESTIMATORS, INTERVALS
from maillard.evaluation.refit import Experiment, Pool
from maillard.evaluation.rows import History
from maillard.evaluation.sequences import (
    _CEILINGS,
    DoublyRobustBetting,
    hedged_interval,
    kt_interval,
    lower_bound,
    pseudo_outcomes,
)

ROOT = Path(__file__).parent.parent
MEANS = (0.8, 0.9)


def module(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """One of the scripts that measure, as they import one another."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module(name)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What is started: the tasks, and those about arm means and weighted rows."""
    return module(monkeypatch, "coverage_of_intervals")


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Cells, their logs, and what evaluates them."""
    return module(monkeypatch, "coverage_logs")


@pytest.fixture
def sequences(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tasks about confidence sequences."""
    return module(monkeypatch, "coverage_sequences")


@pytest.fixture
def bootstraps(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The task about bootstraps of rows."""
    return module(monkeypatch, "coverage_bootstraps")


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What writes the page."""
    return module(monkeypatch, "coverage_page")


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


PLAIN = ["normal", "t", "kt", "likelihood-ratio", "empirical-bernstein"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["KL-MS", "uniform"])
@pytest.mark.parametrize("kinds", [PLAIN, ["betting", "dr-betting"]])
def test_many_logs_through_one_pass(logs: ModuleType, policy: str, kinds: list[str]) -> None:
    cell = logs.Cell(policy, "0.8, 0.9", 200)
    log = collected(logs.POLICIES[policy], 200, 3, seed=cell.seed)
    estimators = "all" if kinds is PLAIN else ["dm", "aipw"]
    for name, weights in logs.targets_of(2).items():
        target = name if name == "uniform" else int(name[-1])
        names = list(ESTIMATORS) if estimators == "all" else estimators
        evaluator = logs.Evaluator(200, weights, [INTERVALS[kind] for kind in kinds], names)
        for number, run in enumerate(logs.runs_of(cell, 3)):
            direct = ends_of(
                mb.evaluate(log, target, run=number, estimators=estimators, intervals=kinds)
            )
            found = {(e, i): (low, high) for e, i, low, high in evaluator.intervals_of(run)}
            assert found.keys() == direct.keys()
            for pair, ends in found.items():
                assert ends == pytest.approx(direct[pair], rel=1e-9, abs=1e-12, nan_ok=True), pair


@pytest.mark.slow
def test_bootstraps_of_many_logs_at_once(logs: ModuleType, bootstraps: ModuleType) -> None:
    """The very replicates of `evaluate`; a log without an interval among them."""
    cell = logs.Cell("KL-MS", "0.8, 0.9", 300)
    log = collected("kl-ms", 300, 4, seed=cell.seed)
    names, kinds = ["dm", "snipw", "aipw"], ["bootstrap", "poisson-bootstrap"]
    runs = list(logs.runs_of(cell, 4))
    evaluators = {
        name: logs.Evaluator(300, weights, estimators=names)
        for name, weights in logs.targets_of(2).items()
    }
    found = list(bootstraps.ends_of_logs(runs, evaluators, 50, seed=9))
    assert len(found) == len(evaluators) * len(names) * len(kinds)
    widths = []
    for one in found:
        target = one.target if one.target == "uniform" else int(one.target[-1])
        for run in range(4):
            direct = mb.evaluate(
                log, target, run=run, estimators=one.estimator, intervals=one.interval,
                replicates=50, seed=9,
            ).best  # fmt: skip
            expected = (direct.low, direct.high)
            assert (one.low[run], one.high[run]) == pytest.approx(expected, rel=1e-9, nan_ok=True)
            widths.append(one.high[run] - one.low[run])
    assert np.nanmin(widths) > 0.0
    # One pull of an arm: some replicates have none.
    few = logs.Run([0, 1, 1, 1], [0.5] * 4, np.log([0.5] * 4), [1.0, 0.0, 1.0, 1.0])
    alone = {"arm 0": logs.Evaluator(4, np.array([1.0, 0.0]), estimators=["dm"])}
    for one in bootstraps.ends_of_logs([few], alone, 50, seed=9):
        assert np.isnan(one.low[0])
        assert np.isnan(one.high[0])
        direct = mb.evaluate(few, 0, estimators="dm", intervals=one.interval, replicates=50)
        assert math.isnan(direct.estimates[0].low)


def test_logs_in_groups(bootstraps: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstraps, "_TOGETHER", 2)
    assert list(bootstraps.groups(iter(range(5)))) == [[0, 1], [2, 3], [4]]
    assert list(bootstraps.groups(iter(range(2)))) == [[0, 1]]


@pytest.mark.slow
def test_monte_carlo_propensities_are_frequencies(logs: ModuleType) -> None:
    """Of the same choices as those with exact propensities; never 0 or 1."""
    exact = list(logs.runs_of(logs.Cell("Thompson", "0.8, 0.9", 150), 3))
    drawn = list(logs.runs_of(logs.Cell(logs.MONTE_CARLO, "0.8, 0.9", 150), 3))
    for one, other in zip(exact, drawn):
        np.testing.assert_array_equal(one._arm, other._arm)
        np.testing.assert_array_equal(one._reward, other._reward)
        counts = other._propensity * logs.DRAWS
        assert np.all((counts == np.round(counts)) | (counts == 0.5) | (counts == 999.5))
        error = np.sqrt(one._propensity * (1 - one._propensity) / logs.DRAWS)
        assert np.all(np.abs(one._propensity - other._propensity) <= 5.5 * error + 0.5e-3 + 1e-12)
        np.testing.assert_allclose(np.exp(other._log_propensity), other._propensity)


def test_a_sequence_misses_when_bets_against_the_truth_have_won(sequences: ModuleType) -> None:
    rng = np.random.default_rng(2)
    missed = 0
    for mean, truth in ((0.7, 0.7), (0.9, 0.7), (0.4, 0.7)):
        x = (rng.random(120) < mean).astype(float)
        kt, hedge = sequences.kt_refutes(x, truth, 0.05), sequences.hedge_refutes(x, truth, 0.05)
        for t in range(1, 121):
            low, high = (float(end) for end in kt_interval(t, x[:t].sum(), 0.05))
            assert kt[t - 1] == (not low <= truth <= high)
            low, high = hedged_interval(x[:t], 0.05)
            assert hedge[t - 1] == (not low <= truth <= high)
        missed += kt.any() + hedge.any()
    assert 2 <= missed <= 4  # two of the three means are wrong


def test_doubly_robust_bets_against_the_truth(logs: ModuleType, sequences: ModuleType) -> None:
    """The capital at some value, against the interval's ends; some values are refuted."""
    rng = np.random.default_rng(5)
    n = 300
    p = rng.uniform(0.1, 0.9, n)
    arm = (rng.random(n) >= p).astype(int)
    own = np.where(arm == 0, p, 1 - p)
    run = logs.Run(arm, own, np.log(own), (rng.random(n) < 0.3 + 0.4 * arm).astype(float))
    weights = np.array([0.5, 0.5])
    evaluator = logs.Evaluator(n, weights)
    refuted = []
    for value in (0.05, 0.3, 0.5, 0.7, 0.95):
        found = sequences.robust_refutes(run, value, evaluator)
        for t in (50, 180, n):
            rows = evaluator.whole.rows(next(iter(run.batches(size=t))), History.empty(2))
            sides = [
                np.array([pseudo_outcomes(rows, (0.0, 1.0), k)[side] for k in _CEILINGS])
                for side in (0, 1)
            ]
            low = lower_bound(sides[0], 0.025)
            high = 1.0 - lower_bound(sides[1], 0.025)
            assert found[t - 1] == (not low <= value <= high)
        refuted.append(bool(found[-1]))
    assert refuted[0]
    assert refuted[-1]
    assert not refuted[2]
    assert DoublyRobustBetting.anytime


def test_what_holds_between_pulls(sequences: ModuleType) -> None:
    found = sequences._held(np.array([False, True, False]), np.array([1, 4, 6]), 9)
    assert found.tolist() == [False] * 4 + [True] * 2 + [False] * 3


def test_tallies(logs: ModuleType) -> None:
    tally = logs.Tally(0.5)
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
def measured(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What puts the numbers together."""
    return module(monkeypatch, "coverage_data")


@pytest.fixture
def data() -> Any:
    """What was measured."""
    return json.loads((ROOT / "docs" / "coverage.json").read_text(encoding="utf-8"))


def test_the_page_is_made_of_its_data(pages: ModuleType, data: Any) -> None:
    assert pages.page(data) == (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")


def test_what_is_recommended_is_read_off_the_table(measured: ModuleType, data: Any) -> None:
    """What covers in every cell of learning policies comes first, the narrowest before the others;
    the two that come first of all beside the confidence sequences, by name."""
    sound = [s for s in measured.summaries(data) if s.enough == s.cells]
    sound.sort(key=lambda s: s.width)
    assert [s.pair for s in sound][:2] == ["dm policy-bootstrap", "dm likelihood-ratio"]
    assert all(s.cells >= 48 and s.logs >= 2_000 for s in sound)
    order = [" ".join(pair) for pair in verdicts._WITHOUT_CONTEXT]
    assert order[: len(sound)] == [s.pair for s in sound]
    # Where rounds are independent the textbook's interval is no wider, and covers.
    for one in measured.seen(data, "dm t", learning=False):
        if one.policy == "uniform":
            assert one.coverage >= measured.ENOUGH - 0.015


def test_all_targets_and_enough_logs_in_every_cell(measured: ModuleType, data: Any) -> None:
    """2,000 logs of each, for every target; arm means with exact propensities only."""
    assert len(data["cells"]) == 24
    for name, kinds in data["cells"].items():
        expected = {"arms", "rows", "bets", "bootstraps", "ever"}
        assert kinds.keys() == expected - ({"arms"} if "Monte Carlo" in name else set())
        for found in kinds.values():
            assert set(found) == set(measured.TARGETS)
            for pairs in found.values():
                assert all(row[2] >= 2_000 for row in pairs.values())


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


def test_page_of_a_few_numbers(pages: ModuleType, measured: ModuleType) -> None:
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
    found = measured.summary(few, "dm kt")
    assert (found.cells, found.enough, found.logs) == (2, 2, 50)
    assert found.least.place == "KL-MS, (0.2, 0.25), T = 1,000, arm 0"
    assert found.mean == pytest.approx(0.985)
    assert found.width == pytest.approx(math.sqrt(2.0))
    assert measured.summary(few, "dm normal").enough == 1
    assert measured.summary(few, "aipw t") is None
    assert "| `dm` `kt`" in pages.overview(few)
    assert "97.0 · 0.4" in pages.settings(few, "KL-MS", "arm 0")


def test_what_the_page_says_of_weighted_estimators(pages: ModuleType) -> None:
    """Those that cover everywhere, the narrowest first, and the nearest of the others."""

    def cell(aipw: float, ipw: float) -> Any:
        found = {"dm normal": [0.9, 0.1, 50], "ipw t": [ipw, 0.2, 50], "aipw t": [aipw, 0.4, 50]}
        return {"rows": {"uniform": found | {"cadr t": [0.1, 0.1, 50]}}}

    names = ("KL-MS 0.2, 0.25 1000", "KL-MS 0.8, 0.9 1000")
    two = {"cells": dict(zip(names, (cell(0.99, 0.99), cell(0.96, 0.9)), strict=True))}
    assert pages.of_weighted(two) == (
        "Of the weighted estimators' intervals these cover in every cell: `aipw` `t` at 4.00 times "
        "the width. The nearest of the others, `ipw` `t`, does in 1 of 2."
    )
    two = {"cells": dict(zip(names, (cell(0.99, 0.9), cell(0.9, 0.9)), strict=True))}
    assert pages.of_weighted(two).startswith("None of the weighted")
    assert "`aipw` `t`, does in 1 of 2." in pages.of_weighted(two)


def test_new_files_replace_what_was_measured_before(measured: ModuleType, tmp_path: Path) -> None:
    """Task by task; CPU time of which it is not known what it was spent on is kept till the end."""

    def write(task: str, share: float, cpu: float) -> None:
        content = {"task": task, "found": {"uniform": {"dm kt": [share, 0.2, 50]}}, "cpu": cpu}
        name = f"{task.replace(' ', '_')}.json"
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")

    name = "KL-MS 0.2, 0.25 1000"
    old = {"uniform": {"dm kt": [0.5, 0.1, 20]}}
    before = {
        "cells": {name: {"arms": old, "ever": old, "forgotten": old}, "another": {"rows": old}},
        "more": {"ten arms": old},
        "cpu": {"earlier": 100, "rows another": 7.0},
    }
    write(f"arms {name}", 0.25, 3.04)
    write("more ten arms", 1 / 3, 2.0)
    found = measured.gathered(tmp_path, before)
    assert found["cells"][name] == {"arms": {"uniform": {"dm kt": [0.25, 0.2, 50]}}, "ever": old}
    assert found["cells"]["another"] == {"rows": old}
    assert found["more"] == {"ten arms": {"uniform": {"dm kt": [0.33333, 0.2, 50]}}}
    expected = {"earlier": 100, "rows another": 7.0, f"arms {name}": 3.0, "more ten arms": 2.0}
    assert found["cpu"] == expected
    assert measured.minutes(found) == 2
    write(f"ever {name}", 0.0, 1.0)
    found = measured.gathered(tmp_path, found)
    assert "earlier" not in found["cpu"]
    assert measured.gathered(tmp_path)["cells"].keys() == {name}
