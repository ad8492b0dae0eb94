"""Exact P(arm a has the largest draw) for independent draws θ_b ~ law_b, all arms in one sweep.

    P_a = ∫ f_a Π_{b≠a} F_b = ∫ λ_a Π_b F_b,    λ_b = f_b/F_b = (ln F_b)′

A grid of panels common to all arms runs from left to right. On a panel everything is kept relative
to its left edge l: the densities f_b/f_b(l) at 32 Gauss-Legendre nodes cost one exponential each; a
fixed matrix integrates them to F_b/F_b(l) (no incomplete beta function anywhere: sums of positive
terms keep the *relative* accuracy of F_b far in its left tail); and ln Π F_b(l) is one number. So
nothing underflows, and the same sweep gives ln P of an arm whose P is 10^-100000.

The coordinate z is one in which the laws are smooth and log-concave: logit θ for laws on [0, 1],
else θ. Up to a constant −ln f_b(z) is an *energy* E_b(z) = n_b·D(z, mode_b) ≥ 0, D a Bregman
divergence, so that on a panel E_b(l + u) = E_b(l) + E_b′(l)·u + n_b·D(l + u, l): the part that is
expensive is common to all arms. (For Beta(α, β), n = α + β and D(z, logit p) = kl(p, σ(z)).) The
two-sided laws of ExpTS and MOTS-J have energies too: F = ½e^−E left of the mode, 1 − ½e^−E right.

Where the grid begins. Let V(z) be the sum of E_b(z) over the arms with z < mode_b, and
G_a = V + E_a·1{z > mode_a}, a convex function. By log-concavity F_b(L)/F_b(z) is at most
exp(E_b(z) − E_b(L)) left of the mode, so for any z > L

    ∫_{−∞}^L f_a Π_{b≠a} F_b ≤ Π_{b≠a} F_b(L)·F_a(L) ≤ Π_{b≠a} F_b(z)·exp(V(z) − V(L)),
    P_a ≥ Π_{b≠a} F_b(z)·P(θ_a > z),    P(θ_a > z) ≈ exp(−E_a(z)),

and what lies to the left of L is negligible for arm a as soon as G_a(L) ≥ min G_a + 38.

Against integrals in 40 digits the relative error is a few 1e-13 at worst, up to a million pulls.
Beyond, the rounding of the modes shows: half an ulp of one is 4e-12 of a small P at 2·10⁷ pulls.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from ..compiled import build, fma, kernel, routine
from ..numeric import NAN, _log1p_rest, exp, expm1, log, log1p, phi

# --------------------------------------------------------------------------------------------------
# Nodes of a panel, on [0, 1]

NODES: Final = 32

# The left half of the Gauss-Legendre rule; NumPy's own weights are wrong by 6e-14 near the ends.
_LEFT_ABSCISSAE: Final = (
    0.0013680690752592183, 0.007194244227365833, 0.017618872206246784, 0.03254696203113015,
    0.05183942211697394, 0.07531619313371501, 0.1027581020160288, 0.13390894062985517,
    0.1684778665348924, 0.20614212137961885, 0.2465500455338853, 0.2893243619346823,
    0.33406569885893617, 0.38035631887393145, 0.42776401920860174, 0.4758461671561308,
)  # fmt: skip
_LEFT_WEIGHTS: Final = (
    0.003509305004735048, 0.008137197365452835, 0.01269603265463103, 0.017136931456510716,
    0.02141794901111334, 0.025499029631188087, 0.029342046739267772, 0.032911111388180925,
    0.03617289705442425, 0.039096947893535156, 0.041655962113473374, 0.043826046502201906,
    0.045586939347881945, 0.04692219954040228, 0.04781936003963743, 0.0482700442573639,
)  # fmt: skip


def _panel() -> tuple[Any, Any, Any]:
    """Abscissae x and weights w on [0, 1], and M with M[k, j] = ∫_0^{x_j} ℓ_k (ℓ: Lagrange)."""
    left, w = np.array(_LEFT_ABSCISSAE), np.array(_LEFT_WEIGHTS)
    x, w = np.append(left, 1.0 - left[::-1]), np.append(w, w[::-1])
    p = np.polynomial.legendre.legvander(2.0 * x - 1.0, NODES + 1)
    # ℓ_k = w_k·Σ_m (2m+1)·P_m(x_k)·P_m  and  ∫_0^x P_m = (P_{m+1} − P_{m−1})/(2(2m + 1)).
    integrals = np.empty((NODES, NODES))
    integrals[:, 0] = 2.0 * x
    integrals[:, 1:] = p[:, 2 : NODES + 1] - p[:, : NODES - 1]
    return x, w, np.ascontiguousarray(w[:, None] * (p[:, :NODES] @ integrals.T)) / 2.0


ABSCISSAE, WEIGHTS, CUMULATE = _panel()

# A panel is as wide as 32 nodes can bear; halving these changes results by rounding only.
# A density that rises by e^10 leaves 2e-16·e^10 of relative error in F at the left-most nodes; one
# that falls has only to be resolved; a bell may be 4 standard deviations wide; and the product of
# all F_b, which is integrated exactly up to degree 63, may grow by e^20.
RISE: Final = 10.0
FALL: Final = 24.0
STEEP_FALL: Final = 12.0  # of Gumbel laws, whose F grows as the exponential of an exponential
WIDTH: Final = 4.0
GROWTH: Final = 20.0

#: What is e^-38 = 3e-17 of the whole, before factors of order one, no longer counts.
NEGLIGIBLE: Final = 38.0
FAINT: Final = 3e-16
#: An arm with P < e^-600 < 1e-250 is reported as 0; `log_probability` has its logarithm.
LEAST: Final = 600.0
#: Stands for an infinite mode.
FAR: Final = 1e300
#: Half of a draw of ExpTS lies below its mean, as far as e^(−38/mean): that has to be a number. A
#: mean below this, other than 0, counts as this.
TINIEST: Final = 1e-280

# --------------------------------------------------------------------------------------------------
# Laws: a geometry (the divergence), and whether F is explicit or integrated from f.

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
def _expm1_taylor(t):
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
    return _expm1_taylor(t) if abs(t) <= 0.6 else expm1(t) - t


@kernel
def _softplus(x):
    """ln(1 + e^x)."""
    return max(x, 0.0) + log1p(exp(-abs(x)))


@kernel
def _sigmoid(x):
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
def _two_sided(law):
    """Whether F has a kink at the mode."""
    return law in (EXPONENTIAL, RAYLEIGH)


@kernel
def _energy(law, z, state, b):
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
def _measure(law, z, state, arms, row):
    """Energy, slope and curvature of every arm at z, into three rows of the workspace."""
    for b in range(arms):
        energy, slope, curvature = _energy(law, z, state, b)
        state[row + ENERGY, b] = energy
        state[row + SLOPE, b] = slope
        state[row + CURVATURE, b] = curvature


@routine
def _prepare(law, parameters, state):
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


# --------------------------------------------------------------------------------------------------
# Where the grid begins


@routine
def _survey(law, z, state, arms, focus):
    """G, its slope and curvature for arm `focus` at z; every arm's bound on min G is updated."""
    _measure(law, z, state, arms, NEXT)
    height = 0.0
    slope = 0.0
    curvature = 0.0
    for b in range(arms):
        if state[MODE, b] >= z or b == focus:
            slope += state[NEXT + SLOPE, b]
            curvature += state[NEXT + CURVATURE, b]
        if state[MODE, b] >= z:
            height += state[NEXT + ENERGY, b]
    for b in range(arms):
        own = state[NEXT + ENERGY, b] if state[MODE, b] < z else 0.0
        if z <= state[CLIP, b]:
            state[BOUND, b] = min(state[BOUND, b], height + own)
    own = state[NEXT + ENERGY, focus] if state[MODE, focus] < z else 0.0
    return height + own, slope, curvature


@routine
def _lowest(law, state, arms, focus, low, high):
    """A point where G of arm `focus` is within ½ of its minimum, by safeguarded Newton steps."""
    z = high
    _, slope, curvature = _survey(law, z, state, arms, focus)
    for i in range(100):
        if slope * slope <= curvature < np.inf or low >= high:
            break
        if slope > 0.0:
            high = z
        else:
            low = z
        z = z - slope / curvature
        # Newton's steps are short where E grows exponentially: every third one is a bisection.
        if i % 3 == 2 or not low < z < high:
            z = 0.5 * (low + high)
        _, slope, curvature = _survey(law, z, state, arms, focus)
    return z


@routine
def _descend(law, state, arms, focus, z, edge):
    """A point to the left of z where G has risen enough: longer and longer steps, then halves."""
    _, slope, curvature = _survey(law, z, state, arms, focus)
    level = state[BOUND, focus] + NEGLIGIBLE
    inside = z
    outside = -np.inf
    step = min(_reach(law, z), np.sqrt(2.0 * NEGLIGIBLE / curvature))
    for _ in range(300):
        z = inside - step if outside == -np.inf else 0.5 * (inside + outside)
        height, slope, curvature = _survey(law, z, state, arms, focus)
        if height < level and (z > -edge or slope < 0.0):
            inside = z
            step *= 1.5 if step < 1e6 else 1e3  # a mean near 0 reaches as far as its reciprocal
        elif height > level + 12.0:
            outside = z
        else:
            break
    return z


@routine
def _unseen(law, begin, state, arms):
    """The wanted arm whose window is least certain to lie to the right of `begin`, or −1."""
    _survey(law, begin, state, arms, 0)
    barrier = 0.0
    fall = 0.0
    for b in range(arms):
        if state[MODE, b] >= begin:
            barrier += state[NEXT + ENERGY, b]
            fall -= state[NEXT + SLOPE, b]
    focus = -1
    worst = 0.0
    for b in range(arms):
        if state[WANTED, b] == 1.0:
            lack = state[BOUND, b] + NEGLIGIBLE - barrier
            if state[MODE, b] < begin and state[NEXT + SLOPE, b] > fall:
                lack = max(lack, 1.0)  # G still falls to the left
            elif state[MODE, b] < begin:
                lack -= state[NEXT + ENERGY, b]
            if lack > worst:
                focus, worst = b, lack
    return focus


@routine
def _begin(law, state, arms, top, edge, least):
    """The left end L of the grid; arms that cannot win (P < e^−least) stop being wanted."""
    begin = top
    focus = _unseen(law, begin, state, arms)
    while focus >= 0:
        low = max(min(state[MODE, focus], top), -edge)
        z = _lowest(law, state, arms, focus, low, max(low, min(top, state[CLIP, focus])))
        if state[BOUND, focus] <= least:
            state[WANTED, focus] = 2.0
            begin = min(begin, _descend(law, state, arms, focus, z, edge))
        else:
            state[WANTED, focus] = 0.0
        focus = _unseen(law, begin, state, arms)
    return begin


@kernel
def _reach(law, z):
    """How wide a panel may be for the divergence's singularities, at ±iπ of a logistic law."""
    if law & GEOMETRY != LOGISTIC:
        return np.inf
    return max(4.0, 1.5 * z if z > 0.0 else -0.6 * z)


@kernel
def _spread(law, z, step, shared):
    """At the nodes of [z, z + step]: the divergence of the geometry from z, and its slope."""
    if law & GEOMETRY == LOGISTIC:
        side = 1.0 if z <= 0.0 else -1.0
        rare = _sigmoid(-abs(z))
        if abs(step) <= 0.6:
            # As in _logistic, whose y is here within the reach of the logarithm's polynomial.
            for j in range(NODES):
                t = side * (step * ABSCISSAE[j])
                rest = _expm1_taylor(t)
                y = rare * (t + rest)
                shared[0, j] = rare * rest - _log1p_rest(y)
                shared[1, j] = side * (1.0 - rare) * (y / (1.0 + y))
        else:
            # Wide panels are those of small counts, for which this absolute error is small.
            for j in range(NODES):
                t = side * (step * ABSCISSAE[j])
                shared[0, j] = (log1p(-rare) - rare * t) + _softplus(side * z + t)
                shared[1, j] = side * (_sigmoid(side * z + t) - rare)
    elif law & GEOMETRY == QUADRATIC:
        for j in range(NODES):
            u = step * ABSCISSAE[j]
            shared[0, j] = 0.5 * u * u
            shared[1, j] = u


@kernel
def _densities(slope, n, step, shared, f):
    """f(z + step·x_j)/f(z) for one arm, by E(z + u) = E(z) + E′(z)·u + n·D(z + u, z)."""
    for j in range(NODES):
        f[j] = exp(-fma(slope, step * ABSCISSAE[j], n * shared[0, j]))


@kernel
def _weighted(f):
    """Σ w_j f_j in eight strands."""
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    s4 = 0.0
    s5 = 0.0
    s6 = 0.0
    s7 = 0.0
    for j in range(0, NODES, 8):
        s0 += WEIGHTS[j] * f[j]
        s1 += WEIGHTS[j + 1] * f[j + 1]
        s2 += WEIGHTS[j + 2] * f[j + 2]
        s3 += WEIGHTS[j + 3] * f[j + 3]
        s4 += WEIGHTS[j + 4] * f[j + 4]
        s5 += WEIGHTS[j + 5] * f[j + 5]
        s6 += WEIGHTS[j + 6] * f[j + 6]
        s7 += WEIGHTS[j + 7] * f[j + 7]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@kernel
def _cumulate(f, out):
    """out_j += ∫_0^{x_j} f: a 32×32 matrix product, eight columns at a time to spare stores."""
    for k in range(0, NODES, 8):
        f0, f1, f2, f3 = f[k], f[k + 1], f[k + 2], f[k + 3]
        f4, f5, f6, f7 = f[k + 4], f[k + 5], f[k + 6], f[k + 7]
        for j in range(NODES):
            even = fma(CUMULATE[k, j], f0, CUMULATE[k + 2, j] * f2)
            even = fma(CUMULATE[k + 6, j], f6, fma(CUMULATE[k + 4, j], f4, even))
            odd = fma(CUMULATE[k + 1, j], f1, fma(CUMULATE[k + 3, j], f3, out[j]))
            odd = fma(CUMULATE[k + 7, j], f7, fma(CUMULATE[k + 5, j], f5, odd))
            out[j] = even + odd


@routine
def _tail(law, z, direction, state, b, shared, f):
    """∫_0^∞ f(z ± t)/f(z) dt away from the mode, by panels over which f falls by e^-40 to e^-70.

    Only the integral is asked for here, so that a panel may be wider than those of the sweep.
    """
    n = state[COUNT, b]
    energy, slope, curvature = _energy(law, z, state, b)
    fallen = 0.0
    total = 0.0
    while fallen < NEGLIGIBLE:
        steep = abs(slope)
        step = 90.0 / (steep + np.sqrt(steep * steep + 90.0 * curvature))
        step = direction * min(step, _reach(law, direction * z))
        after, slope_after, curvature = _energy(law, z + step, state, b)
        while after - energy > 70.0:
            step *= 0.7
            after, slope_after, curvature = _energy(law, z + step, state, b)
        _spread(law, z, step, shared)
        _densities(slope, n, step, shared, f)
        total += exp(-fallen) * abs(step) * _weighted(f)
        fallen += after - energy
        z += step
        energy, slope = after, slope_after
    return total


@kernel
def _explicit(law, z, state, b):
    """RATE and TILT of a law whose F is explicit, from the rows AT; returns ln F(z)."""
    if law == GUMBEL:
        y = state[COUNT, b] * (z - state[MODE, b])
        state[TILT, b] = log(state[COUNT, b]) - y
        state[RATE, b] = exp(state[TILT, b])
        return -exp(-y)
    energy, slope = state[AT + ENERGY, b], state[AT + SLOPE, b]
    half = 0.5 * state[MIX, b]
    left = z < state[MODE, b]
    below = log(half) - energy if left else log1p(-half * exp(-energy))
    state[TILT, b] = 0.0 if left else log(half) - energy - below
    state[RATE, b] = abs(slope) * exp(state[TILT, b])
    return below


@kernel
def _cut(state, b):
    """F = 1 from here on, and nothing is left to integrate."""
    state[RATE, b] = 0.0
    state[TILT, b] = -np.inf
    state[AT + SLOPE, b] = np.inf


@routine
def _start(law, z, state, arms, shared, f):
    """RATE and TILT at z for every arm, from the rows AT; returns ln Π F_b(z)."""
    whole = 0.0
    for b in range(arms):
        level = state[PEAK, b] - state[AT + ENERGY, b]
        if z >= state[CLIP, b]:
            _cut(state, b)
        elif law >= EXPLICIT:
            whole += _explicit(law, z, state, b)
        else:
            if z < state[MODE, b]:
                below = level + log(_tail(law, z, -1.0, state, b, shared, f))
            else:
                below = log1p(-exp(level) * _tail(law, z, 1.0, state, b, shared, f))
            state[TILT, b] = level - below
            state[RATE, b] = exp(level - below)
            whole += below
    return whole


# --------------------------------------------------------------------------------------------------
# The sweep


@routine
def _width(law, z, state, arms):
    """A first proposal for the width of the panel that begins at z."""
    width = _reach(law, z)
    fall = STEEP_FALL if law == GUMBEL else FALL
    total = 0.0
    for b in range(arms):
        slope, curvature = state[AT + SLOPE, b], state[AT + CURVATURE, b]
        if slope < 0.0:
            width = min(width, -RISE / slope)
        else:
            root = np.sqrt(slope * slope + 4.0 * fall * curvature)
            width = min(width, 2.0 * fall / (slope + root))
        width = min(width, WIDTH / np.sqrt(curvature))
        rate = state[RATE, b]
        if _two_sided(law) and 0.0 <= slope < np.sqrt(curvature):
            # λ still grows to the right of a two-sided law's mode: to max s·τ/(1−τ) = 0.457 per
            # standard deviation, where τ = ½e^(−s²/2).
            rate = max(rate, 0.457 * np.sqrt(curvature))
        total += rate
    return min(width, GROWTH / total)


@routine
def _border(law, z, state, arms):
    """The next point where some F is not smooth: a two-sided law's mode, or a clip."""
    border = np.inf
    for b in range(arms):
        if _two_sided(law) and state[MODE, b] > z:
            border = min(border, state[MODE, b])
        if state[CLIP, b] > z:
            border = min(border, state[CLIP, b])
    return border


@routine
def _too_wide(width, state, arms):
    """Whether slopes at both ends say that a density changes too much within the panel."""
    for b in range(arms):
        left, right = state[AT + SLOPE, b], state[NEXT + SLOPE, b]
        wide = (right - left) * width > WIDTH * WIDTH
        if wide or -left * width > RISE * 1.01 or right * width > FALL * 1.01:
            return True
    return False


@routine
def _panel_of(law, z, step, state, arms, shared, f, shares, product):
    """A panel's F_b/F_b(z) multiplied up over the arms, and each arm's λ_b/e^TILT, at the nodes."""
    for j in range(NODES):
        product[j] = 1.0
    _spread(law, z, step, shared)
    for b in range(arms):
        n, slope = state[COUNT, b], state[AT + SLOPE, b]
        ratio = shares[b]
        if law == GUMBEL:
            # Here ln F(z)/F(z + u) = e^−y·(e^−nu − 1), and λ = n·e^−y·e^−nu.
            thick = state[RATE, b] / n
            state[GAIN, b] = exp(-thick * expm1(-n * step))
            for j in range(NODES):
                change = expm1(-n * (step * ABSCISSAE[j]))
                product[j] *= exp(-thick * change)
                ratio[j] = 1.0 + change
            continue
        _densities(slope, n, step, shared, f)
        if law < EXPLICIT:
            rate = state[RATE, b] * step
            state[GAIN, b] = 1.0 + rate * _weighted(f)
            for j in range(NODES):
                ratio[j] = 0.0
            _cumulate(f, ratio)
            for j in range(NODES):
                grown = fma(rate, ratio[j], 1.0)
                product[j] *= grown
                ratio[j] = f[j] / grown
        elif z < state[MODE, b]:
            state[GAIN, b] = exp(state[AT + ENERGY, b] - state[NEXT + ENERGY, b])
            for j in range(NODES):
                product[j] *= f[j]
                ratio[j] = abs(slope + n * shared[1, j])
        else:
            tail = 0.5 * state[MIX, b] * exp(-state[AT + ENERGY, b])
            end = 0.5 * state[MIX, b] * exp(-state[NEXT + ENERGY, b])
            state[GAIN, b] = (1.0 - end) / (1.0 - tail)
            for j in range(NODES):
                grown = (1.0 - tail * f[j]) / (1.0 - tail)
                product[j] *= grown
                ratio[j] = (slope + n * shared[1, j]) * f[j] / grown


@routine
def _atoms(state, arms):
    """Add the wins at one point by atoms of mass GAIN relative to F just before it.

    All of them together are one panel of unit length on which F_b grows linearly, so that they
    share a tie uniformly. Π(1 + g_b s) is a polynomial: 32 nodes integrate it exactly up to 64
    atoms, and beyond on pieces over which it grows by at most about e^20.
    """
    right = 1.0
    while right > 0.0:
        steep = 0.0
        for b in range(arms):
            steep += state[GAIN, b] / (1.0 + state[GAIN, b] * right)
        left = max(0.0, right - min(1.0, GROWTH / steep)) if arms > 64 else 0.0
        for j in range(NODES):
            s = left + (right - left) * ABSCISSAE[j]
            weight = (right - left) * WEIGHTS[j]
            for b in range(arms):
                weight *= 1.0 + state[GAIN, b] * s
            for b in range(arms):
                if state[WANTED, b] > 0.0:
                    state[WIN, b] += state[SHARE, b] * weight / (1.0 + state[GAIN, b] * s)
        right = left


@routine
def _borders(law, z, state, arms, height, shared, f):
    """What changes at z for laws with atoms or a kink there; returns the change of ln Π F."""
    mass = 0.0
    for b in range(arms):
        state[GAIN, b] = 0.0
        state[SHARE, b] = 0.0
        if z == state[CLIP, b]:
            rest = _tail(law, z, 1.0, state, b, shared, f) if law == GAUSSIAN else 1.0
            state[GAIN, b] = rest * exp(state[TILT, b])
            state[SHARE, b] = rest * exp(state[TILT, b] + height)
        elif law == EXPONENTIAL and z == state[MODE, b]:
            state[GAIN, b] = (1.0 - state[MIX, b]) / (0.5 * state[MIX, b])
            state[SHARE, b] = state[GAIN, b] * exp(height)
        mass += state[SHARE, b]
    change = 0.0
    if mass > 0.0:
        _atoms(state, arms)
        for b in range(arms):
            change += log1p(state[GAIN, b])
    for b in range(arms):
        if z >= state[CLIP, b]:
            _cut(state, b)
        elif law >= EXPLICIT:
            _explicit(law, z, state, b)
    return change


@routine
def _retire(law, state, arms, height, out):
    """Arms that are wholly to the left of the panel leave the workspace; returns who is left."""
    rates = 0.0
    for b in range(arms):
        rates += state[RATE, b]
    b = 0
    while b < arms:
        rate, slope = state[RATE, b], state[AT + SLOPE, b]
        # 1 − F_b < λ/slope, by concavity; likewise for what is left of its own integral.
        past = slope > 0.0 and rate <= FAINT * slope
        if past and state[WANTED, b] > 0.0:
            integrand = exp(state[TILT, b] + height) * (slope if _two_sided(law) else 1.0)
            decay = slope - (rates - rate)
            past = decay > 0.0 and not integrand > FAINT * state[WIN, b] * decay
        if past:
            out[int(state[ARM, b])] = state[WIN, b] if state[WANTED, b] > 0.0 else 0.0
            arms -= 1
            rates -= rate
            for row in range(ROWS):
                state[row, b] = state[row, arms]
        else:
            b += 1
    return arms


@routine
def _deterministic(state, arms, out):
    """Take out the arms that are certain to be 0 or 1; none is left where that decides all."""
    ones = 0
    zeros = 0
    for b in range(arms):
        out[b] = 0.0
        ones += state[HIGH, b] == 1.0
        zeros += state[LOW, b] == 1.0
    if ones > 0 or zeros == arms:
        for b in range(arms):
            certain = state[HIGH, b] == 1.0 if ones > 0 else True
            out[b] = 1.0 / (ones if ones > 0 else arms) if certain else 0.0
        return 0
    b = 0
    while b < arms:
        if state[LOW, b] == 1.0:
            arms -= 1
            for row in range(ROWS):
                state[row, b] = state[row, arms]
        else:
            b += 1
    return arms


@kernel
def argmax_probabilities(law, parameters, target, out):
    """All P_a into `out`; or, for an arm `target` ≥ 0, its ln P_target alone, however small.

    Returns ln P_target, or else the sum of all P_a as they were integrated, which is 1 but for the
    error: `out` is divided by it, for all have the error of Π F_b where the grid begins in common.
    """
    arms = parameters.shape[1]
    state = np.empty((ROWS, arms))
    shares = np.empty((arms, NODES))
    scratch = np.empty((4, NODES))
    shared, f, product = scratch[:2], scratch[2], scratch[3]
    sound = _prepare(law, parameters, state)
    if not sound:
        for b in range(arms):
            out[b] = NAN
        return NAN
    arms = _deterministic(state, arms, out)
    if arms == 0:
        return 1.0 if target < 0 else log(out[target])
    for b in range(arms):
        state[WANTED, b] = 1.0 if target < 0 or state[ARM, b] == target else 0.0
    top = -FAR
    total = 0.0
    farthest = 0.0
    for b in range(arms):
        top = max(top, state[MODE, b])
        total += state[COUNT, b]
        farthest = max(farthest, abs(state[MODE, b]) if abs(state[MODE, b]) < FAR else 0.0)
    # To the right of `edge` a two-sided law on [0, 1] has no mass left but its atoms, and to the
    # left of −edge there is no mode: a mean may be as small as the smallest double.
    edge = max(NEGLIGIBLE + log1p(total), farthest + 1.0) if law == EXPONENTIAL else FAR
    top = max(-edge, min(edge, top))
    z = _begin(law, state, arms, top, edge, LEAST if target < 0 else np.inf)
    shift = 0.0
    for b in range(arms):
        if state[ARM, b] == target:
            shift = state[BOUND, b]
    _measure(law, z, state, arms, AT)
    height = _start(law, z, state, arms, shared, f) + shift
    # All draws at the left end of the line: a tie of all arms.
    low = shift
    for b in range(arms):
        low += log(state[LOW, b])
    for b in range(arms):
        state[WIN, b] = exp(low) / arms
    while True:
        arms = _retire(law, state, arms, height, out)
        wanted = 0.0
        for b in range(arms):
            if z < edge or state[HIGH, b] == 0.0:
                wanted += state[WANTED, b]
        if wanted == 0.0:
            break
        width = _width(law, z, state, arms)
        border = np.inf if law == BETA else _border(law, z, state, arms)
        while True:
            r = min(z + width, border)
            _measure(law, r, state, arms, NEXT)
            width = r - z
            if not _too_wide(width, state, arms):
                break
            width *= 0.75
        _panel_of(law, z, width, state, arms, shared, f, shares, product)
        for b in range(arms):
            if state[WANTED, b] > 0.0:
                for j in range(NODES):
                    shares[b, j] *= product[j]
                weight = width * exp(state[TILT, b] + height)
                state[WIN, b] += weight * _weighted(shares[b])
        z = r
        grown = 0.0
        for b in range(arms):
            gain = log(state[GAIN, b])
            grown += gain
            state[TILT, b] += state[AT + ENERGY, b] - state[NEXT + ENERGY, b] - gain
            state[RATE, b] = exp(state[TILT, b])
            for row in range(3):
                state[AT + row, b] = state[NEXT + row, b]
        height += grown
        if law != BETA:
            height += _borders(law, z, state, arms, height, shared, f)
    if z >= edge:
        height = shift
        for b in range(arms):
            height += log1p(-state[HIGH, b])
            state[GAIN, b] = state[HIGH, b] / (1.0 - state[HIGH, b])
        for b in range(arms):
            state[SHARE, b] = state[GAIN, b] * exp(height)
        _atoms(state, arms)
    for b in range(arms):
        out[int(state[ARM, b])] = state[WIN, b] if state[WANTED, b] > 0.0 else 0.0
    if target >= 0:
        return log(out[target]) - shift
    total = 0.0
    for b in range(out.size):
        total += out[b]
    for b in range(out.size):
        out[b] /= total
    return total


SIGNATURE: Final = "float64(int64, float64[:, ::1], int64, float64[::1])"


def _checked(law: str, parameters: Any) -> tuple[int, Any]:
    code, names = LAWS[law]
    values = np.ascontiguousarray(parameters, dtype=np.float64)
    if values.ndim != 2 or len(values) != len(names) or values.shape[1] == 0:
        raise ValueError(f"{law} takes the rows {', '.join(names)}, not shape {values.shape}")
    return code, values


def probabilities(law: str, parameters: Any) -> Any:
    """P(arm a has the largest draw) for every arm; `parameters` has a row per name in `LAWS`.

    >>> probabilities("beta", [[3.0, 2.0], [1.0, 2.0]]).round(12).tolist()
    [0.8, 0.2]
    """
    code, values = _checked(law, parameters)
    out = np.empty(values.shape[1])
    build(argmax_probabilities, SIGNATURE)(code, values, -1, out)
    return out


def log_probability(law: str, parameters: Any, arm: int) -> float:
    """ln P of one arm, on a grid of its own: it never underflows."""
    code, values = _checked(law, parameters)
    out = np.empty(values.shape[1])
    return float(build(argmax_probabilities, SIGNATURE)(code, values, arm, out))
