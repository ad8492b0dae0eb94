"""Policies over a block of trials: the formulas of `maillard.policies`, with trials innermost.

A block function advances `LANES` trials by one step. The formulas are the policies' own, filled
into templates whose innermost loop runs over the lanes, so that LLVM makes SIMD code of it; a rule
that is more than formulas runs lane by lane, on views of the same arrays. The engine takes the
compiled functions as arguments, so that policies and environments are compiled apart.

Arrays: state[rows + 1, arms, LANES], whose last row holds the sample means; memory[numbers, LANES];
work[WORK, arms, LANES]; weight[arms, LANES]; and one number a lane of round, arm, reward, …
"""

from typing import Any, Final

from ..compiled import Kernel, bind, kernel, routine, wide
from ..divergence import kl, kl_lower, kl_upper
from ..numeric import INFINITY, exp, log
from ..policies import learning, rules
from ..policies.adversarial import TsallisINF
from ..policies.empirical import EmpiricalLaws
from ..policies.families import Indexed, Perturbed, Weighted
from ..policies.formula import adapt, shared
from ..policies.learning import LOSS, PULLS, TOTAL, learn_block
from ..policies.med import DMED, count_and_review
from ..policies.policy import Policy
from ..policies.quadrature import (
    BETA,
    EXPONENTIAL,
    GAUSSIAN,
    GUMBEL,
    RAYLEIGH,
)
from ..policies.rules import (
    block,
    formula,
    law,
    mixture,
    share_largest,
)
from ..streams import LANES, betas, exponential, normal, open_uniform, uniform

#: State, memory, rounds, parameters, work, generators → un-normalised weights of all arms.
DECIDE: Final = (
    "void(float64[:, :, ::1], float64[:, ::1], float64[::1], float64[::1], float64[:, :, ::1], "
    "uint64[::1], float64[:, ::1])"
)
#: State, memory, arm, scaled reward, propensity, rounds, parameters, which lanes, and the weights
#: of the round with their sum.
LEARN: Final = (
    "void(float64[:, :, ::1], float64[:, ::1], uint64[::1], float64[::1], float64[::1], "
    "float64[::1], float64[::1], float64[::1], float64[:, ::1], float64[::1])"
)
#: Planes of the work space: estimates, one row each of the best and the largest, and scratch.
ESTIMATE, BEST, TOP, SCRATCH = 0, 1, 2, 3
WORK: Final = 8

#: Rows of the state, bound per policy as in `rules`.
ROW_1 = 0
ROW_2 = 0
ROW_3 = 0
MEAN = 2
#: Whether lanes may be at different rounds, because their rewards come late: bound per policy.
APART = False


class NotSimulatedError(ValueError):
    """Raised for what the online policies can do and the simulator cannot."""


@kernel
def own_round(now, t, lane):
    """The round that a lane decides: the common one if it can be, which LLVM takes out of loops."""
    return t[lane] if APART else now


# --------------------------------------------------------------------------------------------------
# Estimates


def estimates(*arguments: Any) -> Any:
    """Open: the estimates of all arms, an array [arms, LANES]; their maxima into work[BEST, 0]."""
    raise NotImplementedError


@kernel
def sample_means(state, t, parameters, work):
    """S_a / N_a, which the last update left in the state."""
    wide()
    best = work[BEST, 0]
    for l in range(LANES):
        best[l] = -INFINITY
    for a in range(state.shape[1]):
        for l in range(LANES):
            best[l] = max(best[l], state[MEAN, a, l])
    return state[MEAN]


@kernel
def formula_estimates(state, t, parameters, work):
    """By the policy's own formula."""
    wide()
    arms = float(state.shape[1])
    now = t[0]
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    best = work[BEST, 0]
    for l in range(LANES):
        best[l] = -INFINITY
    for a in range(state.shape[1]):
        for l in range(LANES):
            work[ESTIMATE, a, l] = formula(
                state[0, a, l], state[ROW_1, a, l], state[ROW_2, a, l], state[ROW_3, a, l],
                0.0, 0.0, own_round(now, t, l), arms, p0, p1, p2, p3, p4, p5, p6, p7,
            )  # fmt: skip
        for l in range(LANES):
            best[l] = max(best[l], work[ESTIMATE, a, l])
    return work[ESTIMATE]


# --------------------------------------------------------------------------------------------------
# Weights


@kernel
def weighted(state, memory, t, parameters, work, rng, weight):
    """exp(log_weight_a), the largest scaled to 1."""
    wide()
    arms = float(state.shape[1])
    now = t[0]
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    estimate = estimates(state, t, parameters, work)
    best, top = work[BEST, 0], work[TOP, 0]
    for l in range(LANES):
        top[l] = -INFINITY
    for a in range(state.shape[1]):
        for l in range(LANES):
            weight[a, l] = formula(
                state[0, a, l], state[ROW_1, a, l], state[ROW_2, a, l], state[ROW_3, a, l],
                estimate[a, l], best[l], own_round(now, t, l), arms,
                p0, p1, p2, p3, p4, p5, p6, p7,
            )  # fmt: skip
            top[l] = max(top[l], weight[a, l])
    for a in range(state.shape[1]):
        for l in range(LANES):
            # Products that vanish take many times as long as others: exp makes none of 0.
            below = weight[a, l] - top[l]
            kept = 0.0 if below < -746.0 else 1.0
            weight[a, l] = kept * exp(0.0 if below < -746.0 else below)


@kernel
def maximised(state, memory, t, parameters, work, rng, weight):
    """1 for every arm with the largest index."""
    wide()
    arms = float(state.shape[1])
    now = t[0]
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    estimate = estimates(state, t, parameters, work)
    best = work[BEST, 0]
    for a in range(state.shape[1]):
        for l in range(LANES):
            weight[a, l] = formula(
                state[0, a, l], state[ROW_1, a, l], state[ROW_2, a, l], state[ROW_3, a, l],
                estimate[a, l], best[l], own_round(now, t, l), arms,
                p0, p1, p2, p3, p4, p5, p6, p7,
            )  # fmt: skip
    share_largest(weight, weight, work[TOP, 0])


def lane_rule(*arguments: Any) -> None:
    """Open: a policy's own rule for one trial."""
    raise NotImplementedError


@kernel
def together(state, memory, t, parameters, work, rng, weight):
    """A rule of `policies` that is written over many trials."""
    wide()
    block(state, memory, t, parameters, work, weight)


@kernel
def by_lane(state, memory, t, parameters, work, rng, weight):
    """A rule of `policies`, trial by trial."""
    for l in range(LANES):
        lane_rule(
            state[:, :, l], memory[:, l], t[l], parameters, work[SCRATCH:, :, l],
            work[BEST, :, l], weight[:, l],
        )  # fmt: skip


# --------------------------------------------------------------------------------------------------
# The largest of random draws


@routine
def draw_beta(rng, x, y, z, out, work):
    """Beta(x, y)."""
    betas(rng, x, y, out, work[3, 0], work[4, 0], work[5, 0], work[6, 0], work[7, 0])


@routine
def draw_gaussian(rng, x, y, z, out, work):
    """N(x, y²), no more than z."""
    wide()
    for l in range(LANES):
        out[l] = min(x[l] + y[l] * normal(rng, l), z[l])


@routine
def draw_gumbel(rng, x, y, z, out, work):
    """x + y·Z for a standard Gumbel Z."""
    wide()
    for l in range(LANES):
        out[l] = x[l] - y[l] * log(exponential(rng, l))


@routine
def draw_exponential(rng, x, y, z, out, work):
    """ExpTS: P(θ > v) = ½ exp(−(N−1) kl(μ̂, v)) above the mean, alike below; μ̂ if not drawn.

    One inversion for both sides: v is as far above μ̂ as 1 − v is below 1 − μ̂.
    """
    wide()
    for l in range(LANES):
        played = uniform(rng, l) < z[l]
        u = 2.0 * open_uniform(rng, l)
        above = u < 1.0
        n = x[l] + y[l]
        level = -log(u if above else 2.0 - u) / (n - 1.0)
        v = kl_lower((y[l] if above else x[l]) / n, level)
        out[l] = (1.0 - v if above else v) if played else x[l] / n


@routine
def draw_rayleigh(rng, x, y, z, out, work):
    """A two-sided Rayleigh variate of scale y about x, no more than z."""
    wide()
    for l in range(LANES):
        side = 1.0 if uniform(rng, l) < 0.5 else -1.0
        out[l] = min(x[l] + side * y[l] * (2.0 * exponential(rng, l)) ** 0.5, z[l])


#: A variate of the law (x, y, z) for every lane; see `quadrature` for what these are.
DRAWS: Final = {
    BETA: draw_beta,
    GAUSSIAN: draw_gaussian,
    GUMBEL: draw_gumbel,
    EXPONENTIAL: draw_exponential,
    RAYLEIGH: draw_rayleigh,
}


def draw(*arguments: Any) -> None:
    """Open: one of these."""
    raise NotImplementedError


@kernel
def drawn(state, memory, t, parameters, work, rng, weight):
    """1 for the arm of the largest draw."""
    wide()
    arms = float(state.shape[1])
    now = t[0]
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    x, y, z = work[ESTIMATE, 0], work[BEST, 0], work[TOP, 0]
    for a in range(state.shape[1]):
        for l in range(LANES):
            x[l], y[l], z[l] = law(
                state[0, a, l], state[ROW_1, a, l], state[ROW_2, a, l], state[ROW_3, a, l],
                state[MEAN, a, l], 0.0, own_round(now, t, l), arms,
                p0, p1, p2, p3, p4, p5, p6, p7,
            )  # fmt: skip
        draw(rng, x, y, z, weight[a], work)
    share_largest(weight, weight, work[TOP, 0])


@kernel
def fill_laws(state, memory, t, parameters, work, rng, weight):
    """The laws of all arms' draws into the first planes of the work space, to be integrated."""
    wide()
    arms = float(state.shape[1])
    now = t[0]
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    for a in range(state.shape[1]):
        for l in range(LANES):
            work[0, a, l], work[1, a, l], work[2, a, l] = law(
                state[0, a, l], state[ROW_1, a, l], state[ROW_2, a, l], state[ROW_3, a, l],
                state[MEAN, a, l], 0.0, own_round(now, t, l), arms,
                p0, p1, p2, p3, p4, p5, p6, p7,
            )  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Additions


def decide(*arguments: Any) -> None:
    """Open: one of the blocks above."""
    raise NotImplementedError


@kernel
def decide_mixed(state, memory, t, parameters, work, rng, weight):
    """(1−γ) p + γ/K, by the policy's own formula for γ."""
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    decide(state, memory, t, parameters, work, rng, weight)
    arms = float(state.shape[1])
    share = work[BEST, 0]
    for l in range(LANES):
        share[l] = mixture(
            0.0, 0.0, 0.0, 0.0, 0.0, 0.0, own_round(t[0], t, l), arms,
            p0, p1, p2, p3, p4, p5, p6, p7,
        )  # fmt: skip
    mix_uniform(share, weight, work[TOP, 0])


@kernel
def mix_uniform(share, weight, mass):
    """Normalise, and give every arm `share`/K of the probability."""
    wide()
    arms = weight.shape[0]
    for l in range(LANES):
        mass[l] = 0.0
    for a in range(arms):
        for l in range(LANES):
            mass[l] += weight[a, l]
    for a in range(arms):
        for l in range(LANES):
            weight[a, l] = (1.0 - share[l]) * (weight[a, l] / mass[l]) + share[l] / arms


def level(*arguments: float) -> float:
    """Open: the level d_a of an upper confidence bound."""
    raise NotImplementedError


@kernel
def decide_by_divergence(state, memory, t, parameters, work, rng, weight):
    """With K_inf of laws on {0, 1}, which is kl, in the policy's row for it."""
    wide()
    estimate = sample_means(state, t, parameters, work)
    best = work[BEST, 0]
    for a in range(state.shape[1]):
        for l in range(LANES):
            state[2, a, l] = kl(estimate[a, l], best[l])
    decide(state, memory, t, parameters, work, rng, weight)


@kernel
def decide_by_bound(state, memory, t, parameters, work, rng, weight):
    """With the largest mean that K_inf of laws on {0, 1}, which is kl, allows."""
    wide()
    arms = float(state.shape[1])
    now = t[0]
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    for a in range(state.shape[1]):
        for l in range(LANES):
            d = level(
                state[PULLS, a, l], 0.0, 0.0, 0.0, 0.0, 0.0, own_round(now, t, l), arms,
                p0, p1, p2, p3, 0.0, 0.0, 0.0, 0.0,
            )  # fmt: skip
            state[2, a, l] = kl_upper(state[MEAN, a, l], d)
    decide(state, memory, t, parameters, work, rng, weight)


# --------------------------------------------------------------------------------------------------
# Learning


@kernel
def count(state, memory, arm, reward, propensity, t, parameters, live, weight, mass):
    """N_a, S_a and, by one division, their quotient: equal rationals are equal doubles."""
    wide()
    for l in range(LANES):
        a = arm[l]
        pulls = state[PULLS, a, l] + live[l]
        total = state[TOTAL, a, l] + reward[l]
        state[PULLS, a, l] = pulls
        state[TOTAL, a, l] = total
        state[MEAN, a, l] = total / pulls


def lane_learn(*arguments: Any) -> None:
    """Open: a policy's own update for one trial."""
    raise NotImplementedError


@kernel
def learn_by_lane(state, memory, arm, reward, propensity, t, parameters, live, weight, mass):
    """An update of `policies`, trial by trial."""
    for l in range(LANES):
        a = arm[l]
        if live[l] > 0.0:
            lane_learn(state[:, :, l], memory[:, l], a, reward[l], propensity[l], t[l], parameters)
            state[MEAN, a, l] = state[TOTAL, a, l] / state[PULLS, a, l]


@kernel
def learn_reduced(state, memory, arm, reward, propensity, t, parameters, live, weight, mass):
    """Tsallis-INF with a baseline of ½ for every arm of w_a ≥ η² (see `TsallisINF._absorb`)."""
    for l in range(LANES):
        chosen = arm[l]
        bar = 16.0 / t[l]
        baseline = 0.0
        for a in range(state.shape[1]):
            if weight[a, l] / mass[l] >= bar:
                state[LOSS, a, l] += 0.5
                baseline = 0.5 if a == chosen else baseline
        state[LOSS, chosen, l] += (1.0 - reward[l] - baseline) / propensity[l]
    count(state, memory, arm, reward, propensity, t, parameters, live, weight, mass)


@kernel
def learn_together(state, memory, arm, reward, propensity, t, parameters, live, weight, mass):
    """An update of `policies` that is written over many trials."""
    wide()
    learn_block(state, memory, arm, reward, propensity, t, parameters, live)
    for l in range(LANES):
        a = arm[l]
        state[MEAN, a, l] = state[TOTAL, a, l] / state[PULLS, a, l]


# --------------------------------------------------------------------------------------------------
# From a policy to its blocks


def learning_block(policy: Policy) -> Kernel:
    """What a reward changes, over a block."""
    mean = 2 + len(policy.rows)
    if isinstance(policy, TsallisINF) and policy.estimator == "rv":
        return bind(learn_reduced, count=bind(count, MEAN=mean))
    whole, own = policy._learn_block(), policy._learn()
    if isinstance(policy, DMED):
        whole = count_and_review  # on binary rewards K_inf is kl
    if whole is not None:
        return bind(learn_together, learn_block=whole, MEAN=mean)
    if own is learning.count:
        return bind(count, MEAN=mean)
    return bind(learn_by_lane, lane_learn=own, MEAN=mean)


def integrated_block(policy: Policy) -> Kernel:
    """The weights of all arms from the chances of their draws, which are in the state."""
    return bind(by_lane, lane_rule=policy._rule())


def deciding_block(policy: Policy, apart: bool = False, exact: bool = False) -> Kernel:
    """The weights of all arms, over a block.

    Where the policy plays a random draw that is the largest; with `exact` only the draws' laws are
    filled in, and `integrated_block` comes after the quadrature.
    """
    common = {
        "MEAN": 2 + len(policy.rows),
        "own_round": bind(own_round, APART=apart),
        **policy._row_numbers(),
    }
    block = _rule_block(policy, common, exact)
    if isinstance(policy, EmpiricalLaws) and not isinstance(policy, DMED):
        if "divergence" in policy.rows:
            means = bind(sample_means, MEAN=common["MEAN"])
            block = bind(decide_by_divergence, decide=block, sample_means=means)
        elif "bound" in policy.rows:
            block = bind(decide_by_bound, decide=block, level=policy._adapted_level(), **common)
    formula = policy._mixture()
    if formula is not None:
        adapted = adapt(formula, shared(policy._words()))
        block = bind(decide_mixed, decide=block, mixture=adapted, **common)
    return block


def _rule_block(policy: Policy, common: dict[str, Any], exact: bool) -> Kernel:
    rule, whole = type(policy)._rule, policy._block()
    if whole is not None:
        return bind(together, block=whole)
    if isinstance(policy, Perturbed):
        law = policy._law_formula()
        if exact:
            return bind(fill_laws, law=law, **common)
        return bind(drawn, law=law, draw=DRAWS[policy.family], **common)
    if isinstance(policy, Weighted) and rule is Weighted._rule:
        return _formula_block(policy, weighted, common, formula=policy._log_weight())
    if isinstance(policy, Indexed) and rule is Indexed._rule:
        return _formula_block(policy, maximised, common, formula=policy._index())
    return bind(by_lane, lane_rule=policy._rule())


def _formula_block(
    policy: Policy, template: Kernel, common: dict[str, Any], **formulas: Kernel
) -> Kernel:
    own = policy._estimates()
    words = policy._words(own_estimate=own is not rules.sample_means)
    filled: dict[str, Any] = {name: adapt(formula, words) for name, formula in formulas.items()}
    return bind(template, estimates=_estimates(policy, own, common), **common, **filled)


def _estimates(policy: Policy, own: Kernel, common: dict[str, Any]) -> Kernel:
    if own is rules.sample_means:
        return bind(sample_means, MEAN=common["MEAN"])
    formula = type(policy).estimate  # type: ignore[attr-defined]
    adapted = adapt(formula, policy._words(own_estimate=True))
    return bind(formula_estimates, formula=adapted, **common)
