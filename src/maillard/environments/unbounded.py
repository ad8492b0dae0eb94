"""Laws of rewards without an upper bound."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..compiled import kernel, wide
from ..divergence import kl_exponential, kl_gaussian, kl_poisson
from ..numeric import exp
from ..streams import LANES, exponential, normal, uniform
from .checks import SCALE, columns, numbers
from .environment import Environment

#: ln n! − (n + ½) ln n + n − ½ ln 2π for n = 1 … 15.
_STIRLING: Final = np.array(
    [
        0.08106146679532726, 0.0413406959554093, 0.02767792568499834, 0.020790672103765093,
        0.016644691189821193, 0.013876128823070748, 0.01189670994589177, 0.010411265261972096,
        0.009255462182712733, 0.00833056343336287, 0.007573675487951841, 0.00694284010720953,
        0.006408994188004207, 0.0059513701127588475, 0.005554733551962801,
    ]
)  # fmt: skip


@kernel
def pay_gaussian(arm, law, t, rng, reward):
    """mean + sd·z."""
    wide()
    for lane in range(LANES):
        reward[lane] = law[0, arm[lane]] + law[1, arm[lane]] * normal(rng, lane)


@kernel
def pay_exponential(arm, law, t, rng, reward):
    """mean·e."""
    wide()
    for lane in range(LANES):
        reward[lane] = law[0, arm[lane]] * exponential(rng, lane)


@kernel
def poisson_mass(n, mean):
    """P(n) of a Poisson law, without the large terms that cancel (Loader 2000)."""
    if n == 0.0:
        return exp(-mean)
    if n < 16.0:
        rest = _STIRLING[int(n) - 1]
    else:
        s = 1.0 / (n * n)
        rest = (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0)))) / n
    return exp(-rest - kl_poisson(n, mean)) / (6.283185307179586 * n) ** 0.5


@kernel
def pay_poisson(arm, law, t, rng, reward):
    """Inversion from the mode outwards, one step up and one down: about 1.6·√mean steps."""
    for lane in range(LANES):
        mean = law[0, arm[lane]]
        mode = float(int(mean))
        up, down, k = mode, mode, mode
        p_up = poisson_mass(mode, mean)
        p_down = p_up
        u = uniform(rng, lane) - p_up
        # What the sum falls short of 1 by rounding, some 10^-14, goes to the mode.
        while (u >= 0.0) & (p_up + p_down > 1e-20):
            up += 1.0
            p_up *= mean / up
            k = up if u < p_up else k
            u -= p_up
            p_down *= down / mean  # 0 from 0 on
            down -= 1.0
            k = down if (u >= 0.0) & (u < p_down) else k
            u -= p_down if u >= 0.0 else 0.0
        reward[lane] = k


class Gaussian(Environment):
    """Gaussian rewards on the whole line, of known standard deviations.

    Density ∝ exp(−(x − μ)²/(2 sd²)), variance sd².
    """

    slug = "gaussian"
    title = "Gaussian"
    formula = "density ∝ exp(−(x − μ)²/(2 sd²))"
    model = "Gaussian laws of the arm's variance"
    linear = True
    pay_kernel = staticmethod(pay_gaussian)

    def __init__(self, means: Sequence[float], sd: float | Sequence[float] = 1.0) -> None:
        low, high = SCALE
        mean, spread = columns(self.slug, means=(means, -high, high), sd=(sd, low, high))
        parameters = {"means": mean.tolist(), "sd": spread.tolist()}
        super().__init__(parameters, [mean, spread], mean, spread**2, (-math.inf, math.inf))

    def _distance(self, arm: int, mean: float) -> float:
        return float(kl_gaussian(float(self.means[arm]), mean, float(self.variances[arm])))


class Poisson(Environment):
    """Poisson rewards: P(n) = μ^n e^−μ/n!, variance μ."""

    slug = "poisson"
    title = "Poisson"
    formula = "P(n) = μ^n e^−μ/n!"
    model = "Poisson laws"
    linear = True
    pay_kernel = staticmethod(pay_poisson)

    def __init__(self, means: Sequence[float]) -> None:
        # A draw takes about √mean steps, which a million bounds.
        mean = numbers(self.slug, "means", means, 1e-6, 1e6)
        super().__init__({"means": mean.tolist()}, [mean], mean, mean, (0.0, math.inf))

    def _distance(self, arm: int, mean: float) -> float:
        return float(kl_poisson(float(self.means[arm]), mean))


class Exponential(Environment):
    """Exponential rewards: density e^(−x/μ)/μ on x ≥ 0, variance μ²."""

    slug = "exponential"
    title = "Exponential"
    formula = "density e^(−x/μ)/μ on x ≥ 0"
    model = "exponential laws"
    linear = True
    pay_kernel = staticmethod(pay_exponential)

    def __init__(self, means: Sequence[float]) -> None:
        mean = numbers(self.slug, "means", means, *SCALE)
        super().__init__({"means": mean.tolist()}, [mean], mean, mean**2, (0.0, math.inf))

    def _distance(self, arm: int, mean: float) -> float:
        return float(kl_exponential(float(self.means[arm]), mean))
