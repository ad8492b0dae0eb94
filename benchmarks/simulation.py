"""What a step of the simulator costs, for every policy, beside the yardstick of `sketch.py`.

    python benchmarks/simulation.py [--rounds N] [--only POLICY …] [--quick]

Five measurements: nanoseconds per step and core on 2 and 10 arms; the cost per arm from 10 arms to
1,000; what threads gain; rows of a log that `collect` makes; and the first use of a policy by a new
process, imports and compilation included. CPU time, best of several, all cases taking turns;
elapsed time where threads are counted.
"""

import argparse
import functools
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import sketch
from ours import LANES, Simulated
from timing import (
    FEWER_ROUNDS,
    HORIZON,
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

#: The reference among the policies, and the one of which the yardstick is written.
REFERENCE = "kl-ms"
#: One of each kind of rule, for the measurements that are too long for all.
SAMPLE = ("kl-ms", "ms", "ucb1", "kl-ucb", "thompson", "exp3")
#: And of those whose first use is timed: with the longest to compile, which needs an integral.
FIRST = (*SAMPLE, "top-two-thompson")
ARMS = (10, 100, 1_000)
#: Rounds, after each arm has been pulled once, that count for the cost per arm.
ROUNDS_PER_ARM = 1_000


@dataclass
class Results:
    """Everything in nanoseconds and seconds; what is not there was not measured."""

    path: dict[str, str] = field(default_factory=dict)
    step: dict[tuple[str, int], float] = field(default_factory=dict)
    yardstick: dict[tuple[str, int], float] = field(default_factory=dict)
    arm: dict[tuple[str, int], float] = field(default_factory=dict)
    #: Elapsed seconds by (policy, arms, threads), for the same number of trials.
    threads: dict[tuple[str, int, int], float] = field(default_factory=dict)
    #: Million rows a second and core by (policy, arms, where to).
    rows: dict[tuple[str, int, str], float] = field(default_factory=dict)
    #: CPU seconds by (what, "cold" or "warm").
    first_use: dict[tuple[str, str], float] = field(default_factory=dict)
    rounds: int = 0


# --------------------------------------------------------------------------------------------------
# Steps


def measure_steps(names: list[str], rounds: int, results: Results) -> None:
    """Nanoseconds of a step on 2 and 10 arms."""
    cases: dict[tuple[str, str, int], Callable[[], float]] = {}
    for arms, means in INSTANCES.items():
        for name in ("kl-ms", "ms"):
            sketch.run(name, means, 100, LANES)
            cases["yardstick", name, arms] = functools.partial(sketch.seconds_per_step, name, means)
    for name in names:
        for arms, means in INSTANCES.items():
            simulated = Simulated(name, means).enough_trials()
            results.path[name] = "scalar" if simulated.scalar else simulated.path
            cases["ours", name, arms] = simulated.seconds_per_step
        say(f"{name}: ready ({results.path[name]})")
    for (whose, name, arms), seconds in best_interleaved(cases, rounds, "steps").items():
        into = results.yardstick if whose == "yardstick" else results.step
        into[name, arms] = seconds * 1e9


def measure_arms(names: list[str], rounds: int, results: Results) -> None:
    """Nanoseconds of a step and arm, without the rounds in which each arm is pulled once."""
    cases: dict[tuple[str, int, int], Callable[[], float]] = {}
    steps: dict[int, int] = {}
    for arms in ARMS:
        means = np.linspace(0.1, 0.9, arms)
        trials = LANES * max(1, 160 // arms)
        steps[arms] = trials * ROUNDS_PER_ARM
        for name in names:
            simulated = Simulated(name, means)
            if simulated.path != "engine":
                continue
            simulated.trials = trials
            for horizon in (arms, arms + ROUNDS_PER_ARM):
                cases[name, arms, horizon] = functools.partial(simulated.seconds, horizon)
        for horizon in (arms, arms + ROUNDS_PER_ARM):
            work = functools.partial(sketch.run, REFERENCE, means, horizon, trials)
            cases["yardstick", arms, horizon] = functools.partial(cpu_seconds, work)
    best = best_interleaved(cases, rounds, "arms")
    for name, arms, horizon in cases:
        if horizon > arms:
            seconds = best[name, arms, horizon] - best[name, arms, arms]
            results.arm[name, arms] = seconds / steps[arms] / arms * 1e9


def measure_threads(names: list[str], counts: list[int], rounds: int, results: Results) -> None:
    """Elapsed seconds of the same trials, shared among threads."""
    cases: dict[tuple[str, int, int], Callable[[], float]] = {}

    def shared(simulated: Simulated, threads: int, pool: ThreadPoolExecutor) -> None:
        part = simulated.trials // threads
        futures = [
            pool.submit(simulated.run, HORIZON, part, first=index * part)
            for index in range(threads)
        ]
        for future in futures:
            future.result()

    with ThreadPoolExecutor(max(counts)) as pool:
        for name in names:
            for arms, means in INSTANCES.items():
                simulated = Simulated(name, means).enough_trials(seconds=0.6)
                if simulated.path != "engine":
                    continue
                simulated.trials *= max(counts)  # whole blocks, however they are shared
                for threads in counts:
                    work = functools.partial(shared, simulated, threads, pool)
                    cases[name, arms, threads] = functools.partial(wall_seconds, work)
        results.threads = best_interleaved(cases, rounds, "threads")


# --------------------------------------------------------------------------------------------------
# Logs

MEMORY, PARQUET = "in memory", "written to Parquet"
#: Runs of `HORIZON` rounds: 5 million rows.
RUNS = 512


def measure_collect(names: list[str], rounds: int, results: Results) -> None:
    """Million rows of decisions a second and core, propensities and all."""
    cases: dict[tuple[str, int, str], Callable[[], float]] = {}

    def logged(name: str, means: list[float], where: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "log") if where == PARQUET else None
            return cpu_seconds(
                lambda: mb.collect(name, mb.Bernoulli(means), HORIZON, RUNS, out=out)
            )

    for name in names:
        for arms, means in INSTANCES.items():
            mb.collect(name, mb.Bernoulli(means.tolist()), 100)
            for where in (MEMORY, PARQUET):
                cases[name, arms, where] = functools.partial(logged, name, means.tolist(), where)
    for case, seconds in best_interleaved(cases, rounds, "logs").items():
        results.rows[case] = RUNS * HORIZON / seconds / 1e6


# --------------------------------------------------------------------------------------------------
# First use

#: What somebody does who has just installed the library, in a script.
USE = """
import sys
import maillard as mb
given = {"fixed": {"weights": [1.0, 1.0]}}
names = [(name, given.get(name, {})) for name in sys.argv[1:]]
mb.simulate(names, mb.Bernoulli([0.8, 0.9]), horizon=100, trials=64)
"""


def process_seconds(code: str, arguments: list[str], cache: str) -> float:
    """CPU seconds of a new process until the code has run; how it ends does not count."""
    # Modules are kept as bytecode, as an installer leaves them, whatever the caller prefers.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport time\nprint(time.process_time())", *arguments],
        env={**environment, "MAILLARD_CACHE_DIR": cache},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def measure_first_use(names: list[str], rounds: int, results: Results) -> None:
    """First trials in a new process: with an empty cache, and with what that process has left."""
    asked = {name: [name] for name in FIRST if name in names} | {ALL: names}
    with tempfile.TemporaryDirectory() as folder:
        process_seconds(USE, [REFERENCE], str(Path(folder, "for the bytecode")))
        fresh = (str(Path(folder, str(number))) for number in itertools.count())
        caches: dict[str, str] = {}

        def cold(name: str) -> float:
            caches[name] = next(fresh)
            return process_seconds(USE, asked[name], caches[name])

        cases: dict[tuple[str, str], Callable[[], float]] = {
            (name, "cold"): functools.partial(cold, name) for name in asked
        }
        results.first_use |= best_interleaved(cases, FEWER_ROUNDS, "first use, fresh cache")
        cases = {
            (name, "warm"): functools.partial(process_seconds, USE, asked[name], caches[name])
            for name in asked
        }
        cases[FLOOR, "warm"] = functools.partial(process_seconds, "import numpy, numba", [], folder)
        results.first_use |= best_interleaved(cases, rounds, "first use, warm cache")


#: Rows of the table of first uses that are not policies.
ALL, FLOOR = "all policies, one process", "only `import numpy, numba`"


# --------------------------------------------------------------------------------------------------
# Telling


def measure(names: list[str], rounds: int, quick: bool = False) -> Results:
    """Everything; `quick` leaves out what takes minutes, for a look at the rest."""
    results = Results(rounds=rounds)
    sample = [name for name in SAMPLE if name in names] or names[:1]
    measure_steps(names, rounds, results)
    if not quick:
        measure_arms(sample, min(rounds, 3), results)
        cores = os.cpu_count() or 1
        measure_threads(sample, sorted({1, 2, cores}) if cores > 1 else [1], rounds, results)
        exact = [name for name in sample if name != "thompson"]  # whose log is integrals
        measure_collect(exact, min(rounds, 3), results)
        measure_first_use(names, min(rounds, 3), results)
    return results


def table_of_steps(results: Results) -> str:
    headers = ["policy", "path"]
    for arms in INSTANCES:
        headers += [f"{arms} arms: ns", "× KL-MS", "× yardstick"]

    def cells(values: dict[tuple[str, int], float], name: str) -> list[str]:
        row = []
        for arms in INSTANCES:
            value = values[name, arms]
            ours = results.step.get((REFERENCE, arms))
            row += [number(value), number(ours and value / ours)]
            row.append(number(value / results.yardstick[REFERENCE, arms]))
        return row

    rows = [
        [f"yardstick, {name}", "by hand", *cells(results.yardstick, name)]
        for name in ("kl-ms", "ms")
    ]
    rows += [[name, path, *cells(results.step, name)] for name, path in results.path.items()]
    return table(headers, rows)


def table_of_arms(results: Results) -> str:
    names = dict.fromkeys(name for name, _ in results.arm)
    headers = ["ns a step and arm", *(f"K = {arms:,}" for arms in ARMS), "largest / at K = 10"]
    rows = []
    for name in names:
        values = [results.arm[name, arms] for arms in ARMS]
        rows.append([name, *map(number, values), number(max(values) / values[0])])
    return table(headers, rows)


def table_of_threads(results: Results) -> str:
    counts = sorted({threads for _, _, threads in results.threads})
    rows = []
    for name, arms in dict.fromkeys((name, arms) for name, arms, _ in results.threads):
        alone = results.threads[name, arms, 1]
        gains = [f"{alone / results.threads[name, arms, threads]:.2f}" for threads in counts]
        rows.append([f"{name}, {arms} arms", *gains])
    return table(["times as fast with", *(f"{c} thread{'s' * (c > 1)}" for c in counts)], rows)


def table_of_rows(results: Results) -> str:
    names = dict.fromkeys((name, arms) for name, arms, _ in results.rows)
    rows = [
        [f"{name}, {arms} arms", *(number(results.rows[name, arms, x]) for x in (MEMORY, PARQUET))]
        for name, arms in names
    ]
    return table(["million rows a second and core", MEMORY, PARQUET], rows)


def table_of_first_use(results: Results) -> str:
    names = dict.fromkeys(name for name, _ in results.first_use)
    rows = [
        [name, *(number(results.first_use.get((name, state))) for state in ("cold", "warm"))]
        for name in names
    ]
    return table(["CPU seconds until the result", "fresh cache", "warm cache"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the simulator.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="repetitions (%(default)s)")
    parser.add_argument(
        "--only", nargs="+", choices=list(mb.catalogue()), metavar="POLICY", help="only these"
    )
    parser.add_argument("--quick", action="store_true", help="nanoseconds a step only")
    options = parser.parse_args()
    names = options.only or list(mb.catalogue())
    print("\n".join(machine()), end="\n\n")
    results = measure(names, options.rounds, options.quick)
    print(table_of_steps(results))
    if not options.quick:
        for part in (table_of_arms, table_of_threads, table_of_rows, table_of_first_use):
            print(f"\n{part(results)}")


if __name__ == "__main__":
    main()
