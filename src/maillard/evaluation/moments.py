"""Means and co-moments of several columns, carried so that pieces merge without cancellation."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: A sum of squares below this share of the terms that it was added up from is rounding: zero.
_ROUNDING: Final = 1e-13


#: BLAS works alone on vectors this short. It spreads longer ones, and any matrix product, over all
#: cores, whose threads then wait for each other for longer than the sum takes.
_ALONE: Final = 8192
#: Up to so many columns are multiplied pair by pair.
_FEW: Final = 8


def dot(left: Array, right: Array) -> float:
    """Σ left · right, on one core."""
    starts = range(0, len(left), _ALONE)
    return sum(float(np.dot(left[i : i + _ALONE], right[i : i + _ALONE])) for i in starts)


def products(left: Array, right: Array) -> Array:
    """Σ_r left[i, r] right[j, r], on one core."""
    return np.asarray(np.einsum("ir,jr->ij", left, right))


class Moments(NamedTuple):
    """Number of rows, means of m columns, and Σ (x_i − mean_i)(x_j − mean_j) over the rows."""

    n: int
    mean: Array
    comoment: Array

    @classmethod
    def empty(cls, columns: int) -> "Moments":
        """Those of no rows."""
        return cls(0, np.zeros(columns), np.zeros((columns, columns)))

    @classmethod
    def of(cls, columns: Sequence[Array] | Array) -> "Moments":
        """Those of m columns, or of `columns[m, rows]`."""
        n, m = len(columns[0]), len(columns)
        if n == 0:
            return cls.empty(m)
        mean = np.array([column.sum() for column in columns]) / n
        if m > _FEW:
            centred = np.asarray(columns) - mean[:, None]
            return cls(n, mean, products(centred, centred))
        deviations = [column - middle for column, middle in zip(columns, mean)]
        comoment = np.empty((m, m))
        for i, left in enumerate(deviations):
            for j in range(i, m):
                comoment[i, j] = comoment[j, i] = dot(left, deviations[j])
        return cls(n, mean, comoment)

    def merged(self, other: "Moments") -> "Moments":
        """Those of both pieces together (Chan, Golub and LeVeque 1983)."""
        if self.n == 0:
            return other
        if other.n == 0:
            return self
        n = self.n + other.n
        step = other.mean - self.mean
        return Moments(
            n,
            self.mean + step * (other.n / n),
            self.comoment + other.comoment + np.outer(step, step) * (self.n * (other.n / n)),
        )

    def scaled(self, by: Array) -> "Moments":
        """Those of the columns multiplied by constants."""
        return Moments(self.n, self.mean * by, self.comoment * np.outer(by, by))

    def squares(self, combination: Array) -> float:
        """Σ (c·x − c·mean)² over the rows, for a linear combination c of the columns."""
        terms = np.outer(combination, combination) * self.comoment
        total = float(terms.sum())
        return total if not total <= _ROUNDING * float(np.abs(terms).sum()) else 0.0
