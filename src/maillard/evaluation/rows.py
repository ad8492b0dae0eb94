"""A block of a log's rows as the estimators see it, with what the earlier rows say about the arms.

Everything that an estimator may ask of a row (its importance weight, the arm means before it, …) is
worked out once for a block, when it is first asked for.
"""

import functools
import math
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..logs.checks import span
from .moments import Array, Memory, dot, running

Codes = NDArray[np.int32]

#: Nothing less probable can be drawn by a uniform number of 53 bits: it is taken as impossible, and
#: so is everything beside a propensity that rounds to 1.
NEVER: Final = 2.0**-53
#: So many arms are few: it is faster to go through the rows once for each of them.
FEW: Final = 12
#: Up to so many arms it is faster to look for each one's rows than to sort them all.
_PICKED: Final = 3
#: Sums over more arms than this seldom add to the same arm twice in a row.
_CROWDED: Final = 256
#: Sums over fewer have so many bins for each arm, where there are so many rows.
_LANES: Final = 8
_LONG: Final = 4096
#: Up to so many arms the running means of all arms are kept for every row.
_FEW_ARMS: Final = 4


class Batch(Protocol):
    """What `Log.batches` yields: consecutive rows of a log."""

    @property
    def first_row(self) -> int: ...
    @property
    def arm(self) -> Codes: ...
    @property
    def propensity(self) -> Array: ...
    @property
    def log_propensity(self) -> Array | None: ...
    @property
    def reward(self) -> Array: ...
    @property
    def probabilities(self) -> Array | None: ...
    @property
    def table(self) -> Any: ...
    @property
    def span(self) -> tuple[float, float, float, float] | None: ...


def added(arm: Codes, column: Array, arms: int) -> Array:
    """The sum of a column over each arm's rows."""
    if arms <= _PICKED:
        short = arm.astype(np.uint8)
        return np.array([dot((short == a).astype(np.float64), column) for a in range(arms)])
    if arms > _CROWDED or len(arm) < _LONG:
        return np.asarray(np.bincount(arm, column, arms), dtype=np.float64)
    # Additions to the same bin wait for each other: neighbouring rows have bins of their own.
    bins = arm + _lanes(arms, len(arm).bit_length())[: len(arm)]
    sums = np.bincount(bins, column, arms * _LANES)
    return np.asarray(sums.reshape(_LANES, arms).sum(axis=0), dtype=np.float64)


@functools.lru_cache(maxsize=4)
def _lanes(arms: int, bits: int) -> NDArray[np.int64]:
    """How far each row's bins are from the first ones."""
    return np.arange(1 << bits) % _LANES * arms


def counted(arm: Codes, arms: int) -> Array:
    """How many rows each arm has."""
    if arms <= FEW:
        short = arm.astype(np.uint8)  # comparing bytes takes a quarter of the time
        return np.array([np.count_nonzero(short == a) for a in range(arms)], dtype=np.float64)
    return np.asarray(np.bincount(arm, minlength=arms), dtype=np.float64)


def lengths_of(positions: NDArray[np.intp], rows: int) -> NDArray[np.intp]:
    """For how many rows what was known before each of these positions holds, and after the last."""
    lengths = np.empty(len(positions) + 1, dtype=np.intp)
    if len(positions) == 0:
        lengths[0] = rows
        return lengths
    lengths[0] = positions[0] + 1
    np.subtract(positions[1:], positions[:-1], out=lengths[1:-1])
    lengths[-1] = rows - 1 - positions[-1]
    return lengths


def held(values: Array, positions: NDArray[np.intp], rows: int) -> Array:
    """For every row the value that was known before it: these change only at these positions."""
    return np.repeat(values, lengths_of(positions, rows))


class History(NamedTuple):
    """What all rows before some row add up to, arm by arm. Pieces add, so it is a monoid.

    `inverse` holds Σ 1/p, Σ r/p and Σ r²/p of each arm's rows, where that is wanted.
    """

    rows: int
    pulls: Array
    totals: Array
    inverse: Array

    @classmethod
    def empty(cls, arms: int) -> "History":
        """That of the first row."""
        return cls(0, np.zeros(arms), np.zeros(arms), np.zeros((3, arms)))

    @classmethod
    def of(
        cls, arm: Codes, propensity: Array, reward: Array, arms: int, weighs: bool = True
    ) -> "History":
        """What these rows add."""
        if weighs and arms <= FEW:
            return cls._one_by_one(arm, propensity, reward, arms)
        found = cls.of_outcomes(arm, reward, arms)
        if not weighs:
            return found
        inverse = 1.0 / propensity
        columns = (inverse, inverse * reward, inverse * reward**2)
        sums = np.array([added(arm, column, arms) for column in columns])
        return found._replace(inverse=sums)

    @classmethod
    def of_outcomes(cls, arm: Codes, reward: Array, arms: int) -> "History":
        """The same without the sums that take propensities."""
        pulls, totals = counted(arm, arms), added(arm, reward, arms)
        return cls(len(arm), pulls, totals, np.zeros((3, arms)))

    @classmethod
    def _one_by_one(cls, arm: Codes, propensity: Array, reward: Array, arms: int) -> "History":
        """The same for few arms: picking out each one's rows is faster than counting into bins."""
        short = arm.astype(np.uint8)
        pulls, sums = np.empty(arms), np.empty((4, arms))
        for a in range(arms):
            mine = np.flatnonzero(short == a)
            paid, inverse = np.take(reward, mine), 1.0 / np.take(propensity, mine)
            pulls[a] = len(mine)
            sums[:2, a] = paid.sum(), inverse.sum()
            for power in (2, 3):
                inverse *= paid
                sums[power, a] = inverse.sum()
        return cls(len(arm), pulls, sums[0], sums[1:])

    def __add__(self, other: Any) -> "History":
        return History(
            self.rows + other.rows,
            self.pulls + other.pulls,
            self.totals + other.totals,
            self.inverse + other.inverse,
        )


class Rows:
    """Consecutive rows of a log under one target.

    `distribution` is the target's: [arms] where it is the same in every row, [arms, rows], or None
    where only `target`, its probability of the logged arm, is known. `model` holds a given
    prediction of every arm's reward, [arms, rows]; without one the arms' running means predict,
    (total + prior)/(pulls + 1), which use earlier rows only.
    """

    def __init__(
        self,
        first: int,
        arm: Codes,
        propensity: Array,
        reward: Array,
        probabilities: Array | None,
        distribution: Array | None,
        target: Array,
        history: History,
        prior: float,
        model: Array | None = None,
    ) -> None:
        self.first = first
        self.arm = arm
        self.propensity = propensity
        self.reward = reward
        self.probabilities = probabilities
        self.distribution = distribution
        self.target = target
        self.history = history
        self.prior = prior
        self.model = model
        #: Smallest and largest propensity, smallest and largest reward, where they are known.
        self.known_span: tuple[float, float, float, float] | None = None
        #: What the columns' sums are, for all estimators together.
        self.memory = Memory()
        #: What `possible` has picked out of the columns.
        self._picked: dict[str, Array] = {}
        #: The same rows under the target that this one is compared with.
        self.other: Rows | None = None

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def arms(self) -> int:
        """K."""
        return len(self.history.pulls)

    @cached_property
    def weight(self) -> Array:
        """w = π(A)/p(A)."""
        return self.target / self.propensity

    @cached_property
    def gain(self) -> Array:
        """w r."""
        return self.weight * self.reward

    @cached_property
    def pulls(self) -> Array:
        """How many rows each arm has."""
        if "by_arm" in self.__dict__:
            return np.array([len(positions) for positions in self.by_arm], dtype=np.float64)
        return counted(self.arm, self.arms)

    @property
    def span(self) -> tuple[float, float, float, float]:
        """Smallest and largest propensity, smallest and largest reward."""
        if self.known_span is None:
            self.known_span = span(self.propensity, self.reward)
        return self.known_span

    @property
    def mass(self) -> Array:
        """The target's probabilities of all arms, [arms, 1 or n]: one column for all rows alike."""
        assert self.distribution is not None
        return self.distribution if self.distribution.ndim == 2 else self.distribution[:, None]

    # ------------------------------------------------------------------------------- positivity

    @cached_property
    def impossible(self) -> NDArray[np.bool_] | None:
        """Rows in which the target wants arms that could not be drawn; None if there are none.

        Without the whole distribution such a row shows only where the logged arm had
        probability 1.
        """
        if self.probabilities is not None:
            if self.distribution is None or self.probabilities.min() >= NEVER:
                return self._or_other(None)
            zero = self.probabilities < NEVER
            found = np.any(zero & (self.mass != 0.0), axis=0)
        else:
            if self.arms == 1 or self.span[1] < 1.0:
                return self._or_other(None)
            found = (self.propensity == 1.0) & (self.target < 1.0)
        return self._or_other(found if found.any() else None)

    def _or_other(self, found: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        theirs = None if self.other is None else self.other.impossible
        if found is None or theirs is None:
            return theirs if found is None else found
        return found | theirs

    @cached_property
    def kept(self) -> NDArray[np.intp] | None:
        """The positions of the rows that are not impossible; None for all."""
        return None if self.impossible is None else np.flatnonzero(~self.impossible)

    def usable(self, kept: NDArray[np.intp] | None) -> Any:
        """These rows, or those at some positions, with all that `terms` ask of a row."""
        return self if kept is None else _Some(self, kept, {})

    @property
    def possible(self) -> Any:
        """The rows that are not impossible."""
        # Kept as an attribute it would tie the block to itself, and the memory of its columns would
        # be free only when the garbage collector comes by.
        return self if self.kept is None else _Some(self, self.kept, self._picked)

    @cached_property
    def heaviest(self) -> float:
        """The largest weight of the rows that are not impossible; −∞ if there are none."""
        weight = self.possible.weight
        return float(np.maximum.reduce(weight)) if len(weight) else -math.inf

    # ------------------------------------------------------------------------ what is predicted

    @cached_property
    def by_arm(self) -> list[NDArray[np.intp]]:
        """The positions of each arm's rows, in order."""
        if self.arms <= _PICKED:
            short = self.arm.astype(np.uint8)
            return [np.flatnonzero(short == a) for a in range(self.arms)]
        small = np.uint8 if self.arms <= 256 else np.uint16 if self.arms <= 65536 else np.int32
        order = np.argsort(self.arm.astype(small), kind="stable")  # a radix sort on small codes
        ends = np.cumsum(np.bincount(self.arm, minlength=self.arms))
        return np.split(order, ends[:-1])

    @cached_property
    def paid(self) -> list[Array]:
        """The rewards of each arm's rows, in order."""
        return [np.take(self.reward, positions) for positions in self.by_arm]

    @cached_property
    def _running(self) -> list[Array]:
        """The predictions for each arm before each of its rows, and after the last."""
        found, self._totals = [], np.empty(self.arms)
        for a, paid in enumerate(self.paid):
            totals = running(paid)
            self._totals[a] = totals[-1]
            totals += self.history.totals[a] + self.prior
            first = self.history.pulls[a] + 1.0
            totals /= np.arange(first, first + len(totals))
            found.append(totals)
        return found

    def history_after(self, weighs: bool = True) -> History:
        """That of the row after these."""
        if weighs or "_running" not in self.__dict__:
            return self.history + History.of(
                self.arm, self.propensity, self.reward, self.arms, weighs
            )
        before = self.history
        return before._replace(
            rows=before.rows + len(self),
            pulls=before.pulls + self.pulls,
            totals=before.totals + self._totals,
        )

    @cached_property
    def means(self) -> Array:
        """The prediction for every arm before each row, [arms, rows]."""
        if self.model is not None:
            return self.model
        means = np.empty((self.arms, len(self)))
        for a, positions in enumerate(self.by_arm):
            means[a] = held(self._running[a], positions, len(self))
        return means

    @cached_property
    def predicted(self) -> Array:
        """The prediction for the logged arm."""
        if self.model is not None:
            return np.asarray(self.model[self.arm, np.arange(len(self))])
        predicted = np.empty(len(self))
        for positions, predictions in zip(self.by_arm, self._running):
            predicted[positions] = predictions[:-1]
        return predicted

    @cached_property
    def value(self) -> Array:
        """Σ_a π(a) · the prediction for arm a."""
        if self.distribution is None:
            raise ValueError("the target must give the probabilities of all arms in every row")
        if self.distribution.ndim == 2:
            return np.asarray(np.einsum("kn,kn->n", self.distribution, self.means))
        if self.model is not None or self.arms <= _FEW_ARMS:
            return np.asarray(np.einsum("k,kn->n", self.distribution, self.means))
        # A row changes the prediction of one arm only.
        start = (self.history.totals + self.prior) / (self.history.pulls + 1.0)
        value = np.empty(len(self) + 1)
        value[0] = self.distribution @ start
        for a, (positions, predictions) in enumerate(zip(self.by_arm, self._running)):
            value[positions + 1] = self.distribution[a] * np.diff(predictions)
        return running(value[:-1])[1:]


class _Some:
    """Some rows of a block: a column is picked out when it is first asked for."""

    def __init__(self, rows: Rows, kept: NDArray[np.intp], picked: dict[str, Array]) -> None:
        self._rows, self._kept, self._picked = rows, kept, picked

    def __getattr__(self, column: str) -> Array:
        found = self._picked.get(column)
        if found is None:
            found = self._picked[column] = np.take(getattr(self._rows, column), self._kept)
        return found
