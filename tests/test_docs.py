"""What the documents show works, and what the code has the documents name."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import documents
import maillard as mb
from maillard import cli
from maillard.policies.catalogue import page

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [p for p in DOCUMENTS if p.name != "CONTRIBUTING.md"], ids=lambda p: p.name
)
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a document, in order; what it shows them print is what they print."""
    monkeypatch.chdir(tmp_path)
    documents.run(path)


def test_a_document_that_shows_something_else_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page.md"
    for text, why in (
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", "prints\n2"),
        ("```console\n$ maillard --version\nmaillard, version 0\n```\n", "shows"),
        ("```console\n$ maillard policies kl-sm\n```\n", "exits with 2"),
        ("```sh\nmake nonsense\n```\n", "no such target"),
        ("```sh\npip install 'maillard[nonsense]'\n```\n", "no extra nonsense"),
        ("```\npython examples/nonsense.py\n```\n", "no such script"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(AssertionError, match=why):
            documents.run(path)
    path.write_text("```python\nprint(1, 2.5)\n```\n```text\n1 …5\n```\n", encoding="utf-8")
    documents.run(path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_names_in_documents_exist(path: Path) -> None:
    """`mb.name`, `maillard command` and `--option`, wherever a document mentions one."""
    text = path.read_text(encoding="utf-8")
    missing = [name for name in re.findall(r"\bmb\.(\w+)", text) if not hasattr(mb, name)]
    spoken = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    source = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("src", "benchmarks", "docs", "examples")
        for path in (ROOT / folder).rglob("*.py")
    )
    for code in spoken:
        command = re.match(r"maillard ([a-z]+)\b", code)
        if command and command[1] not in cli.COMMANDS:
            missing.append(code)
        missing += [o for o in re.findall(r"(?<!\S)--[a-z][a-z-]+", code)
                    if f'"{o}"' not in source and o not in ("--help", "--version")]  # fmt: skip
    assert missing == []


@pytest.mark.parametrize("name", mb.catalogue())
def test_pages_of_policies(name: str) -> None:
    text = page(mb.catalogue()[name])
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, scope)
    assert mb.catalogue()[name].formula in text


def test_the_changelog_names_every_policy() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [name for name in mb.catalogue() if f"`{name}`" not in text] == []


def test_the_readme_names_every_policy() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in mb.catalogue() if f"`{name}`" not in text] == []


def site_module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the site's machinery, which is no part of the library."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_refuses_what_has_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = site_module("reference", monkeypatch)
    with pytest.raises(ValueError, match=r"maillard\.nothing is public and has no docstring"):
        reference.text_of(lambda: None, "maillard.nothing")
    assert "## maillard logs check" in reference.pages()["reference/cli.md"]
    monkeypatch.setattr(cli, "COMMANDS", {"policies": "…"})
    assert "maillard logs check" not in reference.pages()["reference/cli.md"]


def test_links_between_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    build = site_module("build", monkeypatch)
    source = ROOT / "docs" / "theory.md"
    for written, shown in (
        ("[a](choosing.md#why)", "[a](choosing.md#why)"),
        ("[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("[a](../examples/sweep.py)", "[a](examples.md#sweeppy)"),
        ("[`x`](../benchmarks/sketch.py)", "`x`"),
        ("[a](https://example.org)", "[a](https://example.org)"),
    ):
        if "choosing" not in written or (ROOT / "docs" / "choosing.md").exists():
            assert build.relinked(written, source) == shown
    with pytest.raises(SystemExit, match=r"nowhere\.md, which is not there"):
        build.relinked("[a](nowhere.md)", source)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_what_a_document_links_to_is_there(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    targets = re.findall(r"(?<!!)\[[^\]]*\]\((?![a-z]+:|#)([^)#\s]+)", text)
    made = [t for t in targets if path.parent.name == "docs" and t.startswith("reference/")]
    assert [t for t in targets if t not in made and not (path.parent / t).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_nothing_is_left_to_be_written(path: Path) -> None:
    """A word in capitals alone on its line stands for what will come from a measurement."""
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^(?:[A-Z]{5,}|.*\b(?:TODO|FIXME|TBD)\b.*)$", text, re.M) == []


@pytest.mark.slow
def test_the_figure_of_the_readme_can_be_made_again(tmp_path: Path) -> None:
    out = tmp_path / "figure.png"
    command = [sys.executable, str(ROOT / "docs" / "propensities.py"), "--runs", "2"]
    subprocess.run([*command, "--out", str(out)], check=True)
    assert out.read_bytes()[:4] == (ROOT / "docs" / "propensities.png").read_bytes()[:4]


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    """It builds without a warning, has a page for everything, and loads nothing from elsewhere."""
    site = tmp_path / "site"
    command = [sys.executable, str(ROOT / "docs" / "build.py"), "--out", str(site), "--no-report"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    html = {path.relative_to(site): path.read_text("utf-8") for path in site.rglob("*.html")}
    api = "".join(text for path, text in html.items() if path.parts[:2] == ("reference", "api"))
    lacking = [n for n in mb.__all__ if n[0] != "_" and f'id="maillard.{n}"' not in api]
    assert lacking == []
    for name in mb.catalogue():
        assert Path("reference/policies", f"{name}.html") in html
    for name in cli.COMMANDS:
        assert f'id="maillard-{name}"' in html[Path("reference/cli.html")]
    assert (site / "searchindex.js").exists()
    outside = (
        r"""(?:src|srcset|data)=["']?https?:|<link[^>]*href=["']?https?:|@import|url\(["']?http"""
    )
    for path, text in html.items():
        for match in re.finditer(outside, text):
            raise AssertionError(f"{path} loads {text[match.start() : match.end() + 60]}")
    for path in site.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?http", path.read_text("utf-8")), path
