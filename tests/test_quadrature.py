"""P(largest draw) against fractions, mpmath, enumeration; and the two paths against each other."""

import itertools
from fractions import Fraction
from math import factorial

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from maillard import compiled
from maillard.compiled import build
from maillard.policies import quadrature
from maillard.policies.quadrature import LAWS, SIGNATURE, log_probability, probabilities

STATES = 3 if compiled.disabled() else 60


def swept(law, parameters, target=-1):
    """The compiled sweep: its return value (the sum before normalising) and the probabilities."""
    values = np.ascontiguousarray(parameters, dtype=float)
    out = np.empty(values.shape[1])
    sweep = build(quadrature.argmax_probabilities, SIGNATURE)
    return sweep(LAWS[law].code, values, target, out), out


def relative(value, exact):
    return float(abs(mpf(float(value)) / mpf(exact) - 1))


# Oracles


def beta_function(a, b):
    return Fraction(factorial(a - 1) * factorial(b - 1), factorial(a + b - 1))


def beta_beats(a, b, c, d):
    """P(Beta(a, b) > Beta(c, d)) for integers: a sum of positive terms (E. Miller)."""
    return sum(
        beta_function(c + i, b + d) / ((b + i) * beta_function(1 + i, b) * beta_function(c, d))
        for i in range(a)
    )


def polynomial_beta_wins(parameters):
    """P_a for integer Beta laws: density and distribution functions are polynomials."""

    def times(p, q):
        out = [Fraction(0)] * (len(p) + len(q) - 1)
        for (i, x), (j, y) in itertools.product(enumerate(p), enumerate(q)):
            out[i + j] += x * y
        return out

    densities, primitives = [], []
    for a, b in parameters:
        f = [Fraction(0)] * (a - 1) + [1 / beta_function(a, b)]
        for _ in range(b - 1):
            f = times(f, [Fraction(1), Fraction(-1)])
        densities.append(f)
        primitives.append([Fraction(0)] + [x / (i + 1) for i, x in enumerate(f)])
    wins = []
    for arm, f in enumerate(densities):
        for other, big in enumerate(primitives):
            f = times(f, big) if other != arm else f
        wins.append(sum(x / (i + 1) for i, x in enumerate(f)))
    return wins


def integral_wins(laws, points):
    """P_a = ∫ f_a Π F_b by mpmath between `points`, plus atoms: laws are (density, F, atoms)."""
    wins = []
    for arm, (density, _, _) in enumerate(laws):

        def integrand(x, arm=arm, density=density):
            value = density(x)
            for other, (_, cumulative, _) in enumerate(laws):
                value *= cumulative(x) if other != arm else 1
            return value

        wins.append(mpmath.quad(integrand, points))
    places = {x for _, _, atoms in laws for x in atoms}
    for x in places:
        # On a tie every subset of the arms that may sit at x shares the win.
        for present in itertools.product([False, True], repeat=len(laws)):
            if not any(present):
                continue
            weight = mpf(1)
            for here, (_, cumulative, atoms) in zip(present, laws, strict=True):
                mass = atoms.get(x, mpf(0))
                weight *= mass if here else cumulative(x) - mass
            for arm, here in enumerate(present):
                wins[arm] += weight / sum(present) if here else 0
    return wins


def bell(mean, sd, clip):
    def density(x):
        return mpmath.npdf(x, mean, sd) if x < clip else mpf(0)

    def cumulative(x):
        return mpmath.ncdf(x, mean, sd) if x < clip else mpf(1)

    atoms = {clip: mpmath.ncdf(mean, clip, sd)} if clip < np.inf else {}
    return density, cumulative, atoms


def two_sided(energy, rate, mode, clip=np.inf, weight=1):
    """F = ½·weight·e^−E left of the mode, 1 − ½·weight·e^−E right; cut off at `clip`."""
    half = mpf(weight) / 2

    def density(x):
        return half * abs(rate(x)) * mpmath.exp(-energy(x)) if x < clip else mpf(0)

    def cumulative(x):
        if x >= clip:
            return mpf(1)
        tail = half * mpmath.exp(-energy(x))
        return tail if x < mode else 1 - tail

    atoms = {clip: half * mpmath.exp(-energy(clip))} if clip < np.inf else {}
    if weight < 1:
        atoms[mode] = 1 - mpf(weight)
    return density, cumulative, atoms


def rayleigh(mean, scale, clip):
    mean, scale = mpf(mean), mpf(scale)
    return two_sided(
        lambda x: ((x - mean) / scale) ** 2 / 2, lambda x: (x - mean) / scale**2, mean, clip
    )


def exponential(successes, failures, weight):
    n = mpf(successes) + mpf(failures) - 1
    m = mpf(successes) / (n + 1)

    def energy(x):
        return n * (m * mpmath.log(m / x) + (1 - m) * mpmath.log((1 - m) / (1 - x)))

    return two_sided(energy, lambda x: n * (x - m) / (x * (1 - x)), m, weight=weight)


# Beta


@pytest.mark.parametrize(
    ("a", "b", "c", "d"),
    [
        (1, 1, 1, 1),
        (3, 5, 7, 2),
        (1, 40, 40, 1),
        (50, 50, 50, 50),
        (100, 20, 30, 80),
        (30, 400, 300, 100),
        (100, 1000, 400, 100),
        (40, 400, 600, 160),
        (1, 600, 500, 200),
        (700, 1, 1, 5),
    ],
)
def test_two_integer_betas_are_exact(a, b, c, d):
    first, second = beta_beats(a, b, c, d), beta_beats(c, d, a, b)
    assert first + second == 1
    total, out = swept("beta", [[a, c], [b, d]])
    assert abs(total - 1) < 1e-12
    for value, exact in zip(out, (first, second), strict=True):
        assert relative(value, mpf(exact.numerator) / exact.denominator) < 3e-13


def test_the_smallest_probabilities_keep_their_digits():
    # P(Beta(1, n) > Beta(m, 1)) = Γ(n+1)·Γ(m+1)/Γ(n+m+1), down to 1e-249.
    with mp.workdps(30):
        seen = []
        for n in (60, 100, 200, 400, 413):
            exact = mpmath.gamma(n + 1) ** 2 / mpmath.gamma(2 * n + 1)
            value = probabilities("beta", [[1, n], [n, 1]])[0]
            assert relative(value, exact) < 3e-13
            seen.append(value)
        assert seen[-1] < 1e-247


@pytest.mark.parametrize("seed", range(4))
def test_several_integer_betas_are_exact(seed):
    rng = np.random.default_rng(seed)
    pairs = [tuple(int(v) for v in rng.integers(1, 8, 2)) for _ in range(3 + seed)]
    exact = polynomial_beta_wins(pairs)
    assert sum(exact) == 1
    for value, wins in zip(probabilities("beta", np.transpose(pairs)), exact, strict=True):
        assert relative(value, mpf(wins.numerator) / wins.denominator) < 1e-13


@pytest.mark.parametrize("a", [2, 300])
def test_large_counts_against_a_sum_of_positive_terms(a):
    # As `beta_beats`, whose terms have a simple ratio, for real b, c, d.
    with mp.workdps(30):
        b, c, d = mpf(10**6) * 3 / 10, mpf(150.5 * a), mpf(10**6) * 45
        term = mpmath.exp(
            mpmath.loggamma(b + d)
            - mpmath.loggamma(b + c + d)
            - mpmath.loggamma(d)
            + mpmath.loggamma(c + d)
        )
        exact = mpf(0)
        for i in range(a):
            exact += term
            term *= (c + i) / (b + c + d + i) * (b + i) / (i + 1)
        out = probabilities("beta", [[a, float(c)], [float(b), float(d)]])
        assert relative(out[0], exact) < 1e-12
        assert relative(out[1], 1 - exact) < 1e-12


@pytest.mark.parametrize(
    ("alphas", "betas"),
    [
        ((0.5, 3.5, 20.5), (0.5, 1.5, 30.5)),
        ((0.5, 100.5, 0.5, 7.5), (40.5, 100.5, 0.5, 0.5)),
        ((0.01, 2.01, 0.01), (0.01, 1.01, 5.01)),
    ],
)
def test_half_integers_and_odd_priors_against_mpmath(alphas, betas):
    def law(a, b):
        def density(z):
            x = 1 / (1 + mpmath.exp(-z))
            return x**a * (1 / (1 + mpmath.exp(z))) ** b / mpmath.beta(a, b)

        def cumulative(z):
            x = 1 / (1 + mpmath.exp(-z))
            rest = 1 / (1 + mpmath.exp(z))
            if z > 0:
                return 1 - mpmath.betainc(b, a, 0, rest, regularized=True)
            return mpmath.betainc(a, b, 0, x, regularized=True)

        return density, cumulative, {}

    ends = [-38 / min(alphas), 38 / min(betas)]
    inner = [-60, -20, -6, -3, -1.5, -0.5, 0, 0.5, 1.5, 3, 6, 20, 60]
    points = [ends[0], *(x for x in inner if ends[0] < x < ends[1]), ends[1]]
    laws = [law(mpf(a), mpf(b)) for a, b in zip(alphas, betas, strict=True)]
    with mp.workdps(30):
        exact = integral_wins(laws, points)
        assert abs(sum(exact) - 1) < 1e-13
    for value, wins in zip(probabilities("beta", [alphas, betas]), exact, strict=True):
        assert relative(value, wins) < 1e-12


def test_fifty_arms():
    equal = probabilities("beta", np.full((2, 50), 7.5))
    assert np.ptp(equal) == 0.0
    assert equal[0] == pytest.approx(0.02, rel=1e-14)
    # One arm against the largest of 49 uniform draws, whose law is Beta(49, 1).
    exact = beta_beats(3, 9, 49, 1)
    out = probabilities("beta", [[3] + [1] * 49, [9] + [1] * 49])
    assert relative(out[0], mpf(exact.numerator) / exact.denominator) < 1e-13
    assert relative(out[1], mpf((1 - exact).numerator) / (1 - exact).denominator / 49) < 1e-13


@pytest.mark.slow
def test_a_thousand_arms():
    exact = beta_beats(3, 2, 999, 1)
    total, out = swept("beta", [[3.0] + [1.0] * 999, [2.0] + [1.0] * 999])
    assert abs(total - 1) < 1e-10  # 1000 equal rounding errors in Π F, common to all arms
    assert relative(out[0], mpf(exact.numerator) / exact.denominator) < 1e-12


def test_parameters_of_zero_are_atoms():
    # Beta(S+1, N−S) of NPTS is an atom at 1 when every reward was 1.
    assert probabilities("beta", [[4, 4, 2], [0, 0, 3]]).tolist() == [0.5, 0.5, 0.0]
    assert probabilities("beta", [[0, 4, 0], [3, 2, 1]]).tolist() == [0.0, 1.0, 0.0]
    assert probabilities("beta", [[0, 0], [3, 1]]).tolist() == [0.5, 0.5]
    two = probabilities("beta", [[3, 2], [1, 2]])
    assert probabilities("beta", [[3, 0, 2], [1, 2, 2]]).tolist() == [two[0], 0.0, two[1]]
    assert log_probability("beta", [[0, 4], [3, 2]], 0) == -np.inf
    assert log_probability("beta", [[0, 4], [3, 0]], 1) == 0.0


# Gaussian and Gumbel


@pytest.mark.parametrize("gap", [0.0, 0.3, 2.0, 10.0, 30.0, 33.5])
@pytest.mark.parametrize("ratio", [1.0, 1e-3, 40.0])
def test_two_gaussians(gap, ratio):
    sd = 0.3
    mean = gap * np.hypot(sd, ratio * sd)
    parameters = [[0.7, 0.7 - mean], [sd, ratio * sd], [np.inf, np.inf]]
    total, out = swept("gaussian", parameters)
    assert abs(total - 1) < 1e-12
    with mp.workdps(30):
        (first, second), (s, t) = parameters[0], parameters[1]
        shift = (mpf(first) - mpf(second)) / mpmath.sqrt(mpf(s) ** 2 + mpf(t) ** 2)
        assert relative(out[0], mpmath.ncdf(shift)) < 1e-12
        assert relative(out[1], mpmath.ncdf(-shift)) < 1e-12


@pytest.mark.parametrize("gap", [5.0, 50.0, 1500.0])
def test_logarithms_of_probabilities_that_underflow(gap):
    with mp.workdps(30):
        exact = mpmath.log(mpmath.ncdf(-mpf(gap) / mpmath.sqrt(2)))
    parameters = [[0.0, gap], [1.0, 1.0], [np.inf, np.inf]]
    assert log_probability("gaussian", parameters, 0) == pytest.approx(float(exact), rel=1e-13)
    assert log_probability("gaussian", parameters, 1) == pytest.approx(0.0, abs=3e-4)


def test_gumbel_draws_of_one_scale_are_a_softmax():
    location = np.array([0.0, -1.0, 3.0, 2.5, -400.0])
    weights = np.exp(location / 0.7 - max(location / 0.7))
    out = probabilities("gumbel", [location, np.full(5, 0.7)])
    np.testing.assert_allclose(out, weights / weights.sum(), rtol=3e-13)
    log = log_probability("gumbel", [location * 1000, np.full(5, 0.7)], 4)
    assert log == pytest.approx(-403_000 / 0.7, rel=1e-13)


def test_gumbel_draws_of_several_scales():
    locations, scales = (0.3, 0.0, -0.5), (0.1, 1.0, 0.6)

    def law(location, scale):
        def cumulative(x):
            return mpmath.exp(-mpmath.exp(-(x - location) / scale))

        return lambda x: cumulative(x) * mpmath.exp(-(x - location) / scale) / scale, cumulative, {}

    laws = [law(mpf(m), mpf(s)) for m, s in zip(locations, scales, strict=True)]
    exact = integral_wins(laws, [-3, -1, -0.5, 0, 0.2, 0.4, 0.7, 1, 2, 4, 8, 16, 40])
    for value, wins in zip(probabilities("gumbel", [locations, scales]), exact, strict=True):
        assert relative(value, wins) < 1e-12


# Laws with kinks and atoms

MOTS = ((0.5, 0.3, 0.2), (0.2, 0.1, 0.4), (0.9, 0.35, 0.9))


@pytest.mark.parametrize(("law", "oracle"), [("gaussian", bell), ("rayleigh", rayleigh)])
def test_clipped_laws_and_a_shared_clip(law, oracle):
    laws = [oracle(*(mpf(v) for v in column)) for column in zip(*MOTS, strict=True)]
    points = [-4, -2, -1, -0.5, -0.2, 0, *(mpf(v) for v in (0.2, 0.3, 0.35, 0.5, 0.7, 0.9))]
    exact = integral_wins(laws, points)
    assert abs(sum(exact) - 1) < 1e-13
    for value, wins in zip(probabilities(law, MOTS), exact, strict=True):
        assert relative(value, wins) < 1e-12


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_exponential_laws_against_mpmath(weight):
    columns = [(3.0, 7.0, weight), (3.0, 2.0, weight), (110.0, 90.0, weight), (1.0, 1.0, weight)]
    with mp.workdps(20):
        laws = [exponential(*column) for column in columns]
        inner = [mpf(v) for v in (0.1, 0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.9)]
        exact = integral_wins(laws, [mpf(0), mpf(10) ** -4, *inner, 1 - mpf(10) ** -4, mpf(1)])
        assert abs(sum(exact) - 1) < 1e-12
        for value, wins in zip(
            probabilities("exponential", np.transpose(columns)), exact, strict=True
        ):
            assert relative(value, wins) < 1e-11


@pytest.mark.parametrize("weight", [1, Fraction(1, 3)])
def test_arms_with_one_reward_are_enumerated(weight):
    # With N = 1 the law of ExpTS has no density: ½ at 0, ½ at 1; ExpTS+ keeps 1 − w at the mean.
    weight = Fraction(weight)
    means = (0.0, 0.25, 1.0)
    supports = [[(0.0, weight / 2), (m, 1 - weight), (1.0, weight / 2)] for m in means]
    exact = [Fraction(0)] * 3
    for draws in itertools.product(*supports):
        mass = draws[0][1] * draws[1][1] * draws[2][1]
        best = max(x for x, _ in draws)
        winners = [a for a, (x, _) in enumerate(draws) if x == best]
        for a in winners:
            exact[a] += mass / len(winners)
    out = probabilities("exponential", [means, [1.0 - m for m in means], [float(weight)] * 3])
    np.testing.assert_allclose(out, [float(p) for p in exact], rtol=1e-13)


@pytest.mark.parametrize("tiny", [1e-10, 1e-20, 1e-100, 1e-270])
def test_tiny_means(tiny):
    """Two rewards each, that sum to `tiny` and three times that.

    Below its mean −ln θ of a draw is exponential at a rate of (N−1) times the mean, so that of two
    arms there the second wins 3 times in 4; above, both follow ½e^−kl(0, x) alike.
    """
    out = probabilities("exponential", [[tiny, 3 * tiny], [2.0, 2.0], [1.0, 1.0]])
    np.testing.assert_allclose(out, [7 / 16, 9 / 16], rtol=1e-8)
    # An arm at 0 with one reward is 0 or 1, each with one half: the draw is between, or all are 0.
    out = probabilities("exponential", [[tiny, 0.5, 0.0], [2.0, 0.5, 1.0], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(out, [1 / 4, 3 / 8, 3 / 8], rtol=1e-8)


def test_means_at_the_ends_of_the_interval():
    # m = 0: F = 1 − ½(1−x)^n with an atom ½ at 0; m = 1 is its mirror image.
    n, k = 3, 5
    #  P(A > B) for both with m = 0: ∫ ½n(1−x)^(n−1)·(1 − ½(1−x)^k) dx, and half of the tie at 0.
    exact = Fraction(1, 2) - Fraction(n, 4 * (n + k)) + Fraction(1, 8)
    out = probabilities("exponential", [[0.0, 0.0], [n + 1, k + 1], [1.0, 1.0]])
    np.testing.assert_allclose(out, [float(exact), float(1 - exact)], rtol=1e-13)
    mirrored = probabilities("exponential", [[n + 1, k + 1], [0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(mirrored, out[::-1], rtol=1e-13)


# All laws


def random_parameters(law, rng):
    """Mixtures of counts and means as policies meet them, and stranger ones."""
    arms = int(rng.choice([2, 3, 5, 10, 30]))
    counts = np.floor(10 ** rng.uniform(0, rng.uniform(0.3, 6), arms))
    if law in ("beta", "exponential"):
        means = rng.uniform(0, 1, arms) ** rng.choice([0.2, 1, 5])
        means = [means, np.full(arms, means[0]), rng.choice([0, 0.5, 1], arms)][rng.integers(3)]
        sums = np.round(counts * means)
        prior = rng.choice([0.5, 1.0, 0.01])
        weight = np.full(arms, rng.choice([1.0, 1 / arms]))
        if law == "beta":
            return np.array([sums + prior, counts - sums + prior])
        return np.array([sums, counts - sums, weight])
    means = rng.normal(size=arms) * 10 ** rng.uniform(-3, 0)
    scales = counts**-0.5
    if law == "gumbel":
        return np.array([means, scales])
    clips = means + scales * rng.uniform(0, 6, arms)
    clips[: rng.integers(1, 3)] = clips.max()
    return np.array([means, scales, np.where(rng.random() < 0.3, np.inf, clips)])


@pytest.mark.parametrize("law", LAWS)
def test_both_paths_agree_and_probabilities_sum_to_one(law):
    rng = np.random.default_rng(20)
    for _ in range(STATES):
        parameters = random_parameters(law, rng)
        total, out = swept(law, parameters)
        assert abs(total - 1) < 1e-12
        assert out.min() >= 0.0
        for arm in (int(out.argmax()), int(np.where(out > 1e-250, out, 2).argmin())):
            # The logarithm has its own grid and its own scale.
            alone, _ = swept(law, parameters, arm)
            assert abs(alone - np.log(out[arm])) < 3e-12
        if out.min() == 0.0:
            assert -np.inf < log_probability(law, parameters, int(out.argmin())) < -550


@pytest.mark.parametrize("law", LAWS)
def test_relabelling_arms_relabels_probabilities(law):
    rng = np.random.default_rng(3)
    for _ in range(STATES // 3):
        parameters = random_parameters(law, rng)
        order = rng.permutation(parameters.shape[1])
        expected = probabilities(law, parameters)[order]
        np.testing.assert_allclose(probabilities(law, parameters[:, order]), expected, rtol=2e-12)


@pytest.mark.parametrize("law", LAWS)
def test_one_arm_is_certain(law):
    column = np.array([[0.4], [2.0], [0.5]])[: len(LAWS[law].parameters)]
    assert probabilities(law, column).tolist() == [1.0]


@pytest.mark.parametrize("law", LAWS)
def test_plain_python_agrees(law):
    rng = np.random.default_rng(8)
    parameters = random_parameters(law, rng)[:, :3]
    out = np.empty(3)
    with np.errstate(all="ignore"):
        quadrature.argmax_probabilities(LAWS[law].code, parameters, -1, out)
    np.testing.assert_allclose(out, probabilities(law, parameters), rtol=1e-13)


def test_frequencies_of_draws():
    rng = np.random.default_rng(11)
    alphas, betas = np.array([3.5, 0.5, 20.5, 4.5]), np.array([2.5, 0.5, 12.5, 3.5])
    draws = rng.beta(alphas, betas, size=(200_000, 4)).argmax(axis=1)
    frequencies = np.bincount(draws, minlength=4) / len(draws)
    exact = probabilities("beta", [alphas, betas])
    assert np.all(np.abs(frequencies - exact) < 5 * np.sqrt(exact * (1 - exact) / len(draws)))


def test_misuse_is_named():
    with pytest.raises(ValueError, match="alpha, beta"):
        probabilities("beta", [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("law", "parameters"),
    [
        ("beta", [[1.0, np.nan], [1.0, 1.0]]),
        ("exponential", [[0.0, 1.0], [0.0, 1.0], [1.0, 1.0]]),  # an arm without pulls
        ("beta", [[1.0, 0.0], [1.0, 0.0]]),
        ("gaussian", [[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]]),
        ("gaussian", [[0.0, 1.0], [1.0, 1.0], [5.0, 0.9]]),
        ("gumbel", [[0.0, np.inf], [1.0, 1.0]]),
        ("exponential", [[0.5, 0.5], [1.0, np.inf], [1.0, 1.0]]),
    ],
)
def test_parameters_without_a_law_give_no_number(law, parameters):
    assert np.isnan(probabilities(law, parameters)).all()
