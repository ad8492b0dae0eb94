"""Rounds weighted unequally where rewards, or the target, depend on a context.

A weight may then depend on the past and on the round, but not on the round's own context: else some
contexts count for more than their share. The published weights average a round's variance over the
contexts of earlier rows, at the probabilities that *this* round's policy would have had there. But
a log has a round's probabilities at its own context only. Where the policy saw no context
(`Setting.blind`) they were the same in all others, and every published form can be computed from
the log. Where it did, the probabilities that the earlier rounds had take their place in the
weights of equal and of least variance; what needs more is refused.
"""

import math
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from .arms import CADR, central
from .estimators import (
    Estimator,
    Point,
    Ratio,
    StableVariance,
    doubly_robust,
    standard_error,
    variance_of,
    wanted,
)
from .moments import Array, Moments
from .rows import Rows, held

#: Rows that the weights by context keep in memory at most.
ROWS_KEPT: Final = 100_000
#: Numbers in an array of [contexts, rows] at a time.
_AT_A_TIME: Final = 1 << 20


class _Past(NamedTuple):
    """Moments of h and h D, and what earlier rows add up to."""

    moments: Moments
    #: Earlier rows that count.
    rows: int
    #: Sums over them.
    sums: Any


class _WeightedByPast(Estimator):
    """Σ h D / Σ h, with h of what all earlier rows say: one pass, from the first row on."""

    needs_probabilities = True
    needs_fixed_target = True
    one_pass = True

    def _sums(self) -> Any:
        """The sums over no rows."""
        raise NotImplementedError

    def _weights(self, state: _Past, rows: Rows) -> tuple[Array, int, Any]:
        """h of every row; then the number of earlier rows and the sums with these rows added."""
        raise NotImplementedError

    def start(self) -> _Past:
        return _Past(Moments.empty(2), 0, self._sums())

    def step(self, state: _Past, rows: Rows) -> _Past:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            h, count, sums = self._weights(state, rows)
        h[~np.isfinite(h)] = 0.0
        if rows.impossible is not None:
            h[rows.impossible] = 0.0
        moments = state.moments.merged(Moments.of([h, h * doubly_robust(rows)]))
        return _Past(moments, count, sums)

    def merge(self, left: _Past, right: _Past) -> _Past:
        if left.moments.n:
            raise ValueError(f"{self.name} takes one pass: its weights need all earlier rows")
        return right

    def finish(self, state: _Past) -> Point:
        moments = state.moments
        if moments.n == 0 or not moments.mean[0] > 0.0:
            return Point(math.nan, math.nan)
        error = standard_error(moments, Ratio.gradient(moments.mean))
        return Point(float(Ratio.value(moments.mean)), error, rows=moments.n)


class _VarianceSoFar(_WeightedByPast):
    """h_t from the mean of Σ_a π(a)²/p(a) over earlier rows.

    With p_t at their contexts, as published, where the policy that wrote the log saw none; else
    with the probabilities that those rows had themselves, which tell the variance of earlier
    rounds and not of this one: where it grows like a power of t, less by a constant factor, which
    cancels. The first row, before which there is none, counts for nothing.
    """

    power: ClassVar[float]

    def _sums(self) -> Any:
        return np.zeros(self.setting.arms) if self.setting.blind else 0.0

    def _weights(self, state: _Past, rows: Rows) -> tuple[Array, int, Any]:
        assert rows.probabilities is not None
        n = len(rows)
        if self.setting.blind:
            squares = np.broadcast_to(wanted(rows) ** 2, rows.probabilities.shape)
            sums = _running(state.sums, squares)
            earlier = state.rows + np.arange(n)
            terms = sums[:, :-1] / rows.probabilities
            terms[sums[:, :-1] == 0.0] = 0.0  # an arm that nobody wants, perhaps of probability 0
            return (terms.sum(axis=0) / earlier) ** -self.power, state.rows + n, sums[:, -1]
        variance = variance_of(rows)
        counts = np.isfinite(variance)
        sums = _running(state.sums, np.where(counts, variance, 0.0))
        earlier = state.rows + np.cumsum(counts) - counts
        count = state.rows + int(np.count_nonzero(counts))
        return (sums[:-1] / earlier) ** -self.power, count, float(sums[-1])


def _running(start: Any, columns: Array) -> Array:
    """`start`, and what the entries of each line add to it one after another."""
    sums = np.empty((*columns.shape[:-1], columns.shape[-1] + 1))
    sums[..., 0], sums[..., 1:] = start, columns
    return np.cumsum(sums, axis=-1, out=sums)


_SO_FAR: Final = "h_t = (1/(t − 1) Σ_{s<t} Σ_a π(x_s, a)²/p(x_s, a))"
_ZHAN: Final = StableVariance.reference


class StableVarianceSoFar(_VarianceSoFar):
    """Rounds weighted so that all have the same variance, whatever their context.

    p(x_s, a) is that of round t, as published, where the policy that wrote the log saw no context;
    else that of round s.
    """

    name = "stable-variance"
    title = "AIPW, rounds of equal variance over earlier contexts"
    formula = f"Σ h (v + w (r − q(A))) / Σ h, {_SO_FAR}^(−1/2)"
    reference = f"{_ZHAN}, non-contextual weights"
    power = 0.5


class MinVarianceSoFar(_VarianceSoFar):
    """Rounds weighted by one over their variance, whatever their context.

    p(x_s, a) is that of round t, as published, where the policy that wrote the log saw no context;
    else that of round s.
    """

    name = "min-variance"
    title = "AIPW, least variance over earlier contexts"
    formula = f"Σ h (v + w (r − q(A))) / Σ h, {_SO_FAR}^(−1)"
    reference = f"{_ZHAN}, non-contextual weights"
    power = 1.0


class ContextualCADR(_WeightedByPast):
    """Rounds weighted by one over their standard deviation, estimated from the rows before.

    The published sum over all earlier rows s, of p_t(A_s)/p_s(A_s) times a power of
    v_s + π(x_s, A_s)/p_t(A_s) (r_s − q(x_s, A_s)), is one over the arms where p_t does not depend
    on the context: O(T K) in place of O(T²).
    """

    name = "cadr"
    title = "contextual adaptive doubly robust, over earlier contexts"
    formula = "Σ D/σ̂ / Σ 1/σ̂, D = v + w (r − q(A))"
    reference = CADR.reference
    contextual = "model"
    needs_blind = True

    def _sums(self) -> Any:
        return np.zeros((5, self.setting.arms))

    def _weights(self, state: _Past, rows: Rows) -> tuple[Array, int, Any]:
        assert rows.probabilities is not None
        n, value, share = len(rows), rows.value, rows.target
        if rows.other is not None:
            value, share = value - rows.other.value, share - rows.other.target
        inverse = 1.0 / rows.propensity
        miss = share * (rows.reward - rows.predicted)
        first, second, after = np.zeros(n), np.zeros(n), np.empty_like(state.sums)
        columns = (
            value * inverse, miss * inverse, value**2 * inverse, value * miss * inverse,
            miss**2 * inverse,
        )  # fmt: skip
        for a, mine in enumerate(rows.by_arm):
            found = np.array([column[mine] for column in columns])
            sums = _running(state.sums[:, a], found)
            after[:, a] = sums[:, -1]
            likely, missed, squared, crossed, spread = (held(line, mine, n) for line in sums)
            p = rows.probabilities[a]
            first += p * likely + missed
            second += p * squared + 2.0 * crossed
            second += np.where(spread == 0.0, 0.0, spread / p)  # an arm that nobody wants
        earlier = state.rows + np.arange(n)
        sigma = np.sqrt(central(second / earlier, first / earlier))
        return 1.0 / sigma, state.rows + n, after


class _Kept(NamedTuple):
    """Rows that are kept: probabilities, the target's, and D."""

    probabilities: Array
    wanted: Array
    score: Array


class _ByContext(Estimator):
    """Each context's rounds weighted for themselves, and contexts by how often they came.

    Q̂ = Σ_t h_t(x_t) D_t / Σ_s h_s(x_t);  error² = Σ_t (B_t − Σ_s h_t(x_s)/Z(x_s) B_s)², with
    Z(x) = Σ_s h_s(x) and B_t the terms of Q̂. A context matters only through the target's
    probabilities in it, so rows that agree in these are taken together. Keeps rows in memory, and
    takes rows × different targets × arms steps.
    """

    needs_probabilities = True
    needs_fixed_target = True
    needs_blind = True
    contextual = "only"
    rows_at_most = ROWS_KEPT
    power: ClassVar[float]
    #: Its name where there is no context.
    plain: ClassVar[str]

    def start(self) -> tuple[_Kept, ...]:
        return ()

    def step(self, state: tuple[_Kept, ...], rows: Rows) -> tuple[_Kept, ...]:
        assert rows.probabilities is not None
        d = np.broadcast_to(wanted(rows), rows.probabilities.shape)
        return (*state, _Kept(np.array(rows.probabilities), np.array(d), doubly_robust(rows)))

    def merge(self, left: tuple[_Kept, ...], right: tuple[_Kept, ...]) -> tuple[_Kept, ...]:
        return left + right

    def finish(self, state: tuple[_Kept, ...]) -> Point:
        if not state:
            return Point(math.nan, math.nan)
        p = np.concatenate([piece.probabilities for piece in state], axis=1)
        d = np.concatenate([piece.wanted for piece in state], axis=1)
        score = np.concatenate([piece.score for piece in state])
        n = len(score)
        targets, group = np.unique(d.T**2, axis=0, return_inverse=True)
        group = group.reshape(-1)  # NumPy 2.0 returned a column
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(len(targets) + 1))
        terms, expected = np.zeros(n), np.zeros(n)
        size = max(1, _AT_A_TIME // n)
        for start in range(0, len(targets), size):
            stop = min(len(targets), start + size)
            h = _variances(targets[start:stop], p) ** -self.power
            h[~np.isfinite(h)] = 0.0
            total = h.sum(axis=1)
            total[~targets[start:stop].any(axis=1)] = 1.0  # two targets that agree there
            h /= total[:, None]  # NaN for a context in which the target was never possible
            mine = order[ends[start] : ends[stop]]
            terms[mine] = h[group[mine] - start, mine] * score[mine]
            values = np.bincount(group[mine] - start, terms[mine], stop - start)
            expected += np.einsum("g,gn->n", values, h)
        estimate = float(terms.sum())
        if n < 2:
            return Point(estimate, math.nan, rows=n)
        squares = float(((terms - expected) ** 2).sum())
        return Point(estimate, math.sqrt(squares * n / (n - 1)), rows=n)


def _variances(targets: Array, p: Array) -> Array:
    """Σ_a d(a)²/p_t(a) for squared targets [contexts, arms] and every row t."""
    found = np.zeros((len(targets), p.shape[1]))
    with np.errstate(divide="ignore"):
        inverse = 1.0 / p
    for squares, one in zip(targets.T, inverse):
        here = np.flatnonzero(squares)
        found[here] += squares[here, None] * one
    return found


class StableVarianceByContext(_ByContext):
    """Each context's rounds weighted so that all have the same variance."""

    name = "stable-variance-by-context"
    plain = "stable-variance"
    title = "AIPW, rounds of equal variance, context by context"
    formula = "Σ_t h_t(x_t) D_t / Σ_s h_s(x_t), h_t(x) = (Σ_a π(x, a)²/p_t(a))^(−1/2)"
    reference = f"{_ZHAN}, contextual weights"
    power = 0.5


class MinVarianceByContext(_ByContext):
    """Each context's rounds weighted by one over their variance."""

    name = "min-variance-by-context"
    plain = "min-variance"
    title = "AIPW, least variance, context by context"
    formula = "Σ_t h_t(x_t) D_t / Σ_s h_s(x_t), h_t(x) = (Σ_a π(x, a)²/p_t(a))^(−1)"
    reference = f"{_ZHAN}, contextual weights"
    power = 1.0
