"""How often intervals cover, on logs of policies that learn: measured, cell by cell.

    python benchmarks/coverage_of_intervals.py --folder FOLDER [--only WORD …] [--logs FACTOR]
    python benchmarks/coverage_of_intervals.py --folder FOLDER --page

Every cell (a policy, an instance, a horizon) is measured by a few tasks, each of which writes one
small file into the folder; what is there is not done again, so that a run may be cut short and
resumed, and several processes may share a folder. --page puts the files together:
docs/coverage.json, and the page and the figure made of it.

The tasks take short cuts, all of which give what `mb.evaluate` gives (tests/test_coverage.py):
`arms` needs nothing but each arm's pulls and rewards, which the simulator sums up; its simulated
experiments are handed on from log to log. `rows` feeds many logs to one `Pass`. `ever` follows the
confidence sequences round by round: a sequence misses when the capital of its bets against the
truth has ever reached 1/α. `slow` runs `mb.evaluate` itself, on fewer logs.
"""

import argparse
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import maillard as mb
from maillard.evaluation import sequences
from maillard.evaluation.arrays import ArrayLog
from maillard.evaluation.catalogue import ESTIMATORS
from maillard.evaluation.diagnostics import Diagnostics
from maillard.evaluation.estimators import Point, Setting
from maillard.evaluation.intervals import Conditions, EmpiricalBernstein, Normal, StudentT
from maillard.evaluation.likelihood import LikelihoodRatio, budget_of, likelihood_ends
from maillard.evaluation.passes import Pass
from maillard.evaluation.refit import Block, Experiment, Inversion, Laws, Pool
from maillard.evaluation.rows import History
from maillard.evaluation.sequences import KTSequence, kt_interval
from maillard.evaluation.targets import Fixed
from maillard.simulation.engine import Record, program
from maillard.simulation.specs import policy_for

LEVEL = 0.95
ALPHA = 1.0 - LEVEL
INSTANCES = {"0.2, 0.25": (0.2, 0.25), "0.8, 0.9": (0.8, 0.9)}
HORIZONS = (1_000, 10_000)
#: How they are called here, and which policy wrote the log.
POLICIES = {
    "KL-MS": "kl-ms",
    "KT-KL-MS": "kl-ms-kt",
    "Thompson": "thompson",
    "Thompson, Monte Carlo": "thompson",
    "ε-greedy": "epsilon-greedy",
    "uniform": "uniform",
}
MONTE_CARLO = "Thompson, Monte Carlo"
#: Draws behind a propensity there. Where none or all chose the arm, half a draw is put in place of
#: none, as the code that was published with KL-MS does.
DRAWS = 1_000
#: The policies that learn: their cells decide what is recommended.
LEARNING = tuple(name for name in POLICIES if name != "uniform")

#: Logs of a cell, by kind of task and horizon.
LOGS = {
    ("arms", 1_000): 2_000,
    ("arms", 10_000): 2_000,
    ("rows", 1_000): 2_000,
    ("rows", 10_000): 2_000,
    ("ever", 1_000): 2_000,
    ("ever", 10_000): 2_000,
    ("slow", 1_000): 200,
    ("slow", 10_000): 100,
}
#: Logs that are simulated, and held in memory, at once.
_BATCH = 128
REPLICATES = 1_000


class Cell(NamedTuple):
    """One kind of log."""

    policy: str
    instance: str
    horizon: int

    @property
    def means(self) -> tuple[float, ...]:
        """The truth."""
        return INSTANCES[self.instance]

    @property
    def seed(self) -> int:
        """The same for both kinds of Thompson's propensities: the logs differ in these alone."""
        words = (POLICIES[self.policy], self.instance, self.horizon)
        return zlib.crc32(repr(words).encode())


CELLS = [
    Cell(policy, instance, horizon)
    for horizon in HORIZONS
    for policy in POLICIES
    for instance in INSTANCES
]


def targets_of(arms: int) -> dict[str, np.ndarray]:
    """Uniform, and every arm: its distribution over the arms."""
    return {"uniform": np.full(arms, 1.0 / arms)} | {
        f"arm {a}": np.eye(arms)[a] for a in range(arms)
    }


class Tally:
    """Hits and widths of the intervals for one truth."""

    def __init__(self, truth: float) -> None:
        self.truth, self.logs, self.hits, self.missing = truth, 0, 0, 0
        self.width, self.widths = 0.0, 0

    def add(self, low: Any, high: Any) -> None:
        """Ends of the intervals of some logs; NaN where there is none, which does not cover."""
        low, high = np.atleast_1d(low), np.atleast_1d(high)
        found = np.isfinite(low) & np.isfinite(high)
        # Ends come from sums in some order: a truth at an end, to rounding, is covered.
        slack = 1e-12
        self.logs += low.size
        self.missing += int(np.count_nonzero(~found))
        self.hits += int(np.sum(found & (low <= self.truth + slack) & (self.truth - slack <= high)))
        self.width += float((high - low)[found].sum())
        self.widths += int(np.count_nonzero(found))

    def row(self) -> list[float | None]:
        """Coverage, mean width, number of logs."""
        width = self.width / self.widths if self.widths else None
        return [self.hits / self.logs, width, self.logs]


Found = dict[str, dict[str, list[float | None]]]


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


class Run(ArrayLog):
    """A recorded run as `Log` would hand it over: with the propensity's logarithm."""

    def __init__(self, arm: Any, propensity: Any, log_propensity: Any, reward: Any) -> None:
        super().__init__(2, arm, propensity, reward)
        self._log_propensity = log_propensity
        self.columns = (*self.columns, "log_propensity")

    def batches(self, *given: Any, **options: Any) -> Iterator[Any]:
        """As ArrayLog's."""
        for batch in super().batches(*given, **options):
            part = slice(batch.first_row, batch.first_row + len(batch.arm))
            yield batch._replace(log_propensity=self._log_propensity[part])


def runs_of(cell: Cell, logs: int) -> Iterator[Run]:
    """Logs of a cell, as `mb.collect` makes them."""
    world = mb.Bernoulli(list(cell.means))
    ready = program(policy_for(POLICIES[cell.policy], world, cell.horizon), world)
    firsts = range(0, logs, _BATCH)
    # Two tasks need Thompson's records: they come from both sides, and each makes one half.
    for first in reversed(firsts) if cell.policy == MONTE_CARLO else firsts:
        record = recorded(ready, cell, first, min(_BATCH, logs - first))
        propensity, log_propensity = record.propensity, record.log_propensity
        if cell.policy == MONTE_CARLO:
            rng = np.random.default_rng([cell.seed, 1, first])
            drawn = rng.binomial(DRAWS, np.minimum(propensity, 1.0)).astype(np.float64)
            propensity = np.clip(drawn, 0.5, DRAWS - 0.5) / DRAWS
            log_propensity = np.log(propensity)
        for i in range(len(record.arm)):
            yield Run(record.arm[i], propensity[i], log_propensity[i], record.reward[i])


#: Where records are kept that several tasks need and that take long to make.
_KEPT: Path | None = None


def recorded(ready: Any, cell: Cell, first: int, trials: int) -> Record:
    """Some trials' decisions. Thompson's probabilities are integrals: these are kept."""
    if _KEPT is None or POLICIES[cell.policy] != "thompson":
        return ready.record(cell.horizon, seed=cell.seed, first=first, trials=trials)
    path = _KEPT / f"record-{cell.seed}-{first}-{trials}.npz"
    if not path.exists():
        made = ready.record(cell.horizon, seed=cell.seed, first=first, trials=trials)
        part = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(
            part, arm=made.arm.astype(np.int8), propensity=made.propensity,
            log_propensity=made.log_propensity, reward=made.reward.astype(np.int8),
        )  # fmt: skip
        part.replace(path)
        return made
    with np.load(path) as kept:
        return Record(
            first, kept["arm"].astype(np.int32), kept["propensity"], kept["log_propensity"],
            kept["reward"].astype(np.float64),
        )  # fmt: skip


class Evaluator:
    """What `mb.evaluate` does with a log, for one target and thousands of logs."""

    def __init__(self, horizon: int, weights: np.ndarray, arm_means: bool = True) -> None:
        self.setting = Setting(horizon, len(weights), weights, math.sqrt(horizon))
        self.conditions = Conditions(self.setting, (0.0, 1.0), True, False, LEVEL)
        self.estimators = {
            name: cls(self.setting) for name, cls in ESTIMATORS.items() if arm_means or name != "dm"
        }
        self.whole = Pass(
            len(weights), Fixed("", weights), None, self.estimators, {},
            probabilities=True, prior=0.5,
        )  # fmt: skip
        kinds = (Normal, StudentT, EmpiricalBernstein, LikelihoodRatio, KTSequence)
        self.intervals = {kind.name: kind(self.conditions) for kind in kinds}

    def intervals_of(self, log: ArrayLog) -> Iterator[tuple[str, str, float, float]]:
        """Estimator, interval and its ends: every pair that goes together."""
        state = self.whole.piece(log)
        for name, estimator in self.estimators.items():
            with np.errstate(all="ignore"):
                point = estimator.finish(state.estimators[name])
                for kind, interval in self.intervals.items():
                    if not interval.obstacle(estimator):
                        yield name, kind, *self._ends(interval, estimator, point, state.seen)

    def _ends(
        self, interval: Any, estimator: Any, point: Point, seen: Diagnostics
    ) -> tuple[float, float]:
        if math.isnan(point.estimate):
            return math.nan, math.nan
        ends = interval.ends(estimator, point, None, seen)
        return ends.low, ends.high


def rows_task(cell: Cell, logs: int) -> Found:
    """Intervals of all estimators that weight rows."""
    targets = targets_of(2)
    # `arms` has the intervals of arm means.
    evaluators = {
        name: Evaluator(cell.horizon, weights, arm_means=False) for name, weights in targets.items()
    }
    tallies: dict[str, dict[str, Tally]] = {name: {} for name in targets}
    for log in runs_of(cell, logs):
        for name, evaluator in evaluators.items():
            truth = float(targets[name] @ cell.means)
            for estimator, interval, low, high in evaluator.intervals_of(log):
                key = f"{estimator} {interval}"
                tallies[name].setdefault(key, Tally(truth)).add(low, high)
    return {name: {key: one.row() for key, one in found.items()} for name, found in tallies.items()}


# --------------------------------------------------------------------------------------------------
# Along the rounds


def ever_task(cell: Cell, logs: int) -> Found:
    """How often the anytime-valid sequences have ever missed, and how often at the end."""
    targets = targets_of(2)
    if cell.horizon > 1_000:  # the others take as long again
        targets = {"uniform": targets["uniform"]}
    evaluators = {name: Evaluator(cell.horizon, weights) for name, weights in targets.items()}
    ever: dict[str, dict[str, list[int]]] = {name: {} for name in targets}
    for log in runs_of(cell, logs):
        for name, weights in targets.items():
            for kind, missed in sequences_against(log, weights, cell.means, evaluators[name]):
                counts = ever[name].setdefault(kind, [0, 0])
                counts[0] += bool(missed.any())
                counts[1] += bool(missed[-1])
    return {
        name: {kind: [first / logs, last / logs, logs] for kind, (first, last) in found.items()}
        for name, found in ever.items()
    }


def sequences_against(
    log: Run, weights: np.ndarray, means: Sequence[float], evaluator: Evaluator
) -> Iterator[tuple[str, np.ndarray]]:
    """For each sequence and round, whether it has the truth refuted there.

    Those of arm means are for all arms that the target wants together, at α/K each: that one of
    them misses is the event which the promise is about; the target's interval misses less often.
    """
    used = np.flatnonzero(weights)
    alpha = ALPHA / len(used)
    rounds = len(log)
    kt, betting = np.zeros(rounds, dtype=bool), np.zeros(rounds, dtype=bool)
    for a in used:
        positions = np.flatnonzero(log._arm == a)
        x = log._reward[positions]
        kt |= _held(kt_refutes(x, means[a], alpha), positions, rounds)
        betting |= _held(hedge_refutes(x, means[a], alpha), positions, rounds)
    yield "dm kt", kt
    yield "dm betting", betting
    yield "aipw dr-betting", robust_refutes(log, float(weights @ np.array(means)), evaluator)


def _held(refuted: np.ndarray, positions: np.ndarray, rounds: int) -> np.ndarray:
    """What holds after each pull of an arm, in every round from there to its next pull."""
    held = np.zeros(rounds, dtype=bool)
    ends = np.append(positions[1:], rounds)
    for start, end in zip(positions[refuted], ends[refuted]):
        held[start:end] = True
    return held


def kt_refutes(x: np.ndarray, mean: float, alpha: float) -> np.ndarray:
    """Whether the mixture's likelihood ratio against `mean` is 1/α or more, after each reward."""
    from scipy.special import betaln

    n, s = np.arange(1.0, len(x) + 1.0), np.cumsum(x)
    mixture = betaln(s + 0.5, n - s + 0.5) - math.log(math.pi)
    return mixture - s * math.log(mean) - (n - s) * math.log1p(-mean) >= math.log(1.0 / alpha)


def hedge_refutes(x: np.ndarray, mean: float, alpha: float) -> np.ndarray:
    """The same for `hedged_interval`: whether either gambler has 2/α times his capital."""
    t = np.arange(1.0, len(x) + 1.0)
    running = (0.5 + np.cumsum(x)) / (t + 1.0)
    variance = (0.25 + np.cumsum((x - running) ** 2)) / (t + 1.0)
    before = np.concatenate([[0.25], variance[:-1]])
    bet = np.sqrt(2.0 * math.log(2.0 / alpha) / (before * t * np.log1p(t)))
    above = np.cumsum(np.log1p(np.minimum(bet, 0.5 / mean) * (x - mean)))
    below = np.cumsum(np.log1p(-np.minimum(bet, 0.5 / (1.0 - mean)) * (x - mean)))
    return np.maximum(above, below) >= math.log(2.0 / alpha)


def robust_refutes(log: Run, value: float, evaluator: Evaluator) -> np.ndarray:
    """The same for the doubly robust betting sequence, two one-sided ones at α/2 each."""
    (batch,) = log.batches(size=len(log))
    rows = evaluator.whole.rows(batch, History.empty(2))
    goal = math.log(len(sequences._CEILINGS) * len(sequences._SHARES) / (ALPHA / 2.0))
    terms = np.array(
        [sequences.pseudo_outcomes(rows, (0.0, 1.0), k) for k in sequences._CEILINGS]
    )  # [ceiling, side, row]
    if rows.impossible is not None:  # such rows are left out: no bet, and nothing happens
        terms = terms[:, :, ~rows.impossible]
    refuted = np.zeros(terms.shape[2], dtype=bool)
    for side, nu in enumerate((value, 1.0 - value)):
        capital = np.zeros(terms.shape[2])
        for k, phi in zip(sequences._CEILINGS, terms[:, side]):
            stakes = np.minimum(phi + k, sequences._HIGHEST) / (nu + k)
            for share in sequences._SHARES:
                logs = np.cumsum(np.log(share * stakes + (1.0 - share)))
                capital += np.exp(np.minimum(logs, 300.0))
        refuted |= capital >= math.exp(goal)
    return refuted if len(refuted) else np.zeros(1, dtype=bool)


# --------------------------------------------------------------------------------------------------
# What takes long, on fewer logs


def slow_task(cell: Cell, logs: int) -> Found:
    """`mb.evaluate` itself: bootstraps, and the widths of the betting sequences."""
    tallies: dict[str, Tally] = {}
    truth = float(np.mean(cell.means))
    for log in runs_of(cell, logs):
        found = mb.evaluate(
            log, "uniform", replicates=400, estimators=["dm", "snipw", "aipw"],
            intervals=["bootstrap", "poisson-bootstrap", "betting", "dr-betting"],
        )  # fmt: skip
        for one in found.estimates:
            key = f"{one.estimator} {one.interval}"
            tallies.setdefault(key, Tally(truth)).add(one.low, one.high)
    return {"uniform": {key: one.row() for key, one in tallies.items()}}


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
    "slow": slow_task,
}


#: In this order: what decides first.
ORDER = (
    ("arms", 1_000), ("arms", 10_000), ("rows", 1_000), ("ever", 1_000), ("slow", 1_000),
    ("rows", 10_000), ("slow", 10_000), ("ever", 10_000),
)  # fmt: skip


def tasks(factor: float = 1.0) -> list[Task]:
    """All of them, of `factor` times as many logs as planned."""
    found = []
    for kind, horizon in ORDER:
        logs = max(1, round(factor * LOGS[kind, horizon]))
        for cell in CELLS:
            # The arms' rewards are the same whatever propensities were written down.
            if cell.horizon == horizon and (kind, cell.policy) != ("arms", MONTE_CARLO):
                name = f"{kind} {cell.policy} {cell.instance} {horizon}"
                found.append(Task(name, lambda k=kind, c=cell, n=logs: KINDS[k](c, n)))
        if (kind, horizon) == ("slow", 1_000):
            for title, measure in MORE.items():
                found.append(Task(f"more {title}", lambda m=measure: m(factor)))
    return found


def run(folder: Path, only: Sequence[str], factor: float) -> None:
    """Do what is not there yet and nobody else is doing."""
    global _KEPT
    folder.mkdir(parents=True, exist_ok=True)
    _KEPT = folder
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
    parser.add_argument("--page", action="store_true", help="write the page of what is there")
    given = parser.parse_args()
    if given.page:
        import coverage_page

        coverage_page.write(given.folder)
    else:
        run(given.folder, given.only, given.logs)


if __name__ == "__main__":
    main()
