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
    "Decision": "policies.decision",
    "Decisions": "policies.decision",
    "InexactProbabilityError": "policies.policy",
    "Policy": "policies.policy",
    "describe": "policies.catalogue",
    "catalogue": "policies.catalogue",
    "from_state": "policies.storage",
    "policy": "policies.catalogue",
}

if TYPE_CHECKING:
    from .policies.catalogue import catalogue, describe, policy
    from .policies.decision import Decision, Decisions
    from .policies.policy import InexactProbabilityError, Policy
    from .policies.storage import from_state

__all__ = [
    "Decision",
    "Decisions",
    "InexactProbabilityError",
    "Policy",
    "__version__",
    "catalogue",
    "describe",
    "from_state",
    "policy",
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
