"""The elementary functions against mpmath, and the promise of equal bits wherever they run."""

import math

import mpmath
import numpy as np
import pytest

from maillard import compiled, numeric

TINY = 5e-324
SMALLEST_NORMAL = 2.0**-1022
HUGE = float(np.finfo(float).max)

#: name → (exact function, largest error in ulp; φ loses up to three bits just below √½ − 1)
FUNCTIONS = {
    "log": (mpmath.log, 1.0),
    "log1p": (mpmath.log1p, 2.0),
    "exp": (mpmath.exp, 1.5),
    "expm1": (mpmath.expm1, 3.0),
    "phi": (lambda x: x - mpmath.log1p(x), 8.0),
}
SPECIAL = {
    "log": [(0.0, -np.inf), (-0.0, -np.inf), (1.0, 0.0), (np.inf, np.inf), (-1.0, np.nan)],
    "log1p": [(-1.0, -np.inf), (0.0, 0.0), (-0.0, -0.0), (np.inf, np.inf), (-1.5, np.nan)],
    "exp": [(0.0, 1.0), (-0.0, 1.0), (np.inf, np.inf), (-np.inf, 0.0), (1e300, np.inf)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (np.inf, np.inf), (-np.inf, -1.0), (1e300, np.inf)],
    "phi": [(-1.0, np.inf), (0.0, 0.0), (-0.0, 0.0), (np.inf, np.inf), (-1.5, np.nan)],
}
RANDOM = 300 if compiled.disabled() else 3000


def neighbours(x: float, reach: int = 4) -> list[float]:
    """x and the doubles next to it on either side."""
    found = [x]
    for direction in (-HUGE, HUGE):
        y = x
        for _ in range(reach):
            y = float(np.nextafter(y, direction))
            found.append(y)
    return found


def points(name: str) -> np.ndarray:
    """Random points over the whole domain, and those where an implementation is apt to fail."""
    rng = np.random.default_rng(20231)
    signs = rng.choice([-1.0, 1.0], RANDOM)
    anywhere = 2.0 ** rng.uniform(-1074, 1023, RANDOM)
    near_zero = signs * 2.0 ** rng.uniform(-60, 1, RANDOM)
    if name == "log":
        borders = [TINY, SMALLEST_NORMAL, 0.5**0.5, 0.5, 1.0, 2.0**0.5, 2.0, np.e, 1e300, HUGE]
        x = np.concatenate([anywhere, 1.0 + near_zero, np.arange(1, 50) * TINY])
    elif name in ("log1p", "phi"):
        borders = [-1.0, -0.5, 0.5**0.5 - 1, 2.0**0.5 - 1, 0.0, 1.0, 1e16, 1e300, HUGE]
        x = np.concatenate([anywhere, near_zero, -1.0 + 2.0 ** rng.uniform(-53, 0, RANDOM)])
    else:
        halves = (np.arange(-1075, 1025) + 0.5) * np.log(2)  # where the reduction changes its k
        borders = [0.0, -745.133, -708.396, -37.43, 36.7, 709.7827128933841, 710.0, 745.0]
        x = np.concatenate(
            [rng.uniform(-746, 710, RANDOM), near_zero, halves[:: 1 + 2100 // RANDOM]]
        )
    x = np.concatenate([x, *(neighbours(border) for border in borders)])
    inside = {"log": x > 0, "log1p": x > -1, "phi": x > -1}.get(name, np.isfinite(x))
    return x[inside & np.isfinite(x)]


def error_in_ulp(value: float, exact: mpmath.mpf) -> float:
    """|value − exact| in units of the spacing of doubles there; 0 for a rightful infinity."""
    if abs(exact) > mpmath.mpf(HUGE) * (1 + mpmath.mpf(2) ** -54):
        return 0.0 if value == np.inf * mpmath.sign(exact) else np.inf
    if not np.isfinite(value):
        return np.inf
    return float(abs(mpmath.mpf(value) - exact) / mpmath.mpf(math.ulp(float(exact))))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_against_mpmath(name: str) -> None:
    exact, limit = FUNCTIONS[name]
    x = points(name)
    values = compiled.vectorized(getattr(numeric, name))(x)
    with mpmath.workdps(60):
        errors = []
        for xi, value in zip(x, values):
            # x − ln(1+x) cancels: x²/2 of a tiny x needs as many digits again as x has zeros.
            with mpmath.workdps(60 + 2 * max(0, -int(np.log10(abs(xi)))) if xi else 60):
                errors.append(error_in_ulp(value, exact(mpmath.mpf(xi))))
    worst = int(np.argmax(errors))
    assert errors[worst] <= limit, f"{name}({x[worst]!r}) is off by {errors[worst]} ulp"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str) -> None:
    function = compiled.vectorized(getattr(numeric, name))
    for x, expected in SPECIAL[name]:
        got = function(x)
        assert got == expected or (np.isnan(got) and np.isnan(expected)), (name, x, got)
        if expected == 0.0:
            assert np.signbit(got) == np.signbit(expected), (name, x, got)
    assert np.isnan(function(np.nan))


@pytest.mark.parametrize("name", ["log", "exp", "log1p", "expm1"])
def test_never_decreasing_from_one_double_to_the_next_by_more_than_the_error(name: str) -> None:
    x = np.array(neighbours(1.0, 200) + neighbours(0.3, 200))
    x.sort()
    values = compiled.vectorized(getattr(numeric, name))(x)
    assert np.all(np.diff(values) >= -4 * np.spacing(np.abs(values[1:])))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_and_plain_python_give_the_same_bits(name: str) -> None:
    kernel = getattr(numeric, name)
    x = np.concatenate([points(name)[::5], [x for x, _ in SPECIAL[name]], [np.nan]])
    with np.errstate(all="ignore"):
        plain = np.array([kernel(xi) for xi in x])
    assert plain.tobytes() == compiled.vectorized(kernel)(x).tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vector_body_and_scalar_remainder_give_the_same_bits(name: str) -> None:
    function = compiled.vectorized(getattr(numeric, name))
    for x in (0.3, 1e-5, 0.9999, 1.7, 3e200):
        alone = np.float64(function(x)).tobytes()
        for length in range(1, 41):
            assert function(np.full(length, x)).tobytes() == alone * length
