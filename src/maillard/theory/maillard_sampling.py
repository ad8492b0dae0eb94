"""Regret of Maillard sampling: KL-MS (Qin, Jun and Zhang 2023) and its sub-Gaussian forebear MS.

Notation of the paper: μ_1 the best mean, Δ_a = μ_1 − μ_a, v = μ_1(1−μ_1) (its μ̇_1), ε_1 and ε_2 the
room left for errors of the arm's and of the best mean. Every bound is on the pseudo-regret
Σ Δ_a E N_a of rewards in [0, 1], whatever their law, and is the formula itself: it may exceed the
trivial bound. Where the paper is printed with a constant that its proof does not give, or gives
better, both are here: `form` chooses.

What the proofs share. E N_a ≤ 1 + u + F1 + F2 + F3 with k = kl(μ_a+ε_1, μ_1−ε_2), u = ln₊(Tk)/k,
F1 ≤ 1/k, F2 ≤ 1/(e^{kl(μ_a+ε_1, μ_a)} − 1). F3 counts the pulls while the best arm looks worse than
μ_1 − ε_2. By Lemma "bound-F3" its part with n pulls of the best arm is at most (G/n + 1)e^{−nd},
d = kl(μ_1−ε_2, μ_1), and the paper takes G = 2H, H = 1/(x(1−x)h²), x = μ_1 − ε_2, h = the log-ratio
of the odds of μ_1 and x. Its parts I and II add to G = (2−x)H, which is what we use. Summed over n
    F3 ≤ −G ln(1−e^{−d}) + 1/(e^d − 1),
exactly, instead of the paper's 6H ln(H ∨ e²) + 4/d. For T not much above H the other way is better:
with m = ⌊H⌋, up to m pulls cost 2m(ln(T/m) + 2), Lemma "F3-1", and those after m a geometric sum.
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
    kl_step,
    over_instances,
    regret_from_pulls,
)

Lemma = Literal["printed", "sharp"]
Theorem = Literal["printed", "sketch", "appendix", "repaired"]

#: Shares of the gap at which ε_1 and ε_2 are tried: whatever their values, the bound holds. Far
#: below 1/2 for long horizons or μ_1 near 1 (ε_2), close to 1 for μ_1 near 1 (ε_1).
_SHARES = np.concatenate([np.geomspace(1e-6, 0.02, 26), np.geomspace(0.02, 0.5, 65)[1:]])
_SHARES = np.concatenate([_SHARES, 1.0 - np.geomspace(0.5, 1e-5, 30)[1:]])
#: Values of c at which Theorem 1 is tried.
_CS = 0.25 * np.geomspace(1e-3, 1.0, 150)
#: Values of x in Δ = x√(v K/T) at which the worst case is tried.
_SPLITS = np.geomspace(1.0, 1e4, 4000)


def remainder_constant(c: Any, form: Theorem = "repaired") -> Any:
    """The factor of (v+Δ)/Δ · ln(…) in Theorem 1 at a given c.

    printed: 392/c², the theorem of the main text. sketch: (34/c² + 4/(1−2c)²)/c², its proof sketch.
    appendix: 24/c² + 4/(1−2c)², the proof, whose terms give 400 at c = 1/4 where 392·16 = 6272 is
    printed. All three hold. repaired: 8/c² + 1/(1−2c)² + 1/2, from the lemma's terms one by one,
    with L = ln(…) ≥ 2, X = (v+Δ)/(c²Δ²) and H ≤ (v+ε_2)/ε_2² ≤ X (for ε_2 ≤ μ_1/4, where the paper
    has twice that): F3 ≤ 4H L + 3/d ≤ (4+3)X L, 1/kl(μ_a+ε_1, μ_a) ≤ X L, 1/k ≤ c²/(1−2c)² X L,
    1 ≤ c²/2 X L.
    """
    c = np.asarray(c, dtype=np.float64)
    if form == "printed":
        return 392.0 / c**2
    if form == "sketch":
        return (34.0 / c**2 + 4.0 / (1.0 - 2.0 * c) ** 2) / c**2
    if form == "appendix":
        return 24.0 / c**2 + 4.0 / (1.0 - 2.0 * c) ** 2
    if form == "repaired":
        return 8.0 / c**2 + 1.0 / (1.0 - 2.0 * c) ** 2 + 0.5
    raise ValueError(f"form must be printed, sketch, appendix or repaired, not {form!r}")


# --------------------------------------------------------------------------------------------------
# The arm-pull lemma


def _log_over(log: Array, k: Array, least: float) -> Array:
    """ln(max(T k, e^least))/k, which is 0 at k = ∞."""
    return np.where(np.isinf(k), 0.0, np.maximum(log + np.log(k), least) / k)


def _deviations(h: Array, g: Array, d: Array, when: Horizons) -> Array:
    """F3 with Lemma "bound-F3" at (G/n + 1)e^{−nd}: the module's text."""
    growth = np.expm1(d)
    mixed = np.where(d < 0.5, -np.log(-np.expm1(-d)), -np.log1p(-np.exp(-d)))
    whole = g * mixed + 1.0 / growth
    m = np.floor(h)
    head = np.where(m > 0.0, 2.0 * m * (when.log - np.log(np.maximum(m, 1.0)) + 2.0), 0.0)
    split = head + (g / (m + 1.0) * np.exp(-m * d) + 1.0) / growth
    split = np.where(m <= when.rounds, split, np.inf)
    return np.where(np.isinf(d), 0.0, np.minimum(np.minimum(whole, split), when.rounds))


def divergences(mean: Any, best: Any, gap: Any, e1: Any, e2: Any) -> tuple[Array, Array, Array]:
    """kl(μ_a+ε_1, μ_1−ε_2), kl(μ_a+ε_1, μ_a) and kl(μ_1−ε_2, μ_1)."""
    low, rest_low = mean + e1, (1.0 - mean) - e1
    high, rest_high = best - e2, (1.0 - best) + e2
    return (
        kl_step(low, rest_low, high, rest_high, gap - e1 - e2),
        kl_step(low, rest_low, mean, 1.0 - mean, -e1),
        kl_step(high, rest_high, best, 1.0 - best, e2),
    )


def _klms_pulls(
    mean: Array, best: Array, gap: Array, when: Horizons, e1: Array, e2: Array, form: Lemma
) -> Array:
    x, rest = best - e2, (1.0 - best) + e2
    k, own, d = divergences(mean, best, gap, e1, e2)
    odds = np.log1p(e2 / (1.0 - best)) - np.log1p(-e2 / best)
    h = 1.0 / (x * rest * odds * odds)
    if form == "printed":
        logs = np.maximum(np.minimum(when.log - np.log(h), np.log(h)), 2.0)
        last = np.where(h > 0.0, 6.0 * h * logs, 0.0) + 4.0 / d
        return 1.0 + _log_over(when.log, k, 2.0) + 1.0 / k + 1.0 / own + last
    if form == "sharp":
        start = 1.0 + _log_over(when.log, k, 0.0) + 1.0 / k + 1.0 / np.expm1(own)
        return start + _deviations(h, (1.0 + rest) * h, d, when)
    raise ValueError(f"form must be printed or sharp, not {form!r}")


def arm_pulls(
    mean: Any,
    best: Any,
    horizon: Any,
    epsilon_1: Any,
    epsilon_2: Any,
    form: Lemma = "printed",
) -> Any:
    """KL-MS: a bound on E N_a for an arm of a given mean, for any ε_1, ε_2 > 0 with ε_1+ε_2 < Δ.

    printed: the paper's arm-pull lemma as it stands,
    1 + ln(Tk ∨ e²)/k + 1/k + 1/kl(μ_a+ε_1, μ_a) + 6H ln((T/H ∧ H) ∨ e²) + 4/kl(μ_1−ε_2, μ_1). It is
    right, though a step of its proof is not: 2/(1−e^{−x}) + 1/x ≤ 3/x fails, and is not needed, as
    the sum begins at ⌊H⌋+1 and 2/(e^x−1) ≤ 2/x. sharp: what its proof gives without rounding up.
    """
    mean, best = checked_share("mean", mean), checked_share("best", best)
    e1, e2 = (np.asarray(e, dtype=np.float64) for e in (epsilon_1, epsilon_2))
    when = checked_horizons(horizon)
    gap = best - mean
    if not (gap > 0.0).all():
        raise ValueError("the lemma is about arms whose mean is below the best")
    if not ((e1 > 0.0) & (e2 > 0.0) & (e1 + e2 < gap)).all():
        raise ValueError("epsilon_1 and epsilon_2 must be above 0, and their sum below the gap")
    with np.errstate(all="ignore"):
        return _klms_pulls(mean, best, gap, when, e1, e2, form)[()]


def _splits(gap: float) -> tuple[Array, Array]:
    """A grid of ε_1 and ε_2 in columns, with ε_1 + ε_2 < Δ."""
    first, second = np.meshgrid(_SHARES, _SHARES)
    inside = first + second < 1.0 - 1e-7
    return gap * first[inside][:, None], gap * second[inside][:, None]


def _best_pulls(row: Array, when: Horizons, form: Lemma) -> Array:
    """The lemma for each arm of one instance at its best ε_1, ε_2; infinite for the best arms."""
    best = row.max()
    pulls = np.full((len(row), len(when.log)), np.inf)
    for mean in np.unique(row[row < best]):
        if best == 1.0:
            # The limit ε_2 → 0, ε_1 → Δ: until its first reward below 1, and never after.
            pulls[row == mean] = 1.0 / (1.0 - mean) if form == "sharp" else 1.0 - 1.0 / np.log(mean)
            continue
        e1, e2 = _splits(best - mean)
        found = _klms_pulls(mean, best, best - mean, when, e1, e2, form)
        pulls[row == mean] = np.fmin.reduce(found, axis=0)
    return pulls


def arm_pull_lemma(means: Any, horizon: Any, form: Lemma = "printed") -> Any:
    """KL-MS: the regret that `arm_pulls` allows, at the best ε_1 and ε_2 of each arm.

    The best on a fixed grid: within a few per cent of the infimum, and rising with T.
    """
    return over_instances(
        means,
        horizon,
        lambda row, when: regret_from_pulls(
            gaps_of(row), _best_pulls(row, when, form), when.rounds
        ),
    )


# --------------------------------------------------------------------------------------------------
# Theorem 1 and what follows from it


def theorem_1(
    means: Any,
    horizon: Any,
    delta: float | None = None,
    c: float | None = None,
    form: Theorem = "repaired",
) -> Any:
    """KL-MS, Theorem 1: TΔ + Σ_{Δ_a>Δ} Δ_a [ln(T k_c ∨ e²)/k_c + B (v+Δ_a)/Δ_a² L_c].

    k_c = kl(μ_a+cΔ_a, μ_1−cΔ_a), L_c = ln((X ∧ T/X) ∨ e²), X = (v+Δ_a)/(c²Δ_a²), for any Δ ≥ 0 and
    0 < c ≤ 1/4; what is not given is chosen as well as can be. B is `remainder_constant`. The
    printed theorem has B = 392/c², far above what its proof needs; its proof ends with "then we
    pick c = 1/4", although nothing before uses it and the asymptotic theorem needs c → 0.
    """
    if c is not None and not 0.0 < c <= 0.25:
        raise ValueError(f"c must be in (0, 1/4], not {c!r}")
    if delta is not None and not 0.0 <= delta < math.inf:
        raise ValueError(f"delta must be a gap of 0 or more, not {delta!r}")
    remainder_constant(0.25, form)

    def regret(row: Array, when: Horizons) -> Array:
        gaps = np.sort(gaps_of(row))[::-1]
        best = row.max()
        tried = (_CS if c is None else np.array([c]))[:, None]
        borders = [delta] if delta is not None else [*np.unique(gaps[gaps > 0.0]).tolist(), 0.0]
        total = np.zeros((len(tried), len(when.log)))
        least = np.full(len(when.log), np.inf)
        arm = 0
        for border in sorted(borders, reverse=True):
            while arm < len(gaps) and gaps[arm] > border:
                total = total + gaps[arm] * _theorem_pulls(best, gaps[arm], when, tried, form)
                arm += 1
            near = when.rounds * border if border > 0.0 else 0.0
            least = np.minimum(least, near + total.min(axis=0))
        return least

    return over_instances(means, horizon, regret)


def _theorem_pulls(best: float, gap: float, when: Horizons, c: Array, form: Theorem) -> Array:
    mean, spread = best - gap, best * (1.0 - best) + gap
    e = c * gap
    k = divergences(mean, best, gap, e, e)[0]
    log_x = np.log(spread) - 2.0 * np.log(e)
    logs = np.maximum(np.minimum(log_x, when.log - log_x), 2.0)
    rest: Array = remainder_constant(c, form) * (spread / gap) / gap * logs
    return _log_over(when.log, k, 2.0) + rest


def sub_ucb(means: Any, horizon: Any) -> Any:
    """KL-MS: Σ [8 max(ln T, 2) + 132.5 max(½ ln T, 2)]/Δ_a, for T ≥ e² at most 140.5 Σ ln T/Δ_a.

    Theorem 2 with its constant. From the repaired Theorem 1 at Δ = 0, c = 1/4: v + Δ_a ≤ 1 because
    Δ_a ≤ μ_1, 1/k_c ≤ 8(v+Δ_a)/Δ_a², and X ∧ T/X ≤ √T. With the printed constant 140.5 is 6280.
    """

    def regret(row: Array, when: Horizons) -> Array:
        gaps = gaps_of(row)
        factor = 8.0 * np.maximum(when.log, 2.0) + 132.5 * np.maximum(0.5 * when.log, 2.0)
        return math.fsum((1.0 / gaps[gaps > 0.0]).tolist()) * factor

    return over_instances(means, horizon, regret)


def worst_case_constants(arms: Any) -> tuple[Any, Any]:
    """(A, B) of `worst_case`: A = min over x of x + 140.5(1−1/K) ln(Kx²/8 ∨ e²)/x, B = 140.5(K−1).

    A is below 41√(ln K) for every K ≥ 2, and tends to 23.8√(ln K).
    """
    k = checked_arms(arms)
    return _split_constant(140.5 * (1.0 - 1.0 / k), k / 8.0), (140.5 * (k - 1.0))[()]


def _split_constant(factor: Array, scale: Array) -> Any:
    """min over x of x + factor·ln(scale·x² ∨ e²)/x."""
    x = _SPLITS
    tail = np.maximum(np.log(scale[..., None] * x * x), 2.0) / x
    return (x + factor[..., None] * tail).min(axis=-1)[()]


def worst_case(best: Any, arms: Any, horizon: Any) -> Any:
    """KL-MS: A√(μ_1(1−μ_1) K T) + B max(ln T, 2) for every instance whose best mean is `best`.

    Theorem 3, O(√(v K T ln K) + K ln T), with `worst_case_constants`. From the repaired Theorem 1
    at c = 1/4: (v+Δ_a)/Δ_a = v/Δ_a + 1; the first part, v/Δ_a·ln(TΔ_a²/(8v) ∨ e²), falls with Δ_a
    and is at most its value at Δ = x√(v K/T) or TΔ for the arms below; the second is at most
    ln T ∨ 2; x is free. v = 0, where the printed proof divides by Δ = 0, leaves the second alone.
    """
    best = checked_share("best", best)
    when = checked_horizons(horizon)
    root, linear = worst_case_constants(arms)
    spread = best * (1.0 - best)
    adaptive = root * np.sqrt(spread * checked_arms(arms)) * np.sqrt(when.rounds)
    return (np.where(spread > 0.0, adaptive, 0.0) + linear * np.maximum(when.log, 2.0))[()]


# --------------------------------------------------------------------------------------------------
# Maillard sampling for sub-Gaussian rewards


def ms_arm_pulls(gap: Any, horizon: Any, epsilon_1: Any, epsilon_2: Any, sigma: float = 0.5) -> Any:
    """MS: a bound on E N_a for σ²-sub-Gaussian rewards; σ = 1/2 does for all rewards in [0, 1].

    The proof of KL-MS with (a−b)²/(2σ²) for kl: there the integral of Lemma "bound-F3" is exact,
    and G = H = σ²/ε_2², d = ε_2²/(2σ²). The paper sketches this argument (its Appendix "Improved
    minimax analysis of the sub-Gaussian MS") without constants.
    """
    gap, e1, e2 = (np.asarray(x, dtype=np.float64) for x in (gap, epsilon_1, epsilon_2))
    when = checked_horizons(horizon)
    if not ((e1 > 0.0) & (e2 > 0.0) & (e1 + e2 < gap)).all():
        raise ValueError("epsilon_1 and epsilon_2 must be above 0, and their sum below the gap")
    if not 0.0 < sigma < math.inf:
        raise ValueError(f"sigma must be above 0, not {sigma!r}")
    with np.errstate(all="ignore"):
        return _ms_pulls(gap, when, e1, e2, sigma)[()]


def _ms_pulls(gap: Array, when: Horizons, e1: Array, e2: Array, sigma: float) -> Array:
    k = 0.5 * ((gap - e1 - e2) / sigma) ** 2
    h, d = (sigma / e2) ** 2, 0.5 * (e2 / sigma) ** 2
    start = 1.0 + _log_over(when.log, k, 0.0) + 1.0 / k + 1.0 / np.expm1(0.5 * (e1 / sigma) ** 2)
    return start + _deviations(h, h, d, when)


def ms(means: Any, horizon: Any) -> Any:
    """MS with σ = 1/2: the regret that `ms_arm_pulls` allows, at the best ε_1 and ε_2 of each arm.

    Its slope in ln T is Σ 1/(2Δ_a), never below C(μ) = Σ Δ_a/kl(μ_a, μ_1).
    """

    def regret(row: Array, when: Horizons) -> Array:
        gaps = gaps_of(row)
        pulls = np.full((len(row), len(when.log)), np.inf)
        for gap in np.unique(gaps[gaps > 0.0]):
            found = _ms_pulls(gap, when, *_splits(gap), 0.5)
            pulls[gaps == gap] = np.fmin.reduce(found, axis=0)
        return regret_from_pulls(gaps, pulls, when.rounds)

    return over_instances(means, horizon, regret)


def ms_worst_case(arms: Any, horizon: Any) -> Any:
    """MS with σ = 1/2: √(KT) min over x of x + 31.5(1−1/K) ln(Kx²/2 ∨ e²)/x, of order √(KT ln K).

    `ms_arm_pulls` at ε_1 = ε_2 = Δ/4 is at most 31.5 L/Δ², L = ln(TΔ²/2 ∨ e²) ≥ 2: term by term
    1 ≤ L/(2Δ²), ln₊(Tk)/k ≤ 2L/Δ², 1/k ≤ L/Δ², F2 ≤ 4L/Δ², F3 ≤ 4HL + 2/d ≤ (16+8)L/Δ². Times Δ
    that falls with Δ; Δ = x√(K/T), x is free. Bian and Jun 2022 proved √(KT ln T).
    """
    k, when = checked_arms(arms), checked_horizons(horizon)
    return (_split_constant(31.5 * (1.0 - 1.0 / k), k / 2.0) * np.sqrt(k * when.rounds))[()]


def ms_slope(means: Any) -> Any:
    """Σ 1/(2Δ_a): limsup of MS's regret over ln T for σ = 1/2 is at most this."""
    gaps = gaps_of(checked_means(means))
    with np.errstate(all="ignore"):
        return np.where(gaps > 0.0, 0.5 / gaps, 0.0).sum(axis=-1)[()]
