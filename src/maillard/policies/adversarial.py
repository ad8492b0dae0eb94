"""Policies for rewards that an adversary may choose: exponential weights and mirror descent.

They learn from importance-weighted losses: the propensity of the time comes back with each reward.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from ..compiled import Kernel, bind, kernel, wide
from ..numeric import INFINITY, exp, log
from .checks import brief
from .families import LossWeighted
from .learning import LOSS, PULLS, TOTAL
from .parameters import Parameter, horizon_parameter
from .policy import Array

SETTING = "rewards in [L, U], adversarial"


def _minus_loss(loss):
    return -loss


def _importance_weighted(reward, propensity):
    return (1.0 - reward) / propensity


@kernel
def _anytime_rate(t, arms):
    """η_t = √(ln K / (tK)) (Bubeck and Cesa-Bianchi 2012, Theorem 3.1)."""
    return (log(arms) / (t * arms)) ** 0.5


@kernel
def _horizon_rate(horizon, arms):
    """η = √(2 ln K / (TK))."""
    return (2.0 * log(arms) / (horizon * arms)) ** 0.5


def _anytime_weight(estimate, best, t, arms):
    return _anytime_rate(t, arms) * (estimate - best)


def _horizon_weight(estimate, best, horizon, arms):
    return _horizon_rate(horizon, arms) * (estimate - best)


def _gain_weight(estimate, best, gamma, arms):
    return gamma / arms * (estimate - best)


def _gain(reward, propensity):
    return -reward / propensity


class EXP3(LossWeighted):
    """Exponential weights for exploration and exploitation.

    `form="losses"`: p ∝ exp(−η_t L̂), anytime, or tuned to T when `horizon` is given.
    `form="rewards"`: the original, which mixes in a uniform share γ; γ is tuned to `horizon` unless
    given.
    """

    slug = "exp3"
    title = "EXP3"
    formula = (
        "losses: p ∝ exp(−η_t L̂), L̂_I += (1−r)/p_I, η_t = √(ln K/(tK)); "
        "rewards: p = (1−γ) w/Σw + γ/K, w_I *= exp(γ r/(K p_I))"
    )
    reference = (
        "Auer, Cesa-Bianchi, Freund, Schapire (2002); Bubeck, Cesa-Bianchi (2012), Theorem 3.1"
    )
    setting = SETTING

    form = Parameter("losses", "the form of the algorithm", choices=("losses", "rewards"))
    horizon = horizon_parameter(optional=True)
    gamma = Parameter(None, "γ of the form in rewards", low=1e-12, high=1.0, optional=True)

    estimate = staticmethod(_minus_loss)

    def _check(self) -> None:
        if self.form == "losses":
            if self.gamma is not None:
                raise ValueError("exp3: gamma belongs to form='rewards'")
            return
        if (self.gamma is None) == (self.horizon is None):
            raise ValueError("exp3: form='rewards' needs gamma= or horizon=, one of them")

    def _log_weight(self) -> Kernel:
        if self.form == "losses":
            return _anytime_weight if self.horizon is None else _horizon_weight
        return _gain_weight if self.gamma is not None else _tuned_gain_weight

    def _loss_estimate(self) -> Kernel:
        return _importance_weighted if self.form == "losses" else _gain

    def _mixture(self) -> Kernel | None:
        if self.form == "losses":
            return None
        return _given_share if self.gamma is not None else _tuned_share


@kernel
def _tuned_share(horizon, arms):
    """γ = min(1, √(K ln K / ((e−1) T))) (Auer et al. 2002, Corollary 3.2)."""
    return min(1.0, (arms * log(arms) / (1.718281828459045 * horizon)) ** 0.5)


def _given_share(gamma):
    return gamma


def _tuned_gain_weight(estimate, best, horizon, arms):
    return _tuned_share(horizon, arms) / arms * (estimate - best)


def _implicit(reward, propensity, t, arms):
    return (1.0 - reward) / (propensity + 0.5 * _anytime_rate(t, arms))


def _implicit_horizon(reward, propensity, horizon, arms):
    return (1.0 - reward) / (propensity + 0.5 * _horizon_rate(horizon, arms))


class EXP3IX(LossWeighted):
    """EXP3 with implicit exploration: losses divided by p + γ, for a regret with light tails."""

    slug = "exp3-ix"
    title = "EXP3 with implicit exploration"
    formula = "p ∝ exp(−η_t L̂), L̂_I += (1−r)/(p_I + η_t/2), η_t = √(ln K/(tK))"
    reference = "Neu (2015), Theorem 1"
    setting = SETTING

    horizon = horizon_parameter(optional=True)

    estimate = staticmethod(_minus_loss)

    def _log_weight(self) -> Kernel:
        return _anytime_weight if self.horizon is None else _horizon_weight

    def _loss_estimate(self) -> Kernel:
        return _implicit if self.horizon is None else _implicit_horizon


def exploration(*arguments: Any) -> float:
    """Open: ξ_t(a), how much exploration arm a has earned."""
    raise NotImplementedError


@kernel
def _squared_log(loss, pulls, mean, least, bound, t, arms, c, alpha, beta):
    """ξ = c (ln t)²/(t Δ̂²), Δ̂ the gap of importance-weighted losses (Seldin and Slivkins 2014)."""
    gap = min(1.0, (loss - least) / max(t - 1.0, 1.0))
    return INFINITY if gap == 0.0 else c * log(t) ** 2 / (t * gap * gap)


@kernel
def _width(pulls, t, arms, alpha):
    """√(α ln(t K^{1/α}) / (2 N_a))."""
    return ((alpha * log(t) + log(arms)) / (2.0 * pulls)) ** 0.5


@kernel
def _confidence_gap(loss, pulls, mean, least, bound, t, arms, c, alpha, beta):
    """ξ = β ln t/(t Δ̂²), Δ̂ = max(0, LCB_a − min_b UCB_b) on unweighted losses (2017)."""
    lower = max(0.0, 1.0 - mean - _width(pulls, t, arms, alpha))
    gap = max(0.0, lower - bound)
    return INFINITY if gap == 0.0 else beta * log(t) / (t * gap * gap)


@kernel
def exp3_plus_plus(state, memory, t, parameters, work, weight):
    """p = (1 − Σ ε_a) ρ + ε with ρ ∝ exp(−η_t L̂) and a share ε_a of each arm's own."""
    wide()
    lanes, arms = weight.shape[1], float(weight.shape[0])
    c, alpha, beta = parameters[0], parameters[1], parameters[2]
    least, bound, rate, explored, mass = work[0, 0], work[1, 0], work[2, 0], work[3, 0], work[4, 0]
    share = work[5]
    for l in range(lanes):
        least[l], bound[l], explored[l], mass[l] = INFINITY, 1.0, 0.0, 0.0
        rate[l] = 0.5 * _anytime_rate(t[l], arms)
    for a in range(weight.shape[0]):
        for l in range(lanes):
            pulls = state[PULLS, a, l]
            least[l] = min(least[l], state[LOSS, a, l])
            upper = 1.0 - state[TOTAL, a, l] / pulls + _width(pulls, t[l], arms, alpha)
            bound[l] = min(bound[l], upper if pulls > 0.0 else 1.0)
    for a in range(weight.shape[0]):
        for l in range(lanes):
            weight[a, l] = exp(-rate[l] * (state[LOSS, a, l] - least[l]))  # the largest is 1
            mass[l] += weight[a, l]
    for a in range(weight.shape[0]):
        for l in range(lanes):
            pulls = state[PULLS, a, l]
            mean = state[TOTAL, a, l] / max(pulls, 1.0)
            own = exploration(
                state[LOSS, a, l], pulls, mean, least[l], bound[l], t[l], arms, c, alpha, beta
            )
            share[a, l] = min(0.5 / arms, min(rate[l], own))
            explored[l] += share[a, l]
    for a in range(weight.shape[0]):
        for l in range(lanes):
            weight[a, l] = (1.0 - explored[l]) * (weight[a, l] / mass[l]) + share[a, l]


class EXP3PlusPlus(LossWeighted):
    """EXP3 with exploration that each arm earns: safe against adversaries, logarithmic without.

    `version="2014"` estimates gaps from importance-weighted losses, `version="2017"` from plain
    averages with confidence bounds, after pulling each arm once.
    """

    slug = "exp3++"
    title = "EXP3++"
    formula = (
        "p = (1 − Σε) ρ + ε, ρ ∝ exp(−η_t L̂), ε_a = min(1/(2K), η_t, ξ_a), η_t = ½√(ln K/(tK)); "
        "2014: ξ = c (ln t)²/(t Δ̂²); 2017: ξ = β ln t/(t Δ̂_LCB²)"
    )
    reference = "Seldin and Slivkins (2014); Seldin and Lugosi (2017)"
    setting = SETTING

    version = Parameter("2017", "which paper's exploration", choices=("2014", "2017"))
    c = Parameter(18.0, "c of 2014", low=0.0, open=True)
    alpha = Parameter(3.0, "α of 2017's confidence bounds", low=0.0, open=True)
    beta = Parameter(256.0, "β of 2017", low=0.0, open=True)

    loss_estimate = staticmethod(_importance_weighted)

    @property
    def forced(self) -> bool:  # type: ignore[override]
        """2017 pulls each arm once first, 2014 does not."""
        return self.version == "2017"  # type: ignore[no-any-return]

    def _block(self) -> Kernel:
        earned = _squared_log if self.version == "2014" else _confidence_gap
        return bind(exp3_plus_plus, exploration=earned)


#: Bound per policy: 2 for importance-weighted losses, 4 for the reduced-variance ones.
SCALE = 2.0


@kernel
def tsallis(state, memory, t, parameters, work, weight):
    """w_a = 4 (η_t (L̂_a − x))^−2 with x < min L̂ such that Σ w_a = 1."""
    wide()
    lanes, arms = weight.shape[1], float(weight.shape[0])
    least, eta, y = work[0, 0], work[1, 0], work[2, 0]
    excess, slope, going = work[3, 0], work[4, 0], work[5, 0]
    for l in range(lanes):
        least[l] = INFINITY
        eta[l] = SCALE / t[l] ** 0.5
        # With y = min L̂ − x > 0 the sum falls and is convex in y, and at y = 2/η the best arm alone
        # has weight 1: from there Newton's steps rise to the root and never pass it. Working with
        # differences of losses keeps every digit however large the losses have grown.
        y[l] = 2.0 / eta[l]
        going[l] = 1.0
    for a in range(weight.shape[0]):
        for l in range(lanes):
            least[l] = min(least[l], state[LOSS, a, l])
    left = 1.0
    for _ in range(100):
        for l in range(lanes):
            excess[l], slope[l] = -1.0, 0.0
        for a in range(weight.shape[0]):
            for l in range(lanes):
                root = 2.0 / (eta[l] * (state[LOSS, a, l] - least[l] + y[l]))
                weight[a, l] = root * root
                excess[l] += weight[a, l]
                slope[l] += weight[a, l] * root
        if left == 0.0:
            break
        left = 0.0
        # A trial that is done waits for the others, or they would tell on it.
        for l in range(lanes):
            y[l] += going[l] * max(excess[l] / (eta[l] * slope[l]), 0.0)
            going[l] = 0.0 if excess[l] <= 1e-15 * arms else going[l]
            left = max(left, going[l])


class TsallisINF(LossWeighted):
    """Mirror descent with Tsallis entropy, α = 1/2: best of both worlds without knowing which.

    `estimator="rv"` learns from losses whose variance is reduced by a baseline of 1/2; its updates
    need the Decision itself, because they concern every arm. With a `floor` the baseline goes by
    the probabilities that were drawn from; the losses stay unbiased.
    """

    slug = "tsallis-inf"
    title = "Tsallis-INF"
    formula = "w_a = 4 (η_t (L̂_a − x))^−2 with Σ w = 1; iw: η_t = 2/√t, rv: η_t = 4/√t"
    reference = "Zimmert and Seldin (2021), Algorithm 1"
    setting = "rewards in [L, U], adversarial and stochastic"
    exactness = "Newton's method to a residual of 1e-14"

    estimator = Parameter("iw", "how losses are estimated", choices=("iw", "rv"))

    loss_estimate = staticmethod(_importance_weighted)

    def _block(self) -> Kernel:
        return bind(tsallis, SCALE=2.0 if self.estimator == "iw" else 4.0)

    def _note(self, labels: Sequence[Hashable], p: Array) -> tuple[Any, ...]:
        """For rv: the arms whose loss gets the baseline, those with w_a ≥ η_t²."""
        if self.estimator == "iw":
            return ()
        bar = 16.0 / self.round
        return tuple(x for x, w in zip(labels, p, strict=True) if w >= bar)

    def _checked_note(self, note: Any) -> tuple[Any, ...]:
        if self.estimator == "iw":
            return ()
        if note is None:
            raise ValueError("tsallis-inf with estimator='rv' learns from the Decision itself")
        labels = isinstance(note, (tuple, list)) and all(isinstance(x, (str, int)) for x in note)
        if not labels:
            raise ValueError(f"the note of a decision must be a list of labels, not {brief(note)}")
        return tuple(note)

    def _absorb(
        self, position: int, x: float, propensity: float, round: int, note: tuple[Any, ...]
    ) -> None:
        if self.estimator == "iw":
            return super()._absorb(position, x, propensity, round, note)
        # ℓ̂_a = 1{a = I} (ℓ − B_a)/w_a + B_a with B_a = ½ 1{w_a ≥ η²}: B is added to every arm.
        raised = [self._position[label] for label in note if label in self._position]
        baseline = 0.5 if position in raised else 0.0
        self._state[LOSS, raised] += 0.5
        self._state[LOSS, position] += (1.0 - x - baseline) / propensity
        self._state[PULLS, position] += 1.0
        self._state[TOTAL, position] += x
