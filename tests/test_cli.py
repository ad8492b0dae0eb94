"""The command line as a user meets it."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

import maillard as mb
from maillard import cli
from maillard.cli import main
from maillard.commands import common


def run(*words: str) -> str:
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_table_names_every_policy() -> None:
    words = set(run("policies").split())
    assert set(mb.catalogue()) <= words


def test_json_is_the_catalogue() -> None:
    entries = json.loads(run("policies", "--json"))
    assert [entry["name"] for entry in entries] == list(mb.catalogue())
    assert entries == [mb.describe(cls) for cls in mb.catalogue().values()]


@pytest.mark.parametrize("name", mb.catalogue())
def test_one_policy_in_full(name: str) -> None:
    text = " ".join(run("policies", name).split())
    entry = mb.describe(mb.catalogue()[name])
    for key in ("title", "formula", "reference", "setting", "example"):
        assert " ".join(entry[key].split()) in text
    for parameter in entry["parameters"]:
        assert parameter["name"] in text
    assert json.loads(run("policies", name, "--json")) == entry


def test_misuse_is_one_line_and_exit_code_2() -> None:
    result = CliRunner().invoke(main, ["policies", "kl-sm"])
    assert result.exit_code == 2
    assert result.output.startswith("maillard: unknown policy 'kl-sm': did you mean kl-ms")
    assert result.output.count("\n") == 1
    assert CliRunner().invoke(main, ["policies", "--nonsense"]).exit_code == 2
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == 2


@pytest.mark.parametrize("words", [["--help"], ["policies", "--help"], ["--version"]])
def test_help_shows_examples_and_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys; from maillard.cli import main\n"
        f"try: main({words!r})\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'numpy', 'rich', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert "maillard policies" in output or mb.__version__ in output


def test_python_m_maillard() -> None:
    command = [sys.executable, "-m", "maillard", "policies", "kl-ms"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "\x1b" not in output
    assert "kl(μ̂_a, μ̂_max)" in output


def every_command() -> list[list[str]]:
    """The words of every command and of every group."""
    found: list[list[str]] = [[]]
    for name in cli.COMMANDS:
        command = cli.main.get_command(click.Context(cli.main), name)
        assert isinstance(command, click.Command)
        found.append([name])
        if isinstance(command, click.Group):
            found += [[name, below] for below in command.list_commands(click.Context(command))]
    return found


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_every_command_explains_itself(words: list[str]) -> None:
    text = run(*words, "--help")
    assert run(*words, "-h") == text
    assert "Example" in text
    assert " ".join(["maillard", *words]) in text
    result = CliRunner().invoke(main, [*words, "--no-such-option"])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_options_of_one_name_mean_one_thing() -> None:
    """The same kind of value and, but for what they are of, the same default."""
    kinds: dict[str, set[str]] = {}
    for words in every_command():
        command: click.Command = cli.main
        for word in words:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word)  # type: ignore[assignment]
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (words, parameter.name)
                for flag in parameter.opts:
                    kinds.setdefault(flag, set()).add(type(parameter.type).__name__)
    # A horizon of `bounds` may be 1e50, which is no number of rounds to simulate.
    mixed = {flag: kind for flag, kind in kinds.items() if len(kind) > 1}
    assert set(mixed) == {"--horizon"}, mixed
    assert {"--json", "--seed", "--policy", "--means", "--out"} <= set(kinds)


MISUSE = [
    ["--nonsense"],
    ["nonsense"],
    ["logs", "nonsense"],
    ["logs", "describe"],
    ["simulate", "--polcy", "kl-ms"],
    ["simulate", "--policy"],
    ["evaluate", "log.csv", "--format", "nonsense"],
    ["policies", "kl-ms", "extra"],
    ["simulate"],
    ["simulate", "--policy", "kl-ms"],
    ["simulate", "--policy", "kl-ms", "--means", "0.8,1.9"],
    ["simulate", "--policy", "kl-ms", "--means", "a,b"],
    ["simulate", "--policy", "kl-ms:", "--means", "0.8,0.9"],
    ["simulate", "--policy", "kl-ms", "--means", "0.8,0.9", "--trials", "0"],
    ["simulate", "--policy", "kl-ms", "--means", "0.8,0.9", "--horizon", "1e4"],
    ["simulate", "--policy", "kl-ms", "--environment", "nonsense:means=1,2"],
    ["simulate", "nowhere.toml"],
    ["simulate", "bytes"],
    ["collect", "--policy", "kl-ms", "--means", "0.8,0.9"],
    ["collect", "--policy", "kl-ms", "--means", "0.8,0.9", "--out", "log.csv"],
    ["evaluate", "nowhere.parquet"],
    ["evaluate", "bytes.parquet"],
    ["evaluate", "bytes.csv"],
    ["evaluate", "log.csv", "--target", "nonsense"],
    ["evaluate", "log.csv", "--target", "kl-ms:nonsense=1"],
    ["evaluate", "log.csv", "--target", "a=x"],
    ["evaluate", "log.csv", "--level", "2"],
    ["evaluate", "log.csv", "--estimator", "nonsense"],
    ["evaluate", "log.csv", "--plot", "figure"],
    ["evaluate", "log.csv", "--plot", "figure.nonsense"],
    ["evaluate", "log.csv", "--plot", "nowhere/figure.png"],
    ["bounds", "--means", "0.8"],
    ["bounds", "--means", "0.8,x"],
    ["bounds", "--means", "0.8,0.9", "--horizon", "never"],
    ["bounds", "--means", "0.8,0.9", "--policy", "exp3"],
    ["logs", "describe", "nowhere"],
    ["logs", "check", "bytes.csv"],
    ["logs", "convert", "log.csv", "log.nonsense"],
    ["logs", "convert", "log.csv", "nowhere/log.csv"],
]


@pytest.mark.parametrize("words", MISUSE, ids=" ".join)
def test_misuse_says_why_in_one_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("arm,propensity,reward\na,0.5,1\nb,0.5,0\n", encoding="utf-8")
    for name in ("bytes", "bytes.csv", "bytes.parquet"):
        Path(name).write_bytes(b"\xff\xfe\x00")
    before = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith("maillard: ")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 1, "not enough memory"),
        (PermissionError(13, "Permission denied", "secret"), 1, "secret: Permission denied"),
        (OSError("the disk is full"), 1, "the disk is full"),
        (ValueError("two\nlines\n  of text"), 2, "two lines of text"),
        (NotImplementedError("not for lists"), 2, "not for lists"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_happens_inside_a_command(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("maillard.policies.catalogue.describe", fail)
    result = CliRunner().invoke(main, ["policies", "kl-ms"])
    assert (result.exit_code, result.stderr) == (code, f"maillard: {said}\n")


def test_arguments_are_called_by_their_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = "arm,propensity,reward\na,0.5,3\nb,0.5,0\n"
    Path("log.txt").write_text(log, encoding="utf-8")
    Path("log.csv").write_text(log, encoding="utf-8")
    run = CliRunner().invoke
    assert "give --format, one of parquet" in run(main, ["logs", "check", "log.txt"]).stderr
    said = run(main, ["evaluate", "log.csv"]).stdout
    assert "give --rewards L U for" in said
    assert "(else give --arms)" in said
    collect = ["collect", "--policy", "ms", "--means", "0.2,0.4", "--horizon", "5", "--out", "d"]
    assert run(main, [*collect, "--quiet"]).exit_code == 0
    assert run(main, collect).stderr == "maillard: d holds a log already; --append adds to it\n"
    assert run(main, [*collect, "--append"]).stderr.endswith("with --first 1\n")


def test_warnings_are_lines_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: object) -> dict[str, str]:
        warnings.warn("the cache is damaged;\nit is made anew", RuntimeWarning, stacklevel=2)
        return {}

    monkeypatch.setattr("maillard.policies.catalogue.describe", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = CliRunner().invoke(main, ["policies", "kl-ms", "--json"])
    assert result.stderr == "maillard: the cache is damaged; it is made anew\n"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["policies", "kl-m"], ["kl-ms", "kl-ms-kt"]),
        (["simulate", "--policy", "thom"], ["thompson"]),
        (["collect", "--policy", "tsallis"], ["tsallis-inf"]),
        (["bounds", "--policy", "ucb1"], ["ucb1"]),
        (["simulate", "--environment", "pois"], ["poisson:"]),
        (["evaluate", "log.csv", "--estimator", "snip"], ["snipw"]),
        (["evaluate", "log.csv", "--interval", "norm"], ["normal"]),
    ],
    ids=lambda x: " ".join(x),
)
def test_the_shell_completes_names(words: list[str], offered: list[str]) -> None:
    *before, typed = words
    completer = BashComplete(main, {}, "maillard", "_MAILLARD_COMPLETE")
    assert [item.value for item in completer.get_completions(before, typed)] == offered


def test_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in run("policies", "kl-ms")
    monkeypatch.setattr(sys.stdout.__class__, "isatty", lambda _: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    console = common.console()
    assert console.no_color
    monkeypatch.delenv("NO_COLOR")
    assert not common.console().no_color


def test_the_reader_may_go_away() -> None:
    """As in `maillard policies | head -1`."""
    command = [sys.executable, "-m", "maillard", "policies"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_the_entry_point_is_declared() -> None:
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    assert 'maillard = "maillard.cli:main"' in project
