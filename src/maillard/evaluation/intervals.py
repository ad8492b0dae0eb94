"""What every interval is, and those that need nothing but an estimate and its error.

An interval may carry statistics of its own through the pass: like an estimator it is a monoid with
`start`, `step` and `merge`; `ends` takes the place of `finish`.
"""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .diagnostics import Diagnostics
from .estimators import Estimator, Point, Setting
from .moments import Array
from .refit import Experiment
from .rows import Rows


class Conditions(NamedTuple):
    """What is known of log and target before the pass."""

    setting: Setting
    #: The interval that rewards lie in; None where it is not known or not bounded.
    rewards: tuple[float, float] | None
    #: Whether the log has the probabilities of all arms.
    probabilities: bool
    #: Whether rewards or probabilities may depend on a context.
    contextual: bool
    #: 1 − α, the nominal coverage.
    level: float = 0.95
    #: How many bootstrap replicates, and the seed of their draws.
    replicates: int = 1000
    seed: int = 0
    #: How the log came about, or why that is not known.
    experiment: Experiment | str = "needs to know the policy that wrote the log"
    #: Whether nothing slow is wanted, because nothing was asked for by name.
    quick: bool = False


class Ends(NamedTuple):
    """An interval; NaN where there is none, with the reason."""

    low: float
    high: float
    reason: str = ""


def nothing(reason: str) -> Ends:
    """No interval."""
    return Ends(math.nan, math.nan, reason)


class Interval:
    """Base class of all intervals; the table `catalogue.INTERVALS` names them."""

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    #: Whether it holds at every time at once, so that one may look whenever one likes.
    anytime: ClassVar[bool] = False
    #: Whether it holds only for rewards in the range that is stated.
    ranged: ClassVar[bool] = False

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions

    @property
    def alpha(self) -> float:
        """The probability of missing that is allowed."""
        return 1.0 - self.conditions.level

    @property
    def range(self) -> tuple[float, float]:
        """The interval [L, U] that rewards lie in, where `range_obstacle` has nothing to say."""
        assert self.conditions.rewards is not None
        return self.conditions.rewards

    def scaled(self, rewards: Array) -> Array:
        """Rewards as shares of their range."""
        low, high = self.range
        return np.clip((rewards - low) / (high - low), 0.0, 1.0)

    def range_obstacle(self) -> str:
        """Why a ranged interval does not go with these rewards; empty if their range is known."""
        known = self.conditions.rewards is not None
        return "" if known else "needs the range of the rewards: rewards=(L, U)"

    def obstacle(self, estimator: Estimator) -> str:
        """Why it does not go with this estimator under these conditions; empty if it does."""
        return ""

    def start(self, estimators: Mapping[str, Estimator]) -> Any:
        """The state of no rows, for the estimators that it is wanted for."""
        return None

    def step(self, state: Any, rows: Rows, estimators: Mapping[str, Estimator]) -> Any:
        """The state with these rows, the next in order, added."""
        return None

    def merge(self, left: Any, right: Any) -> Any:
        """The state of two consecutive pieces."""
        return None

    def ends(self, estimator: Estimator, point: Point, state: Any, seen: Diagnostics) -> Ends:
        """The interval for one estimator."""
        raise NotImplementedError


class Normal(Interval):
    """Estimate ± z · standard error."""

    name = "normal"
    title = "normal"
    reference = "the central limit theorem; its conditions fail where propensities fall like 1/t"

    def ends(self, estimator: Estimator, point: Point, state: Any, seen: Diagnostics) -> Ends:
        return _around(point, NormalDist().inv_cdf(1.0 - self.alpha / 2.0))


class StudentT(Interval):
    """Estimate ± t · standard error.

    The degrees of freedom are Welch's for arm means, and one less than the effective sample size
    for weighted rows.
    """

    name = "t"
    title = "Student's t"
    reference = "Student (1908); Welch (1947)"

    def ends(self, estimator: Estimator, point: Point, state: Any, seen: Diagnostics) -> Ends:
        freedom = seen.ess - 1.0 if math.isnan(point.freedom) else point.freedom
        if not freedom > 0.0:
            return nothing("there is only one effective row")
        from scipy.special import stdtrit

        return _around(point, float(stdtrit(freedom, 1.0 - self.alpha / 2.0)))


def _around(point: Point, quantile: float) -> Ends:
    if not math.isfinite(point.error):
        return nothing("there is no standard error")
    margin = quantile * point.error
    return Ends(point.estimate - margin, point.estimate + margin)


class EmpiricalBernstein(Interval):
    """For independent rows with bounded terms: logs whose propensities never change.

    The bound on the weights is max_a π(a)/p(a), known from the propensities themselves; the largest
    weight that happened to be seen would not do.
    """

    name = "empirical-bernstein"
    title = "empirical Bernstein"
    reference = "Maurer and Pontil (2009), Theorem 4"
    ranged = True

    def obstacle(self, estimator: Estimator) -> str:
        if estimator.name != "ipw":
            return "is for ipw"
        if self.conditions.setting.contrast or self.conditions.setting.weights is None:
            return "needs one fixed target"
        return self.range_obstacle()

    def ends(self, estimator: Estimator, point: Point, state: Any, seen: Diagnostics) -> Ends:
        weights = self.conditions.setting.weights
        assert weights is not None
        if not seen.constant:
            return nothing("propensities change from row to row: the rows are not independent")
        used = weights > 0.0
        bound = float((weights[used] / seen.propensities[used]).max())
        if not math.isfinite(bound):
            return nothing("an arm was never played: nothing bounds its weight")
        if point.rows < 2:
            return nothing("it takes two rows")
        low, high = self.range
        width = max(0.0, bound * high) - min(0.0, bound * low)
        n, log = point.rows, math.log(4.0 / self.alpha)
        margin = point.error * math.sqrt(2.0 * log) + 7.0 * width * log / (3.0 * (n - 1))
        return Ends(point.estimate - margin, point.estimate + margin)
