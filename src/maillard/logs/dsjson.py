"""Vowpal Wabbit's dsjson: one decision a line, as its decision service logs them.

| field | is |
|---|---|
| `_label_cost` | the cost, −reward |
| `_label_Action`, `_labelIndex` | the chosen action, counted from 1 and from 0 |
| `a` | all actions, counted from 1 and permuted so that the chosen one comes first |
| `p` | their probabilities, in the order of `a` |
| `pdrop` | the probability that the line was dropped by a full queue |
| `_label_probability` | p of the chosen action × (1 − pdrop): that it was chosen *and* kept |
| `c` | the context: shared features, and `_multi` with the features of each action |

The propensity of a log is the probability of the choice, so it is `p` of the chosen action, and
where lines were dropped a column `pass_probability` says 1 − pdrop. Arms are called by the `_tag`
(or `i.id`) of the actions if all have one, else 0, 1, …. Features of the actions are not kept;
shared ones are, as JSON, in the column `context`.

What we write begins with a line that also says, under ``_maillard``, what other formats keep in
the metadata; Vowpal Wabbit skips what it does not know. Such a file is read back to the same log.
"""

import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from .schema import checked_arms, encoded, label_array, label_type, unpacked
from .sources import Source
from .writing import probabilities_field, probability_lists

#: Where our own things lie: the log's metadata in the first line, and each row's further columns.
OURS: Final = "_maillard"
ROW: Final = "_row"
#: How far `_label_probability` may be from what `p` says: both are single precision.
_CLOSE: Final = 1e-4

#: Types of context that a line of JSON gives back as they were.
PLAIN: Final = {
    str(kind): kind
    for kind in (
        pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(),
        pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64(), pa.string(),
    )
}  # fmt: skip


class _Line:
    """One decision, as a line says it."""

    __slots__ = ("chosen", "every", "found", "kept", "names", "propensity", "reward", "time")

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found
        actions, p = found["a"], [_number(x) for x in found["p"]]
        action = found.get("_label_Action", actions[0])
        if len(actions) != len(p) or len(set(actions)) != len(actions) or not actions:
            raise ValueError("a and p must be lists of the same length, a without repetition")
        if any(type(a) is not int or a < 1 for a in actions):
            raise ValueError("a must hold whole numbers from 1 on")
        if action not in actions:
            raise ValueError(f"the chosen action {action!r} is not in a")
        self.chosen: int = action - 1
        self.propensity: float = p[actions.index(action)]
        self.kept: float = 1.0 - _number(found.get("pdrop", 0.0))
        said = _number(found.get("_label_probability", self.propensity * self.kept))
        # Some writers leave the dropping out of the label; the choice's probability is the same.
        if not any(
            math.isclose(said, value, rel_tol=_CLOSE)
            for value in (self.propensity * self.kept, self.propensity)
        ):
            raise ValueError(
                f"_label_probability {said:g} is not the chosen action's probability "
                f"{self.propensity:g} times {self.kept:g} for being kept"
            )
        self.reward: float = 0.0 - _number(found["_label_cost"])
        #: Microseconds since 1970.
        self.time: int | None = _micro(found.get("Timestamp"))
        context = found.get("c", {})
        several = context.get("_multi", ())
        self.names = _names(several)
        size = max(len(several), *actions)
        #: Probabilities of the actions from 0 on; None where only some are said.
        self.every: list[float] | None = None
        if len(actions) == size and size > 1:
            self.every = [0.0] * size
            for a, probability in zip(actions, p):
                self.every[a - 1] = probability


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _names(several: Sequence[Any]) -> list[str] | None:
    """The names of a line's actions, if all have one of their own."""
    found = []
    for one in several:
        name = one.get("_tag")
        if name is None and isinstance(one.get("i"), dict):
            name = one["i"].get("id")
        if not isinstance(name, str):
            return None
        found.append(name)
    return found if found and len(set(found)) == len(found) else None


class DsjsonSource:
    """dsjson files, one after another.

    Files that do not begin with our own line are read twice: before the first pass ends, nobody
    knows which arms there are.
    """

    def __init__(self, paths: Sequence[Path], name: str, arms: Any) -> None:
        self.paths, self.name = [str(path) for path in paths], name
        self.rows: int | None = None
        self.skipped: dict[str, int] = {}
        self._fields: dict[str, pa.DataType] | None = None
        header = self._header()
        if header is not None:
            columns = header.pop("columns", {})
            metadata, self._arms = unpacked(header, name)
            self._named = False
            self._fields = {column: _type(kind, name) for column, kind in columns.items()}
            assert self._arms is not None
            self.schema = self._own_schema(metadata)
        else:
            self._arms = None if arms is None else checked_arms(arms)
            self.schema = self._survey()

    def _header(self) -> dict[str, Any] | None:
        with _opened(self.paths[0]) as file:
            first = file.readline()
        try:
            header = json.loads(first).get(OURS)
        except (json.JSONDecodeError, AttributeError):
            return None
        return header if isinstance(header, dict) else None

    def _lines(self) -> Iterator[_Line]:
        skipped: Counter[str] = Counter()
        for path in self.paths:
            with _opened(path) as file:
                for number, text in enumerate(file, 1):
                    if not text.strip():
                        continue
                    try:
                        found = json.loads(text)
                        reason = _no_decision(found)
                        if reason:
                            skipped[reason] += 1
                            continue
                        line = _Line(found)
                    except KeyError as error:
                        raise ValueError(f"{path}, line {number}: there is no {error}") from None
                    except json.JSONDecodeError as error:
                        raise ValueError(f"{path}, line {number} is not JSON: {error}") from None
                    except (ValueError, TypeError, AttributeError) as error:
                        raise ValueError(f"{path}, line {number}: {error}") from None
                    yield line
        self.skipped = dict(skipped)

    # ------------------------------------------------------------------ what other programs wrote

    def _survey(self) -> pa.Schema:
        """Read all lines once: which arms and columns there are."""
        rows = size = 0
        named = complete = True
        dropped = timed = identified = featured = False
        names: dict[str, None] = {}
        for line in self._lines():
            rows += 1
            named &= line.names is not None
            complete &= line.every is not None
            names.update(dict.fromkeys(line.names or ()))
            size = max(size, *line.found["a"], len(line.found.get("c", {}).get("_multi", ())))
            dropped |= line.kept != 1.0
            timed |= "Timestamp" in line.found
            identified |= "EventId" in line.found
            featured |= _shared(line.found) != {}
        self.rows = rows
        if self._arms is None:
            self._arms = tuple(names) if named else tuple(range(size))
        self._named = named and all(isinstance(label, str) for label in self._arms)
        if not self._named and len(self._arms) < size:
            raise ValueError(f"{self.name} has {size} actions, not {len(self._arms)}")
        fields = [
            pa.field("time", pa.timestamp("us", "UTC")) if timed else None,
            pa.field("arm", label_type(self._arms)),
            pa.field("propensity", pa.float64()),
            pa.field("reward", pa.float64()),
            probabilities_field(len(self._arms)) if complete and rows else None,
            pa.field("pass_probability", pa.float64()) if dropped else None,
            pa.field("event_id", pa.string()) if identified else None,
            pa.field("context", pa.string()) if featured else None,
        ]
        return pa.schema([field for field in fields if field], encoded({}, self._arms))

    def _position(self, line: _Line, index: int) -> int:
        """The position among the arms of a line's action."""
        if not self._named:
            return index
        assert line.names is not None
        try:
            return self._index[line.names[index]]
        except (KeyError, IndexError):
            return -1

    def _own_schema(self, metadata: dict[str, Any]) -> pa.Schema:
        assert self._fields is not None
        assert self._arms is not None
        fields = []
        for name, kind in self._fields.items():
            if name == "probabilities":
                fields.append(probabilities_field(len(self._arms)))
            elif name == "arm":
                fields.append(pa.field(name, label_type(self._arms)))
            else:
                fields.append(pa.field(name, kind))
        return pa.schema(fields, encoded(metadata, self._arms))

    # --------------------------------------------------------------------------------------- rows

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """All rows, those columns in that order, at most `size` at a time."""
        assert self._arms is not None
        self._index = {label: i for i, label in enumerate(self._arms)}
        lines: list[_Line] = []
        for line in self._lines():
            lines.append(line)
            if len(lines) == min(size, 1 << 14):
                yield self._batch(lines, columns)
                lines = []
        if lines:
            yield self._batch(lines, columns)

    def pieces(self, count: int, first: float = 1.0) -> list[Source]:
        """Text is read from its beginning."""
        return [self]

    def _batch(self, lines: list[_Line], columns: Sequence[str]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [self._column(lines, name) for name in columns], names=list(columns)
        )

    def _column(self, lines: list[_Line], name: str) -> pa.Array:
        assert self._arms is not None
        if name == "arm":
            codes = [self._position(line, line.chosen) for line in lines]
            if min(codes) < 0 or max(codes) >= len(self._arms):
                return pa.array(
                    [self._arms[i] if 0 <= i < len(self._arms) else None for i in codes],
                    label_type(self._arms),
                )
            return label_array(np.array(codes, dtype=np.int32), self._arms)
        if name == "propensity":
            return pa.array([line.propensity for line in lines], pa.float64())
        if name == "reward":
            return pa.array([line.reward for line in lines], pa.float64())
        if name == "probabilities":
            every = np.zeros((len(lines), len(self._arms)))
            for row, line in zip(every, lines):
                for i, p in enumerate(line.every or ()):
                    row[self._position(line, i)] = p
            return probability_lists(every, self.schema.field(name))
        kind = self.schema.field(name).type
        if name == "time" and pa.types.is_timestamp(kind):
            times = pa.array([line.time for line in lines], pa.timestamp("us", "UTC"))
            return times.cast(kind)
        if self._fields is not None:
            return pa.array([line.found.get(ROW, {}).get(name) for line in lines], kind)
        if name == "pass_probability":
            return pa.array([line.kept for line in lines], kind)
        if name == "event_id":
            return pa.array([line.found.get("EventId") for line in lines], kind)
        shared = (_shared(line.found) for line in lines)
        return pa.array([json.dumps(one, ensure_ascii=False) for one in shared], kind)


def _shared(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.get("c", {}).items() if key != "_multi"}


def _no_decision(found: Any) -> str:
    """Why a line is no decision with a reward; nothing if it is one."""
    if not isinstance(found, dict):
        raise ValueError("a line must be a JSON object")
    if "_outcomes" in found or "_label_ca" in found or "_slots" in found.get("c", {}):
        raise ValueError("only plain contextual bandits can be read, without slots or continua")
    if "a" not in found and ("RewardValue" in found or "Observations" in found):
        return "rewards without a decision"
    if found.get("_skipLearn"):
        return "decisions that were never activated"
    if "_label_cost" not in found:
        return "decisions without a reward"
    return ""


def _opened(path: str) -> Any:
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8")
    return Path(path).open(encoding="utf-8")


_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|\+00:00)")


def _micro(text: Any) -> int | None:
    """Microseconds since 1970; the service writes seven digits of the second's fraction."""
    if text is None:
        return None
    match = _STAMP.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"Timestamp {text!r} is not of the form 2021-02-04T16:31:29.246Z")
    seconds = int(np.datetime64(match[1], "s").astype(np.int64))
    return seconds * 10**6 + int(((match[2] or "") + "000000")[:6])


def _type(kind: str, where: str) -> pa.DataType:
    """The Arrow type of this name."""
    match = re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, tz=(.*))?\]", kind)
    if match:
        return pa.timestamp(match[1], match[2])
    if kind in ("arm", "probabilities"):
        return pa.null()
    if kind not in PLAIN:
        raise ValueError(f"{where}: the log's metadata names an unknown type {kind!r}")
    return PLAIN[kind]
