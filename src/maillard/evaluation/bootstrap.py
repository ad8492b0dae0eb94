"""Bootstrap intervals: rows drawn again, all kept or, with Poisson counts, as a stream."""

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .arms import ArmMeans
from .diagnostics import Diagnostics
from .estimators import Estimator, Point, RowLocal
from .intervals import Ends, Interval, nothing
from .moments import ALONE_MATRIX, Array
from .rows import Rows

Counts = NDArray[np.uint8]

#: Rows that share one generator of Poisson counts: weights belong to rows, not to batches.
_BLOCK: Final = 1024
#: Rows that the ordinary bootstrap keeps in memory at most.
ROWS_KEPT: Final = 5_000_000
#: Arms that a replicate of the arm means may have.
_ARMS: Final = 64
#: Counts of the ordinary bootstrap that are in memory at once, but for eight replicates at least.
_COUNTS: Final = 1 << 20
#: Draws with replacement come from Poisson counts whose sum is expected so many of its standard
#: errors below the number of draws: seldom too large, and little is missing.
_MARGIN: Final = 4.0
#: Rows of one matrix product.
_ROWS_AT_ONCE: Final = 256


# --------------------------------------------------------------------------------------------------
# Counts


@functools.cache
def _poisson_table(mean: float) -> tuple[bytes, int, Array]:
    """A count for each byte; the first byte that has none; the law of the count in its place.

    The count k has ⌊256 P(k)⌋ of the 256 bytes. What that leaves of every probability is the law of
    the counts of the few bytes that remain, given by its distribution function: nothing is lost.
    """
    probabilities = [math.exp(-mean)]
    while probabilities[-1] > 0.0 and len(probabilities) < 64:
        probabilities.append(probabilities[-1] * mean / len(probabilities))
    parts = 256.0 * np.array(probabilities)
    whole = np.floor(parts)
    table = np.repeat(np.arange(len(parts)), whole.astype(int)).astype(np.uint8).tobytes()
    rest = np.cumsum(parts - whole)
    law = rest / rest[-1] if rest[-1] > 0.0 else np.ones(1)
    return table.ljust(256, b"\0"), len(table), law


def poisson_counts(
    size: int, mean: float, common: np.random.Generator, rare: np.random.Generator
) -> Counts:
    """Independent Poisson counts, a byte of random bits for each and, for few, a float more.

    The first counts are the same whatever the size: `rare` draws for those bytes, in their order,
    which do not decide.
    """
    table, first, law = _poisson_table(mean)
    words = common.integers(0, 1 << 64, -(-size // 8), dtype=np.uint64)
    drawn = words.astype("<u8", copy=False).view(np.uint8)[:size]
    counts = np.frombuffer(bytearray(drawn).translate(table), dtype=np.uint8)
    undecided = np.flatnonzero(drawn >= first)
    counts[undecided] = np.searchsorted(law, rare.random(len(undecided)), side="right")
    return counts


def counts_of_rows(seed: int, first: int, stop: int, replicates: int) -> Iterator[Counts]:
    """How often rows `first` … `stop` − 1 count, [rows, replicates], in blocks that are aligned.

    Poisson(1), and a function of the seed, the row and the number of replicates alone.
    """
    while first < stop:
        block = first // _BLOCK
        start, end = block * _BLOCK, min(stop, (block + 1) * _BLOCK)
        draws = (np.random.default_rng([seed, block, which]) for which in (0, 1))
        counts = poisson_counts((end - start) * replicates, 1.0, *draws)
        yield counts.reshape(end - start, replicates)[first - start :]
        first = end


def counts_of_draws(rows: int, replicates: int, rng: np.random.Generator) -> Counts:
    """How often each of the rows is drawn in `rows` draws with replacement: [replicates, rows].

    Independent Poisson counts are, given their sum, the counts of as many draws. So Poisson counts
    with a sum that is a little too small take a few draws more; one that is too large is drawn
    anew, which does not depend on what the counts are beside their sum.
    """
    mean = max(0.0, 1.0 - _MARGIN / math.sqrt(rows))
    counts = poisson_counts(replicates * rows, mean, rng, rng).reshape(replicates, rows)
    missing = rows - counts.sum(axis=1, dtype=np.int64)
    while len(again := np.flatnonzero(missing < 0)):
        fresh = poisson_counts(len(again) * rows, mean, rng, rng).reshape(len(again), rows)
        counts[again], missing[again] = fresh, rows - fresh.sum(axis=1, dtype=np.int64)
    places = rng.integers(0, rows, int(missing.sum()))
    places += np.repeat(np.arange(replicates) * rows, missing)
    np.add.at(counts.reshape(-1), places, np.uint8(1))  # a view: `counts` is one block
    return counts


def counts_of_replicates(seed: int, rows: int, replicates: int) -> Iterator[Counts]:
    """How often each row is drawn in as many replicates: [replicates, rows], a few at a time."""
    rng = np.random.default_rng(seed)
    size = max(8, _COUNTS // rows)
    for start in range(0, replicates, size):
        yield counts_of_draws(rows, min(size, replicates - start), rng)


def _add_products(sums: Array, counts: Counts, table: Array) -> None:
    """Add Σ_r counts[r, i] table[j, r] to sums[i, j], on one core."""
    size = max(1, ALONE_MATRIX // (_ROWS_AT_ONCE * len(table)))
    for first in range(0, table.shape[1], _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        few = np.ascontiguousarray(table[:, rows].T)
        for start in range(0, len(sums), size):
            part = counts[rows, start : start + size].astype(np.float64)
            sums[start : start + size] += part.T @ few


# --------------------------------------------------------------------------------------------------
# Intervals


def columns_of(estimator: Any, rows: Rows) -> Array:
    """Ones, and an estimator's terms, [1 + terms, rows]; zeros in rows that it cannot use."""
    columns = np.array(estimator.columns(rows))
    found = np.zeros((1 + len(columns), len(rows)))
    used: Any = slice(None)
    if columns.shape[1] != len(rows):
        assert rows.impossible is not None
        used = ~rows.impossible
    found[0, used] = 1.0
    found[1:, used] = columns
    return found


def _stacked(estimators: Mapping[str, Estimator], rows: Rows) -> tuple[Array, dict[str, slice]]:
    """The columns of all estimators in one table, and where each one's are."""
    tables = [columns_of(estimator, rows) for estimator in estimators.values()]
    ends = np.cumsum([0, *map(len, tables)]).tolist()
    spans = {name: slice(*ends[i : i + 2]) for i, name in enumerate(estimators)}
    return np.concatenate(tables), spans


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

    def percentiles(self, estimator: Any, sums: Array) -> Ends:
        """The ends, from the sums of the columns in each replicate: [replicates, columns]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            estimates = estimator.of_means(sums[:, 1:] / sums[:, :1])
        if not np.all(np.isfinite(estimates)):
            return nothing("some replicates have no estimate")
        low, high = np.quantile(estimates, [self.alpha / 2.0, 1.0 - self.alpha / 2.0])
        return Ends(float(low), float(high))


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
        table, spans = _stacked(estimators, rows)
        replicates = self.conditions.replicates
        sums, first = np.zeros((replicates, len(table))), 0
        stop = rows.first + len(rows)
        for counts in counts_of_rows(self.conditions.seed, rows.first, stop, replicates):
            _add_products(sums, counts, table[:, first : first + len(counts)])
            first += len(counts)
        return self.merge(state, {name: sums[:, span] for name, span in spans.items()})

    def merge(self, left: dict[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        both = left.keys() & right.keys()
        return {**left, **right, **{name: left[name] + right[name] for name in both}}

    def ends(self, estimator: Any, point: Point, state: Any, seen: Diagnostics) -> Ends:
        if estimator.name not in state:
            return nothing("there are no usable rows")
        return self.percentiles(estimator, state[estimator.name])


class _Kept:
    """The terms of all rows, in pieces that follow each other."""

    def __init__(self, pieces: tuple[Array, ...] = (), spans: dict[str, slice] | None = None):
        self.pieces, self.spans = pieces, spans or {}
        self._sums: Array | None = None

    def sums(self, name: str, replicates: int, seed: int) -> Array:
        """The sums of one estimator's columns in each replicate; all are found at once."""
        if self._sums is None:
            self._sums = self._drawn(replicates, seed)
        return self._sums[:, self.spans[name]]

    def _drawn(self, replicates: int, seed: int) -> Array:
        rows = sum(piece.shape[1] for piece in self.pieces)
        sums, start = np.zeros((replicates, len(self.pieces[0]))), 0
        for counts in counts_of_replicates(seed, rows, replicates):
            mine, first = sums[start : start + len(counts)], 0
            for piece in self.pieces:
                stop = first + piece.shape[1]
                _add_products(mine, counts[:, first:stop].T, piece)
                first = stop
            start += len(counts)
        return sums


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

    def start(self, estimators: Mapping[str, Estimator]) -> _Kept:
        return _Kept()

    def step(self, state: _Kept, rows: Rows, estimators: Mapping[str, Estimator]) -> _Kept:
        table, spans = _stacked(estimators, rows)
        return _Kept((*state.pieces, table), spans)

    def merge(self, left: _Kept, right: _Kept) -> _Kept:
        return _Kept(left.pieces + right.pieces, left.spans or right.spans)

    def ends(self, estimator: Any, point: Point, state: Any, seen: Diagnostics) -> Ends:
        if not state.pieces:
            return nothing("there are no rows")
        conditions = self.conditions
        sums = state.sums(estimator.name, conditions.replicates, conditions.seed)
        return self.percentiles(estimator, sums)
