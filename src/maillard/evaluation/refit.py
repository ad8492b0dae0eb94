"""The bootstrap through the policy: the logged experiment simulated again, under other laws.

How an arm's mean errs on a log depends on the policy: it gave some arms up after bad luck, and let
others make good for it. Where the log says which policy wrote it, nothing of this need be assumed
away. For any laws of the rewards the very experiment can be run again: the same policy, rounds and
delays. A value of the target is then kept if, under laws that have it, experiments come out as far
from it as the logged one did, in more than α/2 of cases on either side.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np

from .moments import Array

#: How near to α/2 the probability of a tail is brought, in standard deviations of a normal law.
_CLOSE: Final = 0.02
#: So near to the end of its range, in units of the rewards' range, a value is taken as there.
_NO_FURTHER: Final = 1e-4
#: Simulated experiments are begun so many at a time: the engine's lanes.
_LANES: Final = 64


class Experiment(NamedTuple):
    """How a log came about, but for the laws of its rewards."""

    #: The policy as `maillard.simulation.specs` takes it.
    policy: dict[str, Any]
    rounds: int
    runs: int = 1
    delay: tuple[str, float] | None = None


def experiment_of(metadata: Mapping[str, Any], rows: int, whole: bool = True) -> Experiment | str:
    """The experiment that a log's metadata describe, or what is missing in them.

    `whole` is False where `rows` are those of one run.
    """
    name = metadata.get("policy")
    if not isinstance(name, str):
        return "needs a log whose metadata name the policy that wrote it, as those of collect do"
    horizon = metadata.get("horizon")
    rounds, runs = rows, 1
    if whole and isinstance(horizon, int) and rows > horizon > 0:
        rounds, runs = horizon, rows // horizon
        if rows % horizon:
            return (
                f"needs runs of {horizon:,} rounds, the horizon that the log states: {rows:,} rows "
                "are not so many times as long"
            )
    spec = {"policy": name, **dict(metadata.get("parameters") or {})}
    for key in ("rewards", "initial", "floor"):
        if metadata.get(key) is not None:
            spec[key] = metadata[key]
    if metadata.get("binarise"):
        spec["binarise"] = 0  # every simulated trial tosses coins of its own
    delay = metadata.get("delay")
    return Experiment(spec, rounds, runs, None if delay is None else (delay[0], delay[1]))


# --------------------------------------------------------------------------------------------------
# Laws


class Laws(NamedTuple):
    """A family of laws on [0, 1] for each arm: P_θ(x) ∝ base(x) exp(θ x), with any mean in (0, 1).

    The likelihood of an experiment in these families depends on each arm's number and sum of
    rewards alone, whatever the policy: Π_a exp(θ_a S_a − N_a κ_a(θ_a)).
    """

    #: Values and logarithms of their weights, [arm, value].
    values: Array
    log_base: Array
    #: The tilts at which the laws are those that the log suggests.
    centre: Array
    #: Whether rewards are 0 and 1 only: every law on {0, 1} is in the family then.
    binary: bool

    @classmethod
    def of_coins(cls, pulls: Array, totals: Array) -> "Laws":
        """Of rewards 0 and 1, the centre smoothed as Jeffreys' prior does: (S + ½)/(N + 1)."""
        values = np.tile([0.0, 1.0], (len(pulls), 1))
        centre = np.log((totals + 0.5) / (pulls - totals + 0.5))
        return cls(values, np.full_like(values, -math.log(2.0)), centre, True)

    @classmethod
    def of_values(cls, values: Array, counts: Array) -> "Laws":
        """Of any rewards in [0, 1]: values and how often each arm paid them, [arm, value].

        To what was seen one more reward is added, half of it at 0 and half at 1.
        """
        ends = np.tile([0.0, 1.0], (len(values), 1))
        weights = np.concatenate([counts, np.full_like(ends, 0.5)], axis=1)
        with np.errstate(divide="ignore"):
            log_base = np.log(weights / weights.sum(axis=1, keepdims=True))
        every = np.concatenate([values, ends], axis=1)
        return cls(every, log_base, np.zeros(len(values)), False)

    def cumulant(self, tilt: Array) -> Array:
        """κ(θ) of every arm."""
        powers = self.log_base + tilt[:, None] * self.values
        return np.asarray(np.logaddexp.reduce(powers, axis=1))

    def probabilities(self, tilt: Array) -> Array:
        """P_θ, [arm, value]."""
        powers = self.log_base + tilt[:, None] * self.values
        weights = np.exp(powers - powers.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def moments(self, tilt: Array) -> tuple[Array, Array]:
        """Means and variances."""
        p = self.probabilities(tilt)
        means = (p * self.values).sum(axis=1)
        return means, (p * (self.values - means[:, None]) ** 2).sum(axis=1)


# --------------------------------------------------------------------------------------------------
# Simulated experiments


class Block(NamedTuple):
    """Experiments simulated under one law: sums of each arm's rewards, scaled to [0, 1]."""

    tilt: Array
    cumulant: Array
    #: [experiment, arm]: number of rewards, sum, sum of squares.
    pulls: Array
    totals: Array
    squares: Array


class Pool:
    """Simulated experiments, of which each tells of all laws near its own.

    What experiments under one law are like follows from those under others by weighting each with
    its likelihood ratio, against the mixture of all laws that were simulated (Veach and Guibas's
    balance heuristic). In the ratio the policy's probabilities cancel.
    """

    def __init__(
        self, experiment: Experiment, rewards: tuple[float, float], arms: int, seed: int
    ) -> None:
        self.experiment, self.rewards, self.arms, self.seed = experiment, rewards, arms, seed
        #: How many blocks have been simulated: each has random numbers of its own.
        self.simulated = 0
        self.use([])

    def __len__(self) -> int:
        return len(self.pulls)

    def use(self, blocks: Sequence[Block]) -> None:
        """Hold these experiments and no others."""
        self.blocks = list(blocks)
        empty = np.zeros((0, self.arms))
        self.pulls, self.totals, self.squares = (
            np.concatenate([empty, *(block[column] for block in blocks)]) for column in (2, 3, 4)
        )
        mixture = np.full(len(self), -math.inf)
        for block in blocks:
            density = self._log_density(block.tilt, block.cumulant)
            np.logaddexp(mixture, density + math.log(len(block.pulls) / len(self)), out=mixture)
        self._log_mixture = mixture

    def add(self, laws: Laws, tilt: Array, count: int) -> None:
        """Simulate `count` experiments under P_θ, or a few more."""
        found = self._simulated(laws, tilt, -(-count // _LANES) * _LANES)
        self.simulated += 1
        self.use([*self.blocks, Block(tilt, laws.cumulant(tilt), *found)])

    def _simulated(self, laws: Laws, tilt: Array, count: int) -> tuple[Array, Array, Array]:
        from ..simulation.engine import program
        from ..simulation.specs import policy_for

        low, high = self.rewards
        runs = self.experiment.runs
        world = world_of(laws, tilt, self.rewards, self.experiment.delay)
        policy = policy_for(self.experiment.policy, world, self.experiment.rounds)
        sums = program(policy, world).sums(
            self.experiment.rounds, self.seed, first=self.simulated * 2**32, trials=count * runs
        )
        pulls, totals, squares = np.moveaxis(
            sums.reshape(count, runs, *sums.shape[1:]).sum(axis=1), -1, 0
        )
        width = high - low
        scaled = (totals - low * pulls) / width
        return pulls, scaled, (squares - 2.0 * low * totals + low**2 * pulls) / width**2

    def _log_density(self, tilt: Array, cumulant: Array) -> Array:
        return np.asarray(self.totals @ tilt - self.pulls @ cumulant)

    def weights(self, laws: Laws, tilt: Array) -> Array:
        """What each simulated experiment counts for under P_θ; they sum to 1."""
        log = self._log_density(tilt, laws.cumulant(tilt)) - self._log_mixture
        weights = np.exp(log - log.max())
        return np.asarray(weights / weights.sum())

    def size(self, laws: Laws, tilt: Array) -> float:
        """How many experiments under P_θ these are worth."""
        if not len(self):
            return 0.0
        log = self._log_density(tilt, laws.cumulant(tilt)) - self._log_mixture
        weights = np.exp(np.minimum(log, 300.0))
        total = float(weights.sum())
        if total == 0.0:
            return 0.0
        # They average 1, unless what is likely under P_θ has not been simulated at all.
        found = min(total / len(self), 1.0)
        return found * found * total / float(weights @ weights) * total


def world_of(
    laws: Laws,
    tilt: Array,
    rewards: tuple[float, float],
    delay: tuple[str, float] | None,
) -> Any:
    """The environment that pays by P_θ in the log's own units."""
    from ..environments.bounded import Bernoulli, Tabled
    from ..environments.scenarios import Batched, Delayed

    low, high = rewards
    if laws.binary and (low, high) == (0.0, 1.0):
        world: Any = Bernoulli(np.clip(laws.moments(tilt)[0], 0.0, 1.0).tolist())
    else:
        values = np.clip(low + (high - low) * laws.values, low, high)
        world = Tabled(values, laws.probabilities(tilt), rewards)
    if delay is None:
        return world
    kind, size = delay
    if kind == "batch":
        return Batched(world, size=int(size))
    return Delayed(world, **({"rounds": int(size)} if kind == "fixed" else {"mean": size}))


# --------------------------------------------------------------------------------------------------
# The interval


class Inversion:
    """The values of Σ π(a) μ_a that no test refutes, by arm means of one experiment.

    The tests go along the laws that are nearest to the centre for their value: tilts
    θ_a = centre + λ π(a)/(N_a + 1), which minimise the divergence (exponential tilting). Distances
    are (Σ π(a) μ̂_a − v) over its standard error: for coins as the law has it; else from the
    experiment's own rewards, since that their spread is not known is part of the error.
    """

    def __init__(
        self,
        pool: Pool,
        laws: Laws,
        weights: Array,
        pulls: Array,
        totals: Array,
        squares: Array,
        replicates: int,
    ) -> None:
        self.pool, self.laws, self.weights = pool, laws, weights
        self.pulls, self.totals, self.squares = pulls, totals, squares
        self.replicates = replicates
        variances = laws.moments(laws.centre)[1]
        self._unit = 1.0 / math.sqrt(float((weights**2 * variances / (pulls + 1.0)).sum()))

    def tilt(self, z: float) -> Array:
        """θ at about z standard errors from the centre."""
        return self.laws.centre + z * self._unit * self.weights / (self.pulls + 1.0)

    def value(self, z: float) -> float:
        """The target's value there."""
        return float(self.weights @ self.laws.moments(self.tilt(z))[0])

    def end(self, side: float, alpha: float) -> float:
        """The lower (side −1) or upper (side 1) end: there the tail's probability is `alpha`.

        The probability's own error counts against the interval's narrowness: one standard error
        is added to it.
        """
        level = -NormalDist().inv_cdf(alpha)
        furthest = float(side * np.maximum(side * self.weights, 0.0).sum())
        inside, outside, distance = 0.0, math.inf, level
        for _ in range(60):
            excess = level + self._probit(side * distance, side)
            if abs(excess) < _CLOSE:
                return self.value(side * distance)
            if excess > 0.0:
                inside = distance
            else:
                outside = distance
            if outside - inside < _CLOSE:
                break
            step = distance + excess
            if outside == math.inf:
                if abs(self.value(side * distance) - furthest) < _NO_FURTHER:
                    return furthest
                # A tail that hardly falls is that of laws which have almost reached their end.
                distance = max(step, 3.0 * distance) if excess > 3.0 else step
            else:
                margin = 0.2 * (outside - inside)
                distance = min(max(step, inside + margin), outside - margin)
        return self.value(side * outside) if outside < math.inf else furthest

    def _probit(self, z: float, side: float) -> float:
        """The normal quantile of the tail's probability at z, or a little more."""
        tilt = self.tilt(z)
        short = self.replicates - self.pool.size(self.laws, tilt)
        if short > 0.1 * self.replicates:
            self.pool.add(self.laws, tilt, math.ceil(max(short, 0.25 * self.replicates)))
        return NormalDist().inv_cdf(min(self._tail(tilt, side), 1.0 - 1e-9))

    def _tail(self, tilt: Array, side: float) -> float:
        means, variances = self.laws.moments(tilt)
        pool = self.pool
        ours = self._distance(self.pulls, self.totals, self.squares, means, variances)
        theirs = self._distance(pool.pulls, pool.totals, pool.squares, means, variances)
        # As far out, on the side on which this value is not; or not to be told.
        slack = 1e-9 * max(1.0, abs(float(ours)))
        beyond = ~(theirs > ours + slack) if side > 0.0 else ~(theirs < ours - slack)
        weights = pool.weights(self.laws, tilt)
        p = float(weights[beyond].sum())
        squared = weights * weights
        error = math.sqrt(
            float(squared[beyond].sum()) * (1.0 - p) ** 2 + float(squared[~beyond].sum()) * p**2
        )
        return p + max(error, float(squared.sum()))

    def _distance(
        self, pulls: Array, totals: Array, squares: Array, means: Array, variances: Array
    ) -> Array:
        """(estimate − v)/error of one experiment or many; NaN where an arm was not played."""
        used = self.weights != 0.0
        pi, n, s = self.weights[used], pulls[..., used], totals[..., used]
        m, spread = means[used], variances[used]
        if not self.laws.binary:
            about = squares[..., used] - 2.0 * m * s + m * m * n
            spread = (np.maximum(about, 0.0) + spread) / (n + 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt((pi * pi * spread / n).sum(axis=-1))
            return np.asarray(((s / n - m) @ pi) / error)
