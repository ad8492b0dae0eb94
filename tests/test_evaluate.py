"""`evaluate` as a user meets it: targets, refusals, hostile logs, several runs, logs on disk."""

import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maillard as mb
from maillard.evaluation import passes
from maillard.evaluation.arrays import ArrayLog
from maillard.evaluation.catalogue import ESTIMATORS, INTERVALS
from maillard.evaluation.verdicts import recommended

KEYS = [
    "estimator", "interval", "estimate", "low", "high", "standard_error", "ess",
    "largest_weight_share", "verdict",
]  # fmt: skip


def table(rows: int = 400, seed: int = 0, arms: int = 2, **extra: Any) -> pa.Table:
    """A log of a policy that leans to the last arm, with its probabilities."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.arange(2.0, arms + 2.0), rows)
    arm = (rng.random((rows, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
    reward = (rng.random(rows) < 0.2 + 0.5 * arm / arms).astype(float)
    columns = {
        "arm": arm,
        "propensity": probabilities[np.arange(rows), arm],
        "reward": reward,
        "round": np.arange(1, rows + 1),
    }
    lists = pa.FixedSizeListArray.from_arrays(pa.array(probabilities.ravel()), arms)
    return pa.table(columns | {"probabilities": lists} | extra)


def log_of(data: pa.Table, arms: int = 2) -> mb.Log:
    return mb.Log.read(data, arms=arms)


def by_name(found: mb.Evaluation) -> dict[tuple[str, str], Any]:
    return {(e.estimator, e.interval): e for e in found.estimates}


# --------------------------------------------------------------------------------------------------
# Shape


def test_the_dictionary_has_exactly_this_shape() -> None:
    found = mb.evaluate(log_of(table())).to_dict()
    assert list(found) == ["target", "recommended", "estimates"]
    assert found["target"] == "uniform"
    assert all(list(estimate) == KEYS for estimate in found["estimates"])
    assert found["recommended"] == found["estimates"][0]["estimator"] == "dm"
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_everything_can_be_asked_for() -> None:
    found = mb.evaluate(log_of(table()), estimators="all", intervals="all", replicates=20)
    pairs = by_name(found)
    assert {estimator for estimator, _ in pairs} == set(ESTIMATORS)
    # But for the one that needs the policy's name, which this log does not have.
    assert {interval for _, interval in pairs} == set(INTERVALS) - {"policy-bootstrap"}
    for one in found.estimates:
        assert one.verdict
        if math.isfinite(one.low):
            assert one.low <= one.high


def test_the_summary_tells_all_in_words() -> None:
    found = mb.evaluate(log_of(table()))
    text = str(found)
    for word in (
        "uniform",
        "dm *",
        "snipw",
        "effective rows",
        "recommended: dm with likelihood-ratio",
        "arm",
    ):
        assert word in text
    assert found.best is found.estimates[0]


def test_names_must_exist_and_go_together() -> None:
    log = log_of(table(arms=3), 3)
    for options, message in (
        ({"estimators": "snipv"}, "unknown estimator 'snipv': did you mean snipw"),
        ({"intervals": ["nromal"]}, "unknown interval 'nromal': did you mean normal"),
        ({"estimators": []}, "at least one estimator"),
        ({"estimators": "ipw", "intervals": "kt"}, "the interval kt is for dm"),
        ({"estimators": "aipw", "intervals": "empirical-bernstein"}, "is for ipw"),
        ({"level": 1.0}, "level must be"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"seed": 0.5}, "seed must be a whole number of at least 0"),
        ({"level": math.nan}, "level must be"),
        ({"level": "high"}, "level must be"),
        ({"replicates": 0}, "replicates must be a whole number of at least 1"),
        ({"pieces": 0}, "pieces must be a whole number of at least 1"),
        ({"executor": "dask"}, "executor must be a concurrent.futures.Executor, not 'dask'"),
        ({"estimators": 5}, "give the names of estimators, not 5"),
        ({"replicates": 1.5}, "replicates must be a whole number"),
        ({"clip": 0.5}, "clip must be"),
        ({"rewards": (1, 0)}, "needs L < U"),
        ({"rewards": 3}, "must be a pair"),
        ({"rewards": (0.5, 1)}, "not in the range"),
        ({"run": 1}, "no column run"),
        ({"model": [1.0, 2.0]}, "model must be"),
        ({"model": "predictions"}, "no column 'predictions'"),
        ({"target": "uniform", "versus": "uniform"}, "the same distribution"),
    ):
        with pytest.raises(ValueError, match=message):
            mb.evaluate(log, **options)
    bare = log_of(table(arms=3).drop_columns("probabilities"), 3)
    with pytest.raises(ValueError, match="cadr needs the probabilities of all arms"):
        mb.evaluate(bare, estimators="cadr")
    with pytest.raises(ValueError, match="dr-betting needs the probabilities"):
        mb.evaluate(bare, estimators="aipw", intervals="dr-betting")
    assert ("cadr", "normal") not in by_name(mb.evaluate(bare, estimators="all"))


def test_what_is_recommended() -> None:
    pairs = [("ipw", "normal"), ("snipw", "normal"), ("dm", "normal"), ("dm", "kt")]
    assert recommended(pairs, contextual=False) == ("dm", "kt")
    assert recommended(pairs[:3], contextual=False) == ("dm", "normal")
    assert recommended(pairs, contextual=False, independent=True) == ("dm", "normal")
    better = [*pairs, ("dm", "likelihood-ratio")]
    assert recommended(better, contextual=False) == ("dm", "likelihood-ratio")
    better.append(("dm", "policy-bootstrap"))
    assert recommended(better, contextual=False) == ("dm", "policy-bootstrap")
    assert recommended(better, contextual=True, independent=True) == ("snipw", "normal")
    assert recommended(pairs, contextual=True) == ("snipw", "normal")
    assert recommended([], contextual=False) is None


# --------------------------------------------------------------------------------------------------
# Targets


def test_targets_are_named_in_many_ways() -> None:
    data = table(arms=3).set_column(
        0, "arm", pa.array(["red", "green", "blue"]).take(table(arms=3)["arm"])
    )
    log = mb.Log.read(data, arms=["red", "green", "blue"])

    def value(target: Any, estimator: str = "ipw") -> float:
        found = mb.evaluate(log, target, estimators=estimator, intervals="normal")
        return found.estimates[0].estimate

    assert value("red") == value({"red": 1.0}) == value([1.0, 0.0, 0.0])
    assert value("uniform") == pytest.approx(value({"red": 1 / 3, "green": 1 / 3, "blue": 1 / 3}))
    arm = np.array([["red", "green", "blue"].index(x) for x in data["arm"].to_pylist()])
    own = np.array([0.2, 0.3, 0.5])[arm]
    assert value(own) == pytest.approx(value([0.2, 0.3, 0.5]))
    assert value(np.tile([0.2, 0.3, 0.5], (400, 1))) == pytest.approx(value([0.2, 0.3, 0.5]))
    assert value(mb.policy("uniform", ["blue", "red", "green"])) == pytest.approx(value("uniform"))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.tile([0.2, 0.3, 0.5], 400)), 3)
    log = mb.Log.read(
        data.append_column("mine", lists).append_column("own", pa.array(own)),
        arms=["red", "green", "blue"],
    )
    assert value("column:mine") == pytest.approx(value([0.2, 0.3, 0.5]))
    assert value("column:own") == pytest.approx(value([0.2, 0.3, 0.5]))
    assert value("column:mine", "aipw") == pytest.approx(value([0.2, 0.3, 0.5], "aipw"))


def test_the_probability_of_the_logged_arm_is_enough_for_weighting() -> None:
    log = log_of(table())
    own = np.full(400, 0.5)
    found = {estimator for estimator, _ in by_name(mb.evaluate(log, own, estimators="all"))}
    assert found == {"ipw", "snipw", "clipped-ipw", "truncated-ipw", "sub-gaussian-ipw"}
    with pytest.raises(ValueError, match="aipw needs the target's probabilities of all arms"):
        mb.evaluate(log, own, estimators="aipw")


def test_wrong_targets_say_what_is_wrong() -> None:
    log = log_of(table())
    extra = table().append_column("half", pa.array(["x"] * 400))
    for target, message in (
        ("unifrom", "did you mean uniform"),
        (7, "neither an arm of the log"),
        ({0: 0.5}, "sum to 0.5"),
        ({0: 0.5, 2: 0.5}, "no arm 2"),
        ({0: -0.5, 1: 1.5}, r"arm 0 must be in \[0, 1\]"),
        ({0: True}, "must be in"),
        ([0.5, 0.25, 0.25], "3 probabilities, but 2 arms and 400 rows"),
        (np.full((400, 3), 1 / 3), "3 probabilities in a row, but 2 arms"),
        (np.full((400, 2), 0.4), "row 0: the target's probabilities sum to 0.8"),
        (np.linspace(0, 2, 400), "row 200: the target's probability 1.00"),
        (np.full(400, math.nan), "row 0: the target's probability nan"),
        (mb.policy("uniform", ["a", "b"]), "its arms are"),
        (None, "target must be"),
        (1.5, "target must be"),
        ("column:nothing", "no column 'nothing'"),
    ):
        with pytest.raises(ValueError, match=message):
            mb.evaluate(log, target)
    with pytest.raises(ValueError, match="holds no numbers"):
        mb.evaluate(log_of(extra), "column:half")
    named = mb.Log.read(
        pa.table({"arm": ["ms", "b"] * 3, "propensity": [0.5] * 6, "reward": [0.0, 1.0] * 3})
    )
    with pytest.raises(ValueError, match="'ms' is an arm and a policy"):
        mb.evaluate(named, "ms")


def test_a_policy_is_replayed_on_the_log() -> None:
    """ε-greedy by hand: what it would have chosen, having seen the rows before."""
    data = table(120, seed=3)
    found = mb.evaluate(log_of(data), mb.policy("epsilon-greedy", 2, initial="in-order"))
    pulls, totals, terms, mass = np.zeros(2), np.zeros(2), [], []
    rows = zip(data["arm"].to_pylist(), data["propensity"].to_pylist(), data["reward"].to_pylist())
    for arm, p, reward in rows:
        if pulls.min() == 0:
            pi = np.eye(2)[int(np.argmin(pulls > 0))]
        else:
            means = totals / pulls
            pi = 0.05 + 0.9 * (means == means.max()) / np.count_nonzero(means == means.max())
        terms.append(pi[arm] / p * reward)
        mass.append(pi)
        pulls[arm] += 1
        totals[arm] += reward
    pairs = by_name(found)
    assert found.target == "epsilon-greedy"
    assert pairs["ipw", "normal"].estimate == pytest.approx(np.mean(terms))
    expected = np.mean(mass, axis=0) @ (totals / pulls)
    assert pairs["dm", "kt"].estimate == pytest.approx(expected)
    assert mb.evaluate(log_of(data), "epsilon-greedy").target == "epsilon-greedy"
    again = mb.evaluate(log_of(data), mb.policy("epsilon-greedy", 2, initial="in-order"))
    assert again.to_dict() == found.to_dict()


# --------------------------------------------------------------------------------------------------
# Refusals and hostile logs


def test_a_target_with_an_arm_that_was_never_possible_is_refused() -> None:
    data = table()
    bare = data.drop_columns("probabilities")
    with pytest.raises(ValueError, match=r"arm 2 probability 0.333.*never played, and no probab"):
        mb.evaluate(log_of(bare, 3))
    zeros = np.column_stack([np.array(data["probabilities"].to_pylist()), np.zeros(400)])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(zeros.ravel()), 3)
    never = bare.append_column("probabilities", lists)
    with pytest.raises(ValueError, match="its probability is 0 in every row"):
        mb.evaluate(log_of(never, 3))
    assert mb.evaluate(log_of(never, 3), {0: 0.5, 1: 0.5}).recommended == "dm"


def test_an_arm_that_was_possible_but_never_played_says_so() -> None:
    rows = 40
    log = ArrayLog(3, [0, 1] * 20, [0.45] * rows, [1.0, 0.0] * 20, [[0.45, 0.45, 0.1]] * rows)
    found = mb.evaluate(log)
    pairs = by_name(found)
    assert math.isnan(pairs["dm", "kt"].estimate)
    assert "never played" in pairs["dm", "kt"].verdict
    assert found.recommended != "dm"
    assert found.to_dict()["estimates"][-1]["estimate"] is not None


def test_rounds_that_could_not_play_the_target_are_left_out() -> None:
    rows = 300
    rng = np.random.default_rng(1)
    p = np.tile([0.5, 0.5], (rows, 1))
    p[:100] = [1.0, 0.0]
    arm = np.where(p[:, 1] > 0, rng.integers(0, 2, rows), 0)
    reward = rng.random(rows)
    own = p[np.arange(rows), arm]
    for log in (ArrayLog(2, arm, own, reward, p), ArrayLog(2, arm, own, reward)):
        found = mb.evaluate(log, estimators=["ipw", "snipw", "aipw"], intervals="normal")
        ipw = by_name(found)["ipw", "normal"]
        assert ipw.estimate == pytest.approx(reward[100:].mean())
        assert found.diagnostics.impossible == 100
        assert "100 rounds could not play" in ipw.verdict
    alone = mb.evaluate(ArrayLog(2, arm, own, reward, p), 0, estimators="ipw", intervals="normal")
    assert alone.diagnostics.impossible == 0


def test_a_log_of_a_deterministic_policy_leaves_the_arm_means() -> None:
    log = ArrayLog(2, [0, 1] * 50, [1.0] * 100, [0.0, 1.0] * 50)
    found = mb.evaluate(log)
    assert (found.recommended, found.best.interval) == ("dm", "likelihood-ratio")
    assert found.best.estimate == 0.5
    ipw = by_name(found)["ipw", "normal"]
    assert math.isnan(ipw.estimate)
    assert "in no round was everything possible" in ipw.verdict


@pytest.mark.parametrize("with_model", [False, True])
def test_arms_that_were_not_drawn_with_the_propensities(with_model: bool) -> None:
    """Constant propensities say that rounds are independent, unless the arms' counts deny it."""
    rng = np.random.default_rng(3)
    rows = 2_000
    reward = rng.random(rows)
    for share, honest in ((0.5, True), (0.8, False)):
        arm = (rng.random(rows) < share).astype(int)
        options: Any = {"model": np.full((rows, 2), 0.5)} if with_model else {}
        found = mb.evaluate(ArrayLog(2, arm, np.full(rows, 0.5), reward), **options)
        assert any("cannot have been drawn" in note for note in found.notes) is not honest
        pairs = by_name(found)
        assert pairs["ipw", "normal"].verdict.startswith("sound" if honest else "do not trust: the")
        if not with_model:
            assert pairs["dm", "normal"].verdict.startswith("sound" if honest else "take care: the")
            assert found.best.interval == ("normal" if honest else "likelihood-ratio")


@pytest.mark.parametrize("arms", [2, 3, 7, 50])
def test_honest_counts_are_not_doubted(arms: int) -> None:
    """Rare arms, rounded propensities, and arms that could not always be played."""
    from maillard.evaluation.diagnostics import Diagnostics
    from maillard.evaluation.verdicts import contradicted

    rng = np.random.default_rng(arms)
    for n in (1, 30, 1_000, 10**9):
        for _ in range(100):
            p = rng.dirichlet(np.full(arms, 0.3))
            pulls = rng.multinomial(n, p).astype(float)
            rounded = np.array([float(f"{share:.4g}") for share in p])
            own = np.where(pulls > 0.0, rounded, np.nan)
            seen = Diagnostics.empty(arms)._replace(rows=n, pulls=pulls, propensities=own)
            assert not contradicted(seen)
            if n == 10**9 and np.ptp(pulls) > 0.1 * n:
                assert contradicted(seen._replace(pulls=pulls[::-1], propensities=p))
            # These arms in one half of the rounds, as many others in the other half.
            others = rng.multinomial(n, p[::-1]).astype(float)
            seen = Diagnostics.empty(2 * arms)._replace(
                rows=2 * n,
                pulls=np.append(pulls, others),
                propensities=np.append(own, np.where(others > 0.0, rounded[::-1], np.nan)),
            )
            assert not contradicted(seen)


def test_few_rows_are_called_few() -> None:
    found = mb.evaluate(ArrayLog(2, [0, 1] * 20, [0.5] * 40, [0.0, 1.0] * 20))
    said = "do not trust: 40 rows are too few"
    assert by_name(found)["ipw", "normal"].verdict == said


def test_rewards_whose_squares_overflow_are_refused() -> None:
    log = ArrayLog(2, [0, 1] * 20, [0.5] * 40, [0.0, -1e200] * 20)
    with pytest.raises(ValueError, match=r"rewards as large as 1e\+200 .* squares overflow"):
        mb.evaluate(log)


def test_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="no rows"):
        mb.evaluate(log_of(table(0)))
    with pytest.raises(ValueError, match="no rows"):
        mb.evaluate(ArrayLog(2, [], [], []))


def test_one_row() -> None:
    found = mb.evaluate(
        ArrayLog(2, [1], [0.5], [1.0]), 1, estimators="all", intervals="all", replicates=10
    )
    pairs = by_name(found)
    assert pairs["ipw", "normal"].estimate == 2.0
    assert math.isnan(pairs["ipw", "normal"].standard_error)
    assert pairs["dm", "kt"].estimate == 1.0
    assert (found.recommended, found.best.interval) == ("dm", "likelihood-ratio")
    assert 0.0 <= found.best.low < found.best.high == 1.0
    json.dumps(found.to_dict(), allow_nan=False)


def test_all_the_weight_on_one_row() -> None:
    rows = 500
    arm, p, r = np.zeros(rows, dtype=int), np.full(rows, 1.0 - 1e-9), np.zeros(rows)
    arm[77], p[77], r[77] = 1, 1e-9, 1.0
    found = mb.evaluate(ArrayLog(2, arm, p, r), 1, estimators="all", intervals="all", replicates=20)
    ipw = by_name(found)["ipw", "normal"]
    assert ipw.ess == pytest.approx(1.0)
    assert ipw.largest_weight_share == pytest.approx(1.0)
    assert "do not trust" in ipw.verdict
    assert found.recommended == "dm"
    assert found.best.high == 1.0


def test_propensities_so_small_that_squares_overflow() -> None:
    p = [0.5, 1e-200, 0.5, 0.5]
    found = mb.evaluate(ArrayLog(2, [0, 1, 1, 0], p, [1, 1, 0, 0]), estimators="all")
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.recommended == "dm"


@pytest.mark.parametrize("value", [0.0, 1.0, 0.3])
def test_constant_rewards(value: float) -> None:
    arm, p = np.arange(200) % 3, np.random.default_rng(0).uniform(0.2, 0.5, 200)
    log = ArrayLog(3, arm, p, np.full(200, value))
    pairs = by_name(mb.evaluate(log, estimators=["dm", "snipw", "sndr"], intervals=["normal"]))
    for name in ("dm", "snipw"):
        one = pairs[name, "normal"]
        assert one.estimate == pytest.approx(value, rel=1e-14)
        assert one.standard_error < 1e-12
        assert one.low <= one.estimate <= one.high


def test_unsorted_rounds_are_an_error_where_order_matters() -> None:
    data = table()
    order = np.arange(400)
    order[[200, 201]] = 201, 200
    with pytest.raises(ValueError, match="row 201: round 201 comes after round 202"):
        mb.evaluate(log_of(data.take(order)))
    local = mb.evaluate(log_of(data.take(order)), estimators="snipw", intervals="normal")
    sorted_log = mb.evaluate(log_of(data), estimators="snipw", intervals="normal")
    assert local.best.estimate == pytest.approx(sorted_log.best.estimate, rel=1e-14)


def test_rounds_that_fall_between_batches_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "BATCH", 100)
    order = np.concatenate([np.arange(100, 200), np.arange(50), np.arange(200, 400)])
    with pytest.raises(ValueError, match=r"round (1|51) comes after"):
        mb.evaluate(log_of(table(run=np.zeros(400, dtype=np.int64)).take(order)))


def test_repeated_rows_are_mentioned() -> None:
    data = table()
    twice = data.take(np.repeat(np.arange(400), [2] * 10 + [1] * 390))
    assert any("10 rows repeat the row before" in note for note in mb.evaluate(log_of(twice)).notes)
    both = mb.evaluate(log_of(pa.concat_tables([data, data])))
    assert "2 runs, taken together as one experiment" in both.notes


def test_runs_are_one_long_experiment_or_one_is_picked() -> None:
    first = table(300, seed=1, run=np.full(300, 4))
    second = table(200, seed=2, run=np.full(200, 5))
    log = log_of(pa.concat_tables([first, second]))
    assert "2 runs, taken together as one experiment" in mb.evaluate(log).notes
    options: Any = {"estimators": "all", "intervals": ["normal", "kt"]}
    picked = mb.evaluate(log, run=5, **options)
    alone = mb.evaluate(log_of(second), **options)
    assert picked.to_dict() == alone.to_dict()
    with pytest.raises(ValueError, match="no run 6"):
        mb.evaluate(log, run=6)


def test_rewards_outside_the_unit_interval() -> None:
    data = table()
    wide = data.set_column(2, "reward", pa.array(3.0 * np.array(data["reward"]) - 1.0))
    found = mb.evaluate(log_of(wide), estimators="dm", intervals=["kt", "normal"])
    assert (found.recommended, found.best.interval) == ("dm", "normal")
    assert any("give rewards=(L, U)" in note for note in found.notes)
    stated = mb.evaluate(log_of(wide), estimators="dm", intervals="kt", rewards=(-1.0, 2.0)).best
    unit = mb.evaluate(log_of(data), estimators="dm", intervals="kt").best
    assert stated.low == pytest.approx(3.0 * unit.low - 1.0)
    assert stated.high == pytest.approx(3.0 * unit.high - 1.0)
    contrast = mb.evaluate(
        log_of(wide), 1, versus=0, estimators="dm", intervals="kt", rewards=(-1.0, 2.0)
    ).best
    plain = mb.evaluate(log_of(data), 1, versus=0, estimators="dm", intervals="kt").best
    assert contrast.low == pytest.approx(3.0 * plain.low)
    assert contrast.high == pytest.approx(3.0 * plain.high)


def test_arms_at_any_stopping_time() -> None:
    found = mb.evaluate(log_of(table(3000, arms=3), 3))
    assert np.all(found.arm_bounds.low <= found.arm_sums.mean)
    assert found.arm_bounds.best_arms[2]
    with pytest.raises(ValueError, match="need 'dm'"):
        _ = mb.evaluate(log_of(table()), estimators="ipw", intervals="normal").arm_bounds


def test_what_verdicts_say() -> None:
    rng = np.random.default_rng(0)
    arm = rng.integers(0, 2, 2000)
    sound = mb.evaluate(ArrayLog(2, arm, np.full(2000, 0.5), rng.random(2000)), estimators="all")
    good = ("sound", "valid at every time", "covers on logs of learning policies")
    assert all(any(words in e.verdict for words in good) for e in sound.estimates)
    assert (sound.recommended, sound.best.interval) == ("dm", "normal")
    wrong = mb.evaluate(ArrayLog(2, arm, np.where(arm, 0.35, 0.8), rng.random(2000)))
    assert "the weights average" in by_name(wrong)["ipw", "normal"].verdict
    learning = rng.uniform(0.3, 0.7, 2000)
    arm = (rng.random(2000) > learning).astype(int)
    p = np.where(arm, 1 - learning, learning)
    careful = by_name(mb.evaluate(ArrayLog(2, arm, p, rng.random(2000))))
    assert "the policy was learning" in careful["ipw", "normal"].verdict
    assert "valid at every time" in careful["dm", "kt"].verdict


# --------------------------------------------------------------------------------------------------
# Logs on disk, pieces, executors, figures


def test_files_folders_and_tables_are_the_same_log(tmp_path: Path) -> None:
    data = table()
    log_of(data).write(tmp_path / "log.parquet")
    whole = mb.evaluate(log_of(data)).to_dict()
    assert mb.evaluate(str(tmp_path / "log.parquet")).to_dict() == whole
    assert mb.evaluate(tmp_path / "*.parquet").to_dict() == whole
    pq.write_table(data.drop_columns(["round", "probabilities"]), tmp_path / "bare.parquet")
    bare = mb.evaluate(tmp_path / "bare.parquet", estimators="ipw", intervals="normal")
    assert bare.best.estimate == pytest.approx(
        mb.evaluate(log_of(data), estimators="ipw", intervals="normal").best.estimate
    )


@pytest.mark.parametrize("zeros", [False, True])
def test_probabilities_are_read_where_they_matter(
    zeros: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's statistics say that no probability is zero; then weighting need not look for one."""
    p = np.tile([0.5, 0.3, 0.2], (300, 1))
    if zeros:
        p[100:150] = [0.6, 0.4, 0.0]
    arm = np.random.default_rng(0).integers(0, 2, 300)
    data = pa.table({
        "arm": arm, "propensity": p[np.arange(300), arm], "reward": np.ones(300),
        "probabilities": pa.FixedSizeListArray.from_arrays(pa.array(p.ravel()), 3),
    })  # fmt: skip
    log_of(data, 3).write(tmp_path / "log.parquet")
    log = mb.Log.read(tmp_path / "log.parquet")
    assert log.least_probability == (0.0 if zeros else 0.2)
    asked: list[bool] = []
    original = mb.Log.batches
    monkeypatch.setattr(
        mb.Log,
        "batches",
        lambda self, **options: (
            asked.append(options.get("probabilities", False)) or original(self, **options)
        ),
    )
    options: Any = {"estimators": ["ipw", "snipw"], "intervals": "normal"}
    found = mb.evaluate(log, [0.5, 0.25, 0.25], **options)
    assert asked == [zeros]
    assert found.diagnostics.impossible == (50 if zeros else 0)
    assert found.to_dict() == mb.evaluate(log_of(data, 3), [0.5, 0.25, 0.25], **options).to_dict()
    mb.evaluate(log, estimators=["ipw", "min-variance"], intervals="normal")
    assert asked[-1]


@pytest.mark.parametrize("arms", [2, 4])
def test_pieces_on_an_executor_give_the_same(arms: int, tmp_path: Path) -> None:
    data = table(5000, arms=arms)
    log_of(data, arms).write(tmp_path / "log.parquet")
    log = mb.Log.read(tmp_path / "log.parquet")
    options: Any = {"estimators": "all", "intervals": ["normal", "kt", "poisson-bootstrap"]}
    options["replicates"] = 20
    for source in (log, log_of(data, arms)):
        whole = mb.evaluate(source, **options)
        with ThreadPoolExecutor(2) as executor:
            parts = mb.evaluate(source, executor=executor, pieces=3, **options)
        for one, other in zip(parts.estimates, whole.estimates, strict=True):
            assert one[:2] == other[:2]
            assert one[2:8] == pytest.approx(other[2:8], rel=1e-9, abs=1e-12, nan_ok=True)
        assert parts.notes == whole.notes


def test_a_pass_can_be_sent_elsewhere() -> None:
    import pickle

    log = ArrayLog(2, [0, 1, 0], [0.5, 0.5, 0.5], [1, 0, 1])
    found = mb.evaluate(log)
    assert found.source is not None
    copy = pickle.loads(pickle.dumps(found.source[1]))
    state = pickle.loads(pickle.dumps(copy.piece(log)))
    assert state.seen.rows == 3


@pytest.mark.slow
def test_figures_are_written_whole(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = mb.evaluate(log_of(table()))
    figure = found.plot(tmp_path / "value.png")
    assert (tmp_path / "value.png").stat().st_size > 10_000
    assert len(figure.axes) == 3
    running = next(ax for ax in figure.axes if ax.get_xlabel() == "round")
    for line in running.get_lines():
        expected = by_name(found)[line.get_label(), "normal"].estimate
        assert line.get_ydata()[-1] == pytest.approx(expected)
    assert [p.name for p in tmp_path.iterdir()] == ["value.png"]


def test_evaluation_imports_nothing_heavy() -> None:
    code = (
        "import sys, maillard as mb; from maillard.evaluation.arrays import ArrayLog\n"
        "found = mb.evaluate(ArrayLog(2, [0, 1] * 9, [0.5] * 18, [1, 0] * 9), estimators='all')\n"
        "found.summary()\n"
        "heavy = {'numba', 'matplotlib', 'pandas', 'polars', 'duckdb'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
