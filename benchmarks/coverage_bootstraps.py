"""A task of `coverage_of_intervals.py`: bootstraps of rows.

How often `mb.evaluate` counts each row in each replicate follows from its seed, the number of rows
and the number of replicates alone. So logs of one length may be given the same counts: then the
sums of all replicates, for all logs, targets and estimators together, are one product of matrices.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from coverage_logs import (
    ALPHA,
    MONTE_CARLO,
    REPLICATES,
    Cell,
    Evaluator,
    Found,
    Run,
    Tally,
    runs_of,
    targets_of,
)

from maillard.evaluation.bootstrap import columns_of, counts_of_replicates, counts_of_rows

#: Logs that are given the same counts. Each group has its own.
_TOGETHER = 32


class Ends(NamedTuple):
    """Intervals of some logs, NaN where there is none."""

    target: str
    estimator: str
    interval: str
    low: np.ndarray
    high: np.ndarray


def bootstraps_task(cell: Cell, logs: int) -> Found:
    """Coverage and width of the percentiles of both bootstraps."""
    # Arm means do not use propensities: those of exact ones will do.
    names = ("snipw", "aipw") if cell.policy == MONTE_CARLO else ("dm", "snipw", "aipw")
    targets = targets_of(len(cell.means))
    evaluators = {
        name: Evaluator(cell.horizon, weights, estimators=names)
        for name, weights in targets.items()
    }
    tallies: dict[str, dict[str, Tally]] = {name: {} for name in targets}
    for seed, group in enumerate(groups(runs_of(cell, logs))):
        for one in ends_of_logs(group, evaluators, REPLICATES, seed):
            truth = float(targets[one.target] @ cell.means)
            key = f"{one.estimator} {one.interval}"
            tallies[one.target].setdefault(key, Tally(truth)).add(one.low, one.high)
    return {name: {key: one.row() for key, one in found.items()} for name, found in tallies.items()}


def groups(logs: Iterator[Run]) -> Iterator[list[Run]]:
    """The logs in their order, some at a time."""
    group: list[Run] = []
    for log in logs:
        group.append(log)
        if len(group) == _TOGETHER:
            yield group
            group = []
    if group:
        yield group


def ends_of_logs(
    logs: Sequence[Run], evaluators: Mapping[str, Evaluator], replicates: int, seed: int
) -> Iterator[Ends]:
    """What `mb.evaluate` gives for each of these logs, which are of one length, with this seed."""
    table = Table()
    places = {}
    for target, evaluator in evaluators.items():
        rows = [evaluator.rows_of(log) for log in logs]
        for name, estimator in evaluator.estimators.items():
            found = [table.places(columns_of(estimator, one)) for one in rows]
            places[target, name] = np.array(found)  # [log, column]
    columns = np.array(table.columns).T
    for interval, counts in counts_of(len(logs[0]), replicates, seed).items():
        sums = counts @ columns
        for (target, name), place in places.items():
            mine = sums[:, place]
            with np.errstate(divide="ignore", invalid="ignore"):
                means = mine[..., 1:] / mine[..., :1]
                estimates = evaluators[target].estimators[name].of_means(means)
            estimates[:, ~np.isfinite(estimates).all(axis=0)] = np.nan
            low, high = np.quantile(estimates, [ALPHA / 2.0, 1.0 - ALPHA / 2.0], axis=0)
            yield Ends(target, name, interval, low, high)


class Table:
    """Columns of numbers; of those that are the same, such as ones, there is only one."""

    def __init__(self) -> None:
        self.columns: list[np.ndarray] = []
        self._places: dict[bytes, int] = {}

    def places(self, columns: np.ndarray) -> list[int]:
        """Where these columns are to be found."""
        found = []
        for column in columns:
            place = self._places.setdefault(column.tobytes(), len(self.columns))
            if place == len(self.columns):
                self.columns.append(column)
            found.append(place)
        return found


def counts_of(rows: int, replicates: int, seed: int) -> dict[str, np.ndarray]:
    """How often each row counts, [replicates, rows], of both bootstraps."""
    poisson = np.concatenate(list(counts_of_rows(seed, 0, rows, replicates))).T
    ordinary = np.concatenate(list(counts_of_replicates(seed, rows, replicates)))
    return {
        "bootstrap": ordinary.astype(np.float64),
        "poisson-bootstrap": np.ascontiguousarray(poisson, dtype=np.float64),
    }
