"""When a printed number counts as reproduced.

Two measurements of the same quantity differ by chance. We measure the spread of ours over trials,
suppose that the paper's trials had the same spread (or that which the paper prints), and hold the
difference against both errors and the rounding of the printed digits. Beyond `LIMIT` standard
errors the two are different quantities.

That needs a spread worth the name. Where a hundredth of the trials makes up more than `HEAVY` of
the mean squared error, the standard error is itself unknown; there we resample: what would as many
trials as the paper's have given? Values below anything so obtained are ruled out, as a missing rare
error only makes a result smaller; values above are left open.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .published import Number

Array = NDArray[np.float64]

#: Differences beyond so many standard errors are no chance: one in 370 would be by a normal law.
LIMIT: Final = 3.0
#: The share of the largest hundredth of the squared errors in their sum; 0.085 for normal errors.
HEAVY: Final = 1.0 / 3.0
#: Errors are on a par if neither is more than so many times the other.
FACTOR: Final = 2.0
#: Fewer valid trials decide nothing.
LEAST: Final = 100
#: Resampled means, and the share of them that may lie beyond each end.
_RESAMPLES: Final = 1000
_TAIL: Final = 0.00135

AGREES, DIFFERS, OPEN = "agrees", "differs", "open"

REPRODUCES: Final = "reproduces"
ONLY_WRITTEN: Final = "reproduces only as written"
ONLY_RELEASED: Final = "reproduces only as released"
AS_RELEASED: Final = "reproduces as released"  # and as written cannot be told
NOT: Final = "does not reproduce"
UNDECIDED: Final = "undecided"
VERDICTS: Final = (REPRODUCES, ONLY_WRITTEN, ONLY_RELEASED, AS_RELEASED, NOT, UNDECIDED)


@dataclass(frozen=True)
class Comparison:
    """One number of ours beside the printed one."""

    value: float
    #: Standard error of ours.
    error: float
    #: Ours minus the printed one, in standard errors of the difference.
    difference: float
    trials: int
    #: The share of the mean squared error that a hundredth of the trials makes up.
    largest_share: float
    outcome: str
    #: Why, where it is not the difference alone.
    reason: str = ""

    @property
    def heavy(self) -> bool:
        """Whether the standard error is not to be relied on."""
        return self.largest_share > HEAVY

    def to_dict(self) -> dict[str, Any]:
        """Plain data; None where there is no number."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(self).items()
        }


def largest_share(squares: Array) -> float:
    """How much of the sum the largest hundredth of the values makes up."""
    total = float(squares.sum())
    if total == 0.0:
        return 0.0
    count = max(1, len(squares) // 100)
    return float(np.partition(squares, -count)[-count:].sum()) / total


def compare(
    errors: Array,
    measure: str,
    printed: Number,
    printed_trials: int,
    printed_spread: float | None = None,
) -> Comparison:
    """Hold errors of estimates (estimate minus truth; invalid ones not finite) against a number.

    Parameters
    ----------
    errors : one for each trial.
    measure : "mse", the mean of their squares, or "bias", their mean.
    printed, printed_trials : the paper's number and how many trials it is of.
    printed_spread : the spread of the paper's trials where it prints that too, as a mean squared
        error says it for a bias; by default that of ours.
    """
    errors = errors[np.isfinite(errors)]
    values = errors**2 if measure == "mse" else errors
    n = len(values)
    if n < 2:
        return Comparison(math.nan, math.nan, math.nan, n, math.nan, OPEN, "no valid trials")
    value, spread = float(values.mean()), float(values.std(ddof=1))
    rounding = printed.half_unit / math.sqrt(3.0)  # the spread of a uniform law
    theirs = spread if printed_spread is None else printed_spread
    total = math.sqrt(spread**2 / n + theirs**2 / printed_trials + rounding**2)
    difference = (value - printed.value) / total
    share = largest_share(errors**2)
    outcome, reason = _outcome(
        values, measure, printed, printed_trials, printed_spread, difference, total,
        heavy=share > HEAVY,
    )  # fmt: skip
    return Comparison(value, spread / math.sqrt(n), difference, n, share, outcome, reason)


def _outcome(
    values: Array,
    measure: str,
    printed: Number,
    printed_trials: int,
    printed_spread: float | None,
    difference: float,
    total: float,
    *,
    heavy: bool,
) -> tuple[str, str]:
    if len(values) < LEAST:
        return OPEN, "too few trials"
    if heavy:
        low, high = resampled(values, printed_trials, printed_spread)
        if printed.value + printed.half_unit < low:
            return DIFFERS, "below all that resampling gives"
        if printed.value - printed.half_unit > high:
            return OPEN, "heavy tail"
        return AGREES, "within what resampling gives"
    if abs(difference) > LIMIT:
        return DIFFERS, ""
    if measure == "mse" and LIMIT * total > printed.value:
        return OPEN, "too few trials"  # would twice the printed number have been noticed?
    return AGREES, ""


def resampled(values: Array, trials: int, spread: float | None = None) -> tuple[float, float]:
    """Between which values a mean of `trials` trials lies, if ours are a fair sample.

    Each round draws a sample of our size first, as ours may be off too, and the trials from that;
    if their spread is known, a normal error of it instead.
    """
    rng = np.random.default_rng(0)
    n = len(values)
    means = np.empty(_RESAMPLES)
    for i in range(_RESAMPLES):
        ours = rng.integers(n, size=n)
        if spread is None:
            means[i] = values[ours[rng.integers(n, size=trials)]].mean()
        else:
            means[i] = values[ours].mean() + rng.normal(0.0, spread / math.sqrt(trials))
    low, high = np.quantile(means, [_TAIL, 1.0 - _TAIL])
    return float(low), float(high)


def verdict(written: str, released: str) -> str:
    """In words, from the two protocols' outcomes."""
    if written == AGREES:
        return REPRODUCES if released != DIFFERS else ONLY_WRITTEN
    if released == AGREES:
        return ONLY_RELEASED if written == DIFFERS else AS_RELEASED
    return NOT if written == released == DIFFERS else UNDECIDED


@dataclass(frozen=True)
class Finding:
    """A number or a claim of the paper, and what became of it."""

    experiment: str
    what: str
    printed: str
    written: Comparison | None
    released: Comparison | None
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "experiment": self.experiment,
            "what": self.what,
            "printed": self.printed,
            "as_written": None if self.written is None else self.written.to_dict(),
            "as_released": None if self.released is None else self.released.to_dict(),
            "verdict": self.verdict,
        }


def found(
    experiment: str, what: str, printed: str, written: Comparison, released: Comparison
) -> Finding:
    """The finding for a number that both protocols were run for."""
    words = verdict(written.outcome, released.outcome)
    return Finding(experiment, what, printed, written, released, words)


def larger(left: Array, right: Array, factor: float = 1.0) -> str:
    """Whether the first mean exceeds `factor` times the second: AGREES, DIFFERS (less) or OPEN."""
    left, right = left[np.isfinite(left)], factor * right[np.isfinite(right)]
    if min(len(left), len(right)) < LEAST:
        return OPEN
    error = math.sqrt(left.var(ddof=1) / len(left) + right.var(ddof=1) / len(right))
    difference = float(left.mean() - right.mean())
    if abs(difference) <= LIMIT * error:
        return OPEN
    return AGREES if difference > 0.0 else DIFFERS


def alike(left: Array, right: Array) -> str:
    """Whether neither mean is more than `FACTOR` times the other."""
    outcomes = {larger(left, right, FACTOR), larger(right, left, FACTOR)}
    if AGREES in outcomes:
        return DIFFERS
    return AGREES if outcomes == {DIFFERS} else OPEN
