"""Thompson sampling and its relatives: every arm draws a random index, the largest is played.

The probability of each arm, which others estimate by Monte Carlo, is an integral that quadrature
gives to full relative accuracy.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from ..compiled import Kernel
from ..numeric import INFINITY
from . import rules
from .checks import whole
from .decision import Decision, Decisions
from .empirical import EmpiricalLaws
from .families import Perturbed
from .parameters import SCALE, Parameter, horizon_parameter
from .policy import ANY_RANGE, Array, InexactProbabilityError
from .quadrature import BETA, EXPONENTIAL, GAUSSIAN, GUMBEL, RAYLEIGH
from .ucb import log_plus


def _prior() -> Parameter:
    return Parameter(
        (0.5, 0.5),
        "the Beta prior (α, β); 1/2, 1/2 is Jeffreys'",
        low=1e-3,
        high=1e9,
        parts=("alpha", "beta"),
    )


def _sigma() -> Parameter:
    return Parameter(0.5, "σ of the (scaled) rewards; 1/2 holds on [0, 1]", low=1e-6, high=1e6)


#: Where the other arms' chances together are below this, they are worked out by their logarithms.
FAINT = 1e-200

SUB_GAUSSIAN = "σ-sub-Gaussian rewards; in [L, U] σ = 1/2 after scaling"


class Thompson(Perturbed):
    """Bernoulli Thompson sampling: plays each arm with its posterior probability of being the best.

    Rewards between L and U count as fractions of a success, a common heuristic; `binarise=` gives
    such rewards the guarantees of Bernoulli ones.
    """

    slug = "thompson"
    title = "Thompson sampling"
    formula = "p_a = P(θ_a largest), θ_a ~ Beta(α + S_a, β + N_a − S_a)"
    reference = "Thompson (1933); Agrawal and Goyal (2012)"
    setting = "Bernoulli rewards; others in [L, U] by binarise= or as fractions"
    forced = False
    family = BETA

    prior = _prior()

    @staticmethod
    def law(pulls, total, alpha, beta):
        return alpha + total, beta + (pulls - total), 0.0


class TopTwoThompson(Perturbed):
    """Thompson sampling that plays a second candidate now and then: for finding the best arm.

    With probability `leader` the arm of the largest draw, else one drawn again until it differs.
    """

    slug = "top-two-thompson"
    title = "Top-two Thompson sampling"
    formula = "p_a = P_a [β + (1−β) Σ_{b≠a} P_b/(1−P_b)], P Thompson's probabilities"
    reference = "Russo (2016)"
    setting = Thompson.setting
    forced = False
    family = BETA

    leader = Parameter(
        0.5, "the probability of playing the first candidate", low=0.0, high=1.0, open=True
    )
    prior = _prior()

    law = Thompson.law

    def _rule(self) -> Kernel:
        return rules.top_two

    def _prepare(self, state: Array, positions: Sequence[int]) -> None:
        """P(arm a's draw is the largest); the others' shares by logarithms when they are faint.

        Their sum only has to stand well above what underflows: the second candidate is drawn from
        their proportions, and their own P is nothing beside it.
        """
        super()._prepare(state, positions)
        chance = state[rules.CHANCE]
        others = np.delete(np.arange(chance.size), np.argmax(chance))
        if others.size and chance[others].sum() < FAINT:
            logs = np.array([self._log_chance(state, int(a)) for a in others])
            chance[others] = FAINT * np.exp(logs - logs.max())

    def _log_tail(self, state: Array, p: Array, arm: int) -> float:
        logs = np.array([self._log_chance(state, a) for a in range(p.size)])
        odds = [logs[b] - np.logaddexp.reduce(np.delete(logs, b)) for b in range(p.size)]
        second = math.log(1.0 - self.leader) + np.logaddexp.reduce(np.delete(odds, arm))
        return float(logs[arm] + np.logaddexp(math.log(self.leader), second))


class GaussianThompson(Perturbed):
    """Thompson sampling with Gaussian posteriors under a flat prior, each arm pulled once first."""

    slug = "gaussian-thompson"
    title = "Gaussian Thompson sampling"
    formula = "p_a = P(θ_a largest), θ_a ~ N(μ̂_a, σ²/N_a)"
    reference = "Korda, Kaufmann, Munos (2013); bounds in Agrawal and Goyal (2017)"
    setting = "Gaussian or σ²-sub-Gaussian rewards; in [L, U] σ² = 1/4 after scaling"
    ranges = ANY_RANGE
    family = GAUSSIAN

    variance = Parameter(0.25, "σ² of the (scaled) rewards; 1/4 holds on [0, 1]", **SCALE)

    @staticmethod
    def law(pulls, mean, variance):
        return mean, (variance / pulls) ** 0.5, INFINITY


class ExpTS(Perturbed):
    """Draws from a law made of the divergence itself: sub-UCB and near minimax optimal."""

    slug = "exp-ts"
    title = "ExpTS"
    formula = (
        "p_a = P(θ_a largest), P(θ_a > x) = ½ exp(−(N_a−1) kl(μ̂_a, x)) if x > μ̂_a, alike below"
    )
    reference = "Jin, Xu, Xiao, Anandkumar (2022)"
    family = EXPONENTIAL

    @staticmethod
    def law(pulls, total):
        return total, pulls - total, 1.0


class ExpTSPlus(Perturbed):
    """ExpTS that draws with probability 1/K only, else takes the mean: minimax optimal."""

    slug = "exp-ts+"
    title = "ExpTS+"
    formula = "p_a = P(θ_a largest), θ_a = μ̂_a with probability 1 − 1/K, else drawn as in ExpTS"
    reference = "Jin, Xu, Xiao, Anandkumar (2022)"
    family = EXPONENTIAL

    @staticmethod
    def law(pulls, total, arms):
        return total, pulls - total, 1.0 / arms


class MOTS(Perturbed):
    """Gaussian Thompson sampling whose draws are clipped at MOSS's bound: minimax optimal."""

    slug = "mots"
    title = "MOTS"
    formula = "p_a = P(θ_a largest), θ_a = min(N(μ̂_a, σ²/(ρN_a)), μ̂_a + σ√(α ln₊(T/(K N_a))/N_a))"
    reference = "Jin, Xu, Shi, Xiao, Gu (2021)"
    setting = SUB_GAUSSIAN
    ranges = ANY_RANGE
    family = GAUSSIAN

    horizon = horizon_parameter()
    rho = Parameter(0.9999, "ρ; the theory wants (1/2, 1)", low=1e-6, high=1.0)
    alpha = Parameter(2.0, "α; the theory wants at least 4", low=0.0, high=1e6)
    sigma = _sigma()

    @staticmethod
    def law(pulls, mean, arms, horizon, rho, alpha, sigma):
        clip = sigma * (alpha * log_plus(horizon, arms * pulls) / pulls) ** 0.5
        return mean, sigma / (rho * pulls) ** 0.5, mean + clip


class MOTSJ(Perturbed):
    """MOTS with draws from a two-sided Rayleigh law: asymptotically optimal as well."""

    slug = "mots-j"
    title = "MOTS-J"
    formula = "as MOTS, with density N|x−μ̂|/(2σ²) exp(−N (x−μ̂)²/(2σ²))"
    reference = "Jin, Xu, Shi, Xiao, Gu (2021)"
    setting = SUB_GAUSSIAN
    ranges = ANY_RANGE
    family = RAYLEIGH

    horizon = horizon_parameter()
    alpha = Parameter(2.0, "α; the theory wants at least 4", low=0.0, high=1e6)
    sigma = _sigma()

    @staticmethod
    def law(pulls, mean, arms, horizon, alpha, sigma):
        clip = sigma * (alpha * log_plus(horizon, arms * pulls) / pulls) ** 0.5
        return mean, sigma / pulls**0.5, mean + clip


class BoltzmannGumbel(Perturbed):
    """Boltzmann exploration done right: Gumbel noise that shrinks with each arm's own pulls."""

    slug = "boltzmann-gumbel"
    title = "Boltzmann-Gumbel exploration"
    formula = "p_a = P(μ̂_a + C/√N_a · Z_a largest), Z_a standard Gumbel"
    reference = "Cesa-Bianchi, Gentile, Lugosi, Neu (2017)"
    setting = "σ-sub-Gaussian rewards, C = σ; in [L, U] 1/2 after scaling"
    ranges = ANY_RANGE
    family = GUMBEL

    C = Parameter(0.5, "the scale C of the noise", low=1e-6, high=1e6)

    @staticmethod
    def law(pulls, mean, C):
        return mean, C / pulls**0.5, 0.0


class NPTS(EmpiricalLaws, Perturbed):
    """Non-parametric Thompson sampling: a random reweighting of each arm's own rewards.

    On rewards that are all L or U the index is a Beta draw and the probabilities are exact. Once
    another reward has come in there is no way to have them: `probabilities()` raises
    InexactProbabilityError and decisions carry NaN as their propensity. `binarise=` avoids that.
    """

    slug = "npts"
    title = "Non-parametric Thompson sampling"
    formula = "argmax Σ_i w_i X_i over the rewards X_i of an arm and one U, w ~ Dirichlet(1, …, 1)"
    reference = "Riou and Honda (2020)"
    exactness = "none in general; on rewards in {L, U} quadrature to 1e-12"
    ranges = ("bounded",)
    forced = False
    family = BETA

    @staticmethod
    def law(pulls, total):
        # On binary rewards the index is Beta(1 + S, N − S): the value 1 itself when N = S.
        return total + 1.0, pulls - total, 0.0

    @property
    def exact(self) -> bool:
        """Whether all rewards so far, of the arms in play, are L or U."""
        return all(x in (0.0, 1.0) for law in self._laws for x in law)

    def _restricted(self, eligible: Iterable[Hashable]) -> tuple[Sequence[int], Array, Array]:
        if not self.exact:
            raise InexactProbabilityError(
                "npts has no exact probabilities once a reward lies strictly between L and U; "
                "binarise= keeps them exact"
            )
        return super()._restricted(eligible)

    def decide(
        self,
        rng: np.random.Generator,
        size: int | None = None,
        eligible: Iterable[Hashable] | None = None,
    ) -> Any:
        """Choose an arm; where no exact probability exists, the propensity of the choice is NaN."""
        if self.exact or not isinstance(rng, np.random.Generator):
            return super().decide(rng, size, eligible)
        among = self.arms if eligible is None else eligible
        positions = self._positions(among)
        count = 1 if size is None else whole("size", size)
        index = [self._sampled(positions, rng) for _ in range(count)]
        if size is None:
            return Decision(self.arms[index[0]], math.nan, math.nan, self.round)
        unknown = np.full(len(self.arms), math.nan)
        return Decisions(self.arms, np.array(index), unknown, unknown, self.round, ())

    def _sampled(self, positions: Sequence[int], rng: np.random.Generator) -> int:
        """The position of the largest draw, ties shared; any of them with probability `floor`."""
        if rng.random() < self.floor:
            return int(rng.choice(positions))
        draws = [self._draw(position, rng) for position in positions]
        largest = max(draws)
        return int(rng.choice([i for i, x in zip(positions, draws, strict=True) if x == largest]))

    def _draw(self, position: int, rng: np.random.Generator) -> float:
        """Σ w_i X_i: the weights of equal rewards together are a Gamma variate of their number."""
        law = self._laws[position]
        if set(law) <= {1.0}:
            return 1.0  # exactly: rounding must not break the tie of two such arms
        values = np.array([1.0, *law])
        weights = rng.standard_gamma([1.0, *law.values()])
        return float(weights @ values / weights.sum())
