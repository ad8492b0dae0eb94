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
#: It works alone on matrix products of so few multiplications.
ALONE_MATRIX: Final = 1 << 17
#: Up to so many columns are multiplied pair by pair.
_FEW: Final = 8
#: So many numbers are added up by one row of a matrix product, in columns that are so long.
_STEPS: Final = 16
_LONG: Final = 1024
_UP_TO: Final = np.triu(np.ones((_STEPS, _STEPS)))
#: What the mean of equal numbers can differ from them, relatively, after pairwise addition.
_INDISTINCT: Final = 2.0**-47


def dot(left: Array, right: Array) -> float:
    """Σ left · right, on one core."""
    whole = len(left) // _ALONE * _ALONE
    total = float(np.dot(left[whole:], right[whole:]))
    if whole:
        pieces = np.vecdot(left[:whole].reshape(-1, _ALONE), right[:whole].reshape(-1, _ALONE))
        total += float(pieces.sum())
    return total


def products(left: Array, right: Array) -> Array:
    """Σ_r left[i, r] right[j, r], on one core."""
    step = max(1, ALONE_MATRIX // (len(left) * len(right)))
    found = np.zeros((len(left), len(right)))
    for start in range(0, left.shape[1], step):
        found += left[:, start : start + step] @ right[:, start : start + step].T
    return found


def running(column: Array) -> Array:
    """0, x₁, x₁ + x₂, …: one number more than the column has.

    Additions one after another wait for each other: sixteen at a time are a small matrix product.
    """
    sums = np.empty(len(column) + 1)
    sums[0] = 0.0
    whole = len(column) // _STEPS * _STEPS if len(column) >= _LONG else 0
    if whole:
        steps, found = column[:whole].reshape(-1, _STEPS), sums[1 : whole + 1].reshape(-1, _STEPS)
        size = ALONE_MATRIX // _STEPS**2
        for start in range(0, len(steps), size):
            np.matmul(steps[start : start + size], _UP_TO, out=found[start : start + size])
        found[1:] += np.cumsum(found[:-1, -1])[:, None]
    np.cumsum(column[whole:], out=sums[whole + 1 :])
    sums[whole + 1 :] += sums[whole]
    return sums


def centred(column: Array) -> tuple[float, Array]:
    """The mean of a column, and the deviations from it.

    The mean of equal numbers is that number, and their deviations are exactly zero.
    """
    mean, example = float(np.add.reduce(column)) / len(column), float(column[0])
    if abs(mean - example) <= _INDISTINCT * abs(mean):
        mean = example
    return mean, column - mean


class Memory:
    """Means and products of one block's columns: worked out once, whoever asks again."""

    def __init__(self) -> None:
        # By the identity of a column, which is kept here so that no other can get it.
        self._centred: dict[int, tuple[Array, float, Array]] = {}
        self._products: dict[tuple[int, int], float] = {}

    def centred(self, column: Array) -> tuple[float, Array]:
        """The mean of a column, and its deviations from it."""
        found = self._centred.get(id(column))
        if found is None:
            found = self._centred[id(column)] = column, *centred(column)
        return found[1:]

    def product(self, left: Array, right: Array) -> float:
        """Σ of the products of two columns' deviations."""
        key = (id(left), id(right))
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = dot(self.centred(left)[1], self.centred(right)[1])
        return found


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
    def of(cls, columns: Sequence[Array] | Array, memory: Memory | None = None) -> "Moments":
        """Those of m columns, or of `columns[m, rows]`."""
        n, m = len(columns[0]), len(columns)
        if n == 0:
            return cls.empty(m)
        if m > _FEW:
            table = np.asarray(columns)
            mean = table.sum(axis=1) / n
            apart = table - mean[:, None]
            return cls(n, mean, products(apart, apart))
        memory = memory or Memory()
        columns = list(columns)  # kept: the memory knows a column by its identity
        mean = np.array([memory.centred(column)[0] for column in columns])
        comoment = np.empty((m, m))
        for i, left in enumerate(columns):
            for j in range(i, m):
                comoment[i, j] = comoment[j, i] = memory.product(left, columns[j])
        return cls(n, mean, comoment)

    def merged(self, other: "Moments") -> "Moments":
        """Those of both pieces together (Chan, Golub and LeVeque 1983)."""
        if self.n == 0:
            return other
        if other.n == 0:
            return self
        n = self.n + other.n
        step, share = other.mean - self.mean, other.n / n
        comoment = step[:, None] * step  # `np.outer` would take longer than all the rest
        comoment *= self.n * share
        comoment += self.comoment
        comoment += other.comoment
        return Moments(n, self.mean + step * share, comoment)

    def scaled(self, by: Array) -> "Moments":
        """Those of the columns multiplied by constants."""
        return Moments(self.n, self.mean * by, self.comoment * np.outer(by, by))

    def squares(self, combination: Array) -> float:
        """Σ (c·x − c·mean)² over the rows, for a linear combination c of the columns."""
        terms = np.outer(combination, combination) * self.comoment
        total = float(terms.sum())
        return total if not total <= _ROUNDING * float(np.abs(terms).sum()) else 0.0
