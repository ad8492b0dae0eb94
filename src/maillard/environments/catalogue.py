"""Environments by name, and from the plain data that their `spec()` gives."""

import difflib
import inspect
from collections.abc import Mapping
from typing import Any

from .environment import REGISTRY, Environment


def environment(name: str, **parameters: Any) -> Environment:
    """An environment by name: ``environment("bernoulli", means=[0.8, 0.9])``."""
    cls = find(name)
    if cls.slug == "custom":
        raise ValueError("custom: its formula is code, not data: make it with mb.Custom(...)")
    known = inspect.signature(cls).parameters
    for given in parameters:
        if given not in known:
            near = difflib.get_close_matches(str(given), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"{cls.slug} has no parameter {given!r}: {hint}")
    required = [name for name, p in known.items() if p.default is p.empty]
    missing = [name for name in required if name not in parameters]
    if missing:
        raise ValueError(f"{cls.slug} needs {' and '.join(missing)}")
    return cls(**parameters)


def find(name: str) -> type[Environment]:
    """The class of an environment by its name."""
    if not isinstance(name, str):
        raise ValueError(f"an environment is named by a string, not {name!r}")
    if name in REGISTRY:
        return REGISTRY[name]
    near = difflib.get_close_matches(name.lower(), REGISTRY, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(REGISTRY)}"
    raise ValueError(f"unknown environment {name!r}: {hint}")


def environment_from(spec: Mapping[str, Any]) -> Environment:
    """The environment that plain data describe, as its `spec()` gives them."""
    if not isinstance(spec, Mapping) or "environment" not in spec:
        raise ValueError(
            'an environment\'s description is a table such as {"environment": "bernoulli", '
            f'"means": [0.8, 0.9]}}, not {spec!r}'
        )
    for name in spec:
        if not isinstance(name, str):
            raise ValueError(f"an environment's parameters are named by strings, not {name!r}")
    return environment(spec["environment"], **{k: v for k, v in spec.items() if k != "environment"})


def one_of(law: str, name: str, value: Any) -> Environment:
    """An environment, given itself or by its description."""
    if isinstance(value, Environment):
        return value
    if isinstance(value, Mapping):
        return environment_from(value)
    raise ValueError(f"{law}: {name} must be an environment, not {value!r}")
