"""Estimators that go arm by arm: arm means, and adaptively weighted AIPW."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .estimators import ArmSums, Estimator, Point, Ratio, Setting, standard_error
from .moments import Array, Moments
from .rows import Rows, counted


class _ArmState(NamedTuple):
    pulls: Array
    mean: Array
    squares: Array
    #: Rows, and the sum over them of the target's distribution (of a contrast, the difference).
    rows: int
    mass: Array


class ArmMeans(Estimator):
    """The direct method without context: every arm's mean reward, averaged under the target.

    Uses no propensities and every row. Arms that the policy gave up early have means a little too
    low, by O(1/N_a); no other estimator has a smaller error on logs of learning policies.
    """

    name = "dm"
    title = "arm means (direct method)"
    formula = "Σ_a π(a) μ̂_a"
    reference = "the sample means"
    contextual = "no"

    def start(self) -> _ArmState:
        zeros = np.zeros(self.setting.arms)
        return _ArmState(zeros, zeros, zeros, 0, zeros)

    def step(self, state: _ArmState, rows: Rows) -> _ArmState:
        arms, n = self.setting.arms, len(rows)
        pulls = counted(rows.arm, arms)
        mean = np.bincount(rows.arm, rows.reward, arms) / np.maximum(pulls, 1.0)
        deviation = rows.reward - mean[rows.arm]
        squares = np.asarray(np.bincount(rows.arm, deviation * deviation, arms), dtype=np.float64)
        mass = np.zeros(arms) if self.setting.weights is not None else _mass(rows)
        return self.merge(state, _ArmState(pulls, mean, squares, n, mass))

    def merge(self, left: _ArmState, right: _ArmState) -> _ArmState:
        pulls = left.pulls + right.pulls
        share = right.pulls / np.maximum(pulls, 1.0)
        step = right.mean - left.mean
        return _ArmState(
            pulls,
            left.mean + step * share,
            left.squares + right.squares + step * step * left.pulls * share,
            left.rows + right.rows,
            left.mass + right.mass,
        )

    def finish(self, state: _ArmState) -> Point:
        weights = self.setting.weights
        if weights is None:
            weights = state.mass / max(state.rows, 1)
        mean = np.where(state.pulls > 0, state.mean, math.nan)
        arms = ArmSums(state.pulls, mean, state.squares, weights)
        used = weights != 0.0
        estimate = float(weights[used] @ mean[used])
        pulls, squares = state.pulls[used], state.squares[used]
        if np.any(pulls < 2):
            return Point(estimate, math.nan, rows=state.rows, arms=arms)
        parts = weights[used] ** 2 * squares / (pulls - 1) / pulls
        total = float(parts.sum())
        # Welch and Satterthwaite's degrees of freedom for a sum of independent means.
        spread = float((parts**2 / (pulls - 1)).sum())
        freedom = total**2 / spread if spread > 0.0 else float(pulls.sum() - len(pulls))
        return Point(estimate, math.sqrt(total), freedom, state.rows, arms)

    def columns(self, rows: Rows) -> Array:
        """What `of_means` wants the means of: each arm's rows, and their rewards."""
        picked = rows.arm == np.arange(self.setting.arms)[:, None]
        return np.concatenate([picked.astype(np.float64), np.where(picked, rows.reward, 0.0)])

    def of_means(self, means: Array) -> Any:
        """The estimate from the means of `columns`, along the last axis."""
        weights = self.setting.weights
        assert weights is not None
        used = np.flatnonzero(weights)
        return (means[..., used + self.setting.arms] / means[..., used]) @ weights[used]


def _mass(rows: Rows) -> Array:
    assert rows.distribution is not None
    found = _summed(rows.distribution, len(rows))
    if rows.other is not None:
        assert rows.other.distribution is not None
        found = found - _summed(rows.other.distribution, len(rows))
    return found


def _summed(distribution: Array, n: int) -> Array:
    return distribution * float(n) if distribution.ndim == 1 else distribution.sum(axis=1)


class _WeightedState(NamedTuple):
    moments: Moments
    #: What is left of each arm's stick.
    left: Array


class _ArmWeighted(Estimator):
    """AIPW for each arm with rounds weighted by h_t, which only the past and p_t decide.

    G_t(a) = q(a) + 1{A=a} (r − q(a))/p_t(a);  Q̂(a) = Σ h G / Σ h;
    error² = Σ_t (Σ_a π(a) h_t(a) (G_t(a) − Q̂(a)) / Σ h(a))².

    Stick breaking spends h_t²/p_t = λ_t · (what is left), so a piece is computed as if nothing had
    been spent before it, and scaled by what had when it is merged.
    """

    needs_probabilities = True
    needs_fixed_target = True
    contextual = "no"
    reference = "Hadad, Hirshberg, Zhan, Wager and Athey (2021)"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        weights = np.zeros(setting.arms) if setting.weights is None else setting.weights
        self._used = np.flatnonzero(weights)
        self._weights = weights[self._used]

    def _spent(self, p: Array, t: Array) -> Array | None:
        """λ, the share of what is left of each stick that round t spends; None: h_t = p_t."""
        raise NotImplementedError

    def start(self) -> _WeightedState:
        size = len(self._used)
        return _WeightedState(Moments.empty(2 * size), np.ones(size))

    def step(self, state: _WeightedState, rows: Rows) -> _WeightedState:
        assert rows.probabilities is not None
        everything = len(self._used) == rows.arms
        p = rows.probabilities if everything else rows.probabilities[self._used]
        score = rows.means.copy() if everything else rows.means[self._used]
        surprise = (rows.reward - rows.predicted) / rows.propensity
        for i, a in enumerate(self._used):
            mine = rows.by_arm[a]
            score[i, mine] += surprise[mine]
        t = np.arange(rows.first + 1.0, rows.first + len(rows) + 1.0)
        spent = self._spent(p, t)
        left: Array = np.ones(len(p))
        if spent is None:
            h = p
        else:
            kept = np.cumprod(1.0 - spent, axis=1)
            spent[:, 1:] *= kept[:, :-1]
            h = np.asarray(np.sqrt(p * spent))
            left = np.array(kept[:, -1])
        score *= h
        moments = Moments.of([*h, *score])
        return self.merge(state, _WeightedState(moments, left))

    def merge(self, left: _WeightedState, right: _WeightedState) -> _WeightedState:
        scale = np.sqrt(np.tile(left.left, 2))
        moments = left.moments.merged(right.moments.scaled(scale))
        return _WeightedState(moments, left.left * right.left)

    def finish(self, state: _WeightedState) -> Point:
        h, weighted = np.split(state.moments.mean, 2)
        if not np.all(h > 0.0):
            return Point(math.nan, math.nan)
        q = weighted / h
        gradient = np.concatenate([-self._weights * q / h, self._weights / h])
        error = standard_error(state.moments, gradient)
        return Point(float(self._weights @ q), error, rows=state.moments.n)


class PropensityWeighted(_ArmWeighted):
    """Rounds count for an arm as much as it was likely."""

    name = "aw-aipw-propensity"
    title = "AIPW weighted by propensity"
    formula = "Σ_a π(a) Σ h G(a) / Σ h, h = p(a)"

    def _spent(self, p: Array, t: Array) -> None:
        return None


class ConstantAllocation(_ArmWeighted):
    """Every round adds the same variance: h ∝ √p."""

    name = "aw-aipw-constant"
    title = "AIPW, constant allocation"
    formula = "Σ_a π(a) Σ h G(a) / Σ h, h²/p = λ · rest, λ_t = 1/(T − t + 1)"

    def _spent(self, p: Array, t: Array) -> Array:
        return np.tile(1.0 / (self.setting.rows - t + 1.0), (len(p), 1))


class TwoPointAllocation(_ArmWeighted):
    """Stays between two futures: p stays as it is, or falls to its floor like t^−0.7."""

    name = "aw-aipw-two-point"
    title = "AIPW, two-point allocation"
    formula = (
        "Σ_a π(a) Σ h G(a) / Σ h, h²/p = λ · rest, "
        "λ_t = p/(T − t + 1) + (1 − p)(1 − α)/(1 − α + T (t/T)^α − t), α = 0.7"
    )
    decay: ClassVar[float] = 0.7

    def _spent(self, p: Array, t: Array) -> Array:
        horizon, rest = float(self.setting.rows), 1.0 - self.decay
        stays = 1.0 / (horizon - t + 1.0)
        falls = rest / (rest + horizon * (t / horizon) ** self.decay - t)
        spent = falls + p * (stays - falls)
        return np.clip(spent, 0.0, 1.0, out=spent)


class CADR(Ratio):
    """Rounds weighted by one over their standard deviation, estimated from the rows before.

    The published sum over all earlier rows is, for arms without context, one over the arms: O(T K)
    in place of O(T²).
    """

    name = "cadr"
    title = "contextual adaptive doubly robust"
    formula = "Σ D/σ̂ / Σ 1/σ̂, D = v + w (r − q(A))"
    reference = "Bibaut, Dimakopoulou, Kallus, Chambaz and van der Laan (2021)"
    needs_probabilities = True
    needs_fixed_target = True
    contextual = "no"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting._replace(contrast=False))

    def columns(self, rows: Rows) -> Sequence[Array]:
        value, weight = rows.value, rows.weight
        if rows.other is not None:
            value, weight = value - rows.other.value, weight - rows.other.weight
        score = value + weight * (rows.reward - rows.predicted)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            h = 1.0 / np.sqrt(self._variance(rows, value))
        h[~np.isfinite(h)] = 0.0
        return [h, h * score]

    def _variance(self, rows: Rows, value: Array) -> Array:
        """σ̂² before each row: that of D, had p_t been the probabilities of all earlier rows."""
        assert rows.probabilities is not None
        assert self.setting.weights is not None
        first, second = np.zeros(len(rows)), np.zeros(len(rows))
        inverse = 1.0 / rows.propensity
        for a, pi in enumerate(self.setting.weights):
            p, q = rows.probabilities[a], rows.means[a]
            mine = np.where(rows.arm == a, inverse, 0.0)
            ones, totals, squares = (
                _before(column, start)
                for column, start in zip(
                    (mine, mine * rows.reward, mine * rows.reward**2), rows.history.inverse[:, a]
                )
            )
            miss = totals - q * ones  # Σ (r − q)/p over the arm's earlier rows
            first += p * value * ones + pi * miss
            second += p * value**2 * ones + 2.0 * value * pi * miss
            if pi != 0.0:
                second += pi**2 / p * (squares - 2.0 * q * totals + q**2 * ones)
        earlier = np.arange(rows.first, rows.first + len(rows))
        return np.asarray(second / earlier - (first / earlier) ** 2)

    def finish(self, state: Moments) -> Point:
        return super().finish(state) if state.mean[0] > 0.0 else Point(math.nan, math.nan)


def _before(column: Array, start: float) -> Array:
    """The sum of `start` and all earlier entries."""
    sums = np.empty(len(column))
    sums[0] = start
    sums[1:] = column[:-1]
    return np.cumsum(sums)
