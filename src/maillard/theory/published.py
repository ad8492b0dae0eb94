"""Regret of the policies that KL-MS is compared with: UCB1, UCB-V, MOSS, the KL-UCBs, Thompson.

Every bound is the formula itself, on the pseudo-regret of rewards in [0, 1], and may exceed the
trivial one. What a docstring calls published is taken as printed in its source; the rest has been
derived again.
"""

import math
from typing import Any, Literal

import numpy as np

from .instances import (
    Array,
    Horizons,
    checked_arms,
    checked_horizons,
    checked_means,
    checked_share,
    gaps_of,
    over_instances,
    regret_from_pulls,
)
from .maillard_sampling import _splits, divergences

Form = Literal["printed", "repaired"]

#: Σ_{t≥1} 1/(1 + t ln² t) = 2.49188…, rounded up.
SUM_OF_INVERSE_F = 2.492
#: (16e² + 1) of KL-UCB++.
_PLUS_PLUS = 16.0 * math.e**2 + 1.0

_ALPHAS = 1.0 + np.geomspace(1e-3, 2.0, 400)[:, None]
_DELTAS = np.geomspace(1e-5, 1.0, 300)[:, None] / 3.0


# --------------------------------------------------------------------------------------------------
# UCB1 and UCB-V


def ucb1(means: Any, horizon: Any) -> Any:
    """UCB1: Σ 8 ln T/Δ_a + (1 + π²/3) Δ_a. Auer, Cesa-Bianchi and Fischer 2002, Theorem 1."""

    def regret(row: Array, when: Horizons) -> Array:
        gaps = gaps_of(row)
        # An infinite inverse times ln 1 would be no number.
        inverse = math.fsum(np.minimum(1.0 / gaps[gaps > 0.0], 1e300).tolist())
        return 8.0 * inverse * when.log + (1.0 + math.pi**2 / 3.0) * math.fsum(gaps.tolist())

    return over_instances(means, horizon, regret)


def ucb1_worst_case(arms: Any, horizon: Any) -> Any:
    """UCB1 on every instance: √(32(K−1)T ln T) + (1 + π²/3)(K−1).

    `ucb1` with TΔ for the gaps up to Δ = √(8(K−1) ln T/T).
    """
    others, when = checked_arms(arms) - 1.0, checked_horizons(horizon)
    root = np.sqrt(32.0 * others * when.log) * np.sqrt(when.rounds)
    return (root + (1.0 + math.pi**2 / 3.0) * others)[()]


def _variances(means: Array, variances: Any) -> Array:
    """σ_a², by default the largest that the means allow: those of Bernoulli rewards."""
    largest = means * (1.0 - means)
    if variances is None:
        return largest
    try:
        row = np.broadcast_to(np.array(variances, dtype=np.float64), means.shape)
    except (TypeError, ValueError):
        raise ValueError(f"variances must be a number for each arm, not {variances!r}") from None
    if not ((row >= 0.0) & (row <= largest + 1e-12)).all():
        raise ValueError("variances must lie between 0 and mean·(1 − mean), arm by arm")
    return row


def _log_integral(low: Array, high: Array, q: Array) -> Array:
    """∫ y e^{qy} dy from `low` to `high`, 0 where they are the wrong way round."""
    width = np.maximum(high - low, 0.0)
    z = q * width
    small = np.abs(z) < 0.3
    near, series = np.where(small, z, 0.0), np.zeros_like(z)
    for n in range(18, -1, -1):  # Σ z^n/(n!(n+2)) = ∫₀¹ τ e^{zτ} dτ
        series = series * near + 1.0 / (math.factorial(n) * (n + 2.0))
    first = np.where(z == 0.0, 1.0, np.expm1(z) / z)
    second = np.where(small, series, (np.exp(z) * (z - 1.0) + 1.0) / z**2)
    return np.asarray(np.exp(q * low) * width * (low * first + width * second))


def _escapes(u: Array, when: Horizons, zeta: float) -> Array:
    """Σ_{t>u} β(ζ ln t, t) ≤ min over α of (3/ln α) ∫_u^T ln x · x^{−ζ/α} dx."""
    sums = _log_integral(np.log(np.maximum(u, 1.0)), when.log, 1.0 - zeta / _ALPHAS)
    return np.where(u < when.rounds, (3.0 / np.log(_ALPHAS) * sums).min(axis=0), 0.0)


def ucb_v_arm_pulls(gap: Any, variance: Any, horizon: Any, zeta: float = 1.2) -> Any:
    """UCB-V with c = 1 and ζ ≥ 1: a bound on E N_a, with its closed sum for the last term.

    1 + u + T^{1−ζ}(24σ²/Δ² + 4/Δ) + Σ_{t>u} β(ζ ln t, t), u = 8ζ ln T (σ²/Δ² + 2/Δ), where
    β(x, t) = 3 inf_{1<α≤3} (ln t/ln α ∧ t) e^{−x/α}: Audibert, Munos and Szepesvári 2009, Theorem
    3, derived again. The appendix of Qin, Jun and Zhang 2023 writes σ⁴ for σ², drops β's 3, and
    takes α = ζ = 1.1, for which its sum of ln t/t^{ζ/α} diverges like ln² T; any α < ζ is enough.
    """
    gap, variance = (np.asarray(x, dtype=np.float64) for x in (gap, variance))
    when = checked_horizons(horizon)
    if not (gap > 0.0).all():
        raise ValueError("gap must be above 0")
    if not 1.0 <= zeta < math.inf:
        raise ValueError(f"zeta must be 1 or more, not {zeta!r}")
    shape = np.broadcast_shapes(gap.shape, variance.shape, when.rounds.shape)
    gap, variance, rounds, log = (
        np.broadcast_to(x, shape).reshape(1, -1) for x in (gap, variance, *when)
    )
    with np.errstate(all="ignore"):
        pulls = _ucb_v_pulls(gap, variance, Horizons(rounds, log), zeta)
    return pulls.reshape(shape)[()]


def _ucb_v_pulls(gap: Array, variance: Array, when: Horizons, zeta: float) -> Array:
    noise = variance / gap / gap
    u = 8.0 * zeta * when.log * (noise + 2.0 / gap)
    late = np.exp((1.0 - zeta) * when.log) * (24.0 * noise + 4.0 / gap)
    return 1.0 + u + late + _escapes(u, when, zeta)


def ucb_v(means: Any, horizon: Any, variances: Any = None, zeta: float = 1.2) -> Any:
    """UCB-V with c = 1: the regret that `ucb_v_arm_pulls` allows."""
    ucb_v_arm_pulls(1.0, 0.0, 1, zeta)
    spread = _variances(checked_means(means), variances)
    if variances is not None and spread.ndim > 1:
        raise ValueError("variances= is for one instance at a time")

    def regret(row: Array, when: Horizons) -> Array:
        gaps, noise = gaps_of(row), _variances(row, variances)
        pulls = np.full((len(row), len(when.log)), np.inf)
        for arm in np.flatnonzero(gaps):
            pulls[arm] = _ucb_v_pulls(gaps[arm], noise[arm], when, zeta)
        return regret_from_pulls(gaps, pulls, when.rounds)

    return over_instances(means, horizon, regret)


def ucb_v_published(means: Any, horizon: Any, variances: Any = None) -> Any:
    """UCB-V with c = 1, ζ = 1.2: 10 Σ (σ_a²/Δ_a + 2) ln T. Published: the same paper, Theorem 4.

    At T = 1 that would be 0, so ln T is at least ln 2.
    """
    _variances(checked_means(means), variances)

    def regret(row: Array, when: Horizons) -> Array:
        gaps = gaps_of(row)
        worse = gaps > 0.0
        noise = _variances(row, variances)[worse] / gaps[worse]
        return 10.0 * math.fsum((noise + 2.0).tolist()) * np.maximum(when.log, math.log(2.0))

    return over_instances(means, horizon, regret)


def ucb_v_worst_case(best: Any, arms: Any, horizon: Any, zeta: float = 1.2) -> Any:
    """UCB-V on every instance with this best mean: 2√(v(K−1)T A) + (K−1) B.

    A = 8ζ ln T + 24T^{1−ζ}, B = 24ζ ln T + 28T^{1−ζ} + 1 + Σβ. From `ucb_v_arm_pulls` and
    σ_a² ≤ v + Δ_a; the gaps up to √(v(K−1)A/T) cost T times that. So O(√(v K T ln T) + K ln T); the
    proof in Qin, Jun and Zhang 2023 sets Δ = √(K v/T), which gives √(v K T) ln T instead.
    """
    spread = checked_share("best", best)
    spread = spread * (1.0 - spread)
    others, when = checked_arms(arms) - 1.0, checked_horizons(horizon)
    late = np.exp((1.0 - zeta) * when.log)
    a = 8.0 * zeta * when.log + 24.0 * late
    u = (16.0 * zeta * when.log).reshape(1, -1)
    flat = Horizons(when.rounds.reshape(1, -1), when.log.reshape(1, -1))
    with np.errstate(all="ignore"):
        escapes = _escapes(u, flat, zeta).reshape(when.log.shape)
    root = 2.0 * np.sqrt(spread * others * a) * np.sqrt(when.rounds)
    linear = others * (24.0 * zeta * when.log + 28.0 * late + 1.0 + escapes)
    return (np.where(spread > 0.0, root, 0.0) + linear)[()]


# --------------------------------------------------------------------------------------------------
# KL-UCB


def _log_f(log: Array) -> Array:
    """ln f(T), f(T) = 1 + T ln² T."""
    return np.logaddexp(0.0, log + 2.0 * np.log(log))


def _kl_ucb_pulls(
    mean: Array, best: Array, gap: Array, when: Horizons, e1: Array, e2: Array, form: Form
) -> Array:
    k, own, d = divergences(mean, best, gap, e1, e2)
    if form == "printed":
        return _log_f(when.log) / k + 1.0 / own + 2.0 / d
    if form == "repaired":
        late = SUM_OF_INVERSE_F / np.expm1(d)
        return 1.0 + _log_f(when.log) / k + 1.0 / np.expm1(own) + late
    raise ValueError(f"form must be printed or repaired, not {form!r}")


def kl_ucb_arm_pulls(
    mean: Any,
    best: Any,
    horizon: Any,
    epsilon_1: Any,
    epsilon_2: Any,
    form: Form = "repaired",
) -> Any:
    """KL-UCB with f(t) = 1 + t ln² t: a bound on E N_a, for any ε_1, ε_2 > 0 with ε_1+ε_2 < Δ.

    repaired: 1 + ln f(T)/kl(μ_a+ε_1, μ_1−ε_2) + 1/(e^{kl(μ_a+ε_1,μ_a)}−1)
    + c_f/(e^{kl(μ_1−ε_2,μ_1)}−1), c_f = Σ 1/f(t) = 2.492: Lattimore and Szepesvári 2020, Theorem
    10.6, with the sums of its Lemma 10.7 kept instead of bounded. printed: the appendix of Qin, Jun
    and Zhang 2023 has 2/kl(μ_1−ε_2, μ_1) and no 1, which the proof it cites does not give.
    """
    mean, best = checked_share("mean", mean), checked_share("best", best)
    e1, e2 = (np.asarray(e, dtype=np.float64) for e in (epsilon_1, epsilon_2))
    when, gap = checked_horizons(horizon), best - mean
    if not ((e1 > 0.0) & (e2 > 0.0) & (e1 + e2 < gap)).all():
        raise ValueError("epsilon_1 and epsilon_2 must be above 0, and their sum below the gap")
    with np.errstate(all="ignore"):
        return _kl_ucb_pulls(mean, best, gap, when, e1, e2, form)[()]


def kl_ucb(means: Any, horizon: Any, form: Form = "repaired") -> Any:
    """KL-UCB: the regret that `kl_ucb_arm_pulls` allows, at the best ε_1 and ε_2 on a grid."""

    def regret(row: Array, when: Horizons) -> Array:
        best = row.max()
        pulls = np.full((len(row), len(when.log)), np.inf)
        for mean in np.unique(row[row < best]):
            if best == 1.0:  # the limit ε_2 → 0, ε_1 → Δ
                limit = -1.0 / np.log(mean) if form == "printed" else 1.0 / (1.0 - mean)
                pulls[row == mean] = np.maximum(limit, 1.0)
                continue
            found = _kl_ucb_pulls(mean, best, best - mean, when, *_splits(best - mean), form)
            pulls[row == mean] = np.fmin.reduce(found, axis=0)
        return regret_from_pulls(gaps_of(row), pulls, when.rounds)

    return over_instances(means, horizon, regret)


def kl_ucb_worst_case(best: Any, arms: Any, horizon: Any) -> Any:
    """KL-UCB on every instance with this best mean: 2√(v(K−1)T G) + (K−1)G.

    G = 8 ln f(T) + 112.8. From `kl_ucb_arm_pulls` at ε_1 = ε_2 = Δ/4 and kl(a, b) ≥ Δ²/(2(v+Δ)):
    E N_a ≤ G(v+Δ_a)/Δ_a²; gaps up to √(v(K−1)G/T) cost T times that. O(√(v K T ln T) + K ln T) is
    the refined guarantee of Qin, Jun and Zhang 2023.
    """
    spread = checked_share("best", best)
    spread = spread * (1.0 - spread)
    others, when = checked_arms(arms) - 1.0, checked_horizons(horizon)
    with np.errstate(all="ignore"):
        g = 8.0 * _log_f(when.log) + 1.0 + 32.0 * (1.0 + SUM_OF_INVERSE_F)
        root = 2.0 * np.sqrt(spread * others * g) * np.sqrt(when.rounds)
    return (np.where(spread > 0.0, root, 0.0) + others * g)[()]


# --------------------------------------------------------------------------------------------------
# The minimax-optimal ones


def kl_ucb_plus_plus_arm_pulls(mean: Any, best: Any, arms: Any, horizon: Any, delta: Any) -> Any:
    """KL-UCB++: a bound on E N_a for 88K/T + √(88vK/T) ≤ δ ≤ Δ/3.

    1 + (16e²+1)K/kl(μ_1−δ, μ_1) + ln((T/K)(1+ln²(T/K)))/kl(μ_a+δ, μ_1−δ) + 1/kl(μ_a+δ, μ_a): the
    refined proof of Qin, Jun and Zhang 2023, whose statement hides all but the first logarithm in
    an O. It takes an inequality of Ménard and Garivier 2017 that needs T/(K f) ≥ e^{3/2}; the proof
    only shows two thirds of it, but T kl/K ≥ 11, which is what 88 gives, is enough.
    """
    mean, best = checked_share("mean", mean), checked_share("best", best)
    delta, count = np.asarray(delta, dtype=np.float64), checked_arms(arms)
    when = checked_horizons(horizon)
    low = _least_delta(best, count, when)
    if not ((low <= delta) & (delta <= (best - mean) / 3.0)).all():
        raise ValueError("delta must be from 88K/T + √(88 μ_1(1−μ_1) K/T) to a third of the gap")
    with np.errstate(all="ignore"):
        return _plus_plus_pulls(mean, best, best - mean, count, when, delta)[()]


def _least_delta(best: Any, count: Any, when: Horizons) -> Array:
    rate = 88.0 * count / when.rounds
    return np.asarray(rate + np.sqrt(best * (1.0 - best)) * np.sqrt(rate))


def _plus_plus_pulls(
    mean: Any, best: Any, gap: Any, count: Any, when: Horizons, delta: Array
) -> Array:
    log = when.log - np.log(count)
    k, own, d = divergences(mean, best, gap, delta, delta)
    level = log + np.log1p(log * log)
    return np.asarray(1.0 + _PLUS_PLUS * count / d + level / k + 1.0 / own)


def kl_ucb_plus_plus(means: Any, horizon: Any) -> Any:
    """KL-UCB++: the regret that `kl_ucb_plus_plus_arm_pulls` allows, at the best δ on a grid.

    Arms too close for any δ, which is most of them until T is thousands of times K/Δ², count with
    all rounds.
    """

    def regret(row: Array, when: Horizons) -> Array:
        best, count = row.max(), np.float64(len(row))
        pulls = np.full((len(row), len(when.log)), np.inf)
        for mean in np.unique(row[row < best]):
            delta = (best - mean) * _DELTAS
            found = _plus_plus_pulls(mean, best, best - mean, count, when, delta)
            allowed = delta >= _least_delta(best, count, when)
            pulls[row == mean] = np.where(allowed, found, np.inf).min(axis=0)
        return regret_from_pulls(gaps_of(row), pulls, when.rounds)

    return over_instances(means, horizon, regret)


def kl_ucb_plus_plus_worst_case(arms: Any, horizon: Any) -> Any:
    """KL-UCB++: 38√(KT) + K. Published: Ménard and Garivier 2017, 76√(V K T) + K with V = 1/4."""
    count, when = checked_arms(arms), checked_horizons(horizon)
    return (38.0 * np.sqrt(count * when.rounds) + count)[()]


def kl_ucb_switch_worst_case(arms: Any, horizon: Any) -> Any:
    """KL-UCB-switch, horizon known: 23√(KT) + K − 1. Published: Garivier et al. 2022, Theorem 1."""
    count, when = checked_arms(arms), checked_horizons(horizon)
    return (23.0 * np.sqrt(count * when.rounds) + count - 1.0)[()]


def moss(means: Any, horizon: Any) -> Any:
    """MOSS: 19.5√(KT) + Σ Δ_a for T ≥ K. Published: Lattimore and Szepesvári 2020, Theorem 9.1.

    There 39√(KT) + Σ Δ_a for 1-sub-Gaussian rewards and the index μ̂ + √(4/N ln₊(T/(KN))); rewards
    in [0, 1] are 1/4-sub-Gaussian, which halves both the bonus, to MOSS's own, and the first term.
    """

    def regret(row: Array, when: Horizons) -> Array:
        return 19.5 * np.sqrt(len(row) * when.rounds) + math.fsum(gaps_of(row).tolist())

    return over_instances(means, horizon, regret)


# --------------------------------------------------------------------------------------------------
# Thompson sampling


def thompson(means: Any, horizon: Any) -> Any:
    """Thompson sampling, Beta(1, 1) priors, two arms: 40 ln T/Δ + 48/Δ³ + 18Δ.

    Published: Agrawal and Goyal 2012, proof of Theorem 1. Later bounds have the right slope,
    C(μ) ln T (Kaufmann, Korda and Munos 2012), but constants that are not given.
    """
    if checked_means(means).shape[-1] != 2:
        raise ValueError("thompson: the bound with explicit constants is for 2 arms")

    def regret(row: Array, when: Horizons) -> Array:
        gap = gaps_of(row).max()
        if gap == 0.0:
            return np.zeros(len(when.log))
        return np.asarray(40.0 * when.log / gap + 48.0 / gap / gap / gap + 18.0 * gap)

    return over_instances(means, horizon, regret)


def thompson_bayesian(arms: Any, horizon: Any) -> Any:
    """Thompson sampling's regret on average over its prior: √(½ K T ln K), whatever the prior.

    Russo and Van Roy 2016. Not a bound on any one instance.
    """
    count, when = checked_arms(arms), checked_horizons(horizon)
    return np.sqrt(0.5 * count * np.log(count) * when.rounds)[()]
