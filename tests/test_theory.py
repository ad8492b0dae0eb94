"""Bounds against another evaluation of their formulas, their limits, and simulated regret.

The formulas stand here once more, in 50 digits and from the papers, with no line in common with the
code: first for numbers, then for what is claimed of them.
"""

import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf
from scipy.optimize import linprog

import maillard as mb
from maillard import theory
from maillard.theory.instances import kl, kl_step
from maillard.theory.known import THEORIES

mpmath.mp.dps = 50

#: (mean, best) of pairs of arms, edges among them.
PAIRS = [
    (0.8, 0.9), (0.1, 0.2), (0.5, 0.5625), (0.0, 0.25), (0.25, 1.0), (0.0, 1.0),
    (0.02, 0.03), (0.97, 0.98), (0.4999999, 0.5), (0.001, 0.999),
]  # fmt: skip
HORIZONS = [1, 2, 7, 100, 10_000, 10**7, 1e20, 1e80, 1e300]
SHARES = [(0.25, 0.25), (0.01, 0.3), (0.6, 0.05), (0.001, 0.9)]


# --------------------------------------------------------------------------------------------------
# The formulas again


def exact_kl(a: Any, b: Any) -> Any:
    a, b = mpf(a), mpf(b)
    if a == b:
        return mpf(0)
    if (b == 0 and a > 0) or (b == 1 and a < 1):
        return mpmath.inf
    first = a * mpmath.log(a / b) if a > 0 else mpf(0)
    return first + ((1 - a) * mpmath.log((1 - a) / (1 - b)) if a < 1 else mpf(0))


def over(number: Any, d: Any) -> Any:
    return mpf(0) if d == mpmath.inf else number / d


def e2(x: Any) -> Any:
    """ln(x ∨ e²)."""
    return mpmath.log(max(x, mpmath.e**2))


def lemma(mean: float, best: float, t: Any, s1: float, s2: float) -> Any:
    """The paper's bound on E N_a, equation by equation."""
    mu, top, t, s1, s2 = (mpf(x) for x in (mean, best, t, s1, s2))
    k = exact_kl(mu + s1, top - s2)
    value = 1 + e2(t * k) / k + 1 / k + over(1, exact_kl(mu + s1, mu))
    if top < 1:
        h = mpmath.log((1 - top + s2) * top / ((1 - top) * (top - s2)))
        big = 1 / ((1 - top + s2) * (top - s2) * h**2)
        value += 6 * big * e2(min(t / big, big)) + 4 / exact_kl(top - s2, top)
    return value


def sharp_lemma(mean: float, best: float, t: Any, s1: float, s2: float) -> Any:
    mu, top, t, s1, s2 = (mpf(x) for x in (mean, best, t, s1, s2))
    k = exact_kl(mu + s1, top - s2)
    value = 1 + max(mpmath.log(t * k), 0) / k + 1 / k
    own = exact_kl(mu + s1, mu)
    value += 0 if own == mpmath.inf else 1 / mpmath.expm1(own)
    if top == 1:
        return value
    d = exact_kl(top - s2, top)
    h = mpmath.log((1 - top + s2) * top / ((1 - top) * (top - s2)))
    big = 1 / ((1 - top + s2) * (top - s2) * h**2)
    return value + deviations(big, (2 - top + s2) * big, d, t)


def deviations(big: Any, g: Any, d: Any, t: Any) -> Any:
    whole = -g * mpmath.log(1 - mpmath.exp(-d)) + 1 / mpmath.expm1(d)
    m = mpmath.floor(big)
    split = mpmath.inf
    if m <= t:
        split = 2 * m * (mpmath.log(t / m) + 2) if m > 0 else mpf(0)
        split += (g / (m + 1) * mpmath.exp(-m * d) + 1) / mpmath.expm1(d)
    return min(whole, split, t)


def sharp_gaussian(gap: float, t: Any, s1: float, s2: float, sigma: float) -> Any:
    gap, t, s1, s2, sigma = (mpf(x) for x in (gap, t, s1, s2, sigma))
    k = (gap - s1 - s2) ** 2 / (2 * sigma**2)
    value = 1 + max(mpmath.log(t * k), 0) / k + 1 / k
    value += 1 / mpmath.expm1(s1**2 / (2 * sigma**2))
    big = sigma**2 / s2**2
    return value + deviations(big, big, s2**2 / (2 * sigma**2), t)


def constant(c: Any, form: str) -> Any:
    c = mpf(c)
    return {
        "printed": 392 / c**2,
        "sketch": (34 / c**2 + 4 / (1 - 2 * c) ** 2) / c**2,
        "appendix": 24 / c**2 + 4 / (1 - 2 * c) ** 2,
        "repaired": 8 / c**2 + 1 / (1 - 2 * c) ** 2 + mpf(1) / 2,
    }[form]


def theorem(means: Any, t: Any, delta: float, c: float, form: str) -> Any:
    top, t, v = mpf(max(means)), mpf(t), mpf(max(means)) * (1 - mpf(max(means)))
    total = t * mpf(delta)
    for mean in means:
        gap = mpf(float(np.float64(max(means)) - mean))
        if gap > delta:
            mu = top - gap
            k = exact_kl(mu + mpf(c) * gap, top - mpf(c) * gap)
            x = (v + gap) / (mpf(c) ** 2 * gap**2)
            total += gap * e2(t * k) / k
            total += constant(c, form) * (v + gap) / gap * e2(min(x, t / x))
    return total


def near(found: Any, expected: Any, relative: float = 1e-12) -> bool:
    if mpmath.isinf(expected) or abs(expected) > mpf(10) ** 308:
        return math.isinf(found)
    return abs(mpf(float(found)) - expected) <= relative * abs(expected)


# --------------------------------------------------------------------------------------------------
# Numbers


@pytest.mark.parametrize(("mean", "best"), PAIRS)
def test_divergence(mean: float, best: float) -> None:
    assert near(kl(mean, best), exact_kl(mean, best), 1e-13)
    assert near(kl(best, mean), exact_kl(best, mean), 1e-13)
    assert float(kl(mean, best)) == pytest.approx(float(mb.divergence.kl(mean, best)), rel=1e-13)
    step = 1e-9
    expected = exact_kl(mean, mpf(mean) + mpf(step))
    found = kl_step(mean, 1.0 - mean, mean + step, (1.0 - mean) - step, step)
    assert near(found, expected, 1e-13)


@pytest.mark.parametrize("other", [1e-300, 1e-10, 1 - 1e-15, 1 - 2.0**-53])
def test_divergence_of_means_that_are_nearly_certain(other: float) -> None:
    for mean in (2e-300, 1e-12, 0.3, 0.5, 1 - 1e-12):
        best, worse = max(mean, other), min(mean, other)
        with mpmath.workdps(700):  # 1 − 10^−300 has as many digits
            up, down = +exact_kl(worse, best), +exact_kl(best, worse)
            constant = (mpf(best) - mpf(worse)) / up
        assert near(kl(worse, best), up, 1e-13)
        assert near(kl(best, worse), down, 1e-13)
        assert near(theory.lai_robbins([mean, other]), constant, 1e-13)


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("share", SHARES)
def test_arm_pull_lemmas(horizon: Any, share: tuple[float, float]) -> None:
    for mean, best in PAIRS:
        gap = best - mean
        s1, s2 = gap * share[0], gap * share[1]
        found = theory.arm_pulls(mean, best, horizon, s1, s2)
        assert near(found, lemma(mean, best, horizon, s1, s2)), (mean, best)
        found = theory.arm_pulls(mean, best, horizon, s1, s2, form="sharp")
        assert near(found, sharp_lemma(mean, best, horizon, s1, s2)), (mean, best)
        found = theory.ms_arm_pulls(gap, horizon, s1, s2, sigma=0.5)
        assert near(found, sharp_gaussian(gap, horizon, s1, s2, 0.5)), (mean, best)


@pytest.mark.parametrize("form", ["printed", "sketch", "appendix", "repaired"])
@pytest.mark.parametrize("means", [(0.8, 0.9), (0.1, 0.15, 0.2), (0.0, 0.5, 1.0), (0.5, 0.5)])
def test_theorem_1(form: Any, means: tuple[float, ...]) -> None:
    for horizon, delta, c in itertools.product(HORIZONS, (0.0, 0.07), (0.25, 0.1, 0.003)):
        found = theory.theorem_1(means, horizon, delta=delta, c=c, form=form)
        assert near(found, theorem(means, horizon, delta, c, form))
        assert theory.theorem_1(means, horizon, form=form) <= found * (1 + 1e-12)


@pytest.mark.parametrize(("best", "e2_"), [(0.9, 0.05), (0.5, 0.1), (0.1, 0.06), (0.999, 0.2)])
def test_the_step_behind_the_sharp_lemma(best: float, e2_: float) -> None:
    """E[1{best arm's mean of n ≤ x} e^{n kl(mean, x)}] ≤ ((2−x)H/n + 1) e^{−nd}, exactly, n by n.

    The left side as a sum over the binomial law; rewards 0 and 1 spread most.
    """
    top, x = mpf(best), mpf(best) - mpf(e2_)
    d = exact_kl(x, top)
    h = mpmath.log((1 - x) * top / ((1 - top) * x))
    g = (2 - x) / (x * (1 - x) * h**2)
    for n in (1, 2, 3, 5, 10, 30, 100, 400):
        left = mpf(0)
        for s in range(int(mpmath.floor(n * x)) + 1):
            law = mpmath.binomial(n, s) * top**s * (1 - top) ** (n - s)
            left += law * mpmath.exp(n * exact_kl(mpf(s) / n, x))
        assert left <= (g / n + 1) * mpmath.exp(-n * d)


def test_constants_side_by_side() -> None:
    at = {f: float(theory.remainder_constant(0.25, f)) for f in ("printed", "sketch", "appendix")}
    assert at == {"printed": 6272.0, "sketch": 8960.0, "appendix": 400.0}
    assert theory.remainder_constant(0.25) == 132.5
    c = np.geomspace(1e-6, 0.25, 500)
    repaired, appendix = theory.remainder_constant(c), theory.remainder_constant(c, "appendix")
    assert (repaired < appendix).all()
    assert (appendix < theory.remainder_constant(c, "printed")).all()
    assert (appendix < theory.remainder_constant(c, "sketch")).all()


def test_kl_ucb_and_its_relatives() -> None:
    two_thirds = 1.0 / 3.0
    for (mean, best), horizon, (a, b) in itertools.product(PAIRS, HORIZONS, SHARES):
        gap = best - mean
        s1, s2 = gap * a, gap * b
        mu, top, t = mpf(mean), mpf(best), mpf(horizon)
        k = exact_kl(mu + mpf(s1), top - mpf(s2))
        own, d = exact_kl(mu + mpf(s1), mu), exact_kl(top - mpf(s2), top)
        f = mpmath.log(1 + t * mpmath.log(t) ** 2)
        printed = f / k + over(1, own) + over(2, d)
        assert near(theory.kl_ucb_arm_pulls(mean, best, horizon, s1, s2, "printed"), printed)
        late = 0 if d == mpmath.inf else mpf("2.492") / mpmath.expm1(d)
        repaired = 1 + f / k + (0 if own == mpmath.inf else 1 / mpmath.expm1(own)) + late
        assert near(theory.kl_ucb_arm_pulls(mean, best, horizon, s1, s2), repaired)
        delta = gap * two_thirds
        low = 88 * 3 / t + mpmath.sqrt(88 * top * (1 - top) * 3 / t)
        if mpf(delta) >= low * (1 + mpf("1e-12")):
            delta = min(delta, gap / 3.0)
            x = t / 3
            level = mpmath.log(x * (1 + mpmath.log(x) ** 2))
            expected = 1 + over((16 * mpmath.e**2 + 1) * 3, exact_kl(top - mpf(delta), top))
            expected += level / exact_kl(mu + mpf(delta), top - mpf(delta))
            expected += over(1, exact_kl(mu + mpf(delta), mu))
            found = theory.kl_ucb_plus_plus_arm_pulls(mean, best, 3, horizon, delta)
            assert near(found, expected)


def test_sum_of_inverse_f() -> None:
    """c_f: a partial sum and, for the rest, the integral of a falling function: 2.49188…"""
    t = np.arange(1, 2_000_001, dtype=np.float64)
    head = math.fsum((1.0 / (1.0 + t * np.log(t) ** 2)).tolist())
    log = math.log(2e6)
    assert head + 1.0 / log < 2.492  # ∫ dx/(x ln² x) is more than the tail
    assert head + 1.0 / log > 2.4917


@pytest.mark.parametrize("zeta", [1.0, 1.2, 2.5])
def test_ucb_v(zeta: float) -> None:
    cases = itertools.product((0.01, 1.0), (0.0, 0.25), (1, 7, 300, 10**4, 1e20, 1e300))
    for gap, variance, horizon in cases:
        t, g, v = mpf(horizon), mpf(gap), mpf(variance)
        u = 8 * mpf(zeta) * mpmath.log(t) * (v / g**2 + 2 / g)
        value = 1 + u + t ** (1 - mpf(zeta)) * (24 * v / g**2 + 4 / g)
        if 0 < u < t:
            best = mpmath.inf
            for alpha in (1.0 + np.geomspace(1e-3, 2.0, 400)).tolist():
                q = 1 - mpf(zeta) / mpf(alpha)

                def rise(x: Any, q: Any = q) -> Any:  # ∫ ln x · x^{q−1} dx
                    log = mpmath.log(x)
                    return log**2 / 2 if q == 0 else x**q * (log / q - 1 / q**2)

                best = min(best, 3 / mpmath.log(mpf(alpha)) * (rise(t) - rise(u)))
            value += best
        found = theory.ucb_v_arm_pulls(gap, variance, horizon, zeta=zeta)
        assert near(found, value, 1e-11), (gap, variance, horizon)


def test_ucb_v_sums_more_than_beta() -> None:
    """The integral is above Σ β(ζ ln t, t) itself, β(x, t) = 3 inf (ln t/ln α ∧ t) e^{−x/α}."""
    zeta, horizon, gap = 1.2, 2000, 0.5
    u = 8 * zeta * math.log(horizon) * 2 / gap
    alpha = np.linspace(1.0001, 3.0, 1000)
    t = np.arange(math.floor(u) + 1, horizon + 1)[:, None]
    terms = np.minimum(np.log(t) / np.log(alpha), t) * np.exp(-zeta * np.log(t) / alpha)
    rest = 1 + u + horizon ** (1 - zeta) * 4 / gap
    assert theory.ucb_v_arm_pulls(gap, 0.0, horizon, zeta) - rest >= 3 * terms.min(axis=1).sum()


def test_closed_forms() -> None:
    means, t = (0.3, 0.5, 0.1), mpf(10) ** 6
    gaps = [mpf(0.5 - m) for m in (0.3, 0.1)]
    log = mpmath.log(t)
    expected = sum(8 * log / g + (1 + mpmath.pi**2 / 3) * g for g in gaps)
    assert near(theory.ucb1(means, 10**6), expected)
    root = mpmath.sqrt(32 * 2 * t * log) + 2 * (1 + mpmath.pi**2 / 3)
    assert near(theory.ucb1_worst_case(3, 10**6), root)
    v = [mpf(m) * (1 - mpf(m)) for m in (0.3, 0.1)]
    published = 10 * sum(x / g + 2 for x, g in zip(v, gaps)) * log
    assert near(theory.ucb_v_published(means, 10**6), published)
    assert near(theory.moss(means, 10**6), 39 * mpmath.sqrt(3 * t) / 2 + sum(gaps))
    assert near(theory.kl_ucb_plus_plus_worst_case(3, 10**6), 76 * mpmath.sqrt(3 * t / 4) + 3)
    assert near(theory.kl_ucb_switch_worst_case(3, 10**6), 2 + 23 * mpmath.sqrt(3 * t))
    assert near(theory.thompson_bayesian(3, 10**6), mpmath.sqrt(t * 3 * mpmath.log(3) / 2))
    g = mpf(0.9 - 0.8)
    assert near(theory.thompson((0.8, 0.9), 10**6), 40 * log / g + 48 / g**3 + 18 * g)
    g = 8 * mpmath.log(1 + t * log**2) + 1 + 32 * (1 + mpf("2.492"))
    best = mpf(0.3) * (1 - mpf(0.3))
    assert near(theory.kl_ucb_worst_case(0.3, 3, 10**6), 2 * mpmath.sqrt(best * 2 * t * g) + 2 * g)
    factor = 8 * log + mpf("132.5") * log / 2
    gaps = [mpf(0.5 - m) for m in (0.3, 0.1)]
    assert near(theory.sub_ucb(means, 10**6), factor * sum(1 / x for x in gaps))


def test_worst_cases_of_maillard_sampling() -> None:
    for arms in (2, 3, 17, 1000):

        def head(x: float, factor: float, scale: float) -> float:
            return x + factor * max(math.log(scale * x * x), 2.0) / x

        share = 1.0 - 1.0 / arms
        for found, factor, scale in (
            (theory.worst_case_constants(arms)[0], 140.5 * share, arms / 8),
            (theory.ms_worst_case(arms, 1e6) / math.sqrt(arms * 1e6), 31.5 * share, arms / 2),
        ):
            tried = np.linspace(found / 8, 1.5 * found, 3000).tolist()
            best = min(head(x, factor, scale) for x in tried)
            assert abs(found / best - 1) < 1e-3
        root, linear = theory.worst_case_constants(arms)
        expected = mpf(float(root)) * mpmath.sqrt(mpf("0.1875") * arms * 10**6)
        expected += mpf(float(linear)) * mpmath.log(10**6)
        assert near(theory.worst_case(0.25, arms, 10**6), expected)
    arms = np.unique(np.geomspace(2, 1e6, 300).astype(int))
    assert (theory.worst_case_constants(arms)[0] < 41.0 * np.sqrt(np.log(arms))).all()


# --------------------------------------------------------------------------------------------------
# Lower bounds


def test_lai_robbins() -> None:
    expected = sum((mpf("0.9") - m) / exact_kl(m, 0.9) for m in (mpf(0.8), mpf(0.3)))
    assert near(theory.lai_robbins([0.9, 0.8, 0.3]), expected)
    assert theory.lai_robbins([0.5, 0.5]) == 0.0
    assert theory.lai_robbins([0.2, 1.0]) == 0.0
    assert theory.lai_robbins([0.0, 0.0]) == 0.0
    assert near(theory.lai_robbins([0.0, 0.3]), mpf(0.3) / exact_kl(0, 0.3))
    table = theory.lai_robbins([[[0.8, 0.9], [0.1, 0.2]]])
    assert table.shape == (1, 2)
    assert table[0, 1] == theory.lai_robbins([0.1, 0.2])


def test_burnetas_katehakis() -> None:
    coins = [([0.0, 1.0], [1 - p, p]) for p in (0.8, 0.9, 0.25)]
    assert theory.burnetas_katehakis(coins) == pytest.approx(
        theory.lai_robbins([0.8, 0.9, 0.25]), rel=1e-12
    )
    # Other laws of the same means are told apart faster: K_inf ≥ kl.
    narrow = [([0.7, 0.9], [1, 1]), ([0.85, 0.95], [1, 1]), ([0.25], [1])]
    assert 0 < theory.burnetas_katehakis(narrow) < theory.lai_robbins([0.8, 0.9, 0.25])
    # K_inf of one value x: ln((1−x)/(1−μ)), all of the mass moved to 1 and below.
    certain = [([0.5], [3.0]), ([0.75], [1.0])]
    assert theory.burnetas_katehakis(certain) == pytest.approx(0.25 / math.log(2.0), rel=1e-12)
    assert theory.burnetas_katehakis([([0.5], [1]), ([1.0], [1])]) == 0.0


def test_minimax() -> None:
    for arms, horizon in ((2, 100), (2, 10**6), (10, 10**4), (50, 60), (1000, 3)):

        def regret(e: float, k: Any = arms, t: Any = horizon) -> float:
            info = 0.5 * e * (math.log1p(e) - math.log1p(-e)) * t / k
            return t * e * (1 - 1 / k - math.sqrt(info))

        best = max(regret(float(e)) for e in 1 - np.geomspace(1e-10, 1, 20_000, endpoint=False))
        best = max(best, *(regret(float(e)) for e in np.geomspace(1e-5, 0.999, 20_000)))
        assert theory.minimax(arms, horizon) == pytest.approx(best, rel=2e-3)
        assert theory.minimax(arms, horizon) <= best * (1 + 1e-6)
    # The constant: (1 − 1/K)²/4 for long horizons, which 1/20 is below from K = 2 on.
    for arms in (2, 5, 1000):
        share = float(theory.minimax(arms, 1e12) / math.sqrt(arms * 1e12))
        assert share == pytest.approx((1 - 1 / arms) ** 2 / 4, rel=1e-5)
    horizons = np.geomspace(1, 1e9, 50)
    assert (theory.minimax(2, horizons) >= theory.minimax_published(2, horizons)).all()
    assert (np.diff(theory.minimax(5, horizons)) > 0).all()


def test_finite_time_lower_bound() -> None:
    means, t, b = (0.8, 0.9), 1e9, 1e5
    best = 0.0
    for top in np.linspace(0.9000001, 0.9999, 5000).tolist():
        log = math.log(t * min(0.1, top - 0.9) / (8 * b))
        best = max(best, log / float(exact_kl(0.8, top)))
    found = theory.finite_time(means, t, b)
    assert found == pytest.approx(0.1 * best, rel=1e-2)
    assert found <= 0.1 * best * (1 + 1e-4)
    # ln T(1 − p) C in the limit, for regret T^p on all instances.
    far = 1 << 100_000_000
    log = math.log(far)
    ratio = theory.finite_time(means, 10**300, 1e3) / (theory.lai_robbins(means) * math.log(1e297))
    assert 0.97 < ratio < 1.0
    assert (
        theory.lai_robbins(means) * log
        > theory.finite_time(means, far, 1.0)
        > 0.999 * (theory.lai_robbins(means) * log)
    )
    assert theory.finite_time([0.2, 1.0], 1e6, 1.0) == 0.0
    assert theory.finite_time([0.5, 0.5], 1e6, 1.0) == 0.0


def test_small_horizon_lower_bound() -> None:
    means = (0.8, 0.9, 0.5)
    for horizon in (1, 30, 10**5, 10**15):
        total = mpf(0)
        for mean in (0.8, 0.5):
            gap = mpf(float(np.float64(0.9) - mean))
            d = exact_kl(mpf(0.9) - gap, 0.9)

            low, high = mpf(-120), -mpmath.log(3)
            for _ in range(120):
                x = mpmath.exp((low + high) / 2)
                if x * horizon * d > exact_kl(x, mpf(1) / 3):
                    high = (low + high) / 2
                else:
                    low = (low + high) / 2
            total += gap * horizon * mpmath.exp(low)
        assert near(theory.small_horizon(means, horizon), total, 1e-9)
    # The first rounds cannot be better than uniform, the limit is −Δ ln(1 − 1/K)/kl.
    assert theory.small_horizon((0.5, 0.5001), 1) == pytest.approx(0.0001 / 2, rel=0.02)
    limit = -0.1 * math.log(0.5) / float(exact_kl(0.8, 0.9))
    assert theory.small_horizon((0.8, 0.9), 1e300) == pytest.approx(limit, rel=1e-9)


# --------------------------------------------------------------------------------------------------
# Regret from pulls


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(1, 50)), min_size=2, max_size=6),
    st.integers(1, 120),
)
def test_regret_from_pulls_is_the_linear_programme(
    arms: list[tuple[float, float]], rounds: int
) -> None:
    gaps = np.array([gap for gap, _ in arms])
    gaps[0] = 0.0
    caps = np.array([cap for _, cap in arms])
    caps[0] = math.inf
    found = float(theory.regret_from_pulls(gaps, caps[:, None], np.array([float(rounds)]))[0])
    if rounds <= len(gaps):
        assert found == pytest.approx(np.sort(gaps)[::-1][:rounds].sum(), abs=1e-9)
    else:
        pulls = linprog(
            -gaps,
            A_eq=[np.ones(len(gaps))],
            b_eq=[rounds],
            bounds=[(1, None if math.isinf(cap) else cap) for cap in caps],
        )
        assert found == pytest.approx(-pulls.fun, abs=1e-6)
    # Never above the paper's TΔ + Σ_{Δ_a>Δ} Δ_a E N_a.
    for delta in [0.0, *gaps.tolist()]:
        over_it = sum(g * c for g, c in zip(gaps, caps) if g > delta)
        assert found <= rounds * delta + over_it + 1e-9


# --------------------------------------------------------------------------------------------------
# What is claimed of them

EVERY: dict[str, Callable[..., Any]] = {
    f"{slug}/{bound.name}": bound.evaluate
    for slug, known in THEORIES.items()
    for bound in known.bounds
}


@pytest.mark.parametrize("name", EVERY)
def test_edges(name: str) -> None:
    bound = EVERY[name]
    short = [1, 2, 3, 5, 1000]
    for means in ((0.0, 1.0), (0.0, 0.0), (1.0, 1.0), (0.3, 0.3), (0.0, 0.4), (0.6, 1.0)):
        values = bound(means, short)
        assert values.shape == (5,)
        assert not np.isnan(values).any(), means
        assert (values >= 0.0).all()
        if len(set(means)) == 1 and "worst" not in name and name != "moss/worst_case":
            assert (values == 0.0).all()


def test_no_regret_among_equal_arms() -> None:
    found = mb.bounds([0.4, 0.4, 0.4], 1000)
    assert all(found.best(slug) == 0.0 for slug in found.policies)
    assert found.asymptotic_constant == 0.0


def test_a_best_arm_that_never_fails() -> None:
    """μ_1 = 1: an arm is played until its first reward below 1, 1/(1−μ_a) times on average."""
    means = np.array([1.0, 0.5, 0.0])
    assert theory.arm_pull_lemma(means, 10**6, form="sharp") == pytest.approx(0.5 * 2 + 1)
    assert theory.kl_ucb(means, 10**6) == pytest.approx(0.5 * 2 + 1)
    printed = 0.5 * (1 + 1 / math.log(2)) + 1
    assert theory.arm_pull_lemma(means, 10**6) == pytest.approx(printed)


def test_fewer_rounds_than_arms() -> None:
    """Each arm once: at most the T largest gaps, and that is what pulling in order can cost."""
    means = [0.1, 0.2, 0.3, 0.9, 0.8]
    for horizon, expected in ((1, 0.8), (2, 1.5), (3, 2.1), (4, 2.2), (5, 2.2)):
        found = mb.bounds(means, horizon, ["kl-ms", "ms", "kl-ucb", "moss", "ucb1"])
        assert all(found.best(slug) == pytest.approx(expected) for slug in found.policies)


@pytest.mark.parametrize("name", [n for n in EVERY if not n.startswith("kl-ucb++/arm")])
def test_bounds_rise_with_the_horizon(name: str) -> None:
    horizons = np.concatenate([np.arange(1.0, 12.0), np.geomspace(12, 1e300, 90)])
    for means in ((0.8, 0.9), (0.1, 0.15, 0.5), (0.0, 0.01), (0.9, 0.999)):
        if name.startswith("thompson") and len(means) > 2:
            continue
        values = EVERY[name](means, horizons)
        assert (np.diff(values) >= -1e-12 * values[1:]).all(), means


@settings(max_examples=25)
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=4),
    st.integers(1, 10**12),
    st.randoms(use_true_random=False),
)
def test_properties(means: list[float], horizon: int, random: Any) -> None:
    shuffled = means.copy()
    random.shuffle(shuffled)
    gap = max(means) - min(means)
    for name, bound in EVERY.items():
        value = float(bound(means, horizon))
        assert value >= 0.0
        assert not math.isnan(value)
        assert float(bound(shuffled, horizon)) == pytest.approx(value, rel=1e-12), name
    for form in ("printed", "sharp"):
        regret = theory.arm_pull_lemma(means, horizon, form=form)
        assert regret <= theory.trivial(means, horizon) * (1 + 1e-12)
    assert theory.trivial(means, horizon) <= horizon * gap * (1 + 1e-12)
    sharp = theory.arm_pull_lemma(means, horizon, form="sharp")
    assert sharp <= theory.arm_pull_lemma(means, horizon) * (1 + 1e-12)
    assert theory.theorem_1(means, horizon) <= theory.theorem_1(means, horizon, form="printed")


@given(
    st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 0.999), st.floats(0.001, 0.999),
    st.floats(0, 25),
)  # fmt: skip
def test_the_sharp_lemma_is_never_above_the_printed(
    a: float, b: float, first: float, second: float, decades: float
) -> None:
    """For every ε_1, ε_2 and T."""
    mean, best = sorted((a, b))
    gap = best - mean
    if gap < 1e-6:
        return
    e1 = gap * first * 0.999
    e2_ = (gap - e1) * second
    horizon = 10.0**decades
    sharp = theory.arm_pulls(mean, best, horizon, e1, e2_, form="sharp")
    printed = theory.arm_pulls(mean, best, horizon, e1, e2_)
    assert sharp <= printed * (1 + 1e-9)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 0.25), st.floats(0, 25))
def test_theorem_1_follows_from_the_lemma(a: float, b: float, c: float, decades: float) -> None:
    """The repaired constant: the sharp lemma at ε_1 = ε_2 = cΔ is below the theorem, arm by arm."""
    mean, best = sorted((a, b))
    gap, horizon = best - mean, 10.0**decades
    if gap < 1e-6:
        return
    lemma_value = theory.arm_pulls(mean, best, horizon, c * gap, c * gap, form="sharp")
    bound = theory.theorem_1([mean, best], horizon, delta=0.0, c=c) / gap
    assert min(lemma_value, horizon) <= bound * (1 + 1e-9)


@given(st.floats(1e-6, 1), st.floats(0, 25))
def test_worst_case_of_ms_follows_from_its_lemma(gap: float, decades: float) -> None:
    """Its constant, 31.5, at ε_1 = ε_2 = Δ/4."""
    horizon = 10.0**decades
    found = theory.ms_arm_pulls(gap, horizon, gap / 4, gap / 4)
    assert min(found, horizon) <= 31.5 / gap**2 * float(e2(horizon * gap**2 / 2)) * (1 + 1e-9)


def test_asymptotics() -> None:
    """Over ln T the bounds tend to their slopes: within a few per cent at T = 2^100,000,000."""
    far = 1 << 100_000_000
    log = math.log(far)
    for means in ((0.8, 0.9), (0.1, 0.3, 0.35), (0.02, 0.05)):
        optimal = theory.lai_robbins(means) * log
        for found in (
            theory.theorem_1(means, far),
            theory.theorem_1(means, far, form="printed"),
            theory.arm_pull_lemma(means, far),
            theory.arm_pull_lemma(means, far, form="sharp"),
            theory.kl_ucb(means, far),
            theory.kl_ucb_plus_plus(means, far),
        ):
            assert optimal < found
        assert theory.arm_pull_lemma(means, far, form="sharp") < 1.03 * optimal
        assert theory.arm_pull_lemma(means, far) < 1.04 * optimal
        assert theory.theorem_1(means, far) < 1.06 * optimal
        assert theory.kl_ucb(means, far) < 1.03 * optimal
        assert theory.kl_ucb_plus_plus(means, far) < 1.09 * optimal
        slope = theory.ms_slope(means) * log
        assert slope < theory.ms(means, far) < 1.03 * slope
    ratios = [
        theory.arm_pull_lemma((0.8, 0.9), 10**p, form="sharp")
        / (theory.lai_robbins((0.8, 0.9)) * math.log(10**p))
        for p in (10, 100, 1000, 10_000, 100_000)
    ]
    assert all(a > b for a, b in itertools.pairwise(ratios))


def test_worst_case_adapts_to_the_best_mean() -> None:
    """As μ_1 → 0 or 1 the √T part goes like √(μ_1(1−μ_1)) and leaves K ln T."""
    for bound in (theory.worst_case, theory.kl_ucb_worst_case, theory.ucb_v_worst_case):
        linear = bound(0.0, 10, 1e8)
        assert bound(1.0, 10, 1e8) == linear
        for tiny in (1e-2, 1e-4, 1e-6):
            low, high, middle = (bound(p, 10, 1e8) - linear for p in (tiny, 1 - tiny, 0.5))
            assert low == pytest.approx(high, rel=1e-6)
            assert low / middle == pytest.approx(2 * math.sqrt(tiny * (1 - tiny)), rel=1e-6)


def test_worst_cases_cover_instances() -> None:
    """Each is above its own bound for single instances, whatever their gaps."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        arms = int(rng.integers(2, 8))
        best = float(rng.uniform(0.01, 1.0))
        means = [best, *(best * (1 - rng.uniform(0, 1, arms - 1) ** 4)).tolist()]
        horizon = float(10 ** rng.uniform(2, 12))
        if max(means) - min(means) == 0.0:
            continue
        regret = theory.theorem_1(means, horizon)
        assert regret <= theory.worst_case(best, arms, horizon)
        assert regret <= max(theory.sub_ucb(means, horizon), regret if horizon < 8 else 0.0)
        assert theory.kl_ucb(means, horizon) <= theory.kl_ucb_worst_case(best, arms, horizon)
        assert theory.ucb_v(means, horizon) <= theory.ucb_v_worst_case(best, arms, horizon)
        assert theory.ms(means, horizon) <= theory.ms_worst_case(arms, horizon)


def test_vectorised_over_instances_and_horizons() -> None:
    instances = [[0.8, 0.9], [0.1, 0.2], [0.8, 0.9]]
    for name, bound in EVERY.items():
        if "worst_case" in name and "moss" not in name:
            continue
        table = bound(np.array(instances)[:, None, :], [100, 10_000])
        assert table.shape == (3, 2)
        for i, j in itertools.product(range(3), range(2)):
            assert table[i, j] == bound(instances[i], [100, 10_000][j])
    assert theory.worst_case([0.1, 0.5], 3, [[10], [100]]).shape == (2, 2)
    assert isinstance(float(theory.ucb1([0.1, 0.2], 10)), float)


# --------------------------------------------------------------------------------------------------
# Against simulation


@pytest.mark.slow
@pytest.mark.parametrize(
    "means",
    [(0.8, 0.9), (0.02, 0.05), (0.5, 0.45, 0.4, 0.35), (0.9, 0.999), (0.0, 0.5, 1.0),
     (0.5, 0.5, 0.2)],
)  # fmt: skip
def test_bounds_hold_in_simulation(means: tuple[float, ...]) -> None:
    """Bound ≥ mean regret − 6 standard errors; fixed seed, false alarm below 1e-8 by Chebyshev-free
    normal tails, and in truth never: the bounds are several times the regret."""
    for horizon in (10, 300, 5000):
        found = mb.bounds(means, horizon, simulate=256, seed=3)
        for slug, known in THEORIES.items():
            runs = found.simulated[slug]
            for value in [*found[slug].values(), found.best(slug)]:
                assert runs.regret[-1] - 6 * runs.error[-1] <= value + 1e-9, (slug, horizon)
            if not known.tuned:
                values = found.curve(slug, runs.rounds.astype(float))
                assert (runs.regret - 6 * runs.error <= values + 1e-9).all(), (slug, horizon)


def test_what_is_simulated_is_what_the_bounds_are_about() -> None:
    """KL-UCB-switch without a horizon would be another policy, with another bound."""
    for slug, known in THEORIES.items():
        name, parameters = known.made(700)
        policy = mb.policy(name, arms=2, **parameters)
        assert policy.slug == slug
        assert policy.parameters.get("horizon") == (700 if known.tuned else None)


@pytest.mark.slow
def test_rewards_that_are_not_0_and_1() -> None:
    """The bounds are for every law on [0, 1]: Beta and certain rewards too."""
    worlds = [mb.Beta([2.0, 3.0], [2.0, 2.0]), mb.Deterministic([0.4, 0.5, 0.1])]
    for world in worlds:
        result = mb.simulate(
            ["kl-ms", "ms", "kl-ucb", "ucb1"], world, 2000, 128, 1, checkpoints=[20, 200, 2000],
            progress=False,
        )  # fmt: skip
        for slug, curve in zip(("kl-ms", "ms", "kl-ucb", "ucb1"), result.curves.values()):
            found = mb.bounds(world.means, [20, 200, 2000], slug)
            assert (curve.regret - 6 * curve.error <= found.best(slug) + 1e-9).all()


@pytest.mark.slow
def test_constants_agree_with_the_environments() -> None:
    coins = mb.Bernoulli([0.8, 0.9, 0.2])
    assert theory.lai_robbins(coins.means) == pytest.approx(coins.asymptotic_constant())
    values, weights = [0.0, 0.3, 1.0], [[0.2, 0.5, 0.3], [0.3, 0.3, 0.4]]
    found = theory.burnetas_katehakis([(values, w) for w in weights])
    world = mb.Categorical(values, weights)
    assert found == pytest.approx(world.asymptotic_constant(), rel=1e-10)


@pytest.mark.slow
def test_minimax_policies_on_two_good_arms_among_many() -> None:
    """Lattimore's instance, T = K³: on the two good arms MOSS is MOSS tuned to 2T/K rounds.

    The regret from the second arm in a K-armed run and in this reduction are the same within their
    errors (difference below 6 of them, false alarm < 1e-8).
    """
    arms = 12
    horizon = arms**3
    means = [0.5, 0.5 - 0.5 / arms] + [0.0] * (arms - 2)
    whole = mb.simulate(["moss"], mb.Bernoulli(means), horizon, 512, 0, checkpoints=2,
                        progress=False)  # fmt: skip
    pair = mb.simulate([("moss", {"horizon": 2 * arms**2})], mb.Bernoulli(means[:2]), horizon, 512,
                       0, checkpoints=2, progress=False)  # fmt: skip
    second = next(iter(whole.curves.values())).pulls[-1][1] * 0.5 / arms
    reduced = next(iter(pair.curves.values()))
    error = float(reduced.error[-1])
    assert abs(second - float(reduced.regret[-1])) < 6 * math.sqrt(2) * error + 0.1 * second


# --------------------------------------------------------------------------------------------------
# The object, and misuse


def test_bounds_as_data() -> None:
    found = mb.bounds(means=[0.8, 0.9], horizon=10_000)
    data = found.to_dict()
    assert data["asymptotic_constant"] == pytest.approx(0.1 / float(exact_kl(0.8, 0.9)))
    assert set(data["policies"]) == set(THEORIES)
    entry = data["policies"]["kl-ms"]
    assert {"theorem_1", "arm_pull_lemma", "worst_case", "sub_ucb", "best"} <= set(entry)
    assert entry["best"] == entry["arm_pull_lemma_sharp"]
    assert entry["theorem_1"] == theory.theorem_1([0.8, 0.9], 10_000)
    many = mb.bounds([0.8, 0.9], [100, 10_000], "kl-ms").to_dict()
    assert many["policies"]["kl-ms"]["theorem_1"][1] == entry["theorem_1"]
    assert "kl-ms ≤ 189" in repr(found)
    assert repr(mb.bounds([0.8, 0.9], [1, 2], "kl-ms")) == "<Bounds at 2 horizons: kl-ms>"
    three = mb.bounds([0.8, 0.9, 0.1], 100).to_dict()
    assert three["policies"]["thompson"]["two_arms"] is None
    huge = mb.bounds([0.8, 0.9], 10**400).to_dict()
    assert huge["horizon"] == 10**400
    assert huge["policies"]["ucb1"]["worst_case"] is None
    with pytest.raises(KeyError, match="no bounds of 'ms' here"):
        _ = mb.bounds([0.8, 0.9], 10, "kl-ms")["ms"]


def test_given_delta_and_c() -> None:
    found = mb.bounds([0.8, 0.9], 1e6, "kl-ms", delta=0.0, c=0.25)["kl-ms"]
    assert found["theorem_1"] == theory.theorem_1([0.8, 0.9], 1e6, delta=0.0, c=0.25)
    assert found["theorem_1_printed"] > 10 * found["theorem_1"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mb.bounds([0.8, 1.2], 10), "means must be numbers in [0, 1], not 1.2"),
        (lambda: mb.bounds([0.8, math.nan], 10), "means must be numbers in [0, 1], not nan"),
        (lambda: mb.bounds([0.8], 10), "at least 2 arms"),
        (lambda: mb.bounds("ab", 10), "means must be numbers"),
        (lambda: mb.bounds([[0.1, 0.2]], 10), "one list"),
        (lambda: mb.bounds([0.8, 0.9], -5), "horizon must be a number of rounds, 1 or more"),
        (lambda: mb.bounds([0.8, 0.9], 0), "horizon must be"),
        (lambda: mb.bounds([0.8, 0.9], math.inf), "horizon must be"),
        (lambda: mb.bounds([0.8, 0.9], math.nan), "horizon must be"),
        (lambda: mb.bounds([0.8, 0.9], "10"), "horizon must be"),
        (lambda: mb.bounds([0.8, 0.9], True), "horizon must be"),
        (lambda: mb.bounds([0.8, 0.9], [10, -1]), "horizon must be"),
        (lambda: mb.bounds([0.8, 0.9], -(10**400)), "horizon must be"),
        (lambda: mb.bounds([0.8, 0.9], 10, c=0.3), "c must be in (0, 1/4], not 0.3"),
        (lambda: mb.bounds([0.8, 0.9], 10, c=0.0), "c must be in (0, 1/4]"),
        (lambda: mb.bounds([0.8, 0.9], 10, c=math.nan), "c must be in (0, 1/4]"),
        (lambda: mb.bounds([0.8, 0.9], 10, delta=-0.1), "delta must be"),
        (lambda: mb.bounds([0.8, 0.9], 10, "kl-sm"), "no bounds are known of 'kl-sm'"),
        (lambda: mb.bounds([0.8, 0.9], 10, simulate=-1), "simulate must be"),
        (lambda: mb.bounds([0.8, 0.9], 10, worst_case=0.0), "worst_case must be"),
        (lambda: mb.bounds([0.8, 0.9], [10, 20], simulate=1), "single horizon"),
        (lambda: mb.bounds([0.8, 0.9], [10, 20]).summary(), "single horizon"),
        (lambda: theory.arm_pulls(0.8, 0.9, 10, 0.05, 0.06), "epsilon_1 and epsilon_2"),
        (lambda: theory.arm_pulls(0.9, 0.8, 10, 0.01, 0.01), "below the best"),
        (lambda: theory.arm_pulls(0.8, 0.9, 10, 0.01, 0.01, "sharpest"), "form must be"),
        (lambda: theory.ms_arm_pulls(0.1, 10, 0.1, 0.1), "epsilon_1 and epsilon_2"),
        (lambda: theory.ms_arm_pulls(0.1, 10, 0.01, 0.01, sigma=0), "sigma must be"),
        (lambda: theory.theorem_1([0.8, 0.9], 10, form="true"), "form must be"),
        (lambda: theory.kl_ucb_arm_pulls(0.8, 0.9, 10, 0.1, 0.1), "epsilon_1 and epsilon_2"),
        (lambda: theory.kl_ucb_arm_pulls(0.8, 0.9, 10, 0.01, 0.01, "x"), "form must be"),
        (lambda: theory.kl_ucb_plus_plus_arm_pulls(0.8, 0.9, 2, 100, 0.03), "delta must be"),
        (lambda: theory.ucb_v([0.8, 0.9], 10, zeta=0.5), "zeta must be"),
        (lambda: theory.ucb_v([0.8, 0.9], 10, variances=[0.5, 0.0]), "variances must lie"),
        (lambda: theory.ucb_v([0.8, 0.9], 10, variances=[0.1] * 3), "variances must be"),
        (lambda: theory.ucb_v_arm_pulls(0.0, 0.1, 10), "gap must be"),
        (lambda: theory.thompson([0.1, 0.2, 0.3], 10), "2 arms"),
        (lambda: theory.minimax(1, 10), "arms must be"),
        (lambda: theory.minimax(2.5, 10), "arms must be"),
        (lambda: theory.worst_case(1.5, 2, 10), "best must be"),
        (lambda: theory.burnetas_katehakis([([0.5], [1])]), "at least 2 arms"),
        (lambda: theory.burnetas_katehakis([([0.5], [1]), ([0.5, 1.0], [1])]), "laws[1]"),
        (lambda: theory.burnetas_katehakis([([0.5], [1]), ([1.5], [1])]), "laws[1]"),
        (lambda: theory.ucb1([[0.8, 0.9]] * 3, [1, 2]), "do not broadcast"),
    ],
)
def test_misuse(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_is_compiled() -> None:
    code = (
        "import sys, maillard as mb\n"
        "mb.bounds([0.8, 0.9], 10_000).to_dict()\n"
        "assert not {'numba', 'matplotlib', 'scipy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
