"""Upper confidence bounds: the arm whose plausible mean is largest.

In every formula t is the round to be decided, one more than the rewards seen, as the papers write
it (Garivier and Cappé 2011, Algorithm 1; Audibert et al. 2009: B_{k,T_k(t−1),t}). Only UCB1 and the
phases of Efficient-UCBV count the plays made so far.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..compiled import Kernel, build, kernel, wide
from ..divergence import kl_upper
from ..numeric import INFINITY, LN2, log, log1p
from .empirical import EmpiricalLaws
from .families import Indexed
from .learning import PULLS, SPREAD, TOTAL, add_spread
from .parameters import SCALE, Parameter, horizon_parameter
from .policy import ANY_RANGE
from .rules import INDICES, share_largest


@kernel
def log_plus(x, y):
    """ln₊(x/y) = max(0, ln(x/y)), with all digits when x is barely above y."""
    return log1p(max(x - y, 0.0) / y)


@kernel
def _log_log(x):
    """ln ln x, from where it is positive."""
    return log_plus(log_plus(x, 1.0), 1.0)


class UCB1(Indexed):
    """The mean plus a Hoeffding bonus; its n is the number of rewards seen, t − 1."""

    slug = "ucb1"
    title = "UCB1"
    formula = "μ̂_a + √(2 ln(t−1) / N_a)"
    reference = "Auer, Cesa-Bianchi, Fischer (2002), Figure 1"

    @staticmethod
    def index(pulls, mean, t):
        return mean + (2.0 * log(t - 1.0) / pulls) ** 0.5


class UCBV(Indexed):
    """A Bernstein bonus: arms of small variance are explored less; t is the round to be decided."""

    slug = "ucb-v"
    title = "UCB-V"
    formula = "μ̂_a + √(2 V_a E_t / N_a) + 3 c E_t / N_a, E_t = ζ ln t, V_a the empirical variance"
    reference = "Audibert, Munos, Szepesvári (2009)"
    rows = ("spread",)

    zeta = Parameter(1.0, "ζ; the theory wants more than 1", low=0.0, open=True)
    c = Parameter(1.0, "the factor of the range term", low=0.0)

    @staticmethod
    def index(pulls, mean, variance, t, zeta, c):
        e = zeta * log(t) / pulls
        return mean + (2.0 * variance * e) ** 0.5 + 3.0 * c * e


class MOSS(Indexed):
    """Minimax optimal, for a known number of rounds."""

    slug = "moss"
    title = "MOSS"
    formula = "μ̂_a + √(ln₊(T/(K N_a)) / N_a)"
    reference = "Audibert and Bubeck (2009)"

    horizon = horizon_parameter()

    @staticmethod
    def index(pulls, mean, horizon, arms):
        return mean + (log_plus(horizon, arms * pulls) / pulls) ** 0.5


class AnytimeMOSS(Indexed):
    """MOSS with the round in place of the horizon."""

    slug = "moss-anytime"
    title = "Anytime MOSS"
    formula = "μ̂_a + √((1+α)/2 · ln₊(t/(K N_a)) / N_a)"
    reference = "Degenne and Perchet (2016)"

    alpha = Parameter(1.35, "α; 1.35 is the authors' choice", low=0.0)

    @staticmethod
    def index(pulls, mean, t, arms, alpha):
        return mean + (0.5 * (1.0 + alpha) * log_plus(t, arms * pulls) / pulls) ** 0.5


@kernel
def _ada_index(pulls, mean, crowding, horizon, sigma):
    """μ̂_a + √(2σ²/N_a · ln̄(T/H_a)), ln̄(x) = ln((x+e)√ln(x+e))."""
    x = horizon / crowding + 2.718281828459045
    bar = log(x) + 0.5 * log(log(x))
    return mean + (2.0 * sigma * sigma / pulls * bar) ** 0.5


@kernel
def crowded(state, memory, t, parameters, work, weight):
    """The largest index, with H_a = Σ_b min(N_a, √(N_a N_b)) = √N_a Σ_b min(√N_a, √N_b)."""
    wide()
    arms, lanes = weight.shape
    root, indices = work[0], work[INDICES]
    for a in range(arms):
        for l in range(lanes):
            root[a, l] = state[PULLS, a, l] ** 0.5
            indices[a, l] = 0.0
    for a in range(arms):
        for b in range(arms):
            for l in range(lanes):
                indices[a, l] += min(root[a, l], root[b, l])
    for a in range(arms):
        for l in range(lanes):
            pulls = state[PULLS, a, l]
            indices[a, l] = _ada_index(
                pulls, state[TOTAL, a, l] / pulls, root[a, l] * indices[a, l],
                parameters[0], parameters[1],
            )  # fmt: skip
    share_largest(indices, weight, work[2, 0])


class AdaUCB(Indexed):
    """A bonus that knows how often the *other* arms have been pulled: near-optimal in many ways."""

    slug = "ada-ucb"
    title = "AdaUCB"
    formula = (
        "μ̂_a + √(2σ²/N_a · ln̄(T/H_a)), H_a = Σ_b min(N_a, √(N_a N_b)), ln̄(x) = ln((x+e)√ln(x+e))"
    )
    reference = "Lattimore (2018)"
    setting = "σ²-sub-Gaussian rewards; in [L, U] σ = 1/2 after scaling"
    ranges = ANY_RANGE

    horizon = horizon_parameter()
    sigma = Parameter(0.5, "σ of the (scaled) rewards", **SCALE)

    def _block(self) -> Kernel:
        return crowded


# --------------------------------------------------------------------------------------------------
# KL-UCB: the largest mean that a divergence allows


def _lattimore_szepesvari(pulls, mean, t):
    return kl_upper(mean, log(1.0 + t * log(t) ** 2) / pulls)


def _garivier_cappe(pulls, mean, t, c):
    return kl_upper(mean, (log(t) + c * _log_log(t)) / pulls)


class KLUCB(Indexed):
    """The upper confidence bound that the Bernoulli divergence allows."""

    slug = "kl-ucb"
    title = "KL-UCB"
    formula = "max{μ: kl(μ̂_a, μ) ≤ ln f(t)/N_a}, f(t) = 1 + t ln² t, or ln f(t) = ln t + c ln ln t"
    reference = "Lattimore, Szepesvári (2020), Algorithm 8; Garivier, Cappé (2011)"

    f = Parameter(
        "1+t-log2-t",
        "the exploration function",
        choices=("1+t-log2-t", "log-t"),
    )
    c = Parameter(0.0, "c of f=log-t: 3 in the theory, 0 in practice", low=0.0)

    def _index(self) -> Kernel:
        return _lattimore_szepesvari if self.f == "1+t-log2-t" else _garivier_cappe


class KLUCBPlus(Indexed):
    """KL-UCB that explores an arm less the more it was pulled; t is the round to be decided."""

    slug = "kl-ucb+"
    title = "KL-UCB+"
    formula = "max{μ: kl(μ̂_a, μ) ≤ ln(t/N_a)/N_a}"
    reference = "Garivier and Cappé (2011)"

    @staticmethod
    def index(pulls, mean, t):
        return kl_upper(mean, log_plus(t, pulls) / pulls)


@kernel
def _squared_log_plus(x, y):
    """ln₊(r (1 + (ln₊ r)²)) with r = x/y."""
    logarithm = log_plus(x, y)
    return logarithm + log1p(logarithm * logarithm)


class KLUCBPlusPlus(Indexed):
    """Minimax and asymptotically optimal, for a known number of rounds."""

    slug = "kl-ucb++"
    title = "KL-UCB++"
    formula = "max{μ: kl(μ̂_a, μ) ≤ g(N_a)/N_a}, g(n) = ln₊(x(1 + ln₊² x)), x = T/(Kn)"
    reference = "Ménard and Garivier (2017)"

    horizon = horizon_parameter()

    @staticmethod
    def index(pulls, mean, horizon, arms):
        return kl_upper(mean, _squared_log_plus(horizon, arms * pulls) / pulls)


class EmpiricalKLUCB(EmpiricalLaws, Indexed):
    """KL-UCB with the whole empirical law in place of its mean: optimal for all bounded rewards."""

    slug = "empirical-kl-ucb"
    title = "Empirical KL-UCB"
    formula = "sup{μ: K_inf(F̂_a, μ) ≤ (ln t + c ln ln t)/N_a}"
    reference = "Cappé, Garivier, Maillard, Munos, Stoltz (2013)"
    setting = "rewards in [L, U] or (−∞, U]"
    rows = ("bound",)
    derived = ("bound",)

    c = Parameter(1.0, "c: 1 in the theory, 0 in practice", low=0.0)

    @staticmethod
    def level(pulls, t, c):
        return (log(t) + c * _log_log(t)) / pulls

    @staticmethod
    def index(bound):
        return bound


@kernel
def _switch_level(pulls, horizon, arms):
    return log_plus(horizon, arms * pulls) / pulls


@kernel
def _anytime_switch_level(pulls, t, arms):
    return _squared_log_plus(t, arms * pulls) / pulls


def _switch(pulls, mean, bound, horizon, arms):
    few = pulls**5 * arms <= horizon  # N ≤ ⌊(T/K)^{1/5}⌋ without the rounding of a root
    moss = mean + (0.5 * _switch_level(pulls, horizon, arms)) ** 0.5
    return bound if few else moss


def _anytime_switch(pulls, mean, bound, t, arms):
    few = pulls**9 * arms**8 <= t**8  # N ≤ ⌊(t/K)^{8/9}⌋
    moss = mean + (0.5 * _anytime_switch_level(pulls, t, arms)) ** 0.5
    return bound if few else moss


class KLUCBSwitch(EmpiricalLaws, Indexed):
    """Empirical KL-UCB while an arm has few pulls, MOSS after: optimal in both senses."""

    slug = "kl-ucb-switch"
    title = "KL-UCB-switch"
    formula = (
        "N_a ≤ (T/K)^{1/5}: sup{μ: K_inf(F̂_a, μ) ≤ ln₊(T/(K N_a))/N_a}, "
        "else μ̂_a + √(ln₊(T/(K N_a))/(2 N_a)); anytime: t for T, exponent 8/9, ln₊(x(1+ln₊² x))"
    )
    reference = "Garivier, Hadiji, Ménard, Stoltz (2022)"
    ranges = ("bounded",)
    rows = ("bound",)
    derived = ("bound",)

    horizon = horizon_parameter(optional=True)

    def _level(self) -> Kernel:
        return _anytime_switch_level if self.horizon is None else _switch_level

    def _index(self) -> Kernel:
        return _anytime_switch if self.horizon is None else _switch


# --------------------------------------------------------------------------------------------------
# Efficient-UCBV: rounds of elimination

ACTIVE = 3
PHASE, DEADLINE = 0, 1


@kernel
def _elimination_scale(phase, horizon, arms):
    """ln(ψ T ε_m), ψ = T/K², ε_m = 2^−m; 0 where that is negative."""
    return max(log(horizon / (arms * arms) * horizon) - LN2 * phase, 0.0)


@kernel
def _elimination_bonus(pulls, spread, scale):
    """c_a = √(ρ (V_a + 2) ln(ψ T ε_m)/(4 N_a)), ρ = 1/2."""
    share = 1.0 / pulls
    return (0.125 * (spread * share + 2.0) * scale * share) ** 0.5


@kernel
def _phase_length(phase, horizon, arms):
    """n_m = ⌈ln(ψ T ε_m²)/(2 ε_m)⌉."""
    epsilon = 0.5**phase
    return np.ceil(max(log(horizon / (arms * arms) * horizon * epsilon**2), 0.0) / (2.0 * epsilon))


@kernel
def elimination_index(state, memory, t, parameters, work, weight):
    """The upper bound of the arms still in the race, −∞ for the others."""
    wide()
    arms, lanes = weight.shape
    scale, indices = work[0, 0], work[INDICES]
    for l in range(lanes):
        scale[l] = _elimination_scale(memory[PHASE, l], parameters[0], float(arms))
    for a in range(arms):
        for l in range(lanes):
            pulls = state[PULLS, a, l]
            bonus = _elimination_bonus(pulls, state[SPREAD, a, l], scale[l])
            bound = state[TOTAL, a, l] / pulls + bonus
            indices[a, l] = bound if state[ACTIVE, a, l] > 0.0 else -INFINITY
    share_largest(indices, weight, work[2, 0])


@kernel
def eliminate(state, memory, arm, reward, propensity, t, parameters, live):
    """Learn; drop the arms that are beaten; open the next phase when its time has come."""
    wide()
    arms, lanes = state.shape[1], state.shape[2]
    horizon, last = parameters[0], np.floor(0.5 * log(parameters[0] / 2.718281828459045) / LN2)
    numbers, upper = np.zeros((5, lanes)), np.empty((arms, lanes))
    seen, unpulled, scale, lower, left = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    for l in range(lanes):
        if live[l] > 0.0:
            add_spread(state, arm[l], l, reward[l])
        scale[l] = _elimination_scale(memory[PHASE, l], horizon, float(arms))
        lower[l] = -INFINITY
    for a in range(arms):
        for l in range(lanes):
            pulls = state[PULLS, a, l]
            seen[l] += pulls
            unpulled[l] += 1.0 if pulls == 0.0 else 0.0
            bonus = _elimination_bonus(pulls, state[SPREAD, a, l], scale[l])
            mean = state[TOTAL, a, l] / pulls
            upper[a, l] = mean + bonus
            lower[l] = max(lower[l], mean - bonus if state[ACTIVE, a, l] > 0.0 else -INFINITY)
    for a in range(arms):
        for l in range(lanes):
            beaten = (unpulled[l] == 0.0) & (upper[a, l] < lower[l])
            state[ACTIVE, a, l] = 0.0 if beaten else state[ACTIVE, a, l]
            left[l] += state[ACTIVE, a, l]
    for l in range(lanes):
        due = (unpulled[l] == 0.0) & (seen[l] >= memory[DEADLINE, l]) & (live[l] > 0.0)
        if due & (memory[PHASE, l] <= last):
            memory[PHASE, l] += 1.0
            length = _phase_length(memory[PHASE, l], horizon, float(arms))
            memory[DEADLINE, l] = seen[l] + left[l] * length


class EfficientUCBV(Indexed):
    """UCB-V with elimination in phases, for a known number of rounds.

    An arm added later enters the race; when the last one in it is retired, all others enter again.
    Among eligible arms that are all eliminated the choice is uniform.
    """

    slug = "efficient-ucb-v"
    title = "Efficient-UCBV"
    formula = (
        "argmax over arms in the race of μ̂_a + √((V_a+2) ln(ψTε_m)/(8 N_a)), ψ = T/K², ε_m = 2^−m"
    )
    reference = "Mukherjee, Naveen, Sudarsanam, Ravindran (2018), Algorithm 1"
    rows = ("spread", "active")
    memory = 2
    countable = False

    horizon = horizon_parameter()

    def _start(self) -> None:
        arms = float(len(self.arms))
        self._state[ACTIVE] = 1.0
        length = build(_phase_length, "float64(float64, float64, float64)")
        self._memory[DEADLINE] = arms * length(0.0, float(self.horizon), arms)

    def _restore_extra(self, stored: Mapping[str, Any]) -> None:
        active = self._state[ACTIVE]
        if not active.any() or not {0.0, 1.0}.issuperset(active.tolist()):
            raise ValueError("active must hold a 1 for each arm in the race, else 0")
        if not (self._memory[PHASE] >= 0.0 and self._memory[PHASE] % 1.0 == 0.0):
            raise ValueError("memory must hold the number of the phase and its deadline")

    def _added(self, position: int) -> None:
        self._state[ACTIVE, position] = 1.0

    def _removed(self, position: int) -> None:
        if not self._state[ACTIVE].any():  # the winner has gone: the race begins again
            self._state[ACTIVE] = 1.0

    def _block(self) -> Kernel:
        return elimination_index

    def _learn_block(self) -> Kernel:
        return eliminate
