"""The laws of the draws: a geometry (the divergence), and whether F is explicit or integrated."""

import math
from typing import Final, NamedTuple

import numpy as np

from ...compiled import fma, kernel, routine
from ...numeric import exp, expm1, log, log1p, phi

#: Stands for an infinite mode.
FAR: Final = 1e300
#: Half of a draw of ExpTS lies below its mean, as far as e^(−38/mean): that has to be a number. A
#: mean below this, other than 0, counts as this.
TINIEST: Final = 1e-280


# A law is its geometry, plus EXPLICIT where F is explicit.
LOGISTIC: Final = 0
QUADRATIC: Final = 1
EXTREME: Final = 2
GEOMETRY: Final = 3
EXPLICIT: Final = 4

BETA: Final = LOGISTIC
GAUSSIAN: Final = QUADRATIC
GUMBEL: Final = EXTREME + EXPLICIT
EXPONENTIAL: Final = LOGISTIC + EXPLICIT
RAYLEIGH: Final = QUADRATIC + EXPLICIT


class Law(NamedTuple):
    """A family of laws: its code in compiled code, and what the rows of its parameters are."""

    code: int
    parameters: tuple[str, ...]


LAWS: Final = {
    # Beta(α, β); α = 0 is an atom at 0, β = 0 one at 1.
    "beta": Law(BETA, ("alpha", "beta")),
    # N(mean, sd²) cut off at `clip` ≥ mean (∞: not), with an atom there: MOTS.
    "gaussian": Law(GAUSSIAN, ("mean", "sd", "clip")),
    # exp(−e^−y), y = (z − location)/scale: Boltzmann-Gumbel exploration.
    "gumbel": Law(GUMBEL, ("location", "scale")),
    # With probability `weight` the law ½exp(−(N − 1)·kl(mean, x)), on both sides of the mean, of
    # ExpTS; else the mean itself, as in ExpTS+. N and the mean come as N·mean and N·(1 − mean):
    # 1 − mean would have lost digits where the mean is near 1.
    "exponential": Law(EXPONENTIAL, ("successes", "failures", "weight")),
    # The two-sided Rayleigh law ½exp(−(x−mean)²/(2·scale²)) of MOTS-J, cut off at `clip`.
    "rayleigh": Law(RAYLEIGH, ("mean", "scale", "clip")),
}

# Rows of the workspace, which has one column per arm still in play.
ARM: Final = 0  # whose column this is
WANTED: Final = 1  # whether the arm's own integral is asked for; 2 once its window is in the grid
WIN: Final = 2  # the integral so far
MODE: Final = 3
COUNT: Final = 4  # n, the factor of the divergence
RARE: Final = 5  # min(p, 1−p) for p = σ(mode)
SIDE: Final = 6  # +1 where p ≤ ½, else −1
PEAK: Final = 7  # ln f(mode)
MIX: Final = 8  # weight of the continuous part of an exponential law
CLIP: Final = 9
LOW: Final = 10  # the atoms at the two ends of the line
HIGH: Final = 11
BOUND: Final = 12  # the lowest value of G seen
RATE: Final = 13  # λ = f/F at the left edge of the panel; 0 where it underflows
TILT: Final = 14  # ln(f/F) there, without the factor |E′| that a two-sided density has
AT: Final = 15  # energy, slope and curvature there
NEXT: Final = 18  # and at the right edge
GAIN: Final = 21  # F(right edge)/F(left edge); at an atom, its mass over F
SHARE: Final = 22  # at an atom, its mass over F times Π F
ROWS: Final = 23

ENERGY: Final = 0
SLOPE: Final = 1
CURVATURE: Final = 2


@kernel
def _stirling(x):
    """δ(x) = lnΓ(x) − (x−½)ln x + x − ½ln 2π."""
    shifted = x + 10.0 if x < 10.0 else x
    r = 1.0 / shifted
    s = r * r
    # Σ B_2k/(2k(2k−1))·x^(1−2k); the term after the last is 3e-17 at x = 10.
    series = fma(s, 1.0 / 156.0, -691.0 / 360360.0)
    series = fma(s, series, 1.0 / 1188.0)
    series = fma(s, series, -1.0 / 1680.0)
    series = fma(s, series, 1.0 / 1260.0)
    series = fma(s, series, -1.0 / 360.0)
    series = r * fma(s, series, 1.0 / 12.0)
    if x >= 10.0:
        return series
    # δ(x) − δ(x+10), arranged so that no large terms cancel; 4.54e-5 is e^−10.
    product = 4.5399929762484854e-05 * shifted / x
    for i in range(1, 10):
        product *= shifted / (x + i)
    return series + (x - 0.5) * log(shifted / x) + log(product)


@kernel
def expm1_taylor(t):
    """e^t − 1 − t for |t| ≤ 0.6, by Taylor's series to t^15: the next term is 7e-17 of the sum."""
    s = 1.0 / 1307674368000.0
    s = fma(s, t, 1.0 / 87178291200.0)
    s = fma(s, t, 1.0 / 6227020800.0)
    s = fma(s, t, 1.0 / 479001600.0)
    s = fma(s, t, 1.0 / 39916800.0)
    s = fma(s, t, 1.0 / 3628800.0)
    s = fma(s, t, 1.0 / 362880.0)
    s = fma(s, t, 1.0 / 40320.0)
    s = fma(s, t, 1.0 / 5040.0)
    s = fma(s, t, 1.0 / 720.0)
    s = fma(s, t, 1.0 / 120.0)
    s = fma(s, t, 1.0 / 24.0)
    s = fma(s, t, 1.0 / 6.0)
    s = fma(s, t, 0.5)
    return s * t * t


@kernel
def _expm1_rest(t):
    """e^t − 1 − t."""
    return expm1_taylor(t) if abs(t) <= 0.6 else expm1(t) - t


@kernel
def softplus(x):
    """ln(1 + e^x)."""
    return max(x, 0.0) + log1p(exp(-abs(x)))


@kernel
def sigmoid(x):
    """1/(1 + e^−x)."""
    e = exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@kernel
def _logistic(z, distance, rare, side):
    """Divergence of ln(1+e^z) from an origin, its slope and curvature in z; distance = z − origin.

    That is kl(p, σ(z)), σ(z) − p, σ(z)(1−σ(z)) with p = σ(origin), by whichever of p, 1−p is rare.
    """
    t = side * distance
    x = side * z
    e = exp(-abs(x))
    likely = 1.0 / (1.0 + e)
    curvature = e * likely * likely
    if t <= 1.0:
        y = rare * expm1(t)
        divergence = rare * _expm1_rest(t) - phi(y)
        slope = (1.0 - rare) * y / (1.0 + y)
    else:
        divergence = log1p(-rare) + max(x, 0.0) + log1p(e) - rare * t
        slope = (likely if x >= 0.0 else e * likely) - rare
    return divergence, side * slope, curvature


@kernel
def two_sided(law):
    """Whether F has a kink at the mode."""
    return law in (EXPONENTIAL, RAYLEIGH)


@kernel
def energy_of(law, z, state, b):
    """E_b(z), its slope and its curvature."""
    n, d = state[COUNT, b], z - state[MODE, b]
    if law & GEOMETRY == LOGISTIC:
        divergence, slope, curvature = _logistic(z, d, state[RARE, b], state[SIDE, b])
        return n * divergence, n * slope, n * curvature
    if law & GEOMETRY == QUADRATIC:
        return 0.5 * n * d * d, n * d, n
    y = n * d
    return _expm1_rest(-y), -n * expm1(-y), n * n * exp(-y)


@routine
def measure_energies(law, z, state, arms, row):
    """Energy, slope and curvature of every arm at z, into three rows of the workspace."""
    for b in range(arms):
        energy, slope, curvature = energy_of(law, z, state, b)
        state[row + ENERGY, b] = energy
        state[row + SLOPE, b] = slope
        state[row + CURVATURE, b] = curvature


@routine
def prepare_laws(law, parameters, state):
    """Each arm's law in the workspace's terms; returns whether all of it is a number."""
    sound = True
    for b in range(parameters.shape[1]):
        state[ARM, b] = b
        state[WIN, b] = 0.0
        state[RARE, b] = 0.5
        state[SIDE, b] = 1.0
        state[PEAK, b] = 0.0
        state[MIX, b] = 1.0
        state[CLIP, b] = np.inf
        state[LOW, b] = 0.0
        state[HIGH, b] = 0.0
        state[BOUND, b] = np.inf
        first, second = parameters[0, b], parameters[1, b]
        if law == BETA:
            n = first + second
            state[COUNT, b] = n
            state[SIDE, b] = 1.0 if first <= second else -1.0
            state[RARE, b] = min(first, second) / n
            if first == 0.0:
                state[LOW, b], state[MODE, b] = 1.0, -FAR
            elif second == 0.0:
                state[HIGH, b], state[MODE, b] = 1.0, FAR
            else:
                state[MODE, b] = log(first / second)
                # B(α, β) by Stirling's formula: the terms of order n cancel on paper.
                state[PEAK, b] = 0.5 * log(first / n * second / (2.0 * math.pi)) + (
                    _stirling(n) - _stirling(first) - _stirling(second)
                )
        elif law == EXPONENTIAL:
            n, weight = first + second, parameters[2, b]
            sound = sound and n > 0.0  # an arm without pulls has no such law
            state[COUNT, b] = n - 1.0
            state[SIDE, b] = 1.0 if first <= second else -1.0
            state[RARE, b] = min(max(first, n * TINIEST), second) / n if first > 0.0 else 0.0
            state[MIX, b] = weight
            if first == 0.0:
                state[MODE, b] = -FAR
            elif second == 0.0:
                state[MODE, b] = FAR
            else:
                state[MODE, b] = log(max(first, n * TINIEST) / second)
            if first == 0.0 or n == 1.0:
                state[LOW, b] = 0.5 * weight + (1.0 - weight if first == 0.0 else 0.0)
            if second == 0.0 or n == 1.0:
                state[HIGH, b] = 0.5 * weight + (1.0 - weight if second == 0.0 else 0.0)
        elif law == GUMBEL:
            state[MODE, b] = first
            state[COUNT, b] = 1.0 / second
        else:
            state[MODE, b] = first
            state[COUNT, b] = 1.0 / second / second
            state[PEAK, b] = -0.5 * log(2.0 * math.pi) - log(second)
            state[CLIP, b] = parameters[2, b]
        known = abs(state[MODE, b]) + state[COUNT, b] + state[RARE, b] + abs(state[PEAK, b])
        sound = sound and known + state[MIX, b] < np.inf and state[CLIP, b] >= state[MODE, b]
    return sound
