"""Laws of rewards in an interval [L, U]."""

import functools
import math
from collections.abc import Sequence

import numpy as np

from ..compiled import kernel, wide
from ..divergence import kl
from ..numeric import exp
from ..streams import LANES, betas, exponential, normal, open_uniform, uniform
from .checks import columns, interval, matrix, numbers
from .environment import Array, Environment

# --------------------------------------------------------------------------------------------------
# Rewards of the chosen arms, one a lane.


@kernel
def pay_bernoulli(arm, law, t, rng, reward):
    """1 with probability mean, else 0."""
    wide()
    for lane in range(LANES):
        reward[lane] = 1.0 if uniform(rng, lane) < law[0, arm[lane]] else 0.0


@kernel
def pay_deterministic(arm, law, t, rng, reward):
    """The mean itself."""
    for lane in range(LANES):
        reward[lane] = law[0, arm[lane]]


@kernel
def pay_uniform(arm, law, t, rng, reward):
    """low + width·u, and never above high, whatever the rounding."""
    wide()
    for lane in range(LANES):
        a = arm[lane]
        reward[lane] = min(law[0, a] + law[1, a] * uniform(rng, lane), law[2, a])


@kernel
def pay_beta(arm, law, t, rng, reward):
    """Beta(a, b)."""
    work = np.empty((7, LANES))
    for lane in range(LANES):
        work[0, lane], work[1, lane] = law[0, arm[lane]], law[1, arm[lane]]
    betas(rng, work[0], work[1], reward, work[2], work[3], work[4], work[5], work[6])


@kernel
def pay_truncated_gaussian(arm, law, t, rng, reward):
    """Rejection from the density's best envelope: flat, exponential or the Gaussian itself.

    With z = (x − nearest)/sd, `nearest` the point of [L, U] nearest to the location, the density is
    proportional to exp(−rate·|z| − z²/2), on z in [from, to]; rate > 0 for a location outside.
    """
    for lane in range(LANES):
        a = arm[lane]
        nearest, sd, rate, start, stop = law[0, a], law[1, a], law[2, a], law[3, a], law[4, a]
        while True:
            if law[5, a] == 0.0:
                z = start + (stop - start) * uniform(rng, lane)
                weight = rate * abs(z) + 0.5 * z * z
            elif law[5, a] == 1.0:
                z = exponential(rng, lane) / rate
                weight = 0.5 * z * z
                z = -z if start < 0.0 else z
            else:
                z = normal(rng, lane)
                weight = rate * abs(z)
            if (z >= start) & (z <= stop) & (open_uniform(rng, lane) < exp(-weight)):
                reward[lane] = min(max(nearest + sd * z, law[6, a]), law[7, a])
                break


@kernel
def pay_categorical(arm, law, t, rng, reward):
    """The value whose place is the number of cumulative probabilities that u has reached."""
    wide()
    size = law.shape[0] // 2
    for lane in range(LANES):
        a = arm[lane]
        u = uniform(rng, lane)
        place = 0
        for i in range(size - 1):
            place += 1 if u >= law[i, a] else 0
        reward[lane] = law[size + place, a]


# --------------------------------------------------------------------------------------------------


class Bernoulli(Environment):
    """Rewards 0 and 1: P(1) = μ, variance μ(1 − μ)."""

    slug = "bernoulli"
    title = "Bernoulli"
    formula = "P(1) = μ, P(0) = 1 − μ"
    model = "Bernoulli laws, and so all laws on [0, 1] of the same means"
    linear = True
    pay_kernel = staticmethod(pay_bernoulli)

    def __init__(self, means: Sequence[float]) -> None:
        p = numbers(self.slug, "means", means, 0.0, 1.0)
        parameters = {"means": p.tolist()}
        super().__init__(parameters, [p], p, p * (1.0 - p), (0.0, 1.0), binary=True)

    def _distance(self, arm: int, mean: float) -> float:
        return float(kl(float(self.means[arm]), mean))


class Deterministic(Environment):
    """Each arm always pays its mean, in [L, U]: variance 0."""

    slug = "deterministic"
    title = "Deterministic"
    formula = "P(μ) = 1"
    linear = True
    pay_kernel = staticmethod(pay_deterministic)

    def __init__(self, means: Sequence[float], rewards: tuple[float, float] = (0.0, 1.0)) -> None:
        low, high = interval(self.slug, rewards)
        x = numbers(self.slug, "means", means, low, high)
        parameters = {"means": x.tolist(), "rewards": [low, high]}
        binary = bool(np.isin(x, (low, high)).all())
        super().__init__(parameters, [x], x, np.zeros_like(x), (low, high), binary=binary)

    def _table(self, arm: int) -> tuple[Array, Array]:
        return self.means[[arm]], np.ones(1)


class UniformRewards(Environment):
    """Uniform between `low` and `high` of each arm, both in [L, U].

    Mean (low + high)/2, variance (high − low)²/12.
    """

    slug = "uniform"
    title = "Uniform"
    formula = "density 1/(high − low) on [low, high]"
    linear = True
    pay_kernel = staticmethod(pay_uniform)

    def __init__(
        self,
        low: float | Sequence[float],
        high: float | Sequence[float],
        rewards: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        ends = interval(self.slug, rewards)
        a, b = columns(self.slug, low=(low, *ends), high=(high, *ends))
        if (a >= b).any():
            arm = int(np.argmax(a >= b))
            raise ValueError(
                f"{self.slug}: low of arm {arm} is {float(a[arm])!r}, not below its high, "
                f"{float(b[arm])!r}"
            )
        parameters = {"low": a.tolist(), "high": b.tolist(), "rewards": list(ends)}
        super().__init__(parameters, [a, b - a, b], a + (b - a) / 2.0, (b - a) ** 2 / 12.0, ends)

    def _table(self, arm: int) -> tuple[Array, Array]:
        values, weights = legendre(_towards_one(), 10)
        return self.law[2, arm] - self.law[1, arm] * values, weights


class Beta(Environment):
    """Beta(a, b) rewards on [0, 1].

    Density ∝ x^(a−1) (1−x)^(b−1), mean a/(a+b), variance ab/((a+b)²(a+b+1)).
    """

    slug = "beta"
    title = "Beta"
    formula = "density ∝ x^(a−1) (1−x)^(b−1) on [0, 1]"
    pay_kernel = staticmethod(pay_beta)

    def __init__(self, a: float | Sequence[float], b: float | Sequence[float]) -> None:
        x, y = columns(self.slug, a=(a, 1e-3, 1e12), b=(b, 1e-3, 1e12))
        total = x + y
        variances = (x / total) * (y / total) / (total + 1.0)
        parameters = {"a": x.tolist(), "b": y.tolist()}
        super().__init__(parameters, [x, y], x / total, variances, (0.0, 1.0))

    def _table(self, arm: int) -> tuple[Array, Array]:
        # The constant is then good to 1e-5 where μ* is close to 1, and to all digits elsewhere.
        return gauss_jacobi(float(self.law[0, arm]), float(self.law[1, arm]), 256)


class TruncatedGaussian(Environment):
    """Gaussian rewards, given that they lie in [L, U].

    Density ∝ exp(−(x − location)²/(2 sd²)); `location` and `sd` are those of the whole Gaussian,
    `means` and `variances` those of what is left of it.
    """

    slug = "truncated-gaussian"
    title = "Truncated Gaussian"
    formula = "density ∝ exp(−(x − location)²/(2 sd²)) on [L, U]"
    pay_kernel = staticmethod(pay_truncated_gaussian)

    def __init__(
        self,
        location: float | Sequence[float],
        sd: float | Sequence[float],
        rewards: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        ends = interval(self.slug, rewards)
        width = ends[1] - ends[0]
        centre, spread = columns(
            self.slug,
            location=(location, ends[0] - 1e6 * width, ends[1] + 1e6 * width),
            sd=(sd, 1e-6 * width, 1e6 * width),
        )
        law = [_truncated(m, s, *ends) for m, s in zip(centre.tolist(), spread.tolist())]
        tables = [_truncated_nodes(column) for column in law]
        # About the nearest point, where the law is: a spread far below the means keeps its digits.
        moments = [(w @ z, w @ (z - w @ z) ** 2) for z, w in tables]
        means = [c[0] + c[1] * m for c, (m, _) in zip(law, moments)]
        variances = [c[1] * c[1] * v for c, (_, v) in zip(law, moments)]
        parameters = {"location": centre.tolist(), "sd": spread.tolist(), "rewards": list(ends)}
        super().__init__(parameters, np.array(law).T, means, variances, ends)

    def _table(self, arm: int) -> tuple[Array, Array]:
        column = tuple(self.law[:, arm].tolist())
        z, weights = _truncated_nodes(column)
        return np.clip(column[0] + column[1] * z, *self.rewards), weights


class Categorical(Environment):
    """Rewards from a list of values in [L, U], with the probabilities of each arm in a row.

    P(x_i) = p_ai, mean Σ p_ai x_i, variance Σ p_ai (x_i − μ_a)².
    """

    slug = "categorical"
    title = "Categorical"
    formula = "P(x_i) = p_ai"
    linear = True  # in the probabilities: `Drifting` sees to it that the values stay
    pay_kernel = staticmethod(pay_categorical)

    def __init__(
        self,
        values: Sequence[float],
        probabilities: Sequence[Sequence[float]],
        rewards: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        ends = interval(self.slug, rewards)
        (x,) = matrix(self.slug, "values", [values], "a list of numbers")
        p = matrix(self.slug, "probabilities", probabilities, "a row of numbers for each arm")
        if not len(x) or p.shape[0] < 2 or p.shape[1] != len(x):
            raise ValueError(
                f"{self.slug}: probabilities must be a row of {len(x)} numbers, one a value, for "
                f"each of at least 2 arms, not {p.shape[0]} rows of {p.shape[1]}"
            )
        for i, value in enumerate(x.tolist()):
            if not ends[0] <= value <= ends[1]:
                raise ValueError(
                    f"{self.slug}: values[{i}] is {value!r}, not in [{ends[0]:g}, {ends[1]:g}]"
                )
        for arm, row in enumerate(p.tolist()):
            if not all(0.0 <= q <= 1.0 for q in row) or abs(math.fsum(row) - 1.0) > 1e-9:
                raise ValueError(
                    f"{self.slug}: probabilities of arm {arm} are {row!r}, not numbers in [0, 1] "
                    "that sum to 1"
                )
        # Those that sum to 1 as well as doubles can stay as they are: specs then keep every bit.
        totals = np.array([math.fsum(row) for row in p.tolist()])
        p = np.where(abs(totals - 1.0) <= 4e-16, p.T, p.T / totals).T
        means = [math.fsum((row * x).tolist()) for row in p]
        variances = [math.fsum((row * (x - m) ** 2).tolist()) for row, m in zip(p, means)]
        parameters = {"values": x.tolist(), "probabilities": p.tolist(), "rewards": list(ends)}
        binary = bool(np.isin(x[(p > 0.0).any(axis=0)], ends).all())
        law = [_cumulative(row) + x.tolist() for row in p.tolist()]
        super().__init__(
            parameters, np.transpose(law), np.clip(means, *ends), variances, ends, binary=binary
        )
        self._probabilities, self._values = p, x

    def _table(self, arm: int) -> tuple[Array, Array]:
        present = self._probabilities[arm] > 0.0
        return self._values[present], self._probabilities[arm][present]


class Tabled(Categorical):
    """Values of its own for every arm: row a of `values` with row a of `probabilities`."""

    def __init__(self, values: Array, probabilities: Array, rewards: tuple[float, float]) -> None:
        x, p, ends = np.array(values), np.array(probabilities), interval(self.slug, rewards)
        means = (p * x).sum(axis=1)
        variances = (p * (x - means[:, None]) ** 2).sum(axis=1)
        binary = bool(np.isin(x[p > 0.0], ends).all())
        law = [_cumulative(row) + values.tolist() for row, values in zip(p.tolist(), x)]
        parameters = {"values": x, "probabilities": p, "rewards": list(ends)}
        Environment.__init__(
            self, parameters, np.transpose(law), np.clip(means, *ends), variances, ends,
            binary=binary,
        )  # fmt: skip
        self._every = x, p

    def _table(self, arm: int) -> tuple[Array, Array]:
        values, probabilities = (rows[arm] for rows in self._every)
        return values[probabilities > 0.0], probabilities[probabilities > 0.0]


# --------------------------------------------------------------------------------------------------


def _cumulative(row: list[float]) -> list[float]:
    """Σ_{j ≤ i} p_j, rounded once; 1 from the last positive one on, which no uniform reaches."""
    last = max(i for i, p in enumerate(row) if p > 0.0)
    return [1.0 if i >= last else math.fsum(row[: i + 1]) for i in range(len(row))]


def _truncated(location: float, sd: float, low: float, high: float) -> tuple[float, ...]:
    """nearest, sd, rate, from, to, the envelope (0 flat, 1 exponential, 2 Gaussian), L and U."""
    nearest = min(max(location, low), high)
    start, stop = (low - nearest) / sd, (high - nearest) / sd
    rate = abs(location - nearest) / sd
    # Each is taken where it accepts a fair share: flat when the density falls little, the
    # exponential for a location well outside, the Gaussian when it is inside or nearly so.
    if rate * (stop - start) + 0.5 * (stop - start) ** 2 < 2.0:
        envelope = 0.0
    else:
        envelope = 2.0 if rate < 0.5 else 1.0
    return nearest, sd, rate, start, stop, envelope, low, high


def _truncated_nodes(column: tuple[float, ...]) -> tuple[Array, Array]:
    """z and weights by Gauss-Legendre on panels of all but e^-700 of the law."""
    _, _, rate, start, stop, *_ = column
    reach = 37.5 if rate == 0.0 else min(37.5, 700.0 / rate)
    start, stop = max(start, -reach), min(stop, reach)
    width = min(2.0, 2.0 / rate if rate > 0.0 else 2.0)
    even = np.linspace(start, stop, math.ceil((stop - start) / width) + 1)
    edges = np.union1d(even, stop - (stop - start) * _towards_one())
    z, weights = legendre(edges, 16)
    mass = weights * np.exp(-rate * np.abs(z) - 0.5 * z * z)
    return z, mass / mass.sum()


def _towards_one() -> Array:
    """The edges 0, 2^-50, …, ½, 1 of panels, as distances from U.

    K_inf integrates ln(1 − λ(x − μ)), which may be singular at U; on panels that halve towards it,
    and so stay at a distance in proportion, ten points each give all digits.
    """
    return np.append(0.0, 2.0 ** np.arange(-50.0, 1.0))


def legendre(edges: Array, size: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss-Legendre quadrature on panels between the edges."""
    nodes, weights = np.polynomial.legendre.leggauss(size)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1.0 + nodes)).ravel(), (half * weights).ravel()


@functools.lru_cache(maxsize=64)
def gauss_jacobi(a: float, b: float, size: int) -> tuple[Array, Array]:
    """Nodes and weights exact for Beta(a, b) times polynomials of degree < 2·size.

    Golub and Welsch 1969: eigenvalues of the recurrence's matrix, squares of first components.
    """
    from scipy.linalg import eigh_tridiagonal

    p, q = b - 1.0, a - 1.0  # the weight (1−x)^p (1+x)^q on [−1, 1]
    n = np.arange(1.0, size)
    s = 2.0 * n + p + q
    diagonal = np.append((q - p) / (p + q + 2.0), (q - p) * (q + p) / (s * (s + 2.0)))
    square = 4.0 * n * (n + p) * (n + q) / (s * s * (s + 1.0))
    square[1:] *= (n + p + q)[1:] / (s - 1.0)[1:]  # a factor that is 1 for n = 1, or 0/0
    # Not `numpy.linalg.eigh`, a hundred times slower where other processes keep the cores busy.
    nodes, vectors = eigh_tridiagonal(diagonal, np.sqrt(square))
    return np.clip(0.5 * (1.0 + nodes), 0.0, 1.0), vectors[0] ** 2
