"""The likelihood-ratio interval: arm means that explain the log nearly as well as the best."""

from typing import Any

import numpy as np

from .arms import ArmMeans
from .diagnostics import Diagnostics
from .estimators import Estimator, Point
from .intervals import Ends, Interval, nothing
from .moments import Array


def likelihood_ends(
    weights: Array, pulls: Any, means: Any, budget: float, steps: int = 100
) -> tuple[Array, Array]:
    """The least and the largest Σ π(a) μ_a with Σ N_a kl(μ̂_a, μ_a) ≤ budget.

    Means in [0, 1]; the arms run along the last axis of `pulls` and `means`. At the largest value
    N_a (μ_a − μ̂_a) = c π(a) μ_a (1 − μ_a) for one c > 0, in which both sides rise: it is found by
    bisection.
    """
    n, m = np.asarray(pulls, dtype=np.float64), np.asarray(means, dtype=np.float64)
    ends = []
    for side in (-1.0, 1.0):
        # Arms that count negatively are turned round: failures in place of rewards.
        turned = side * weights < 0.0
        mean = np.where(turned, 1.0 - m, m)
        size = np.abs(weights)
        low, high = np.full(n.shape[:-1], -30.0), np.full(n.shape[:-1], 60.0)
        for _ in range(steps):
            middle = 0.5 * (low + high)
            spent = (n * _divergence(mean, _risen(n, mean, size, np.exp(middle)))).sum(axis=-1)
            affordable = spent <= budget
            low, high = np.where(affordable, middle, low), np.where(affordable, high, middle)
        mu = _risen(n, mean, size, np.exp(low))
        ends.append(np.where(turned, 1.0 - mu, mu) @ weights)
    return ends[0], ends[1]


def budget_of(alpha: float, arms: int) -> float:
    """½ χ² with as many degrees of freedom as arms are wanted, two at least: ln(1/α) for two."""
    from scipy.special import chdtri

    return 0.5 * float(chdtri(max(arms, 2), alpha))


def _risen(n: Array, mean: Array, size: Array, c: Array) -> Array:
    """μ ≥ mean with n (μ − mean) = c·size μ (1 − μ): a root of x μ² + (n − x) μ − n mean."""
    x = np.asarray(c)[..., None] * size
    rest = n - x
    root = np.sqrt(rest * rest + 4.0 * x * n * mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Whichever form does not subtract numbers that are nearly equal.
        mu = np.where(rest > 0.0, 2.0 * n * mean / (rest + root), (root - rest) / (2.0 * x))
    return np.clip(np.where(size > 0.0, mu, mean), mean, 1.0)


def _divergence(mean: Array, mu: Array) -> Array:
    from scipy.special import rel_entr

    return np.asarray(rel_entr(mean, mu) + rel_entr(1.0 - mean, 1.0 - mu))


class LikelihoodRatio(Interval):
    """Values of the target that means have which explain the log nearly as well as the best do.

    Those with Σ_a N_a kl(μ̂_a, μ_a) ≤ ½ χ²_k(1 − α), k the arms that the target wants but two at
    least: the rewards' likelihood, in which the policy's probabilities cancel, taken as that of
    coins, which vary most among all rewards in [0, 1] of a given mean. One degree of freedom would
    do if arms were pulled without regard to their rewards. But a policy pulls an arm no more when
    it looks bad, so that all means err to the same side, and a region for all of them at once is
    needed (Scheffé): at 95 %, 2.45 standard errors for two arms. That this is enough was measured,
    not proven: see the page on coverage.
    """

    name = "likelihood-ratio"
    title = "likelihood ratio, all arms at once"
    reference = "Wilks (1938); projected as by Scheffé (1953)"
    ranged = True

    def obstacle(self, estimator: Estimator) -> str:
        if not isinstance(estimator, ArmMeans):
            return "is for dm: arm means without context"
        return self.range_obstacle()

    def ends(self, estimator: Estimator, point: Point, state: Any, seen: Diagnostics) -> Ends:
        if point.arms is None:
            return nothing("there are no rows")
        pulls, mean, _, weights = point.arms
        low, high = self.range
        used = weights != 0.0
        if not used.any() or np.any(pulls[used] == 0.0):
            return nothing("an arm that the target wants was never played")
        scaled = self.scaled(mean[used])
        budget = budget_of(self.alpha, int(used.sum()))
        least, most = likelihood_ends(weights[used], pulls[used], scaled, budget)
        shift, width = low * float(weights.sum()), high - low
        return Ends(shift + width * float(least), shift + width * float(most))
