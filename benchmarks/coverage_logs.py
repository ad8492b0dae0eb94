"""What the tasks of `coverage_of_intervals.py` share: cells, their logs, and tallies of hits."""

import math
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import maillard as mb
from maillard.evaluation.arrays import ArrayLog
from maillard.evaluation.catalogue import ESTIMATORS
from maillard.evaluation.diagnostics import Diagnostics
from maillard.evaluation.estimators import Estimator, Point, Setting
from maillard.evaluation.intervals import Conditions, Interval
from maillard.evaluation.passes import Pass
from maillard.evaluation.rows import History, Rows
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

#: Logs that are simulated, and held in memory, at once.
_BATCH = 128
#: Replicates of a bootstrap: as many as `mb.evaluate` takes.
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
# Logs


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


def keep_records(folder: Path | None) -> None:
    """Keep them in this folder from now on."""
    global _KEPT
    _KEPT = folder


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


# --------------------------------------------------------------------------------------------------
# Evaluation


class Evaluator:
    """What `mb.evaluate` does with a log, for one target and thousands of logs."""

    def __init__(
        self,
        horizon: int,
        weights: np.ndarray,
        kinds: Sequence[type[Interval]] = (),
        estimators: Sequence[str] = tuple(ESTIMATORS),
    ) -> None:
        self.setting = Setting(horizon, len(weights), weights, math.sqrt(horizon))
        conditions = Conditions(self.setting, (0.0, 1.0), True, False, LEVEL)
        self.estimators = {name: ESTIMATORS[name](self.setting) for name in estimators}
        self.intervals = {}
        for interval in (kind(conditions) for kind in kinds):
            fits = [name for name, one in self.estimators.items() if not interval.obstacle(one)]
            if fits:
                self.intervals[interval.name] = interval, tuple(fits)
        self.whole = Pass(
            len(weights), Fixed("", weights), None, self.estimators, self.intervals,
            probabilities=True, prior=0.5,
        )  # fmt: skip

    def intervals_of(self, log: ArrayLog) -> Iterator[tuple[str, str, float, float]]:
        """Estimator, interval and its ends: every pair that goes together."""
        state = self.whole.piece(log)
        for name, estimator in self.estimators.items():
            with np.errstate(all="ignore"):
                point = estimator.finish(state.estimators[name])
                for kind, (interval, fits) in self.intervals.items():
                    if name in fits:
                        found = self._ends(
                            interval, estimator, point, state.intervals[kind], state.seen
                        )
                        yield name, kind, *found

    def _ends(
        self, interval: Any, estimator: Any, point: Point, state: Any, seen: Diagnostics
    ) -> tuple[float, float]:
        if math.isnan(point.estimate):
            return math.nan, math.nan
        ends = interval.ends(estimator, point, state, seen)
        return ends.low, ends.high

    def rows_of(self, log: ArrayLog) -> Rows:
        """All rows of a log, as estimators see them."""
        (batch,) = log.batches(size=len(log))
        return self.whole.rows(batch, History.empty(self.setting.arms))


def _ends(
    interval: Interval, estimator: Estimator, point: Point, state: Any, seen: Diagnostics
) -> tuple[float, float]:
    if math.isnan(point.estimate):
        return math.nan, math.nan
    ends = interval.ends(estimator, point, state, seen)
    return ends.low, ends.high


def tallied(
    cell: Cell, logs: int, kinds: Sequence[type[Interval]], estimators: Sequence[str]
) -> Found:
    """Coverage and width of every pair that goes together, for every target."""
    targets = targets_of(len(cell.means))
    evaluators = {
        name: Evaluator(cell.horizon, weights, kinds, estimators)
        for name, weights in targets.items()
    }
    tallies: dict[str, dict[str, Tally]] = {name: {} for name in targets}
    for log in runs_of(cell, logs):
        for name, evaluator in evaluators.items():
            truth = float(targets[name] @ cell.means)
            for estimator, interval, low, high in evaluator.intervals_of(log):
                key = f"{estimator} {interval}"
                tallies[name].setdefault(key, Tally(truth)).add(low, high)
    return {name: {key: one.row() for key, one in found.items()} for name, found in tallies.items()}
