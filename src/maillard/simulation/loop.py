"""The engine: blocks of trials advance together, one compiled loop for all policies and worlds."""

from typing import Any, Final

import numpy as np

from ..compiled import kernel, wide
from ..environments.environment import PAY
from ..numeric import INFINITY, NAN, exp, log
from ..policies.learning import PULLS
from ..policies.quadrature import SIGNATURE as INTEGRATE
from ..policies.rules import CHANCE
from ..policies.thompson import FAINT
from ..streams import LANES, WORDS, open_uniform, seed_lane, u64, uniform
from .blocks import DECIDE, LEARN, WORK, mix_uniform

#: How the first pulls go: not at all, in random order, or in the order of the arms.
AT_ONCE, SHUFFLED, IN_ORDER = 0, 1, 2

#: When a reward is seen: at once, so many rounds later, after a geometric delay, or with its batch.
IMMEDIATE, FIXED, GEOMETRIC, BATCH = 0, 1, 2, 3

RUN: Final = (
    f"void(FunctionType({DECIDE}), FunctionType({INTEGRATE}), FunctionType({DECIDE}), "
    f"FunctionType({LEARN}), FunctionType({PAY}), "
    "int64, boolean, "  # the family of random draws that are integrated, and whether all of them
    "float64[:, ::1], float64[::1], float64[::1], "  # the policy's state, memory, parameters
    "int64, float64, boolean, float64, float64, boolean, "  # opening, floor, coin, range, priced
    "int64[::1], float64[:, :, ::1], float64[:, ::1], boolean, "  # knots, laws, means, drifts
    "int64, float64, int64, "  # feedback: kind, parameter, the longest delay
    "int64, int64[::1], uint64, uint64, int64, int64, "  # horizon, checkpoints, seeds, trials
    "int64[:, ::1], float64[:, :, ::1], "  # results at the checkpoints
    "float64[:, :, ::1], "  # each arm's sums at the horizon
    "int32[:, ::1], float64[:, :, ::1], "  # every decision
    "float64[:, ::1], float64[:, ::1], float64[:, ::1], "  # the rest is `space`
    "int32[:, :, ::1], float64[:, :, ::1], float64[:, ::1], float64[:, ::1])"
)

#: What is written down at a checkpoint for each trial, and of each decision.
REGRET, REWARDS, BEST_ARM = 0, 1, 2
PROPENSITY, LOG_PROPENSITY, REWARD = 0, 1, 2

#: What an arm's rewards add up to, as they were paid, seen or not: number, sum, sum of squares.
SUMS: Final = 3


# --------------------------------------------------------------------------------------------------
# Choosing


@kernel
def open_with(opening, pulls, weight, waiting, overriding):
    """Weights of the first pulls: equal among the arms not pulled yet, or the first of them.

    With `overriding` only lanes that have such an arm are touched: rewards that come late leave
    some trials waiting longer than others. Returns whether any lane has one.
    """
    arms = weight.shape[0]
    for l in range(LANES):
        waiting[l] = 0.0
    for a in range(arms):
        for l in range(LANES):
            waiting[l] += 1.0 if pulls[a, l] == 0.0 else 0.0
    some = 0.0
    for l in range(LANES):
        some = max(some, waiting[l])
    if some == 0.0:
        return False
    for l in range(LANES):
        touched = (not overriding) | (waiting[l] > 0.0)
        left = 1.0 if opening == IN_ORDER else waiting[l]
        for a in range(arms):
            turn = (pulls[a, l] == 0.0) & (left > 0.0)
            weight[a, l] = (1.0 if turn else 0.0) if touched else weight[a, l]
            left -= 1.0 if turn else 0.0
    return True


@kernel
def choose(weight, rng, arm, coin, edge, mass):
    """An arm for each lane, with probability weight/mass: the inverse of the cumulated weights.

    An arm of weight zero is never chosen, and u·mass < mass always finds one.
    """
    wide()
    for l in range(LANES):
        coin[l] = uniform(rng, l)
        mass[l] = 0.0
        edge[l] = 0.0
        arm[l] = u64(0)
    for a in range(weight.shape[0]):
        for l in range(LANES):
            mass[l] += weight[a, l]
    for l in range(LANES):
        coin[l] *= mass[l]
    for a in range(weight.shape[0] - 1):
        for l in range(LANES):
            edge[l] += weight[a, l]
            arm[l] += u64(1) if coin[l] >= edge[l] else u64(0)


@kernel
def scale(low, high, reward):
    """To [0, 1], as the online policies do it."""
    wide()
    if (low == 0.0) & (high == 1.0):
        return
    for l in range(LANES):
        if low == -np.inf:
            reward[l] = reward[l] if high == np.inf else 1.0 - (high - reward[l])
        elif high != np.inf:
            reward[l] = (reward[l] - low) / (high - low)


@kernel
def integrate_all(integrate, family, revived, count, work, laws, state):
    """P(arm a's draw is the largest) into its row of the state, for the first `count` trials.

    The quadrature is a function that is passed in: it is long, and compiled once for all. It takes
    nearly all of the time, so lanes that nobody reads get equal chances instead.
    """
    chance, unused = laws[3], laws[4]
    for a in range(chance.size):
        for l in range(count, LANES):
            state[CHANCE, a, l] = 1.0
    for l in range(count):
        for a in range(chance.size):
            for i in range(3):
                laws[i, a] = work[i, a, l]
        integrate(family, laws, -1, chance)
        if revived:
            revive(integrate, family, laws, chance, unused)
        for a in range(chance.size):
            state[CHANCE, a, l] = chance[a]


@kernel
def revive(integrate, family, laws, chance, unused):
    """Proportions for all but the likeliest arm where their chances underflow together.

    As `TopTwoThompson._prepare`, whose second candidate is drawn from them.
    """
    leader, rest = 0, 0.0
    for a in range(chance.size):
        leader = a if chance[a] > chance[leader] else leader
    for a in range(chance.size):
        rest += chance[a] if a != leader else 0.0
    if rest >= FAINT:
        return
    top = -INFINITY
    for a in range(chance.size):
        if a != leader:
            chance[a] = integrate(family, laws, a, unused)
            top = max(top, chance[a])
    for a in range(chance.size):
        if a != leader:
            chance[a] = FAINT * exp(chance[a] - top)


# --------------------------------------------------------------------------------------------------
# Worlds that change


@kernel
def turn_world(step, knots, laws, means, drifts, law, mean):
    """The laws and means of this round: those of the last knot that has come, or on the way on."""
    knot, after, last = 0, knots.size, knots.size - 1
    while after - knot > 1:
        middle = (knot + after) // 2
        if knots[middle] <= step + 1:
            knot = middle
        else:
            after = middle
    if drifts and knot < last:
        span = float(knots[knot + 1] - knots[knot])
        share = float(step + 1 - knots[knot]) / span
        for a in range(mean.size):
            for i in range(law.shape[0]):
                old, new = laws[knot, i, a], laws[knot + 1, i, a]
                law[i, a] = old + share * (new - old)
            mean[a] = means[knot, a] + share * (means[knot + 1, a] - means[knot, a])
    elif knots[knot] == step + 1:
        for a in range(mean.size):
            for i in range(law.shape[0]):
                law[i, a] = laws[knot, i, a]
            mean[a] = means[knot, a]


@kernel
def measure_gaps(mean, gap):
    """Δ_a = μ* − μ_a."""
    best = -INFINITY
    for a in range(mean.size):
        best = max(best, mean[a])
    for a in range(mean.size):
        gap[a] = best - mean[a]


# --------------------------------------------------------------------------------------------------
# Rewards that come late: a calendar of the coming rounds, each with a queue of rewards in the order
# of their decisions. Nodes are as many as the longest delay allows to be under way.

NONE = -1
HEAD, TAIL, AFTER, ARM, FREE = 0, 1, 2, 3, 4
LATE_REWARD, LATE_PROPENSITY, LATE_ROUND = 0, 1, 2


@kernel
def clear_calendar(calendar):
    """Empty queues; every node points to the next free one."""
    for slot in range(calendar.shape[1]):
        for l in range(LANES):
            calendar[HEAD, slot, l] = NONE
            calendar[TAIL, slot, l] = NONE
            calendar[AFTER, slot, l] = slot + 1
    for l in range(LANES):
        calendar[FREE, 0, l] = 0


@kernel
def rounds_until_seen(kind, parameter, step, rng, lane):
    """How many further decisions are made before this one's reward is seen."""
    if kind == FIXED:
        return int(parameter)
    if kind == BATCH:
        size = int(parameter)
        return size - 1 - step % size
    # The number of failures before a success of probability 1/(1 + mean), by inversion.
    return int(np.floor(log(open_uniform(rng, lane)) / parameter))


@kernel
def post(calendar, luggage, slot, l, arm, reward, propensity, t):
    """Put a reward at the end of a round's queue."""
    node = calendar[FREE, 0, l]
    calendar[FREE, 0, l] = calendar[AFTER, node, l]
    calendar[AFTER, node, l] = NONE
    calendar[ARM, node, l] = np.int32(arm)
    luggage[LATE_REWARD, node, l] = reward
    luggage[LATE_PROPENSITY, node, l] = propensity
    luggage[LATE_ROUND, node, l] = t
    tail = calendar[TAIL, slot, l]
    if tail == NONE:
        calendar[HEAD, slot, l] = node
    else:
        calendar[AFTER, tail, l] = node
    calendar[TAIL, slot, l] = node


@kernel
def collect_post(calendar, luggage, slot, arm, reward, propensity, t, live):
    """Each lane's next reward that is due, if there is one; returns whether any lane has one."""
    some = False
    for l in range(LANES):
        node = calendar[HEAD, slot, l]
        live[l] = 0.0
        arm[l] = u64(0)
        reward[l] = 0.0
        if node != NONE:
            some = True
            live[l] = 1.0
            arm[l] = u64(calendar[ARM, node, l])
            reward[l] = luggage[LATE_REWARD, node, l]
            propensity[l] = luggage[LATE_PROPENSITY, node, l]
            t[l] = luggage[LATE_ROUND, node, l]
            calendar[HEAD, slot, l] = calendar[AFTER, node, l]
            if calendar[AFTER, node, l] == NONE:
                calendar[TAIL, slot, l] = NONE
            calendar[AFTER, node, l] = calendar[FREE, 0, l]
            calendar[FREE, 0, l] = node
    return some


# --------------------------------------------------------------------------------------------------
# The loop


def space(laws: Any, longest: int, late: bool, summed: bool) -> tuple[Any, ...]:
    """Arrays that the loop needs beside those of every step: made here, it compiles faster."""
    arms, slots = laws.shape[2], longest + 1  # a slot that stays empty where no reward is late
    return (
        np.zeros(laws.shape[1:]), np.zeros((2, arms)), np.zeros((5, arms)),
        np.zeros((5, slots, LANES), np.int32), np.zeros((3, slots, LANES)),
        np.zeros((arms if late else 0, LANES)), np.zeros((SUMS * arms if summed else 0, LANES)),
    )  # fmt: skip


@kernel
def begin_trials(start, start_memory, state, memory, played, sums):
    """Every lane as a policy that has seen nothing; its means are those of no rewards."""
    rows, arms = start.shape
    for a in range(arms):
        for l in range(LANES):
            for i in range(rows):
                state[i, a, l] = start[i, a]
            state[rows, a, l] = NAN
    for i in range(start_memory.size):
        for l in range(LANES):
            memory[i, l] = start_memory[i]
    for a in range(played.shape[0]):
        for l in range(LANES):
            played[a, l] = 0.0
    for row in range(sums.shape[0]):
        for l in range(LANES):
            sums[row, l] = 0.0


@kernel
def run(
    decide, integrate, finish, learn, pay,
    family, revived,
    start, start_memory, parameters,
    opening, floor, coined, low, high, priced,
    knots, laws, means, drifts,
    feedback, feedback_parameter, longest,
    horizon, checkpoints, seed, noise_seed, first, trials,
    pulls_at, trial_at,
    arm_sums,
    arm_log, log_columns,
    law, of_arms, laws_of_one, calendar, luggage, played, sums,
):  # fmt: skip
    """Trials `first` … `first` + `trials` − 1, from their first round to the horizon."""
    wide()
    arms, rows = start.shape[1], start.shape[0]
    late, changing = feedback != IMMEDIATE, knots.size > 1
    logged, summed = arm_log.size > 0, arm_sums.size > 0
    slots = calendar.shape[1]
    state, memory = np.empty((rows + 1, arms, LANES)), np.empty((start_memory.size, LANES))
    weight, work = np.empty((arms, LANES)), np.empty((WORK, arms, LANES))
    rng, noise = np.empty(WORDS, np.uint64), np.empty(WORDS, np.uint64)
    arm, due = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    numbers = np.empty((12, LANES))
    coin, edge, mass, share = numbers[0], numbers[1], numbers[2], numbers[3]
    t, live, propensity, reward = numbers[4], numbers[5], numbers[6], numbers[7]
    regret, earned, seen, decided = numbers[8], numbers[9], numbers[10], numbers[11]
    mean, gap = of_arms[0], of_arms[1]
    for l in range(LANES):
        share[l] = floor
    for begin in range(0, trials, LANES):
        count = min(LANES, trials - begin)  # the lanes beyond run too, and are not written down
        for l in range(LANES):
            seed_lane(rng, l, seed, first + begin + l)
            seed_lane(noise, l, noise_seed, first + begin + l)
            regret[l], earned[l], seen[l], live[l], propensity[l] = 0.0, 0.0, 0.0, 1.0, 1.0
        begin_trials(start, start_memory, state, memory, played, sums)
        clear_calendar(calendar)
        mark, opened = 0, opening == AT_ONCE
        for step in range(horizon):
            if changing or step == 0:
                turn_world(step, knots, laws, means, drifts, law, mean)
                measure_gaps(mean, gap)
            for l in range(LANES):
                t[l] = (seen[l] if late else float(step)) + 1.0
            if late or opened or step >= arms:
                decide(state, memory, t, parameters, work, rng, weight)
                if family >= 0:
                    integrate_all(integrate, family, revived, count, work, laws_of_one, state)
                    finish(state, memory, t, parameters, work, rng, weight)
            if not opened:
                opened = not open_with(opening, state[PULLS], weight, edge, late or step >= arms)
            if floor > 0.0:
                mix_uniform(share, weight, mass)
            choose(weight, rng, arm, coin, edge, mass)
            if priced:
                for l in range(LANES):
                    propensity[l] = weight[arm[l], l] / mass[l]
            pay(arm, law, step + 1.0, noise, reward)
            for l in range(LANES):
                earned[l] += reward[l]
            if logged:
                for l in range(count):
                    arm_log[begin + l, step] = np.int32(arm[l])
                    log_columns[PROPENSITY, begin + l, step] = propensity[l]
                    log_columns[LOG_PROPENSITY, begin + l, step] = log(propensity[l])
                    log_columns[REWARD, begin + l, step] = reward[l]
            if summed:
                for l in range(LANES):
                    row = SUMS * int(arm[l])
                    sums[row, l] += 1.0
                    sums[row + 1, l] += reward[l]
                    sums[row + 2, l] += reward[l] * reward[l]
            if changing:
                for l in range(LANES):
                    regret[l] += gap[arm[l]]
            scale(low, high, reward)
            if coined:
                for l in range(LANES):
                    reward[l] = 1.0 if uniform(noise, l) < reward[l] else 0.0
            if late:
                for l in range(LANES):
                    decided[l] = t[l]
                    played[arm[l], l] += 1.0
                    wait = rounds_until_seen(feedback, feedback_parameter, step, noise, l)
                    if wait < horizon - step:
                        slot = (step + wait) % slots
                        post(calendar, luggage, slot, l, arm[l], reward[l], propensity[l], t[l])
                while collect_post(
                    calendar, luggage, step % slots, due, reward, propensity, decided, live
                ):
                    learn(
                        state, memory, due, reward, propensity, decided, parameters, live,
                        weight, mass,
                    )  # fmt: skip
                    for l in range(LANES):
                        seen[l] += live[l]
            else:
                learn(state, memory, arm, reward, propensity, t, parameters, live, weight, mass)
            if mark < checkpoints.size and checkpoints[mark] == step + 1:
                plays = played if late else state[PULLS]
                for l in range(count):
                    if not changing:
                        regret[l] = 0.0
                        for a in range(arms):
                            regret[l] += gap[a] * plays[a, l]
                    best = 0.0
                    for a in range(arms):
                        pulls_at[mark, a] += np.int64(plays[a, l])
                        best += weight[a, l] if gap[a] == 0.0 else 0.0
                    trial_at[REGRET, mark, begin + l] = regret[l]
                    trial_at[REWARDS, mark, begin + l] = earned[l]
                    trial_at[BEST_ARM, mark, begin + l] = best / mass[l]
                mark += 1
        if summed:
            for l in range(count):
                for a in range(arms):
                    for i in range(SUMS):
                        arm_sums[begin + l, a, i] = sums[SUMS * a + i, l]
