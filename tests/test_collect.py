"""Collected logs: the engine's decisions, whole runs in order, however they are written."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import maillard as mb
from maillard.cli import main
from maillard.logs import Log
from maillard.simulation import collect as collecting
from maillard.simulation.engine import program

WORLD = mb.Bernoulli([0.3, 0.6, 0.5])


def rows(log: Log, name: str) -> list[Any]:
    return log.to_arrow()[name].to_pylist()


def test_the_log_is_what_the_engine_records() -> None:
    log = mb.collect("kl-ms", WORLD, horizon=40, runs=3, seed=7, first=2)
    record = program(mb.policy("kl-ms", 3), WORLD).record(40, seed=7, first=2, trials=3)
    assert log.rows == 120
    assert rows(log, "run") == [2] * 40 + [3] * 40 + [4] * 40
    assert rows(log, "round") == [*range(1, 41)] * 3
    assert rows(log, "arm") == record.arm.ravel().tolist()
    for name in ("propensity", "log_propensity", "reward"):
        assert rows(log, name) == getattr(record, name).ravel().tolist()
    log.check()


def test_the_metadata_says_how_to_do_it_again() -> None:
    world = mb.Delayed(WORLD, rounds=3)
    log = mb.collect("kl-ms:booster=2", world, horizon=30, seed=5)
    said = json.loads(json.dumps(log.metadata))
    assert (said["policy"], said["horizon"], said["seed"]) == ("kl-ms", 30, 5)
    assert said["parameters"]["booster"] == 2.0
    assert said["rewards"] == [0.0, 1.0]
    assert said["delay"] == ["fixed", 3]
    policy = mb.policy(said["policy"], log.arms, rewards=said["rewards"], **said["parameters"])
    again = mb.collect(
        policy, mb.environment_from(said["environment"]), said["horizon"], seed=said["seed"]
    )
    assert again.to_arrow().equals(log.to_arrow(), check_metadata=True)


def test_labels_of_the_policy() -> None:
    policy = mb.policy("kl-ms", arms=["red", "grün", "blue"])
    log = mb.collect(policy, WORLD, horizon=20)
    assert log.arms == ("red", "grün", "blue")
    assert set(rows(log, "arm")) == set(log.arms)
    assert policy.round == 1


@pytest.mark.parametrize("workers", [1, 3])
def test_folders_files_and_memory_hold_the_same(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "_BLOCK", 100)
    monkeypatch.setattr(collecting, "_FILE", 300)
    whole = mb.collect("ms", WORLD, horizon=6, runs=150, seed=1, workers=workers)
    mb.collect("ms", WORLD, horizon=6, runs=150, seed=1, out=tmp_path / "a", workers=workers)
    file = tmp_path / "log.parquet"
    found = mb.collect("ms", WORLD, horizon=6, runs=150, seed=1, out=file, workers=workers)
    names = [path.name for path in sorted((tmp_path / "a").iterdir())]
    assert names == [
        "runs-000000000-000000063.parquet", "runs-000000064-000000127.parquet",
        "runs-000000128-000000149.parquet",
    ]  # fmt: skip
    assert found.to_arrow().equals(whole.to_arrow(), check_metadata=True)
    assert Log.read(tmp_path / "a").to_arrow().equals(whole.to_arrow(), check_metadata=True)
    one = mb.collect("ms", WORLD, horizon=6, runs=1, seed=1, first=77)
    assert one.to_arrow().equals(whole.to_arrow().slice(77 * 6, 6))


def test_runs_can_be_added(tmp_path: Path) -> None:
    def more(first: int, **options: Any) -> Log:
        return mb.collect("kl-ms", WORLD, 20, runs=5, first=first, out=tmp_path / "logs", **options)

    more(0)
    with pytest.raises(ValueError, match="holds a log already; append=True adds to it"):
        more(5)
    with pytest.raises(ValueError, match="holds runs 0 to 4 already: number the new ones with fi"):
        more(4, append=True)
    both = more(5, append=True)
    assert rows(both, "run") == [i for i in range(10) for _ in range(20)]
    assert both.to_arrow().equals(mb.collect("kl-ms", WORLD, 20, runs=10).to_arrow())


@pytest.mark.parametrize(
    ("policy", "world"),
    [
        ("kl-ms", WORLD),
        ("exp3", WORLD),
        ("tsallis-inf", WORLD),
        ("kl-ms:floor=0.1", mb.Delayed(WORLD, rounds=4)),
        ("ms", mb.Batched(WORLD, 7)),
        ("ms", mb.Beta([1, 2], [2, 1])),
    ],
)
def test_probabilities_of_every_arm(policy: str, world: Any) -> None:
    log = mb.collect(policy, world, horizon=40, runs=2, seed=3, probabilities=True)
    log.check()
    plain = mb.collect(policy, world, horizon=40, runs=2, seed=3)
    assert rows(plain, "arm") == rows(log, "arm")
    every = np.array(rows(log, "probabilities"))
    own = every[np.arange(80), np.array(rows(log, "arm"))]
    assert np.allclose(own, rows(log, "propensity"), rtol=1e-9, atol=0.0)
    # By hand, where rewards are seen at once.
    if world.delay is None:
        learner = mb.policy(policy, arms=log.arms)
        for arm, p, reward, probabilities in zip(
            rows(log, "arm")[:40], rows(log, "propensity"), rows(log, "reward"), every
        ):
            assert np.allclose(learner.probabilities(), probabilities, rtol=1e-12, atol=0.0)
            learner.update(arm, reward, propensity=p)


def test_an_honest_log_passes_its_own_checks() -> None:
    found = mb.collect("kl-ms", WORLD, horizon=60, runs=40, probabilities=True).describe()
    assert found.runs == 40
    assert found.ordered is True
    assert not any(check.suspicious for check in found.checks)
    assert found.zero_propensities


def test_bad_input_is_said_and_writes_nothing(tmp_path: Path) -> None:
    def fails(said: str, *arguments: Any, **options: Any) -> None:
        with pytest.raises(ValueError, match=said):
            mb.collect(*arguments, out=tmp_path / "logs", **options)
        assert list(tmp_path.iterdir()) == []

    fails("unknown policy 'kl-sm'", "kl-sm", WORLD, 100)
    fails("too short for 3 arms", "kl-ms", WORLD, 2)
    fails("horizon must be a whole number", "kl-ms", WORLD, 0)
    fails("runs must be a whole number", "kl-ms", WORLD, 10, runs=0)
    fails("first must be a whole number", "kl-ms", WORLD, 10, first=-1)
    fails("workers must be a whole number", "kl-ms", WORLD, 10, workers=0)
    fails("is no environment", "kl-ms", 3, 10)
    fails("delays that are the same", "kl-ms", mb.Delayed(WORLD, mean=2.0), 10, probabilities=True)
    fails("its coins are not", "kl-ms:binarise=1", WORLD, 10, probabilities=True)
    with pytest.raises(ValueError, match=r"writes a .parquet file or a folder"):
        mb.collect("kl-ms", WORLD, 10, out=tmp_path / "log.csv")
    with pytest.raises(ValueError, match="only a folder can be added to"):
        mb.collect("kl-ms", WORLD, 10, out=tmp_path / "log.parquet", append=True)
    with pytest.raises(ValueError, match="append= is for a folder"):
        mb.collect("kl-ms", WORLD, 10, append=True)


def test_a_policy_without_exact_probabilities_is_refused(tmp_path: Path) -> None:
    world = mb.Beta([1, 2], [2, 1])
    with pytest.raises(ValueError, match="npts"):
        mb.collect("npts", world, 5, out=tmp_path / "logs")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_keeps_whole_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "_FILE", 1)
    columns = collecting._Plan.columns

    def failing(self: Any, first: int, stop: int) -> Any:
        if first >= 64:
            raise self_made
        return columns(self, first, stop)

    monkeypatch.setattr(collecting._Plan, "columns", failing)
    self_made: BaseException = MemoryError("no more")
    with pytest.raises(MemoryError, match="no more"):
        mb.collect("ms", WORLD, 10, runs=200, out=tmp_path / "a", workers=1)
    assert [path.name for path in (tmp_path / "a").iterdir()] == [
        "runs-000000000-000000063.parquet"
    ]
    self_made = KeyboardInterrupt()
    with pytest.warns(RuntimeWarning, match=r"holds runs 0 to 63; go on with first=64"):
        log = mb.collect("ms", WORLD, 10, runs=200, out=tmp_path / "b", workers=1)
    assert log.rows == 640
    result = CliRunner().invoke(
        main,
        ["collect", "--policy", "ms", "--means", "0.3,0.6,0.5", "--horizon", "10", "--runs", "200",
         "--workers", "1", "--out", str(tmp_path / "c")],
    )  # fmt: skip
    assert result.exit_code == 130
    assert "holds runs 0 to 63; go on with --first 64 and --append\n" in result.stderr
    with pytest.raises(KeyboardInterrupt):
        mb.collect("ms", WORLD, 10, runs=2, first=64, out=tmp_path / "d", workers=1)
    assert not (tmp_path / "d").exists()
    with pytest.raises(KeyboardInterrupt):
        mb.collect("ms", WORLD, 10, runs=2, first=64, out=tmp_path / "d.parquet", workers=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_the_command_line(tmp_path: Path) -> None:
    words = ["collect", "--policy", "kl-ms", "--means", "0.3,0.6,0.5", "--horizon", "20"]
    result = CliRunner().invoke(main, [*words, "--runs", "4", "--out", str(tmp_path / "logs")])
    assert result.exit_code == 0, result.output
    assert "holds 80 rows" in result.output
    expected = mb.collect("kl-ms", WORLD, 20, runs=4)
    assert Log.read(tmp_path / "logs").to_arrow().equals(expected.to_arrow())
    result = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "x.parquet"), "--json"])
    assert json.loads(result.output)["rows"] == 20
    for extra, said in (
        ([], "Missing option '--out'"),
        (["--out", str(tmp_path / "logs")], "holds a log already"),
        (["--out", "x", "--environment", "bernoulli:means=0.1,0.2"], "or --envir"),
    ):
        result = CliRunner().invoke(main, [*words, *extra])
        assert result.exit_code == 2
        assert said in result.output


@pytest.mark.slow
def test_thompson_is_logged_by_quadrature() -> None:
    log = mb.collect("thompson:prior=1,1", mb.Bernoulli([0.4, 0.6]), 50, runs=3, probabilities=True)
    log.check()
    every = np.array(rows(log, "probabilities"))
    assert np.allclose(every.sum(axis=1), 1.0, atol=1e-12)
    assert math.isclose(every[0, 0], 0.5)
