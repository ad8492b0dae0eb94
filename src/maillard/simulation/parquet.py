"""Results as Arrow tables and Parquet files, down to the last bit.

A row is a policy at a checkpoint. What people read comes first; the columns that begin with
``sum_`` and ``sample`` are the integers behind it, from which a result is made again and merged.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..files import replacing
from .curve import Curve, Moments, Quanta, sampled
from .result import Result, plain

_KEY: Final = b"maillard"
#: The version of the layout.
_FORMAT: Final = 1

#: The sums of a curve, each with the sum of squares: too long for any integer of Arrow's.
_MOMENTS: Final = ("regret", "realised", "best")


def table_of(result: Result) -> pa.Table:
    """What there is to read: a row for each policy and checkpoint."""
    return pa.concat_tables(
        [pa.table(_readable(result, curve)) for curve in result.curves.values()]
    ).replace_schema_metadata({_KEY: json.dumps(_description(result), allow_nan=False)})


def _readable(result: Result, curve: Curve) -> dict[str, Any]:
    rows = len(result.rounds)
    columns: dict[str, Any] = {
        "policy": pa.array([curve.label] * rows, pa.string()),
        "round": pa.array(result.rounds),
        "trials": pa.array([curve.trials] * rows, pa.int64()),
        "regret": pa.array(curve.regret),
        "standard_error": pa.array(curve.error),
    }
    for level in result.quantiles:
        columns[f"quantile_{level:g}"] = pa.array(curve.quantile(level))
    return columns | {
        "realised_regret": pa.array(curve.realised),
        "realised_standard_error": pa.array(curve.realised_error),
        "best_arm": pa.array(curve.best),
        "best_arm_standard_error": pa.array(curve.best_error),
        "pulls": _lists(curve.pulls),
        "lower_bound": pa.array(result.lower_bound()),
        "nanoseconds_per_step": pa.array([result.nanoseconds(curve.label)] * rows),
    }


def _exact(curve: Curve) -> dict[str, Any]:
    columns = {"sum_pulls": _lists(curve.pull_totals)}
    for name in _MOMENTS:
        moments: Moments = getattr(curve, f"{name}_moments")
        columns[f"sum_{name}"] = pa.array([str(x) for x in moments.totals], pa.string())
        columns[f"sum_{name}_squared"] = pa.array([str(x) for x in moments.squares], pa.string())
    return columns | {"sample": _lists(curve.sample)}


def _lists(rows: Any) -> pa.Array:
    """A matrix as a column of lists."""
    flat = np.ascontiguousarray(rows)
    edges = np.arange(len(flat) + 1, dtype=np.int64) * flat.shape[1]
    return pa.LargeListArray.from_arrays(edges, flat.ravel())


def _description(result: Result) -> dict[str, Any]:
    return {
        "kind": "simulation",
        "format": _FORMAT,
        "environment": result.environment,
        "horizon": result.horizon,
        "seed": result.seed,
        "paired": result.paired,
        "asymptotic_constant": plain(result.constant),
        "unbounded": math.isinf(result.constant),
        "quantiles": list(result.quantiles),
        "wanted": result.wanted,
        "policies": [
            {
                "label": curve.label,
                "policy": curve.policy,
                "quanta": curve.quanta,
                "ranges": curve.ranges,
                "seconds": curve.seconds,
            }
            for curve in result.curves.values()
        ],
    }


def write(result: Result, path: Path) -> None:
    """Write the readable columns and the integers behind them."""
    table = table_of(result)
    exact = pa.concat_tables([pa.table(_exact(curve)) for curve in result.curves.values()])
    for name in exact.column_names:
        table = table.append_column(name, exact[name])
    with replacing(path) as beside:
        pq.write_table(table, beside, compression="zstd")


def read(path: Path) -> Result:
    """A result that `write` wrote."""
    if path.is_dir():
        path = path / "result.parquet"
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        table = pq.read_table(path)
        description = json.loads((table.schema.metadata or {})[_KEY])
        if description["kind"] != "simulation":
            raise ValueError(f"it holds a {description['kind']}")
        if description["format"] != _FORMAT:
            raise ValueError(f"it has format {description['format']}, this reads {_FORMAT}")
        return _result(table, description)
    except KeyError as error:
        what = "it was not written by to_parquet" if error.args[0] == _KEY else f"no {error}"
        raise ValueError(f"{path} does not hold a result: {what}") from None
    except (ValueError, TypeError, AttributeError, OSError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(f"{path} does not hold a result: {first}") from None


def _result(table: pa.Table, description: dict[str, Any]) -> Result:
    policies = description["policies"]
    rows, left_over = divmod(table.num_rows, len(policies))
    if left_over:
        raise ValueError("rows are missing")
    curves = [_curve(table.slice(i * rows, rows), entry) for i, entry in enumerate(policies)]
    constant = description["asymptotic_constant"]
    absent = math.inf if description["unbounded"] else math.nan
    return Result(
        description["environment"],
        int(description["horizon"]),
        table["round"].slice(0, rows).to_numpy(),
        int(description["seed"]),
        bool(description["paired"]),
        absent if constant is None else float(constant),
        tuple(description["quantiles"]),
        curves,
        _ranges(description["wanted"]),
    )


def _curve(table: pa.Table, entry: dict[str, Any]) -> Curve:
    ranges = _ranges(entry["ranges"])
    columns = sum(sampled(first, stop) for first, stop in ranges)
    moments = {
        f"{name}_moments": Moments(
            tuple(int(x) for x in table[f"sum_{name}"].to_pylist()),
            tuple(int(x) for x in table[f"sum_{name}_squared"].to_pylist()),
        )
        for name in _MOMENTS
    }
    pulls = table["sum_pulls"].combine_chunks()
    return Curve(
        label=entry["label"],
        policy=entry["policy"],
        quanta=Quanta(*entry["quanta"]),
        ranges=ranges,
        pull_totals=pulls.flatten().to_numpy().reshape(table.num_rows, -1),
        sample=table["sample"].combine_chunks().flatten().to_numpy().reshape(-1, columns)
        if columns
        else np.zeros((table.num_rows, 0), dtype=np.int64),
        seconds=float(entry["seconds"]),
        **moments,
    )


def _ranges(pairs: Any) -> tuple[tuple[int, int], ...]:
    return tuple((int(first), int(stop)) for first, stop in pairs)


def write_all(results: Sequence[Result], path: Path) -> None:
    """One table of what several runs came to, with columns that say which is which."""
    tables = []
    for number, result in enumerate(results, start=1):
        table = table_of(result).replace_schema_metadata(None)
        added = {"run": number, "environment": json.dumps(result.environment)}
        for name, value in reversed({**added, "horizon": result.horizon}.items()):
            table = table.add_column(0, name, pa.array([value] * table.num_rows))
        tables.append(table)
    with replacing(path) as beside:
        pq.write_table(pa.concat_tables(tables), beside, compression="zstd")
