"""`Log`: decisions with their propensities and rewards, wherever they lie."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..tables import Framed
from . import checks
from .codes import Coder, by_column, is_lists, is_number, is_text, labels_in, matrix, numbers
from .opening import opened
from .schema import NEEDED, Batch, checked_arms, decoded, reward_range
from .sources import Source

#: Rows in a batch: enough that the cost of a batch does not show, few enough for the cache.
SIZE: Final = 1 << 16


class Log(Framed):
    """Decisions of a policy: the arm of each, its propensity and its reward.

    Nothing is read before it is asked for, and never more than a batch of rows at a time. Make one
    with `Log.read`.
    """

    def __init__(
        self,
        source: Source,
        *,
        arms: Any = None,
        metadata: dict[str, Any] | None = None,
        check: bool = True,
        first_row: int = 0,
    ) -> None:
        self.source = source
        self.check_rows = check
        self.first_row = first_row
        found, labels = decoded(source.schema, source.name)
        #: What is known of all rows: policy, parameters, rewards, seed, environment, horizon, ….
        self.metadata: dict[str, Any] = found if metadata is None else metadata
        self._arms = labels if arms is None else checked_arms(arms)
        self._stated = self._arms is not None
        if labels not in (None, self._arms) and "probabilities" in source.schema.names:
            raise ValueError(
                f"{source.name} says that its probabilities are of the arms "
                f"{', '.join(repr(label) for label in labels or ())}: they cannot be others"
            )
        self._rows = source.rows
        self._check_columns()

    @classmethod
    def read(
        cls,
        source: Any,
        *,
        format: str | None = None,
        arms: Any = None,
        check: bool = True,
        **options: Any,
    ) -> "Log":
        """A log from files or from memory.

        Parameters
        ----------
        source : a file, a folder of Parquet files, a pattern such as ``"logs/*.parquet"``, a list
            of files; a table of Arrow, pandas, Polars or DuckDB, or any other object that speaks
            Arrow's C interface; a list of dictionaries, a row each, or a dictionary of columns.
        format : ``"parquet"``, ``"arrow"``, ``"csv"``, ``"open-bandit"`` or ``"dsjson"``; by
            default what the file's ending and a CSV file's columns say.
        arms : the labels, or their number K for 0 … K−1, where the log does not say. By default
            those that occur, sorted.
        check : whether `batches` refuses rows that cannot be right, naming them.
        options : of the format: ``position=`` for Open Bandit's files.
        """
        if isinstance(source, Log):
            found = source._arms if source._stated and arms is None else arms
            return cls(source.source, arms=found, check=check)
        return cls(opened(source, format, arms, options), arms=arms, check=check)

    # ----------------------------------------------------------------------------------- the whole

    @property
    def name(self) -> str:
        """What errors call it."""
        return self.source.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self.source.schema.names)

    @property
    def rows(self) -> int | None:
        """How many decisions there are; None for text files that have not been read yet."""
        return self._rows

    @property
    def says_arms(self) -> bool:
        """Whether the log, or who read it, says which arms there are."""
        return self._stated

    @property
    def arms(self) -> tuple[Any, ...]:
        """The labels of the arms. Where the log does not say, those that occur in it, sorted."""
        if self._arms is None:
            batches = self.source.batches(["arm"], SIZE)
            self._arms = checked_arms(labels_in(batch.column(0) for batch in batches))
        return self._arms

    @property
    def least_probability(self) -> float | None:
        """The smallest of all probabilities, where it is known without reading them."""
        least: float | None = getattr(self.source, "least_probability", None)
        return least

    @property
    def skipped(self) -> dict[str, int]:
        """Lines that were read and are no decisions, by reason: of dsjson files only."""
        return dict(getattr(self.source, "skipped", {}))

    def pieces(self, count: int, first: float = 1.0) -> list["Log"]:
        """Consecutive parts, `count` at most, for as many workers; each says its first row.

        They are about equally long, but for the first, which is `first` times as long.
        """
        found, row = [], self.first_row
        for source in self.source.pieces(count, first):
            piece = Log(
                source,
                arms=self.arms,
                metadata=self.metadata,
                check=self.check_rows,
                first_row=row,
            )
            found.append(piece)
            row += source.rows or 0
        return found

    def batches(
        self,
        size: int = SIZE,
        probabilities: bool = False,
        columns: Sequence[str] | None = None,
    ) -> Iterator[Batch]:
        """The rows in order, at most `size` at a time.

        Parameters
        ----------
        size : the most rows in a batch.
        probabilities : whether to read the column of that name, if there is one.
        columns : what else to read beside arm, propensity and reward: a list of names, of which
            absent ones are left out; by default all. ``columns=()`` is fastest.
        """
        if size < 1:
            raise ValueError(f"a batch has at least one row, not {size}")
        there = self.source.schema.names
        extra = there if columns is None else columns
        named = (*NEEDED, "probabilities")
        wanted = [*NEEDED, *(name for name in extra if name in there and name not in named)]
        if probabilities and "probabilities" in there:
            wanted.append("probabilities")
        low, high = reward_range(self.metadata)
        coder, first = Coder(self.arms), self.first_row
        reports: list[tuple[int, str]] = []
        for table in self.source.batches(wanted, size):
            batch = self._batch(table, coder, first)
            first += table.num_rows
            if self.check_rows:
                reports += checks.problems(batch, len(coder.arms), low, high)
                if len(reports) >= checks.SHOWN:
                    break
            elif table.num_rows and batch.arm.min() < 0:
                reports += checks.problems(batch, len(coder.arms), low, high)
                break
            # Once something is wrong the rest is only checked.
            if not reports and table.num_rows:
                yield batch
        else:
            self._rows = first - self.first_row
        if reports:
            raise ValueError(self._complaint(reports))

    def outcomes(self, size: int = SIZE) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float64]]]:
        """Arms, as positions in `arms`, and rewards, at most `size` at a time.

        Rows are not looked through: who reads them this way reads them with `batches` as well. What
        is none of the arms is taken for the first.
        """
        coder = Coder(self.arms)
        for table in self.source.batches(["arm", "reward"], size):
            if table.num_rows:
                arm = coder(table.column("arm"))
                known = arm if arm.min() >= 0 else np.maximum(arm, 0)
                yield known, numbers(table.column("reward"))

    def check(self) -> "Log":
        """Read all of it and raise a ValueError that names the first rows that cannot be right."""
        whole = Log(
            self.source,
            arms=self.arms,
            metadata=self.metadata,
            check=True,
            first_row=self.first_row,
        )
        for _ in whole.batches(probabilities=True, columns=("log_propensity",)):
            pass
        self._rows = whole._rows
        return self

    def _batch(self, table: pa.RecordBatch, coder: Coder, first: int) -> Batch:
        names = table.schema.names
        every = None
        if "probabilities" in names:
            every = matrix(table.column("probabilities"), len(coder.arms))
            if every is None:
                raise ValueError(self._ragged(table.column("probabilities"), first, coder.arms))
            every = by_column(every)  # as whoever works on them goes through them
        propensity, reward = numbers(table.column("propensity")), numbers(table.column("reward"))
        return Batch(
            first,
            coder(table.column("arm")),
            propensity,
            numbers(table.column("log_propensity")) if "log_propensity" in names else None,
            reward,
            every,
            table,
            checks.span(propensity, reward) if self.check_rows and table.num_rows else None,
        )

    def _ragged(self, column: pa.Array, first: int, arms: Sequence[Any]) -> str:
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_pylist()
        row = next((i for i, length in enumerate(lengths) if length != len(arms)), 0)
        what = (
            f"there are {lengths[row]} probabilities for {len(arms)} arms"
            if lengths[row] >= 0
            else "the probabilities are missing"
        )
        return self._complaint([(first + row, what)])

    def _complaint(self, reports: list[tuple[int, str]]) -> str:
        shown = sorted(reports, key=lambda report: report[0])[: checks.SHOWN]
        said = "; ".join(f"row {row}: {what}" for row, what in shown)
        more = "; and more" if len(reports) > checks.SHOWN else ""
        return f"{self.name} (its first row is 0): {said}{more}"

    def _check_columns(self) -> None:
        schema = self.source.schema
        lacking = [name for name in NEEDED if name not in schema.names]
        if lacking:
            raise ValueError(
                f"{self.name} has no column {' and no column '.join(lacking)}: a log has arm, "
                f"propensity and reward; it has {', '.join(schema.names[:12]) or 'none'}"
            )
        doubled = {name for name in schema.names if schema.names.count(name) > 1}
        if doubled:
            raise ValueError(f"{self.name} has the column {min(doubled)} more than once")
        arm = schema.field("arm").type
        kind = arm.value_type if pa.types.is_dictionary(arm) else arm
        if not (pa.types.is_integer(kind) or is_text(kind) or pa.types.is_null(kind)):
            raise ValueError(f"{self.name}: arms must be integers or strings, not {kind}")
        text = is_text(kind)
        if self._arms and not pa.types.is_null(kind) and text != isinstance(self._arms[0], str):
            raise ValueError(
                f"{self.name}: the column arm holds {kind}, but the arms are "
                f"{', '.join(repr(label) for label in self._arms[:5])}"
            )
        for name in ("propensity", "log_propensity", "reward"):
            if name in schema.names and not is_number(schema.field(name).type):
                raise ValueError(
                    f"{self.name}: the column {name} must hold numbers, not "
                    f"{schema.field(name).type}"
                )
        if "probabilities" in schema.names:
            if not is_lists(schema.field("probabilities").type):
                raise ValueError(
                    f"{self.name}: the column probabilities must hold lists of numbers, not "
                    f"{schema.field('probabilities').type}"
                )
            if self._arms is None:
                raise ValueError(
                    f"{self.name} has probabilities but does not say of which arms: give arms=, "
                    "the labels in their order"
                )

    # ----------------------------------------------------------------------------------- elsewhere

    def to_arrow(self) -> pa.Table:
        """The whole log as a table in memory, with all columns and the metadata."""
        from .writing import log_schema, rows_to_write

        schema = log_schema(self)
        return pa.Table.from_batches(rows_to_write(self, schema), schema)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows for any library that speaks Arrow's C interface."""
        from .writing import log_schema, rows_to_write

        schema = log_schema(self)
        reader = pa.RecordBatchReader.from_batches(schema, rows_to_write(self, schema))
        return reader.__arrow_c_stream__(requested_schema)

    def write(self, path: Any, *, format: str | None = None, append: bool = False) -> None:
        """Write the log to a file, or to a folder of Parquet files.

        The file is there whole or not at all. A path without an ending is a folder; with `append`
        the rows become one more file in it, which must have the same arms and other runs.
        """
        from .writing import write

        write(self, Path(path), format, append)

    def describe(self) -> Any:
        """Arms, rewards, propensities, and whether the propensities can be those drawn from."""
        from .description import describe

        return describe(self)

    def __len__(self) -> int:
        if self._rows is None:
            for _ in self.source.batches(["arm"], SIZE):
                self._rows = (self._rows or 0) + _.num_rows
        return self._rows or 0

    def __repr__(self) -> str:
        rows = "rows not counted" if self._rows is None else f"{self._rows:,} rows"
        policy = f", {self.metadata['policy']}" if "policy" in self.metadata else ""
        return f"Log({self.name}: {rows}{policy})"

    def _repr_html_(self) -> str:
        from .preview import preview

        return preview(self)._repr_html_()
