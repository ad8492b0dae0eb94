"""From what a user names to where the rows are: paths, patterns, formats, tables in memory."""

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from .sources import ArrowSource, ParquetSource, Source, StreamSource, TableSource, first_line

#: How formats are called, and the endings of files that are taken to be in them.
FORMATS: Final = {
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "csv": (".csv", ".csv.gz"),
    "open-bandit": (),
    "dsjson": (".dsjson", ".json", ".jsonl", ".ndjson", ".dsjson.gz", ".json.gz", ".jsonl.gz"),
}


def opened(source: Any, format: str | None, arms: Any, options: dict[str, Any]) -> Source:
    """The rows that `Log.read` is asked for."""
    if isinstance(source, (str, Path)) or _is_list_of_paths(source):
        return _from_paths(source, format, arms, options)
    if format is not None or options:
        raise ValueError("format= and its options are for files")
    return _from_memory(source)


def _from_memory(source: Any) -> Source:
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, (list, tuple)) and not source:
        raise ValueError("the list holds no rows, so nothing is known of the log's columns")
    if isinstance(source, Mapping) or _is_list_of_rows(source):
        source = _table(source)
    if hasattr(source, "to_batches") and hasattr(source, "count_rows"):
        return StreamSource(source.schema, source, source.count_rows(), "the dataset")
    if not isinstance(source, pa.Table):
        if not hasattr(source, "__arrow_c_stream__"):
            raise ValueError(
                "a log is read from a path, a table or a list of rows, not from "
                f"{type(source).__name__}"
            )
        try:
            source = pa.table(source)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"the table cannot be read: {error.args[0]}") from None
    if isinstance(source.schema.metadata, dict) and b"pandas" in source.schema.metadata:
        kept = {k: v for k, v in source.schema.metadata.items() if k != b"pandas"}
        source = source.replace_schema_metadata(kept)
    return TableSource(source)


def _is_list_of_rows(source: Any) -> bool:
    return (
        isinstance(source, (list, tuple))
        and bool(source)
        and all(isinstance(row, Mapping) for row in source)
    )


def _table(source: Any) -> pa.Table:
    """A table of columns, or of rows, that are plain Python."""
    try:
        if isinstance(source, Mapping):
            return pa.table(dict(source))
        names = dict.fromkeys(name for row in source for name in row)
        return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in source])
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, AttributeError) as error:
        raise ValueError(f"these columns are no table: {error}") from None


def _is_list_of_paths(source: Any) -> bool:
    return (
        isinstance(source, (list, tuple))
        and bool(source)
        and all(isinstance(path, (str, Path)) for path in source)
    )


def _from_paths(source: Any, format: str | None, arms: Any, options: dict[str, Any]) -> Source:
    paths = [path for one in _listed(source) for path in _files(one)]
    name = str(source) if isinstance(source, (str, Path)) else f"{paths[0]} and others"
    formats = {format or format_of(path) for path in paths}
    if len(formats) > 1:
        raise ValueError(f"{name} mixes the formats {' and '.join(sorted(formats))}")
    found = formats.pop()
    if found not in FORMATS:
        raise ValueError(f"unknown format {found!r}: there are {', '.join(FORMATS)}")
    if found == "csv" and format is None:
        from .text import is_open_bandit

        found = "open-bandit" if is_open_bandit(paths[0]) else "csv"
    if options and found != "open-bandit":
        raise ValueError(f"the format {found} has no option {', '.join(options)}")
    try:
        if found == "parquet":
            return ParquetSource.over(paths, name)
        if found == "arrow":
            return ArrowSource.over(paths, name)
        if found == "dsjson":
            from .dsjson import DsjsonSource

            return DsjsonSource(paths, name, arms)
        from .text import CsvSource, OpenBanditSource

        if found == "open-bandit":
            return OpenBanditSource(paths, name, arms, **options)
        return CsvSource(paths, name, arms)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{name} cannot be read: {first_line(error)}") from None


def _listed(source: Any) -> list[str | Path]:
    return [source] if isinstance(source, (str, Path)) else list(source)


def _files(one: str | Path) -> list[Path]:
    """The files that a path, a folder or a pattern stands for, in the order of their names."""
    path = Path(one)
    if path.is_dir():
        endings = FORMATS["parquet"]
        found = [
            file
            for file in path.rglob("*")
            if file.suffix in endings
            and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
        ]
        if not found:
            raise FileNotFoundError(f"the folder {path} holds no Parquet files")
        return sorted(found)
    if path.exists():
        return [path]
    if glob.has_magic(str(one)):
        matched = [Path(match) for match in sorted(glob.glob(str(one), recursive=True))]
        if matched:
            return [file for match in matched for file in _files(match)]
        raise FileNotFoundError(f"no file is like {one}")
    raise FileNotFoundError(f"there is no file {one}")


def format_of(path: Path) -> str:
    """The format that a file's ending says."""
    name = path.name.lower()
    for format, endings in FORMATS.items():
        if name.endswith(endings):
            return format
    raise ValueError(
        f"{path}: the ending does not say what is in it; give format=, one of {', '.join(FORMATS)}"
    )
