"""The two ways to log and to evaluate: as the paper writes it, and as the authors' code does it.

| | as written | as released |
|---|---|---|
| reward | Bernoulli | the arm's mean, without noise |
| logged probability | p_t, which the arm was drawn from | p_{t+1}, after the update |
| Thompson's, estimated | the share p̂ of M draws | the same, not below 0.5/M |
| first pulls | KL-MS in order, probability 1 | every policy in order, left out of the sum |
| estimate | (1/T) Σ (1/K) r/p | (1/T) Σ r/p over rounds in which a uniform draw is the logged arm |

"As released" is the public repository at its last commit, 817f4d3 of October 2024: `simulation.py`
pays `env_reward[chosen_arm]` and stores `get_arm_prob()` after `update`; `evaluation.py` floors the
probability, starts at round K and replays the policy `Uniform`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import maillard as mb

Array = NDArray[np.float64]

WRITTEN, RELEASED = "as written", "as released"
PROTOCOLS = (WRITTEN, RELEASED)


class Rows(NamedTuple):
    """Some logs of equal length: [run, round]."""

    arm: NDArray[np.int64]
    propensity: Array
    reward: Array

    @classmethod
    def of(cls, log: mb.Log, runs: int) -> "Rows":
        """The rows of a log of so many runs, one after another."""
        table = log.to_arrow()
        columns: list[Any] = [table[name].to_numpy().reshape(runs, -1) for name in cls._fields]
        return cls(*columns)


def logger(policy: str, protocol: str) -> Any:
    """The policy that writes the log, as `collect` takes it."""
    if protocol == WRITTEN:
        return "kl-ms:initial=in-order" if policy == "kl-ms" else policy
    if policy == "thompson":
        return _pulled_once_first()(2, initial="in-order")
    return f"{policy}:initial=in-order"


def _pulled_once_first() -> type[mb.Policy]:
    """The released code plays every arm once before any policy is asked, Thompson's too."""

    class PulledOnceFirst(mb.Thompson):  # type: ignore[misc]
        forced = True

    return PulledOnceFirst


def environment(means: tuple[float, ...], protocol: str) -> mb.Environment:
    """What pays the rewards."""
    return mb.Bernoulli(means) if protocol == WRITTEN else mb.Deterministic(means)


def monte_carlo(rng: np.random.Generator, samples: int, p: Array) -> Array:
    """The share of M posterior draws in which the arm came out best: Binomial(M, p)/M in law."""
    return rng.binomial(samples, np.clip(p, 0.0, 1.0)) / samples


def ipw(rows: Rows, propensity: Array) -> Array:
    """(1/T) Σ (1/K) r/p for each log; not finite where some p is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((0.5 / propensity * rows.reward).mean(axis=1))


def after_update(rows: Rows) -> tuple[Rows, Array]:
    """All rounds but the last, and p_{t+1} of the arm of round t, for two arms."""
    again = rows.arm[:, 1:] == rows.arm[:, :-1]
    following = np.where(again, rows.propensity[:, 1:], 1.0 - rows.propensity[:, 1:])
    before = Rows(rows.arm[:, :-1], rows.propensity[:, :-1], rows.reward[:, :-1])
    return before, following


def replay(rows: Rows, propensity: Array, rng: np.random.Generator) -> Array:
    """(1/T) Σ r/p over the rounds after the first two in which a fair coin shows the logged arm."""
    match = rng.random(propensity.shape) < 0.5
    match[:, :2] = False
    terms = np.zeros(propensity.shape)
    with np.errstate(divide="ignore"):
        np.divide(rows.reward, propensity, out=terms, where=match)
    return np.asarray(terms.mean(axis=1))
