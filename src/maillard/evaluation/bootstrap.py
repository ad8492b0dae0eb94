"""Bootstrap intervals: rows drawn again, all kept or, with Poisson counts, as a stream."""

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arms import ArmMeans
from .diagnostics import Diagnostics
from .estimators import Estimator, Point, RowLocal
from .intervals import Ends, Interval, nothing
from .moments import Array, products
from .rows import Rows

#: Rows that share one generator of Poisson counts: weights belong to rows, not to batches.
_BLOCK: Final = 1024
#: Rows that the ordinary bootstrap keeps in memory at most.
ROWS_KEPT: Final = 5_000_000
#: Arms that a replicate of the arm means may have.
_ARMS: Final = 64


class _Bootstrap(Interval):
    def obstacle(self, estimator: Estimator) -> str:
        setting = self.conditions.setting
        if isinstance(estimator, ArmMeans):
            if setting.weights is None:
                return "needs a fixed target for arm means"
            return "" if setting.arms <= _ARMS else f"takes at most {_ARMS} arms for arm means"
        if not isinstance(estimator, RowLocal):
            return "is for estimators whose terms are local to a row"
        return ""

    def _percentiles(self, estimates: Array) -> Ends:
        if not np.all(np.isfinite(estimates)):
            return nothing("some replicates have no estimate")
        low, high = np.quantile(estimates, [self.alpha / 2.0, 1.0 - self.alpha / 2.0])
        return Ends(float(low), float(high))


def _columns(estimator: Any, rows: Rows) -> tuple[Array, NDArray[np.bool_] | None]:
    """The columns of an estimator, and which rows they are of: None for all."""
    columns = np.array(estimator.columns(rows))
    if columns.shape[1] == len(rows):
        return columns, None
    assert rows.impossible is not None
    return columns, ~rows.impossible


class PoissonBootstrap(_Bootstrap):
    """Every row counts Poisson(1) times in every replicate: percentiles of the replicates.

    A row's counts follow from the seed and the row's number, so pieces merge by adding and the
    size of batches changes nothing. Assumes independent rows, which a learning policy's are not.
    """

    name = "poisson-bootstrap"
    title = "Poisson bootstrap, percentiles"
    reference = "Hanley and MacGibbon (2006); Chamandy et al. (2012)"

    def start(self, estimators: Mapping[str, Estimator]) -> dict[str, Array]:
        return {}

    def step(
        self, state: dict[str, Array], rows: Rows, estimators: Mapping[str, Estimator]
    ) -> dict[str, Array]:
        columns = {name: _columns(estimator, rows) for name, estimator in estimators.items()}
        found = dict(state)
        for counts, start, stop in self._counts(rows.first, len(rows)):
            for name, (values, kept) in columns.items():
                mine = counts if kept is None else counts[:, kept[start:stop]]
                if kept is not None:
                    start_kept = int(np.count_nonzero(kept[:start]))
                    piece = values[:, start_kept : start_kept + mine.shape[1]]
                else:
                    piece = values[:, start:stop]
                sums = products(mine, np.vstack([np.ones(piece.shape[1]), piece]))
                found[name] = found[name] + sums if name in found else sums
        return found

    def _counts(self, first: int, n: int) -> Iterator[tuple[Array, int, int]]:
        """Counts [replicates, rows] of aligned blocks of rows, and where they start and stop."""
        row = first
        while row < first + n:
            block = row // _BLOCK
            stop = min(first + n, (block + 1) * _BLOCK)
            words = np.random.default_rng([self.conditions.seed, block]).integers(
                0, 65536, (self.conditions.replicates, _BLOCK), dtype=np.uint16
            )
            inside = slice(row - block * _BLOCK, stop - block * _BLOCK)
            yield _poisson_table()[words[:, inside]], row - first, stop - first
            row = stop

    def merge(self, left: dict[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        both = left.keys() & right.keys()
        return {**left, **right, **{name: left[name] + right[name] for name in both}}

    def ends(self, estimator: Any, point: Point, state: Any, seen: Diagnostics) -> Ends:
        if estimator.name not in state:
            return nothing("there are no usable rows")
        sums = state[estimator.name]
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._percentiles(estimator.of_means(sums[:, 1:] / sums[:, :1]))


@functools.cache
def _poisson_table() -> Array:
    """Poisson(1) counts of 16-bit words, right to 2^−16 in probability."""
    terms = [math.exp(-1.0) / math.factorial(k) for k in range(12)]
    uniform = (np.arange(65536) + 0.5) / 65536.0
    return np.searchsorted(np.cumsum(terms), uniform).astype(np.float64)


class _Kept(NamedTuple):
    columns: dict[str, Array]
    kept: dict[str, NDArray[np.bool_]]


class OrdinaryBootstrap(_Bootstrap):
    """Rows drawn with replacement, as many as there are: percentiles of the replicates.

    Keeps the terms of all rows in memory. Assumes independent rows.
    """

    name = "bootstrap"
    title = "bootstrap, percentiles"
    reference = "Efron (1979)"

    def obstacle(self, estimator: Estimator) -> str:
        if self.conditions.setting.rows > ROWS_KEPT:
            return f"keeps rows in memory, at most {ROWS_KEPT:,}; poisson-bootstrap does not"
        return super().obstacle(estimator)

    def start(self, estimators: Mapping[str, Estimator]) -> tuple[_Kept, ...]:
        return ()

    def step(
        self, state: tuple[_Kept, ...], rows: Rows, estimators: Mapping[str, Estimator]
    ) -> tuple[_Kept, ...]:
        columns, kept = {}, {}
        for name, estimator in estimators.items():
            columns[name], mask = _columns(estimator, rows)
            kept[name] = np.ones(len(rows), dtype=np.bool_) if mask is None else mask
        return (*state, _Kept(columns, kept))

    def merge(self, left: tuple[_Kept, ...], right: tuple[_Kept, ...]) -> tuple[_Kept, ...]:
        return left + right

    def ends(self, estimator: Any, point: Point, state: Any, seen: Diagnostics) -> Ends:
        name = estimator.name
        columns = np.concatenate([piece.columns[name] for piece in state], axis=1)
        kept = np.concatenate([piece.kept[name] for piece in state])
        rng = np.random.default_rng(self.conditions.seed)
        n = len(kept)
        table = np.vstack([np.ones(columns.shape[1]), columns])
        sums = np.empty((self.conditions.replicates, len(table)))
        for replicate in sums:
            counts = np.bincount(rng.integers(0, n, n), minlength=n)[kept].astype(np.float64)
            replicate[:] = np.einsum("ir,r->i", table, counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._percentiles(estimator.of_means(sums[:, 1:] / sums[:, :1]))
