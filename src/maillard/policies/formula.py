"""Formulas that name what they need.

A policy is written as a scalar formula whose *argument names* say what it is a function of::

    def log_weight(pulls, mean, best): ...
    def index(pulls, mean, t, horizon, arms): ...

This module turns such a formula into one with the fixed argument list that the rules call, so that
a rule is written once and a policy reads like its line in the paper.
"""

import functools
import inspect
from collections.abc import Iterable
from typing import Any, Final

from ..compiled import Kernel, kernel

#: How many rows of statistics and how many parameters a formula may draw on.
MAX_ROWS: Final = 4
MAX_PARAMETERS: Final = 8
#: Rows that are filled by their number and so come right after pulls and total.
KEPT_FIRST: Final = frozenset(("spread", "loss", "chance"))

_ROWS: Final = [f"row{i}" for i in range(MAX_ROWS)]
_PARAMETERS: Final = [f"parameter{i}" for i in range(MAX_PARAMETERS)]
#: What every rule passes, in this order.
ARGUMENTS: Final = [*_ROWS, "estimate", "best", "t", "arms", *_PARAMETERS]


def vocabulary(
    rows: Iterable[str], parameters: Iterable[str], own_estimate: bool
) -> dict[str, str]:
    """What a formula may name, each with the expression that stands for it."""
    words = dict(zip(rows, _ROWS, strict=False))
    words |= {
        "estimate": "estimate",
        "best": "best",
        "t": "t",
        "arms": "arms",
        "mean": "row1 / row0" if own_estimate else "estimate",
    }
    if "spread" in words:
        words["variance"] = f"{words['spread']} / row0"
    return words | dict(zip(parameters, _PARAMETERS, strict=False))


def shared(words: dict[str, str]) -> dict[str, str]:
    """Those words that mean the same for all arms: t, K and the parameters."""
    common = ("t", "arms", *_PARAMETERS)
    return {word: meaning for word, meaning in words.items() if meaning in common}


def check_names(owner: str, rows: tuple[str, ...], parameters: list[str]) -> None:
    """A TypeError where a policy's rows or parameters cannot be what its formulas would read."""
    if len(rows) > MAX_ROWS - 2:
        raise TypeError(f"{owner}: a policy keeps at most {MAX_ROWS - 2} rows of its own")
    for name in KEPT_FIRST.intersection(rows[1:]):
        raise TypeError(f"{owner}: {name!r} must be the first of its rows")
    if len(parameters) > MAX_PARAMETERS:
        raise TypeError(f"{owner}: parameters may be at most {MAX_PARAMETERS} numbers together")
    for name in vocabulary(("pulls", "total", *rows), (), False).keys() & parameters:
        raise TypeError(f"{owner}: formulas know {name!r} already; name the parameter otherwise")


def adapt(formula: Kernel, words: dict[str, str], given: tuple[str, ...] = ()) -> Any:
    """The formula with the argument list `(*given, *ARGUMENTS)` in place of its own."""
    return _adapted(formula, tuple(words.items()), given)


@functools.cache
def _adapted(formula: Kernel, words: tuple[tuple[str, str], ...], given: tuple[str, ...]) -> Any:
    known = dict(words) | {name: name for name in given}
    names = list(inspect.signature(formula).parameters)
    for name in names:
        if name not in known:
            raise TypeError(
                f"{formula.__qualname__} asks for {name!r}; a formula here may name "
                f"{', '.join(sorted(known))}"
            )
    arguments = ", ".join([*given, *ARGUMENTS])
    call = ", ".join(known[name] for name in names)
    scope: dict[str, Any] = {"formula": kernel(formula)}
    exec(f"def adapted({arguments}): return formula({call})", scope)
    return kernel(scope["adapted"])
