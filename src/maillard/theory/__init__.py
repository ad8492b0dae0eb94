"""Bounds on regret as numbers: what policies cannot beat, and what they do not exceed.

`bounds` puts them together for one bandit. Each is also a function of its own, vectorised over
instances and horizons: `theory.theorem_1([[0.8, 0.9], [0.1, 0.2]], [1_000, 10_000])`. Nothing here
compiles anything, and only `simulate=` imports what does.
"""

from .instances import regret_from_pulls, trivial
from .lower import (
    burnetas_katehakis,
    finite_time,
    lai_robbins,
    minimax,
    minimax_published,
    small_horizon,
)
from .maillard_sampling import (
    arm_pull_lemma,
    arm_pulls,
    ms,
    ms_arm_pulls,
    ms_slope,
    ms_worst_case,
    remainder_constant,
    sub_ucb,
    theorem_1,
    worst_case,
    worst_case_constants,
)
from .published import (
    kl_ucb,
    kl_ucb_arm_pulls,
    kl_ucb_plus_plus,
    kl_ucb_plus_plus_arm_pulls,
    kl_ucb_plus_plus_worst_case,
    kl_ucb_switch_worst_case,
    kl_ucb_worst_case,
    moss,
    thompson,
    thompson_bayesian,
    ucb1,
    ucb1_worst_case,
    ucb_v,
    ucb_v_arm_pulls,
    ucb_v_published,
    ucb_v_worst_case,
)
from .report import Bounds, bounds

__all__ = [
    "Bounds",
    "arm_pull_lemma",
    "arm_pulls",
    "bounds",
    "burnetas_katehakis",
    "finite_time",
    "kl_ucb",
    "kl_ucb_arm_pulls",
    "kl_ucb_plus_plus",
    "kl_ucb_plus_plus_arm_pulls",
    "kl_ucb_plus_plus_worst_case",
    "kl_ucb_switch_worst_case",
    "kl_ucb_worst_case",
    "lai_robbins",
    "minimax",
    "minimax_published",
    "moss",
    "ms",
    "ms_arm_pulls",
    "ms_slope",
    "ms_worst_case",
    "regret_from_pulls",
    "remainder_constant",
    "small_horizon",
    "sub_ucb",
    "theorem_1",
    "thompson",
    "thompson_bayesian",
    "trivial",
    "ucb1",
    "ucb1_worst_case",
    "ucb_v",
    "ucb_v_arm_pulls",
    "ucb_v_published",
    "ucb_v_worst_case",
    "worst_case",
    "worst_case_constants",
]
