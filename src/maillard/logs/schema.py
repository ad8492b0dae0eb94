"""What a log holds: columns, their types, and what the schema's metadata says of all rows.

`arm`, `propensity` and `reward` are all that a log must have. Ours say more:

| column | type | is |
|---|---|---|
| `run` | int | which experiment; the rows of one stand together |
| `round` | int | t, from 1 |
| `time` | timestamp | when |
| `arm` | int or string | the label of the arm that was chosen |
| `propensity` | float64 in (0, 1] | the probability with which it was chosen |
| `log_propensity` | float64 | its logarithm, finite where the propensity underflows |
| `reward` | float64 | what came of it |
| `probabilities` | list of K float64 | the probability of every arm, in the metadata's order |

Any other column is context and is carried along.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..policies.checks import checked_label

#: The key in the Arrow schema's metadata under which ours lies, as JSON.
KEY: Final = b"maillard"
#: The version of what lies there.
FORMAT: Final = 1

#: Columns that every log has.
NEEDED: Final = ("arm", "propensity", "reward")
#: Columns that have a meaning here; all others are context.
KNOWN: Final = (
    "run", "round", "time", "arm", "propensity", "log_propensity", "reward", "probabilities",
)  # fmt: skip


class Batch(NamedTuple):
    """Some consecutive rows of a log, as arrays that are views wherever that is possible."""

    #: The number of the first row; the log's first is 0.
    first_row: int
    #: Positions in `Log.arms`.
    arm: NDArray[np.int32]
    propensity: NDArray[np.float64]
    #: None where the log has none or it was not asked for.
    log_propensity: NDArray[np.float64] | None
    reward: NDArray[np.float64]
    #: The probability of each arm, in the order of `Log.arms`; None likewise.
    probabilities: NDArray[np.float64] | None
    #: The rows as Arrow has them, with the run, round, time and context that were asked for.
    table: pa.RecordBatch
    #: Smallest and largest propensity, smallest and largest reward: NaN if one is NaN. None where
    #: rows are not checked, or there are none.
    span: tuple[float, float, float, float] | None = None


def checked_arms(arms: Any) -> tuple[Any, ...]:
    """Labels that a log can hold: a number K for 0 … K−1, or all integers, or all strings."""
    if isinstance(arms, int) and not isinstance(arms, bool) and arms >= 0:
        return tuple(range(arms))
    if isinstance(arms, (str, bytes, set, frozenset)) or not isinstance(arms, Iterable):
        raise ValueError(f"arms must be a number or a list of labels, not {arms!r}")
    labels = tuple(checked_label(label) for label in arms)
    if len({type(label) for label in labels}) > 1:
        raise ValueError(
            "the labels of a log's arms must be all integers or all strings, not "
            + ", ".join(repr(label) for label in labels[:8])
        )
    for label, count in Counter(labels).items():
        if count > 1:
            raise ValueError(f"arm {label!r} is named twice")
        if isinstance(label, int) and not -(2**63) <= label < 2**63:
            raise ValueError(f"arm {label}: a log's integer labels must fit into 64 bits")
    return labels


def label_type(arms: Sequence[Any]) -> pa.DataType:
    """The type of a column of these labels."""
    if arms and isinstance(arms[0], str):
        return pa.dictionary(pa.int32(), pa.string())
    small = all(-(2**31) <= label < 2**31 for label in arms)
    return pa.int32() if small else pa.int64()


def label_array(codes: NDArray[np.int32], arms: Sequence[Any]) -> pa.Array:
    """The column `arm` of these positions in `arms`."""
    kind = label_type(arms)
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(arms, pa.string()))
    if tuple(arms) == tuple(range(len(arms))):
        return pa.array(codes)
    return pa.array(np.array(arms, dtype=kind.to_pandas_dtype())[codes])


def encoded(metadata: Mapping[str, Any], arms: Sequence[Any] | None) -> dict[bytes, bytes]:
    """Our part of a schema's metadata."""
    labels = None if arms is None else list(arms)
    content = {"kind": "log", "format": FORMAT, "arms": labels, **metadata}
    return {KEY: json.dumps(_plain(content), ensure_ascii=False, allow_nan=False).encode()}


def decoded(schema: pa.Schema, where: str) -> tuple[dict[str, Any], tuple[Any, ...] | None]:
    """What `encoded` wrote: the metadata and the arms; nothing for a bare table."""
    raw = (schema.metadata or {}).get(KEY)
    if raw is None:
        return {}, None
    return unpacked(raw, where)


def unpacked(raw: Any, where: str) -> tuple[dict[str, Any], tuple[Any, ...] | None]:
    """Metadata and arms from their JSON, as text or as what it stands for."""
    try:
        content = json.loads(raw) if isinstance(raw, (bytes, str)) else dict(raw)
        kind, version, arms = (content.pop(key) for key in ("kind", "format", "arms"))
        arms = None if arms is None else checked_arms(arms)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{where}: the log's metadata is damaged: {error}") from None
    if kind != "log":
        raise ValueError(f"{where} holds a {kind}, not a log of decisions")
    if version != FORMAT:
        raise ValueError(
            f"{where}: the log has format {version!r}; this version reads format {FORMAT}"
        )
    return content, arms


def common(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What the metadata of all parts agree on."""
    first, *others = parts
    return {key: value for key, value in first.items() if all(o.get(key) == value for o in others)}


def _plain(value: Any) -> Any:
    """As JSON would give it back; infinite numbers as their names."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def reward_range(metadata: Mapping[str, Any]) -> tuple[float, float]:
    """The interval that rewards lie in; the whole line where nothing is said."""
    try:
        low, high = (float(end) for end in metadata["rewards"])
    except (KeyError, TypeError, ValueError):
        return -math.inf, math.inf
    return low, high
