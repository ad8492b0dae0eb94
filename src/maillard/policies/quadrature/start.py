"""Where the grid begins, and what F is there."""

from typing import Final

import numpy as np

from ...compiled import kernel, routine
from ...numeric import exp, log, log1p
from .laws import (
    AT,
    BOUND,
    CLIP,
    COUNT,
    CURVATURE,
    ENERGY,
    EXPLICIT,
    GUMBEL,
    MIX,
    MODE,
    NEXT,
    PEAK,
    RATE,
    SLOPE,
    TILT,
    WANTED,
    energy_of,
    measure_energies,
)
from .panels import (
    densities_at,
    reach_of,
    spread_divergence,
    weighted_sum,
)

#: What is e^-38 = 3e-17 of the whole, before factors of order one, no longer counts.
NEGLIGIBLE: Final = 38.0
FAINT: Final = 3e-16
#: An arm with P < e^-600 < 1e-250 is reported as 0; `log_probability` has its logarithm.
LEAST: Final = 600.0


@routine
def _survey(law, z, state, arms, focus):
    """G, its slope and curvature for arm `focus` at z; every arm's bound on min G is updated."""
    measure_energies(law, z, state, arms, NEXT)
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
    step = min(reach_of(law, z), np.sqrt(2.0 * NEGLIGIBLE / curvature))
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
def left_end(law, state, arms, top, edge, least):
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


@routine
def tail_mass(law, z, direction, state, b, shared, f):
    """∫_0^∞ f(z ± t)/f(z) dt away from the mode, by panels over which f falls by e^-40 to e^-70.

    Only the integral is asked for here, so that a panel may be wider than those of the sweep.
    """
    n = state[COUNT, b]
    energy, slope, curvature = energy_of(law, z, state, b)
    fallen = 0.0
    total = 0.0
    while fallen < NEGLIGIBLE:
        steep = abs(slope)
        step = 90.0 / (steep + np.sqrt(steep * steep + 90.0 * curvature))
        step = direction * min(step, reach_of(law, direction * z))
        after, slope_after, curvature = energy_of(law, z + step, state, b)
        while after - energy > 70.0:
            step *= 0.7
            after, slope_after, curvature = energy_of(law, z + step, state, b)
        spread_divergence(law, z, step, shared)
        densities_at(slope, n, step, shared, f)
        total += exp(-fallen) * abs(step) * weighted_sum(f)
        fallen += after - energy
        z += step
        energy, slope = after, slope_after
    return total


@kernel
def explicit_cumulative(law, z, state, b):
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
def cut_off(state, b):
    """F = 1 from here on, and nothing is left to integrate."""
    state[RATE, b] = 0.0
    state[TILT, b] = -np.inf
    state[AT + SLOPE, b] = np.inf


@routine
def start_sweep(law, z, state, arms, shared, f):
    """RATE and TILT at z for every arm, from the rows AT; returns ln Π F_b(z)."""
    whole = 0.0
    for b in range(arms):
        level = state[PEAK, b] - state[AT + ENERGY, b]
        if z >= state[CLIP, b]:
            cut_off(state, b)
        elif law >= EXPLICIT:
            whole += explicit_cumulative(law, z, state, b)
        else:
            if z < state[MODE, b]:
                below = level + log(tail_mass(law, z, -1.0, state, b, shared, f))
            else:
                below = log1p(-exp(level) * tail_mass(law, z, 1.0, state, b, shared, f))
            state[TILT, b] = level - below
            state[RATE, b] = exp(level - below)
            whole += below
    return whole
