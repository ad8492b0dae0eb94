"""What every bound shares: checked means and horizons, kl over arrays, regret from pulls.

A bound takes `means` of shape (…, arms) and `horizon` of shape (…), which broadcast against each
other; the result has the broadcast shape, a plain number if that is ().
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Horizons(NamedTuple):
    """T and ln T. Whole numbers beyond float64 keep their logarithm; their T is infinite."""

    rounds: Array
    log: Array

    def take(self, which: Any) -> "Horizons":
        """Some of them."""
        return Horizons(self.rounds[which], self.log[which])


def checked_means(means: Any) -> Array:
    """Means in [0, 1], the last axis over at least 2 arms."""
    try:
        row = np.array(means, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"means must be numbers in [0, 1], not {means!r}") from None
    if row.ndim == 0 or row.shape[-1] < 2:
        raise ValueError("means must list at least 2 arms, such as means=[0.8, 0.9]")
    checked_share("means", row)
    return row


def checked_share(name: str, values: Any) -> Array:
    """Numbers in [0, 1]."""
    try:
        row = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers in [0, 1], not {values!r}") from None
    wrong = ~((row >= 0.0) & (row <= 1.0))
    if wrong.any():
        raise ValueError(
            f"{name} must be numbers in [0, 1], not {row[wrong].flat[0]:g}; scale rewards in "
            "[L, U] by (x − L)/(U − L) first"
        )
    return row


def checked_horizons(horizon: Any) -> Horizons:
    """Horizons of at least 1; a whole number may be as large as it likes."""
    if isinstance(horizon, Horizons):
        return horizon
    items = np.array(horizon, dtype=object)
    pairs = np.array([_rounds_and_log(x) for x in items.flat], dtype=np.float64)
    rounds, log = pairs.reshape((*items.shape, 2)).T
    return Horizons(rounds.T, log.T)


def _rounds_and_log(x: Any) -> tuple[float, float]:
    """T and ln T; `math.log` takes whole numbers of any size."""
    try:
        if not isinstance(x, (bool, str, bytes)) and 1 <= x < math.inf:
            log = math.log(x)
            return float(x) if log < 709.0 else math.inf, log
    except (TypeError, ValueError):
        pass
    shown = repr(x) if not isinstance(x, int) or abs(x) < 10**20 else "what it is"
    raise ValueError(f"horizon must be a number of rounds, 1 or more, not {shown}")


def checked_arms(arms: Any) -> Array:
    """Numbers of arms, 2 or more."""
    try:
        count = np.array(arms, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"arms must be a whole number, 2 or more, not {arms!r}") from None
    if not ((count >= 2.0) & (count == np.floor(count)) & np.isfinite(count)).all():
        raise ValueError(f"arms must be a whole number, 2 or more, not {arms!r}")
    return count


def over_instances(means: Any, horizon: Any, bound: Callable[[Array, Horizons], Array]) -> Any:
    """`bound(means of one instance, 1-D horizons)` for every pair of instance and horizon."""
    table, when = checked_means(means), checked_horizons(horizon)
    try:
        shape = np.broadcast_shapes(table.shape[:-1], when.rounds.shape)
    except ValueError:
        raise ValueError(
            f"instances of shape {table.shape[:-1]} and horizons of shape {when.rounds.shape} do "
            "not broadcast"
        ) from None
    rows = np.broadcast_to(table, (*shape, table.shape[-1])).reshape(-1, table.shape[-1])
    flat = Horizons(*(np.broadcast_to(part, shape).ravel() for part in when))
    out = np.empty(len(rows))
    instances, which = np.unique(rows, axis=0, return_inverse=True)
    for number, instance in enumerate(instances):
        mine = which.ravel() == number
        with np.errstate(all="ignore"):
            out[mine] = bound(instance, flat.take(mine))
    return out.reshape(shape)[()]


def gaps_of(means: Array) -> Array:
    """Δ_a = μ_1 − μ_a over the last axis."""
    return np.asarray(means.max(axis=-1, keepdims=True) - means)


# --------------------------------------------------------------------------------------------------


def _phi(x: Array) -> Array:
    """x − ln(1+x) for |x| < 0.4 without cancellation."""
    # With s = x/(2+x): ln(1+x) = 2 artanh s and x − 2s = x·s.
    s = x / (2.0 + x)
    z, tail = s * s, np.zeros_like(s)
    for power in range(31, 1, -2):
        tail = tail * z + 1.0 / power
    return x * s - 2.0 * s * z * tail


def _term(a: Array, b: Array, d: Array) -> Array:
    """a·φ(d/a) = d − a ln(b/a) for d = b − a: what one outcome contributes to kl; at a = 0, d."""
    move, ratio = d / a, b / a
    # Neither quotient says much where it is subnormal or too large.
    log_ratio = np.where(ratio > 1e-300, np.log(ratio), np.log(b) - np.log(a))
    far = np.where((a == 0.0) | (ratio > 1e300), d, d - a * log_ratio)
    return np.where(np.abs(move) < 0.4, a * _phi(move), far)


def kl_step(a: Any, rest_a: Any, b: Any, rest_b: Any, d: Any) -> Array:
    """kl(a, b) from what cancels or rounds in it: 1 − a, 1 − b and b − a, as exact as they are.

    The array form of `maillard.divergence.kl`, which needs no compiler. A step of a few ulp counts
    with all its digits, and so does a mean that is nearly 0 or 1.
    """
    parts = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (a, rest_a, b, rest_b, d)))
    a, rest_a, b, rest_b, d = parts
    with np.errstate(all="ignore"):
        value = _term(a, b, d) + _term(rest_a, rest_b, -d)
    return np.where(d == 0.0, 0.0, value)


def kl(a: Any, b: Any) -> Array:
    """kl(a, b) over arrays."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return kl_step(a, 1.0 - a, b, 1.0 - b, b - a)


# --------------------------------------------------------------------------------------------------


def regret_from_pulls(gaps: Array, pulls: Any, rounds: Array) -> Array:
    """The largest Σ Δ_a n_a that bounds on the expected pulls n_a allow.

    Every arm is pulled once first, Σ n_a = T and 1 ≤ n_a ≤ pulls_a (a row for each arm): a linear
    programme, solved by filling up the largest gaps first. It is never more than the paper's
    TΔ + Σ_{Δ_a>Δ} Δ_a pulls_a, whatever Δ. For T < K it is the sum of the T largest gaps. A bound
    that is no number, for gaps whose squares are not, bounds nothing.
    """
    arms = len(gaps)
    caps = np.broadcast_to(np.where(np.isnan(pulls), np.inf, pulls), (arms, len(rounds)))
    first, extra = np.minimum(rounds, arms), np.maximum(rounds - arms, 0.0)
    total = np.zeros(len(rounds))
    for arm in np.argsort(-gaps, kind="stable"):
        once = np.minimum(1.0, first)
        more = np.minimum(np.maximum(caps[arm] - 1.0, 0.0), extra)
        first, extra = first - once, extra - np.where(np.isinf(extra), 0.0, more)
        if gaps[arm] > 0.0:
            total = total + gaps[arm] * (once + more)
    return total


def trivial(means: Any, horizon: Any) -> Any:
    """What no policy that pulls every arm once can exceed: the worst arm in every other round."""
    return over_instances(
        means, horizon, lambda row, when: regret_from_pulls(gaps_of(row), np.inf, when.rounds)
    )
