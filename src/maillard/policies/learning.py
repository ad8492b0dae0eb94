"""What one observed reward changes: templates of compiled code, filled in like the rules."""

from typing import Any

from ..compiled import kernel

#: The arguments of every update: state, memory, arm, scaled reward, propensity, round, parameters.
SIGNATURE = "void(float64[:, ::1], float64[::1], int64, float64, float64, float64, float64[::1])"
BATCH_SIGNATURE = (
    "void(float64[:, ::1], float64[::1], int64[::1], float64[::1], float64[::1], float64[::1], "
    "float64[::1])"
)

PULLS = 0
TOTAL = 1
#: Where a policy keeps the sum of squared deviations, or its importance-weighted losses.
SPREAD = 2
LOSS = 2


def loss_estimate(*arguments: float) -> float:
    """Open: what a loss of 1 − reward adds to the chosen arm's estimated cumulative loss."""
    raise NotImplementedError


def learn(*arguments: Any) -> None:
    """Open: one of the updates below."""
    raise NotImplementedError


@kernel
def count(state, memory, arm, reward, propensity, t, parameters):
    """N_a and S_a."""
    state[PULLS, arm] += 1.0
    state[TOTAL, arm] += reward


@kernel
def count_spread(state, memory, arm, reward, propensity, t, parameters):
    """N_a, S_a and Σ (r − mean)² by Welford's step, which does not cancel."""
    before = 0.0 if state[PULLS, arm] == 0.0 else state[TOTAL, arm] / state[PULLS, arm]
    count(state, memory, arm, reward, propensity, t, parameters)
    after = state[TOTAL, arm] / state[PULLS, arm]
    # The first reward is its own mean: (reward − 0)·(reward − reward) = 0.
    state[SPREAD, arm] += max((reward - before) * (reward - after), 0.0)


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


@kernel
def learn_batch(state, memory, arms, rewards, propensities, rounds, parameters):
    """Updates one after the other, in the order given."""
    for i in range(arms.size):
        learn(state, memory, arms[i], rewards[i], propensities[i], rounds[i], parameters)
