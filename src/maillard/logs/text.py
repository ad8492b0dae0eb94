"""Logs as CSV: plain, and in the layout of the Open Bandit Dataset.

Plain: the columns `arm`, `propensity`, `reward` and whatever else there is; the probabilities of
all arms are columns ``probability:LABEL``. Commas, semicolons or tabs stand between them; a reward
may be True or False. A CSV has no metadata, so policy and range are lost.

Open Bandit (Saito, Aihara, Matsutani and Narita 2021): `item_id` is the arm, `click` the reward,
`propensity_score` or `action_prob` the propensity, `timestamp` the time. Each row shows one item at
one `position`, and its propensity is that of the item at this position: so a row is a decision
among the items, and the position is context. The rows of one visit share a timestamp.
"""

import csv
import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from ..files import replacing
from .schema import checked_arms, encoded
from .sources import Source, first_line, sliced
from .writing import log_schema, probabilities_field, probability_lists, rows_to_write

if TYPE_CHECKING:
    from .log import Log

#: How the columns with the probability of each arm begin.
_PROBABILITY: Final = "probability:"
#: What Open Bandit calls the propensity, in the data and in its documentation.
_PROPENSITY: Final = ("propensity_score", "action_prob")


#: How Arrow says that a value is not of its column's type.
_CONVERSION: Final = re.compile(
    r"CSV column #(\d+): Row #(\d+): CSV conversion error to ([^:]+): invalid value ('.*')"
)
#: What may stand between the columns; the one that is in the first line most often does.
_SEPARATORS: Final = (",", ";", "\t")


def header(path: Path) -> list[str]:
    """The names of a CSV file's columns."""
    return _header(path)[0]


def _header(path: Path) -> tuple[list[str], str]:
    """And what separates them."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            separator = max(_SEPARATORS, key=first.count)
            file.seek(0)
            return next(csv.reader(file, delimiter=separator), []), separator
    except (UnicodeDecodeError, csv.Error, gzip.BadGzipFile):
        raise ValueError(f"{path} is not a CSV file") from None


def is_open_bandit(path: Path) -> bool:
    """Whether a CSV file has Open Bandit's columns."""
    names = header(path)
    return "item_id" in names and "click" in names and any(name in names for name in _PROPENSITY)


class _TextSource:
    """CSV files, one after another; a subclass says what their columns are."""

    def __init__(self, paths: Sequence[Path], name: str, arms: Any) -> None:
        self.paths, self.name = [str(path) for path in paths], name
        self._columns, self._separator = _header(paths[0])
        for path in paths[1:]:
            if _header(path) != (self._columns, self._separator):
                raise ValueError(f"{path} has other columns than {paths[0]}")
        self._arms = None if arms is None else checked_arms(arms)
        self._types: dict[str, pa.DataType] = dict.fromkeys(self._floats(), pa.float64())
        if self._arms:
            text = isinstance(self._arms[0], str)
            self._types[self._arm_column()] = pa.string() if text else pa.int64()
        self.schema = self._schema(self._sniffed())

    rows = None

    def _arm_column(self) -> str:
        return "arm"

    def _reward_column(self) -> str:
        return "reward"

    def _floats(self) -> list[str]:
        return [
            name
            for name in self._columns
            if name in ("propensity", "log_propensity") or name.startswith(_PROBABILITY)
        ]

    def _schema(self, found: pa.Schema) -> pa.Schema:
        raise NotImplementedError

    def _shaped(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """The columns of a log, from those of the file."""
        raise NotImplementedError

    def _needs(self, columns: Sequence[str]) -> list[str]:
        """The columns of the file that those of the log are made of."""
        raise NotImplementedError

    def _sniffed(self) -> pa.Schema:
        """The types, as the beginning of the first file suggests them; fixed from then on."""
        reward = self._reward_column()
        with self._open(self.paths[0], self._columns) as reader:
            found = reader.schema
        self._types.update(
            (field.name, field.type) for field in found if not pa.types.is_null(field.type)
        )
        # True and False are rewards too; a first block of whole numbers says nothing of the rest.
        if self._types.get(reward) != pa.bool_():
            self._types[reward] = pa.float64()
        return found

    def _open(self, path: str, columns: Sequence[str]) -> Any:
        options = pa_csv.ConvertOptions(
            column_types=self._types,
            include_columns=list(columns),
            null_values=[""],
            strings_can_be_null=True,
        )
        read = pa_csv.ReadOptions(use_threads=False, block_size=1 << 22)
        try:
            return pa_csv.open_csv(
                path,
                read_options=read,
                parse_options=pa_csv.ParseOptions(
                    delimiter=self._separator, newlines_in_values=True
                ),
                convert_options=options,
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise ValueError(self._complaint(path, error)) from None

    def _complaint(self, path: str, error: Exception) -> str:
        """What Arrow says, with rows counted as everywhere here: from 0, without the header."""
        said = first_line(error)
        found = _CONVERSION.search(said)
        if not found:
            return f"{path} cannot be read: {said}"
        column, row, kind, value = found.groups()
        numbers = {"bool": "True or False", "double": "a number", "int64": "a number"}
        what = numbers.get(kind, kind)
        return f"{path}: row {int(row) - 2}: {self._columns[int(column)]} is {value}, not {what}"

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """All rows, those columns in that order, at most `size` at a time."""
        needed = self._needs(columns)
        for path in self.paths:
            with self._open(path, needed) as reader:
                while True:
                    try:
                        batch = reader.read_next_batch()
                    except StopIteration:
                        break
                    except pa.ArrowInvalid as error:
                        said = self._complaint(path, error)
                        if f": {self._arm_column()} is" in said:
                            said += (
                                "; labels that only look like numbers at the beginning need "
                                "arms=, the list of them as strings"
                            )
                        raise ValueError(said) from None
                    yield from sliced(self._shaped(batch, columns), size)

    def pieces(self, count: int, first: float = 1.0) -> list[Source]:
        """Text is read from its beginning."""
        return [self]


class CsvSource(_TextSource):
    """Plain CSV."""

    def _labels(self, found: pa.Schema) -> tuple[Any, ...] | None:
        names = [c.removeprefix(_PROBABILITY) for c in self._columns if c.startswith(_PROBABILITY)]
        if not names:
            return self._arms
        index = found.get_field_index("arm")
        if index >= 0 and pa.types.is_integer(found.field(index).type):
            try:
                return checked_arms([int(name) for name in names])
            except ValueError:
                pass
        self._types["arm"] = pa.string()
        return checked_arms(names)

    def _schema(self, found: pa.Schema) -> pa.Schema:
        labels = self._labels(found)
        fields = [
            pa.field(field.name, self._types.get(field.name, field.type))
            for field in found
            if not field.name.startswith(_PROBABILITY)
        ]
        listed = any(name.startswith(_PROBABILITY) for name in self._columns)
        if listed and labels is not None:
            fields.append(probabilities_field(len(labels)))
        return pa.schema(fields, None if labels is None else encoded({}, labels))

    def _needs(self, columns: Sequence[str]) -> list[str]:
        needed = [name for name in columns if name != "probabilities"]
        if "probabilities" in columns:
            needed += [name for name in self._columns if name.startswith(_PROBABILITY)]
        return needed

    def _shaped(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        arrays = []
        for name in columns:
            if name == "probabilities":
                parts = [
                    batch.column(c).to_numpy(zero_copy_only=False)
                    for c in self._columns
                    if c.startswith(_PROBABILITY)
                ]
                arrays.append(
                    probability_lists(np.column_stack(parts), self.schema.field("probabilities"))
                )
            else:
                arrays.append(batch.column(name))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


class OpenBanditSource(_TextSource):
    """Open Bandit's CSV; with `position`, the rows of one position only."""

    def __init__(
        self, paths: Sequence[Path], name: str, arms: Any, position: int | None = None
    ) -> None:
        self._position = position
        names = header(paths[0])
        self._propensity = next((name for name in _PROPENSITY if name in names), "")
        if "item_id" not in names or "click" not in names or not self._propensity:
            raise ValueError(
                f"{name} is not laid out as Open Bandit is: it needs item_id, click and "
                "propensity_score or action_prob"
            )
        if position is not None and "position" not in names:
            raise ValueError(f"{name} has no column position")
        self._theirs = {
            "arm": "item_id", "propensity": self._propensity, "reward": "click",
            "time": "timestamp",
        }  # fmt: skip
        super().__init__(paths, name, arms)

    def _arm_column(self) -> str:
        return "item_id"

    def _reward_column(self) -> str:
        return "click"

    def _floats(self) -> list[str]:
        return [self._propensity]

    def _schema(self, found: pa.Schema) -> pa.Schema:
        ours = {theirs: name for name, theirs in self._theirs.items()}
        fields = [
            pa.field(ours.get(field.name, field.name), self._types.get(field.name, field.type))
            for field in found
            if field.name  # the first column of the published files has no name: a row number
        ]
        return pa.schema(fields)

    def _needs(self, columns: Sequence[str]) -> list[str]:
        needed = [self._theirs.get(name, name) for name in columns]
        if self._position is not None and "position" not in needed:
            needed.append("position")
        return needed

    def _shaped(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        if self._position is not None:
            batch = batch.filter(pc.equal(batch.column("position"), self._position))
        arrays = [batch.column(self._theirs.get(name, name)) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


# --------------------------------------------------------------------------------------------------


def write_csv(log: "Log", path: Path) -> None:
    """Write a log as plain CSV."""
    schema = log_schema(log)
    _write(path, (_flat(batch, log.arms) for batch in rows_to_write(log, schema)), _flat(
        pa.RecordBatch.from_pylist([], schema), log.arms
    ).schema)  # fmt: skip


def _flat(batch: pa.RecordBatch, arms: tuple[Any, ...]) -> pa.RecordBatch:
    """Every column one that a CSV can hold."""
    columns: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns):
        if name == "probabilities":
            every = column.flatten().to_numpy().reshape(len(column), len(arms))
            for i, label in enumerate(arms):
                columns[f"{_PROBABILITY}{label}"] = pa.array(every[:, i])
        elif pa.types.is_nested(column.type):
            raise ValueError(f"a CSV cannot hold the column {name} of {column.type}")
        elif pa.types.is_dictionary(column.type):
            columns[name] = column.cast(column.type.value_type)
        else:
            columns[name] = column
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def write_open_bandit(log: "Log", path: Path) -> None:
    """Write a log in Open Bandit's layout; rows without a position get position 1."""
    if log.arms and isinstance(log.arms[0], str):
        raise ValueError("Open Bandit numbers its items: the labels of the arms must be integers")
    schema = log_schema(log)
    empty = _as_open_bandit(pa.RecordBatch.from_pylist([], schema))
    batches = (_as_open_bandit(batch) for batch in rows_to_write(log, schema))
    _write(path, batches, empty.schema)


def _as_open_bandit(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = batch.schema.names
    columns: dict[str, pa.Array] = {}
    if "time" in names:
        columns["timestamp"] = batch.column("time")
    columns["item_id"] = batch.column("arm")
    ones = pa.array(np.ones(batch.num_rows, dtype=np.int64))
    columns["position"] = batch.column("position") if "position" in names else ones
    columns["click"] = batch.column("reward")
    columns["propensity_score"] = batch.column("propensity")
    for name in names:
        if name not in ("time", "arm", "position", "reward", "propensity", "probabilities"):
            columns.setdefault(name, batch.column(name))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _write(path: Path, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
    with replacing(path) as beside:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(beside, "wb") as file, pa_csv.CSVWriter(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
