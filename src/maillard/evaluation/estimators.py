"""The estimators whose terms are local to a row, and what every estimator is.

An estimator is a monoid: `start` is the state of no rows, `step` adds consecutive rows, `merge`
joins the states of two consecutive pieces, `finish` says what they amount to. Here the terms of a
row are written once, as expressions that mean the same on NumPy arrays and on the columns of a
database; w = π(A)/p(A) is the importance weight (`weight`), w r the `gain`, q(A) the predicted
reward of the logged arm (`predicted`) and v = Σ_a π(a) q(a) (`value`). Predictions are functions
of earlier rows, so terms of the doubly robust kind have the right conditional mean in every row,
whatever policy wrote the log.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .moments import Array, Moments
from .rows import Rows


class Setting(NamedTuple):
    """What an estimator is told before it sees a row."""

    #: How many rows there will be: the horizon T.
    rows: int
    arms: int
    #: The target's distribution over the arms where it is the same in every row; of a contrast,
    #: the difference of the two.
    weights: Array | None = None
    #: λ: where weights are clipped, truncated or bent. √T keeps the bias below the error.
    cap: float = math.inf
    #: Whether two targets are compared.
    contrast: bool = False
    #: Whether the policy that wrote the log saw no context, if there is one.
    blind: bool = False


class ArmSums(NamedTuple):
    """What is known of each arm: number of rows, mean reward, Σ (reward − mean)²."""

    pulls: Array
    mean: Array
    squares: Array
    #: The target's distribution, averaged over the rows; of a contrast, the difference.
    weights: Array


class Point(NamedTuple):
    """An estimate and its standard error, as far as the rows allow one: else NaN."""

    estimate: float
    error: float
    #: Degrees of freedom of the error; NaN for those that the importance weights suggest.
    freedom: float = math.nan
    rows: int = 0
    arms: ArmSums | None = None


class Estimator:
    """Base class of all estimators; the table `catalogue.ESTIMATORS` names them."""

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    #: Whether the probabilities of all arms in every row are needed.
    needs_probabilities: ClassVar[bool] = False
    #: Whether the target's probabilities of all arms are needed, not of the logged arm only.
    needs_distribution: ClassVar[bool] = True
    #: Whether predicted rewards are used. Where no model gives them they come from earlier rows.
    predicts: ClassVar[bool] = True
    #: Whether rows count unequally, so that the target must not change from row to row, unless with
    #: a context.
    needs_fixed_target: ClassVar[bool] = False
    #: Whether it is right where rewards and probabilities depend on a context: "no", "yes", "model"
    #: where that takes a reward model, or "only" where it is nothing new without one.
    contextual: ClassVar[str] = "yes"
    #: Whether, where there is a context, the policy that wrote the log must not have seen it.
    needs_blind: ClassVar[bool] = False
    #: Whether it takes one pass over all rows: pieces cannot be worked on side by side.
    one_pass: ClassVar[bool] = False
    #: Rows of a log that it takes at most, if it must keep them in memory.
    rows_at_most: ClassVar[int | None] = None

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def start(self) -> Any:
        """The state of no rows."""
        raise NotImplementedError

    def step(self, state: Any, rows: Rows) -> Any:
        """The state with these rows, the next in order, added."""
        raise NotImplementedError

    def merge(self, left: Any, right: Any) -> Any:
        """The state of two consecutive pieces."""
        raise NotImplementedError

    def finish(self, state: Any) -> Point:
        """The estimate."""
        raise NotImplementedError


class RowLocal(Estimator):
    """An estimator that is a function of the means of a few terms of each row.

    Rows in which the target wants the impossible are left out: their probabilities, not their
    outcome, say so, and what remains is still unbiased for a target that does not change.
    """

    #: How many terms a row has.
    size: ClassVar[int] = 1
    #: The estimator whose terms these are in rows whose weights are at most λ.
    below_cap: ClassVar["type[RowLocal] | None"] = None

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        """A row's terms. `ops` has `minimum(a, b)` and `where(condition, a, b)`, as NumPy has."""
        raise NotImplementedError

    @staticmethod
    def value(means: Array) -> Any:
        """The estimate from the means of the terms, along the last axis."""
        return means[..., 0]

    @staticmethod
    def gradient(means: Array) -> Array:
        """The derivative of `value`."""
        return np.ones(1)

    def columns(self, rows: Rows) -> Sequence[Array]:
        """The terms of all usable rows, [terms][rows]; under a contrast those of both targets."""
        same = self.below_cap
        if same is not None and rows.other is None and rows.heaviest <= self.setting.cap:
            return same.terms(rows.possible, np, self.setting.cap)
        terms = list(self.terms(rows.possible, np, self.setting.cap))
        if rows.other is not None:
            other = rows.other.usable(rows.kept)
            terms += self.terms(other, np, self.setting.cap)
        return terms

    def of_means(self, means: Array) -> Any:
        """The estimate, or the difference of two, from the means of all columns."""
        if not self.setting.contrast:
            return self.value(means)
        return self.value(means[..., : self.size]) - self.value(means[..., self.size :])

    def start(self) -> Moments:
        return Moments.empty(self.size * (2 if self.setting.contrast else 1))

    def step(self, state: Moments, rows: Rows) -> Moments:
        return state.merged(Moments.of(self.columns(rows), rows.memory))

    def merge(self, left: Moments, right: Moments) -> Moments:
        return left.merged(right)

    def finish(self, state: Moments) -> Point:
        if state.n == 0:
            return Point(math.nan, math.nan)
        gradient = self.gradient(state.mean[: self.size])
        if self.setting.contrast:
            gradient = np.concatenate([gradient, -self.gradient(state.mean[self.size :])])
        return Point(
            float(self.of_means(state.mean)), standard_error(state, gradient), rows=state.n
        )


def standard_error(state: Moments, gradient: Array) -> float:
    """That of a smooth function of means, to first order; the divisor is n(n − 1)."""
    if state.n < 2 or not np.all(np.isfinite(gradient)):
        return math.nan
    return math.sqrt(state.squares(gradient) / state.n / (state.n - 1))


class Ratio(RowLocal):
    """Mean of the second term over mean of the first."""

    size = 2

    @staticmethod
    def value(means: Array) -> Any:
        return means[..., 1] / means[..., 0]

    @staticmethod
    def gradient(means: Array) -> Array:
        return np.array([-means[1] / means[0] ** 2, 1.0 / means[0]])


# --------------------------------------------------------------------------------------------------
# Importance weighting


class IPW(RowLocal):
    """Inverse propensity weighting: unbiased, and ruined by a few large weights."""

    name = "ipw"
    title = "inverse propensity weighting"
    formula = "1/n Σ w r"
    reference = "Horvitz and Thompson (1952)"
    needs_distribution = False
    predicts = False

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        return (row.gain,)


class SNIPW(Ratio):
    """Self-normalised: a little bias, never outside the range of the rewards."""

    name = "snipw"
    title = "self-normalised weighting"
    formula = "Σ w r / Σ w"
    reference = "Hájek (1971); Swaminathan and Joachims (2015)"
    needs_distribution = False
    predicts = False

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        return row.weight, row.gain


class ClippedIPW(RowLocal):
    """No weight counts for more than λ; for rewards ≥ 0 too low rather than too high."""

    name = "clipped-ipw"
    title = "clipped weighting"
    formula = "1/n Σ min(w, λ) r"
    reference = "Ionides (2008)"
    needs_distribution = False
    predicts = False
    below_cap = IPW

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        return (ops.minimum(row.weight, cap) * row.reward,)


class TruncatedIPW(RowLocal):
    """Rows with a weight above λ count for nothing."""

    name = "truncated-ipw"
    title = "truncated weighting"
    formula = "1/n Σ w 1{w ≤ λ} r"
    reference = "Bottou et al. (2013)"
    needs_distribution = False
    predicts = False
    below_cap = IPW

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        return (ops.where(row.weight <= cap, row.weight, 0.0) * row.reward,)


class SubGaussianIPW(RowLocal):
    """Weights bent by the harmonic correction, so that the tail of the estimate is light."""

    name = "sub-gaussian-ipw"
    title = "sub-Gaussian weighting"
    formula = "1/n Σ w/(1 − 1/λ + w/λ) r"
    reference = "Metelli, Russo and Restelli (2021)"
    needs_distribution = False
    predicts = False

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        return (_bent(row.weight, cap) * row.reward,)


def _bent(weight: Any, cap: float) -> Any:
    return weight / ((1.0 - 1.0 / cap) + weight * (1.0 / cap))


# --------------------------------------------------------------------------------------------------
# Doubly robust


class ModelDM(RowLocal):
    """The direct method under a given reward model: as good as the model."""

    name = "dm"
    title = "direct method"
    formula = "1/n Σ v"
    reference = "Dudík, Langford and Li (2011)"
    contextual = "model"

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        return (row.value + 0.0 * row.reward,)


class AIPW(RowLocal):
    """Doubly robust: predictions, and weighting for what they miss. Unbiased."""

    name = "aipw"
    title = "doubly robust (augmented weighting)"
    formula = "1/n Σ (v + w (r − q(A)))"
    reference = "Robins, Rotnitzky and Zhao (1994); Dudík, Langford and Li (2011)"

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        return (row.value + row.weight * (row.reward - row.predicted),)


class SNDR(RowLocal):
    """Doubly robust with the correction self-normalised."""

    name = "sndr"
    title = "self-normalised doubly robust"
    formula = "1/n Σ v + Σ w (r − q(A)) / Σ w"
    reference = "Thomas and Brunskill (2016)"
    size = 3

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        return row.value, row.weight, row.weight * (row.reward - row.predicted)

    @staticmethod
    def value(means: Array) -> Any:
        return means[..., 0] + means[..., 2] / means[..., 1]

    @staticmethod
    def gradient(means: Array) -> Array:
        return np.array([1.0, -means[2] / means[1] ** 2, 1.0 / means[1]])


class SwitchDR(RowLocal):
    """Doubly robust where weights are at most λ, the prediction alone elsewhere."""

    name = "switch-dr"
    title = "switching doubly robust"
    formula = "1/n Σ (v + w 1{w ≤ λ} (r − q(A)))"
    reference = "Wang, Agarwal and Dudík (2017)"
    below_cap = AIPW

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        weight = ops.where(row.weight <= cap, row.weight, 0.0)
        return (row.value + weight * (row.reward - row.predicted),)


class DROS(RowLocal):
    """Doubly robust with weights shrunk the more, the larger they are."""

    name = "dr-os"
    title = "doubly robust with optimistic shrinkage"
    formula = "1/n Σ (v + λ² w/(w² + λ²) (r − q(A)))"
    reference = "Su, Dimakopoulou, Krishnamurthy and Dudík (2020)"

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        share = row.weight * (1.0 / cap)
        return (row.value + row.weight / (1.0 + share * share) * (row.reward - row.predicted),)


class SubGaussianDR(RowLocal):
    """Doubly robust with harmonically corrected weights."""

    name = "sub-gaussian-dr"
    title = "sub-Gaussian doubly robust"
    formula = "1/n Σ (v + w/(1 − 1/λ + w/λ) (r − q(A)))"
    reference = "Metelli, Russo and Restelli (2021)"

    @staticmethod
    def terms(row: Any, ops: Any, cap: float) -> tuple[Any, ...]:
        return (row.value + _bent(row.weight, cap) * (row.reward - row.predicted),)


# --------------------------------------------------------------------------------------------------
# Rounds weighted for the whole policy


class _PolicyWeighted(Ratio):
    """Rounds weighted by a function of their own variance Σ_a π(a)²/p(a), known beforehand.

    Right with a context too if neither the target nor the policy that wrote the log looks at it.
    """

    needs_probabilities = True
    needs_fixed_target = True
    needs_blind = True

    def __init__(self, setting: Setting) -> None:
        # Linear in the target: a contrast is one signed target, with one variance.
        super().__init__(setting._replace(contrast=False))

    #: The round's weight from its variance.
    power: ClassVar[float] = 1.0

    def columns(self, rows: Rows) -> Sequence[Array]:
        h = weights_of(variance_of(rows), self.power)
        return [h, h * doubly_robust(rows)]

    def finish(self, state: Moments) -> Point:
        return super().finish(state) if state.mean[0] > 0.0 else Point(math.nan, math.nan)


def doubly_robust(rows: Rows) -> Array:
    """D = v + w (r − q(A)) of every row for the target or, of a contrast, for the difference."""
    score = rows.reward - rows.predicted
    score *= rows.weight
    score += rows.value
    return score if rows.other is None else score - doubly_robust(rows.other)


def wanted(rows: Rows) -> Array:
    """The target's probabilities of all arms or, of a contrast, their differences: [arms, 1 or n].

    One column stands for a target that is the same in every row.
    """
    return rows.mass if rows.other is None else rows.mass - rows.other.mass


def weights_of(variance: Array, power: float) -> Array:
    """The variance to the power of −1 or −½."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if power == 0.5:
            np.sqrt(variance, out=variance)
        return np.asarray(np.divide(1.0, variance, out=variance))


def variance_of(rows: Rows) -> Array:
    """Σ_a d(a)²/p(a) of every row for the target or, of a contrast, for the difference d.

    It is what a row adds to the variance of an estimate; ∞ where it is impossible.
    """
    assert rows.probabilities is not None
    found, term = np.zeros(len(rows)), np.empty(len(rows))
    with np.errstate(divide="ignore", over="ignore"):
        for d, p in zip(wanted(rows), rows.probabilities):
            if len(d) == 1:
                if d[0] == 0.0:  # an arm that is not wanted may be impossible
                    continue
                np.divide(d * d, p, out=term)
            else:
                term[:] = 0.0
                np.divide(d * d, p, out=term, where=d != 0.0)
            found += term
    return found


class StableVariance(_PolicyWeighted):
    """Rounds weighted so that all have the same variance."""

    name = "stable-variance"
    title = "AIPW, rounds of equal variance"
    formula = "Σ h (v + w (r − q(A))) / Σ h, h = (Σ_a π(a)²/p(a))^(−1/2)"
    reference = "Zhan, Hadad, Hirshberg and Athey (2021)"
    power = 0.5


class MinVariance(_PolicyWeighted):
    """Rounds weighted by one over their variance."""

    name = "min-variance"
    title = "AIPW, least variance"
    formula = "Σ h (v + w (r − q(A))) / Σ h, h = (Σ_a π(a)²/p(a))^(−1)"
    reference = "Zhan, Hadad, Hirshberg and Athey (2021)"
    power = 1.0
