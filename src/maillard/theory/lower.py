"""Lower bounds: what no policy, or no policy of a kind, can beat."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..divergence import k_inf
from .instances import (
    Array,
    Horizons,
    checked_arms,
    checked_horizons,
    checked_means,
    checked_share,
    gaps_of,
    kl,
    kl_step,
    over_instances,
)

#: Where the largest mean of the alternative is tried, as a share of the way from μ_1 to 1.
_ALTERNATIVES = np.geomspace(1e-6, 1.0 - 1e-6, 240)
#: Where the gap of the hard instance is tried: around √(K/T), and near 1 for T well below K.
_RELATIVE_GAPS = np.geomspace(0.05, 2.0, 1500)
_LARGE_GAPS = 1.0 - np.geomspace(1e-12, 0.95, 300)


def lai_robbins(means: Any) -> Any:
    """C(μ) = Σ_{Δ_a>0} Δ_a/kl(μ_a, μ_1): Bernoulli regret is at least C(μ) ln T, for T → ∞.

    Lai and Robbins 1985, for every policy whose regret is o(T^p) on every instance whatever p > 0.
    An arm told from the best at once, kl = ∞, costs nothing in the limit. KL-MS attains C(μ) on
    Bernoulli rewards (Qin, Jun and Zhang 2023, Theorem 4, which proves "≤" and writes "=").
    """
    table = checked_means(means)
    gaps = gaps_of(table)
    best = table.max(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        distance = kl_step(table, 1.0 - table, best, 1.0 - best, gaps)
        return np.where(gaps > 0.0, gaps / distance, 0.0).sum(axis=-1)[()]


def burnetas_katehakis(laws: Sequence[tuple[Any, Any]]) -> float:
    """Σ Δ_a/K_inf(ν_a, μ_1), the constant of ln T for all laws on [0, 1]: `laws` has one an arm.

    Each law is a pair (values, weights). K_inf is the least divergence from ν_a to a law on [0, 1]
    whose mean exceeds μ_1 (Burnetas and Katehakis 1996; Honda and Takemura 2010 for its dual form).
    It is at least kl(μ_a, μ_1), so this constant is at most `lai_robbins` of the means, and KL-MS
    is optimal only where the two agree: for rewards 0 and 1.
    """
    if len(laws) < 2:
        raise ValueError("laws must list at least 2 arms, each a pair (values, weights)")
    tables = [_law(number, law) for number, law in enumerate(laws)]
    means = np.array([math.fsum((x * w).tolist()) / math.fsum(w.tolist()) for x, w in tables])
    best = float(means.max())
    terms = []
    for (values, weights), mean in zip(tables, means.tolist()):
        if mean < best:
            found = k_inf(values, weights, best)  # type: ignore[no-untyped-call]
            distance = float(found[0]) if best < 1.0 else math.inf
            terms.append((best - mean) / distance)
    return math.fsum(terms)


def _law(number: int, law: Any) -> tuple[Array, Array]:
    """A law's values and its positive weights."""
    try:
        values, weights = (np.array(part, dtype=np.float64) for part in law)
        sound = values.ndim == 1 and values.shape == weights.shape and len(values) > 0
        sound = sound and bool((weights >= 0.0).all()) and 0.0 < float(weights.sum()) < math.inf
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise ValueError(
            f"laws[{number}] must be a pair (values, weights) of equal lengths, weights ≥ 0"
        )
    checked_share(f"laws[{number}] values", values)
    return values[weights > 0.0], weights[weights > 0.0]


def minimax(arms: Any, horizon: Any) -> Any:
    """What some instance with rewards 0 and 1 costs every policy: about √(KT)(1 − 1/K)²/4.

    max over 0 < ε < 1 of Tε(1 − 1/K − √(T ε ln((1+ε)/(1−ε)) / (2K))): one arm of mean (1+ε)/2,
    which one being random, among arms of mean (1−ε)/2 (Bubeck and Cesa-Bianchi 2012, Lemma 3.6: by
    Pinsker's inequality the good arm is pulled little more than if it were like the others).
    Better than the closed form `minimax_published` of the same argument.
    """
    count, when = checked_arms(arms), checked_horizons(horizon)
    k, rounds = (x[..., None] for x in np.broadcast_arrays(count, when.rounds))
    near = np.minimum(np.sqrt(k / rounds) * _RELATIVE_GAPS, _LARGE_GAPS[0])
    gap = np.concatenate([near, np.broadcast_to(_LARGE_GAPS, (*k.shape[:-1], 300))], axis=-1)
    share = np.sqrt(rounds / k) * np.sqrt(0.5 * gap * (np.log1p(gap) - np.log1p(-gap)))
    kept = np.maximum(1.0 - 1.0 / k - share, 0.0)
    return (rounds * gap * kept).max(axis=-1)[()]


def minimax_published(arms: Any, horizon: Any) -> Any:
    """min(√(KT), T)/20: Auer, Cesa-Bianchi, Freund and Schapire 2002, Theorem 5.1."""
    count, when = checked_arms(arms), checked_horizons(horizon)
    return (np.minimum(np.sqrt(count * when.rounds), when.rounds) / 20.0)[()]


def finite_time(means: Any, horizon: Any, worst_case: Any) -> Any:
    """Σ Δ_a max_{λ>μ_1} ln₊(T min(Δ_a, λ−μ_1)/(8B)) / kl(μ_a, λ), at every T.

    For policies whose regret after T rounds is at most B = `worst_case` on every Bernoulli
    instance: one that is good everywhere must tell arm a from one of mean λ. Lattimore and
    Szepesvári 2020, proof of Theorem 16.4, with Bernoulli's divergence in place of Gaussians': the
    inequality of Bretagnolle and Huber for the event N_a > T/2 gives, with R' for the other
    instance, R + R' ≥ T min(Δ_a, λ−μ_1) e^{−E N_a kl}/4, and R + R' ≤ 2B. It tends to
    C(μ)(1−p) ln T for B of the order T^p.
    """
    limit = np.asarray(worst_case, dtype=np.float64)
    if not (limit > 0.0).all():
        raise ValueError(f"worst_case must be a regret above 0, not {worst_case!r}")
    when = checked_horizons(horizon)
    # Only T/B matters.
    ratio = Horizons(*np.broadcast_arrays(when.rounds / limit, when.log - np.log(limit)))

    def regret(row: Array, when: Horizons) -> Array:
        best, total = float(row.max()), np.zeros(len(when.log))
        step = (1.0 - best) * _ALTERNATIVES[:, None]
        for gap, times in _distinct_gaps(row) if best < 1.0 else []:
            rest = 1.0 - best
            distance = kl_step(best - gap, rest + gap, best + step, rest - step, gap + step)
            logs = np.log(np.minimum(gap, step) / 8.0) + when.log
            total += times * gap * (np.maximum(logs, 0.0) / distance).max(axis=0)
        return total

    return over_instances(means, ratio, regret)


def small_horizon(means: Any, horizon: Any) -> Any:
    """T Σ Δ_a x_a with kl(x_a, 1/K) = T x_a kl(μ_a, μ_1): near T Σ Δ_a/K while T is small.

    For policies that on every Bernoulli instance pull the best arm T/K times or more, as pulling at
    random would; before about 1/kl(μ_a, μ_1) rounds nobody can tell the arms apart. Garivier,
    Ménard and Stoltz 2019, Theorem 2, without its last step, Pinsker's inequality.
    """

    def regret(row: Array, when: Horizons) -> Array:
        best, total = float(row.max()), np.zeros(len(when.log))
        even = 1.0 / len(row)
        for gap, times in _distinct_gaps(row) if best < 1.0 else []:
            distance = kl_step(best - gap, 1.0 - best + gap, best, 1.0 - best, gap)
            low, high = np.zeros(len(when.log)), np.full(len(when.log), even)
            for _ in range(170):  # down to where the root lies, x may be tiny, then by halves
                middle = np.where(low > 0.0, 0.5 * (low + high), 1e-3 * high)
                above = when.rounds * middle * distance >= kl(middle, even)
                low, high = np.where(above, low, middle), np.where(above, middle, high)
            total += times * gap * when.rounds * low
        return total

    return over_instances(means, horizon, regret)


def _distinct_gaps(row: Array) -> list[tuple[float, int]]:
    """The gaps above 0 of one instance, each with the number of arms that have it."""
    values, counts = np.unique(gaps_of(row), return_counts=True)
    return [(g, n) for g, n in zip(values.tolist(), counts.tolist()) if g > 0.0]
