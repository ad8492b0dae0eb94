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

from typing import Any

import numpy as np

from ...compiled import build
from .laws import (
    BETA,
    EXPONENTIAL,
    GAUSSIAN,
    GUMBEL,
    LAWS,
    RAYLEIGH,
)
from .sweep import (
    SIGNATURE,
    argmax_probabilities,
)

__all__ = [
    "BETA", "EXPONENTIAL", "GAUSSIAN", "GUMBEL", "LAWS", "RAYLEIGH", "SIGNATURE",
    "argmax_probabilities", "log_probability", "probabilities",
]  # fmt: skip


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
