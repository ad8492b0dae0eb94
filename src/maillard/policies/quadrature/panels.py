"""A panel of the grid: its nodes, and what the densities and their integrals are there."""

from typing import Any, Final

import numpy as np

from ...compiled import fma, kernel
from ...numeric import _log1p_rest, exp, log1p
from .laws import (
    GEOMETRY,
    LOGISTIC,
    QUADRATIC,
    expm1_taylor,
    sigmoid,
    softplus,
)

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


@kernel
def reach_of(law, z):
    """How wide a panel may be for the divergence's singularities, at ±iπ of a logistic law."""
    if law & GEOMETRY != LOGISTIC:
        return np.inf
    return max(4.0, 1.5 * z if z > 0.0 else -0.6 * z)


@kernel
def spread_divergence(law, z, step, shared):
    """At the nodes of [z, z + step]: the divergence of the geometry from z, and its slope."""
    if law & GEOMETRY == LOGISTIC:
        side = 1.0 if z <= 0.0 else -1.0
        rare = sigmoid(-abs(z))
        if abs(step) <= 0.6:
            # As in _logistic, whose y is here within the reach of the logarithm's polynomial.
            for j in range(NODES):
                t = side * (step * ABSCISSAE[j])
                rest = expm1_taylor(t)
                y = rare * (t + rest)
                shared[0, j] = rare * rest - _log1p_rest(y)
                shared[1, j] = side * (1.0 - rare) * (y / (1.0 + y))
        else:
            # Wide panels are those of small counts, for which this absolute error is small.
            for j in range(NODES):
                t = side * (step * ABSCISSAE[j])
                shared[0, j] = (log1p(-rare) - rare * t) + softplus(side * z + t)
                shared[1, j] = side * (sigmoid(side * z + t) - rare)
    elif law & GEOMETRY == QUADRATIC:
        for j in range(NODES):
            u = step * ABSCISSAE[j]
            shared[0, j] = 0.5 * u * u
            shared[1, j] = u


@kernel
def densities_at(slope, n, step, shared, f):
    """f(z + step·x_j)/f(z) for one arm, by E(z + u) = E(z) + E′(z)·u + n·D(z + u, z)."""
    for j in range(NODES):
        f[j] = exp(-fma(slope, step * ABSCISSAE[j], n * shared[0, j]))


@kernel
def weighted_sum(f):
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
def cumulate_into(f, out):
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
