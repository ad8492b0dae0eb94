"""The scripts of `examples/` run, and say what they should."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

#: Script → options that make it short, and what its output must match.
SHORT = {
    "ad_experiment.py": (["--days", "9", "--visitors", "100"], r"^900 visitors"),
    "compare_policies.py": (["--horizon", "500", "--trials", "16"], r"^ ucb1 +\d"),
    "open_bandit.py": ([], r"^recommended: dm with [a-z-]+, 0\.\d+ in \[0\.\d+, 0\.\d+\]"),
    "price_test.py": (["--visitors", "2000"], r"^price 24: offered +[\d,]+ times"),
    "sweep.py": (["--instances", "3", "--trials", "8", "--horizon", "100"], r"^kl-ms +\d"),
}


def run(name: str, *words: str, cwd: Path | None = None) -> str:
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        capture_output=True, text=True, check=False, cwd=cwd,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_script_is_tried() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHORT)


#: Thousands of trials take long without compilation.
SLOW = {"compare_policies.py", "open_bandit.py", "sweep.py"}
ALL = [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in SHORT]


@pytest.mark.parametrize("name", ALL)
def test_a_short_run(name: str, tmp_path: Path) -> None:
    words, expected = SHORT[name]
    assert re.search(expected, run(name, *words, cwd=tmp_path), re.M)
    assert list(tmp_path.iterdir()) == []  # nothing is left behind that was not asked for


@pytest.mark.parametrize("name", SHORT)
def test_help_says_what_it_does(name: str) -> None:
    text = " ".join(run(name, "--help").split())
    first = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()[0].removeprefix('"""')
    assert first in text


@pytest.mark.slow
def test_the_log_and_the_figure_are_written(tmp_path: Path) -> None:
    import maillard as mb

    run("ad_experiment.py", "--days", "6", "--visitors", "20", "--out", "ads.csv", cwd=tmp_path)
    log = mb.Log.read(tmp_path / "ads.csv").check()
    assert log.rows == 120
    assert "video" in log.arms
    short = ["--horizon", "100", "--trials", "4"]
    run("compare_policies.py", *short, "--figure", "regret.png", cwd=tmp_path)
    assert (tmp_path / "regret.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_the_look_alike_is_estimated(tmp_path: Path) -> None:
    """What was earned at random lies in the interval from the other policy's log."""
    text = run("open_bandit.py", cwd=tmp_path)
    low, high = re.search(r"^recommended: .* in \[(.*), (.*)\]", text, re.M).groups()  # type: ignore[union-attr]
    truth = re.search(r"really earned (0\.\d+)", text)
    assert truth is not None
    assert float(low) <= float(truth[1]) <= float(high)
