"""The summary of a result."""

import math
from typing import Any

import numpy as np

from ..tables import Table
from .result import Result


def summary(result: Result) -> Table:
    """The last checkpoint, policies by their regret."""
    levels = result.quantiles
    heads = ("policy", "regret", "± s.e.", *(f"{100 * q:g} %" for q in levels))
    rows = []
    for curve in sorted(result.curves.values(), key=lambda curve: _order(curve.regret[-1])):
        numbers = [curve.regret[-1], curve.error[-1]]
        numbers += [curve.quantile(level)[-1] for level in levels]
        numbers.append(curve.realised[-1])
        rows.append((
            curve.label,
            *(_number(number) for number in numbers),
            _number(100.0 * curve.best[-1], " %"),
            f"{curve.trials:,}",
            _number(result.nanoseconds(curve.label), digits=1),
        ))  # fmt: skip
    return Table(
        f"Regret after {result.horizon:,} rounds · {environment_text(result.environment)}",
        (*heads, "realised", "P(best)", "trials", "ns/step"),
        tuple(rows),
        tuple(_notes(result)),
    )


def _notes(result: Result) -> list[str]:
    notes = []
    bound = float(result.lower_bound()[-1])
    if math.isfinite(bound):
        notes.append(f"Lower bound for long horizons, C ln T with C = {result.constant:.4g}: "
                     f"{bound:,.2f}")  # fmt: skip
    if not result.complete:
        notes.append(f"Incomplete: {result.trials:,} trials of each policy were asked for.")
    return notes


def _order(regret: float) -> float:
    return math.inf if math.isnan(regret) else regret


def _number(value: float, unit: str = "", digits: int = 2) -> str:
    return f"{value:,.{digits}f}{unit}" if math.isfinite(value) else "–"


def environment_text(spec: dict[str, Any]) -> str:
    """An environment in a line: its name and parameters, long lists cut short."""
    parameters = [f"{k} {_short(v)}" for k, v in spec.items() if k != "environment"]
    return " · ".join([str(spec.get("environment", "environment")), *parameters])


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return f"({environment_text(value)})"
    if isinstance(value, (list, tuple)):
        size = len(value)
        shown = [_short(x) for x in (value if size <= 8 else value[:4])]
        if any(isinstance(x, (list, tuple)) for x in value):
            shape = np.shape(value) if _regular(value) else (size,)
            return "[" + " × ".join(str(n) for n in shape) + "]"
        return ", ".join(shown) + (f", … ({size})" if size > 8 else "")
    return f"{value:g}" if isinstance(value, float) else str(value)


def _regular(value: Any) -> bool:
    return len({len(x) if isinstance(x, (list, tuple)) else -1 for x in value}) == 1
