"""Which part of the library may use which: imports point one way only."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "maillard"

#: Each layer may import those above it in this list, and itself.
LAYERS = [
    ["files", "tables"],
    ["machine_code"],
    ["compiled"],
    ["numeric"],
    ["divergence"],
    ["streams"],
    ["policies"],
    ["environments"],
    ["logs"],
    ["simulation"],
    ["plots"],
    ["evaluation"],
    ["theory"],
    ["theory_plots"],
    ["paper"],
    ["commands"],
    ["cli"],
    ["__main__"],
]
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}
#: Results can draw themselves: an import inside a method, when a figure is wanted.
FIGURES = {"plots", "theory_plots"}
#: What may use the library by its public names.
USERS = {"paper", "commands", "cli"}
#: A heavy library, and the only files that know it.
ONLY = {
    "numba": {"compiled.py", "machine_code.py"},
    "llvmlite": {"machine_code.py"},
    "matplotlib": {"plots.py", "theory_plots.py", "figures.py"},
    "click": {"cli.py", "commands"},
}


class Import(NamedTuple):
    """What one import statement names."""

    #: In full: maillard.policies.catalogue, numpy.typing, …
    module: str
    #: Whether it stands inside a function.
    late: bool


def imports(path: Path) -> Iterator[Import]:
    """Those that are carried out: what stands under TYPE_CHECKING is not."""
    package = ["maillard", *path.relative_to(PACKAGE).parts[:-1]]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, late = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += [(child, late) for child in node.orelse]
            continue
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            if node.module and module != "maillard":
                yield Import(module, late)
            else:  # from . import name
                yield from (Import(f"{module}.{alias.name}", late) for alias in node.names)
        inside = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part(path: Path) -> str:
    """The part of the library that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_part_has_its_layer() -> None:
    assert {part(path) for path in SOURCES} == set(HEIGHT)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_layers(path: Path) -> None:
    own = part(path)
    for module, late in imports(path):
        names = module.split(".")
        if names[0] in ONLY:
            assert path.name in ONLY[names[0]] or own in ONLY[names[0]], f"{path} knows {names[0]}"
        if names[0] != "maillard" or names[1:] == ["__version__"]:
            continue
        if len(names) == 1 or names[1] not in HEIGHT:
            assert own in USERS, f"{path} uses the public name {module}"
        elif not (late and names[1] in FIGURES):
            assert HEIGHT[names[1]] <= HEIGHT[own], f"{own} may not use {names[1]}: {path}"


def test_imports_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = PACKAGE / "policies" / "made_up.py"
    source = (
        "import os, numpy.linalg\n"
        "from ..compiled import kernel\n"
        "from . import rules\n"
        "from .. import plots\n"
        "if TYPE_CHECKING:\n    from ..cli import main\n"
        "def f():\n    from ..simulation.run import simulate\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: source)
    assert set(imports(path)) == {
        ("os", False),
        ("numpy.linalg", False),
        ("maillard.compiled", False),
        ("maillard.policies.rules", False),
        ("maillard.plots", False),
        ("maillard.simulation.run", True),
    }
