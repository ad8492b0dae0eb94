"""What the documents show works, and what the code has the documents name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import maillard as mb
from maillard.policies.catalogue import page

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    """The fenced blocks of one language in a document."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if p.name != "CONTRIBUTING.md"], ids=str)
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All Python blocks of a document, in order, in one namespace."""
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for block in blocks(path, "python"):
        exec(compile(block, str(path), "exec"), scope)


def test_the_skeleton_of_the_guide_is_a_policy(tmp_path: Path) -> None:
    """The class in CONTRIBUTING.md passes the conformance suite as a newcomer would run it."""
    (skeleton,) = blocks(ROOT / "CONTRIBUTING.md", "python")
    (tmp_path / "my_policy.py").write_text(skeleton, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "tests/test_conformance.py", "-p", "my_policy"]
    result = subprocess.run(
        [*command, "-k", "tempered-kl-ms", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert int(re.search(r"(\d+) passed", result.stdout)[1]) >= 15  # type: ignore[index]


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


def test_public_names() -> None:
    assert sorted(mb.__all__) == mb.__all__
    assert set(mb._HOME) | {"__version__"} == set(mb.__all__)
    for name in mb.__all__:
        assert getattr(mb, name) is not None
    assert set(mb.__all__) <= set(dir(mb))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = mb.nonsense


def test_import_is_light() -> None:
    code = (
        "import sys, maillard\n"
        "assert not {'numba', 'numpy', 'click', 'rich'} & set(sys.modules)\n"
        "maillard.policy('kl-ms', 2)\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_layers() -> None:
    """Imports point downwards only, and one file knows Numba."""
    order = ["tables", "compiled", "numeric", "divergence", "policies", "demo", "cli"]
    for path in (ROOT / "src" / "maillard").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "compiled.py":
            assert not re.search(r"^\s*(from|import) numba", text, re.M), path
        own = path.relative_to(ROOT / "src" / "maillard").parts[0].removesuffix(".py")
        if own not in order[:5]:
            continue
        pattern = r"^\s*from \.\.(\w+)" if own == "policies" else r"^\s*from \.(\w+)"
        for module in re.findall(pattern, text, re.M):
            assert order.index(module) <= order.index(own), (path, module)
