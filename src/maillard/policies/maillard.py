"""Maillard sampling and its relatives: p_a ∝ exp(−N_a · distance(mean_a, best mean))."""

import math
from typing import Final

from ..compiled import Kernel, kernel
from ..divergence import (
    kl,
    kl_exponential,
    kl_gaussian,
    kl_geometric,
    kl_poisson,
)
from ..numeric import log
from .families import Weighted
from .parameters import SCALE, Parameter
from .policy import ANY_RANGE


def _booster() -> Parameter:
    return Parameter(
        1.0,
        "B, the weight of the empirically best arm: above 1 exploits more, below 1 explores more",
        **SCALE,
    )


def _variance() -> Parameter:
    return Parameter(
        0.25,
        "the sub-Gaussian variance σ² of a reward (on the scaled rewards; 1/4 holds on [0, 1])",
        **SCALE,
    )


class KLMS(Weighted):
    """KL Maillard sampling: an arm loses probability as the evidence grows that it is not the best.

    Anytime, in closed form, asymptotically optimal for Bernoulli rewards, with a worst-case bound
    √(μ*(1−μ*) K T ln K) + K ln T that adapts to the variance of the best arm. For Bernoulli rewards
    it is MED. When the best mean is exactly 1, arms with a smaller mean get probability exactly 0;
    `kl-ms-kt` or `floor=` keep every arm possible.
    """

    slug = "kl-ms"
    title = "KL Maillard sampling"
    formula = "p_a ∝ exp(−N_a kl(μ̂_a, μ̂_max)); with the booster, weight B for the best"
    reference = "Qin, Jun, Zhang (2023), Algorithm 1"

    booster = _booster()

    @staticmethod
    def log_weight(pulls, mean, best, booster):
        return log(booster) if mean == best else -pulls * kl(mean, best)


class KLMSKT(Weighted):
    """KL-MS on smoothed means, which are never 0 or 1: every probability is positive.

    Jeffreys' or Krichevsky-Trofimov's estimate by default, any Beta pseudo-counts by `prior`. The
    choice for logs that are to be evaluated later. It has no published regret bound.
    """

    slug = "kl-ms-kt"
    title = "KL Maillard sampling with smoothed means"
    formula = "p_a ∝ exp(−N_a kl(μ̃_a, μ̃_max)), μ̃_a = (S_a + α)/(N_a + α + β)"
    reference = "after the authors' code of Qin, Jun, Zhang (2023)"

    prior = Parameter((0.5, 0.5), "Beta pseudo-counts (α, β)", parts=("alpha", "beta"), **SCALE)

    @staticmethod
    def estimate(pulls, total, alpha, beta):
        return (total + alpha) / (pulls + alpha + beta)

    @staticmethod
    def log_weight(pulls, estimate, best):
        return -pulls * kl(estimate, best)


class MS(Weighted):
    """Maillard sampling for sub-Gaussian rewards: asymptotically optimal for Gaussian ones."""

    slug = "ms"
    title = "Maillard sampling"
    formula = "p_a ∝ exp(−N_a (μ̂_max − μ̂_a)² / (2σ²)); with the booster, weight B for the best"
    reference = "Maillard (2013); Bian and Jun (2022)"
    setting = "σ²-sub-Gaussian rewards; in [L, U] σ² = 1/4 after scaling"
    ranges = ANY_RANGE

    variance = _variance()
    booster = _booster()

    @staticmethod
    def log_weight(pulls, mean, best, variance, booster):
        gap = best - mean
        return log(booster) if gap == 0.0 else -pulls * gap * gap / (2.0 * variance)


class MSPlus(Weighted):
    """MS+ in its two readings; experimental: no bound of the paper is claimed for either.

    The published inflation of an arm's weight is 1 + D·N_a x_a as we recall it (`n_inside=True`);
    the code of the KL-MS authors has 1 + D·x_a (`n_inside=False`), which changes constants only.
    B = 1 and C = D = 0 give MS.
    """

    slug = "ms+"
    title = "Maillard sampling plus"
    formula = (
        "best: B(1 + C ln(1 + ln(t/N_a))); others: (1 + D N_a x_a) exp(−N_a x_a), "
        "x_a = (μ̂_max − μ̂_a)²/(2σ²)"
    )
    reference = "Bian and Jun (2022); code of Qin, Jun, Zhang (2023)"
    setting = MS.setting
    ranges = MS.ranges
    experimental = True

    B = Parameter(1.0, "the weight of the empirically best arm", **SCALE)
    C = Parameter(0.0, "how the best arm's weight grows at few pulls", low=0.0, high=1e12)
    D = Parameter(0.0, "how much the others' weights are inflated", low=0.0, high=1e12)
    n_inside = Parameter(True, "whether N_a stands inside the inflation")
    variance = _variance()

    @staticmethod
    def log_weight(pulls, mean, best, t, B, C, D, n_inside, variance):
        gap = best - mean
        x = gap * gap / (2.0 * variance)
        best_factor = B * (1.0 + C * log(1.0 + log(t / pulls)))
        factor = 1.0 + D * (pulls * x if n_inside != 0.0 else x)
        # One logarithm for both: an error of 1e-16 in a log-weight is one in the weight.
        return log(best_factor if gap == 0.0 else factor) - pulls * x


@kernel
def _tempered(heat, divergence):
    """−L·KL, and 0 at L = 0 even where KL is infinite."""
    return 0.0 if heat == 0.0 else -heat * divergence


def _gaussian(pulls, mean, best, variance, offset):
    return _tempered(pulls - offset, kl_gaussian(mean, best, variance))


def _poisson(pulls, mean, best, offset):
    return _tempered(pulls - offset, kl_poisson(mean, best))


def _exponential(pulls, mean, best, offset):
    return _tempered(pulls - offset, kl_exponential(mean, best))


def _bernoulli(pulls, mean, best, offset):
    return _tempered(pulls - offset, kl(mean, best))


def _geometric(pulls, mean, best, offset):
    return _tempered(pulls - offset, kl_geometric(mean, best))


#: The log-weights of the families that Exp-KL-MS knows.
FAMILIES: Final[dict[str, Kernel]] = {
    "gaussian": _gaussian,
    "poisson": _poisson,
    "exponential": _exponential,
    "bernoulli": _bernoulli,
    "geometric": _geometric,
}


class ExpKLMS(Weighted):
    """Maillard sampling for one-parameter exponential families.

    With the canonical inverse temperature L(N) = N − 1 the first choice after each arm's first pull
    is uniform. `offset=0` gives L(N) = N, which for Bernoulli rewards is KL-MS.
    """

    slug = "exp-kl-ms"
    title = "Maillard sampling for exponential families"
    formula = "p_a ∝ exp(−L(N_a) KL(μ̂_a, μ̂_max)), L(N) = N − 1"
    reference = "Qin, Jun, Zhang (2025), arXiv 2502.14379"
    setting = "Gaussian, Poisson, exponential, Bernoulli or geometric (0, 1, 2, …) rewards"
    ranges = ANY_RANGE

    family = Parameter(
        "gaussian",
        "the family of the rewards",
        choices=tuple(FAMILIES),
    )
    variance = Parameter(1.0, "the known variance (Gaussian only)", **SCALE)
    offset = Parameter(1.0, "L(N) = N − offset", low=0.0, high=1.0)

    def _log_weight(self) -> Kernel:
        return FAMILIES[self.family]

    def _default_rewards(self) -> tuple[float, float]:
        ends = {"gaussian": (-math.inf, math.inf), "bernoulli": (0.0, 1.0)}
        return ends.get(self.family, (0.0, math.inf))

    def _check(self) -> None:
        low, high = self.rewards
        if self.family == "bernoulli" and not math.isfinite(high - low):
            raise ValueError("exp-kl-ms: Bernoulli rewards lie in a bounded interval")
        if self.family in ("poisson", "exponential", "geometric") and (low, high) != (0, math.inf):
            raise ValueError(f"exp-kl-ms: {self.family} rewards lie in [0, ∞)")

    def _accepts(self, reward: float) -> bool:
        return self.family != "exponential" or reward > 0.0
