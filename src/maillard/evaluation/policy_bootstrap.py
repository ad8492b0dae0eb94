"""The interval that simulates the logged experiment again: see `refit`."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from ..compiled import disabled
from .arms import ArmMeans
from .diagnostics import Diagnostics
from .estimators import Estimator, Point
from .intervals import Ends, Interval, nothing
from .moments import Array
from .refit import Experiment, Inversion, Laws, Pool, world_of
from .rows import Rows

#: Where nothing was asked for, an experiment of at most so many rounds × arms is simulated again:
#: the thousands of them then take a second or less.
QUICK: Final = 50_000
#: Arms that it takes at most.
_ARMS: Final = 1_000
#: Parts of [0, 1] in which the rewards of an arm are summed up.
_PARTS: Final = 16


class _Rewards(NamedTuple):
    """Of each arm, for 0, the parts between, and 1: number, sum and sum of squares, scaled."""

    sums: Array


class PolicyBootstrap(Interval):
    """Simulates the logged experiment under other laws: the values that it does not refute.

    Needs the policy's name in the log's metadata. Assumes that the log is what that policy did in
    as many rounds, fixed beforehand, with rewards of one arm independent and alike. For rewards of
    two values nothing else; for others that their laws are like the empirical ones, with one more
    reward, half of it at either end of the range. About 3,000 experiments of the log's length are
    simulated, more where little is known.
    """

    name = "policy-bootstrap"
    title = "bootstrap through the policy"
    reference = "test inversion by simulation, exponential tilting (Efron 1981)"
    ranged = True

    def obstacle(self, estimator: Estimator) -> str:
        conditions = self.conditions
        setting = conditions.setting
        if not isinstance(estimator, ArmMeans):
            return "is for dm: arm means without context"
        if setting.weights is None:
            return "needs a target that is the same in every row"
        if unknown := self.range_obstacle():
            return unknown
        experiment = conditions.experiment
        if isinstance(experiment, str):
            return experiment
        if setting.arms > _ARMS:
            return f"takes at most {_ARMS:,} arms"
        if conditions.quick and (setting.rows * setting.arms > QUICK or disabled()):
            return (
                f"simulates the log some thousand times, which takes long for {setting.rows:,} "
                f"rows of {setting.arms} arms: ask for it by name"
            )
        try:
            self._path(experiment, Laws.of_coins(np.ones(setting.arms), np.ones(setting.arms)))
        except ValueError as error:
            name = experiment.policy["policy"]
            return f"cannot simulate the policy that the log names, {name!r}: {error}"
        return ""

    def _path(self, experiment: Experiment, laws: Laws) -> str:
        """Which way the simulator takes with this policy and rewards of this kind."""
        from ..simulation.engine import program
        from ..simulation.specs import policy_for

        world = world_of(laws, laws.centre, self.range, experiment.delay)
        return program(policy_for(experiment.policy, world, experiment.rounds), world).path

    def start(self, estimators: Mapping[str, Estimator]) -> _Rewards:
        return _Rewards(np.zeros((3, self.conditions.setting.arms, _PARTS + 2)))

    def step(self, state: _Rewards, rows: Rows, estimators: Mapping[str, Estimator]) -> _Rewards:
        x = self.scaled(rows.reward)
        part = np.where(x <= 0.0, 0, np.where(x >= 1.0, _PARTS + 1, 1 + (x * _PARTS).astype(int)))
        shape = state.sums.shape[1:]
        place = np.asarray(rows.arm, dtype=np.int64) * shape[1] + part
        found = [np.bincount(place, x**power, shape[0] * shape[1]) for power in range(3)]
        return _Rewards(state.sums + np.reshape(found, state.sums.shape))

    def merge(self, left: _Rewards, right: _Rewards) -> _Rewards:
        return _Rewards(left.sums + right.sums)

    def ends(self, estimator: Estimator, point: Point, state: _Rewards, seen: Diagnostics) -> Ends:
        if point.arms is None or state is None:
            return nothing("there are no rows")
        conditions = self.conditions
        assert isinstance(conditions.experiment, Experiment)
        weights = point.arms.weights
        pulls, totals, squares = state.sums.sum(axis=2)
        laws = laws_of(state.sums)
        if conditions.quick and self._path(conditions.experiment, laws) != "engine":
            name = conditions.experiment.policy["policy"]
            return nothing(f"simulates {name} step by step, which takes long: ask for it by name")
        pool = Pool(conditions.experiment, self.range, len(weights), conditions.seed)
        search = Inversion(pool, laws, weights, pulls, totals, squares, conditions.replicates)
        least, most = (search.end(side, self.alpha / 2.0) for side in (-1.0, 1.0))
        low, high = self.range
        shift = low * float(weights.sum())
        return Ends(shift + (high - low) * least, shift + (high - low) * most)


def laws_of(sums: Array) -> Laws:
    """The families of laws that the rewards of the arms suggest: sums[power, arm, part]."""
    counts, totals, squares = sums
    if not counts[:, 1:-1].any():
        return Laws.of_coins(counts.sum(axis=1), totals.sum(axis=1))
    # A part is two values at equal distances from its mean, so that its variance is kept too.
    filled = np.maximum(counts, 1.0)
    mean = totals / filled
    spread = np.sqrt(np.maximum(squares / filled - mean * mean, 0.0))
    values = np.concatenate([mean - spread, mean + spread], axis=1)
    return Laws.of_values(np.clip(values, 0.0, 1.0), np.tile(0.5 * counts, 2))
