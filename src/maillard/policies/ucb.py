"""Upper confidence bounds: the arm whose plausible mean is largest.

In every formula t is the round to be decided, one more than the rewards seen, as the papers write
it (Garivier and Cappé 2011, Algorithm 1; Audibert et al. 2009: B_{k,T_k(t−1),t}). Only UCB1 and the
phases of Efficient-UCBV count the plays made so far.
"""

import numpy as np

from ..compiled import Kernel, build, kernel
from ..divergence import kl_upper
from ..numeric import INFINITY, log
from .empirical import EmpiricalLaws
from .families import Indexed
from .learning import PULLS, SPREAD, TOTAL, count_spread
from .parameters import SCALE, Parameter, horizon_parameter
from .policy import ANY_RANGE
from .rules import share_maximum


@kernel
def log_plus(x):
    """max(0, ln x)."""
    return log(max(x, 1.0))


@kernel
def _log_log(x):
    """ln ln x, from where it is positive."""
    return log_plus(log_plus(x))


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
        return mean + (log_plus(horizon / (arms * pulls)) / pulls) ** 0.5


class AnytimeMOSS(Indexed):
    """MOSS with the round in place of the horizon."""

    slug = "moss-anytime"
    title = "Anytime MOSS"
    formula = "μ̂_a + √((1+α)/2 · ln₊(t/(K N_a)) / N_a)"
    reference = "Degenne and Perchet (2016)"

    alpha = Parameter(1.35, "α; 1.35 is the authors' choice", low=0.0)

    @staticmethod
    def index(pulls, mean, t, arms, alpha):
        return mean + (0.5 * (1.0 + alpha) * log_plus(t / (arms * pulls)) / pulls) ** 0.5


@kernel
def _crowding(state, t, parameters, estimate):
    """H_a = Σ_b min(N_a, √(N_a N_b))."""
    for a in range(estimate.size):
        estimate[a] = 0.0
        for b in range(estimate.size):
            estimate[a] += min(state[PULLS, a], (state[PULLS, a] * state[PULLS, b]) ** 0.5)
    return 0.0


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

    @staticmethod
    def index(pulls, mean, estimate, horizon, sigma):
        x = horizon / estimate + 2.718281828459045
        bar = log(x) + 0.5 * log(log(x))
        return mean + (2.0 * sigma * sigma / pulls * bar) ** 0.5

    def _estimates(self) -> Kernel:
        return _crowding


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
        return kl_upper(mean, log(t / pulls) / pulls)


@kernel
def _squared_log_plus(x):
    """ln₊(x (1 + (ln₊ x)²))."""
    return log_plus(x * (1.0 + log_plus(x) ** 2))


class KLUCBPlusPlus(Indexed):
    """Minimax and asymptotically optimal, for a known number of rounds."""

    slug = "kl-ucb++"
    title = "KL-UCB++"
    formula = "max{μ: kl(μ̂_a, μ) ≤ g(N_a)/N_a}, g(n) = ln₊(x(1 + ln₊² x)), x = T/(Kn)"
    reference = "Ménard and Garivier (2017)"

    horizon = horizon_parameter()

    @staticmethod
    def index(pulls, mean, horizon, arms):
        return kl_upper(mean, _squared_log_plus(horizon / (arms * pulls)) / pulls)


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
    return log_plus(horizon / (arms * pulls)) / pulls


@kernel
def _anytime_switch_level(pulls, t, arms):
    return _squared_log_plus(t / (arms * pulls)) / pulls


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
def _elimination_bonus(state, a, phase, horizon, arms):
    """c_a = √(ρ (V_a + 2) ln(ψ T ε_m)/(4 N_a)), ρ = 1/2, ψ = T/K², ε_m = 2^−m."""
    variance = state[SPREAD, a] / state[PULLS, a]
    scale = max(log(horizon / (arms * arms) * horizon * 0.5**phase), 0.0)
    return (0.5 * (variance + 2.0) * scale / (4.0 * state[PULLS, a])) ** 0.5


@kernel
def _phase_length(phase, horizon, arms):
    """n_m = ⌈ln(ψ T ε_m²)/(2 ε_m)⌉."""
    epsilon = 0.5**phase
    return np.ceil(max(log(horizon / (arms * arms) * horizon * epsilon**2), 0.0) / (2.0 * epsilon))


@kernel
def elimination_index(state, memory, t, parameters, work, log_p, p):
    """The upper bound of the arms still in the race, −∞ for the others."""
    arms = float(p.size)
    for a in range(p.size):
        bonus = _elimination_bonus(state, a, memory[PHASE], parameters[0], arms)
        bound = state[TOTAL, a] / state[PULLS, a] + bonus
        work[1, a] = bound if state[ACTIVE, a] > 0.0 else -INFINITY
    share_maximum(work[1], log_p, p)


@kernel
def eliminate(state, memory, arm, reward, propensity, t, parameters):
    """Learn; drop the arms that are beaten; open the next phase when its time has come."""
    count_spread(state, memory, arm, reward, propensity, t, parameters)
    horizon, arms = parameters[0], float(state.shape[1])
    seen, unpulled = 0.0, 0.0
    for a in range(state.shape[1]):
        seen += state[PULLS, a]
        unpulled += 1.0 if state[PULLS, a] == 0.0 else 0.0
    if unpulled > 0.0:
        return
    lower = -INFINITY
    for a in range(state.shape[1]):
        if state[ACTIVE, a] > 0.0:
            bonus = _elimination_bonus(state, a, memory[PHASE], horizon, arms)
            lower = max(lower, state[TOTAL, a] / state[PULLS, a] - bonus)
    left = 0.0
    for a in range(state.shape[1]):
        bonus = _elimination_bonus(state, a, memory[PHASE], horizon, arms)
        beaten = state[TOTAL, a] / state[PULLS, a] + bonus < lower
        state[ACTIVE, a] = 0.0 if beaten else state[ACTIVE, a]
        left += state[ACTIVE, a]
    last = np.floor(0.5 * log(horizon / 2.718281828459045) / 0.6931471805599453)
    if (seen >= memory[DEADLINE]) & (memory[PHASE] <= last):
        memory[PHASE] += 1.0
        memory[DEADLINE] = seen + left * _phase_length(memory[PHASE], horizon, arms)


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

    def _added(self, position: int) -> None:
        self._state[ACTIVE, position] = 1.0

    def _removed(self, position: int) -> None:
        if not self._state[ACTIVE].any():  # the winner has gone: the race begins again
            self._state[ACTIVE] = 1.0

    def _rule(self) -> Kernel:
        return elimination_index

    def _learn(self) -> Kernel:
        return eliminate
