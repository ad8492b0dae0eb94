"""Streams of random numbers, one for every trial, and the variates drawn from them.

Trial i has its own xoshiro256++ generator (Blackman and Vigna 2021), seeded by splitmix64 from a
base and i alone, so that a result does not depend on how trials are grouped. `LANES` generators
advance side by side: word w of lane l is ``rng[w * LANES + l]``, at fixed distances, so that LLVM
can tell the words apart and turns a loop over lanes into SIMD code. The variates are made of short
polynomials without branches for the same reason; the few that need a rejection do all lanes' first
attempts together and what is left over one by one.
"""

import hashlib
import json
from typing import Any, Final

import numpy as np

from .compiled import bits_float, float_bits, fma, kernel, routine, wide
from .numeric import exp, log

#: How many trials advance together. Eight AVX-512 registers of doubles; a multiple of every width.
LANES: Final = 64

#: Lanes that are done one by one after a rejection: for more, all are tried together once more.
FEW: Final = 5.0

#: The size of the generators of one block of trials.
WORDS: Final = 4 * LANES

u64 = np.uint64


def base(*parts: Any) -> np.uint64:
    """The seed of a family of streams: the first 8 bytes of a digest of plain data."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))


@kernel
def seed_lane(rng, lane, base, trial):
    """Start the stream of one trial: words 4i + 1 … 4i + 4 of splitmix64 (Steele et al. 2014)."""
    golden = u64(0x9E3779B97F4A7C15)
    z = base + u64(4) * u64(trial) * golden
    for word in range(4):
        z += golden
        y = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
        y = (y ^ (y >> u64(27))) * u64(0x94D049BB133111EB)
        rng[word * LANES + lane] = y ^ (y >> u64(31))


@kernel
def uniform(rng, lane):
    """A multiple of 2^-52 in [0, 1): one step of xoshiro256++."""
    a0, a1 = rng[lane], rng[LANES + lane]
    a2, a3 = rng[2 * LANES + lane], rng[3 * LANES + lane]
    s = a0 + a3
    r = ((s << u64(23)) | (s >> u64(41))) + a0
    t = a1 << u64(17)
    a2 ^= a0
    a3 ^= a1
    rng[LANES + lane] = a1 ^ a2
    rng[lane] = a0 ^ a3
    rng[2 * LANES + lane] = a2 ^ t
    rng[3 * LANES + lane] = (a3 << u64(45)) | (a3 >> u64(19))
    # The upper 52 bits as the fraction of a double in [1, 2).
    return bits_float(np.int64((r >> u64(12)) | u64(0x3FF0000000000000))) - 1.0


@kernel
def open_uniform(rng, lane):
    """An odd multiple of 2^-53, so in (0, 1): for logarithms and inverse distributions."""
    return uniform(rng, lane) + 1.1102230246251565e-16


@kernel
def exponential(rng, lane):
    """A standard exponential variate."""
    return -log(open_uniform(rng, lane))


@kernel
def inverse_root(x):
    """1/√x for a positive normal x, to an ulp or two: four Newton steps cost less than a division.

    The first guess halves and negates the exponent; its error, 3.5 %, squares with each step.
    """
    y = bits_float(0x5FE6EB50C7B537A9 - (float_bits(x) >> 1))
    half = 0.5 * x
    y = y * fma(-half * y, y, 1.5)
    y = y * fma(-half * y, y, 1.5)
    y = y * fma(-half * y, y, 1.5)
    return y * fma(-half * y, y, 1.5)


@kernel
def _turn(u):
    """cos and sin of 2πu for u in [0, 1), without a branch; errors below 2 ulp of 1."""
    quarter = np.floor(4.0 * u + 0.5)
    r = fma(-0.25, quarter, u)  # exact, in [−1/8, 1/8]
    z = r * r
    # Taylor's series of sin 2πr / r and of cos 2πr.
    s = fma(z, -0.7181223017785006, 3.8199525848482822)
    s = fma(s, z, -15.094642576822984)
    s = fma(s, z, 42.058693944897655)
    s = fma(s, z, -76.70585975306136)
    s = fma(s, z, 81.60524927607504)
    s = fma(s, z, -41.341702240399755)
    s = fma(s, z, 6.283185307179586) * r
    c = fma(z, 0.28200596845579097, -1.7143907110886783)
    c = fma(c, z, 7.903536371318467)
    c = fma(c, z, -26.4262567833744)
    c = fma(c, z, 60.24464137187666)
    c = fma(c, z, -85.45681720669373)
    c = fma(c, z, 64.93939402266829)
    c = fma(c, z, -19.739208802178716)
    c = fma(c, z, 1.0)
    odd = (quarter == 1.0) | (quarter == 3.0)
    cosine, sine = (s if odd else c), (c if odd else s)
    cosine = -cosine if (quarter == 1.0) | (quarter == 2.0) else cosine
    sine = -sine if (quarter == 2.0) | (quarter == 3.0) else sine
    return cosine, sine


@kernel
def normal_pair(rng, lane):
    """Two independent standard normal variates (Box and Muller 1958)."""
    square = -2.0 * log(open_uniform(rng, lane))  # in [2^-52, 74]: odd multiples of 2^-53
    radius = square * inverse_root(square)
    cosine, sine = _turn(uniform(rng, lane))
    return radius * cosine, radius * sine


@kernel
def normal(rng, lane):
    """A standard normal variate."""
    x, _ = normal_pair(rng, lane)
    return x


@kernel
def _cube(shape, x):
    """The candidate of Marsaglia and Tsang (2000): d, s = x/√(9d), and (1 + s)³."""
    d = shape - 0.3333333333333333
    s = x * inverse_root(9.0 * d)
    root = 1.0 + s
    return d, s, root * root * root


@kernel
def _surely(d, s, u):
    """Whether a candidate is accepted for certain, without a logarithm.

    It is accepted when ln u < 3d·(ln(1 + s) − s + s²/2 − s³/3), and the bracket is at least
    −s⁴/(4(1 − |s|)), so at least −s⁴/2 for |s| ≤ 1/2.
    """
    return (abs(s) <= 0.5) & (u < 1.0 - 1.5 * d * (s * s) * (s * s))


@kernel
def _small(shape):
    """Whether a gamma variate of this shape is made without a rejection."""
    return (shape == 0.5) | (shape == 1.0) | (shape == 1.5)


@kernel
def _tried(shape, x, u):
    """Whether (x, u), a normal and a uniform number, make a gamma variate, and which.

    Shapes of arms that have hardly been pulled, whose candidates are rejected most often, have
    variates of their own: half a squared normal number (shape ½), an exponential one (1), or their
    sum (3/2). For 1,000 arms Thompson sampling takes little more than half the time with them.
    """
    d, s, v = _cube(shape, x)
    level, square = -log(u), 0.5 * x * x
    accepted = (s > -1.0) & (-level < square + d * (1.0 - v + log(v)))
    direct = square if shape == 0.5 else (level if shape == 1.0 else square + level)
    return _small(shape) | accepted, direct if _small(shape) else d * v


@routine
def _settled(rng, lane, shape, x, u):
    """The gamma variate that follows from a first candidate (x, u) not surely accepted."""
    while True:
        done, variate = _tried(shape, x, u)
        if done:
            return variate
        x = normal(rng, lane)
        u = open_uniform(rng, lane)


@kernel
def gamma(rng, lane, shape):
    """A standard gamma variate of shape > 1/3 (Marsaglia and Tsang 2000).

    The paper asks for shape ≥ 1, but its bound ln v − v + 1 ≤ −x²/(2d) does not depend on d.
    """
    x = normal(rng, lane)
    return _settled(rng, lane, shape, x, open_uniform(rng, lane))


@kernel
def log_gamma_variate(rng, lane, shape):
    """ln of a gamma variate of any shape > 0: one of small shape may itself underflow.

    Γ(a) = Γ(a + 1) U^(1/a) in law.
    """
    return log(gamma(rng, lane, shape + 1.0)) - exponential(rng, lane) / shape


@routine
def beta(rng, lane, a, b):
    """A Beta(a, b) variate, X/(X + Y) for gamma variates X and Y; a = 0 gives 0, b = 0 gives 1."""
    if (a >= 0.5) & (b >= 0.5):
        x = gamma(rng, lane, a)
        return x / (x + gamma(rng, lane, b))
    if (a == 0.0) | (b == 0.0):
        return 0.0 if a == 0.0 else 1.0
    x = log_gamma_variate(rng, lane, a)
    return 1.0 / (1.0 + exp(log_gamma_variate(rng, lane, b) - x))


@routine
def betas(rng, a, b, out, x, y, u, v, sure):
    """A Beta(a, b) variate for every lane, as `beta` makes them; x … sure are scratch."""
    wide()
    for lane in range(LANES):
        x[lane], y[lane] = normal_pair(rng, lane)
    for lane in range(LANES):
        u[lane], v[lane] = open_uniform(rng, lane), open_uniform(rng, lane)
    for lane in range(LANES):
        # A shape of 1/2 stands in where the lane is done on its own afterwards.
        common = (a[lane] >= 0.5) & (b[lane] >= 0.5)
        d, s, cube = _cube(a[lane] if common else 0.5, x[lane])
        e, r, other = _cube(b[lane] if common else 0.5, y[lane])
        first, second = d * cube, e * other
        out[lane] = first / (first + second)
        yes = common & _surely(d, s, u[lane]) & _surely(e, r, v[lane])
        yes &= not (_small(a[lane]) | _small(b[lane]))
        sure[lane] = 1.0 if yes else 0.0
    left = 0.0
    for lane in range(LANES):
        left += 1.0 - sure[lane]
    if left > FEW:
        for lane in range(LANES):
            common = (a[lane] >= 0.5) & (b[lane] >= 0.5)
            one, first = _tried(a[lane] if common else 0.5, x[lane], u[lane])
            two, second = _tried(b[lane] if common else 0.5, y[lane], v[lane])
            out[lane] = first / (first + second)
            sure[lane] = 1.0 if common & one & two else 0.0
    for lane in range(LANES):
        if sure[lane] == 0.0:
            if (a[lane] >= 0.5) & (b[lane] >= 0.5):
                first = _settled(rng, lane, a[lane], x[lane], u[lane])
                out[lane] = first / (first + _settled(rng, lane, b[lane], y[lane], v[lane]))
            else:
                out[lane] = beta(rng, lane, a[lane], b[lane])
