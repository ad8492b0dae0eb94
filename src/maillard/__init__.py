"""Multi-armed bandits whose every choice carries its exact probability.

>>> import numpy as np
>>> import maillard as mb
>>> policy = mb.policy("kl-ms", arms=["red", "green", "blue"])
>>> decision = policy.decide(np.random.default_rng(0))
>>> decision.arm, decision.propensity
('green', 0.3333333333333333)
>>> policy.update(decision, reward=1.0)
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Public name → the module that defines it. Names are fetched when first used, so that
#: `import maillard` costs next to nothing.
_HOME = {
    "Batched": "environments",
    "Bernoulli": "environments",
    "Beta": "environments",
    "Bounds": "theory.report",
    "Categorical": "environments",
    "Custom": "environments",
    "Decision": "policies.decision",
    "Decisions": "policies.decision",
    "Delayed": "environments",
    "Deterministic": "environments",
    "Drifting": "environments",
    "Environment": "environments",
    "Evaluation": "evaluation.evaluation",
    "Exponential": "environments",
    "Gaussian": "environments",
    "InexactProbabilityError": "policies.policy",
    "Log": "logs.log",
    "Piecewise": "environments",
    "Poisson": "environments",
    "Policy": "policies.policy",
    "Replay": "environments",
    "Result": "simulation.result",
    "SimulationError": "simulation.run",
    "TruncatedGaussian": "environments",
    "UniformRewards": "environments",
    "bounds": "theory.report",
    "catalogue": "policies.catalogue",
    "collect": "simulation.collect",
    "describe": "policies.catalogue",
    "environment": "environments.catalogue",
    "environment_from": "environments",
    "evaluate": "evaluation.evaluation",
    "from_state": "policies.storage",
    "policy": "policies.catalogue",
    "simulate": "simulation.run",
}

if TYPE_CHECKING:
    from .environments import (
        Batched,
        Bernoulli,
        Beta,
        Categorical,
        Custom,
        Delayed,
        Deterministic,
        Drifting,
        Environment,
        Exponential,
        Gaussian,
        Piecewise,
        Poisson,
        Replay,
        TruncatedGaussian,
        UniformRewards,
        environment_from,
    )
    from .environments.catalogue import environment
    from .evaluation.evaluation import Evaluation, evaluate
    from .logs.log import Log
    from .policies.catalogue import catalogue, describe, policy
    from .policies.decision import Decision, Decisions
    from .policies.policy import InexactProbabilityError, Policy
    from .policies.storage import from_state
    from .simulation.collect import collect
    from .simulation.result import Result
    from .simulation.run import SimulationError, simulate
    from .theory.report import Bounds, bounds

__all__ = [
    "Batched",
    "Bernoulli",
    "Beta",
    "Bounds",
    "Categorical",
    "Custom",
    "Decision",
    "Decisions",
    "Delayed",
    "Deterministic",
    "Drifting",
    "Environment",
    "Evaluation",
    "Exponential",
    "Gaussian",
    "InexactProbabilityError",
    "Log",
    "Piecewise",
    "Poisson",
    "Policy",
    "Replay",
    "Result",
    "SimulationError",
    "TruncatedGaussian",
    "UniformRewards",
    "__version__",
    "bounds",
    "catalogue",
    "collect",
    "describe",
    "environment",
    "environment_from",
    "evaluate",
    "from_state",
    "policy",
    "simulate",
]


def _classes() -> dict[str, Any]:
    """The class of every policy in the catalogue, by its own name: `KLMS`, `UCB1`, …"""
    from .policies.catalogue import catalogue

    return {cls.__name__: cls for cls in catalogue().values()}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    if name[:1].isupper() and name in (classes := _classes()):
        return classes[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_classes()})
