"""Writing logs: whole files or none, in the layout that is read fastest."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..files import replacing
from .codes import is_text
from .schema import KNOWN, Batch, decoded, encoded, label_array, label_type
from .sources import first_line

if TYPE_CHECKING:
    from .log import Log

#: Rows in a row group: the unit that workers share, and what is held in memory while writing.
GROUP: Final = 1 << 20

#: Columns whose values hardly repeat: a dictionary of them would only cost time.
_SCATTERED: Final = ("propensity", "log_propensity", "probabilities", "round", "time")


def log_schema(log: "Log") -> pa.Schema:
    """The columns of a log as they are written: ours first, then the context."""
    theirs = log.source.schema
    arms = log.arms
    fields = {
        "arm": pa.field("arm", label_type(arms), nullable=False),
        "propensity": pa.field("propensity", pa.float64(), nullable=False),
        "log_propensity": pa.field("log_propensity", pa.float64(), nullable=False),
        "reward": pa.field("reward", pa.float64(), nullable=False),
        "probabilities": probabilities_field(len(arms)),
    }
    context = [name for name in theirs.names if name not in KNOWN]
    return pa.schema(
        [
            fields.get(name) or theirs.field(name).with_type(_stored(theirs.field(name).type))
            for name in (*KNOWN, *context)
            if name in theirs.names
        ],
        encoded(log.metadata, arms),
    )


def probabilities_field(arms: int) -> pa.Field:
    """The column that holds the probability of every arm."""
    # Columns without nulls are read in half the time: there is nothing to look up for each value.
    element = pa.field("element", pa.float64(), nullable=False)
    return pa.field("probabilities", pa.list_(element, arms), nullable=False)


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type in which a column of context is kept: every reader knows plain strings."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), _stored(kind.value_type))
    return pa.string() if is_text(kind) else kind


def rows_to_write(log: "Log", schema: pa.Schema, size: int = 1 << 16) -> Iterator[pa.RecordBatch]:
    """The rows of a log in the columns of `log_schema`."""
    for batch in log.batches(size, probabilities=True):
        yield pa.RecordBatch.from_arrays(
            [_column(batch, field, log.arms) for field in schema], schema=schema
        )


def _column(batch: Batch, field: pa.Field, arms: tuple[Any, ...]) -> pa.Array:
    if field.name == "arm":
        return label_array(batch.arm, arms)
    if field.name in ("propensity", "reward", "log_propensity"):
        return pa.array(getattr(batch, field.name))
    if field.name == "probabilities":
        assert batch.probabilities is not None
        return probability_lists(batch.probabilities, field)
    column = batch.table.column(field.name)
    if column.type == field.type:
        return column
    if pa.types.is_dictionary(field.type):
        dictionary = column.dictionary.cast(field.type.value_type)
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), dictionary)
    return column.cast(field.type)


def probability_lists(every: NDArray[np.float64], field: pa.Field) -> pa.Array:
    """A matrix as a column of lists."""
    flat = pa.array(np.ascontiguousarray(every).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, type=field.type)


# --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def parquet_writer(path: Path, schema: pa.Schema, few_rewards: bool) -> Iterator[pq.ParquetWriter]:
    """A writer to a Parquet file that is there when all has gone well.

    `few_rewards`: whether rewards take few values, so that a code for each is shorter.
    """
    coded = [
        name
        for name in schema.names
        if name not in _SCATTERED and (name != "reward" or few_rewards)
    ]
    # Floats hardly shrink and would be read at a third of the speed; context is another matter.
    compression = {
        field.name: "zstd" if field.name not in KNOWN and not _nested(field.type) else "none"
        for field in schema
    }
    rising = {
        field.name: "DELTA_BINARY_PACKED"
        for field in schema
        if field.name == "round" and pa.types.is_integer(field.type)
    }
    statistics = [name for name in ("run", "round", "time") if name in schema.names]
    if "probabilities" in schema.names:  # where the smallest is no zero, few need to read them
        statistics.append("probabilities.list.element")
    with (
        replacing(path) as beside,
        pq.ParquetWriter(
            beside,
            schema,
            use_dictionary=coded,
            compression=compression,
            column_encoding=rising or None,
            write_statistics=statistics or False,
            data_page_size=1 << 18,
        ) as writer,
    ):
        yield writer


def _nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def write(log: "Log", path: Path, format: str | None, append: bool) -> None:
    """What `Log.write` does."""
    from .opening import FORMATS, format_of

    folder = format in (None, "parquet") and (path.is_dir() or not path.suffix)
    if format is None:
        format = "parquet" if folder else format_of(path)
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}: there are {', '.join(FORMATS)}")
    if append and not folder:
        raise ValueError(f"{path} is a file: only a folder of Parquet files can be added to")
    if folder:
        _write_folder(log, path, append)
    elif format == "parquet":
        write_parquet(log, path)
    elif format == "arrow":
        schema = log_schema(log)
        with replacing(path) as beside, pa.ipc.new_file(beside, schema) as writer:
            for batch in rows_to_write(log, schema):
                writer.write_batch(batch)
    elif format == "dsjson":
        from .dsjson_writing import write_dsjson

        write_dsjson(log, path)
    else:
        from .text import write_csv, write_open_bandit

        (write_csv if format == "csv" else write_open_bandit)(log, path)


def write_parquet(log: "Log", path: Path) -> None:
    """Write a log to one Parquet file."""
    schema = log_schema(log)
    batches = rows_to_write(log, schema, GROUP)
    first = next(batches, None)
    few = first is not None and _few_values(first.column("reward").to_numpy())
    with parquet_writer(path, schema, few) as writer:
        while first is not None:
            writer.write_batch(first)
            first = next(batches, None)


def _few_values(rewards: NDArray[np.float64]) -> bool:
    return len(np.unique(rewards[: 1 << 16])) <= 256


# --------------------------------------------------------------------------------------------------
# Folders of Parquet files


def _write_folder(log: "Log", folder: Path, append: bool) -> None:
    made = prepared(folder, log_schema(log), append)
    number = 1 + max((_number(path) for path in folder.glob("part-*.parquet")), default=-1)
    try:
        if append:
            _refuse_same_runs(folder, log)
        write_parquet(log, folder / f"part-{number:05d}.parquet")
    except BaseException:
        if made:
            folder.rmdir()
        raise


def prepared(folder: Path, schema: pa.Schema, append: bool) -> bool:
    """Make the folder, or see that what it holds can be added to; whether it was made."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, not a folder")
    files = sorted(folder.glob("*.parquet"))
    if files and not append:
        raise ValueError(f"{folder} holds a log already; append=True adds to it")
    for path in files[:1]:
        theirs = pq.read_schema(path)
        _, arms = decoded(theirs, str(path))
        _, ours = decoded(schema, "the log")
        if arms != ours:
            raise ValueError(f"{path} has other arms: {list(arms or ())}, not {list(ours or ())}")
        kinds = {field.name: field.type for field in theirs}
        if kinds != {field.name: field.type for field in schema}:
            raise ValueError(
                f"{path} has other columns: {', '.join(kinds)}, not {', '.join(schema.names)}"
            )
    if folder.exists():
        return False
    folder.mkdir(parents=True)
    return True


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("part-")
    return int(digits) if digits.isdigit() else -1


def _refuse_same_runs(folder: Path, log: "Log") -> None:
    """Two experiments of one number would be taken for one."""
    if "run" not in log.columns:
        return
    there = runs_in(sorted(folder.glob("*.parquet")))
    if there is None:
        return
    for batch in log.source.batches(["run"], GROUP):
        runs = batch.column("run").to_numpy(zero_copy_only=False)
        if runs.size and runs.min() <= there[1] and runs.max() >= there[0]:
            raise ValueError(
                f"{folder} holds runs {there[0]} to {there[1]} already: number the new ones "
                f"from {there[1] + 1}"
            )


def runs_in(paths: list[Path]) -> tuple[int, int] | None:
    """The smallest and largest run of some files, from their statistics alone."""
    found: list[int] = []
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                place = file.schema_arrow.get_field_index("run")
                groups = range(file.num_row_groups) if place >= 0 else range(0)
                for group in groups:
                    seen = file.metadata.row_group(group).column(place).statistics
                    if seen is not None and seen.has_min_max:
                        found += [seen.min, seen.max]
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} is not a Parquet file: {first_line(error)}") from None
    return (min(found), max(found)) if found else None
