"""One policy's trials as integer sums at each checkpoint, so that parts merge bit for bit.

Pulls are counted; regret, rewards and probabilities are rounded to quanta that the environment and
the horizon decide, some fifty bits below the largest possible value. Integers add exactly in any
order, so neither workers nor chunks nor the order of merging can change a result.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
#: Disjoint ranges of trials, as (first, one past the last), in order, none touching the next.
Ranges = tuple[tuple[int, int], ...]

#: Quantiles are those of the trials with an index below this. Trials are independent and alike in
#: law, so any set of them chosen beforehand is a fair sample; this one bounds the memory.
SAMPLE: Final = 4096

#: Most trials that `Moments.of` takes at once: the sums below stay under 2^63.
MOST_AT_ONCE: Final = 1024

#: Probabilities are rounded to 2^-40.
PROBABILITY_QUANTUM: Final = 2.0**-40

_EXACT: Final = (
    "label", "policy", "quanta", "ranges", "regret_moments", "realised_moments", "best_moments",
)  # fmt: skip
_LIMIT: Final = 2.0**52
_LOW_BITS: Final = 26


class Quanta(NamedTuple):
    """The steps, powers of two, to which regret is rounded."""

    regret: float
    realised: float

    @classmethod
    def of(cls, environment: Any, horizon: int) -> "Quanta":
        """50 bits for the largest regret; 35 for a realised one, which may have long tails."""
        means = environment.mean_table
        low, high = environment.rewards
        spread = float(means.max() - means.min())
        reach = high - low
        if not math.isfinite(reach):
            reach = spread + float(np.sqrt(np.max(environment.variances)))
        return cls(_power_above(horizon * spread, -50), _power_above(horizon * reach, -35))


def _power_above(bound: float, shift: int) -> float:
    """2^shift times a power of two that is above the bound."""
    return math.ldexp(1.0, math.frexp(bound)[1] + shift)


def quantised(values: Array, quantum: float) -> Integers:
    """The numbers of quanta nearest to the values."""
    counts = np.rint(values / quantum)
    if not (np.abs(counts) < _LIMIT).all():  # NaN fails as well
        raise ArithmeticError(
            "rewards are not numbers, or far beyond what the environment's means and variances say"
        )
    return counts.astype(np.int64)


def _sums_of_squares(q: Integers) -> list[int]:
    """Σ q² over the last axis, exactly: (2^26 h + l)² term by term, h and l below 2^26."""
    high, low = q >> _LOW_BITS, q & ((1 << _LOW_BITS) - 1)
    parts = [np.einsum("ct,ct->c", x, y) for x, y in ((high, high), (high, low), (low, low))]
    return [
        (hh << 2 * _LOW_BITS) + (hl << (_LOW_BITS + 1)) + ll
        for hh, hl, ll in zip(*(part.tolist() for part in parts), strict=True)
    ]


@dataclass(frozen=True)
class Moments:
    """Σ x and Σ x² of whole numbers of quanta at each checkpoint, as unbounded integers."""

    totals: tuple[int, ...]
    squares: tuple[int, ...]

    @classmethod
    def of(cls, q: Integers) -> "Moments":
        """Those of a few trials, q[checkpoint, trial]."""
        assert q.shape[1] <= MOST_AT_ONCE
        return cls(tuple(q.sum(axis=1).tolist()), tuple(_sums_of_squares(q)))

    @classmethod
    def none(cls, checkpoints: int) -> "Moments":
        """Those of no trials."""
        return cls((0,) * checkpoints, (0,) * checkpoints)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            tuple(a + b for a, b in zip(self.totals, other.totals, strict=True)),
            tuple(a + b for a, b in zip(self.squares, other.squares, strict=True)),
        )

    def mean(self, n: int) -> Array:
        """The mean, in quanta; NaN without trials."""
        return np.array([total / n if n else math.nan for total in self.totals])

    def error(self, n: int) -> Array:
        """The standard error of the mean, in quanta; NaN for fewer than two trials."""
        if n < 2:
            return np.full(len(self.totals), math.nan)
        # n·Σx² − (Σx)² is an exact integer: nothing cancels.
        pairs = zip(self.totals, self.squares, strict=True)
        return np.array([math.sqrt((n * s - x * x) / (n * n * (n - 1))) for x, s in pairs])


@dataclass(eq=False)
class Curve:
    """One policy's trials: sums at the checkpoints, and what follows from them.

    Every array has one row for each checkpoint. Without trials the means are NaN.
    """

    label: str
    #: The policy's name, parameters, range of rewards and other choices, as plain data.
    policy: dict[str, Any]
    quanta: Quanta
    #: The trials that are in.
    ranges: Ranges
    #: pull_totals[checkpoint, arm], summed over trials.
    pull_totals: Integers
    regret_moments: Moments
    realised_moments: Moments
    best_moments: Moments
    #: Pseudo-regret of the trials with index < SAMPLE, in quanta: [checkpoint, trial].
    sample: Integers
    #: Processor time of the simulation; no part of the result proper.
    seconds: float = field(default=0.0)

    @classmethod
    def empty(
        cls, label: str, policy: dict[str, Any], quanta: Quanta, checkpoints: int, arms: int
    ) -> "Curve":
        """A curve without trials: merged with another one it changes nothing."""
        none = Moments.none(checkpoints)
        pulls = np.zeros((checkpoints, arms), dtype=np.int64)
        sample = np.zeros((checkpoints, 0), dtype=np.int64)
        return cls(label, policy, quanta, (), pulls, none, none, none, sample)

    @property
    def trials(self) -> int:
        """How many trials are in."""
        return sum(stop - first for first, stop in self.ranges)

    @property
    def pulls(self) -> Array:
        """Mean pulls of each arm, [checkpoint, arm]."""
        with np.errstate(invalid="ignore"):
            return np.array(self.pull_totals / np.float64(self.trials))

    @property
    def regret(self) -> Array:
        """Mean pseudo-regret: what the best arm's mean would have brought more than the choices."""
        return self.quanta.regret * self.regret_moments.mean(self.trials)

    @property
    def error(self) -> Array:
        """Standard error of `regret`."""
        return self.quanta.regret * self.regret_moments.error(self.trials)

    @property
    def realised(self) -> Array:
        """Mean of what the best arm's mean would have brought more than the rewards that came."""
        return self.quanta.realised * self.realised_moments.mean(self.trials)

    @property
    def realised_error(self) -> Array:
        """Standard error of `realised`."""
        return self.quanta.realised * self.realised_moments.error(self.trials)

    @property
    def best(self) -> Array:
        """Mean probability of the best arm, or of any of them, in the checkpoint's round."""
        return PROBABILITY_QUANTUM * self.best_moments.mean(self.trials)

    @property
    def best_error(self) -> Array:
        """Standard error of `best`."""
        return PROBABILITY_QUANTUM * self.best_moments.error(self.trials)

    def quantile(self, level: float) -> Array:
        """A quantile of the pseudo-regret over trials; NaN where no trial of the sample is in.

        It is that of the trials with an index below 4096: of all of them, in most simulations.
        """
        if not 0.0 <= level <= 1.0:
            raise ValueError(f"a quantile's level must be in [0, 1], not {level!r}")
        if self.sample.shape[1] == 0:
            return np.full(len(self.sample), math.nan)
        return np.array(self.quanta.regret * np.quantile(self.sample, level, axis=1))

    def merge(self, other: "Curve") -> "Curve":
        """The same policy's curve over the trials of both."""
        if (self.label, self.policy, self.quanta) != (other.label, other.policy, other.quanta):
            raise ValueError(f"{self.label} and {other.label}: not curves of the same policy")
        parts = sorted([(r, self) for r in self.ranges] + [(r, other) for r in other.ranges],
                       key=lambda part: part[0])  # fmt: skip
        for (left, _), (right, _) in itertools.pairwise(parts):
            if right[0] < left[1]:
                raise ValueError(
                    f"{self.label}: trials {right[0]} to {min(left[1], right[1]) - 1} are in both "
                    "parts; run each part with its own first="
                )
        sample = [curve._sampled(span) for span, curve in parts]
        return Curve(
            self.label,
            self.policy,
            self.quanta,
            joined(span for span, _ in parts),
            self.pull_totals + other.pull_totals,
            self.regret_moments + other.regret_moments,
            self.realised_moments + other.realised_moments,
            self.best_moments + other.best_moments,
            np.hstack(sample) if sample else self.sample,
            self.seconds + other.seconds,
        )

    def _sampled(self, span: tuple[int, int]) -> Integers:
        """The columns of the sample that hold one of the ranges of trials."""
        before = sum(sampled(*earlier) for earlier in self.ranges if earlier < span)
        return self.sample[:, before : before + sampled(*span)]

    def __eq__(self, other: object) -> bool:
        """Whether two curves hold the same bits, time aside."""
        return isinstance(other, Curve) and (
            all(getattr(self, name) == getattr(other, name) for name in _EXACT)
            and np.array_equal(self.pull_totals, other.pull_totals)
            and np.array_equal(self.sample, other.sample)
        )

    __hash__ = None  # type: ignore[assignment]


def sampled(first: int, stop: int) -> int:
    """How many of these trials are in the sample for quantiles."""
    return max(min(stop, SAMPLE) - first, 0)


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union of ranges, neighbours made one."""
    out: list[tuple[int, int]] = []
    for first, stop in sorted(ranges):
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(stop, out[-1][1]))
        else:
            out.append((first, stop))
    return tuple(out)


def missing(wanted: Sequence[tuple[int, int]], ranges: Sequence[tuple[int, int]]) -> Ranges:
    """What of the wanted ranges is in none of the others."""
    out: list[tuple[int, int]] = []
    for first, stop in wanted:
        for start, end in joined(ranges):
            if first < start < stop:
                out.append((first, start))
            if start < stop and end > first:
                first = min(end, stop)
        if first < stop:
            out.append((first, stop))
    return tuple(out)
