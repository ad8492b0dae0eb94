"""What was measured on coverage: the data of `docs/coverage.json`, and what they come to."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from coverage_logs import CELLS, LEARNING, MONTE_CARLO
from timing import machine

TARGETS = ("uniform", "arm 0", "arm 1")
#: What an interval must cover in every cell to be recommended, at 95 %.
ENOUGH = 0.945
#: Wider than the range of the rewards: an interval says nothing then.
BOUNDLESS = 1.0
#: Kinds of tasks that measure coverage and width; `ever` follows sequences along the rounds.
KINDS = ("arms", "rows", "bets", "bootstraps")
#: The CPU time of tasks of which it is known for all together only.
EARLIER = "earlier"


class Seen(NamedTuple):
    """One interval's coverage in one cell."""

    policy: str
    instance: str
    horizon: int
    target: str
    coverage: float
    width: float
    logs: int

    @property
    def place(self) -> str:
        """The cell in a few words."""
        return f"{self.policy}, ({self.instance}), T = {self.horizon:,}, {self.target}"


def gathered(folder: Path, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Cell → kind → target → pair → numbers: a folder's files, and what they do not replace."""
    before = before or {"more": {}, "cells": {}, "cpu": {}}
    data: dict[str, Any] = {"machine": machine()[:-1], "more": dict(before["more"])}
    cells = {
        name: {kind: found for kind, found in kinds.items() if kind in (*KINDS, "ever")}
        for name, kinds in before["cells"].items()
    }
    cpu = dict(before["cpu"])
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        kind, _, name = content["task"].partition(" ")
        cpu[content["task"]] = round(content["cpu"], 1)
        found = {
            target: {pair: [_short(x) for x in row] for pair, row in pairs.items()}
            for target, pairs in content["found"].items()
        }
        if kind == "more":
            data["more"][name] = found
        else:
            cells.setdefault(name, {})[kind] = found
    there = {f"{kind} {name}" for name, kinds in cells.items() for kind in kinds}
    there |= {f"more {name}" for name in data["more"]}
    data["cpu"] = {name: cpu[name] for name in [*sorted(there), EARLIER] if name in cpu}
    if there <= data["cpu"].keys():
        data["cpu"].pop(EARLIER, None)
    data["cells"] = {name: dict(sorted(cells[name].items())) for name in sorted(cells)}
    return data


def _short(x: float | None) -> float | None:
    if x is None or isinstance(x, int):
        return x
    return float(f"{x:.5g}")


def seen(data: dict[str, Any], pair: str, learning: bool = True) -> Iterator[Seen]:
    """All cells in which a pair was measured; those of learning policies only."""
    for cell in CELLS:
        if learning and cell.policy not in LEARNING:
            continue
        kinds = data["cells"].get(f"{cell.policy} {cell.instance} {cell.horizon}", {})
        for kind in KINDS:
            for target in TARGETS:
                row = kinds.get(kind, {}).get(target, {}).get(pair)
                if row is not None and row[1] is not None:
                    yield Seen(*cell, target, *row)


def pairs_of(data: dict[str, Any]) -> list[str]:
    """All pairs that gave intervals somewhere, in the order in which they were met."""
    found: dict[str, None] = {}
    for kinds in data["cells"].values():
        for kind in KINDS:
            for pairs in kinds.get(kind, {}).values():
                found.update(dict.fromkeys(k for k, row in pairs.items() if row[1] is not None))
    return list(found)


def relative_width(data: dict[str, Any], one: Seen) -> float:
    """Against the normal interval of arm means in the same cell."""
    policy = "Thompson" if one.policy == MONTE_CARLO else one.policy
    for other in seen(data, "dm normal", learning=False):
        if (other.policy, *other[1:4]) == (policy, *one[1:4]):
            return one.width / other.width
    return math.nan


class Summary(NamedTuple):
    """A pair over all cells of learning policies."""

    pair: str
    cells: int
    enough: int
    least: Seen
    mean: float
    width: float
    logs: int


def summary(data: dict[str, Any], pair: str) -> Summary | None:
    """None where a pair was measured in no such cell."""
    found = list(seen(data, pair))
    if not found:
        return None
    widths = [relative_width(data, one) for one in found]
    logs = [math.log(w) for w in widths if w > 0.0]
    if any(one.width > BOUNDLESS for one in found):
        logs = []
    return Summary(
        pair, len(found), sum(one.coverage >= ENOUGH for one in found),
        min(found, key=lambda one: one.coverage),
        float(np.mean([one.coverage for one in found])),
        math.exp(float(np.mean(logs))) if logs else math.nan,
        min(one.logs for one in found),
    )  # fmt: skip


def summaries(data: dict[str, Any]) -> list[Summary]:
    """Of all pairs that were measured in cells of learning policies."""
    return [s for s in (summary(data, pair) for pair in pairs_of(data)) if s is not None]


def most_ever(data: dict[str, Any], pair: str, exact: bool = True) -> float:
    """The largest share of logs on which a sequence had ever missed."""
    shares = [
        pairs[pair][0]
        for name, kinds in data["cells"].items()
        for pairs in kinds.get("ever", {}).values()
        if not (exact and name.startswith(MONTE_CARLO))
    ]
    return max(shares, default=math.nan)


def of_poisson(data: dict[str, Any]) -> float:
    """By how much Poisson counts change the coverage of a bootstrap, where they do most."""
    return max(
        abs(one.coverage - other.coverage)
        for estimator in ("dm", "snipw", "aipw")
        for one, other in zip(
            seen(data, f"{estimator} bootstrap"),
            seen(data, f"{estimator} poisson-bootstrap"),
            strict=True,
        )
    )


def minutes(data: dict[str, Any]) -> int:
    """CPU time of all tasks."""
    return round(sum(data["cpu"].values()) / 60.0)
