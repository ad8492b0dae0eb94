"""The sweep over the panels, from left to right."""

from typing import Final

import numpy as np

from ...compiled import fma, kernel, routine
from ...numeric import NAN, exp, expm1, log, log1p
from .laws import (
    ARM,
    AT,
    BETA,
    BOUND,
    CLIP,
    COUNT,
    CURVATURE,
    ENERGY,
    EXPLICIT,
    EXPONENTIAL,
    FAR,
    GAIN,
    GAUSSIAN,
    GUMBEL,
    HIGH,
    LOW,
    MIX,
    MODE,
    NEXT,
    RATE,
    ROWS,
    SHARE,
    SLOPE,
    TILT,
    WANTED,
    WIN,
    measure_energies,
    prepare_laws,
    two_sided,
)
from .panels import (
    ABSCISSAE,
    FALL,
    GROWTH,
    NODES,
    RISE,
    STEEP_FALL,
    WEIGHTS,
    WIDTH,
    cumulate_into,
    densities_at,
    reach_of,
    spread_divergence,
    weighted_sum,
)
from .start import (
    FAINT,
    LEAST,
    NEGLIGIBLE,
    cut_off,
    explicit_cumulative,
    left_end,
    start_sweep,
    tail_mass,
)


@routine
def _width(law, z, state, arms):
    """A first proposal for the width of the panel that begins at z."""
    width = reach_of(law, z)
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
        if two_sided(law) and 0.0 <= slope < np.sqrt(curvature):
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
        if two_sided(law) and state[MODE, b] > z:
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
    spread_divergence(law, z, step, shared)
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
        densities_at(slope, n, step, shared, f)
        if law < EXPLICIT:
            rate = state[RATE, b] * step
            state[GAIN, b] = 1.0 + rate * weighted_sum(f)
            for j in range(NODES):
                ratio[j] = 0.0
            cumulate_into(f, ratio)
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
            rest = tail_mass(law, z, 1.0, state, b, shared, f) if law == GAUSSIAN else 1.0
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
            cut_off(state, b)
        elif law >= EXPLICIT:
            explicit_cumulative(law, z, state, b)
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
            integrand = exp(state[TILT, b] + height) * (slope if two_sided(law) else 1.0)
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
    sound = prepare_laws(law, parameters, state)
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
    z = left_end(law, state, arms, top, edge, LEAST if target < 0 else np.inf)
    shift = 0.0
    for b in range(arms):
        if state[ARM, b] == target:
            shift = state[BOUND, b]
    measure_energies(law, z, state, arms, AT)
    height = start_sweep(law, z, state, arms, shared, f) + shift
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
            measure_energies(law, r, state, arms, NEXT)
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
                state[WIN, b] += weight * weighted_sum(shares[b])
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
