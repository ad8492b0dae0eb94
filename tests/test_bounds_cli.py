"""`maillard bounds` as a user meets it, and the figures."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import maillard as mb
from maillard import theory
from maillard.cli import main
from maillard.theory.known import THEORIES
from maillard.theory_plots import bounds_figure, crossover_figure


def run(*words: str) -> str:
    result = CliRunner().invoke(main, ["bounds", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_table() -> None:
    text = run("--means", "0.8,0.9", "--horizon", "10000")
    assert "after 10,000 rounds" in text
    for slug in THEORIES:
        assert f" {slug} " in text
    for words in ("arm_pull_lemma_sharp", "lower bound", "Lai", "2.2521"):
        assert words in text
    assert "simulated" not in text


def test_json_is_the_object() -> None:
    data = json.loads(run("--means", "0.8,0.9", "--horizon", "10000", "--json"))
    assert data == mb.bounds([0.8, 0.9], 10_000).to_dict()
    assert data["asymptotic_constant"] == pytest.approx(2.2520997)
    assert data["policies"]["kl-ms"]["theorem_1"] > data["policies"]["kl-ms"]["arm_pull_lemma"]


def test_options() -> None:
    data = json.loads(
        run("--means", "0.8,0.9", "--horizon", "1e6", "--policy", "kl-ms", "--c", "0.25",
            "--delta", "0", "--worst-case", "100", "--json")
    )  # fmt: skip
    assert list(data["policies"]) == ["kl-ms"]
    assert data["horizon"] == 1_000_000
    entry = data["policies"]["kl-ms"]
    assert entry["theorem_1"] == theory.theorem_1([0.8, 0.9], 10**6, delta=0.0, c=0.25)
    assert data["lower"]["finite_time"] == theory.finite_time([0.8, 0.9], 10**6, 100.0)
    huge = json.loads(run("--means", "0.8,0.9", "--horizon", "1" + "0" * 400, "--json"))
    assert huge["horizon"] == 10**400
    assert "10^400" in run("--means", "0.8,0.9", "--horizon", "1" + "0" * 400)
    assert json.loads(run("--means", "0.1,0.2", "--horizon", "1e50", "--json"))["horizon"] == 1e50


@pytest.mark.slow
def test_simulation_beside_the_bounds(tmp_path: Path) -> None:
    figure = tmp_path / "bounds.png"
    words = ["--means", "0.8,0.9", "--horizon", "500", "--policy", "kl-ms", "--policy", "moss"]
    text = run(*words, "--simulate", "64", "--plot", str(figure))
    assert "bound/simulated" in text
    assert figure.read_bytes().startswith(b"\x89PNG")
    data = json.loads(run(*words, "--simulate", "64", "--json"))
    entry = data["policies"]["kl-ms"]
    assert entry["simulated"]["trials"] == 64
    assert entry["simulated"]["ratio"] == entry["best"] / entry["simulated"]["regret"] > 1.0
    again = json.loads(run(*words, "--simulate", "64", "--seed", "0", "--json"))
    assert again == data


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--means", "0.8,1.9"], "means must be numbers in [0, 1], not 1.9"),
        (["--means", "0.8"], "at least 2 arms"),
        (["--means", "a,b"], "--means: 'a,b' is not a list of numbers"),
        (["--means", "0.8,0.9", "--horizon", "-5"], "horizon must be a number of rounds"),
        (["--means", "0.8,0.9", "--horizon", "ten"], "--horizon: 'ten' is not"),
        (["--means", "0.8,0.9", "--horizon", "nan"], "horizon must be"),
        (["--means", "0.8,0.9", "--c", "0.5"], "c must be in (0, 1/4], not 0.5"),
        (["--means", "0.8,0.9", "--delta", "-1"], "delta must be"),
        (["--means", "0.8,0.9", "--policy", "kl-sm"], "no bounds are known of 'kl-sm'"),
        (["--means", "0.8,0.9", "--simulate", "-1"], "simulate must be"),
        (["--means", "0.8,0.9", "--plot", "figure"], "has no suffix"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(words: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["bounds", *words])
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.count("\n") == 1
    assert result.output.startswith("maillard: ")


def test_no_means_no_bounds() -> None:
    assert CliRunner().invoke(main, ["bounds"]).exit_code == 2


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from maillard.cli import main\n"
        "try: main(['bounds', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'numba', 'numpy', 'rich', 'matplotlib'} & set(sys.modules)"
    )
    text = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert "maillard bounds --means 0.8,0.9 --horizon 10000" in text


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "means", [[0.8, 0.9], [0.5, 0.5], [0.3, 1.0], list(np.linspace(0.1, 0.6, 12))]
)
def test_figures(means: list[float]) -> None:
    figure = bounds_figure(mb.bounds(means, 5000, ["kl-ms", "moss", "kl-ucb"]))
    (axes,) = figure.axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    labels = [line.get_label() for line in axes.lines]
    assert "kl-ms: bound" in labels
    assert ("C ln t, the limit's slope" in labels) == (0 < max(means) - min(means) < 0.7)


def test_figure_of_the_best_bound_lies_above_the_lower_one() -> None:
    found = mb.bounds([0.8, 0.9], 10**12, "kl-ms")
    (axes,) = bounds_figure(found).axes
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    upper = lines["kl-ms: bound"][:, 1]
    for label in ("lower bound, if good elsewhere", "lower bound, if no worse than random"):
        lower = np.nan_to_num(lines[label][:, 1])
        assert (upper >= lower).all()
        assert lower[-1] > 0.0


def test_crossover_figure(tmp_path: Path) -> None:
    figure = crossover_figure([8, 16, 32], {"kl-ms": [3, 9, 20], "moss": [3, 12, 50]})
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines][:2] == ["kl-ms", "moss"]
