"""Histories to try policies on, and policies brought to the end of a history."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import maillard as mb

History = list[tuple[int, float, float]]


def random_history(
    seed: int, arms: int, length: int, binary: bool = True, means: Sequence[float] | None = None
) -> History:
    """(arm, reward, propensity), each arm once first; propensities are exact binary fractions."""
    rng = np.random.default_rng(seed)
    mu = rng.random(arms) if means is None else np.asarray(means)
    rest = rng.choice(arms, size=max(length - arms, 0), p=rng.dirichlet(np.ones(arms)))
    history = []
    for arm in [*range(arms), *rest]:
        values = rng.random(2)
        reward = float(values[0] < mu[arm]) if binary else float(round(values[1] * mu[arm] * 8)) / 8
        history.append((int(arm), reward, int(rng.integers(4, 64)) / 64))
    return history


def replay(policy: mb.Policy, history: History) -> mb.Policy:
    """The policy after it has seen the history, each reward at its own round."""
    for arm, reward, propensity in history:
        # A policy whose decisions carry a note needs the one that its own would have carried here.
        note = policy._note(policy.arms, policy.probabilities()) if policy._notes else ()
        choice = mb.Decision(policy.arms[arm], propensity, np.log(propensity), policy.round, note)
        policy.update(choice, reward)
    return policy


def counts_history(pulls: Sequence[int], totals: Sequence[int]) -> History:
    """A binary history with these counts: each arm once first."""
    left = [[1.0] * s + [0.0] * (n - s) for n, s in zip(pulls, totals, strict=True)]
    first = [(a, rewards.pop(), 1.0) for a, rewards in enumerate(left)]
    return first + [(a, r, 1.0) for a, rewards in enumerate(left) for r in rewards]


def exactly(history: History) -> list[tuple[int, Fraction, Fraction]]:
    """The same in rational numbers."""
    return [(arm, Fraction(r), Fraction(p)) for arm, r, p in history]


def needed(cls: type[mb.Policy], arms: int) -> dict[str, Any]:
    """Arguments for the parameters that have no default."""
    values: dict[str, Any] = {"horizon": 1_000, "weights": [1.0 + a for a in range(arms)]}
    return {name: values[name] for name, spec in cls._declared.items() if spec.required}
