"""Confidence sequences: intervals that hold at every time at once, whatever policy wrote the log.

In the order of its pulls, an arm's rewards are a stream whose next mean is always μ_a, whichever
rule decides when to pull. A sequence for the mean of such a stream is right at the random number of
pulls that a log happens to have, and needs no propensities.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arms import ArmMeans
from .diagnostics import Diagnostics
from .estimators import Estimator, Point
from .intervals import Ends, Interval, nothing
from .moments import Array
from .rows import Rows

#: Rows that the betting sequences keep in memory at most.
ROWS_KEPT: Final = 5_000_000
#: Factors that are multiplied before a logarithm is taken; each is between 1e-2 and 1e18.
_CHUNK: Final = 16


def kt_interval(pulls: Any, totals: Any, alpha: float) -> tuple[Array, Array]:
    """Krichevsky-Trofimov's mixture: means in [0, 1] that no bet at odds μ has refuted.

    Excludes μ once B(S+½, N−S+½)/B(½,½) ≥ (1/α) μ^S (1−μ)^(N−S). The mixture of likelihood ratios
    is a martingale for Bernoulli rewards and a supermartingale for all others in [0, 1], so the
    true mean is ever excluded with probability at most α (Ville). Arrays are taken entry by entry.
    """
    from scipy.special import betaln, rel_entr, xlogy

    n = np.asarray(pulls, dtype=np.float64)
    s = np.clip(np.asarray(totals, dtype=np.float64), 0.0, n)
    pulled = np.maximum(n, 1.0)
    mean = s / pulled
    entropy = xlogy(s, mean) + xlogy(n - s, 1.0 - mean)
    budget = math.log(1.0 / alpha) + entropy - betaln(s + 0.5, n - s + 0.5) + math.log(math.pi)
    # Excluded where N kl(mean, μ) ≥ budget: bisection on both sides at once, kept on the outside.
    outside = np.stack([np.zeros_like(mean), np.ones_like(mean)])
    inside = np.stack([mean, mean])
    for _ in range(60):
        middle = 0.5 * (outside + inside)
        refuted = pulled * (rel_entr(mean, middle) + rel_entr(1.0 - mean, 1.0 - middle)) >= budget
        outside = np.where(refuted, middle, outside)
        inside = np.where(refuted, inside, middle)
    low, high = outside
    return np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)


class ArmBounds(NamedTuple):
    """Intervals for the means of all arms, and so for the best one's, simultaneously."""

    low: Array
    high: Array

    @property
    def best_mean(self) -> tuple[float, float]:
        """An interval for the largest mean."""
        return float(self.low.max()), float(self.high.max())

    @property
    def best_arms(self) -> NDArray[np.bool_]:
        """Whether each arm can still be the best one."""
        return np.asarray(self.high >= self.low.max())


def arm_bounds(
    pulls: Any, totals: Any, level: float = 0.95, rewards: tuple[float, float] = (0.0, 1.0)
) -> ArmBounds:
    """Intervals for all arm means at once, at any stopping time: α/K for each arm."""
    low, high = rewards
    n = np.asarray(pulls, dtype=np.float64)
    scaled = (np.asarray(totals, dtype=np.float64) - low * n) / (high - low)
    ends = kt_interval(n, scaled, (1.0 - level) / len(n))
    return ArmBounds(low + (high - low) * ends[0], low + (high - low) * ends[1])


class _Combined(Interval):
    """Arms at α/K each, K the arms that the target wants; then Σ π(a) [L_a, U_a]."""

    anytime = True
    ranged = True

    def obstacle(self, estimator: Estimator) -> str:
        if not isinstance(estimator, ArmMeans):
            return "is for dm"
        return self.range_obstacle()

    def _combined(self, weights: Array, bounds: tuple[Array, Array]) -> Ends:
        """Of a contrast weights may be negative: then the ends change places."""
        low, high = self.range
        up, down = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
        shift = low * float(weights.sum())
        return Ends(
            shift + (high - low) * float(up @ bounds[0] + down @ bounds[1]),
            shift + (high - low) * float(up @ bounds[1] + down @ bounds[0]),
        )


class KTSequence(_Combined):
    """The Krichevsky-Trofimov mixture for every arm: pulls and totals are all that it needs."""

    name = "kt"
    title = "confidence sequence, KT mixture"
    reference = "Robbins (1970); Krichevsky and Trofimov (1981); union over the arms"

    def ends(self, estimator: Estimator, point: Point, state: Any, seen: Diagnostics) -> Ends:
        if point.arms is None:
            return nothing("there are no rows")
        pulls, mean, _, weights = point.arms
        used = weights != 0.0
        alpha = self.alpha / max(int(used.sum()), 1)
        scaled = self.scaled(np.where(pulls > 0, mean, 0.0))
        return self._combined(weights, kt_interval(pulls, pulls * scaled, alpha))


class _Stream(NamedTuple):
    arm: Any
    reward: Array


class HedgedBetting(_Combined):
    """Two gamblers for every arm, one betting on more than μ, one on less; who gets rich refutes μ.

    Narrower than the KT mixture where rewards vary less than a coin's. Keeps the rewards in memory.
    """

    name = "betting"
    title = "confidence sequence, hedged betting"
    reference = "Waudby-Smith and Ramdas (2024); union over the arms"

    def obstacle(self, estimator: Estimator) -> str:
        if self.conditions.setting.rows > ROWS_KEPT:
            return f"keeps rewards in memory, at most {ROWS_KEPT:,} rows; kt does not"
        return super().obstacle(estimator)

    def start(self, estimators: Mapping[str, Estimator]) -> tuple[_Stream, ...]:
        return ()

    def step(
        self, state: tuple[_Stream, ...], rows: Rows, estimators: Mapping[str, Estimator]
    ) -> tuple[_Stream, ...]:
        return (*state, _Stream(np.array(rows.arm), np.array(rows.reward)))

    def merge(self, left: tuple[_Stream, ...], right: tuple[_Stream, ...]) -> tuple[_Stream, ...]:
        return left + right

    def ends(self, estimator: Estimator, point: Point, state: Any, seen: Diagnostics) -> Ends:
        if point.arms is None or not state:
            return nothing("there are no rows")
        weights = point.arms.weights
        used = np.flatnonzero(weights)
        arm = np.concatenate([piece.arm for piece in state])
        reward = self.scaled(np.concatenate([piece.reward for piece in state]))
        low, high = np.zeros(len(weights)), np.ones(len(weights))
        for a in used:
            low[a], high[a] = hedged_interval(reward[arm == a], self.alpha / len(used))
        return self._combined(weights, (low, high))


def hedged_interval(x: Array, alpha: float) -> tuple[float, float]:
    """The hedged capital process for one stream in [0, 1], at its end.

    Bets are λ_t = √(2 ln(2/α)/(σ̂²_{t−1} t ln(1+t))), at most ½/m for and ½/(1−m) against. Either
    capital is then monotone in m, so the ends are found by bisection, without a grid.
    """
    if len(x) == 0:
        return 0.0, 1.0
    t = np.arange(1.0, len(x) + 1.0)
    mean = (0.5 + np.cumsum(x)) / (t + 1.0)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (t + 1.0)
    before = np.concatenate([[0.25], variance[:-1]])
    bet = np.sqrt(2.0 * math.log(2.0 / alpha) / (before * t * np.log1p(t)))
    goal = math.log(2.0 / alpha)

    def least(y: Array) -> float:
        return _last_refuted(
            lambda m: _log_product(1.0 + np.minimum(bet, 0.5 / m) * (y - m)) - goal
        )

    return least(x), 1.0 - least(1.0 - x)


def _log_product(factors: Array) -> float:
    """ln Π factors, with few logarithms."""
    whole = len(factors) // _CHUNK * _CHUNK
    products = factors[:whole].reshape(_CHUNK, -1).prod(axis=0)
    return float(np.log(products).sum() + np.log(factors[whole:]).sum())


def _last_refuted(
    excess: Callable[[float], float], start: float = 1e-9, tolerance: float = 1e-9
) -> float:
    """A point where a falling function is at least 0, less than the tolerance from one where not.

    Between `start` and 1, and 0 if the function is negative from the start. Bisection, with inverse
    quadratic interpolation in its place where the last three points allow it (Chandrupatla 1997).
    """
    old, new = start, 1.0
    f_old, f_new = excess(old), excess(new)
    if f_old < 0.0:
        return 0.0
    if f_new >= 0.0:
        return 1.0
    share, steps = 0.5, 0
    while abs(new - old) >= tolerance:
        x = new + share * (old - new)
        f = excess(x)
        # The root stays between `old` and `new`; `third` is the point that was given up last.
        if (f >= 0.0) == (f_new >= 0.0):
            third, f_third = new, f_new
        else:
            third, f_third, old, f_old = old, f_old, new, f_new
        new, f_new, steps = x, f, steps + 1
        xi, phi = (new - old) / (third - old), (f_new - f_old) / (f_third - f_old)
        share = 0.5
        if phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi and steps < 40:
            share = f_new / (f_old - f_new) * f_third / (f_old - f_third)
            share += (
                (third - new) / (old - new)
                * f_new / (f_third - f_new) * f_old / (f_third - f_old)
            )  # fmt: skip
            least = 0.4 * tolerance / abs(old - new)
            share = min(max(share, least), 1.0 - least)
    return new if f_new >= 0.0 else old


# --------------------------------------------------------------------------------------------------
# Weighted rows


#: Ceilings k of the prediction's part: 0 is plain weighting, larger ones use more of it.
_CEILINGS: Final = (0.0, 1.0, 4.0, 16.0)
#: Shares of the capital that are bet.
_SHARES: Final = tuple(0.9 * 2.0**-j for j in range(10))
#: Pseudo-outcomes above this count as this much, which can only lower a lower bound.
_HIGHEST: Final = 1e12
#: Factors that are worked on at a time.
_ROOM: Final = 1 << 16
#: Capitals whose logarithm is so far below the goal are nothing beside it.
_NOTHING: Final = 60.0


def pseudo_outcomes(
    rows: Rows, rewards: tuple[float, float], ceiling: float
) -> tuple[Array, Array]:
    """φ^L and φ^U: terms of at least −k whose conditional means are ν and 1 − ν, in scaled rewards.

    φ = w (r − min(q(A), k/w)) + Σ_a π(a) min(q(a), k/w(a)), where every arm in the sum has its own
    w(a) = π(a)/p(a). (With the realised weight in all terms of the sum the mean would be wrong.)
    """
    low, high = rewards
    assert rows.probabilities is not None
    assert rows.distribution is not None
    pi = rows.distribution if rows.distribution.ndim == 2 else rows.distribution[:, None]
    reward = (rows.reward - low) / (high - low)
    weight, room = rows.weight, ceiling * rows.probabilities
    found = []
    for flip in (False, True):
        r = 1.0 - reward if flip else reward
        if ceiling == 0.0:
            found.append(weight * r)
            continue
        means = np.clip((rows.means - low) / (high - low), 0.0, 1.0)
        predicted = np.clip((rows.predicted - low) / (high - low), 0.0, 1.0)
        if flip:
            means, predicted = 1.0 - means, 1.0 - predicted
        expected = np.minimum(pi * means, room).sum(axis=0)
        found.append(weight * r - np.minimum(weight * predicted, ceiling) + expected)
    return found[0], found[1]


class DoublyRobustBetting(Interval):
    """A mixture of gamblers who bet constant shares of their capital on doubly robust terms.

    Every gambler stakes λ(ν) = c/(ν + k) on φ − ν, which is never below −(ν + k): his capital falls
    in ν and is a supermartingale at the truth, and so is the mixture over shares c and ceilings k.
    No bound on the weights is needed.
    """

    name = "dr-betting"
    title = "confidence sequence, doubly robust betting"
    reference = "Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro (2022)"
    anytime = True
    ranged = True

    def obstacle(self, estimator: Estimator) -> str:
        conditions = self.conditions
        if estimator.name != "aipw":
            return "is for aipw"
        if not conditions.probabilities:
            return "needs the probabilities of all arms in every row"
        if conditions.setting.contrast or conditions.setting.weights is None:
            return "needs one fixed target"
        if conditions.setting.rows > ROWS_KEPT:
            return f"keeps rows in memory, at most {ROWS_KEPT:,}"
        return self.range_obstacle()

    def start(self, estimators: Mapping[str, Estimator]) -> tuple[Array, ...]:
        return ()

    def step(
        self, state: tuple[Array, ...], rows: Rows, estimators: Mapping[str, Estimator]
    ) -> tuple[Array, ...]:
        both = [pseudo_outcomes(rows, self.range, k) for k in _CEILINGS]
        terms = np.array(both)  # [ceiling, side, row]
        if rows.impossible is not None:
            terms = terms[:, :, ~rows.impossible]
        return (*state, terms)

    def merge(self, left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
        return left + right

    def ends(self, estimator: Estimator, point: Point, state: Any, seen: Diagnostics) -> Ends:
        if not state:
            return nothing("there are no rows")
        terms = np.concatenate(state, axis=2)
        low, high = self.range
        scale = high - low
        low += scale * lower_bound(terms[:, 0], self.alpha / 2.0)
        high -= scale * lower_bound(terms[:, 1], self.alpha / 2.0)
        if low > high:
            return nothing("the two one-sided bounds exclude every value")
        return Ends(low, high)


def lower_bound(terms: Array, alpha: float) -> float:
    """The largest ν in [0, 1] that the mixture's capital refutes; `terms[ceiling, row]`."""
    goal = math.log(len(_CEILINGS) * len(_SHARES) / alpha)
    ceilings = np.array(_CEILINGS)
    stakes = np.minimum(terms + ceilings[:, None], _HIGHEST)
    rows = stakes.shape[1]
    if rows == 0:
        return 0.0
    # Rows in groups of _CHUNK, filled up with terms that leave every capital as it is.
    groups = -(-rows // _CHUNK)
    padded = np.zeros((len(ceilings), groups * _CHUNK))
    padded[:, :rows] = stakes
    padded = padded.reshape(len(ceilings), _CHUNK, groups)
    filling = groups * _CHUNK - rows
    gamblers = {k: np.array(_SHARES) for k in range(len(ceilings))}
    # Few rows leave room for several gamblers' factors in the processor's cache.
    together = max(1, _ROOM // (groups * _CHUNK))
    room = np.empty((together, _CHUNK, groups))

    def excess(nu: float) -> float:
        """The logarithm of the mixture's capital, above the goal."""
        logs = {k: np.empty(len(shares)) for k, shares in gamblers.items()}
        for k, shares in gamblers.items():
            for first in range(0, len(shares), together):
                some = shares[first : first + together, None, None]
                factors = room[: len(some)]
                np.multiply(padded[k], some / (nu + _CEILINGS[k]), out=factors)
                np.add(factors, 1.0 - some, out=factors)
                products = np.multiply.reduce(factors, axis=1)
                logs[k][first : first + together] = np.log(products, out=products).sum(axis=1)
            logs[k] -= filling * np.log1p(-shares)
        found = float(np.logaddexp.reduce(np.concatenate([*logs.values()]))) - goal
        if found >= 0.0:
            # Capitals fall in ν: who has nothing here counts for nothing at larger values.
            for k, shares in gamblers.items():
                gamblers[k] = shares[logs[k] > goal - _NOTHING]
        return found

    return _last_refuted(excess, start=1e-6, tolerance=2.0**-24)
