"""How often intervals cover, on logs of policies that learn: measured, cell by cell.

    python benchmarks/coverage_of_intervals.py --folder FOLDER [--only WORD …] [--logs FACTOR]
    python benchmarks/coverage_of_intervals.py --folder FOLDER --page

Every cell (a policy, an instance, a horizon) is measured by a few tasks, each of which writes one
small file into the folder; what is there is not done again, so that a run may be cut short and
resumed, and several processes may share a folder. --page puts the files into docs/coverage.json, in
the place of what was measured before for the same tasks, and makes the page and the figure of it.

The tasks take short cuts, all of which give what `mb.evaluate` gives (tests/test_coverage.py):
`arms` needs nothing but each arm's pulls and rewards, which the simulator sums up; its simulated
experiments are handed on from log to log. `rows` and `bets` feed many logs to one `Pass`. `ever`
follows the confidence sequences round by round: a sequence misses when the capital of its bets
against the truth has ever reached 1/α. `bootstraps` gives some logs at a time the same counts.
"""

import argparse
import functools
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from coverage_bootstraps import bootstraps_task
from coverage_logs import (
    ALPHA,
    CELLS,
    HORIZONS,
    MONTE_CARLO,
    POLICIES,
    REPLICATES,
    Cell,
    Found,
    Tally,
    keep_records,
    tallied,
    targets_of,
)
from coverage_sequences import bets_task, ever_task

import maillard as mb
from maillard.evaluation.catalogue import ESTIMATORS
from maillard.evaluation.intervals import EmpiricalBernstein, Normal, StudentT
from maillard.evaluation.likelihood import LikelihoodRatio, budget_of, likelihood_ends
from maillard.evaluation.refit import Block, Experiment, Inversion, Laws, Pool
from maillard.evaluation.sequences import KTSequence, kt_interval
from maillard.simulation.engine import program
from maillard.simulation.specs import policy_for

#: Logs of a cell.
LOGS = 2_000


# --------------------------------------------------------------------------------------------------
# Arm means: pulls and rewards are enough


def sums_of(policy: str, world: Any, horizon: int, logs: int, seed: int) -> np.ndarray:
    """Pulls, rewards and squares of every arm of many logs: [3, log, arm]."""
    ready = program(policy_for(policy, world, horizon), world)
    return np.moveaxis(ready.sums(horizon, seed=seed, trials=logs), -1, 0)


def arms_task(cell: Cell, logs: int) -> Found:
    """Intervals of arm means."""
    world = mb.Bernoulli(list(cell.means))
    sums = sums_of(POLICIES[cell.policy], world, cell.horizon, logs, cell.seed)
    experiment = Experiment({"policy": POLICIES[cell.policy]}, cell.horizon)
    # Arm 0 first: its experiments serve the target that is mostly about it too.
    order = dict(sorted(targets_of(2).items()))
    return arm_intervals(sums, np.array(cell.means), experiment, order)


def arm_intervals(
    sums: np.ndarray, means: np.ndarray, experiment: Experiment, targets: dict[str, np.ndarray]
) -> Found:
    """Of logs of coins, [3, log, arm]."""
    pulls, totals, squares = sums
    found: Found = {}
    # Among many arms hardly two logs are alike enough.
    shared = len(means) == 2
    pool = SharedPool(experiment, 2) if shared else Pool(experiment, (0.0, 1.0), len(means), 0)
    for name, weights in targets.items():
        tallies: dict[str, Tally] = {}

        def tally(interval: str, low: Any, high: Any, weights: Any = weights) -> None:
            key = f"dm {interval}"
            tallies.setdefault(key, Tally(float(weights @ means))).add(low, high)  # noqa: B023

        for interval, (low, high) in closed_forms(pulls, totals, weights).items():
            tally(interval, low, high)
        for low, high in policy_bootstraps(pulls, totals, squares, weights, pool):
            tally("policy-bootstrap", low, high)
        found[name] = {key: one.row() for key, one in tallies.items()}
    return found


def closed_forms(pulls: Any, totals: Any, weights: Any) -> dict[str, tuple[Any, Any]]:
    """Ends of the intervals that have formulas, for many logs of coins at once."""
    from scipy.special import stdtrit

    used = weights != 0.0
    n, pi = pulls[:, used], weights[used]
    mean = totals[:, used] / n
    estimate = mean @ pi
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = pi**2 * mean * (1.0 - mean) / (n - 1.0)
        error = np.where((n < 2).any(axis=1), math.nan, np.sqrt(parts.sum(axis=1)))
        spread = (parts**2 / (n - 1.0)).sum(axis=1)
        freedom = np.where(
            spread > 0.0, parts.sum(axis=1) ** 2 / spread, n.sum(axis=1) - n.shape[1]
        )
    found = {}
    for name, quantile in (
        ("normal", 1.959963984540054),
        ("t", stdtrit(freedom, 1.0 - ALPHA / 2.0)),
    ):
        found[name] = estimate - quantile * error, estimate + quantile * error
    found["likelihood-ratio"] = likelihood_ends(pi, n, mean, budget_of(ALPHA, len(pi)), steps=60)
    low, high = kt_interval(n, totals[:, used], ALPHA / int(used.sum()))
    found["kt"] = low @ pi, high @ pi
    return found


def policy_bootstraps(
    pulls: Any, totals: Any, squares: Any, weights: Any, pool: Pool
) -> list[tuple[float, float]]:
    """Its ends for every log, in their order.

    As `mb.evaluate` finds them if the pool is a plain one. A `SharedPool` hands on what logs like
    this one have simulated already.
    """
    found = []
    for i in range(len(pulls)):
        laws = Laws.of_coins(pulls[i], totals[i])
        search = Inversion(pool, laws, weights, pulls[i], totals[i], squares[i], REPLICATES)
        pool.use([])
        if not isinstance(pool, SharedPool):
            pool.simulated = 0
        found.append((search.end(-1.0, ALPHA / 2.0), search.end(1.0, ALPHA / 2.0)))
    return found


class SharedPool(Pool):
    """A pool that, asked for more experiments, first looks for what was simulated nearby."""

    def __init__(self, experiment: Experiment, arms: int, seed: int = 0) -> None:
        super().__init__(experiment, (0.0, 1.0), arms, seed)
        self.library: list[Block] = []
        #: Of the library's blocks: tilts, and how often each arm was pulled in the mean.
        self._tilts, self._pulls = np.zeros((2, 0, arms))

    def add(self, laws: Laws, tilt: np.ndarray, count: int) -> None:
        """Take up to `count` experiments from the library, or simulate them."""
        held = {id(block) for block in self.blocks}
        # Squared distances in standard errors: beyond half of one, weights would vary too much.
        spread = laws.moments(tilt)[1]
        distance = ((self._tilts - tilt) ** 2 * self._pulls * spread).sum(axis=1)
        near, there = [], 0
        for j in np.argsort(distance):
            if distance[j] > 0.25 or there >= count:
                break
            if id(self.library[j]) not in held:
                near.append(self.library[j])
                there += len(self.library[j].pulls)
        if near:
            self.use([*self.blocks, *near])
        short = REPLICATES - self.size(laws, tilt)
        if short <= 0.1 * REPLICATES:
            return
        super().add(laws, tilt, math.ceil(max(short, 0.25 * REPLICATES)))
        self.library.append(self.blocks[-1])
        self._tilts = np.vstack([self._tilts, tilt])
        self._pulls = np.vstack([self._pulls, self.blocks[-1].pulls.mean(axis=0)])


# --------------------------------------------------------------------------------------------------
# Weighted rows

#: Intervals that need nothing but the pass.
PLAIN = (Normal, StudentT, EmpiricalBernstein, LikelihoodRatio, KTSequence)


def rows_task(cell: Cell, logs: int) -> Found:
    """Intervals of all estimators that weight rows."""
    # `arms` has the intervals of arm means.
    return tallied(cell, logs, PLAIN, [name for name in ESTIMATORS if name != "dm"])


# --------------------------------------------------------------------------------------------------
# Beyond two coins


def ten_arms(horizon: int, logs: int) -> Found:
    """KL-MS on ten coins: the worst arm, and all alike."""
    means = np.linspace(0.1, 0.9, 10)
    sums = sums_of("kl-ms", mb.Bernoulli(means.tolist()), horizon, logs, seed=10)
    targets = {k: v for k, v in targets_of(10).items() if k in ("uniform", "arm 0")}
    return arm_intervals(sums, means, Experiment({"policy": "kl-ms"}, horizon), targets)


def in_batches(horizon: int, logs: int) -> Found:
    """Thompson sampling that learns after every hundred rounds."""
    means = (0.2, 0.25)
    world = mb.Batched(mb.Bernoulli(list(means)), size=100)
    sums = sums_of("thompson", world, horizon, logs, seed=11)
    experiment = Experiment({"policy": "thompson"}, horizon, 1, ("batch", 100))
    return arm_intervals(sums, np.array(means), experiment, targets_of(2))


def other_rewards(horizon: int, logs: int) -> Found:
    """KL-MS on Beta(4, 1) and Beta(9, 1) rewards, means 0.8 and 0.9, by `mb.evaluate` itself."""
    world = mb.Beta([4.0, 9.0], [1.0, 1.0])
    log = mb.collect("kl-ms", world, horizon, runs=logs, seed=12)
    tallies: dict[str, dict[str, Tally]] = {}
    kinds = ["policy-bootstrap", "likelihood-ratio", "kt", "t", "normal"]
    table = log.to_arrow()
    for run in range(logs):
        one = mb.Log.read(table.slice(run * horizon, horizon))
        for name, target in (("uniform", "uniform"), ("arm 0", 0), ("arm 1", 1)):
            truth = float(targets_of(2)[name] @ world.means)
            for e in mb.evaluate(one, target, estimators="dm", intervals=kinds).estimates:
                mine = tallies.setdefault(name, {})
                mine.setdefault(f"dm {e.interval}", Tally(truth)).add(e.low, e.high)
    return {name: {key: one.row() for key, one in found.items()} for name, found in tallies.items()}


MORE: dict[str, Callable[[float], Found]] = {
    "10 arms, KL-MS, T = 1,000": lambda factor: ten_arms(1_000, round(300 * factor)),
    "batches of 100, Thompson, T = 1,000": lambda factor: in_batches(1_000, round(2_000 * factor)),
    "Beta rewards, KL-MS, T = 500": lambda factor: other_rewards(500, round(500 * factor)),
}


# --------------------------------------------------------------------------------------------------
# Tasks


class Task(NamedTuple):
    """One file's worth of work."""

    name: str
    work: Callable[[], Found]


KINDS: dict[str, Callable[[Cell, int], Found]] = {
    "arms": arms_task,
    "rows": rows_task,
    "ever": ever_task,
    "bets": bets_task,
    "bootstraps": bootstraps_task,
}


def tasks(factor: float = 1.0) -> list[Task]:
    """All of them, of `factor` times as many logs as planned; the shorter horizon first."""
    logs, found = max(1, round(factor * LOGS)), []
    for horizon in HORIZONS:
        for kind, work in KINDS.items():
            for cell in CELLS:
                # The arms' rewards are the same whatever propensities were written down.
                if cell.horizon == horizon and (kind, cell.policy) != ("arms", MONTE_CARLO):
                    name = f"{kind} {cell.policy} {cell.instance} {horizon}"
                    found.append(Task(name, functools.partial(work, cell, logs)))
    for title, measure in MORE.items():
        found.append(Task(f"more {title}", functools.partial(measure, factor)))
    return found


def run(folder: Path, only: Sequence[str], factor: float) -> None:
    """Do what is not there yet and nobody else is doing."""
    folder.mkdir(parents=True, exist_ok=True)
    keep_records(folder)
    for task in tasks(factor):
        if only and not any(word in task.name for word in only):
            continue
        path = folder / f"{task.name.replace(' ', '_').replace('/', '_')}.json"
        claim = path.with_suffix(".claim")
        if path.exists():
            continue
        try:
            claim.open("x").close()
        except FileExistsError:
            continue
        start = time.process_time()
        try:
            found = task.work()
            content = {"task": task.name, "found": found, "cpu": time.process_time() - start}
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(content), encoding="utf-8")
            part.replace(path)
        finally:
            claim.unlink(missing_ok=True)
        print(f"{task.name}: {time.process_time() - start:.0f} s", flush=True)


def main() -> None:
    """Measure, or make the page of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the tasks' files are")
    parser.add_argument("--only", nargs="*", default=(), help="tasks whose names have these words")
    parser.add_argument("--logs", type=float, default=1.0, help="times as many logs as planned")
    parser.add_argument("--page", action="store_true", help="put what is there into the page")
    given = parser.parse_args()
    if given.page:
        import coverage_page

        coverage_page.write(given.folder)
    else:
        run(given.folder, given.only, given.logs)


if __name__ == "__main__":
    main()
