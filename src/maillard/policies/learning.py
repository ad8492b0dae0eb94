"""What one observed reward changes: templates of compiled code, filled in like the rules."""

from typing import Any

import numpy as np

from ..compiled import kernel

#: The arguments of every update: state, memory, arm, scaled reward, propensity, round, parameters.
SIGNATURE = "void(float64[:, ::1], float64[::1], int64, float64, float64, float64, float64[::1])"

PULLS = 0
TOTAL = 1
#: Where a policy keeps the sum of squared deviations, or its importance-weighted losses.
SPREAD = 2
LOSS = 2


def loss_estimate(*arguments: float) -> float:
    """Open: what a loss of 1 − reward adds to the chosen arm's estimated cumulative loss."""
    raise NotImplementedError


def learn_block(*arguments: Any) -> None:
    """Open: an update of many trials; see `one_trial`."""
    raise NotImplementedError


@kernel
def one_trial(state, memory, arm, reward, propensity, t, parameters):
    """An update that is written over many trials, their lanes innermost, here for a single one.

    learn_block(state[rows, arms, lanes], memory[numbers, lanes], arm[lanes], reward, propensity, t,
    parameters, live): as `rules.one_trial`; only lanes with live = 1 have a reward to learn from.
    """
    learn_block(
        state.reshape(state.shape[0], state.shape[1], 1), memory.reshape(memory.size, 1),
        np.full(1, np.uint64(arm)), np.full(1, reward), np.full(1, propensity), np.full(1, t),
        parameters, np.ones(1),
    )  # fmt: skip


@kernel
def count(state, memory, arm, reward, propensity, t, parameters):
    """N_a and S_a."""
    state[PULLS, arm] += 1.0
    state[TOTAL, arm] += reward


@kernel
def add_spread(state, arm, lane, reward):
    """N_a, S_a and Σ (r − mean)² of one trial by Welford's step, which does not cancel."""
    pulls, total = state[PULLS, arm, lane], state[TOTAL, arm, lane]
    before = 0.0 if pulls == 0.0 else total / pulls
    after = (total + reward) / (pulls + 1.0)
    state[PULLS, arm, lane] = pulls + 1.0
    state[TOTAL, arm, lane] = total + reward
    # The first reward is its own mean: (reward − 0)·(reward − reward) = 0.
    state[SPREAD, arm, lane] += max((reward - before) * (reward - after), 0.0)


@kernel
def count_spread(state, memory, arm, reward, propensity, t, parameters, live):
    """N_a, S_a and Σ (r − mean)² of many trials."""
    for l in range(live.size):
        if live[l] > 0.0:
            add_spread(state, arm[l], l, reward[l])


@kernel
def count_loss(state, memory, arm, reward, propensity, t, parameters):
    """N_a, S_a and the importance-weighted cumulative loss."""
    count(state, memory, arm, reward, propensity, t, parameters)
    arms = float(state.shape[1])
    p0, p1, p2, p3 = parameters[0], parameters[1], parameters[2], parameters[3]
    p4, p5, p6, p7 = parameters[4], parameters[5], parameters[6], parameters[7]
    state[LOSS, arm] += loss_estimate(
        reward, propensity, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, t, arms, p0, p1, p2, p3, p4, p5, p6, p7
    )
