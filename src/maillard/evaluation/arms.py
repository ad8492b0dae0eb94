"""Estimators that go arm by arm: arm means, and adaptively weighted AIPW."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .estimators import (
    ArmSums,
    Estimator,
    Point,
    Ratio,
    Setting,
    doubly_robust,
    standard_error,
    wanted,
)
from .moments import Array, Moments, centred, dot, products, running
from .rows import FEW, Rows, added, lengths_of

#: Numbers in an [arms, rows] array that is worked on at a time: a few of them stay in the cache.
_CACHED: Final = 1 << 16
#: How far the mean of equal numbers can be from them, relatively, when they are added up in turn.
_INDISTINCT: Final = 2.0**-36
#: A variance below this share of the second moment is rounding: zero, as when all rows before are
#: alike. One over its root would outweigh all other rounds.
_ROUNDING: Final = 1e-12
#: Rows that are worked on at a time, at least, however many arms there are.
_SHORTEST: Final = 256


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
        mean, squares = self._one_by_one(rows) if arms <= FEW else self._together(rows)
        mass = np.zeros(arms) if self.setting.weights is not None else _mass(rows)
        return self.merge(state, _ArmState(rows.pulls, mean, squares, n, mass))

    def _one_by_one(self, rows: Rows) -> tuple[Array, Array]:
        """Every arm's mean and Σ (reward − mean)², of few arms."""
        mean, squares = np.zeros(rows.arms), np.zeros(rows.arms)
        for a, paid in enumerate(rows.paid):
            if len(paid):
                mean[a], deviation = centred(paid)
                squares[a] = dot(deviation, deviation)
        return mean, squares

    def _together(self, rows: Rows) -> tuple[Array, Array]:
        """The same of many arms, without going through them one by one."""
        pulls = np.maximum(rows.pulls, 1.0)
        centre = added(rows.arm, rows.reward, rows.arms) / pulls
        # Where all rewards of an arm are the same, the centre is that reward and not beside it.
        example = np.zeros(rows.arms)
        example[rows.arm] = rows.reward
        close = np.abs(centre - example) <= _INDISTINCT * np.abs(centre)
        centre = np.where(close, example, centre)
        deviation = rows.reward - np.take(centre, rows.arm)
        off = added(rows.arm, deviation, rows.arms) / pulls
        deviation *= deviation
        squares = added(rows.arm, deviation, rows.arms) - pulls * off**2
        return centre + off, np.maximum(squares, 0.0)

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
    #: Whether the target ever wanted each arm.
    wanted: NDArray[np.bool_]


class _ArmWeighted(Estimator):
    """AIPW for each arm with rounds weighted by h_t, which only the past and p_t decide.

    G_t(a) = q(a) + 1{A=a} (r − q(a))/p_t(a);  Q̂(a) = Σ h G / Σ h;
    error² = Σ_t (Σ_a π(a) h_t(a) (G_t(a) − Q̂(a)) / Σ h(a))².

    Stick breaking spends h_t²/p_t = λ_t · (what is left), so a piece is computed as if nothing had
    been spent before it, and scaled by what had when it is merged.

    With a context h must not depend on it, so neither may p. Where the target does, π(x, a) G(a)
    takes the place of G(a), and the weights of the arms are 1.
    """

    needs_probabilities = True
    needs_fixed_target = True
    needs_blind = True
    reference = "Hadad, Hirshberg, Zhan, Wager and Athey (2021)"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        weights = np.ones(setting.arms) if setting.weights is None else setting.weights
        self._used = np.flatnonzero(weights)
        self._weights = weights[self._used]
        #: Where each arm stands among those that are used; −1: nowhere.
        self._places = np.full(setting.arms, -1)
        self._places[self._used] = np.arange(len(self._used))

    def _weigh(self, p: Array, t: Array, left: Array, out: Array) -> Array:
        """Write h of the rounds t into `out`; what is left of the sticks after them."""
        raise NotImplementedError

    def start(self) -> _WeightedState:
        size = len(self._used)
        return _WeightedState(
            Moments.empty(2 * size), np.ones(size), np.zeros(size, dtype=np.bool_)
        )

    def step(self, state: _WeightedState, rows: Rows) -> _WeightedState:
        arms, n = len(self._used), len(rows)
        target = wanted(rows) if self.setting.weights is None else None
        left, centre = np.ones(arms), np.zeros(2 * arms)
        # Sums and products of deviations from a centre that is near to the mean.
        sums, crossed = np.zeros(2 * arms), np.zeros((2 * arms, 2 * arms))
        size = max(_SHORTEST, _CACHED // arms)
        for start in range(0, n, size):
            part = slice(start, min(n, start + size))
            table = np.empty((2 * arms, part.stop - start))
            left = self._fill(table, rows, part, target, left)
            if start == 0:
                centre = table.mean(axis=1)
            table -= centre[:, None]
            sums += table.sum(axis=1)
            crossed += products(table, table)
        apart = sums / n
        moments = Moments(n, centre + apart, crossed - np.outer(apart, sums))
        ever = np.ones(arms, dtype=np.bool_) if target is None else np.any(target != 0.0, axis=1)
        return self.merge(state, _WeightedState(moments, left, ever))

    def _fill(
        self, table: Array, rows: Rows, part: slice, target: Array | None, left: Array
    ) -> Array:
        """Write h and h G, or h π G, of all arms in some rows; what is left of the sticks then."""
        assert rows.probabilities is not None
        used = slice(None) if len(self._used) == rows.arms else self._used
        h, score = np.split(table, 2)
        t = np.arange(rows.first + part.start + 1.0, rows.first + part.stop + 1.0)
        left = self._weigh(rows.probabilities[used, part], t, left, h)
        score[:] = rows.means[used, part]
        self._add_surprise(score, rows, part)
        if target is not None:
            score *= target if target.shape[1] == 1 else target[:, part]
        score *= h
        return left

    def _add_surprise(self, score: Array, rows: Rows, part: slice) -> None:
        """Where an arm was played, what it paid beyond its prediction counts too."""
        arm, predicted = rows.arm[part], rows.predicted[part]
        own = (rows.reward[part] - predicted) / rows.propensity[part] + predicted
        place, position = self._places[arm], np.arange(len(arm))
        if len(score) < rows.arms:
            mine = np.flatnonzero(place >= 0)
            own, place, position = own[mine], place[mine], position[mine]
        score.reshape(-1)[place * len(arm) + position] = own

    def merge(self, left: _WeightedState, right: _WeightedState) -> _WeightedState:
        scale = np.sqrt(np.tile(left.left, 2))
        moments = left.moments.merged(right.moments.scaled(scale))
        return _WeightedState(moments, left.left * right.left, left.wanted | right.wanted)

    def finish(self, state: _WeightedState) -> Point:
        h, weighted = np.split(state.moments.mean, 2)
        if not np.all((h > 0.0) | ~state.wanted) or state.moments.n == 0:
            return Point(math.nan, math.nan)
        h = np.where(state.wanted, h, 1.0)
        q = weighted / h
        gradient = np.concatenate([-self._weights * q / h, self._weights / h])
        error = standard_error(state.moments, gradient)
        return Point(float(self._weights @ q), error, rows=state.moments.n)


class PropensityWeighted(_ArmWeighted):
    """Rounds count for an arm as much as it was likely."""

    name = "aw-aipw-propensity"
    title = "AIPW weighted by propensity"
    formula = "Σ_a π(a) Σ h G(a) / Σ h, h = p(a)"

    def _weigh(self, p: Array, t: Array, left: Array, out: Array) -> Array:
        out[:] = p
        return left


class ConstantAllocation(_ArmWeighted):
    """Every round adds the same variance: h ∝ √p."""

    name = "aw-aipw-constant"
    title = "AIPW, constant allocation"
    formula = "Σ_a π(a) Σ h G(a) / Σ h, h²/p = λ · rest, λ_t = 1/(T − t + 1)"

    def _weigh(self, p: Array, t: Array, left: Array, out: Array) -> Array:
        # What a round spends, λ_t times the rest before it, is the same in all of them.
        rounds = self.setting.rows - t[0] + 1.0
        np.multiply(p, (left / rounds)[:, None], out=out)
        np.sqrt(out, out=out)
        return np.asarray(left * ((self.setting.rows - t[-1]) / rounds))


class TwoPointAllocation(_ArmWeighted):
    """Stays between two futures: p stays as it is, or falls to its floor like t^−0.7."""

    name = "aw-aipw-two-point"
    title = "AIPW, two-point allocation"
    formula = (
        "Σ_a π(a) Σ h G(a) / Σ h, h²/p = λ · rest, "
        "λ_t = p/(T − t + 1) + (1 − p)(1 − α)/(1 − α + T (t/T)^α − t), α = 0.7"
    )
    decay: ClassVar[float] = 0.7

    def _weigh(self, p: Array, t: Array, left: Array, out: Array) -> Array:
        horizon, rest = float(self.setting.rows), 1.0 - self.decay
        stays = 1.0 / (horizon - t + 1.0)
        falls = rest / (rest + horizon * (t / horizon) ** self.decay - t)
        np.multiply(p, stays - falls, out=out)
        out += falls
        np.clip(out, 0.0, 1.0, out=out)  # λ
        kept = 1.0 - out
        kept[:, 0] *= left
        np.cumprod(kept, axis=1, out=kept)
        out[:, 1:] *= kept[:, :-1]
        out[:, 0] *= left
        out *= p
        np.sqrt(out, out=out)
        return kept[:, -1].copy()


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
        value = rows.value if rows.other is None else rows.value - rows.other.value
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            h = self._variance(rows, value)
            np.sqrt(h, out=h)
            np.divide(1.0, h, out=h)
        h[~np.isfinite(h)] = 0.0
        return [h, h * doubly_robust(rows)]

    def _variance(self, rows: Rows, value: Array) -> Array:
        """σ̂² before each row: that of D, had p_t been the probabilities of all earlier rows.

        Of every arm's earlier rows it takes Σ 1/p, Σ (r − q)/p and Σ (r − q)²/p with the prediction
        q of this row, and these change only where the arm is played.
        """
        assert rows.probabilities is not None
        assert self.setting.weights is not None
        n, history = len(rows), rows.history
        likely, missed, squared = np.zeros(n), np.zeros(n), np.zeros(n)
        for a, (pi, mine) in enumerate(zip(self.setting.weights, rows.by_arm)):
            p, lengths = rows.probabilities[a], lengths_of(mine, n)
            paid = rows.paid[a]
            column = 1.0 / np.take(rows.propensity, mine)
            ones = running(column)
            ones += history.inverse[0, a]
            likely += np.repeat(ones, lengths) * p
            if pi == 0.0:
                continue
            column *= paid
            totals = running(column)
            totals += history.inverse[1, a]
            column *= paid
            squares = running(column)
            squares += history.inverse[2, a]
            q = np.empty(len(mine) + 1)
            np.take(rows.predicted, mine, out=q[:-1])
            q[-1] = history.totals[a] + rows.prior + paid.sum()
            q[-1] /= history.pulls[a] + len(q)
            miss = totals - q * ones
            missed += np.repeat(pi * miss, lengths)
            squared += np.repeat(pi**2 * (squares - q * (totals + miss)), lengths) / p
        earlier = np.arange(rows.first, rows.first + n)
        likely *= value
        squared += value * (likely + 2.0 * missed)
        squared /= earlier
        likely += missed
        likely /= earlier
        return central(squared, likely)

    def finish(self, state: Moments) -> Point:
        return super().finish(state) if state.mean[0] > 0.0 else Point(math.nan, math.nan)


def central(second: Array, first: Array) -> Array:
    """Variances from second and first moments; exactly zero where no more than rounding is left."""
    variance = second - first * first
    variance[variance <= _ROUNDING * second] = 0.0
    return variance
