"""Divergences, their inverses and K_inf against mpmath, and the inequalities of the theory."""

import inspect
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maillard import compiled, divergence
from maillard.compiled import vectorized
from maillard.divergence import INFINITY
from maillard.divergence import k_inf as divergence_k_inf
from maillard.divergence import k_inf_upper as divergence_k_inf_upper

RANDOM = 60 if compiled.disabled() else 250
LIMIT = 1e-13
#: The divergences themselves are ten times better than that and more.
TEXTBOOK_LIMIT = 1e-14
#: Below this a double has fewer digits than the limit asks for.
SUBNORMAL = 1e-300

kl = vectorized(divergence.kl)
kl_upper = vectorized(divergence.kl_upper)
kl_upper_gap = vectorized(divergence.kl_upper_gap)
kl_lower = vectorized(divergence.kl_lower)


# --------------------------------------------------------------------------------------------------
# Oracles: the textbook formulas, with digits to burn.


def x_log(a: Any, b: Any) -> Any:
    """a ln(a/b) with 0 ln 0 = 0."""
    return a * mpmath.log(a / b) if a else mpmath.mpf(0)


def exact_binomial(a: Any, b: Any, n: Any) -> Any:
    return x_log(a, b) + x_log(n - a, n - b)


def exact_kl(a: Any, b: Any) -> Any:
    return exact_binomial(a, b, 1)


def exact_gaussian(a: Any, b: Any, variance: Any) -> Any:
    return (a - b) ** 2 / (2 * variance)


def exact_poisson(a: Any, b: Any) -> Any:
    return b - a + x_log(a, b)


def exact_gamma(a: Any, b: Any, shape: Any) -> Any:
    return shape * (a / b - 1 - mpmath.log(a / b))


def exact_negative_binomial(a: Any, b: Any, r: Any) -> Any:
    return x_log(a, b) - (r + a) * mpmath.log((r + a) / (r + b))


Family = tuple[str, Callable[..., Any], tuple[float, ...], float]
#: name, textbook formula, further parameters, largest mean
FAMILIES: list[Family] = [
    ("kl", exact_kl, (), 1.0),
    ("kl_binomial", exact_binomial, (10.0,), 10.0),
    ("kl_gaussian", exact_gaussian, (0.3,), INFINITY),
    ("kl_poisson", exact_poisson, (), INFINITY),
    ("kl_exponential", lambda a, b: exact_gamma(a, b, 1), (), INFINITY),
    ("kl_gamma", exact_gamma, (2.5,), INFINITY),
    ("kl_geometric", lambda a, b: exact_negative_binomial(a, b, 1), (), INFINITY),
    ("kl_negative_binomial", exact_negative_binomial, (1e-4,), INFINITY),
    ("kl_negative_binomial", exact_negative_binomial, (3.7,), INFINITY),
    ("kl_negative_binomial", exact_negative_binomial, (1e8,), INFINITY),
]
BY_NAME = [pytest.param(*family, id=f"{family[0]}{list(family[2])}") for family in FAMILIES]


def family_of(name: str, extra: tuple[float, ...]) -> Callable[..., Any]:
    """The kernel as a function of arrays, its further parameters filled in."""
    function = vectorized(getattr(divergence, name))
    return lambda a, b: function(a, b, *extra)


def means(largest: float, rng: np.random.Generator) -> np.ndarray:
    """Means at every scale, and as close to the largest as doubles go."""
    if largest == INFINITY:
        return 10.0 ** rng.uniform(-12, 10, RANDOM)
    low = 10.0 ** rng.uniform(-20, 0, RANDOM // 2)
    below = 2.0**-53 * 10.0 ** rng.uniform(0, 15.9, RANDOM - low.size)
    return largest * np.concatenate([low, 1.0 - below])


def relative_error(value: float, exact: Any) -> float:
    if exact == 0:
        return 0.0 if value == 0 else np.inf
    return float(abs(mpmath.mpf(value) - exact) / abs(exact))


# --------------------------------------------------------------------------------------------------
# Divergences


@pytest.mark.parametrize(("name", "exact", "extra", "largest"), BY_NAME)
def test_against_the_textbook(
    name: str, exact: Callable[..., Any], extra: tuple[float, ...], largest: float
) -> None:
    rng = np.random.default_rng(1)
    a = means(largest, rng)
    # Pairs far apart, and pairs apart by one part in 10 … 10^15.
    near = a * (1.0 + rng.choice([-1, 1], a.size) * 10.0 ** rng.uniform(-15, -0.1, a.size))
    a = np.concatenate([a, a])
    b = np.concatenate([rng.permutation(means(largest, rng)), np.minimum(near, largest)])
    a, b = a[b < largest], b[b < largest]
    values = family_of(name, extra)(a, b)
    with mpmath.workdps(80):
        for ai, bi, value in zip(a, b, values):
            truth = exact(mpmath.mpf(ai), mpmath.mpf(bi), *extra)
            assert relative_error(value, truth) <= TEXTBOOK_LIMIT, (ai, bi, value)


@pytest.mark.parametrize("a", [0.0, 5e-324, 1e-310, 1e-200, 0.3, 1 - 2**-53, 1.0])
@pytest.mark.parametrize("b", [5e-324, 1e-310, 1e-200, 1e-17, 0.3 + 2**-54, 0.7, 1 - 2**-53])
def test_kl_at_the_rim(a: float, b: float) -> None:
    with mpmath.workdps(700):
        truth = exact_kl(mpmath.mpf(a), mpmath.mpf(b))
        assert abs(kl(a, b) - truth) <= max(LIMIT * truth, 2 * mpmath.mpf(5e-324))


def test_kl_edges_are_exact() -> None:
    for a in (0.0, 5e-324, 0.1, 0.5, 1 - 2**-53, 1.0):
        assert kl(a, a) == 0.0
    assert kl(0.0, 1.0) == kl(1.0, 0.0) == kl(0.5, 0.0) == kl(0.5, 1.0) == INFINITY
    assert kl(0.0, 0.5) == kl(1.0, 0.5) == np.log(2.0)


@pytest.mark.parametrize(("name", "exact", "extra", "largest"), BY_NAME)
def test_edges_of_the_families(
    name: str, exact: Callable[..., Any], extra: tuple[float, ...], largest: float
) -> None:
    function = family_of(name, extra)
    assert function(0.0, 0.0) == function(0.7, 0.7) == 0.0
    if name == "kl_gaussian":
        return
    assert function(0.7, 0.0) == INFINITY
    if largest < INFINITY:
        assert function(largest, largest) == 0.0
        assert function(0.7, largest) == INFINITY
    if name in ("kl_exponential", "kl_gamma"):
        assert function(0.0, 0.7) == INFINITY
    else:
        with mpmath.workdps(50):
            truth = exact(mpmath.mpf(0), mpmath.mpf(0.7), *extra)
            assert relative_error(function(0.0, 0.7), truth) <= LIMIT


def test_the_families_meet_in_their_limits() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.uniform(0.1, 5.0, (2, 200))
    poisson, gamma = vectorized(divergence.kl_poisson)(a, b), vectorized(divergence.kl_gamma)
    binomial = vectorized(divergence.kl_binomial)
    negative = vectorized(divergence.kl_negative_binomial)
    np.testing.assert_allclose(binomial(a, b, 1e15), poisson, rtol=1e-13)
    np.testing.assert_allclose(negative(a, b, 1e15), poisson, rtol=1e-13)
    np.testing.assert_allclose(negative(a * 1e15, b * 1e15, 2.5), gamma(a, b, 2.5), rtol=1e-12)
    np.testing.assert_allclose(binomial(a, b, 8.0), 8.0 * kl(a / 8.0, b / 8.0), rtol=1e-13)


# --------------------------------------------------------------------------------------------------
# Inverses


def exact_shift(p: Any, q: Any, n: Any, d: Any) -> tuple[Any, Any]:
    """(y, p − y) with y ≤ p and x_log(p, y) + x_log(q, q + p − y) = d, by Newton in ln(p/y)."""
    v = mpmath.sqrt((d / p) ** 2 + 2 * q * d / (p * n))
    for _ in range(200):
        h = -p * mpmath.expm1(-v)
        rise = p * v - (q * mpmath.log1p(h / q) if q else 0)
        step = (rise - d) * (q + h) / (n * h)
        v = v - step if step < v else v / 2
        if abs(step) < v * mpmath.mpf(10) ** -40:
            return p * mpmath.exp(-v), -p * mpmath.expm1(-v)
    raise AssertionError("the oracle did not converge")


BERNOULLI_MEANS = np.array(
    [
        *(0.0, 5e-324, 1e-310, 1e-200, 1e-100, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.99),
        *(1 - 1e-6, 1 - 1e-12, 1 - 2.0**-52, 1 - 2.0**-53),
    ]
)
LEVELS = np.concatenate(
    [10.0 ** np.arange(-30, 2.5, 1.37), [5e-324, 1e-310, 1e-240, 1e-100, 400, 700, 744, 800]]
)


def test_bernoulli_inverses_against_mpmath() -> None:
    a, d = (grid.ravel() for grid in np.meshgrid(BERNOULLI_MEANS, LEVELS))
    upper, gap, lower = kl_upper(a, d), kl_upper_gap(a, d), kl_lower(a, d)
    tiny = mpmath.mpf(5e-324)
    for i in range(a.size):
        digits = 400 if 0 < min(a[i] or 1.0, d[i]) < 1e-40 else 60
        with mpmath.workdps(digits):
            ai, di = mpmath.mpf(a[i]), mpmath.mpf(d[i])
            left, step = exact_shift(1 - ai, ai, 1, di)
            truth, where = ai + step, (a[i], d[i])
            assert abs(upper[i] - truth) <= max(1e-15 * truth, tiny), where
            # Near 1 the bound is as good as a double can say it: within two units of 2^-53.
            assert abs((1 - mpmath.mpf(upper[i])) - left) <= 2 * mpmath.mpf(2) ** -53, where
            assert abs(gap[i] - left) <= max(LIMIT * left, tiny), where
            if a[i] > 0:
                truth, _ = exact_shift(ai, 1 - ai, 1, di)
                assert abs(lower[i] - truth) <= max(LIMIT * truth, tiny), where


def test_bernoulli_inverses_converge_everywhere() -> None:
    # Too many points for mpmath: here kl itself, tested above, says whether b was found. An error
    # of b, ε relative to both b and 1−b, shows in kl(a, b)/d at most ε·κ with κ as below.
    side = 60 if compiled.disabled() else 700
    tails = 10.0 ** np.linspace(-15.9, -0.31, side // 2)
    a, d = (
        grid.ravel()
        for grid in np.meshgrid(
            np.concatenate([tails, 1.0 - tails]), 10.0 ** np.linspace(-28, np.log10(30), side)
        )
    )
    for b, moved in ((kl_upper(a, d), 1), (kl_lower(a, d), -1)):
        assert np.all(moved * (b - a) >= 0.0)
        open_ = (b != a) & (b > SUBNORMAL) & (b < 1.0)
        aa, bb, dd = a[open_], b[open_], d[open_]
        ulp = np.maximum(np.spacing(bb), 1e-15 * bb)
        kappa = ulp * np.abs(bb - aa) / (bb * (1.0 - bb)) + ulp**2 / (bb * (1.0 - bb))
        assert np.all(np.abs(kl(aa, bb) - dd) <= 4.0 * kappa + 1e-13 * dd)


def test_bernoulli_inverse_edges() -> None:
    a = np.array([0.0, 5e-324, 1e-9, 0.3, 0.5, 0.9, 1 - 2**-53, 1.0])
    for d in (0.0, -0.0, -1.0):  # ln t + c ln ln t is negative in the first rounds
        assert np.array_equal(kl_upper(a, d), a)
        assert np.array_equal(kl_lower(a, d), a)
    assert np.all(kl_upper(a, INFINITY) == 1.0)
    assert np.all(kl_lower(a[:-1], INFINITY) == 0.0)
    assert np.all(kl_upper_gap(a, INFINITY) == 0.0)
    d = np.array([1e-300, 1e-20, 0.1, 1.0, 30.0, 700.0])
    np.testing.assert_allclose(kl_upper(0.0, d), -np.expm1(-d), rtol=1e-15)
    np.testing.assert_allclose(kl_lower(1.0, d), np.exp(-d), rtol=1e-15)
    assert np.all(kl_upper(1.0, d) == 1.0)
    assert np.all(kl_lower(0.0, d) == 0.0)


FAMILY_INVERSES = [param for param in BY_NAME if param.values[0] != "kl"]


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize(("name", "exact", "extra", "largest"), FAMILY_INVERSES)
def test_inverses_of_the_families(
    name: str, exact: Callable[..., Any], extra: tuple[float, ...], largest: float, side: str
) -> None:
    rng = np.random.default_rng(3)
    a = means(largest, rng)
    d = 10.0 ** rng.uniform(-10, 2.5, a.size) * np.where(rng.random(a.size) < 0.5, a, 1.0)
    values = family_of(f"{name}_{side}", extra)(a, d)
    assert np.all(values >= a if side == "upper" else values <= a)
    tolerance = 1e-13
    with mpmath.workdps(80):
        for ai, di, value in zip(a, d, values):
            if not SUBNORMAL < abs(value) < min(largest, 1e300) or value == ai:
                continue
            # The exact bound lies within the tolerance if the divergence crosses d there; at least
            # one unit in the last place, and the last digits of n − b where b is near n.
            value = mpmath.mpf(value)
            slack = tolerance * abs(value)
            slack = min(slack, abs(largest - value) / 2)
            slack = max(slack, mpmath.mpf(np.spacing(float(value))))
            if name == "kl_gaussian":  # a ± √(2·variance·d), which may cancel
                slack = max(slack, mpmath.mpf(np.spacing(ai)))
            outer, inner = value + slack, value - slack
            if side == "lower":
                outer, inner = inner, outer
            if outer < largest and (outer > 0 or name == "kl_gaussian"):
                assert exact(mpmath.mpf(ai), outer, *extra) >= di, (ai, di)
            inside = inner <= ai if side == "upper" else inner >= ai
            assert inside or exact(mpmath.mpf(ai), inner, *extra) <= di, (ai, di)


@pytest.mark.parametrize(("name", "exact", "extra", "largest"), FAMILY_INVERSES)
def test_edges_of_the_families_inverses(
    name: str, exact: Callable[..., Any], extra: tuple[float, ...], largest: float
) -> None:
    del exact
    upper, lower = family_of(f"{name}_upper", extra), family_of(f"{name}_lower", extra)
    lowest = -INFINITY if name == "kl_gaussian" else 0.0
    levels = np.array([0.0, 5e-324, 1e-200, 1e-30, 1e-9, 0.5, 30.0, 700.0, 2000.0, INFINITY])
    for a in (0.0, 5e-324, 1e-300, 1e-9, 0.3, 1.0, 2.0, min(largest, 1e100)):
        high, low = upper(a, levels), lower(a, levels)
        assert high[0] == low[0] == upper(a, -1.0) == lower(a, -1.0) == a
        assert np.all(high[1:] >= high[:-1])
        assert np.all(low[:-1] >= low[1:])
        if a > 0.0:
            assert high[-1] == largest
            assert low[-1] == lowest


unit = st.floats(0.0, 1.0)
inner = st.floats(1e-12, 1.0 - 1e-12)


@given(unit, unit)
def test_kl_is_nonnegative_and_above_pinsker(a: float, b: float) -> None:
    assert kl(a, b) >= 2.0 * (b - a) ** 2 * (1.0 - 1e-14)


@given(unit, unit, unit)
def test_kl_grows_away_from_its_first_argument(a: float, b: float, c: float) -> None:
    near, far = sorted((b, c), key=lambda x: abs(x - a))
    if (near - a) * (far - a) >= 0.0:
        assert kl(a, near) <= kl(a, far) * (1.0 + 1e-14)


@given(inner, inner)
def test_inverses_undo_kl(a: float, b: float) -> None:
    found = kl_upper(a, kl(a, b)) if b >= a else kl_lower(a, kl(a, b))
    assert abs(found - b) <= 1e-14 * b + 1e-15 * abs(b - a)


@given(unit, st.floats(0.0, 800.0), st.floats(0.0, 800.0))
def test_bounds_widen_with_the_level(a: float, d: float, e: float) -> None:
    d, e = min(d, e), max(d, e)
    assert a <= kl_upper(a, d) <= kl_upper(a, e) * (1.0 + 1e-15) <= 1.0 + 1e-15
    assert a >= kl_lower(a, d) >= kl_lower(a, e) * (1.0 - 1e-13) >= 0.0


@given(unit, st.floats(0.0, 800.0))
def test_upper_and_lower_mirror_each_other(a: float, d: float) -> None:
    mirrored = 1.0 - (1.0 - a)  # a, or what is left of it beside 1
    assert kl_lower(1.0 - a, d) == kl_upper_gap(mirrored, d)


def test_compiled_and_plain_python_agree_bit_for_bit() -> None:
    rng = np.random.default_rng(4)
    a, b, d = rng.random(40), rng.random(40), rng.exponential(size=40)
    a[:3], d[:5] = (0.0, 1.0, 1e-310), (0.0, INFINITY, 1e-300, 1e3, -1.0)
    names = [name for name in dir(divergence) if name.startswith("kl")]
    assert len(names) == 25
    for name in names:
        kernel = getattr(divergence, name)
        second = d if name.endswith(("upper", "lower", "gap")) else b
        arguments = (a, second, np.full(40, 2.5))[: len(inspect.signature(kernel).parameters)]
        with np.errstate(all="ignore"):
            plain = np.array([kernel(*row) for row in zip(*arguments)])
        assert plain.tobytes() == vectorized(kernel)(*arguments).tobytes(), name


# --------------------------------------------------------------------------------------------------
# K_inf


def k_inf_at(values: Any, counts: Any, mu: Any, out: Any) -> None:
    for i in range(mu.size):
        out[0, i], out[1, i] = divergence_k_inf(values, counts, mu[i])


def k_inf_upper_at(values: Any, counts: Any, d: Any, out: Any) -> None:
    for i in range(d.size):
        out[0, i] = divergence_k_inf_upper(values, counts, d[i])


def over_array(template: Callable[..., None], values: Any, counts: Any, at: Any) -> np.ndarray:
    """A template's two rows of results for one law."""
    law = (np.array(values, dtype=float), np.array(counts, dtype=float))
    at = np.atleast_1d(np.array(at, dtype=float))
    out = np.empty((2, at.size))
    signature = "void(float64[::1], float64[::1], float64[::1], float64[:, ::1])"
    compiled.build(template, signature)(*law, at, out)
    return out


def k_inf(values: Any, counts: Any, mu: Any) -> np.ndarray:
    return over_array(k_inf_at, values, counts, mu)


def k_inf_upper(values: Any, counts: Any, d: Any) -> np.ndarray:
    return over_array(k_inf_upper_at, values, counts, d)[0]


class ExactLaw:
    """An empirical law in mpmath, and its K_inf by bisection of the dual."""

    def __init__(self, values: np.ndarray, counts: np.ndarray) -> None:
        self.values = [mpmath.mpf(x) for x in values]
        total = sum(mpmath.mpf(c) for c in counts)
        self.weights = [mpmath.mpf(c) / total for c in counts]
        self.mean = sum(w * x for w, x in zip(self.weights, self.values))

    def expect(self, function: Callable[[Any], Any]) -> Any:
        return sum(w * function(x) for w, x in zip(self.weights, self.values))

    def k_inf(self, mu: Any) -> tuple[Any, Any]:
        room = 1 - mu
        if max(self.values) < 1 and self.expect(lambda x: room / (1 - x)) <= 1:
            return self.expect(lambda x: mpmath.log((1 - x) / room)), 1 / room

        def slope(log_odds: Any) -> Any:
            theta = 1 / (1 + mpmath.exp(-log_odds))
            return -self.expect(lambda x: (x - mu) / (room - theta * (x - mu)))

        low, high = mpmath.mpf(-100), mpmath.mpf(100)
        for _ in range(130):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        rate = 1 / (1 + mpmath.exp(-low)) / room
        return self.expect(lambda x: mpmath.log(1 - rate * (x - mu))), rate


def laws() -> list[tuple[np.ndarray, np.ndarray]]:
    """Spread out, with and without mass at 1, crowded at 1, far below 0, nearly a point, points."""
    rng = np.random.default_rng(5)
    found = []
    for kind in range(12 if compiled.disabled() else 30):
        size = int(rng.integers(1, 6))
        values = {
            0: lambda n: rng.random(n),
            1: lambda n: np.append(rng.random(n), 1.0),
            2: lambda n: np.append(1.0 - 10.0 ** rng.uniform(-15, -1, n), 1.0),
            3: lambda n: np.append(-(10.0 ** rng.uniform(-2, 6, n)), rng.choice([1.0, 0.5])),
            4: lambda n: rng.uniform(0.1, 0.9) + 10.0 ** rng.uniform(-15, -9, n),
            5: lambda n: rng.random(1),
        }[kind % 6](size)
        values = np.unique(values)
        counts = np.ceil(10.0 ** rng.uniform(0, rng.choice([1, 9]), values.size))
        found.append((values, counts))
    return found


@pytest.mark.parametrize(("values", "counts"), laws())
def test_k_inf_and_its_inverse_against_mpmath(values: np.ndarray, counts: np.ndarray) -> None:
    with mpmath.workdps(60):
        law = ExactLaw(values, counts)
        mean = float(law.mean)
        mu = mean + np.array([1e-14, 1e-12, 1e-9, *((1 - mean) * np.array([1e-5, 0.1, 0.5, 0.98]))])
        mu = mu[(mu > mean) & (mu < 1.0)]
        for m, value, rate in zip(mu, *k_inf(values, counts, mu)):
            exact, exact_rate = law.k_inf(mpmath.mpf(m))
            assert relative_error(value, exact) <= LIMIT, m
            assert relative_error(rate, exact_rate) <= 2 * LIMIT, m
            # The inverse at the rounded value: to first order μ moves by the rounding over λ.
            d = float(exact)
            truth = m + (d - exact) / exact_rate
            bound = k_inf_upper(values, counts, d)[0]
            assert abs(bound - truth) <= LIMIT * abs(truth) + 1e-15 * (1 - law.mean), m


def test_k_inf_of_zeros_and_ones_is_kl() -> None:
    rng = np.random.default_rng(6)
    for zeros, ones in [(1, 1), (1, 9), (7, 2), (1, 10**9), (10**9, 1), (123456789, 987654321)]:
        mean = ones / (zeros + ones)
        mu = np.concatenate(
            [mean + (1 - mean) * rng.random(50), mean + 10.0 ** rng.uniform(-8, -2, 9)]
        )
        mu = mu[(mu < 1.0) & (mu > mean)]
        value, rate = k_inf([0.0, 1.0], [zeros, ones], mu)
        # mean is rounded, which moves kl by 2^-53·mean/(mu − mean) relative: compare in fractions.
        with mpmath.workdps(50):
            exact = mpmath.mpf(ones) / (zeros + ones)
            for m, v, r in zip(mu, value, rate):
                assert relative_error(v, exact_kl(exact, mpmath.mpf(m))) <= LIMIT
                assert (
                    relative_error(r, (m - exact) / (mpmath.mpf(m) * (1 - mpmath.mpf(m)))) <= LIMIT
                )
        d = 10.0 ** rng.uniform(-12, 2, 50)
        np.testing.assert_allclose(
            k_inf_upper([0.0, 1.0], [zeros, ones], d), kl_upper(mean, d), rtol=1e-14
        )


def test_k_inf_edges() -> None:
    values, counts = [0.25, 0.5], [1.0, 3.0]
    mean = 0.4375
    assert np.array_equal(k_inf(values, counts, [-1.0, 0.2, mean]), np.zeros((2, 3)))
    assert np.all(k_inf(values, counts, [1.0, 1.5]) == INFINITY)
    assert np.array_equal(k_inf([1.0], [5.0], [0.5, 1.0, 1.5])[0], [0.0, 0.0, INFINITY])
    assert np.array_equal(k_inf_upper(values, counts, [-1.0, 0.0, INFINITY]), [mean, mean, 1.0])
    assert np.all(k_inf_upper([1.0], [5.0], [0.0, 0.1, INFINITY]) == 1.0)
    # A point mass moves to 1 − (1 − x)·e^−d.
    d = np.array([1e-12, 0.1, 3.0, 50.0])
    np.testing.assert_allclose(k_inf_upper([0.25], [4.0], d), 1 - 0.75 * np.exp(-d), rtol=1e-15)


def test_the_scale_of_the_counts_does_not_matter() -> None:
    values = [-0.3, 0.1, 0.4, 0.95, 1.0]
    counts = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    mu = np.linspace(0.5, 0.999, 20)
    once, often = k_inf(values, counts, mu), k_inf(values, counts * 2.0**40, mu)
    np.testing.assert_array_equal(once, often)


samples = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8, unique=True)


@given(samples, st.data())
def test_k_inf_is_above_kl_and_pinsker_and_convex(values: list[float], data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 10**6), min_size=len(values), max_size=len(values)))
    mean = min(float(np.average(values, weights=counts)), 1.0)
    mu = np.sort([data.draw(st.floats(mean, 1.0)) for _ in range(2)])
    (first, second), (slope, _) = k_inf(values, counts, mu)
    # Means that differ in the last digit differ in kl by about this much.
    slack = 1e-15 + 1e-9 * second if second < INFINITY else 0.0
    assert first >= kl(mean, mu[0]) - slack
    assert first >= 2.0 * (mu[0] - mean) ** 2 - slack
    if second < INFINITY:
        assert second >= (first + slope * (mu[1] - mu[0])) * (1 - 1e-12)


@given(samples, st.data(), st.floats(1e-12, 40.0))
def test_k_inf_upper_undoes_k_inf(values: list[float], data: st.DataObject, d: float) -> None:
    counts = data.draw(st.lists(st.integers(1, 999), min_size=len(values), max_size=len(values)))
    (bound,) = k_inf_upper(values, counts, d)
    mean = float(np.average(values, weights=counts))
    assert mean * (1 - 1e-15) <= bound <= 1.0
    if bound < 1.0:
        (value,), (slope,) = k_inf(values, counts, bound)
        assert abs(value - d) <= 1e-12 * d + 4 * slope * np.spacing(bound)
