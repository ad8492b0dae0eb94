"""`maillard evaluate` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import maillard as mb
from maillard.cli import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    arm = rng.integers(0, 2, 300)
    table = pa.table({
        "arm": pa.array(["red", "green"]).take(arm),
        "propensity": np.full(300, 0.5),
        "reward": (rng.random(300) < np.where(arm, 0.7, 0.4)).astype(float),
        "round": np.arange(1, 301),
        "run": np.repeat([0, 1], 150),
    })  # fmt: skip
    table = table.set_column(3, "round", pa.array(np.tile(np.arange(1, 151), 2)))
    mb.Log.read(table).write(tmp_path / "log.parquet")
    return str(tmp_path / "log.parquet")


def run(*words: str) -> str:
    result = CliRunner().invoke(main, ["evaluate", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_table(path: str) -> None:
    text = run(path)
    for word in (
        "value of uniform",
        "dm *",
        "ipw",
        "verdict",
        "recommended: dm with normal",
        "2 runs",
    ):
        assert word in text


def test_json_is_what_the_library_says(path: str) -> None:
    assert json.loads(run(path, "--json")) == mb.evaluate(path).to_dict()
    words = ["--estimator", "ipw", "--estimator", "dm", "--interval", "t", "--level", "0.9"]
    assert (
        json.loads(run(path, "--json", *words))
        == mb.evaluate(path, estimators=["ipw", "dm"], intervals=["t"], level=0.9).to_dict()
    )


@pytest.mark.parametrize(
    ("words", "target"),
    [("red", "red"), ("red=0.25,green=0.75", {"red": 0.25, "green": 0.75}), ("uniform", "uniform")],
)
def test_targets(path: str, words: str, target: object) -> None:
    assert json.loads(run(path, "--target", words, "--json")) == mb.evaluate(path, target).to_dict()


def test_contrasts_and_runs(path: str) -> None:
    found = json.loads(run(path, "--target", "red", "--versus", "green", "--run", "1", "--json"))
    assert found == mb.evaluate(path, "red", versus="green", run=1).to_dict()
    assert found["estimates"][0]["estimate"] < 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "blue"], "neither an arm of the log"),
        (["--target", "red=x"], "not of the form arm=probability"),
        (["--target", "red=0.5,red=0.5"], "arm 'red' is named twice"),
        (["--arms", "red,green,blue"], "nothing about it: it was never played"),
        (["--format", "csv"], "is not a CSV file"),
        (["--target", "red=0.5"], "sum to 0.5"),
        (["--estimator", "ips"], "unknown estimator 'ips'"),
        (["--level", "95"], "level must be"),
        (["--run", "9"], "no run 9"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(path: str, words: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["evaluate", path, *words])
    assert result.exit_code == 2
    assert result.output.startswith("maillard: ")
    assert message in result.output
    assert result.output.count("\n") == 1


def test_a_missing_file_is_no_traceback() -> None:
    result = CliRunner().invoke(main, ["evaluate", "nowhere.parquet"])
    assert result.exit_code == 2
    assert result.output.startswith("maillard: ")


@pytest.mark.slow
def test_a_figure(path: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run(path, "--plot", str(tmp_path / "value.svg"))
    assert (tmp_path / "value.svg").read_text().startswith("<?xml")


def test_help_shows_examples() -> None:
    text = run("--help")
    assert "maillard evaluate log.parquet --target uniform --json" in text


def test_a_policy_learns_in_the_range_of_the_rewards(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({
        "arm": rng.integers(0, 2, 50), "propensity": np.full(50, 0.5),
        "reward": rng.uniform(-1.0, 3.0, 50),
    })  # fmt: skip
    mb.Log.read(table).write(tmp_path / "wide.csv")
    path, words = str(tmp_path / "wide.csv"), ["--rewards", "-1", "3", "--json"]
    found = json.loads(run(path, "--target", "ucb1:floor=0.1", *words))
    policy = mb.policy("ucb1", 2, floor=0.1, rewards=(-1, 3))
    assert found == mb.evaluate(path, policy, rewards=(-1, 3)).to_dict()
    plain = json.loads(run(path, "--target", "ucb1", *words))
    assert plain == mb.evaluate(path, "ucb1", rewards=(-1, 3)).to_dict()


def test_other_formats_and_arms(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("arm,propensity,reward\n0,0.5,1\n1,0.5,0\n")
    path = str(tmp_path / "log.txt")
    found = json.loads(run(path, "--format", "csv", "--arms", "2", "--json"))
    assert found["estimates"][0]["estimate"] == 0.5
