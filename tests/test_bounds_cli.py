"""`maillard bounds` as a user meets it, and the figures."""

import importlib
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
from maillard.theory.report import Simulated
from maillard.theory_plots import adaptation_figure, bounds_figure, crossover_figure

ROOT = Path(__file__).parent.parent


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


def test_a_figure_that_cannot_be_written_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(theory, "bounds", lambda *a, **k: pytest.fail("it went to work"))
    cases = (("figure", "has no suffix"), ("no/such/f.png", "there is no folder no/such"))
    for name, message in cases:
        result = CliRunner().invoke(main, ["bounds", "--means", "0.8,0.9", "--plot", name])
        assert result.exit_code == 2
        assert message in result.output


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
    assert ("moss: bound" in labels) != ("moss: no bound below that" in labels)
    assert ("kl-ms: bound" in labels) == (max(means) > min(means))
    assert ("C ln t, the limit's slope" in labels) == (0 < max(means) - min(means) < 0.7)


def test_figure_of_the_best_bound_lies_above_the_lower_one() -> None:
    found = mb.bounds([0.8, 0.9], 10**12, "kl-ms")
    (axes,) = bounds_figure(found).axes
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    worst, upper = lines["the worst arm always"], lines["kl-ms: bound"]
    # The upper bound leaves the line of the worst arm where it first says more.
    assert upper[0, 1] == pytest.approx(upper[0, 0] * 0.1, rel=2e-2)
    assert (upper[1:, 1] < upper[1:, 0] * 0.1).all()
    for label in ("lower bound, if good elsewhere", "lower bound, if no worse than random"):
        lower = np.nan_to_num(lines[label][:, 1])
        assert (worst[:, 1] >= lower).all()
        assert (upper[:, 1] >= lower[-len(upper) :]).all()
        assert lower[-1] > 0.0


def test_lines_of_nine_policies_can_be_told_apart() -> None:
    """Colours start again after six: then the lines are dashed otherwise."""
    found = mb.bounds([0.8, 0.9], 5000)
    for slug in found.policies:
        found.simulated[slug] = Simulated(2, np.array([1, 5000]), np.array([0.1, 9.0]), np.zeros(2))
    (axes,) = bounds_figure(found).axes
    seen = {
        (line.get_color(), str(line._dash_pattern), line.get_lw(), line.get_marker())  # type: ignore[attr-defined]
        for line in axes.lines
    }
    assert len(seen) == len(axes.lines)


def test_a_figure_has_a_last_round() -> None:
    assert bounds_figure(mb.bounds([0.8, 0.9], [10, 10**99], "ms")).axes
    for horizon in (1e101, 10**400):
        with pytest.raises(ValueError, match=r"ends at T = 1e100"):
            bounds_figure(mb.bounds([0.8, 0.9], horizon, "ms"))


def test_crossover_figure() -> None:
    regret = {"kl-ms": [3, 9, 20], "moss": [3, 12, 50]}
    (axes,) = crossover_figure([8, 16, 32], regret, {"kl-ms": [1, 1, 1], "moss": [1, 2, 3]}).axes
    assert axes.get_legend_handles_labels()[1][-2:] == ["kl-ms", "moss"]
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert lines["∝ K² = √(KT)"][-1] == 50
    assert lines["∝ K² = √(KT)"][0] == pytest.approx(50 / 16)
    assert lines["∝ K ln T"][-1] == 20


def test_adaptation_figure() -> None:
    measured = {"kl-ms": [(0.1, 5.0), (0.5, 9.0), (0.99, 3.0)]}
    figure = adaptation_figure([0.1, 0.5, 0.9], {"kl-ms": [6.0, 10.0, 7.0]}, measured, 10, 1000)
    left, right = (
        {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
        for axes in figure.axes
    )
    assert left["kl-ms: bound"] == [[0.1, 6.0], [0.5, 10.0]]
    assert right["kl-ms: bound"] == [[0.5, 10.0], [pytest.approx(0.1), 7.0]]
    assert left["kl-ms: measured"] == [[0.1, 5.0], [0.5, 9.0]]
    assert right["kl-ms: measured"] == [[0.5, 9.0], [pytest.approx(0.01), 3.0]]


# --------------------------------------------------------------------------------------------------
# What docs/theory.md says was measured


@pytest.mark.parametrize(
    ("module", "tables"),
    [
        ("lattimore", ["table_of_pairs", "table_of_wholes"]),
        ("hardest", ["table_of_best_means", "table_of_policies"]),
    ],
)
def test_the_page_has_the_measured_tables(
    module: str, tables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word what the scripts print of what they have written down."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = importlib.import_module(module)
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    for name in tables:
        assert getattr(script, name)(script.load()) in page
    assert f"]({script.FIGURE.name})" in page
    assert script.FIGURE.exists()


def test_the_page_on_choosing_has_the_measured_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    choosing = importlib.import_module("choosing")
    page = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    assert choosing.regret_table(choosing.load()) in page
    for name in mb.catalogue():
        assert f"`{name}`" in page, name


def test_measured_regret_is_below_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    hardest = importlib.import_module("hardest")
    for key, entry in hardest.load().items():
        best, slug = float(key.split()[0]), key.split()[1]
        if slug not in THEORIES:
            continue
        means = [best, *[max(best - entry["gap"], 0.0)] * (hardest.ARMS - 1)]
        found = mb.bounds(means, hardest.HORIZON, slug)
        assert entry["regret"] - 6 * entry["error"] <= found.best(slug)
