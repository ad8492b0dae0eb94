"""Environments: what pays the rewards, with all that can be known of it.

`bounded` and `unbounded` hold the laws of stationary rewards, `scenarios` what can be made of them
(changes, late rewards, batches, records) and `custom` a user's own formula.
"""

from .bounded import (
    Bernoulli,
    Beta,
    Categorical,
    Deterministic,
    TruncatedGaussian,
    UniformRewards,
)
from .catalogue import environment_from
from .custom import Custom
from .environment import PAY, Environment
from .scenarios import Batched, Delayed, Drifting, Piecewise, Replay
from .unbounded import Exponential, Gaussian, Poisson

__all__ = [
    "PAY",
    "Batched",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Custom",
    "Delayed",
    "Deterministic",
    "Drifting",
    "Environment",
    "Exponential",
    "Gaussian",
    "Piecewise",
    "Poisson",
    "Replay",
    "TruncatedGaussian",
    "UniformRewards",
    "environment_from",
]
