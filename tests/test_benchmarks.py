"""The benchmarks can be started and say what they measured; nothing is timed or installed here."""

import ast
import getpass
import math
import platform
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*.py"))


@pytest.fixture
def benchmark_modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules of the harness, imported as its scripts import one another."""
    monkeypatch.syspath_prepend(FOLDER)
    import ours
    import page
    import peers
    import simulation
    import timing

    return {"ours": ours, "page": page, "peers": peers, "simulation": simulation, "timing": timing}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_say_what_they_are(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"), feature_version=(3, 11))
    assert ast.get_docstring(tree)


@pytest.mark.parametrize(
    "name", ["sketch", "simulation", "peers", "peer_work", "page", "evaluation"]
)
def test_help(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), "--help"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")


def test_the_worker_needs_the_standard_library_only() -> None:
    """It runs where neither ours nor the other peers are installed."""
    tree = ast.parse((FOLDER / "peer_work.py").read_text(encoding="utf-8"))
    imported = [
        name
        for node in tree.body
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    ]
    assert imported
    assert set(imported) <= set(sys.stdlib_module_names)


def test_tables(benchmark_modules: dict[str, ModuleType]) -> None:
    timing = benchmark_modules["timing"]
    made = timing.table(["policy", "ns"], [["kl-ms", "7"], ["ms", "12,345"]])
    assert made.splitlines() == [
        "| policy |     ns |",
        "| ------ | -----: |",
        "| kl-ms  |      7 |",
        "| ms     | 12,345 |",
    ]
    with pytest.raises(ValueError, match="needs 2 cells"):
        timing.table(["policy", "ns"], [["kl-ms"]])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (math.inf, "–"),
        (math.nan, "–"),
        (0.0, "0"),
        (7.456, "7.46"),
        (9.9999, "10.0"),
        (48.31, "48.3"),
        (117_610.0, "118,000"),
        (0.01234, "0.0123"),
    ],
)
def test_numbers(benchmark_modules: dict[str, ModuleType], value: float | None, shown: str) -> None:
    assert benchmark_modules["timing"].number(value) == shown


def test_best_of_interleaved_rounds(benchmark_modules: dict[str, ModuleType]) -> None:
    order: list[str] = []
    answers = {"a": iter([3.0, 1.0, 2.0]), "b": iter([5.0, 6.0, 4.0])}

    def measure(name: str) -> float:
        order.append(name)
        return next(answers[name])

    cases = {name: lambda name=name: measure(name) for name in answers}
    assert benchmark_modules["timing"].best_interleaved(cases, 3, "test") == {"a": 1.0, "b": 4.0}
    assert "".join(order) == "ababab"


def test_long_cases_get_fewer_rounds(
    benchmark_modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = benchmark_modules["timing"]
    clock = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    def take(seconds: float) -> float:
        clock[0] += seconds
        calls.append(seconds)
        return seconds

    calls: list[float] = []
    timing.best_interleaved({"short": lambda: take(0.1), "long": lambda: take(60.0)}, 5, "test")
    assert (calls.count(0.1), calls.count(60.0)) == (5, timing.FEWER_ROUNDS)


def test_the_machine_is_described_without_its_name(
    benchmark_modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> str:
        raise AssertionError("the description asked for a name")

    for module, name in ((platform, "node"), (socket, "gethostname"), (getpass, "getuser")):
        monkeypatch.setattr(module, name, asked)
    text = "\n".join(benchmark_modules["timing"].machine())
    assert "Python" in text
    assert "numba" in text


def test_pins_and_policies(benchmark_modules: dict[str, ModuleType]) -> None:
    """Every requirement is pinned, and the policies that are compared exist here."""
    import maillard as mb

    peers = benchmark_modules["peers"]
    for peer in peers.PEERS:
        assert all("==" in requirement for requirement in peer.requirements)
        assert set(peer.policies) <= set(peers.POLICIES)
        assert peer.title in benchmark_modules["page"].LOOKS
    assert set(peers.POLICIES) <= set(mb.catalogue())
    assert set(benchmark_modules["simulation"].SAMPLE) <= set(mb.catalogue())


@pytest.mark.parametrize(("name", "scalar"), [("kl-ms", False), ("top-two-thompson", True)])
def test_the_table_says_which_rules_are_scalar(
    benchmark_modules: dict[str, ModuleType], name: str, scalar: bool
) -> None:
    ours = benchmark_modules["ours"]
    program = ours.engine.program(ours.make(name, 3), ours.Bernoulli([0.2, 0.3, 0.6]))
    assert ours.scalar(program) == scalar


def made_up(modules: dict[str, ModuleType]) -> tuple[object, object]:
    """Results of a run that did not take place."""
    peers, simulation = modules["peers"], modules["simulation"]
    compared = peers.Results(rounds=2, problems={"coba": "cannot be installed: no reason"})
    for arms in modules["timing"].INSTANCES:
        compared.nanoseconds[peers.YARDSTICK, "kl-ms", arms] = 10.0
        for name in peers.POLICIES:
            compared.nanoseconds[peers.SIMULATOR, name, arms] = 20.0
            compared.nanoseconds[peers.ONLINE, name, arms] = 5_000.0
        compared.nanoseconds["river", "ucb1", arms] = 2_500.0
    simulated = simulation.Results(rounds=2, path={"kl-ms": "engine", "npts": "online"})
    for arms in modules["timing"].INSTANCES:
        simulated.yardstick |= {("kl-ms", arms): 10.0, ("ms", arms): 5.0}
        simulated.step |= {("kl-ms", arms): 12.5, ("npts", arms): 40_000.0}
    simulated.arm = {("kl-ms", arms): 4.0 for arms in simulation.ARMS}
    simulated.threads = {("kl-ms", 2, 1): 1.0, ("kl-ms", 2, 2): 0.5}
    simulated.rows = {("kl-ms", 2, to): 9.5 for to in (simulation.MEMORY, simulation.PARQUET)}
    simulated.first_use = {("kl-ms", "cold"): 4.5, ("kl-ms", "warm"): 0.4}
    return simulated, compared


def test_the_page_says_what_was_measured(benchmark_modules: dict[str, ModuleType]) -> None:
    simulated, compared = made_up(benchmark_modules)
    page = benchmark_modules["page"].text(simulated, compared, ["a machine"])
    assert page.index("does not show") < page.index("| ")
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert "| UCB1 | river | 2,500 | 125 | 0.500 | 250 |" in lines
    assert "| npts | online | 40,000 | 3,200 | 4,000 | 40,000 | 3,200 | 4,000 |" in lines
    assert "| kl-ms, 2 arms | 1.00 | 2.00 |" in lines
    assert "| kl-ms, 2 arms | 9.50 | 9.50 |" in lines
    assert "- coba: cannot be installed: no reason" in lines
    assert "| Thompson sampling | coba" not in page


def test_nothing_half_written(
    benchmark_modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = benchmark_modules["page"]

    class Broken:
        def savefig(self, *args: object, **options: object) -> None:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        page.write("text", Broken(), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_chart(benchmark_modules: dict[str, ModuleType], tmp_path: Path) -> None:
    page = benchmark_modules["page"]
    _, compared = made_up(benchmark_modules)
    for name in ("one", "two"):
        page.write("text\n", page.chart(compared), tmp_path / name)
    assert {path.name for path in (tmp_path / "one").iterdir()} == {
        "benchmarks.md",
        "benchmarks.svg",
    }
    first, second = ((tmp_path / name / "benchmarks.svg").read_bytes() for name in ("one", "two"))
    assert first == second
