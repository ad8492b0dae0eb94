"""What is packaged: the public names, a light import, and files that install and run."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import maillard as mb

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


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


def test_the_version_is_semantic_and_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", mb.__version__)
    assert importlib.metadata.version("maillard") == mb.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {mb.__version__}" in citation


def test_the_pins_are_names_and_versions() -> None:
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line


def test_every_extra_is_explained() -> None:
    """An extra that a message or the README names exists, and every one is in the README."""
    extras = set(PROJECT["project"]["optional-dependencies"])
    named = set()
    for path in [ROOT / "README.md", *(ROOT / "src").rglob("*.py")]:
        for found in re.findall(r"maillard\[([\w,]+)\]", path.read_text(encoding="utf-8")):
            named |= set(found.split(","))
    assert named <= extras
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [extra for extra in extras if f"`{extra}`" not in readme] == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        said = wheel.read(metadata).decode()
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "maillard/py.typed" in source
    assert {name for name in names if ".dist-info/" not in name} == source
    for extra in PROJECT["project"]["optional-dependencies"]:
        assert f"Provides-Extra: {extra}" in said
    assert "# Maillard" in said


def test_the_source_distribution_can_be_tested(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode:
        pytest.skip("not a checkout")
    there = [name for name in tracked.stdout.splitlines() if (ROOT / name).exists()]
    assert [name for name in there if name not in names and name != ".gitignore"] == []


#: What needs no extra, and what a figure says without Matplotlib.
TRIED = """
set -e
maillard --help > help.txt
maillard policies --json > policies.json
maillard bounds --means 0.8,0.9 --json > bounds.json
maillard simulate --policy kl-ms --means 0.8,0.9 --horizon 20 --trials 2 --out run 2> simulate.txt
maillard collect --policy kl-ms --means 0.8,0.9 --horizon 100 --out log.parquet
maillard logs describe log.parquet > described.txt
maillard logs convert log.parquet log.csv
maillard evaluate log.csv --json > evaluation.json
! maillard evaluate log.csv --plot figure.png 2> figure.txt
"""


@pytest.mark.slow
def test_the_wheel_works_without_extras(built: Path, tmp_path: Path) -> None:
    """In an environment of its own that borrows nothing but what the wheel requires."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    packages = next((home / "lib").glob("python*")) / "site-packages"
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for name in required(PROJECT["project"]["dependencies"]):
        borrow(name, packages)
    script = '#!/bin/sh\nexec python -m maillard "$@"\n'
    (home / "bin" / "maillard").write_text(script, encoding="utf-8")
    (home / "bin" / "maillard").chmod(0o755)
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    variables["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", TRIED], cwd=tmp_path, env=variables, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("simulate.txt", "figure.txt"):
        (line,) = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        assert line.startswith("maillard: ")
        assert "maillard[plots]" in line


def required(requirements: list[str]) -> set[str]:
    """The distributions that these need, and those need, without extras."""
    from packaging.requirements import Requirement

    names: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name not in names:
            names.add(name)
            needed = importlib.metadata.requires(name) or []
            waiting += [Requirement(text) for text in needed]
    return names


def borrow(name: str, packages: Path) -> None:
    """Link an installed distribution's top-level files into another environment."""
    files = importlib.metadata.files(name) or []
    tops = {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        source = Path(str(importlib.metadata.distribution(name).locate_file(top)))
        if source.exists() and not (packages / top).exists():
            (packages / top).symlink_to(source)
