"""What is wrong with rows of a log: each problem with its row, found without a loop over rows."""

import math
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .schema import Batch

#: How many problems an error names.
SHOWN: Final = 5

# Logs are often kept in single precision, whose rounding is 6e-8 relatively.

#: How far probabilities may be from summing to 1, and a propensity relatively from its arm's.
SUM: Final = 1e-6
EACH: Final = 1e-5

#: The problem with each row, or nothing: what is wrong, and how to say it of row i.
_Finding = tuple[NDArray[np.bool_], Callable[[int], str]]


def problems(batch: Batch, arms: int, low: float, high: float) -> list[tuple[int, str]]:
    """Every problem of these rows: (row, what), in the order of the rows."""
    if _sound(batch, arms, low, high):
        return []
    found = [
        (batch.first_row + int(i), say(int(i)))
        for wrong, say in _findings(batch, arms, low, high)
        for i in np.flatnonzero(wrong)[: 4 * SHOWN]
    ]
    return sorted(found, key=lambda problem: problem[0])


def span(
    propensity: NDArray[np.float64], reward: NDArray[np.float64]
) -> tuple[float, float, float, float]:
    """Smallest and largest propensity, smallest and largest reward; NaN if one of them is NaN."""
    least, most = np.minimum.reduce, np.maximum.reduce
    return (
        float(least(propensity)), float(most(propensity)),
        float(least(reward)), float(most(reward)),
    )  # fmt: skip


def _sound(batch: Batch, arms: int, low: float, high: float) -> bool:
    """Whether nothing is wrong: the smallest and largest say it, and NaN is neither."""
    if not len(batch.arm):
        return True
    unlikely, likely, least, most = batch.span or span(batch.propensity, batch.reward)
    sound = batch.arm.min() >= 0 and unlikely > 0.0 and likely <= 1.0
    sound &= least >= low and most <= high and least > -math.inf and most < math.inf
    if batch.log_propensity is not None:
        sound &= batch.log_propensity.max() <= 0.0 and batch.log_propensity.min() > -math.inf
    if batch.probabilities is not None and sound:
        sound &= not any(wrong.any() for wrong, _ in _of_probabilities(batch, arms))
    return bool(sound)


def _findings(batch: Batch, arms: int, low: float, high: float) -> Iterator[_Finding]:
    arm, p, r = batch.arm, batch.propensity, batch.reward
    column = batch.table.column("arm")
    yield (
        arm < 0,
        lambda i: (
            f"arm {column[i].as_py()!r} is none of the arms"
            if column[i].is_valid
            else "the arm is missing"
        ),
    )
    missing = np.isnan(p)
    yield missing, lambda i: "the propensity is missing"
    yield (~missing & ~((p > 0.0) & (p <= 1.0)), lambda i: f"propensity {p[i]} is not in (0, 1]")
    missing = np.isnan(r)
    yield missing, lambda i: "the reward is missing or NaN"
    inside = (r >= low) & (r <= high) & np.isfinite(r)
    yield (
        ~missing & ~inside,
        lambda i: (
            f"reward {r[i]} is not finite"
            if low == -math.inf and high == math.inf
            else f"reward {r[i]} is not in [{low:g}, {high:g}]"
        ),
    )
    log_p = batch.log_propensity
    if log_p is not None:
        yield (
            ~((log_p <= 0.0) & (log_p > -math.inf)),
            lambda i: f"log_propensity {log_p[i]} is not the logarithm of a propensity",
        )
    if batch.probabilities is not None:
        yield from _of_probabilities(batch, arms)


def _of_probabilities(batch: Batch, arms: int) -> Iterator[_Finding]:
    every = batch.probabilities
    assert every is not None
    columns = every.T  # each arm's probabilities, one beside the other in memory
    totals = columns.sum(axis=0)
    negative = np.zeros(len(every), dtype=bool)
    if arms and not columns.min() >= 0.0:
        negative = ~(columns.min(axis=0) >= 0.0)
    yield negative, lambda i: "a probability is negative or NaN"
    off = ~(np.abs(totals - 1.0) <= SUM + 1e-7 * arms)
    yield off & ~negative, lambda i: f"the probabilities sum to {totals[i]:.9g}, not to 1"
    if not arms:
        return
    rows = len(every)
    places = np.maximum(batch.arm, 0) * np.int64(rows) + np.arange(rows)
    own = np.take(columns.reshape(-1), places)
    p = batch.propensity
    # An inequality that NaN does not fulfil would name a missing propensity twice.
    differs = (np.abs(own - p) > EACH * p) & (batch.arm >= 0)
    yield (
        differs,
        lambda i: f"propensity {p[i]:.9g} is not the arm's probability, {own[i]:.9g}",
    )
