"""Elementary functions as short inlined polynomials, so that loops over them become SIMD code.

A call into the C library stops LLVM from vectorising a loop; these do not. Every one is accurate to
a few units in the last place (ulp) over its whole domain, subnormal numbers and infinities
included, and gives the same bits in a vector, in a scalar remainder and in plain Python. The
reduction and the coefficients of the logarithm are those of FreeBSD's msun (`e_log.c`); the
polynomial of the exponential is our own fit (`tests/test_numeric.py` measures all errors against
mpmath).
"""

from typing import Final

from .compiled import bits_float, float_bits, fma, kernel

INFINITY: Final = float("inf")
NAN: Final = float("nan")
LOG2E: Final = 1.4426950408889634
# ln 2 in two parts: k·LN2_HI is exact for |k| < 2^20.
LN2_HI: Final = 6.93147180369123816490e-01
LN2_LO: Final = 1.90821492927058770002e-10
LN2: Final = 0.6931471805599453

_SQRT_HALF_BITS: Final = 0x3FE6A09E667F3BCD
_SMALLEST_NORMAL: Final = 2.2250738585072014e-308
_TWO_54: Final = 18014398509481984.0


@kernel
def _atanh_rest(z):
    """R(s²) in 2·atanh(s) = 2s + s·R, for |s| ≤ 0.1716: the series of every logarithm here."""
    w = z * z
    odd = fma(
        fma(1.531383769920937332e-01, w, 2.222219843214978396e-01), w, 3.999999999940941908e-01
    )
    even = fma(
        fma(1.479819860511658591e-01, w, 1.818357216161805012e-01), w, 2.857142874366239149e-01
    )
    return fma(odd, w, z * fma(even, w, 6.666666666666735130e-01))


@kernel
def _log1p_rest(f):
    """r with log1p(f) = f − r, for 1+f in [√½, √2]; no cancellation: r ≈ f²/2."""
    # With s = f/(2+f): log1p(f) = 2·atanh(s) = f − (h − s·(h + R)), h = f²/2.
    s = f / (2.0 + f)
    h = 0.5 * f * f
    return h - s * (h + _atanh_rest(s * s))


@kernel
def _exponent(x):
    """k with x·2^-k in [√½, √2), for a positive normal x."""
    return (float_bits(x) - _SQRT_HALF_BITS) >> 52


@kernel
def log(x):
    """ln x for every double: −∞ at 0, NaN below; error < 1 ulp."""
    subnormal = x < _SMALLEST_NORMAL
    y = x * _TWO_54 if subnormal else x
    e = _exponent(y)
    f = bits_float(float_bits(y) - (e << 52)) - 1.0
    k = float(e) - (54.0 if subnormal else 0.0)
    value = k * LN2_HI + (f - (_log1p_rest(f) - k * LN2_LO))
    value = value if x > 0.0 else (-INFINITY if x == 0.0 else NAN)
    return x if x == INFINITY else value


@kernel
def phi(x):
    """x − ln(1+x) ≥ 0 for x ≥ −1 without cancellation: the building block of every divergence."""
    u = 1.0 + x
    near = (u > 0.7071067811865476) & (u < 1.414213562373095)
    # Away from 0 the difference is taken outright: it loses at most three bits at the border.
    rounding = (x - (u - 1.0)) / u
    far = x - (log(u) + rounding) if u < 1e300 else x  # so large that x swallows the logarithm
    far = far if u > 0.0 else (INFINITY if u == 0.0 else NAN)
    return _log1p_rest(x if near else 0.0) if near else far


@kernel
def log1p(x):
    """ln(1+x) for x ≥ −1; error < 2 ulp."""
    u = 1.0 + x
    near = (u > 0.7071067811865476) & (u < 1.414213562373095)
    rounding = (x - (u - 1.0)) / u
    far = log(u) + (rounding if (u > 0.0) & (u < 1e300) else 0.0)
    return x - _log1p_rest(x if near else 0.0) if near else far


@kernel
def _exp_rest(r):
    """(e^r − 1 − r) / r², for |r| ≤ ln(2)/2."""
    q = fma(2.510038549551032e-08, r, 2.7620088445409746e-07)
    q = fma(q, r, 2.7557268459997064e-06)
    q = fma(q, r, 2.4801521295954376e-05)
    q = fma(q, r, 0.00019841269863053618)
    q = fma(q, r, 0.0013888888917213717)
    q = fma(q, r, 0.008333333333330062)
    q = fma(q, r, 0.04166666666662413)
    q = fma(q, r, 0.16666666666666669)
    return fma(q, r, 0.5)


@kernel
def _expm1_reduced(r):
    """e^r − 1 for |r| ≤ ln(2)/2."""
    return fma(_exp_rest(r), r * r, r)


@kernel
def _power_of_two(k):
    """2^k for −1022 ≤ k ≤ 1023, an integer."""
    return bits_float((k + 1023) << 52)


@kernel
def _nearest(x):
    """The integer nearest to x, |x| < 2^31, as a double: adding 3·2^51 rounds off the fraction."""
    return (x + 6755399441055744.0) - 6755399441055744.0


@kernel
def exp(x):
    """e^x for every double, with gradual underflow; error < 1.5 ulp."""
    y = min(max(-746.0, x), 710.0)  # a NaN becomes −746: int() must not meet it
    n = _nearest(y * LOG2E)
    r = fma(-n, LN2_LO, fma(-n, LN2_HI, y))
    k = int(n)
    half = k >> 1  # in two steps: 2^k itself may be out of range
    value = (1.0 + _expm1_reduced(r)) * _power_of_two(half) * _power_of_two(k - half)
    return value if x == x else x


@kernel
def expm1(x):
    """e^x − 1 for every double; error < 3 ulp."""
    y = min(max(-746.0, x), 710.0)  # a NaN becomes −746: int() must not meet it
    n = _nearest(y * LOG2E)
    r = fma(-n, LN2_LO, fma(-n, LN2_HI, y))
    k = int(n)
    half = k >> 1
    first, second = _power_of_two(half), _power_of_two(k - half)
    # 2^k·(1 + p) − 1 = 2^k·p + (2^k − 1); for k = 0 this is p itself.
    p = _expm1_reduced(r)
    small = (p * first) * second + (first * second - 1.0)
    large = ((1.0 + p) * first) * second - 1.0
    value = small if k < 1000 else large
    return x if (x != x) | (x == 0.0) else value
