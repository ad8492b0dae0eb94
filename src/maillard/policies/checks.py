"""What every policy checks before it believes its caller: each failure says what and where."""

import math
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

#: The largest number that a reward, or one over a propensity, may be: squares stay finite.
LARGEST = 1e100


def brief(value: Any) -> str:
    """A value as error messages show it: on one line, and not for ever."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def labels_of(arms: Any) -> tuple[Any, ...]:
    """The labels that `arms`, a number or a list, stands for."""
    if isinstance(arms, (int, np.integer)) and not isinstance(arms, bool):
        if arms < 2:
            raise ValueError(f"a bandit needs at least 2 arms, not {brief(arms)}")
        try:
            return tuple(range(arms))
        except (OverflowError, MemoryError):
            raise ValueError(f"{brief(arms)} arms are too many") from None
    # A set has no order of its own: another run would number the arms differently.
    if isinstance(arms, (str, bytes, set, frozenset)) or not isinstance(arms, Iterable):
        raise ValueError(f"arms must be a number or a list of labels, not {brief(arms)}")
    labels = tuple(checked_label(label) for label in arms)
    if len(labels) < 2:
        raise ValueError(f"a bandit needs at least 2 arms, not {len(labels)}")
    seen: set[Any] = set()
    for label in labels:
        if label in seen:
            raise ValueError(f"arm {label!r} is named twice")
        seen.add(label)
    return labels


def checked_label(label: Any) -> Any:
    """The label as a plain string or integer."""
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, (str, int)) or isinstance(plain, bool):
        raise ValueError(f"an arm's label must be a string or an integer, not {brief(label)}")
    return plain


def as_number(value: Any) -> float | None:
    """One real number as a float, of whatever type it comes as; None for anything else."""
    if getattr(value, "ndim", 0) or isinstance(value, np.ma.MaskedArray):
        return None
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if kind not in "biufO" or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        return None  # text, complex numbers and times would pass through float(), changed
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def as_many(name: str, values: Any, count: int) -> list[Any]:
    """A list with one value for each choice."""
    if not is_batch(values):
        raise ValueError(f"{count} choices but {name} is {brief(values)}")
    found = list(values)
    if len(found) != count:
        raise ValueError(f"{count} choices but {len(found)} {name}")
    return [value.item() if isinstance(value, np.generic) else value for value in found]


def is_batch(values: Any) -> bool:
    """Whether these are many values in an order, not a single one."""
    single = isinstance(values, (str, bytes, bytearray, Mapping, Set))
    return not single and isinstance(values, Iterable) and getattr(values, "ndim", 1) > 0


def whole(name: str, value: Any, low: int = 1) -> int:
    """A whole number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, not {brief(value)}")
    return int(value)


def executor_or_none(executor: Any) -> Any:
    """Something that work can be submitted to, or None."""
    if executor is not None and not hasattr(executor, "submit"):
        raise ValueError(f"executor must be a concurrent.futures.Executor, not {executor!r}")
    return executor


def share(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    number = isinstance(value, (int, float, np.floating)) and not isinstance(value, bool)
    if not number or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a number in [0, 1], not {brief(value)}")
    return float(value)


def finite_row(stored: Mapping[str, Any], name: str, size: int) -> list[float]:
    """A stored list of so many finite numbers."""
    row = stored[name]
    if not isinstance(row, list) or len(row) != size:
        raise ValueError(f"{name} must hold {size} numbers")
    if not all(type(x) in (int, float) and math.isfinite(x) for x in row):
        raise ValueError(f"{name} must hold finite numbers")
    return [float(x) for x in row]


def not_a_generator(rng: Any) -> TypeError:
    """What `decide` raises for any other source of randomness."""
    return TypeError(f"decide() needs a numpy.random.Generator, not {type(rng).__name__}")
