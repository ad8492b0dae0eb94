"""What can be made of the laws: changes, late rewards, batches and records."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compiled import Kernel, fingerprint, kernel, wide
from ..streams import LANES, uniform
from .catalogue import one_of
from .checks import interval, matrix, whole
from .environment import Array, Delay, Environment, remade


@kernel
def pay_recorded(arm, law, t, rng, reward):
    """Row t of the table. The last row stands for any later one: no step may read beyond it."""
    row = min(int(t), law.shape[0]) - 1
    for lane in range(LANES):
        reward[lane] = law[row, arm[lane]]


@kernel
def pay_resampled(arm, law, t, rng, reward):
    """A row of the table, each as likely as another."""
    wide()
    rows = float(law.shape[0])
    for lane in range(LANES):
        row = min(int(uniform(rng, lane) * rows), law.shape[0] - 1)
        reward[lane] = law[row, arm[lane]]


# --------------------------------------------------------------------------------------------------
# Laws that change


class _Changing(Environment):
    """Stationary environments, each of which holds at its knot."""

    def __init__(
        self, parameters: dict[str, Any], stages: list[Environment], knots: list[int]
    ) -> None:
        first = stages[0]
        ends = [stage.rewards for stage in stages]
        hull = min(low for low, _ in ends), max(high for _, high in ends)
        binary = all(stage.binary for stage in stages) and len(set(ends)) == 1
        super().__init__(parameters, first.law, first.means, first.variances, hull, binary=binary)
        self.knots = np.array(knots, dtype=np.int64)
        self.laws = np.ascontiguousarray([stage.law for stage in stages])
        self.mean_table = np.array([stage.means for stage in stages])
        self._first = first

    @property
    def pay_kernel(self) -> Kernel:
        return self._first.pay_kernel

    @classmethod
    def _stages(cls, given: Any) -> list[Environment]:
        """At least two stationary environments of one law, with the same arms."""
        if not isinstance(given, (list, tuple)) or len(given) < 2:
            raise ValueError(f"{cls.slug}: stages must be a list of at least 2 environments")
        stages = [one_of(cls.slug, f"stages[{i}]", stage) for i, stage in enumerate(given)]
        for i, stage in enumerate(stages):
            if len(stage.knots) > 1 or stage.delay is not None or stage.rounds is not None:
                raise ValueError(
                    f"{cls.slug}: stages[{i}] is {stage.slug}, but a stage must be a stationary "
                    f"environment{' (put the delay outside)' if stage.delay is not None else ''}"
                )
            if stage.arms != stages[0].arms:
                raise ValueError(
                    f"{cls.slug}: stages[{i}] has {stage.arms} arms, stages[0] {stages[0].arms}"
                )
            if not _same_law(stage, stages[0]):
                raise ValueError(
                    f"{cls.slug}: all stages must have one law with as many parameters, but "
                    f"stages[{i}] is {stage.slug} with {len(stage.law)}, stages[0] "
                    f"{stages[0].slug} with {len(stages[0].law)}"
                )
        return stages


class Piecewise(_Changing):
    """Stationary environments one after another, which change at once at the change points.

    Stage 1 holds from round 1, stage j + 1 from round `changes[j]` on, the last one for ever.
    """

    slug = "piecewise"
    title = "Piecewise stationary"
    formula = "stage j + 1 from round changes[j] on"

    def __init__(
        self, stages: Sequence[Environment | dict[str, Any]], changes: Sequence[int]
    ) -> None:
        found = self._stages(stages)
        starts = _rising(self.slug, "changes", changes, len(found) - 1, low=2)
        super().__init__({"stages": found, "changes": starts}, found, [1, *starts])


class Drifting(_Changing):
    """Laws that move in straight lines between the stages, each reached at its knot.

    Between knots k_j ≤ t ≤ k_{j+1} the parameters are θ_j + (θ_{j+1} − θ_j)(t − k_j)/(k_{j+1} −
    k_j), and so are the means; after the last knot nothing moves. Only for laws whose mean is
    linear in the parameters. The first knot is round 1.
    """

    slug = "drifting"
    title = "Drifting"
    formula = "parameters linear between stage j at round knots[j] and the next"
    drifts = True

    def __init__(
        self, stages: Sequence[Environment | dict[str, Any]], knots: Sequence[int]
    ) -> None:
        found = self._stages(stages)
        rounds = _rising(self.slug, "knots", knots, len(found), low=1)
        if rounds[0] != 1:
            raise ValueError(f"{self.slug}: knots[0] must be round 1, not {rounds[0]}")
        law = found[0].slug
        if not found[0].linear:
            raise ValueError(
                f"{self.slug}: the mean of {law} rewards is not linear in their parameters, so "
                "that it would not move in a straight line: use piecewise, in small steps"
            )
        size = len(found[0].law) // 2
        for i, stage in enumerate(found):
            if law == "categorical" and not np.array_equal(stage.law[size:], found[0].law[size:]):
                raise ValueError(f"{self.slug}: stages[{i}] has other values than stages[0]")
        super().__init__({"stages": found, "knots": rounds}, found, rounds)


def _same_law(one: Environment, other: Environment) -> bool:
    same = type(one) is type(other) and one.law.shape == other.law.shape
    return same and fingerprint(one.pay_kernel) == fingerprint(other.pay_kernel)


def _rising(law: str, name: str, values: Any, size: int, low: int) -> list[int]:
    """So many rounds, each after the one before."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if not isinstance(values, (list, tuple)) or len(values) != size:
        raise ValueError(f"{law}: {name} must list {size} rounds, not {values!r}")
    rounds = [whole(law, f"{name}[{i}]", value, low) for i, value in enumerate(values)]
    for i, (before, after) in enumerate(itertools.pairwise(rounds), start=1):
        if after <= before:
            raise ValueError(f"{law}: {name}[{i}] is {after}, not after {name}[{i - 1}], {before}")
    return rounds


# --------------------------------------------------------------------------------------------------
# Rewards that are seen late


class _Late(Environment):
    """Another environment, whose rewards are seen later.

    The lower bound C ln T holds as before: to see less cannot help.
    """

    def __init__(self, inner: Environment, delay: Delay, parameters: dict[str, Any]) -> None:
        if inner.delay is not None:
            raise ValueError(f"{self.slug}: the rewards of {inner.slug} are late already")
        vars(self).update(vars(inner))
        self.parameters = {"inner": inner, **parameters}
        self.delay = delay
        self.drifts = inner.drifts
        self._inner = inner

    def __reduce__(self) -> Any:
        return remade, (type(self), self.parameters)

    @property
    def pay_kernel(self) -> Kernel:
        return self._inner.pay_kernel

    def asymptotic_constant(self) -> float:
        """That of the environment within: see `Environment.asymptotic_constant`."""
        return self._inner.asymptotic_constant()


class Delayed(_Late):
    """The rewards of another environment, each seen d rounds late while decisions go on.

    The reward of round t is seen before the decision of round t + 1 + d. Either `rounds`: d is
    fixed, 0 for at once; or `mean`: each d is drawn by itself, P(d) = q(1−q)^d with q = 1/(1 +
    mean). Rewards that would come after the horizon never do.
    """

    slug = "delayed"
    title = "Delayed"
    formula = "the reward of round t is seen before the decision of round t + 1 + d"

    def __init__(
        self,
        inner: Environment | dict[str, Any],
        rounds: int | None = None,
        mean: float | None = None,
    ) -> None:
        if (rounds is None) == (mean is None):
            raise ValueError(f"{self.slug}: give either rounds= or mean=")
        delay: Delay
        if mean is None:
            rounds = whole(self.slug, "rounds", rounds, 0)
            delay = ("fixed", rounds)
            parameters: dict[str, Any] = {"rounds": rounds}
        else:
            mean = _mean_delay(self.slug, mean)
            delay = ("geometric", mean)
            parameters = {"mean": mean}
        super().__init__(one_of(self.slug, "inner", inner), delay, parameters)


class Batched(_Late):
    """The rewards of another environment, seen together after every `size` decisions.

    Those of rounds jb + 1 … (j + 1)b are seen after round (j + 1)b, b = `size`.
    """

    slug = "batched"
    title = "Batched"
    formula = "rewards are seen together after every b-th decision"

    def __init__(self, inner: Environment | dict[str, Any], size: int) -> None:
        size = whole(self.slug, "size", size, 1)
        super().__init__(one_of(self.slug, "inner", inner), ("batch", size), {"size": size})


def _mean_delay(law: str, mean: Any) -> float:
    number = isinstance(mean, (int, float, np.number)) and not isinstance(mean, bool)
    if not number or not 0.0 <= mean <= 1e12:
        raise ValueError(f"{law}: mean must be a number in [0, 1e+12], not {mean!r}")
    return float(mean)


# --------------------------------------------------------------------------------------------------
# Records


class Replay(Environment):
    """A recorded table of rewards: `table[t − 1, a]` is what arm a pays at round t.

    In ``order="recorded"`` round t pays from row t, so that no horizon is longer than the table;
    with ``"resampled"`` each round pays from a row drawn with replacement. The means are those of
    the columns over the whole table: regret is against the arm that is best there. In recorded
    order no law of rewards is supposed and there is no asymptotic constant.
    """

    slug = "replay"
    title = "Replay"
    formula = "row t of a table, or a random row"

    def __init__(
        self,
        table: Sequence[Sequence[float]] | Array,
        order: str = "recorded",
        rewards: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        ends = interval(self.slug, rewards)
        rows = matrix(self.slug, "table", table, "a matrix of numbers, [rounds, arms]")
        if rows.shape[1] < 2:
            raise ValueError(f"{self.slug}: table must have at least 2 arms, not {rows.shape[1]}")
        if order not in ("recorded", "resampled"):
            raise ValueError(f"{self.slug}: order must be 'recorded' or 'resampled', not {order!r}")
        wrong = ~((rows >= ends[0]) & (rows <= ends[1]))
        if wrong.any():
            row, arm = (int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"{self.slug}: arm {arm} pays {float(rows[row, arm])!r} at round {row + 1}, not a "
                f"number in [{ends[0]:g}, {ends[1]:g}]"
            )
        means = [math.fsum(column) / len(rows) for column in rows.T.tolist()]
        variances = ((rows - means) ** 2).mean(axis=0)
        parameters = {"table": rows, "order": order, "rewards": list(ends)}
        binary = bool(np.isin(rows, ends).all())
        super().__init__(parameters, rows, np.clip(means, *ends), variances, ends, binary=binary)
        self._order = order
        self.rounds = len(rows) if order == "recorded" else None

    def __reduce__(self) -> Any:
        return remade, (type(self), self.parameters)

    @property
    def pay_kernel(self) -> Kernel:
        return pay_recorded if self._order == "recorded" else pay_resampled

    def asymptotic_constant(self) -> float:
        """That of the empirical laws of the columns, where rows are drawn from them."""
        return super().asymptotic_constant() if self._order == "resampled" else math.nan

    def _table(self, arm: int) -> tuple[Array, Array]:
        values, counts = np.unique(self.law[:, arm], return_counts=True)
        return values, counts / len(self.law)
