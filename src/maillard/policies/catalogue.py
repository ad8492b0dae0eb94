"""One table of all policies: by name for code, for the command line and for the documentation."""

import difflib
import importlib
import inspect
from collections.abc import Hashable, Iterable
from typing import Any

from .checks import brief
from .policy import REGISTRY, Policy

#: The modules that hold the policies, in the order in which the catalogue shows them. A class is
#: registered where it is defined: nothing else has to be edited for a new one.
MODULES = ("maillard", "med", "ucb", "thompson", "adversarial", "simple")
for module in MODULES:
    importlib.import_module(f".{module}", __package__)


def find(name: str) -> type[Policy]:
    """The class of a policy by its name in the catalogue."""
    if not isinstance(name, str):
        raise ValueError(f"a policy is named by a string, not {brief(name)}")
    if name in REGISTRY:
        return REGISTRY[name]
    near = difflib.get_close_matches(name.lower(), REGISTRY, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "see `maillard policies`"
    raise ValueError(f"unknown policy {name!r}: {hint}")


def policy(name: str, arms: int | Iterable[Hashable], **parameters: Any) -> Policy:
    """A policy by name: ``policy("kl-ms", arms=["red", "green", "blue"])``."""
    return find(name)(arms, **parameters)


def catalogue() -> dict[str, type[Policy]]:
    """Every policy: name → class."""
    return dict(REGISTRY)


def describe(which: str | type[Policy]) -> dict[str, Any]:
    """What the catalogue says of a policy, given by name or class, as plain data."""
    cls = which if isinstance(which, type) else find(which)
    if not issubclass(cls, Policy):
        raise ValueError(f"{cls.__name__} is no policy")
    return {
        "name": cls.slug,
        "title": cls.title,
        "class": cls.__name__,
        "description": inspect.getdoc(cls) or "",
        "formula": cls.formula,
        "reference": cls.reference,
        "setting": cls.setting,
        "probabilities": cls.exactness,
        "experimental": cls.experimental,
        "horizon": _horizon(cls),
        "parameters": [
            {
                "name": name,
                "default": None if spec.required else _plain(spec.default),
                "required": spec.required,
                "range": spec.range,
                "help": spec.help,
            }
            for name, spec in cls._declared.items()
        ],
        "example": example(cls),
    }


def _plain(value: Any) -> Any:
    """As JSON would give it back."""
    return list(value) if isinstance(value, tuple) else value


def _horizon(cls: type[Policy]) -> str:
    spec = cls._declared.get("horizon")
    if spec is None:
        return "anytime"
    return "needed" if spec.required else "optional"


def example(cls: type[Policy]) -> str:
    """A line of code that makes the policy; the tests run it."""
    needed = {name: spec for name, spec in cls._declared.items() if spec.required}
    values = {"horizon": "10_000", "weights": "[0.5, 0.3, 0.2]"}
    given = "".join(f", {name}={values.get(name, '1.0')}" for name in needed)
    return f'mb.policy("{cls.slug}", arms=["red", "green", "blue"]{given})'


def page(cls: type[Policy]) -> str:
    """The policy's page in the documentation, in Markdown: the same text as everywhere else."""
    entry = describe(cls)
    lines = [f"# {entry['title']} (`{entry['name']}`)", "", entry["description"], ""]
    facts = ("formula", "setting", "probabilities", "horizon", "reference")
    lines += [f"- **{key}**: {entry[key]}" for key in facts]
    if entry["experimental"]:
        lines.append("- **experimental**")
    lines += ["", "```python", "import maillard as mb", "", entry["example"], "```", ""]
    if entry["parameters"]:
        lines += ["| parameter | default | allowed | meaning |", "|---|---|---|---|"]
        for spec in entry["parameters"]:
            default = "required" if spec["required"] else f"`{spec['default']}`"
            row = (f"`{spec['name']}`", default, spec["range"], spec["help"])
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        lines.append("")
    return "\n".join(lines)
