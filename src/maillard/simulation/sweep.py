"""Many runs from one description: where one value is meant, a list gives a run, or a policy, each.

The description is a table with the keys of `DEFAULTS`, as in a TOML file.
"""

import difflib
import inspect
import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..policies.parameters import Parameter
from .plan import Plan
from .specs import environment_for, named, parse

#: The keys that a description may have, and what they are without it.
DEFAULTS: Final[dict[str, Any]] = {
    "policies": None,
    "environment": None,
    "horizon": 10_000,
    "trials": 1_000,
    "seed": 0,
    "paired": False,
    "checkpoints": 256,
    "spacing": "log",
    "quantiles": [0.05, 0.5, 0.95],
}


#: What is missing where a description lacks one of its parts, and where it may come from.
_ONE: Final = {
    "policies": "policy: name one at least, with --policy or as policies in the file",
    "environment": "environment: give --means, --environment or environment in the file",
    "horizon": "horizon: give one at least",
}


def from_toml(path: Path) -> dict[str, Any]:
    """The description in a TOML file."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from None
    for key in table:
        if key not in DEFAULTS:
            near = difflib.get_close_matches(key, DEFAULTS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(DEFAULTS)}"
            raise ValueError(f"{path} has an unknown key {key!r}: {hint}")
    return table


def plans(description: Mapping[str, Any]) -> list[Plan]:
    """A plan for each environment and horizon, all of them checked."""
    table = {**DEFAULTS, **description}
    policies, worlds, horizons = (
        _one_at_least(table, key) for key in ("policies", "environment", "horizon")
    )
    policies = [one for given in policies for one in policy_grid(given)]
    worlds = [one for given in worlds for one in environment_grid(given)]
    return [
        Plan.of(
            policies, world, horizon, table["trials"], table["seed"], table["checkpoints"],
            table["spacing"], _several(table["quantiles"]), table["paired"], 0,
        )
        for world, horizon in itertools.product(worlds, horizons)
    ]  # fmt: skip


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _one_at_least(table: Mapping[str, Any], key: str) -> list[Any]:
    values = [] if table[key] is None else _several(table[key])
    if not values:
        raise ValueError(f"there is no {_ONE[key]}")
    return values


def policy_grid(given: Any) -> Iterator[Any]:
    """A policy, or one for each value in the lists that its parameters are given."""
    if not isinstance(given, (str, Mapping)):
        raise ValueError(f"a policy is a name or a table with one, not {given!r}")
    cls, parameters = named(given)
    for chosen in _grid(
        {
            name: _alternatives(name, value, _depth_of_parameter(name, cls._declared.get(name)))
            for name, value in parameters.items()
        }
    ):
        yield {"policy": cls.slug, **chosen}


def environment_grid(given: Any) -> Iterator[Any]:
    """An environment, or one for each value in the lists that its parameters are given."""
    from ..environments.catalogue import find

    if isinstance(given, str):
        name, parameters = parse(given)
    elif isinstance(given, Mapping) and "environment" in given:
        name, parameters = given["environment"], {**given}
        del parameters["environment"]
    else:
        raise ValueError(
            f"an environment is text such as 'bernoulli:means=0.8,0.9', or a table with its name "
            f"under 'environment', not {given!r}"
        )
    known = inspect.signature(find(name)).parameters
    choices = {}
    for key, value in parameters.items():
        if isinstance(value, Mapping):  # an environment inside another
            choices[key] = list(environment_grid(value))
        else:
            annotation = str(known[key].annotation) if key in known else ""
            choices[key] = _alternatives(key, value, _depth_of_annotation(annotation))
    for chosen in _grid(choices):
        yield environment_for({"environment": name, **chosen})


def _grid(choices: Mapping[str, Iterable[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def _alternatives(name: str, value: Any, depth: int) -> list[Any]:
    """The value itself, or what is in it where it is a list too many deep."""
    if _depth(value) <= depth:
        return [value]
    if not value:
        raise ValueError(f"{name} is an empty list")
    return list(value)


def _depth(value: Any) -> int:
    if not isinstance(value, (list, tuple)):
        return 0
    return 1 + max((_depth(x) for x in value), default=0)


def _depth_of_parameter(name: str, spec: Parameter | None) -> int:
    """How deep a list a policy's parameter is: of those that all share, `rewards` is a pair."""
    if spec is None:
        return 1 if name == "rewards" else 0
    return 1 if spec.vector or (spec.parts != (spec.name,) and not spec.choices) else 0


def _depth_of_annotation(annotation: str) -> int:
    return annotation.count("Sequence[") or int("tuple[" in annotation or not annotation)
