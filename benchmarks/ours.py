"""Our own two speeds, as the benchmarks call them: the simulator, and the online policy."""

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import HORIZON, cpu_seconds

import maillard as mb
from maillard.compiled import Kernel, source
from maillard.environments import Bernoulli
from maillard.simulation import blocks, engine
from maillard.streams import LANES


def make(name: str, arms: int, horizon: int = HORIZON) -> mb.Policy:
    """A policy of the catalogue with its defaults, and what it cannot do without."""
    given = {"horizon": horizon, "weights": [1.0] * arms}
    declared = mb.describe(name)["parameters"]
    return mb.policy(name, arms, **{p["name"]: given[p["name"]] for p in declared if p["required"]})


def by_trial(block: Kernel) -> bool:
    """Whether a block function works lane by lane somewhere, and so without SIMD code."""
    written = source(block)
    if written.__name__ == blocks.by_lane.__name__:
        return True
    named = [written.__globals__.get(name) for name in written.__code__.co_names]
    return any(by_trial(other) for other in named if hasattr(other, "__kernel__"))


def scalar(program: Any) -> bool:
    """Whether the engine takes the trials of a block one by one, for a rule or an integral."""
    return program.path == "engine" and (
        program.integrated or by_trial(blocks.deciding_block(program.policy))
    )


class Simulated:
    """A policy in a Bernoulli environment, compiled."""

    def __init__(self, name: str, means: np.ndarray) -> None:
        policy = make(name, len(means))
        self.program: Any = engine.program(policy, Bernoulli(means.tolist())).compile()
        #: "engine" (blocks of trials in compiled code) or "online" (the online policy, in a loop).
        self.path: str = self.program.path
        self.scalar = scalar(self.program)
        self.trials = LANES if self.path == "engine" else 1
        self.run(100)

    def run(self, horizon: int, trials: int | None = None, first: int = 0) -> Any:
        trials = self.trials if trials is None else trials
        return self.program.run(horizon, [horizon], seed=0, first=first, trials=trials)

    def enough_trials(self, horizon: int = HORIZON, seconds: float = 0.1) -> "Simulated":
        """With so many trials that one measurement takes about `seconds`; 2,048 at most."""
        if self.path == "engine":
            once = self.seconds(horizon)
            self.trials *= min(max(round(seconds / max(once, 1e-9)), 1), 32)
        return self

    def seconds(self, horizon: int = HORIZON, clock: Callable[..., float] = cpu_seconds) -> float:
        """What one run of all the trials takes."""
        return clock(lambda: self.run(horizon))

    def seconds_per_step(self) -> float:
        return self.seconds() / self.trials / HORIZON


def online_seconds_per_step(name: str, means: np.ndarray, horizon: int = HORIZON) -> float:
    """The online policy: decide with the exact propensity, pay and update, in a plain loop."""
    policy, rng = make(name, len(means), horizon), np.random.default_rng(0)
    chances = means.tolist()

    def loop() -> None:
        for _ in range(horizon):
            decision = policy.decide(rng)
            policy.update(decision, 1.0 if rng.random() < chances[decision.arm] else 0.0)

    return cpu_seconds(loop) / horizon
