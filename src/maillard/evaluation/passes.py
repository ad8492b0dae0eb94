"""One pass over a log that feeds every estimator, every interval and the diagnostics together.

A pass is itself a monoid over consecutive rows. What later rows need to know of earlier ones is the
`History`, which adds up: over several pieces a first pass adds the histories, and a second, which
starts every piece from the sum before it, does the work, on any `concurrent.futures` executor.
"""

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .diagnostics import Diagnostics
from .estimators import Estimator
from .intervals import Interval
from .moments import Array
from .rows import Batch, History, Rows
from .targets import Target, numbers

#: Rows that are worked on at a time: a column of them stays in the processor's cache, and what is
#: done once for a block does not show.
BLOCK: Final = 1 << 16
#: Numbers in a block's [arms, rows] arrays, at most.
_NUMBERS: Final = 1 << 19
#: Rows that a log hands over at a time.
BATCH: Final = 1 << 16
#: Bytes of columns that are given back and wanted again for every block.
_COLUMNS: Final = 1 << 24

# The C library of Linux gives large blocks of memory back to the system at once, and every page of
# the next one then costs more than what is computed in it. It holds on to blocks up to the size of
# the largest that was ever given back: this one, which is never touched, so that it takes no room.
np.empty(_COLUMNS, dtype=np.uint8)


class Order(NamedTuple):
    """Where the rounds begin and end, and how many rows repeat the one before."""

    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    runs: int = 0
    repeated: int = 0


class State(NamedTuple):
    """What a piece of a log amounts to."""

    estimators: dict[str, Any]
    intervals: dict[str, Any]
    seen: Diagnostics
    #: Of a contrast: the same under the second target.
    other: Diagnostics
    order: Order


class Pass:
    """What is to be computed, and how; small enough to be sent to where a piece of the log lies."""

    def __init__(
        self,
        arms: int,
        target: Target,
        versus: Target | None,
        estimators: Mapping[str, Estimator],
        intervals: Mapping[str, tuple[Interval, tuple[str, ...]]],
        *,
        probabilities: bool,
        prior: float,
        model: str | Array | None = None,
        run: int | None = None,
        ordered: bool = True,
        remembers: bool = True,
        weighs: bool = True,
    ) -> None:
        self.arms, self.target, self.versus = arms, target, versus
        self.estimators, self.intervals = dict(estimators), dict(intervals)
        self.probabilities, self.prior, self.model = probabilities, prior, model
        self.run, self.ordered, self.remembers, self.weighs = run, ordered, remembers, weighs

    def columns(self, there: Iterable[str]) -> tuple[str, ...]:
        """The columns to read beside those that every log has."""
        there = set(there)
        wanted = [self.model] if isinstance(self.model, str) else []
        for target in (self.target, self.versus):
            if target is not None and target.contextual:
                wanted.append(target.name)
        if self.ordered:
            wanted += ["round", "run"]
        if self.run is not None:
            wanted.append("run")
        if self.probabilities and "probabilities" not in there:
            wanted.append("log_propensity")
        return tuple(dict.fromkeys(name for name in wanted if name in there))

    def _read(self, log: Any) -> Iterator[Batch]:
        columns = self.columns(log.columns)
        size = min(BATCH, self._size)
        for batch in log.batches(size=size, probabilities=self.probabilities, columns=columns):
            yield from self._blocks(batch)

    @property
    def _size(self) -> int:
        """Rows in a block."""
        return max(256, min(BLOCK, _NUMBERS // self.arms)) if self.probabilities else BLOCK

    def _blocks(self, batch: Batch) -> Iterator[Batch]:
        """Pieces of a batch that fit into the cache, without the rows of other runs."""
        if self.run is not None:
            batch = _of_run(batch, self.run)
        size, n = self._size, len(batch.arm)
        if n <= size:
            if n:
                yield batch
            return
        for start in range(0, n, size):
            yield _Block.of(batch, start, min(n, start + size))

    # ------------------------------------------------------------------------------------- monoid

    def start(self) -> State:
        """The state of no rows."""
        empty = Diagnostics.empty(self.arms)
        return State(
            {name: estimator.start() for name, estimator in self.estimators.items()},
            {
                name: interval.start(self._of(names))
                for name, (interval, names) in self.intervals.items()
            },
            empty,
            empty,
            Order(),
        )  # fmt: skip

    def _of(self, names: Iterable[str]) -> dict[str, Estimator]:
        return {name: self.estimators[name] for name in names}

    def step(self, state: State, rows: Rows, order: Order) -> State:
        """The state with these rows, the next in order, added."""
        return State(
            {name: e.step(state.estimators[name], rows) for name, e in self.estimators.items()},
            {
                name: interval.step(state.intervals[name], rows, self._of(names))
                for name, (interval, names) in self.intervals.items()
            },
            state.seen.step(rows),
            state.other if rows.other is None else state.other.step(rows.other),
            joined(state.order, order),
        )

    def merge(self, left: State, right: State) -> State:
        """The state of two consecutive pieces."""
        return State(
            {
                name: e.merge(left.estimators[name], right.estimators[name])
                for name, e in self.estimators.items()
            },
            {
                name: interval.merge(left.intervals[name], right.intervals[name])
                for name, (interval, _) in self.intervals.items()
            },
            left.seen.merged(right.seen),
            left.other.merged(right.other),
            joined(left.order, right.order),
        )

    # -------------------------------------------------------------------------------------- a piece

    def rows(self, batch: Batch, history: History) -> Rows:
        """The rows of a block as the estimators see them."""
        every = None
        if batch.probabilities is not None:
            # A zero has no sign here: divisions would carry it on.
            every = np.add(batch.probabilities.T, 0.0, order="C")
        elif self.probabilities and self.arms == 2:
            every = _both(batch)
        model = None
        if isinstance(self.model, str):
            model = numbers(batch, self.model)
        elif self.model is not None:
            model = self.model[batch.first_row : batch.first_row + len(batch.arm)]
        if model is not None:
            if model.ndim != 2 or model.shape != (len(batch.arm), self.arms):
                raise ValueError(
                    f"model must predict {self.arms} rewards, one for each arm, in every row"
                )
            model = np.ascontiguousarray(model.T)
        found = [
            Rows(
                history.rows, batch.arm, batch.propensity, batch.reward, every,
                *target.at(batch), history, self.prior, model,
            )
            for target in (self.target, self.versus)
            if target is not None
        ]  # fmt: skip
        for one in found:
            one.known_span = batch.span
        if self.versus is not None:
            found[0].other = found[1]
        return found[0]

    def history(self, log: Any) -> History:
        """What the rows of a piece add to the history of later ones; it needs few columns."""
        history = History.empty(self.arms)
        with np.errstate(all="ignore"):
            if self.run is None and not self.weighs:
                for arm, reward in log.outcomes(BATCH):
                    history += History.of_outcomes(arm, reward, self.arms)
                return history
            for whole in log.batches(size=BATCH, columns=() if self.run is None else ("run",)):
                for batch in self._blocks(whole):
                    history += History.of(
                        batch.arm, batch.propensity, batch.reward, self.arms, self.weighs
                    )
        return history

    def piece(self, log: Any, history: History | None = None) -> State:
        """The state of a piece, whose earlier rows have this history."""
        state = self.start()
        history = History.empty(self.arms) if history is None else history
        for target in (self.target, self.versus):
            if target is not None:
                target.start()
        # Giant weights may overflow when squared: infinite errors and NaN say so themselves.
        with np.errstate(all="ignore"):
            for batch in self._read(log):
                order = order_of(batch) if self.ordered else Order()
                rows = self.rows(batch, history)
                state = self.step(state, rows, order)
                if self.remembers:
                    history = rows.history_after(self.weighs)
                else:
                    history = history._replace(rows=history.rows + len(rows))
                del batch, rows  # their memory is the next ones'
        return state

    def _share(self) -> float:
        """About how much of the work on a piece it is to add up its history, as was measured."""
        learning = sum(e.predicts and e.name != "dm" for e in self.estimators.values())
        return 1.0 / (3.5 + learning)

    def blocks(self, log: Any, points: Sequence[int]) -> Iterator[Rows]:
        """The rows once more, in blocks that end at the given numbers of rows, without a past."""
        history = History.empty(self.arms)
        for target in (self.target, self.versus):
            if target is not None:
                target.start()
        for batch in self._read(log):
            start, n = 0, len(batch.arm)
            while start < n:
                next_point = bisect.bisect_right(points, history.rows)
                room = points[next_point] - history.rows if next_point < len(points) else n
                stop = min(n, start + room)
                yield self.rows(_Block.of(batch, start, stop), history)
                history = history._replace(rows=history.rows + stop - start)
                start = stop

    def run_over(self, log: Any, executor: Any = None, pieces: int = 1) -> State:
        """The state of a log; with an executor its pieces are worked on side by side."""
        together = any(t is not None and t.ordered for t in (self.target, self.versus))
        if executor is None or together or pieces < 2:
            return self.piece(log)
        looks_back = self.remembers or self.run is not None
        # While the first piece is worked on, it is also added up for those that come after it: they
        # start later, and so are shorter.
        parts = log.pieces(pieces, 1.0 / (1.0 - self._share()) if looks_back else 1.0)
        start = History.empty(self.arms)
        # A piece is handed out as soon as all before it are known, the first at once.
        added = [executor.submit(self.history, part) for part in parts[:-1] if looks_back]
        futures = []
        for i, part in enumerate(parts):
            futures.append(executor.submit(self.piece, part, start))
            if i < len(parts) - 1:
                gain = added[i].result() if looks_back else None
                start = (
                    start._replace(rows=start.rows + len(part)) if gain is None else start + gain
                )
        state = self.start()
        for future in futures:  # in the order of the rows, whichever is ready first
            state = self.merge(state, future.result())
        return state


# --------------------------------------------------------------------------------------------------


class _Block(NamedTuple):
    first_row: int
    arm: Any
    propensity: Array
    log_propensity: Array | None
    reward: Array
    probabilities: Array | None
    table: Any
    span: None = None

    @classmethod
    def of(cls, batch: Batch, start: int, stop: int) -> "_Block":
        """Some consecutive rows of a batch."""
        part = slice(start, stop)
        log_p, every, table = batch.log_propensity, batch.probabilities, batch.table
        return cls(
            batch.first_row + start,
            batch.arm[part],
            batch.propensity[part],
            None if log_p is None else log_p[part],
            batch.reward[part],
            None if every is None else every[part],
            None if table is None else table.slice(start, stop - start),
        )


def _of_run(batch: Batch, run: int) -> Batch:
    """The rows of one run; they are together, as a log's are."""
    found = np.flatnonzero(numbers(batch, "run") == run)
    if len(found) == 0:
        return _Block.of(batch, 0, 0)
    if found[-1] - found[0] + 1 != len(found):
        raise ValueError(f"row {batch.first_row + int(found[0])}: the rows of run {run} are mixed")
    return _Block.of(batch, int(found[0]), int(found[-1]) + 1)


def _both(batch: Batch) -> Array:
    """The probabilities of two arms from that of the logged one."""
    log_p = batch.log_propensity
    # 0 − x, not −x: the zero beside a certain arm has no sign that divisions would carry on.
    other = 1.0 - batch.propensity if log_p is None else 0.0 - np.expm1(log_p)
    first = batch.arm == 0
    return np.array([
        np.where(first, batch.propensity, other), np.where(first, other, batch.propensity),
    ])  # fmt: skip


def order_of(batch: Batch) -> Order:
    """The order of a block's rounds; without a column `run`, round 1 after others is a new run."""
    names = [] if batch.table is None else batch.table.schema.names
    if "round" not in names or not len(batch.arm):
        return Order()
    rounds, run, starts = _whole(batch, "round"), (-1, -1), 0
    # Only where the round does not rise there is something to look at.
    before = np.flatnonzero(rounds[1:] <= rounds[:-1])
    at = before + 1
    falls, same = rounds[at] < rounds[before], rounds[at] == rounds[before]
    if "run" in names:
        runs = _whole(batch, "run")
        run = int(runs[0]), int(runs[-1])
        starts = int(np.count_nonzero(runs[1:] != runs[:-1]))
        goes_on = runs[at] == runs[before]
        falls, same = falls & goes_on, same & goes_on
    else:
        again = falls & (rounds[at] == 1)
        starts, falls = int(np.count_nonzero(again)), falls & ~again
    if falls.any():
        row = int(at[np.argmax(falls)])
        raise ValueError(_unsorted(batch.first_row + row, int(rounds[row]), int(rounds[row - 1])))
    twice = same
    for column in (batch.arm, batch.reward, batch.propensity) if len(at) else ():
        twice = twice & (column[at] == column[before])
    return Order(
        (run[0], int(rounds[0])),
        (run[1], int(rounds[-1])),
        1 + starts,
        int(np.count_nonzero(twice)),
    )


def _whole(batch: Batch, column: str) -> NDArray[np.integer[Any]]:
    """A column of whole numbers, as it is if it holds no others."""
    found = batch.table.column(column).to_numpy(zero_copy_only=False)
    return found if found.dtype.kind in "iu" else numbers(batch, column).astype(np.int64)


def joined(left: Order, right: Order) -> Order:
    """The order of two consecutive pieces."""
    if left.last is None or right.first is None:
        return right if left.last is None else left
    (run, last), (next_run, first) = left.last, right.first
    goes_on = run == next_run
    if goes_on and first < last:
        if run != -1 or first != 1:
            raise ValueError(_unsorted(None, first, last))
        goes_on = False
    runs = left.runs + right.runs - (1 if goes_on else 0)
    return Order(left.first, right.last, runs, left.repeated + right.repeated)


def _unsorted(row: int | None, round: int, before: int) -> str:
    where = "between two batches" if row is None else f"row {row}"
    return (
        f"{where}: round {round} comes after round {before}: sort the log by its rounds (several "
        "runs in one log need the column run)"
    )
