"""Divergences between laws of one family, as functions of their means, free of cancellation.

Each is a Bregman divergence. Written as the paper writes them, the first-order terms of a ln(a/b)
cancel and take every digit with them when the means are close (relative error 10^9 at a gap of
10^-12); written with φ(x) = x − ln(1+x) they cancel on paper instead.
"""

import math
from typing import Final

from .compiled import bits_float, float_bits, fma, kernel
from .numeric import INFINITY, LN2, _exp_rest, _log1p_rest, exp, expm1, log, log1p

# Subnormal numbers have too few bits to take apart: everything is scaled out of their way.
_UP: Final = 1.6069380442589903e60  # 2^200
_DOWN: Final = 6.223015277861142e-61
_HALF_OCTAVE: Final = 1 << 51


@kernel
def _atanh_rest(z):
    """R(s²) in 2·atanh(s) = 2s + s·R, as in `numeric`, but for |s| ≤ 0.2: to 4e-15 relatively.

    R is a small part of what it is added to below, where that much is less than half an ulp.
    """
    w = z * z
    odd = fma(fma(0.15282005337757257, w, 0.22222181448619244), w, 0.3999999999930137)
    even = fma(fma(0.151337653202504, w, 0.1818468051880666), w, 0.28571428847265207)
    return fma(odd, w, z * fma(even, w, 0.6666666666666695))


@kernel
def _entropy_term(a, b, d):
    """a·φ(d/a) = d − a·ln(b/a) with d = b − a: what one outcome adds to a divergence.

    For 0 ≤ a, b ≤ 1e240. One division in all, which is what the time of a divergence goes by.
    """
    x, y = a * _UP, b * _UP
    # The nearest whole number of octaves between them, by the exponents and leading digits; then
    # y/x is in [2/3, 3/2]. When they are as near as that already, y stays what it is.
    octaves = (float_bits(y) - float_bits(x) + _HALF_OCTAVE) >> 52
    y = bits_float(float_bits(y) - (octaves << 52))
    near = octaves == 0
    move = d * _UP if near else y - x
    # m − x·ln(1 + m/x) with s = m/(2x + m): ln(1 + m/x) = 2s + s·R, and m − 2xs = s·m cancels here.
    s = move / (x + y)
    rest = s * fma(-x, _atanh_rest(s * s), move) * _DOWN
    far = (b - y * _DOWN) - (a * (float(octaves) * LN2) - rest)
    value = rest if near else far
    value = INFINITY if b == 0.0 else value
    return b if a == 0.0 else value


@kernel
def _wide_term(a, b, d):
    """The same for every a, b ≥ 0."""
    large = max(a, b) > 1e200
    apart = large & (min(a, b) < 1e-80)
    scale = 3.8725919148493183e-121 if large else 1.0  # 2^-400
    value = _entropy_term(a * scale, b * scale, d * scale) / scale
    value = d - a * (log(b) - log(a)) if apart & (a > 0.0) else value
    return b if (a == 0.0) | (b == INFINITY) else value


@kernel
def kl(a, b):
    """Bernoulli: a ln(a/b) + (1−a) ln((1−a)/(1−b)), with 0 ln 0 = 0 and +∞ where b excludes a."""
    d = b - a
    value = _entropy_term(a, b, d) + _entropy_term(1.0 - a, 1.0 - b, -d)
    return 0.0 if d == 0.0 else value


# --------------------------------------------------------------------------------------------------
# The other families, in their means.


@kernel
def kl_gaussian(a, b, variance):
    """Gaussian of known variance: (a−b)² / (2·variance)."""
    d = a - b
    return d * (d / (2.0 * variance))


@kernel
def kl_poisson(a, b):
    """Poisson: b − a + a ln(a/b) = a·φ((b−a)/a)."""
    return _wide_term(a, b, b - a)


@kernel
def kl_gamma(a, b, shape):
    """Gamma of known shape: shape·(a/b − 1 − ln(a/b)) = shape·φ((a−b)/b)."""
    r = (a - b) / b
    near = (r > -0.29) & (r < 0.41)
    ratio = a / b
    # A quotient near the subnormal numbers has lost digits; the two logarithms are then far apart.
    log_ratio = log(ratio) if ratio > 1e-290 else log(a) - log(b)
    far = r - log_ratio if ratio < INFINITY else INFINITY
    value = shape * (_log1p_rest(r if near else 0.0) if near else far)
    return 0.0 if a == b else value


@kernel
def kl_exponential(a, b):
    """Exponential: a/b − 1 − ln(a/b)."""
    return kl_gamma(a, b, 1.0)


@kernel
def kl_binomial(a, b, n):
    """Binomial of n trials, means in [0, n]: n·kl(a/n, b/n), without rounding the quotients."""
    d = b - a
    value = _entropy_term(a, b, d) + _entropy_term(n - a, n - b, -d)
    return 0.0 if d == 0.0 else value


@kernel
def _negative_binomial(a, b, d, r):
    """kl_negative_binomial with d = b − a."""
    # r·φ(−d/(r+b)) + a·φ(r·d/(a(r+b))): expanded about b the first-order terms, ∓r·d/(r+b), cancel
    # on paper and both rests are positive. Expanded about a they are not, and digits go for a ≫ r.
    share = r / (r + b)
    value = share * _wide_term(r + b, r + a, -d)
    value += _wide_term(a, b * ((r + a) / (r + b)), share * d)
    return 0.0 if d == 0.0 else value


@kernel
def kl_negative_binomial(a, b, r):
    """Negative binomial (failures before r successes): a ln(a/b) + (r+a) ln((r+b)/(r+a))."""
    return _negative_binomial(a, b, b - a, r)


@kernel
def kl_geometric(a, b):
    """Geometric on 0, 1, 2, …: the negative binomial with r = 1."""
    return kl_negative_binomial(a, b, 1.0)


# --------------------------------------------------------------------------------------------------
# Inverses in the second argument: the farthest b within divergence d of a. A d below 0 acts as 0.
#
# All go the same way. In a coordinate v ≥ 0 of b in which the divergence K becomes straight far out
# (slope m, K'' = k at v = 0) it looks like m(√(v²+c²) − c), c = m/k, which has the inverse
# √((d/m)² + 2d/k): never wrong by more than a quarter. From there the step of Householder's third
# order, whose error is the fourth power of the one before, reaches all digits in two: K costs two
# logarithms, but K', K'', K''' are rational and cost next to nothing.


@kernel
def _level(d):
    """max(d, 0), as a number of d's own type: plain Python's 0.0 would not divide by zero."""
    return d if d > 0.0 else 0.0 * d


@kernel
def _householder(newton, second, third):
    """The step of third order from Newton's step, K''/K'·step and K'''/K''·step."""
    return newton * (1.0 - 0.5 * second) / (1.0 - second + second * third / 6.0)


@kernel
def _exp_change(t):
    """e^t − 1 for the last step of an iteration, |t| < 10^-3."""
    return t + t * t * (0.5 + t * (1.0 / 6.0 + t * (1.0 / 24.0)))


@kernel
def _shrink_step(v, y, h, p, q, n, d):
    """The change of v that solves K(v) = d, where y = p·e^−v, h = p − y, p + q = n."""
    b = q + h
    # K = p(e^−v − 1 + v) + q·φ(h/q). For large v the sum p·v − d comes first, rounded once: the
    # error of v is then 10^-16, not 10^-16·v, and y keeps its digits.
    rest = _exp_rest(-min(v, 0.34)) * v * v if v < 0.34 else v - h / p
    rise = p * rest - d if v < 1.0 else fma(p, v, -d) - h
    miss = rise + _entropy_term(q, b, h)
    newton = -(miss / h) * (b / n)  # K' = n·h/b, K'' = n·q·y/b², K''' = −K''·(1 + 2y/b)
    # Quotients in this order stay in range when the step or the remainder is subnormal.
    second = -(newton / (h / y)) * (q / b)
    third = newton + 2.0 * newton / (b / y)
    return _householder(newton, second, third)


@kernel
def _shrink(p, q, n, d):
    """How far d moves n trials: the smaller outcome's mean, p → y < p, and the move h = p − y.

    Both to full relative accuracy, so that neither a tiny step nor a tiny remainder loses digits.
    """
    scale = p if p > 0.0 else 1.0
    d = min(_level(d), 800.0 * scale)  # e^−800 is 0
    slope = d / scale
    v = min(math.sqrt(slope) * math.sqrt(slope + 2.0 * (q / n)), 800.0)  # no underflow
    y, h = p * exp(-v), -p * expm1(-v)
    still = h == 0.0
    v = v + _shrink_step(v, y, h, p, q, n, d)
    y, h = p * exp(-v), -p * expm1(-v)
    change = y * _exp_change(-_shrink_step(v, y, h, p, q, n, d))
    return p if still else max(y + change, 0.0), 0.0 if still else max(h - change, 0.0)


@kernel
def kl_upper(a, d):
    """max{b ≤ 1: kl(a, b) ≤ d}, the index of KL-UCB; a itself at d = 0, 1 at d = ∞."""
    y, h = _shrink(1.0 - a, a, 1.0, d)
    return 1.0 - y if y < 0.5 else a + h


@kernel
def kl_upper_gap(a, d):
    """1 − kl_upper(a, d), with all its digits however small."""
    y, _ = _shrink(1.0 - a, a, 1.0, d)
    return y


@kernel
def kl_lower(a, d):
    """min{b ≥ 0: kl(a, b) ≤ d}, with all its digits however small."""
    y, _ = _shrink(a, 1.0 - a, 1.0, d)
    return y


@kernel
def kl_binomial_upper(a, d, n):
    """max{b ≤ n: kl_binomial(a, b, n) ≤ d}."""
    y, h = _shrink(n - a, a, n, d)
    return n - y if y < 0.5 * n else a + h


@kernel
def kl_binomial_lower(a, d, n):
    """min{b ≥ 0: kl_binomial(a, b, n) ≤ d}."""
    y, _ = _shrink(a, n - a, n, d)
    return y


@kernel
def kl_gaussian_upper(a, d, variance):
    """a + √(2·variance·d)."""
    return a + math.sqrt(2.0 * variance * _level(d))


@kernel
def kl_gaussian_lower(a, d, variance):
    """a − √(2·variance·d)."""
    return a - math.sqrt(2.0 * variance * _level(d))


@kernel
def _grow_move(w, a, r):
    """b − a for w = ln((r+b)/(r+a))."""
    return (r + a) * expm1(w)


@kernel
def _grow_step(w, h, a, r, d):
    """The change of w that solves kl_negative_binomial(a, b, r) = d, where b = a + h."""
    b = a + h
    # K = r·w + a·ln(1 − r·h/(b(r+a))); for large w the sum r·w − d comes first, as in _shrink_step.
    # Where the logarithm's argument rounds to 0, a is too small for its term to count.
    back = a * log1p(max(-(r / (r + a)) * (h / b), -0.9999999999999999))
    far = fma(r, w, -d) + back
    miss = _negative_binomial(a, b, h, r) - d if w < 1.0 else far
    newton = -(miss / h) * (b / r)  # K' = r·h/b, K'' = r·a(r+b)/b², K''' = −K''·(1 + 2r/b)
    second = -(newton / (h / (r + b))) * (a / b)
    third = newton + 2.0 * newton * (r / b)
    return _householder(newton, second, third)


@kernel
def kl_negative_binomial_upper(a, d, r):
    """max{b: kl_negative_binomial(a, b, r) ≤ d}."""
    d = _level(d)
    slope = d / r
    w = math.sqrt(slope) * math.sqrt(slope + 2.0 * (a / (r + a)))
    w = min(w, 1500.0)  # e^1500·r is beyond every double
    h = _grow_move(w, a, r)
    for _ in range(2):
        last, w = w, w + _grow_step(w, h, a, r, d)
        w = w if w > 0.0 else last  # no move, or one without end
        h = _grow_move(w, a, r)
    return a + h


@kernel
def kl_negative_binomial_lower(a, d, r):
    """min{b ≥ 0: kl_negative_binomial(a, b, r) ≤ d}."""
    # In the natural parameter, v = ln(a/(r+a)) − ln(b/(r+b)): K' = a − b, K'' = b(r+b)/r = V(b).
    scale = a if a > 0.0 else 1.0
    d = min(_level(d), 800.0 * scale)
    slope = d / scale
    v = min(math.sqrt(slope) * math.sqrt(slope + 2.0 * (r / (r + a))), 800.0)
    b = a
    for _ in range(3):
        left, gone = exp(-v), -expm1(-v)
        spread = r + a * gone
        b = a * (r / spread) * left
        h = a * gone * ((r + a) / spread)
        far = fma(scale, v, -d) - r * log1p(h / (r + b))
        miss = _negative_binomial(a, b, -h, r) - d if v < 1.0 else far
        newton = -(miss / h)
        second = -(newton / (h / b)) * ((r + b) / r)
        third = newton * (1.0 + 2.0 * (b / r))
        last, v = v, v + _householder(newton, second, third)
        v = v if v > 0.0 else last  # no move, or a subnormal a: then v is as good as it gets
    return a * (r / (r - a * expm1(-v))) * exp(-v)


@kernel
def kl_geometric_upper(a, d):
    """max{b: kl_geometric(a, b) ≤ d}."""
    return kl_negative_binomial_upper(a, d, 1.0)


@kernel
def kl_geometric_lower(a, d):
    """min{b ≥ 0: kl_geometric(a, b) ≤ d}."""
    return kl_negative_binomial_lower(a, d, 1.0)


@kernel
def kl_poisson_upper(a, d):
    """max{b: kl_poisson(a, b) ≤ d}."""
    # Poisson is the negative binomial with r = ∞; at 10^30 times the means no digit tells.
    reach = a + min(_level(d), 1e270)
    return kl_negative_binomial_upper(a, d, 1e30 * reach if reach > 0.0 else 1.0)


@kernel
def kl_poisson_lower(a, d):
    """min{b ≥ 0: kl_poisson(a, b) ≤ d}."""
    n = 1e30 * a if a > 0.0 else 1.0
    y, _ = _shrink(a, n, n, d)  # the binomial with n = ∞, likewise
    return y


@kernel
def kl_gamma_upper(a, d, shape):
    """max{b: kl_gamma(a, b, shape) ≤ d}."""
    # As a function of a/b the divergence is Poisson's from mean 1. Past 600 it is v − 1 for the
    # ratio e^−v, to all digits.
    d = d / shape
    half = exp(0.5 * (d + 1.0))
    far = a * half * half if a > 0.0 else 0.0
    return a / kl_poisson_lower(1.0, d) if d < 600.0 else far


@kernel
def kl_gamma_lower(a, d, shape):
    """min{b ≥ 0: kl_gamma(a, b, shape) ≤ d}."""
    return a / kl_poisson_upper(1.0, d / shape)


@kernel
def kl_exponential_upper(a, d):
    """max{b: kl_exponential(a, b) ≤ d}."""
    return kl_gamma_upper(a, d, 1.0)


@kernel
def kl_exponential_lower(a, d):
    """min{b ≥ 0: kl_exponential(a, b) ≤ d}."""
    return kl_gamma_lower(a, d, 1.0)


# --------------------------------------------------------------------------------------------------
# K_inf: the least divergence from an empirical law to a law on (−∞, 1] whose mean exceeds μ
# (Honda & Takemura 2010). A law is a table of distinct values ≤ 1 and their counts.


@kernel
def _mean_below(values, counts, mu):
    """(Σ counts, μ − mean), the difference to full accuracy however close the two are."""
    # Σ c·(μ − x) in twice the working precision: every rounding error is itself a double.
    total, high, low = 0.0, 0.0, 0.0
    for i in range(values.size):
        x, c = values[i], counts[i]
        d = mu - x
        back = d - mu
        lost = (mu - (d - back)) - (x + back)
        term = c * d
        lost = fma(c, d, -term) + c * lost
        s = high + term
        back = s - high
        low += (high - (s - back)) + (term - back) + lost
        high = s
        total += c
    return total, (high + low) / total


@kernel
def _scaled(x, centre, room):
    """e = (x − centre)/room with room = 1 − centre: e ≤ 1, and e = 1 at x = 1."""
    return (x - centre if room > 0.1 else room - (1.0 - x)) / room


@kernel
def _density(x, e, room, theta, rest):
    """q = 1 − θe, given also 1 − θ: on either side a sum of positive terms."""
    return (1.0 - x) / room + rest * e if e > 0.0 else 1.0 - theta * e


@kernel
def _tilt(values, counts, total, centre, room, theta, rest):
    """E[e/q], E[e²/q] and E[e²/q²]."""
    first, second, square = 0.0, 0.0, 0.0
    for i in range(values.size):
        e = _scaled(values[i], centre, room)
        ratio = e / _density(values[i], e, room, theta, rest)
        term = (counts[i] / total) * ratio
        first += term
        second += term * e
        square += term * ratio
    return first, second, square


@kernel
def _information(values, counts, total, centre, room, theta, rest, excess):
    """E[ln Q + 1/Q − 1] with Q = (1 + excess)·q: a sum of positive terms, E[ln Q] if E[1/Q] = 1."""
    result = 0.0
    for i in range(values.size):
        e = _scaled(values[i], centre, room)
        q = _density(values[i], e, room, theta, rest)
        below = theta * e - excess * q  # 1 − Q
        q = q * (1.0 + excess)
        result += (counts[i] / total) * (_wide_term(q, 1.0, below) / q)
    return result


@kernel
def _extremes(values, counts, total):
    """The least value, the greatest, and the weight at 1."""
    low, high, top = INFINITY, -INFINITY, 0.0
    for i in range(values.size):
        low, high = min(low, values[i]), max(high, values[i])
        top += counts[i] / total if values[i] >= 1.0 else 0.0
    return low, high, top


@kernel
def k_inf(values, counts, mu):
    """K_inf and its derivative in μ, which is λ: max over 0 ≤ λ ≤ 1/(1−μ) of E ln(1 − λ(X−μ))."""
    total, gap = _mean_below(values, counts, mu)
    if gap <= 0.0:
        return 0.0, 0.0
    if mu >= 1.0:
        return INFINITY, INFINITY
    # Scaled: e = (x−μ)/(1−μ) ≤ 1, θ = λ(1−μ) in [0, 1], q = 1 − θe. The objective's slope in θ is
    # −E[e/q] = gap − θ·E[e²/q], gap = −E[e]. The second form keeps the digits of a small gap; the
    # first is better where a few values far down make the gap larger than E|e/q| ≤ √E[e²/q²].
    room = 1.0 - mu
    gap = gap / room
    theta, rest, slope = 1.0, 0.0, 0.0
    least, most, top = _extremes(values, counts, total)
    if top == 0.0:
        first, second, square = _tilt(values, counts, total, mu, room, 1.0, 0.0)
        slope = gap - second if gap * gap < square else -first
    if top > 0.0 or slope < 0.0:
        # The maximum is inside. Newton's method on the slope times its two nearest poles, which is
        # nearly straight, and straight for two values. The unknown is θ/(1−θ), so that θ and 1−θ
        # both keep their digits; between bounds (E[e²/q] ≤ E[e²]/(1−θ); q ≥ top at 1) it is safe.
        low, high = _scaled(least, mu, room), _scaled(most, mu, room)
        spread = _tilt(values, counts, total, mu, room, 0.0, 1.0)[2]
        floor, roof = gap / spread, 1.0 / top if top > 0.0 else 1e300
        theta = gap / (spread + gap * (high + low))
        odds = theta / (1.0 - theta) if 0.0 < theta < 1.0 else floor
        for _ in range(100):
            theta, rest = odds / (1.0 + odds), 1.0 / (1.0 + odds)
            first, second, square = _tilt(values, counts, total, mu, room, theta, rest)
            slope = gap - theta * second if gap * gap < square else -first
            floor, roof = odds if slope > 0.0 else floor, odds if slope < 0.0 else roof
            nearest = _density(most, high, room, theta, rest)
            step = slope / (square + slope * (high / nearest + low / (1.0 - theta * low)))
            odds = (theta + step) / (rest - step)
            if abs(step) <= 1e-9 * min(theta, nearest):
                break
            if not floor < odds < roof:
                odds = math.sqrt(floor) * math.sqrt(roof)
        theta, rest, slope = odds / (1.0 + odds), 1.0 / (1.0 + odds), 0.0
    value = _information(values, counts, total, mu, room, theta, rest, 0.0)
    return value + theta * slope, theta / room


@kernel
def k_inf_upper(values, counts, d):
    """sup{μ: K_inf(values, counts, μ) ≤ d}, the index of empirical KL-UCB; the mean at d ≤ 0."""
    # One equation, with no K_inf inside: in η = μ + 1/λ (Cappé et al. 2013, maxEV)
    #   K_inf = E ln(η−X) + ln E[1/(η−X)],  μ = η − 1/E[1/(η−X)].
    # Scaled about the mean: e = (x−mean)/(1−mean), θ = (1−mean)/(η−mean) in [0, 1], q = 1 − θe, and
    # E[1/q] = 1 + V with V = θ²·E[e²/q].
    total, room = _mean_below(values, counts, 1.0)
    mean = -_mean_below(values, counts, 0.0)[1]
    if d <= 0.0:
        return mean
    if room <= 0.0 or d == INFINITY:
        return 1.0
    top = _extremes(values, counts, total)[2]
    theta, rest = 1.0, 0.0
    inside = top > 0.0
    if not inside:
        excess = _tilt(values, counts, total, mean, room, 1.0, 0.0)[1]
        inside = d < _information(values, counts, total, mean, room, 1.0, 0.0, excess)
    if not inside:
        # λ = 1/(1−μ), the end of its range: d = E ln((1−X)/(1−μ)) says what 1 − μ is.
        exponent = d
        for i in range(values.size):
            e = _scaled(values[i], mean, room)
            exponent += (counts[i] / total) * _wide_term(1.0, (1.0 - values[i]) / room, -e)
        move, left = -room * expm1(-exponent), room * exp(-exponent)
        return 1.0 - left if left < max(move, 0.5) else mean + move
    # Newton's method in t = −ln(1−θ), in which K_inf becomes straight far from the mean; near it
    # √K_inf is. The start is the one of the inverses above, or less: for two values, K_inf is at
    # least (1−top)·t + ln(top). The unknown is θ/(1−θ), as in k_inf.
    variance = _tilt(values, counts, total, mean, room, 0.0, 1.0)[2]
    slope = d / (1.0 - top)
    t = math.sqrt(slope) * math.sqrt(slope + 2.0 * (1.0 - top) / variance)
    t = min(t, slope - log(top) / (1.0 - top) if top > 0.0 else 40.0, 270.0)
    odds = expm1(t)
    floor, roof = 0.0, 1e120  # which stands for 1; its square is still finite
    for _ in range(100):
        theta, rest = odds / (1.0 + odds), 1.0 / (1.0 + odds)
        first, second, square = _tilt(values, counts, total, mean, room, theta, rest)
        excess = theta * theta * second
        value = _information(values, counts, total, mean, room, theta, rest, excess)
        floor, roof = odds if value < d else floor, odds if value > d else roof
        if floor > 1e116:
            break
        slope = theta * rest * (square - first * first) / (1.0 + excess)
        step = (d - value) / slope * (2.0 / (1.0 + math.sqrt(d / value)) if value < 1.0 else 1.0)
        last = odds
        odds = last + (1.0 + last) * expm1(step)
        if abs(odds - last) <= 1e-9 * last:
            break
        if not floor < odds < roof:
            odds = expm1(0.5 * (log1p(floor) + log1p(roof)))
    theta, rest = odds / (1.0 + odds), 1.0 / (1.0 + odds)
    excess = theta * theta * _tilt(values, counts, total, mean, room, theta, rest)[1]
    move = room * (excess / (theta * (1.0 + excess)))
    left = 0.0  # 1 − μ = E[(1−X)/Q], again without a difference
    for i in range(values.size):
        q = _density(values[i], _scaled(values[i], mean, room), room, theta, rest)
        left += (counts[i] / total) * ((1.0 - values[i]) / (q * (1.0 + excess)))
    return 1.0 - left if left < max(move, 0.5) else mean + move
