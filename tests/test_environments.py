"""Environments: their moments, constants and draws against independent ones, and their errors.

The statistical tests have fixed seeds; LEVEL is each one's chance of a false alarm, and all of them
together stay below 10^-6.
"""

import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import cloudpickle
import mpmath
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import maillard as mb
from maillard import compiled
from maillard.environments import PAY
from maillard.environments.bounded import gauss_jacobi
from maillard.environments.custom import _agrees
from maillard.environments.environment import REGISTRY
from maillard.environments.unbounded import poisson_mass
from maillard.numeric import exp
from maillard.streams import LANES, WORDS

LEVEL = 1e-8
DRAWS = 2_048 if compiled.disabled() else 131_072
INFINITY = math.inf
LINE = (-INFINITY, INFINITY)


def biased(p: float, u: float) -> float:
    """A formula that can be imported, and so pickled."""
    return 1.0 if u < p else 0.0


def examples() -> dict[str, mb.Environment]:
    two = [mb.Bernoulli([0.2, 0.8]), mb.Bernoulli([0.7, 0.1])]
    return {
        "bernoulli": mb.Bernoulli([0.8, 0.9, 0.9]),
        "deterministic": mb.Deterministic([0.3, 2.0], rewards=(-1, 2)),
        "uniform": mb.UniformRewards([0.0, -1.0, 0.1], [1.0, 2.0, 0.3], rewards=(-1, 2)),
        "beta": mb.Beta([0.5, 3.0], [2.0, 0.25]),
        "truncated-gaussian": mb.TruncatedGaussian([0.3, 1.4], [0.2, 0.5]),
        "categorical": mb.Categorical([0, 0.25, 1], [[0.1, 0.7, 0.2], [1 / 3, 1 / 3, 1 / 3]]),
        "gaussian": mb.Gaussian([0.0, -2.5], sd=[1.0, 3.0]),
        "poisson": mb.Poisson([0.3, 20.25]),
        "exponential": mb.Exponential([0.5, 4.0]),
        "piecewise": mb.Piecewise(two, changes=[100]),
        "drifting": mb.Drifting(two, knots=[1, 11]),
        "delayed": mb.Delayed(two[0], rounds=5),
        "geometric": mb.Delayed(mb.Piecewise(two, changes=[100]), mean=2.5),
        "batched": mb.Batched(mb.Poisson([1.0, 2.0]), size=10),
        "replay": mb.Replay([[0, 1], [1, 0.5], [0.25, 1]]),
        "resampled": mb.Replay(np.array([[0, 1], [1, 0.5], [0.25, 1]]), order="resampled"),
    }


def draws(environment: mb.Environment, arm: int, n: int = DRAWS, t: float = 1.0) -> Any:
    """Rewards of one arm, through the compiled kernel."""
    pay = compiled.build(environment.pay_kernel, PAY)
    rng = np.random.default_rng(arm).integers(1, 2**64, WORDS, dtype=np.uint64)
    lanes, out = np.full(LANES, arm, dtype=np.uint64), np.empty((n // LANES, LANES))
    law = environment.law_at(t)
    for row in out:
        pay(lanes, law, t, rng, row)
    return out.reshape(-1)


# --------------------------------------------------------------------------------------------------
# Moments


def truncated(location: float, sd: float, low: float, high: float) -> Any:
    return scipy.stats.truncnorm((low - location) / sd, (high - location) / sd, location, sd)


#: An environment and the same laws in SciPy, arm by arm.
LAWS: dict[str, tuple[Callable[[], mb.Environment], list[Any]]] = {
    "uniform": (
        lambda: mb.UniformRewards([0.0, -1.0], [0.25, 2.0], rewards=(-1, 2)),
        [scipy.stats.uniform(0, 0.25), scipy.stats.uniform(-1, 3)],
    ),
    "beta": (
        lambda: mb.Beta([1, 0.3, 30], [1, 0.2, 70]),
        [scipy.stats.beta(1, 1), scipy.stats.beta(0.3, 0.2), scipy.stats.beta(30, 70)],
    ),
    # Flat, Gaussian (inside, and nearly so) and exponential envelopes, on either side.
    "truncated-gaussian": (
        lambda: mb.TruncatedGaussian(
            [0.0, 2.2, 0.3, 1.05, 1.6, -0.9], [0.51, 1.0, 0.1, 0.2, 0.25, 0.3]
        ),
        [
            truncated(m, s, 0, 1)
            for m, s in [(0, 0.51), (2.2, 1), (0.3, 0.1), (1.05, 0.2), (1.6, 0.25), (-0.9, 0.3)]
        ],
    ),
    "truncated-gaussian-wide": (
        lambda: mb.TruncatedGaussian([-3.0, 1.0], 1.5, rewards=(-2, 5)),
        [truncated(-3, 1.5, -2, 5), truncated(1, 1.5, -2, 5)],
    ),
    "gaussian": (
        lambda: mb.Gaussian([0, -3], sd=[1, 2]),
        [scipy.stats.norm(0, 1), scipy.stats.norm(-3, 2)],
    ),
    "exponential": (
        lambda: mb.Exponential([0.5, 7]),
        [scipy.stats.expon(scale=0.5), scipy.stats.expon(scale=7)],
    ),
    "bernoulli": (
        lambda: mb.Bernoulli([0, 0.03, 0.8, 1]),
        [scipy.stats.bernoulli(p) for p in (0, 0.03, 0.8, 1)],
    ),
    "poisson": (
        lambda: mb.Poisson([1e-3, 0.7, 16.5, 250, 1e5]),
        [scipy.stats.poisson(m) for m in (1e-3, 0.7, 16.5, 250, 1e5)],
    ),
}
DISCRETE = ("bernoulli", "poisson")


@pytest.mark.parametrize("name", LAWS)
def test_moments(name: str) -> None:
    make, laws = LAWS[name]
    environment = make()
    assert environment.arms == len(laws)
    np.testing.assert_allclose(environment.means, [law.mean() for law in laws], rtol=1e-11)
    np.testing.assert_allclose(environment.variances, [law.var() for law in laws], rtol=1e-9)
    np.testing.assert_array_equal(environment.gaps, environment.means.max() - environment.means)
    assert environment.best == int(np.argmax([law.mean() for law in laws]))


@pytest.mark.parametrize(
    ("location", "sd"), [(0.5, 1e-6), (-3.0, 1e-3), (1.0, 0.01), (0.2, 1e4), (1e3, 0.5), (0.9, 0.3)]
)
def test_moments_of_extreme_truncated_gaussians(location: float, sd: float) -> None:
    """Against a quadrature of 40 digits about the law's own bulk."""
    environment = mb.TruncatedGaussian([location, 0.5], [sd, 1.0])
    with mpmath.workdps(40):
        m, s = mpmath.mpf(location), mpmath.mpf(sd)
        nearest = min(max(m, 0), 1)
        scale = min(s, s * s / abs(m - nearest) if m != nearest else s)
        grid = [nearest + scale * k for k in (-60, -30, -10, -3, 0, 3, 10, 30, 60)]
        ends = sorted({mpmath.mpf(0), mpmath.mpf(1), *(x for x in grid if 0 < x < 1)})

        def moment(power: int, centre: Any) -> Any:
            def term(x: Any) -> Any:
                return (x - centre) ** power * mpmath.exp(
                    -(x - nearest) * (x + nearest - 2 * m) / (2 * s * s)
                )

            return mpmath.quad(term, ends)

        mass = moment(0, 0)
        mean = nearest + moment(1, nearest) / mass
        variance = moment(2, mean) / mass
    assert environment.means[0] == pytest.approx(float(mean), rel=1e-13)
    assert environment.variances[0] == pytest.approx(float(variance), rel=1e-10)


def test_moments_of_categorical_laws() -> None:
    values, rows = [0, 0.25, 0.5, 2], [[0.5, 0.125, 0.25, 0.125], [0, 0, 1, 0], [0.25] * 4]
    environment = mb.Categorical(values, rows, rewards=(0, 2))
    for arm, row in enumerate(rows):
        p, x = [Fraction(q) for q in row], [Fraction(v) for v in values]
        mean = sum(q * v for q, v in zip(p, x, strict=True))
        variance = sum(q * (v - mean) ** 2 for q, v in zip(p, x, strict=True))
        assert environment.means[arm] == float(mean)
        assert environment.variances[arm] == pytest.approx(float(variance), abs=1e-16)
    assert not environment.binary
    assert mb.Categorical([0, 0.5, 1], [[0.5, 0, 0.5], [1, 0, 0]]).binary
    assert not mb.Categorical([0, 1], [[0.5, 0.5], [1, 0]], rewards=(0, 2)).binary


def test_moments_of_records() -> None:
    table = [[0, 1], [1, 0.5], [0.25, 1], [0.25, 0]]
    environment = mb.Replay(table)
    assert environment.means.tolist() == [0.375, 0.625]
    assert environment.variances.tolist() == np.var(table, axis=0).tolist()
    assert (environment.rounds, mb.Replay(table, order="resampled").rounds) == (4, None)
    assert mb.Replay([[0, 1], [1, 1]]).binary
    assert not environment.binary


# --------------------------------------------------------------------------------------------------
# Draws


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_their_law(name: str) -> None:
    """Kolmogorov and Smirnov's test, or χ² on cells that hold at least 20 expected draws."""
    make, laws = LAWS[name]
    environment = make()
    low, high = environment.rewards
    for arm, law in enumerate(laws):
        sample = draws(environment, arm)
        assert ((sample >= low) & (sample <= high)).all()
        if name in DISCRETE:
            assert chi_square(sample, law) > LEVEL
        else:
            assert scipy.stats.kstest(sample, law.cdf).pvalue > LEVEL


def chi_square(sample: Any, law: Any) -> float:
    """The probability of so much disagreement with a law on whole numbers."""
    start, stop = int(law.ppf(1e-9)), int(law.ppf(1 - 1e-9))
    edges, expected, last = [], [], 0.0
    for k in range(max(start - 1, -1), stop + 1):
        mass = (law.cdf(k) - last) * len(sample)
        if mass >= 20 and (1.0 - law.cdf(k)) * len(sample) >= 20:
            edges.append(k)
            expected.append(mass)
            last = law.cdf(k)
    expected.append((1.0 - last) * len(sample))
    cells = np.bincount(np.searchsorted(edges, sample), minlength=len(expected))
    if len(expected) == 1:  # too rare to count: a law that is nearly a point
        return float(abs(sample - law.mean()).max() < 20)
    return float(scipy.stats.chisquare(cells, expected).pvalue)


def test_draws_of_categorical_laws() -> None:
    rows = [[0.5, 0.125, 0.3, 0.075], [0, 0.5, 0.5, 0], [0, 0, 0, 1]]
    values = [0.25, 1.0, 0.0, 0.5]
    environment = mb.Categorical(values, rows)
    for arm, row in enumerate(rows):
        sample = draws(environment, arm)
        counts = np.array([(sample == value).sum() for value in values])
        possible = np.array(row) > 0
        assert counts[~possible].sum() == 0
        if possible.sum() > 1:
            expected = np.array(row)[possible] * len(sample)
            assert scipy.stats.chisquare(counts[possible], expected).pvalue > LEVEL
        else:
            assert counts[possible] == [len(sample)]


def test_draws_of_point_masses_and_records() -> None:
    assert set(draws(mb.Deterministic([0.3, 0.7]), 1, LANES)) == {0.7}
    table = np.random.default_rng(0).random((5, 3))
    recorded, resampled = mb.Replay(table), mb.Replay(table, order="resampled")
    for t in range(1, 6):
        for arm in range(3):
            assert set(draws(recorded, arm, LANES, t=float(t))) == {table[t - 1, arm]}
    assert set(draws(recorded, 0, LANES, t=6.0)) == {table[4, 0]}  # no reading beyond the table
    sample = draws(resampled, 2)
    counts = [(sample == value).sum() for value in table[:, 2]]
    assert scipy.stats.chisquare(counts).pvalue > LEVEL


def test_lanes_are_paid_for_their_own_arms() -> None:
    environment = mb.UniformRewards([0.0, 0.4, 0.8], [0.1, 0.5, 0.9])
    pay = compiled.build(environment.pay_kernel, PAY)
    rng = np.random.default_rng(0).integers(1, 2**64, WORDS, dtype=np.uint64)
    arm, reward = np.arange(LANES, dtype=np.uint64) % 3, np.empty(LANES)
    pay(arm, environment.law, 1.0, rng, reward)
    assert (reward >= environment.law[0][arm.astype(int)]).all()
    assert (reward <= environment.law[2][arm.astype(int)]).all()


def test_poisson_probabilities() -> None:
    for mean in (1e-6, 0.4, 3.0, 15.99, 16.0, 700.5, 1e6):
        for n in {0, int(mean), int(mean + mean**0.5), int(mean) + 1}:
            with mpmath.workdps(40):
                m = mpmath.mpf(mean)
                exact = mpmath.exp(n * mpmath.log(m) - m - mpmath.loggamma(n + 1))
            assert poisson_mass(float(n), mean) == pytest.approx(float(exact), rel=3e-14)


# --------------------------------------------------------------------------------------------------
# The asymptotic constant


def test_constants_in_closed_form() -> None:
    def kl(a: float, b: float) -> float:
        return a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b))

    cases = [
        (mb.Bernoulli([0.8, 0.9, 0.5, 0.9]), 0.1 / kl(0.8, 0.9) + 0.4 / kl(0.5, 0.9)),
        (mb.Gaussian([0.0, 1.0, 0.5], sd=[2.0, 1.0, 1.0]), 1 / (1 / 8) + 0.5 / 0.125),
        (mb.Poisson([1.0, 3.0]), 2 / (3 - 1 + math.log(1 / 3))),
        (mb.Exponential([1.0, 3.0]), 2 / (1 / 3 - 1 - math.log(1 / 3))),
        # A point at x is farthest from the laws whose density falls to (1−μ)/(1−x) there.
        (mb.Deterministic([0.25, 0.5]), 0.25 / math.log(0.75 / 0.5)),
        (mb.Deterministic([0.5, 1.0], rewards=(0, 2)), 0.5 / math.log(1.5 / 1.0)),
        (mb.Bernoulli([0.5, 1.0]), 0.0),
        (mb.Bernoulli([0.5, 0.5]), 0.0),
        (mb.Bernoulli([0.0, 0.5]), 0.5 / math.log(2)),
    ]
    for environment, expected in cases:
        assert environment.asymptotic_constant() == pytest.approx(expected, rel=1e-12)


def test_constant_of_categorical_laws() -> None:
    """By a search over the laws themselves: Σ p ln(p/q) least with Σ q x ≥ μ*, on values and U."""
    values, p = np.array([0.0, 0.25, 0.5, 0.75]), np.array([0.4, 0.3, 0.2, 0.1])
    best = 0.5
    environment = mb.Categorical(values, [p, [0, 0, 1, 0]])
    support, weights = np.append(values, 1.0), np.append(p, 0.0)

    def divergence(q: Any) -> float:
        return float(np.sum(weights[:4] * np.log(weights[:4] / q[:4])))

    found = scipy.optimize.minimize(
        divergence,
        np.full(5, 0.2),
        bounds=[(1e-9, 1.0)] * 5,
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1.0},
            {"type": "ineq", "fun": lambda q: q @ support - best},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    gap = best - float(p @ values)
    assert environment.asymptotic_constant() == pytest.approx(gap / found.fun, rel=1e-6)
    stretched = mb.Categorical(4 * values - 2, [p, [0, 0, 1, 0]], rewards=(-2, 2))
    assert stretched.asymptotic_constant() == pytest.approx(4 * gap / found.fun, rel=1e-6)


def dual(density: Callable[[Any], Any], ends: list[float], mean: float) -> float:
    """max over 0 ≤ λ ≤ 1/(1−μ) of E ln(1 − λ(X−μ)), by golden sections on a quadrature."""
    mass = mpmath.quad(density, ends)

    def objective(share: float) -> float:
        rate = mpmath.mpf(share) / (1 - mpmath.mpf(mean))
        integral = mpmath.quad(
            lambda x: density(x) * mpmath.log(max(1 - rate * (x - mean), mpmath.mpf("1e-30"))), ends
        )
        return -float(integral / mass)

    found = scipy.optimize.minimize_scalar(
        objective, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-7}
    )
    return -float(found.fun)


@pytest.mark.slow
def test_constants_of_densities() -> None:
    ends = [0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1]
    cases: list[tuple[mb.Environment, Callable[[Any], Any], list[float]]] = [
        (mb.Beta([2, 8], [3, 2]), lambda x: x * (1 - x) ** 2, ends),
        (mb.Beta([1.5, 8], [1, 1]), lambda x: x**0.5, ends),
        (mb.UniformRewards([0, 0.7], [1, 0.9]), lambda x: 1, ends),
        (mb.UniformRewards([0.2, 0.8], [0.6, 1.0]), lambda x: 1, [0.2, 0.4, 0.6]),
        (
            mb.TruncatedGaussian([0.2, 0.9], [0.5, 0.2]),
            lambda x: mpmath.exp(-((x - 0.2) ** 2) / 0.5),
            ends,
        ),
    ]
    for environment, density, panels in cases:
        distance = dual(density, panels, float(environment.means[1]))
        expected = float(environment.gaps[0]) / distance
        assert environment.asymptotic_constant() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (0.5, 0.25), (3, 0.125), (40, 60), (0.125, 8)])
def test_nodes_of_beta_laws(a: float, b: float) -> None:
    """E X^k = Π (a+i)/(a+b+i), of which the rule gives every one below degree 32."""
    nodes, weights = gauss_jacobi(a, b, 16)
    exact = Fraction(1)
    for k in range(32):
        assert weights @ nodes**k == pytest.approx(float(exact), rel=1e-12)
        exact *= (Fraction(a) + k) / (Fraction(a) + Fraction(b) + k)


def test_the_constant_of_uniform_rewards_near_the_end() -> None:
    """E ln(1 − λ(X−μ)) has an antiderivative; the slope's root is close to the singular end."""
    mean = mpmath.mpf(0.98)

    def expectation(share: Any) -> Any:
        rate = share / (1 - mean)
        top, bottom = 1 + rate * mean, 1 - rate * (1 - mean)  # 1 − λ(x−μ) at 0 and at 1
        return (top * (mpmath.log(top) - 1) - bottom * (mpmath.log(bottom) - 1)) / rate

    with mpmath.workdps(60):
        shares = (1 - mpmath.mpf(10) ** (-k / mpmath.mpf(8)) for k in range(1, 320))
        distance = max(expectation(share) for share in shares)
        expected = float((mean - mpmath.mpf(0.5)) / distance)
    environment = mb.UniformRewards([0, 0.97], [1, 0.99])
    assert environment.asymptotic_constant() == pytest.approx(expected, rel=1e-9)


def test_where_there_is_no_constant() -> None:
    known = examples()
    for name in ("piecewise", "drifting", "geometric", "replay"):
        assert math.isnan(known[name].asymptotic_constant())
    inner = mb.Bernoulli([0.2, 0.8])
    assert known["delayed"].asymptotic_constant() == inner.asymptotic_constant()
    columns = mb.Categorical([0, 0.25, 1], [[1 / 3, 1 / 3, 1 / 3], [0, 0, 1]])
    table = [[0, 1], [0.25, 0.5], [1, 1]]
    resampled = mb.Replay(table, order="resampled")
    gap = resampled.gaps[0]
    assert resampled.means[1] == pytest.approx(5 / 6)
    assert resampled._distance(0, 5 / 6) == pytest.approx(columns._distance(0, 5 / 6), rel=1e-12)
    assert resampled.asymptotic_constant() == pytest.approx(gap / columns._distance(0, 5 / 6))


# --------------------------------------------------------------------------------------------------
# Changes and delays


def test_piecewise() -> None:
    stages = [mb.Beta([1, 2], [3, 2]), mb.Beta([2, 1], [2, 5]), mb.Beta([4, 4], [1, 1])]
    environment = mb.Piecewise(stages, changes=[11, 501])
    assert environment.knots.tolist() == [1, 11, 501]
    assert environment.laws.shape == (3, 2, 2)
    assert not environment.drifts
    for t, stage in [(1, 0), (10, 0), (11, 1), (500, 1), (501, 2), (10**9, 2)]:
        np.testing.assert_array_equal(environment.means_at(t), stages[stage].means)
        np.testing.assert_array_equal(environment.law_at(t), stages[stage].law)
    np.testing.assert_array_equal(environment.law, stages[0].law)
    np.testing.assert_array_equal(environment.variances, stages[0].variances)
    assert (
        scipy.stats.kstest(draws(environment, 1, t=20.0), scipy.stats.beta(1, 5).cdf).pvalue > LEVEL
    )


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (mb.Bernoulli([0.2, 0.8]), mb.Bernoulli([0.7, 0.0])),
        (mb.Deterministic([0.25, 0.5]), mb.Deterministic([1.0, 0.0])),
        (mb.UniformRewards([0.0, 0.5], [0.25, 0.75]), mb.UniformRewards([0.5, 0.0], [1.0, 0.5])),
        (mb.Gaussian([0.0, 1.0]), mb.Gaussian([4.0, -1.0], sd=2.0)),
        (mb.Poisson([1.0, 2.0]), mb.Poisson([9.0, 1.0])),
        (mb.Exponential([1.0, 2.0]), mb.Exponential([3.0, 1.0])),
        (
            mb.Categorical([0, 0.5, 1], [[0.5, 0.5, 0], [0, 0, 1]]),
            mb.Categorical([0, 0.5, 1], [[0, 0.25, 0.75], [1, 0, 0]]),
        ),
    ],
    ids=lambda e: e.slug,
)
def test_drifting(first: mb.Environment, last: mb.Environment) -> None:
    environment = mb.Drifting([first, last, first], knots=[1, 9, 13])
    assert environment.drifts
    np.testing.assert_array_equal(environment.means_at(1), first.means)
    np.testing.assert_array_equal(environment.means_at(9), last.means)
    for t in (13, 14, 10**9):
        np.testing.assert_array_equal(environment.means_at(t), first.means)
    np.testing.assert_allclose(environment.means_at(3), 0.75 * first.means + 0.25 * last.means)
    np.testing.assert_allclose(environment.means_at(12), 0.75 * first.means + 0.25 * last.means)
    # What is drawn at a law between two has the mean between theirs, to seven standard errors.
    sample, mean = draws(environment, 0, t=4.0), environment.means_at(4)[0]
    error = 7.0 * max(sample.std(), 0.01) / math.sqrt(len(sample)) + 1e-12
    assert abs(sample.mean() - mean) < error


def test_environments_change_without_moving_elsewhere() -> None:
    """A stationary world has one row, and a wrapped one the rows of what it wraps."""
    for name, environment in examples().items():
        assert environment.knots[0] == 1
        assert environment.knots.dtype == np.int64
        shape = (len(environment.knots), len(environment.law), environment.arms)
        assert environment.laws.shape == shape, name
        assert environment.mean_table.shape == (len(environment.knots), environment.arms)
        assert environment.laws.flags.c_contiguous
        assert environment.laws.dtype == environment.law.dtype == np.float64
        np.testing.assert_array_equal(environment.law_at(1), environment.law)
        np.testing.assert_array_equal(environment.means_at(1), environment.means)
        assert isinstance(environment.binary, bool)
    wrapped = examples()["geometric"]
    assert wrapped.delay == ("geometric", 2.5)
    assert wrapped.knots.tolist() == [1, 100]
    assert wrapped.means_at(100).tolist() == [0.7, 0.1]
    assert examples()["delayed"].delay == ("fixed", 5)
    assert examples()["batched"].delay == ("batch", 10)
    assert mb.Delayed(mb.Drifting([mb.Poisson([1, 2])] * 2, [1, 5]), rounds=0).drifts
    with pytest.raises(ValueError, match="counted from 1"):
        wrapped.means_at(0)


def test_horizons() -> None:
    for environment in (examples()["replay"], mb.Delayed(examples()["replay"], rounds=1)):
        environment.check_horizon(3)
        with pytest.raises(ValueError, match=r"a horizon of 1,000 is beyond the 3 recorded rounds"):
            environment.check_horizon(1000)
    examples()["resampled"].check_horizon(10**9)


# --------------------------------------------------------------------------------------------------
# By name, and as data


@pytest.mark.parametrize("name", examples())
def test_round_trips(name: str) -> None:
    environment = examples()[name]
    text = json.dumps(environment.spec(), allow_nan=False)
    json.dumps(environment.identity(), allow_nan=False)
    for other in (
        mb.environment_from(json.loads(text)),
        pickle.loads(pickle.dumps(environment)),
        cloudpickle.loads(cloudpickle.dumps(environment)),
    ):
        same(environment, other)
        assert repr(other) == repr(environment)
        assert not other.means.flags.writeable
    assert "\n" not in repr(environment)


def same(one: mb.Environment, other: mb.Environment) -> None:
    assert type(one) is type(other)
    assert one.spec() == other.spec()
    assert one.identity() == other.identity()
    for name in ("law", "laws", "knots", "means", "variances", "mean_table"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("rewards", "binary", "drifts", "delay", "rounds", "best", "arms"):
        assert getattr(one, name) == getattr(other, name)
    assert compiled.fingerprint(one.pay_kernel) == compiled.fingerprint(other.pay_kernel)


def test_names() -> None:
    assert mb.environment("bernoulli", means=[0.8, 0.9]).spec() == mb.Bernoulli([0.8, 0.9]).spec()
    nested = mb.environment(
        "delayed", inner={"environment": "bernoulli", "means": [0.1, 0.2]}, rounds=3
    )
    assert nested.spec() == mb.Delayed(mb.Bernoulli([0.1, 0.2]), rounds=3).spec()
    classes = {cls.__name__ for cls in REGISTRY.values()}
    assert classes <= set(mb.__all__)
    assert not classes & {cls.__name__ for cls in mb.catalogue().values()}
    for slug, cls in REGISTRY.items():
        assert cls.slug == slug
        assert cls.title
        assert cls.formula
        assert getattr(mb, cls.__name__) is cls


def test_identities_tell_tables_apart() -> None:
    table = np.random.default_rng(0).random((1000, 2))
    one, other = mb.Replay(table), mb.Replay(table[::-1])
    assert one.identity() != other.identity()
    assert len(json.dumps(mb.Delayed(one, rounds=1).identity())) < 300
    assert len(pickle.dumps(mb.Delayed(one, rounds=1))) < 1.2 * table.nbytes


def test_numba_is_not_imported() -> None:
    code = (
        "import sys, maillard as mb\n"
        "mb.Delayed(mb.Beta([1, 2], 1), rounds=2).spec()\n"
        "mb.Replay([[0, 1], [1, 1]]), mb.Custom\n"
        "assert not {'numba', 'scipy', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --------------------------------------------------------------------------------------------------
# Misuse

HALF = mb.Bernoulli([0.5, 0.5])
MISUSE: dict[str, tuple[Callable[[], Any], str]] = {
    "above": (lambda: mb.Bernoulli([0.5, 1.5]), "bernoulli: means of arm 1 is 1.5, not in [0, 1]"),
    "nan": (lambda: mb.Bernoulli([math.nan, 0.5]), "bernoulli: means of arm 0 is nan, not in [0"),
    "one arm": (lambda: mb.Bernoulli([0.5]), "means must list at least 2 arms, not 1"),
    "scalar": (lambda: mb.Bernoulli(0.5), "means must be a list with a number for each arm"),  # type: ignore[arg-type]
    "text": (lambda: mb.Bernoulli(["0.5", "0.6"]), "means must be a list with a number"),  # type: ignore[list-item]
    "ragged": (lambda: mb.Bernoulli([[0.5], 0.2]), "means must be a list with a number"),  # type: ignore[list-item]
    "range": (lambda: mb.Deterministic([0, 3], rewards=(0, 2)), "arm 1 is 3.0, not in [0, 2]"),
    "swapped": (lambda: mb.Deterministic([0, 1], rewards=(1, 0)), "needs finite L < U, not (1.0"),
    "infinite": (lambda: mb.Deterministic([0, 1], rewards=(0, INFINITY)), "needs finite L < U"),
    "triple": (lambda: mb.Deterministic([0, 1], rewards=(0, 1, 2)), "must be a pair (L, U)"),  # type: ignore[arg-type]
    "low": (lambda: mb.UniformRewards([0.5, 0.1], 0.5), "low of arm 0 is 0.5, not below its high"),
    "beta": (lambda: mb.Beta([1, 0], 1), "beta: a of arm 1 is 0.0, not in [0.001, 1e+12]"),
    "arms": (lambda: mb.Gaussian([0, 1, 2], sd=[1, 2]), "different numbers of arms: means 3, sd 2"),
    "all scalar": (lambda: mb.Beta(1, 1), "beta: a or b must list at least 2 arms"),
    "words": (lambda: mb.Beta([1, 2], "x"), "beta: b must be a number, or one for each arm"),  # type: ignore[arg-type]
    "sd": (lambda: mb.TruncatedGaussian([0, 1], 0), "truncated-gaussian: sd of arm 0 is 0.0"),
    "poisson": (lambda: mb.Poisson([1, 1e7]), "poisson: means of arm 1 is 10000000.0, not in"),
    "values": (lambda: mb.Categorical([0, 2], [[1, 0]] * 2), "values[1] is 2.0, not in [0, 1]"),
    "sum": (lambda: mb.Categorical([0, 1], [[1, 0], [0.5, 0.4]]), "arm 1 are [0.5, 0.4], not"),
    "rows": (lambda: mb.Categorical([0, 1], [[1, 0, 0]] * 2), "a row of 2 numbers, one a value"),
    "table": (lambda: mb.Replay([[0, 1], [0, 7]]), "arm 1 pays 7.0 at round 2, not a number in"),
    "no table": (lambda: mb.Replay([0, 1]), "table must be a matrix of numbers, [rounds, arms]"),
    "narrow": (lambda: mb.Replay([[0], [1]]), "table must have at least 2 arms, not 1"),
    "order": (lambda: mb.Replay([[0, 1]], order="x"), "must be 'recorded' or 'resampled', not 'x'"),
    "one stage": (lambda: mb.Piecewise([HALF], []), "a list of at least 2 environments"),
    "changes": (lambda: mb.Piecewise([HALF, HALF], []), "changes must list 1 rounds, not []"),
    "first": (lambda: mb.Piecewise([HALF, HALF], [1]), "changes[0] must be a whole number of at"),
    "rising": (lambda: mb.Piecewise([HALF] * 3, [9, 9]), "changes[1] is 9, not after changes[0]"),
    "mixed": (
        lambda: mb.Piecewise([HALF, mb.Deterministic([0, 1])], [9]),
        "stages[1] is deterministic with 1, stages[0] bernoulli with 1",
    ),
    "stage arms": (
        lambda: mb.Piecewise([HALF, mb.Bernoulli([0.1] * 3)], [9]),
        "stages[1] has 3 arms, stages[0] 2",
    ),
    "stage": (lambda: mb.Piecewise([HALF, 3], [9]), "stages[1] must be an environment, not 3"),  # type: ignore[list-item]
    "late stage": (
        lambda: mb.Piecewise([HALF, mb.Batched(HALF, 3)], [9]),
        "stages[1] is batched, but a stage must be a stationary environment (put the delay outside",
    ),
    "not linear": (
        lambda: mb.Drifting([mb.Beta([1, 2], 1)] * 2, [1, 9]),
        "the mean of beta rewards is not linear in their parameters",
    ),
    "moving values": (
        lambda: mb.Drifting(
            [mb.Categorical([0, 1], [[1, 0]] * 2), mb.Categorical([0, 0.5], [[1, 0]] * 2)], [1, 9]
        ),
        "stages[1] has other values than stages[0]",
    ),
    "knot": (lambda: mb.Drifting([HALF, HALF], [2, 9]), "knots[0] must be round 1, not 2"),
    "both": (lambda: mb.Delayed(HALF, rounds=1, mean=1), "give either rounds= or mean="),
    "neither": (lambda: mb.Delayed(HALF), "give either rounds= or mean="),
    "delay": (lambda: mb.Delayed(HALF, rounds=-1), "rounds must be a whole number of at least 0"),
    "mean delay": (
        lambda: mb.Delayed(HALF, mean=-1),
        "mean must be a number in [0, 1e+12], not -1",
    ),
    "twice": (
        lambda: mb.Batched(mb.Delayed(HALF, 1), 2),
        "the rewards of delayed are late already",
    ),
    "batch": (lambda: mb.Batched(HALF, 2.5), "size must be a whole number of at least 1, not 2.5"),  # type: ignore[arg-type]
    "name": (lambda: mb.environment("bernouli"), "unknown environment 'bernouli': did you mean be"),
    "no name": (lambda: mb.environment("xyz"), "unknown environment 'xyz': there are bernoulli,"),
    "number": (lambda: mb.environment(3), "an environment is named by a string, not 3"),  # type: ignore[arg-type]
    "parameter": (
        lambda: mb.environment("bernoulli", mean=[0.1, 0.2]),
        "bernoulli has no parameter 'mean': did you mean 'means'?",
    ),
    "missing": (lambda: mb.environment("beta"), "beta needs a and b"),
    "no spec": (lambda: mb.environment_from({"means": [0.1]}), "description is a table such as"),
    "custom": (lambda: mb.environment("custom"), "its formula is code, not data: make it with mb."),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse(case: str) -> None:
    call, text = MISUSE[case]
    with pytest.raises(ValueError, match=r"^\S+") as caught:
        call()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


# --------------------------------------------------------------------------------------------------
# Formulas of one's own


def test_a_formula_pays_like_the_law_it_writes() -> None:
    """With the same generators, the very rewards of the package's own kernel."""
    means = [0.8, 0.1, 0.5]
    environment = mb.Custom(biased, means=means, p=means, binary=True)
    ours = mb.Bernoulli(means)
    for arm in range(3):
        np.testing.assert_array_equal(draws(environment, arm, 1024), draws(ours, arm, 1024))
    np.testing.assert_allclose(environment.variances, ours.variances)
    assert environment.binary
    assert environment.asymptotic_constant() == pytest.approx(ours.asymptotic_constant())


def test_formulas_draw_what_they_name() -> None:
    cases: list[tuple[mb.Environment, Any]] = [
        (
            mb.Custom(lambda m, z, s: m + s * z, [0, 1], LINE, [4, 4], m=[0, 1], s=2),
            scipy.stats.norm(1, 2),
        ),
        (mb.Custom(lambda e: 3.0 * e, [3, 3], (0, INFINITY)), scipy.stats.expon(scale=3)),
        (
            mb.Custom(lambda u, v: 0.5 * (u + v), means=[0.5, 0.5], variances=[1 / 24, 1 / 24]),
            scipy.stats.triang(0.5),
        ),
        (mb.Custom(lambda z: exp(-0.5 * z * z), [0.5**0.5] * 2), None),
    ]
    for environment, law in cases:
        sample = draws(environment, 1)
        if law is not None:
            assert scipy.stats.kstest(sample, law.cdf).pvalue > LEVEL
        assert math.isnan(environment.asymptotic_constant())


def test_formulas_of_the_round() -> None:
    environment = mb.Custom(
        lambda p, t, u: p if t < 3.0 else 2.0 * p * u, means=[0.2, 0.4], p=[0.2, 0.4]
    )
    assert set(draws(environment, 1, LANES, t=2.0)) == {0.4}
    assert (
        scipy.stats.kstest(draws(environment, 1, t=3.0), scipy.stats.uniform(0, 0.8).cdf).pvalue
        > LEVEL
    )


def test_true_and_false_are_rewards() -> None:
    environment = mb.Custom(lambda p, u: u < p, means=[0.0, 1.0], p=[0, 1], binary=True)
    assert draws(environment, 1, LANES).tolist() == [1.0] * LANES
    assert draws(environment, 0, LANES).tolist() == [0.0] * LANES


def test_formulas_in_pickles() -> None:
    importable = mb.Custom(biased, means=[0.2, 0.4], p=[0.2, 0.4])
    same(importable, pickle.loads(pickle.dumps(importable)))
    lambda_ = mb.Custom(lambda p, u: 1.0 if u < p else 0.0, means=[0.2, 0.4], p=[0.2, 0.4])
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(lambda_)
    same(lambda_, cloudpickle.loads(cloudpickle.dumps(lambda_)))
    late = mb.Delayed(lambda_, rounds=2)
    same(late, cloudpickle.loads(cloudpickle.dumps(late)))
    stages = mb.Piecewise([lambda_, lambda_], changes=[9])
    same(stages, cloudpickle.loads(cloudpickle.dumps(stages)))


def test_a_formula_is_described_and_not_made_from_its_description() -> None:
    environment = mb.Custom(lambda u: u, means=[0.5, 0.5], rewards=(0, INFINITY))
    spec = json.loads(json.dumps(environment.spec(), allow_nan=False))
    assert spec["environment"] == "custom"
    assert spec["rewards"] == [0.0, None]
    with pytest.raises(ValueError, match=r"its formula is code, not data: make it with mb\.Custom"):
        mb.environment_from(spec)
    other = mb.Custom(lambda u: 1.0 - u, means=[0.5, 0.5], rewards=(0, INFINITY))
    assert other.identity() != environment.identity()
    assert "Custom(" in repr(environment)
    assert "lambda" in repr(environment)


FORMULAS: dict[str, tuple[Callable[[], Any], str]] = {
    "range": (lambda: mb.Custom(lambda u: 2 * u, [0.5, 0.5]), "which is not in [0, 1]"),
    "nan": (
        lambda: mb.Custom(lambda u: (u - 2.0) ** 0.5, [0.5, 0.5], LINE),
        "arm 0 paid nan, which is not in [-inf, inf]",
    ),
    "not binary": (
        lambda: mb.Custom(lambda u: u, [0.5, 0.5], binary=True),
        "which is not 0 or 1",
    ),
    "mean": (
        lambda: mb.Custom(biased, [0.5, 0.9], p=[0.5, 0.5]),
        "draws, but its stated mean is 0.9",
    ),
    "sure mean": (
        lambda: mb.Custom(lambda p: p, [0.5, 1.0], p=[0.5, 0.99]),
        "arm 1 pays 0.99 on average over",
    ),
    "unbounded mean": (
        lambda: mb.Custom(lambda z: z, [4, 0], LINE, [1, 1]),
        "draws, but its stated mean is 4.0",
    ),
    "unknown": (
        lambda: mb.Custom(lambda q, u: u, [0.5, 0.5], p=[1, 2]),
        "the formula asks for 'q', which is neither a column nor one of u, v, z, e, t",
    ),
    "near": (
        lambda: mb.Custom(lambda shapes, u: u, [0.5, 0.5], shape=[1, 2]),
        "did you mean 'shape'?",
    ),
    "stated": (lambda: mb.Custom(lambda means: means, [0.5, 0.5]), "so name the column otherwise"),
    "unused": (
        lambda: mb.Custom(lambda u: u, [0.5, 0.5], p=[1, 2]),
        "there is a column 'p', but the formula names only u",
    ),
    "clash": (
        lambda: mb.Custom(lambda u: u, [0.5, 0.5], u=[1, 2]),
        "'u' is drawn afresh and cannot name a column",
    ),
    "no function": (lambda: mb.Custom(3, [0.5, 0.5]), "must be a function, not 3"),  # type: ignore[arg-type]
    "builtin": (lambda: mb.Custom(len, [0.5, 0.5]), "custom: "),
    "default": (lambda: mb.Custom(lambda u, k=2: u, [0.5, 0.5]), "must not have default arguments"),
    "starred": (lambda: mb.Custom(lambda *u: 0.5, [0.5, 0.5]), "'u' must be a plain one"),
    "text": (lambda: mb.Custom(lambda u: "a", [0.5, 0.5]), "the formula cannot be used: "),  # type: ignore[arg-type, return-value]
    "column": (
        lambda: mb.Custom(biased, [0.5, 0.5], p=[0.5, math.inf]),
        "custom: p of arm 1 is inf, not a finite number",
    ),
    "columns": (lambda: mb.Custom(biased, [0.5, 0.5], p=[0.5] * 3), "p lists 3 arms, not 2"),
    "means": (lambda: mb.Custom(biased, [0.5, 1.5], p=0.5), "means of arm 1 is 1.5, not in [0, 1]"),
    "variances": (
        lambda: mb.Custom(biased, [0.5, 0.5], variances=[0.2, 0.3], p=0.5),
        "variances of arm 1 is 0.3, more than its mean in [L, U] allows, 0.25",
    ),
    "drift": (
        lambda: mb.Drifting([mb.Custom(biased, [0.5, 0.5], p=0.5)] * 2, [1, 9]),
        "the mean of custom rewards is not linear",
    ),
    "other formulas": (
        lambda: mb.Piecewise(
            [mb.Custom(biased, [0.5, 0.5], p=0.5), mb.Custom(lambda p: p, [0.5, 0.5], p=0.5)], [9]
        ),
        "all stages must have one law",
    ),
}


@pytest.mark.parametrize("case", FORMULAS)
def test_misuse_of_formulas(case: str) -> None:
    call, text = FORMULAS[case]
    with pytest.raises(ValueError, match=r"^\S+") as caught:
        call()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_formulas_are_no_closures() -> None:
    def around(k: float) -> Callable[[float], float]:
        return lambda u: k * u

    with pytest.raises(ValueError, match="must not be a closure: write a plain function, and give"):
        mb.Custom(around(1.0), means=[0.5, 0.5])


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.97])
def test_the_check_of_means_is_fair(p: float) -> None:
    """Its chance to refuse n draws that are as stated, added up over all of their sums."""
    n = 512
    refused = 0.0
    for k in range(n + 1):
        values = np.repeat([1.0, 0.0], [k, n - k])
        average, agrees = _agrees(values, p, p * (1 - p), 0.0, 1.0, arms=1)
        assert average == k / n
        refused += 0.0 if agrees else float(scipy.stats.binom.pmf(k, n, p))
    assert 1e-9 < refused <= 1e-6
