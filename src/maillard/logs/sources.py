"""Where the rows of a log come from: Parquet files, Arrow files, and tables in memory.

A source gives record batches of the columns asked for, in order, and never holds more than a few.
Sources of known length can be cut into pieces for several workers; they travel as plain data.
"""

import abc
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

#: Bytes of a Parquet file that are mapped into memory at a time, unless a row group has more.
_MAPPED: Final = 1 << 27


class Source(Protocol):
    """Rows in a fixed order, read as often as wanted."""

    #: What errors call it.
    name: str

    @property
    def schema(self) -> pa.Schema:
        """The columns, under the names that logs use, and the metadata of all."""

    @property
    def rows(self) -> int | None:
        """How many there are, where that is known without reading them."""

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """All rows, those columns in that order, at most `size` at a time."""

    def pieces(self, count: int, first: float = 1.0) -> list["Source"]:
        """Consecutive parts, `count` at most, that together are the whole.

        The first is to be so many times as long as the others, which are alike.
        """


def edges(rows: int, count: int, first: float = 1.0) -> list[tuple[int, int]]:
    """Where such parts of so many rows start and stop; one of no rows if there are none."""
    each = rows / (first + count - 1.0)
    stops = sorted({*(int((first + i) * each) for i in range(count - 1)), rows} - {0})
    return list(itertools.pairwise([0, *stops])) or [(0, 0)]


def cut(sizes: Sequence[int], count: int, first: float = 1.0) -> list[slice]:
    """Consecutive slices, `count` at most and none empty, of about equal sums of sizes.

    The first is to be so many times as long as the others.
    """
    found: list[slice] = []
    each, done, start = sum(sizes) / (first + count - 1.0), 0, 0
    for stop, size in enumerate(sizes, 1):
        done += size
        last = stop == len(sizes)
        # Half of the next one is the most by which a slice may be too short.
        enough = (first + len(found)) * each - (0.0 if last else 0.5 * sizes[stop])
        if last or (done >= enough and len(found) < count - 1):
            found.append(slice(start, stop))
            start = stop
    return found


# --------------------------------------------------------------------------------------------------


@dataclass
class TableSource:
    """A table in memory."""

    table: pa.Table
    name: str = "the table"

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(list(columns)).to_batches(max_chunksize=size)

    def pieces(self, count: int, first: float = 1.0) -> list[Source]:
        return [
            TableSource(self.table.slice(start, stop - start), self.name)
            for start, stop in edges(self.rows, count, first)
        ]


@dataclass
class StreamSource:
    """The batches of an object that can be iterated again and again, as a dataset can."""

    schema: pa.Schema
    stream: Any
    rows: int | None = None
    name: str = "the table"

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        for batch in self.stream.to_batches(columns=list(columns), batch_size=size):
            yield from sliced(batch, size)

    def pieces(self, count: int, first: float = 1.0) -> list[Source]:
        return [self]


def sliced(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, at most `size` at a time."""
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size) if batch.num_rows > size else batch


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """A part of a file that is read at once: a row group of Parquet, a batch of Arrow."""

    path: str
    number: int
    rows: int
    #: The smallest of its probabilities, if the file says so.
    least: float | None = None


class FileSource(abc.ABC):
    """Files whose parts and their lengths are known beforehand."""

    def __init__(self, parts: Sequence[_Part], schema: pa.Schema, name: str) -> None:
        self.parts, self.schema, self.name = tuple(parts), schema, name

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def pieces(self, count: int, first: float = 1.0) -> list[Source]:
        slices = cut([part.rows for part in self.parts], count, first)
        return [type(self)(self.parts[one], self.schema, self.name) for one in slices] or [self]

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        numbers: dict[str, list[int]] = {}
        for part in self.parts:
            numbers.setdefault(part.path, []).append(part.number)
        for path, wanted in numbers.items():
            try:
                yield from self._read(path, wanted, list(columns), size)
            except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError) as error:
                raise ValueError(f"{path} cannot be read: {first_line(error)}") from None

    @abc.abstractmethod
    def _read(
        self, path: str, numbers: list[int], columns: list[str], size: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these parts of a file."""


class ParquetSource(FileSource):
    """Parquet files, one after another."""

    @classmethod
    def over(cls, paths: Sequence[Path], name: str) -> "ParquetSource":
        """The files' rows; their columns must be alike where they have the same name."""
        parts: list[_Part] = []
        schemas: list[tuple[Path, pa.Schema]] = []
        for path in paths:
            try:
                with pq.ParquetFile(path) as file:
                    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
                    schemas.append((path, file.schema_arrow))
            except pa.ArrowInvalid as error:
                raise ValueError(f"{path} is not a Parquet file: {first_line(error)}") from None
            parts += [
                _Part(str(path), i, group.num_rows, _least(group)) for i, group in enumerate(groups)
            ]
        return cls(parts, merged(schemas), name)

    @property
    def least_probability(self) -> float | None:
        """The smallest probability of any arm in any row, if the files say so."""
        found = [part.least for part in self.parts if part.rows]
        known = [least for least in found if least is not None]
        return min(known) if known and len(known) == len(found) else None

    def _read(
        self, path: str, numbers: list[int], columns: list[str], size: int
    ) -> Iterator[pa.RecordBatch]:
        # Strings come as codes into a short dictionary, not one by one.
        text = [
            field.name
            for field in self.schema
            if field.name == "arm" and not pa.types.is_integer(field.type)
        ]
        metadata = pq.read_metadata(path)
        for groups in _stretches(numbers, metadata):
            with pq.ParquetFile(
                path, metadata=metadata, memory_map=True, read_dictionary=text
            ) as file:
                for batch in file.iter_batches(
                    size, row_groups=groups, columns=columns, use_threads=False
                ):
                    yield batch.select(columns)


def _stretches(numbers: list[int], metadata: Any) -> Iterator[list[int]]:
    """Row groups that may be in memory together: what is mapped stays there until it is closed."""
    groups: list[int] = []
    together = 0
    for number in numbers:
        length = metadata.row_group(number).total_byte_size
        if groups and together + length > _MAPPED:
            yield groups
            groups, together = [], 0
        groups.append(number)
        together += length
    if groups:
        yield groups


def _least(group: Any) -> float | None:
    """The smallest number in a row group's column of probabilities, from its statistics."""
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema.startswith("probabilities."):
            seen = column.statistics
            return float(seen.min) if seen is not None and seen.has_min_max else None
    return None


class ArrowSource(FileSource):
    """Arrow files, mapped into memory: columns of fixed width are not even copied."""

    @classmethod
    def over(cls, paths: Sequence[Path], name: str) -> "ArrowSource":
        """The files' rows; their columns must be alike where they have the same name."""
        parts: list[_Part] = []
        schemas: list[tuple[Path, pa.Schema]] = []
        for path in paths:
            try:
                with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
                    parts += [
                        _Part(str(path), i, file.get_batch(i).num_rows)
                        for i in range(file.num_record_batches)
                    ]
                    schemas.append((path, file.schema))
            except pa.ArrowInvalid as error:
                raise ValueError(f"{path} is not an Arrow file: {first_line(error)}") from None
        return cls(parts, merged(schemas), name)

    def _read(
        self, path: str, numbers: list[int], columns: list[str], size: int
    ) -> Iterator[pa.RecordBatch]:
        # Not closed by hand: the batches that were given out lie in the map.
        file = pa.ipc.open_file(pa.memory_map(path))
        for number in numbers:
            yield from sliced(file.get_batch(number).select(columns), size)


def merged(schemas: Iterable[tuple[Path, pa.Schema]]) -> pa.Schema:
    """The columns that all files have; what they have in common must be of one type."""
    from .schema import common, decoded, encoded

    found = list(schemas)
    first_path, first = found[0]
    labelled = [(path, *decoded(schema, str(path))) for path, schema in found]
    arms = labelled[0][2]
    for path, _, other in labelled:
        if other != arms:
            raise ValueError(f"{first_path} and {path} have different arms; read them one by one")
    fields = []
    for field in first:
        for path, schema in found:
            number = schema.get_field_index(field.name)
            if number < 0:
                break
            if schema.field(number).type != field.type:
                raise ValueError(
                    f"column {field.name} is {field.type} in {first_path} but "
                    f"{schema.field(number).type} in {path}"
                )
        else:
            fields.append(field)
    named = any((schema.metadata or {}) for _, schema in found) and (labelled[0][1] or arms)
    metadata = encoded(common([part for _, part, _ in labelled]), arms) if named else None
    return pa.schema(fields, metadata)


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).splitlines() or ["unknown error"])[0]
