"""The four rules: from a formula on per-arm statistics to a distribution over arms.

Each rule is a template of compiled code with open names (`log_weight`, `index`, …) that a policy's
formulas fill. All share one argument list: the state (rows of statistics × arms), the policy's own
`memory`, the round t, its parameters, scratch space, and the two results. A rule writes log p as
well as p, because p underflows at N·kl > 745 and a propensity that is divided by must not.
"""

from typing import Any, Final

import numpy as np

from ..compiled import kernel, wide
from ..numeric import INFINITY, exp, log

#: What `choose` takes and returns; rows of its work space: p, log p, and six for the rules.
CHOOSE_SIGNATURE = (
    "Tuple((int64, float64, float64))"
    "(float64[:, ::1], float64[::1], float64, float64[::1], float64[:, ::1], float64, float64)"
)
PICK_SIGNATURE = "Tuple((int64, float64, float64))(float64[::1], float64[::1], float64)"
P, LOG_P, SCRATCH = 0, 1, 2
#: Where the rules leave the indices, among their rows.
INDICES: Final = 1
WORK_ROWS: Final = 8


def formula(*arguments: float) -> float:
    """Open: a policy's formula for one arm."""
    raise NotImplementedError


def log_weights(*arguments: Any) -> None:
    """Open: `each_arm` with the formula for the logarithm of an arm's weight."""
    raise NotImplementedError


def indices(*arguments: Any) -> None:
    """Open: `each_arm` with the formula for an arm's index."""
    raise NotImplementedError


def own_estimates(*arguments: Any) -> None:
    """Open: `each_arm` with the formula for an arm's estimate."""
    raise NotImplementedError


def mixture(*arguments: float) -> float:
    """Open: the share γ of every distribution that is uniform."""
    raise NotImplementedError


def estimates(*arguments: Any) -> float:
    """Open: fill the estimates of all arms and return the largest."""
    raise NotImplementedError


def rule(*arguments: Any) -> None:
    """Open: one of the rules below, its formulas filled in."""
    raise NotImplementedError


@kernel
def largest(x):
    """max x; four at a time, because one after the other waits four cycles for each."""
    wide()
    a, b, c, d = -INFINITY, -INFINITY, -INFINITY, -INFINITY
    whole = x.size - x.size % 4
    for i in range(0, whole, 4):
        a, b = max(a, x[i]), max(b, x[i + 1])
        c, d = max(c, x[i + 2]), max(d, x[i + 3])
    for i in range(whole, x.size):
        a = max(a, x[i])
    return max(max(a, b), max(c, d))


@kernel
def sample_means(state, t, parameters, estimate):
    """S_a / N_a by one division, so that equal rationals are equal doubles and ties are exact."""
    wide()
    for a in range(estimate.size):
        estimate[a] = state[1, a] / state[0, a]
    return largest(estimate)


#: Row numbers beyond those that a policy keeps read row 0 instead: bound per policy.
ROW_1 = 0
ROW_2 = 0
ROW_3 = 0


@kernel
def each_arm(state, t, parameters, estimate, best, out):
    """The formula's value for every arm."""
    wide()
    arms = float(out.size)
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    for a in range(out.size):
        out[a] = formula(
            state[0, a], state[ROW_1, a], state[ROW_2, a], state[ROW_3, a],
            estimate[a], best, t, arms, p0, p1, p2, p3, p4, p5, p6, p7,
        )  # fmt: skip


@kernel
def formula_estimates(state, t, parameters, estimate):
    """Each arm's estimate by the policy's own formula, and the largest."""
    own_estimates(state, t, parameters, estimate, 0.0, estimate)
    return largest(estimate)


@kernel
def weighted(state, memory, t, parameters, work, log_p, p):
    """p_a ∝ exp(log_weight_a)."""
    best = estimates(state, t, parameters, work[0])
    log_weights(state, t, parameters, work[0], best, log_p)
    normalise(log_p, p)


@kernel
def normalise(log_p, p):
    """From log-weights to probabilities and their logarithms: the maximum is subtracted first."""
    wide()
    top = largest(log_p)
    for a in range(p.size):
        p[a] = exp(log_p[a] - top)
    total = 0.0
    for a in range(p.size):
        total += p[a]
    shift = top + log(total)
    for a in range(p.size):
        p[a] = p[a] / total
    for a in range(p.size):
        log_p[a] = log_p[a] - shift


@kernel
def maximised(state, memory, t, parameters, work, log_p, p):
    """Uniform on the arms with the largest index: ties are shared, and the distribution says so."""
    best = estimates(state, t, parameters, work[0])
    indices(state, t, parameters, work[0], best, work[INDICES])
    share_maximum(work[INDICES], log_p, p)


@kernel
def share_maximum(x, log_p, p):
    """The uniform distribution on the argmax of x."""
    wide()
    top = largest(x)
    ties = 0.0
    for a in range(p.size):
        ties += 1.0 if x[a] == top else 0.0
    for a in range(p.size):
        p[a] = 1.0 / ties if x[a] == top else 0.0
        log_p[a] = -log(ties) if x[a] == top else -INFINITY


def law(*arguments: float) -> Any:
    """Open: the three parameters of the law that one arm's index is drawn from."""
    raise NotImplementedError


@kernel
def draw_laws(state, t, parameters, laws):
    """Every arm's law by the policy's own formula."""
    wide()
    arms = float(state.shape[1])
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    for a in range(state.shape[1]):
        laws[0, a], laws[1, a], laws[2, a] = law(
            state[0, a], state[ROW_1, a], state[ROW_2, a], state[ROW_3, a],
            state[1, a] / state[0, a], 0.0, t, arms, p0, p1, p2, p3, p4, p5, p6, p7,
        )  # fmt: skip


#: The row in which P(arm a's draw is the largest) stands, worked out by quadrature beforehand.
CHANCE = 2


@kernel
def perturbed(state, memory, t, parameters, work, log_p, p):
    """P(arm a's draw is the largest), the draws independent."""
    total = 0.0
    for a in range(p.size):
        total += state[CHANCE, a]
    for a in range(p.size):
        p[a] = state[CHANCE, a] / total
        log_p[a] = log(p[a])


@kernel
def top_two(state, memory, t, parameters, work, log_p, p):
    """p_a = P_a [β + (1−β) Σ_{b≠a} P_b/(1−P_b)] with P the law of the largest draw."""
    leader = parameters[0]
    perturbed(state, memory, t, parameters, work, log_p, p)
    # 1 − P_b is a sum of the others' P: no cancellation as P_b → 1. So are the odds without one.
    others, odds = work[0], work[1]
    sum_of_others(p, others)
    for a in range(p.size):
        log_p[a] = p[a] / others[a] if others[a] > 0.0 else 0.0
    sum_of_others(log_p, odds)
    for a in range(p.size):
        p[a] = p[a] * (leader + (1.0 - leader) * odds[a])
    total = 0.0
    for a in range(p.size):
        total += p[a]  # 1 but for rounding, and but for a single arm, which has no second candidate
    for a in range(p.size):
        p[a] = p[a] / total
        log_p[a] = log(p[a])


@kernel
def sum_of_others(x, out):
    """out_a = Σ_{b≠a} x_b, by sums from both ends."""
    running = 0.0
    for a in range(x.size):
        out[a] = running
        running += x[a]
    running = 0.0
    for i in range(x.size):
        a = x.size - 1 - i
        out[a] += running
        running += x[a]


def block(*arguments: Any) -> None:
    """Open: a rule over many trials side by side; see `one_trial`."""
    raise NotImplementedError


@kernel
def one_trial(state, memory, t, parameters, work, log_p, p):
    """A rule that is written over many trials, their lanes innermost, here for a single one.

    What is more than a formula for each arm is written once in that form, which the simulator runs
    64 trials at a time: block(state[rows, arms, lanes], memory[numbers, lanes], t[lanes],
    parameters, work[6, arms, lanes], weight[arms, lanes]) leaves un-normalised weights.
    """
    arms = p.size
    rounds = np.full(1, t)
    weight = p.reshape(arms, 1)
    block(
        state.reshape(state.shape[0], arms, 1), memory.reshape(memory.size, 1), rounds, parameters,
        work.reshape(work.shape[0], arms, 1), weight,
    )  # fmt: skip
    total = 0.0
    for a in range(arms):
        total += p[a]
    for a in range(arms):
        p[a] = p[a] / total
        log_p[a] = log(p[a])


@kernel
def share_largest(indices, weight, top):
    """1 where a trial's largest index stands, 0 elsewhere: ties are shared. `indices` stay."""
    wide()
    arms, lanes = weight.shape
    for l in range(lanes):
        top[l] = -INFINITY
    for a in range(arms):
        for l in range(lanes):
            top[l] = max(top[l], indices[a, l])
    for a in range(arms):
        for l in range(lanes):
            weight[a, l] = 1.0 if indices[a, l] == top[l] else 0.0


@kernel
def mixed(share, log_p, p):
    """p' = (1−γ) p + γ/K: every arm keeps at least γ/K."""
    if share > 0.0:
        for a in range(p.size):
            p[a] = (1.0 - share) * p[a] + share / p.size
        for a in range(p.size):
            log_p[a] = log(p[a])


@kernel
def unmixed(t, arms, parameters, log_p, p):
    """For the policies without a mixture of their own."""
    return


@kernel
def formula_mixed(t, arms, parameters, log_p, p):
    """Mix by the policy's own formula for the share."""
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    share = mixture(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, t, arms, p0, p1, p2, p3, p4, p5, p6, p7)
    mixed(share, log_p, p)


def mix(*arguments: Any) -> None:
    """Open: `unmixed` or `formula_mixed`."""
    raise NotImplementedError


#: Whether every arm is pulled once before the rule applies, and in their order: bound per policy.
FORCED = True
IN_ORDER = False


@kernel
def first_pulls(pulls, log_p, p):
    """Uniform on the arms not pulled yet (or the first of them); False when there are none."""
    wide()
    waiting = 0
    for a in range(p.size):
        waiting += 1 if pulls[a] == 0.0 else 0
    if waiting == 0:
        return False
    share = 1.0 if IN_ORDER else 1.0 / waiting
    left = 1.0 if IN_ORDER else waiting
    for a in range(p.size):
        chosen = (pulls[a] == 0.0) & (left > 0.0)
        p[a] = share if chosen else 0.0
        log_p[a] = log(share) if chosen else -INFINITY
        left -= 1.0 if chosen else 0.0
    return True


@kernel
def pick(p, log_p, u):
    """The arm in whose stretch of the unit interval u falls, with its p and log p."""
    chosen = -1
    edge = 0.0
    for a in range(p.size):
        if p[a] > 0.0:  # an arm of probability zero is never chosen, not even by rounding
            chosen = a
            edge += p[a]
            if u < edge:
                break
    return chosen, p[chosen], log_p[chosen]


@kernel
def choose(state, memory, t, parameters, work, floor, u):
    """A policy's whole distribution (first pulls, its rule, its mixture, the floor), and a choice.

    The choice costs nothing beside the distribution, and one compiled function a policy is enough.
    """
    wide()
    p, log_p, scratch = work[P], work[LOG_P], work[SCRATCH:]
    if not (FORCED and first_pulls(state[0], log_p, p)):
        rule(state, memory, t, parameters, scratch, log_p, p)
        mix(t, float(p.size), parameters, log_p, p)
    mixed(floor, log_p, p)
    return pick(p, log_p, u)
