"""What a log's weights say about how far any estimate from it can be trusted."""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from .moments import Array
from .rows import Rows

#: How many of the largest weights are kept for the index of the tail.
LARGEST: Final = 100
_NONE: Final = np.zeros(0)


class Diagnostics(NamedTuple):
    """Counts, weights and propensities of a log under a target. A monoid: `merged`."""

    rows: int
    #: Rows in which the target has mass on arms of probability zero; no weights are taken there.
    impossible: int
    #: Mean importance weight, and Σ (w − mean)², over the other rows.
    mean_weight: float
    squares: float
    #: The largest weights, in falling order.
    largest: Array
    smallest_propensity: float
    pulls: Array
    #: Whether each arm has the same propensity in all its rows, and then which (NaN: not played).
    propensities: Array
    constant: bool
    lowest_reward: float
    highest_reward: float
    #: Whether each arm ever had a positive probability, as far as the log says.
    possible: Any

    @classmethod
    def empty(cls, arms: int) -> "Diagnostics":
        """Those of no rows."""
        return cls(
            0, 0, 0.0, 0.0, np.zeros(0), math.inf, np.zeros(arms), np.full(arms, math.nan), True,
            math.inf, -math.inf, np.zeros(arms, dtype=np.bool_),
        )  # fmt: skip

    def step(self, rows: Rows) -> "Diagnostics":
        """With these rows added."""
        weight = rows.possible.weight
        n = len(weight)
        mean = rows.memory.centred(weight)[0] if n else 0.0
        squares = rows.memory.product(weight, weight) if n else 0.0
        pulls = rows.pulls
        # An arm's first row stands for all of them until one differs.
        propensities, constant = self.propensities, False
        if self.constant:
            propensities = np.full(rows.arms, math.nan)
            propensities[rows.arm[::-1]] = rows.propensity[::-1]
            constant = bool(np.all(rows.propensity == propensities[rows.arm]))
        possible = pulls > 0.0
        if rows.probabilities is not None and not self.possible.all():
            possible = possible | np.any(rows.probabilities > 0.0, axis=1)
        unlikely, _, least, most = rows.span
        piece = Diagnostics(
            len(rows), len(rows) - n, mean, squares, self._candidates(rows, weight), unlikely,
            pulls, propensities, constant, least, most, possible,
        )  # fmt: skip
        return self.merged(piece)

    def _candidates(self, rows: Rows, weight: Array) -> Array:
        """Those of the weights that can be among the largest."""
        if len(self.largest) == LARGEST:
            least = self.largest[-1]
            if rows.heaviest <= least:
                return _NONE
            weight = weight[weight > least]
        return _falling(weight)

    def merged(self, other: "Diagnostics") -> "Diagnostics":
        """Those of two consecutive pieces."""
        if self.rows == 0 or other.rows == 0:
            return other if self.rows == 0 else self
        n, m = self.usable, other.usable
        step = other.mean_weight - self.mean_weight
        share = m / (n + m) if n + m else 0.0
        constant, propensities = self.constant and other.constant, self.propensities
        if constant:
            unknown = np.isnan(propensities)
            same = (propensities == other.propensities) | unknown | np.isnan(other.propensities)
            constant = bool(np.all(same))
            propensities = np.where(unknown, other.propensities, propensities)
        largest = self.largest
        if len(other.largest):
            largest = _falling(np.concatenate([largest, other.largest]))
        return Diagnostics(
            self.rows + other.rows,
            self.impossible + other.impossible,
            self.mean_weight + step * share,
            self.squares + other.squares + step * step * n * share,
            largest,
            min(self.smallest_propensity, other.smallest_propensity),
            self.pulls + other.pulls,
            propensities,
            constant,
            min(self.lowest_reward, other.lowest_reward),
            max(self.highest_reward, other.highest_reward),
            self.possible | other.possible,
        )

    @property
    def usable(self) -> int:
        """Rows in which everything that the target wants was possible."""
        return self.rows - self.impossible

    @property
    def ess(self) -> float:
        """Effective sample size (Σ w)²/Σ w² of the importance weights."""
        total = self.mean_weight * self.usable
        squares = self.squares + total * self.mean_weight
        return total / squares * total if squares > 0.0 else 0.0

    @property
    def largest_share(self) -> float:
        """The largest weight's share of all weight."""
        total = self.mean_weight * self.usable
        return float(self.largest[0]) / total if total > 0.0 else math.nan

    @property
    def mean_weight_error(self) -> float:
        """Standard error of the mean weight, which should be 1."""
        n = self.usable
        return math.sqrt(self.squares / n / (n - 1)) if n > 1 else math.nan

    @property
    def tail(self) -> float:
        """Hill's estimate of the index of the weights' tail; below 2 the variance is infinite.

        From as many of the largest weights as the tenth part of the effective rows, at most 99; NaN
        where that is fewer than ten.
        """
        k = min(LARGEST - 1, int(self.ess / 10.0))
        if k < 10 or len(self.largest) <= k or self.largest[k] <= 0.0:
            return math.nan
        mean = float(np.mean(np.log(self.largest[:k] / self.largest[k])))
        return 1.0 / mean if mean > 0.0 else math.inf


def _falling(weights: Array) -> Array:
    if len(weights) > LARGEST:
        weights = np.partition(weights, len(weights) - LARGEST)[-LARGEST:]
    return np.sort(weights)[::-1]
