"""What every policy checks before it believes its caller: each failure says what and where."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def labels_of(arms: Any) -> tuple[Any, ...]:
    if isinstance(arms, (int, np.integer)) and not isinstance(arms, bool):
        labels: tuple[Any, ...] = tuple(range(arms))
    elif isinstance(arms, (str, bytes)) or not isinstance(arms, Iterable):
        raise ValueError(f"arms must be a number or a list of labels, not {arms!r}")
    else:
        labels = tuple(a.item() if isinstance(a, np.generic) else a for a in arms)
    if len(labels) < 2:
        raise ValueError(f"a bandit needs at least 2 arms, not {len(labels)}")
    seen: set[Any] = set()
    for label in labels:
        check_label(label)
        if label in seen:
            raise ValueError(f"arm {label!r} is named twice")
        seen.add(label)
    return labels


def check_label(label: Any) -> None:
    if not isinstance(label, (str, int, np.integer)) or isinstance(label, bool):
        raise ValueError(f"an arm's label must be a string or an integer, not {label!r}")


def is_batch(choice: Any) -> bool:
    return isinstance(choice, (list, tuple)) or (isinstance(choice, np.ndarray) and choice.ndim > 0)


def whole(name: str, value: Any, low: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, not {value!r}")
    return int(value)


def share(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a number in [0, 1], not {value!r}")
    return float(value)


def finite_row(stored: Mapping[str, Any], name: str, size: int) -> list[float]:
    row = stored[name]
    if not isinstance(row, list) or len(row) != size:
        raise ValueError(f"{name} must hold {size} numbers")
    if not all(isinstance(x, (int, float)) and math.isfinite(x) for x in row):
        raise ValueError(f"{name} must hold finite numbers")
    return [float(x) for x in row]


def not_a_generator(rng: Any) -> TypeError:
    return TypeError(f"decide() needs a numpy.random.Generator, not {type(rng).__name__}")
