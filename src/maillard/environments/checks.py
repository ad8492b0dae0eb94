"""What every environment checks: each failure names law, parameter, arm, value and range."""

import math
import reprlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: No number may be larger: squares of rewards stay finite.
LARGEST: Final = 1e100
#: Scales of unbounded rewards, as those of the policies.
SCALE: Final = (1e-12, 1e12)


def interval(law: str, rewards: Any) -> tuple[float, float]:
    """A finite interval [L, U]."""
    ends = _as_array(rewards)
    if ends is None or ends.shape != (2,):
        raise ValueError(f"{law}: rewards must be a pair (L, U), not {reprlib.repr(rewards)}")
    low, high = ends.tolist()
    if not -LARGEST <= low < high <= LARGEST:
        raise ValueError(f"{law}: rewards=(L, U) needs finite L < U, not ({low!r}, {high!r})")
    return low, high


def numbers(law: str, name: str, values: Any, low: float, high: float) -> Array:
    """One number in [low, high] for each of at least two arms."""
    row = _as_array(values)
    if row is None or row.ndim != 1:
        raise ValueError(
            f"{law}: {name} must be a list with a number for each arm, not {reprlib.repr(values)}"
        )
    if len(row) < 2:
        raise ValueError(f"{law}: {name} must list at least 2 arms, not {len(row)}")
    inside(law, name, row, low, high)
    return row


def columns(law: str, **given: tuple[Any, float, float]) -> tuple[Array, ...]:
    """One number in [low, high] for each arm and parameter; a single number serves all arms."""
    rows = {name: _as_array(values) for name, (values, _, _) in given.items()}
    sizes = {name: len(row) for name, row in rows.items() if row is not None and row.ndim == 1}
    if all(row is not None for row in rows.values()) and max(sizes.values(), default=0) < 2:
        raise ValueError(f"{law}: {' or '.join(given)} must list at least 2 arms")
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ValueError(f"{law}: the parameters list different numbers of arms: {told}")
    arms = max(sizes.values(), default=0)
    return tuple(column(law, name, *wanted, arms) for name, wanted in given.items())


def column(law: str, name: str, values: Any, low: float, high: float, arms: int) -> Array:
    """One number in [low, high] for each arm; a single number serves all."""
    row = _as_array(values)
    if row is None or row.ndim > 1:
        shown = reprlib.repr(values)
        raise ValueError(f"{law}: {name} must be a number, or one for each arm, not {shown}")
    if row.ndim == 1 and len(row) != arms:
        raise ValueError(f"{law}: {name} lists {len(row)} arms, not {arms}")
    full = np.array(np.broadcast_to(row, (arms,)))
    inside(law, name, full, low, high)
    return full


def inside(law: str, name: str, row: Array, low: float, high: float) -> None:
    """An error that names the first arm whose number is not in [low, high]."""
    wrong = ~((row >= low) & (row <= high) & np.isfinite(row))
    if wrong.any():
        arm = int(np.argmax(wrong))
        allowed = "a finite number" if math.isinf(high - low) else f"in [{low:g}, {high:g}]"
        raise ValueError(f"{law}: {name} of arm {arm} is {float(row[arm])!r}, not {allowed}")


def matrix(law: str, name: str, values: Any, what: str) -> Array:
    """A table of numbers with at least one row."""
    table = _as_array(values)
    if table is None or table.ndim != 2 or not len(table):
        raise ValueError(f"{law}: {name} must be {what}, not {reprlib.repr(values)}")
    return np.ascontiguousarray(table)


def whole(law: str, name: str, value: Any, low: int) -> int:
    """A whole number of at least `low`, and small enough to count rounds with."""
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not number or not low <= value <= 2**53:
        raise ValueError(f"{law}: {name} must be a whole number of at least {low}, not {value!r}")
    return int(value)


def _as_array(values: Any) -> Array | None:
    """The numbers as doubles; None if there is anything but numbers."""
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):
        return None
    return np.array(found, dtype=np.float64) if found.dtype.kind in "iuf" else None
