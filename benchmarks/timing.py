"""What the benchmarks share: interleaved timing, a description of the machine, Markdown tables."""

import importlib.metadata
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: The two instances on which everything is measured, and the horizon.
INSTANCES = {2: np.array([0.8, 0.9]), 10: np.linspace(0.1, 0.9, 10)}
HORIZON = 10_000
#: Rounds of the interleaved measurements, and how many a case gets that takes long, in seconds.
ROUNDS = 5
FEWER_ROUNDS, LONG = 2, 3.0


def say(text: str) -> None:
    """A line of progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of one call, all threads of this process together."""
    start = time.process_time()
    work()
    return time.process_time() - start


def wall_seconds(work: Callable[[], object]) -> float:
    """Elapsed time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def best_interleaved(
    cases: Mapping[Any, Callable[[], float]], rounds: int, title: str
) -> dict[Any, float]:
    """The least of `rounds` measurements of each case.

    Every round measures all cases, one after another, so that a slow minute of the machine falls on
    all of them and not on one. A case that takes long is left out of the later rounds.
    """
    best = dict.fromkeys(cases, float("inf"))
    elapsed = dict.fromkeys(cases, 0.0)
    for number in range(1, rounds + 1):
        start = time.perf_counter()
        for key, measure in cases.items():
            if number <= FEWER_ROUNDS or elapsed[key] < LONG:
                begun = time.perf_counter()
                best[key] = min(best[key], measure())
                elapsed[key] = time.perf_counter() - begun
        say(f"{title}: round {number} of {rounds}, {time.perf_counter() - start:.0f} s")
    return best


def machine() -> list[str]:
    """What the numbers depend on, one line each; no names of hosts, users or folders."""
    versions = ", ".join(
        f"{package} {importlib.metadata.version(package)}"
        for package in ("maillard", "numpy", "numba", "llvmlite")
    )
    return [
        f"{processor()}, {os.cpu_count()} cores seen",
        f"{platform.system()}, Python {platform.python_version()}",
        versions,
        f"load when the run began: {load()}",
    ]


def processor() -> str:
    """The model of the processor and the widest of its vector instructions."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    name = re.sub(r"\s+", " ", model[1]) if model else platform.machine()
    width = next((flag for flag in ("avx512f", "avx2", "asimd", "sse4_2") if flag in text), "")
    return f"{name} ({width})" if width else name


def load() -> str:
    """How busy the machine is already: processes wanting to run, over the last minute."""
    if not hasattr(os, "getloadavg"):
        return "unknown"
    return f"{os.getloadavg()[0]:.1f}"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    lines = [list(headers), *(list(row) for row in rows)]
    if any(len(line) != len(headers) for line in lines):
        raise ValueError(f"every row of a table under {list(headers)} needs {len(headers)} cells")
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(headers))]
    shown = [
        "| " + " | ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) + " |"
        for line in lines
    ]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([shown[0], "| " + " | ".join(rule) + " |", *shown[1:]])


def number(value: float | None) -> str:
    """Three significant digits with separators, or a dash for what was not measured."""
    if value is None or not np.isfinite(value):
        return "–"
    if value == 0.0:
        return "0"
    rounded = float(f"{value:.3g}")
    digits = max(0, 2 - int(np.floor(np.log10(abs(rounded)))))
    return f"{rounded:,.{digits}f}"
