"""The command line as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import maillard as mb
from maillard.cli import main


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


def test_the_entry_point_is_declared() -> None:
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    assert 'maillard = "maillard.cli:main"' in project
