"""Evaluating a log in Parquet files: rows a second, cores, memory, beside plain NumPy.

    python benchmarks/evaluation.py [--rows N] [--large N] [--rounds N]

Logs of a learning policy are simulated first, into a temporary folder. *Plain NumPy* reads the
same three columns and works out the three weighted means and the sums for their errors, without
checks, diagnostics or verdicts: it is what one would write by hand for this one file.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from timing import (
    INSTANCES,
    ROUNDS,
    best_interleaved,
    cpu_seconds,
    machine,
    number,
    say,
    table,
    wall_seconds,
)

import maillard as mb

#: The three that are measured together.
WEIGHTED = ("ipw", "snipw", "clipped-ipw")
#: Those whose rows depend on the rows before.
SEQUENTIAL = (
    "aipw", "sndr", "switch-dr", "dr-os", "sub-gaussian-dr", "aw-aipw-propensity",
    "aw-aipw-constant", "aw-aipw-two-point", "stable-variance", "min-variance", "cadr",
)  # fmt: skip
#: Doubly robust ones, which cores are compared on together.
ROBUST = ("aipw", "sndr", "switch-dr", "dr-os", "sub-gaussian-dr")
CLIP = 100.0
#: Long runs: rounds in which only one arm could be played, which ours leaves out, are few.
HORIZON = 1_000_000
#: Rows of the log on which cores are compared, at least: on few, starting weighs too much.
LONG_LOG = 80_000_000
PLAIN = "plain NumPy: the three weighted means"


def evaluated(path: Path, estimators: Any, executor: Executor | None = None) -> mb.Evaluation:
    """One pass over a log."""
    return mb.evaluate(
        path, estimators=estimators, intervals="normal", clip=CLIP, executor=executor
    )


def product(left: Any, right: Any) -> float:
    """Σ left · right; `np.dot` would wake threads that wait for one another."""
    return float(np.einsum("i,i->", left, right))


def by_hand(path: Path, arms: int) -> tuple[float, ...]:
    """The three weighted means and their errors, batch by batch, with raw sums of squares."""
    n, sums, squares, cross = 0, np.zeros(4), np.zeros(3), 0.0
    with pq.ParquetFile(path, memory_map=True) as file:
        for batch in file.iter_batches(
            1 << 15, columns=["arm", "propensity", "reward"], use_threads=False
        ):
            _, propensity, reward = (column.to_numpy() for column in batch.columns)
            w = (1.0 / arms) / propensity
            gain = w * reward
            clipped = np.minimum(w, CLIP) * reward
            n += len(w)
            sums[:3] += w.sum(), gain.sum(), clipped.sum()
            squares += product(w, w), product(gain, gain), product(clipped, clipped)
            cross += product(w, gain)
    weight, gain_sum, clipped_sum = sums[:3] / n
    ratio = gain_sum / weight
    spread = squares[1] - 2.0 * ratio * cross + ratio**2 * squares[0]
    return (
        gain_sum, ratio, clipped_sum,
        float(np.sqrt(squares[1] / n - gain_sum**2) / np.sqrt(n)),
        float(np.sqrt(spread) / (n * weight)),
        float(np.sqrt(squares[2] / n - clipped_sum**2) / np.sqrt(n)),
    )  # fmt: skip


def simulated(folder: Path, rows: int) -> dict[int, Path]:
    """A log for each instance: runs of KT-KL-MS in one file, without probabilities of all arms."""
    found = {}
    for arms, means in INSTANCES.items():
        found[arms] = folder / f"{arms}.parquet"
        runs = max(1, rows // HORIZON)
        say(f"{runs:,} runs of {HORIZON:,} rounds, {arms} arms")
        mb.collect("kl-ms-kt", mb.Bernoulli(means), HORIZON, runs, out=found[arms], progress=False)
    return found


def with_probabilities(source: Path, out: Path, arms: int) -> Path:
    """The same rows, with a column of made-up probabilities that agree with the propensities."""
    import pyarrow as pa

    columns = pq.read_table(source)
    arm, p = columns["arm"].to_numpy(), columns["propensity"].to_numpy()
    every = np.repeat(((1.0 - p) / (arms - 1))[:, None], arms, axis=1)
    every[np.arange(len(arm)), arm] = p
    lists = pa.FixedSizeListArray.from_arrays(pa.array(every.ravel()), arms)
    columns = columns.append_column("probabilities", lists)
    mb.Log.read(columns, arms=arms).write(out)
    return out


def agree(path: Path, arms: int) -> None:
    """What is compared computes the same numbers."""
    found = {e.estimator: e for e in evaluated(path, WEIGHTED).estimates}
    ours = [found[name].estimate for name in WEIGHTED]
    errors = [found[name].standard_error for name in WEIGHTED]
    np.testing.assert_allclose([*ours, *errors], by_hand(path, arms), rtol=1e-4)


# --------------------------------------------------------------------------------------------------


def speeds(logs: dict[int, Path], full: dict[int, Path], rounds: int) -> str:
    """Million rows a second and core, and how that compares with plain NumPy."""
    cases: dict[Any, Any] = {}
    for arms, path in logs.items():
        agree(path, arms)
        cases[PLAIN, arms] = lambda path=path, arms=arms: cpu_seconds(lambda: by_hand(path, arms))
        wanted = {" + ".join(WEIGHTED): (path, WEIGHTED), "dm": (path, ("dm",))}
        wanted |= {
            name: (full[arms] if mb_needs(name) and arms > 2 else path, (name,))
            for name in SEQUENTIAL
        }
        for title, (file, names) in wanted.items():
            cases[title, arms] = lambda file=file, names=names: cpu_seconds(
                lambda: evaluated(file, names)
            )
    best = best_interleaved(cases, rounds, "rows a second")
    rows = {arms: pq.ParquetFile(path).metadata.num_rows for arms, path in logs.items()}
    lines = []
    for title in dict.fromkeys(title for title, _ in best):
        line = [title]
        for arms in logs:
            line.append(number(rows[arms] / best[title, arms] / 1e6))
            line.append(number(best[PLAIN, arms] / best[title, arms]))
        lines.append(line)
    heads = [f"{what}, {arms} arms" for arms in logs for what in ("million rows/s", "of plain")]
    return table(["one core", *heads], lines)


def mb_needs(name: str) -> bool:
    """Whether an estimator needs the probabilities of all arms; two arms have them anyhow."""
    from maillard.evaluation.catalogue import ESTIMATORS

    return ESTIMATORS[name].needs_probabilities


def repeated(path: Path, folder: Path, rows: int) -> Path:
    """A folder of at least so many rows: links to one file, read in turn."""
    folder.mkdir()
    for i in range(-(-rows // pq.ParquetFile(path).metadata.num_rows)):
        os.link(path, folder / f"part-{i:05d}.parquet")
    return folder


def cores(path: Path, rounds: int) -> str:
    """Elapsed time on one core and on two."""
    lines = []
    with ProcessPoolExecutor(2) as processes, ThreadPoolExecutor(2) as threads:
        for names in (WEIGHTED, ("aipw",), ROBUST):
            for pool in (processes, threads):  # the workers import what they need
                evaluated(path, names, pool)
            cases = {
                kind: lambda pool=pool: wall_seconds(lambda: evaluated(path, names, pool))  # noqa: B023
                for kind, pool in (("one", None), ("processes", processes), ("threads", threads))
            }
            best = best_interleaved(cases, rounds, "two cores")
            lines.append([
                " + ".join(names), *(number(1e3 * best[kind]) for kind in cases),
                number(best["one"] / best["processes"]), number(best["one"] / best["threads"]),
            ])  # fmt: skip
    heads = ["one core, ms", "two processes", "two threads", "gain", "gain of threads"]
    return table([f"elapsed, {len(mb.Log.read(path)):,} rows", *heads], lines)


def memory(path: Path, folder: Path, rows: int) -> str:
    """Peak memory of a process that evaluates very many rows."""
    large, lines = repeated(path, folder / "large", rows), []
    for names in (WEIGHTED, ("aipw",)):
        say(f"{rows:,} rows: {', '.join(names)}")
        command = [sys.executable, __file__, "--one", str(large), ",".join(names)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        count, seconds, megabytes = done.stdout.split()
        lines.append([
            " + ".join(names), f"{int(count):,}", number(float(seconds)),
            number(int(count) / float(seconds) / 1e6), number(float(megabytes)),
        ])  # fmt: skip
    return table(
        ["one process", "rows", "seconds of CPU", "million rows/s", "peak memory, MB"], lines
    )


def one(path: str, names: str) -> None:
    """What the process that `memory` starts does."""
    found: list[mb.Evaluation] = []
    seconds = cpu_seconds(lambda: found.append(evaluated(Path(path), names.split(","))))
    print(found[0].diagnostics.rows, seconds, peak_megabytes())


def peak_megabytes() -> float:
    """The most memory that this process ever held, the files that it maps included."""
    try:
        text = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:  # elsewhere; where a process is forked this can be its parent's
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return float(text.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Rows a second of off-policy evaluation.")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of a log (%(default)s)")
    parser.add_argument("--large", type=int, default=10**9, help="of the large one (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="repetitions (%(default)s)")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    print("\n".join(machine()), end="\n\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = simulated(folder, options.rows)
        full = {
            arms: with_probabilities(path, folder / f"{arms}-full.parquet", arms)
            for arms, path in logs.items()
        }
        print(speeds(logs, full, options.rounds), end="\n\n", flush=True)
        long = repeated(logs[10], folder / "long", max(LONG_LOG, options.rows))
        print(cores(long, options.rounds), end="\n\n", flush=True)
        if options.large:
            print(memory(logs[10], folder, options.large))


if __name__ == "__main__":
    main()
