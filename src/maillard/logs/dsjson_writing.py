"""Writing Vowpal Wabbit's dsjson; `dsjson` says what it is."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..files import replacing
from .dsjson import OURS, PLAIN, ROW
from .schema import KEY, encoded
from .writing import log_schema, rows_to_write

if TYPE_CHECKING:
    from .log import Log


def write_dsjson(log: "Log", path: Path) -> None:
    """Write a log as dsjson."""
    schema = log_schema(log)
    columns = {}
    for field in schema:
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if field.name in ("arm", "probabilities"):
            columns[field.name] = field.name
        elif str(kind) in PLAIN or (field.name == "time" and pa.types.is_timestamp(kind)):
            columns[field.name] = str(kind)
        else:
            raise ValueError(f"dsjson cannot hold the column {field.name} of {field.type}")
    header = json.loads(encoded(log.metadata, log.arms)[KEY]) | {"columns": columns}
    actions = [{"_tag": str(label), "i": {"constant": 1, "id": str(label)}} for label in log.arms]
    with replacing(path) as beside:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(beside, "wt", encoding="utf-8", newline="\n") as file:
            first = True
            for batch in rows_to_write(log, schema):
                for row in _rows(batch, log):
                    line = _written(row, log.arms, actions)
                    if first:
                        line = {OURS: header, **line}
                    file.write(_json(line) + "\n")
                    first = False
            if first:  # a log without rows still says what it is
                file.write(json.dumps({OURS: header, "RewardValue": 0.0}) + "\n")


def _rows(batch: pa.RecordBatch, log: "Log") -> Iterator[dict[str, Any]]:
    """Rows as dictionaries, with the chosen arm's position instead of its label."""
    positions = {label: i for i, label in enumerate(log.arms)}
    names = batch.schema.names
    columns = [
        _stamps(column) if name == "time" and _is_time(column) else column.to_pylist()
        for name, column in zip(names, batch.columns)
    ]
    for values in zip(*columns):
        row = dict(zip(names, values))
        row["arm"] = positions[row["arm"]]
        yield row


def _is_time(column: pa.Array) -> bool:
    return bool(pa.types.is_timestamp(column.type))


def _stamps(column: pa.Array) -> list[str | None]:
    """Times as the format writes them, to the microsecond."""
    micro = column.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
    return [None if np.isnat(t) else f"{t}Z" for t in micro]


def _json(line: dict[str, Any]) -> str:
    try:
        return json.dumps(line, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise ValueError(f"dsjson cannot hold NaN or infinity: {line}") from None


def _written(
    row: dict[str, Any], arms: Sequence[Any], actions: list[dict[str, Any]]
) -> dict[str, Any]:
    """One line. The chosen action changes places with the first, as Vowpal Wabbit does it."""
    chosen, propensity = row.pop("arm"), row.pop("propensity")
    kept = row.get("pass_probability")
    kept = 1.0 if kept is None else kept
    every = row.pop("probabilities", None)
    order = [chosen]
    if every is not None:
        order = list(range(len(arms)))
        order[0], order[chosen] = chosen, 0
    line: dict[str, Any] = {
        "_label_cost": 0.0 - row.pop("reward"),
        "_label_probability": propensity * kept,
        "_label_Action": chosen + 1,
        "_labelIndex": chosen,
    }
    if isinstance(row.get("time"), str):
        line["Timestamp"] = row.pop("time")
    line["Version"] = "1"
    if isinstance(row.get("event_id"), str):
        line["EventId"] = row["event_id"]
    line["a"] = [i + 1 for i in order]
    shared = row.get("context")
    line["c"] = {**_features(shared), "_multi": actions}
    line["p"] = [propensity, *(every[i] for i in order[1:])] if every is not None else [propensity]
    line["VWState"] = {"m": "N/A"}
    if kept != 1.0:
        line["pdrop"] = 1.0 - kept
    if row:
        line[ROW] = row
    return line


def _features(shared: Any) -> dict[str, Any]:
    """Shared features from the JSON of the column `context`, if that is what it holds."""
    try:
        found = json.loads(shared) if isinstance(shared, str) else None
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
