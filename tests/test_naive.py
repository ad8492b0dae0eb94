"""The oracles themselves, on cases that can be worked out by hand or in another way."""

import itertools
import math
import random
from fractions import Fraction

import pytest
from mpmath import mp, mpf

import naive
from naive import EXAMPLES, INDICES, ORACLES

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)


def history_of(*arms):
    """The rewards of each arm, observed in turn: first one of each arm, then the rest."""
    rows = [[(a, r) for r in rewards] for a, rewards in enumerate(arms)]
    return [row[0] for row in rows] + [item for row in rows for item in row[1:]]


def history_at_random(seed, K, length, values):
    rng = random.Random(seed)
    arms = [*range(K), *(rng.randrange(K) for _ in range(length - K))]
    return [(arm, rng.choice(values)) for arm in arms]


def close(found, expected, digits=38):
    """Equal to so many digits, numbers or lists of them; expected values are evaluated late."""
    with mp.workdps(60):
        if callable(expected):
            expected = expected()
        if not isinstance(found, list):
            found, expected = [found], [expected]
        expected = [naive.real(x) for x in expected]
        assert len(found) == len(expected)
        tolerance = mpf(10) ** -digits
        return all(
            x == y or abs(x - y) <= tolerance * abs(y) for x, y in zip(found, expected, strict=True)
        )


def law(slug, history, K=2, **params):
    return ORACLES[slug](history, K, params)


# Divergences


def test_kl_by_hand():
    assert close(naive.kl(QUARTER, HALF), lambda: mp.log(mpf(27) / 16) / 4)
    assert naive.kl(0, 0) == naive.kl(1, 1) == 0
    assert close(naive.kl(0, QUARTER), lambda: -mp.log(mpf(3) / 4))
    assert close(naive.kl(1, QUARTER), lambda: mp.log(4))
    assert naive.kl(HALF, 0) == naive.kl(HALF, 1) == naive.kl(0, 1) == mp.inf


def test_kl_keeps_its_digits_where_means_are_close():
    gap = Fraction(1, 10**30)
    # kl(½, ½+g) = −½ ln(1 − 4g²) = 2g² + 4g⁴ + …
    assert close(naive.kl(HALF, HALF + gap), 2 * gap**2 + 4 * gap**4)


def test_families_are_the_divergences_of_their_laws():
    a, b = Fraction(3, 4), Fraction(5, 2)
    with mp.workdps(30):
        x, y = naive.real(a), naive.real(b)
        poisson = mp.nsum(
            lambda k: mp.exp(-x) * x**k / mp.factorial(k) * (k * mp.log(x / y) + y - x), [0, mp.inf]
        )
        geometric = mp.nsum(
            lambda k: (
                (x / (1 + x)) ** k
                / (1 + x)
                * (k * mp.log(x * (1 + y) / (y * (1 + x))) + mp.log((1 + y) / (1 + x)))
            ),
            [0, mp.inf],
        )
        exponential = mp.quad(
            lambda u: mp.exp(-u / x) / x * (mp.log(y / x) + u / y - u / x), [0, 1, 10, mp.inf]
        )
    assert close(naive.kl_poisson(a, b), poisson, 20)
    assert close(naive.kl_geometric(a, b), geometric, 20)
    assert close(naive.kl_exponential(a, b), exponential, 20)
    assert naive.kl_poisson(0, b) == naive.real(b)
    assert naive.kl_exponential(0, b) == mp.inf
    assert close(naive.kl_geometric(0, b), lambda: mp.log(mpf(7) / 2))


@pytest.mark.parametrize("a", [Fraction(1, 1000), Fraction(1, 3), Fraction(999, 1000)])
@pytest.mark.parametrize("d", [Fraction(1, 10**12), Fraction(1, 10), 3])
def test_kl_bounds_spend_their_budget(a, d):
    gap = naive.kl_upper_gap(a, d)
    with mp.workdps(60):
        p, q = naive.real(a), naive.real(1 - a)
        assert close(p * mp.log(p / (1 - gap)) + q * mp.log(q / gap), d, 30)
        assert close(naive.kl_upper(a, d), 1 - gap)
        assert close(naive.kl_lower(1 - a, d), gap)


def test_kl_bounds_at_the_edges():
    assert naive.kl_upper(1, 2) == 1
    assert naive.kl_upper(HALF, 0) == HALF
    assert naive.kl_upper(HALF, mp.inf) == 1
    assert close(naive.kl_upper(0, mpf(2)), lambda: 1 - mp.exp(-2))
    # ½ ln ½ − ½ ln(4 g (1−g)) + … : kl(½, 1−g) = d gives 4 g (1−g) = e^(−2d), g ≈ e^(−2d)/4.
    assert close(naive.kl_upper_gap(HALF, 500), lambda: mp.exp(-1000) / 4)


BOUNDED = [
    [Fraction(1, 5), Fraction(3, 5)],
    [Fraction(1, 5), Fraction(3, 5), 1],
    [0, 0, 0, HALF, 1],
    [HALF, HALF, HALF],
    [Fraction(1, 10), Fraction(9, 10), Fraction(9, 10), Fraction(99, 100)],
]


def test_k_inf_dual_is_kl_for_binary_rewards():
    for rewards, mu in [([0, 1, 1], 0.75), ([0, 0, 1], 0.5), ([0], 0.875)]:
        mean = Fraction(sum(rewards), len(rewards))
        assert close(naive.k_inf_dual(rewards, mu), naive.kl(mean, mu))
        assert naive.k_inf(rewards, mu) == naive.kl(mean, mu)


def test_k_inf_by_hand():
    # All rewards ½: the cheapest way up to ¾ moves half of the mass to 1, at a cost of ln 2.
    assert close(naive.k_inf([HALF, HALF], Fraction(3, 4)), lambda: mp.log(2))
    assert naive.k_inf([HALF], HALF) == 0
    assert naive.k_inf([HALF], 1) == mp.inf
    assert naive.k_inf([1], 1) == 0


def test_k_inf_is_the_primal_minimum():
    """Over the laws on {1/5, 3/5, 1} with mean μ, a line of which one end is searched by thirds."""
    rewards, mu = BOUNDED[0], Fraction(7, 10)
    with mp.workdps(40):

        def cost(top):  # weight of 1; the weights of 1/5 and 3/5 follow from sum and mean
            low = (mpf(3) / 5 * (1 - top) + top - naive.real(mu)) / (mpf(2) / 5)
            return -(mp.log(2 * low) + mp.log(2 * (1 - low - top))) / 2

        left, right = mpf(1) / 4, mpf(5) / 8  # where both weights are positive
        for _ in range(200):
            third = (right - left) / 3
            if cost(left + third) < cost(right - third):
                right -= third
            else:
                left += third
        primal = cost(left)
    assert close(naive.k_inf(rewards, mu), primal, 30)


@pytest.mark.parametrize("rewards", BOUNDED)
@pytest.mark.parametrize("d", [Fraction(1, 10**6), HALF, 4])
def test_k_inf_upper_spends_its_budget(rewards, d):
    upper = naive.k_inf_upper(rewards, d)
    assert sum(rewards) < len(rewards) * upper < len(rewards)
    assert close(naive.k_inf(rewards, upper), d, 30)


def test_k_inf_upper_at_the_edges():
    assert naive.k_inf_upper([HALF, QUARTER], 0) == Fraction(3, 8)
    assert naive.k_inf_upper([1, 1], 1) == 1
    assert naive.k_inf_upper([HALF, QUARTER], mp.inf) == 1
    assert close(naive.k_inf_upper_primal([0, 1, 1], 1), naive.kl_upper(Fraction(2, 3), 1))


# Randomised policies with a closed form


def test_kl_ms_by_hand():
    history = history_of([1, 0], [1, 0, 0, 0])  # exp(−4 kl(¼, ½)) = 16/27
    assert close(law("kl-ms", history), [Fraction(27, 43), Fraction(16, 43)])
    assert close(law("kl-ms-booster", history, B=2), [Fraction(54, 70), Fraction(16, 70)])


def test_kl_ms_has_exact_zeros_and_ties():
    assert law("kl-ms", history_of([1], [1, 0], [1, 1]), 3) == [0.5, 0, 0.5]


def test_counterexample_to_the_comparison_with_ms():
    """Means .55, .5, .05 after 20, 10, 4 pulls: .4649 for KL-MS, .4559 for MS (reference §A1)."""
    history = history_of([0.55] * 20, [0.5] * 10, [0.05] * 4)
    assert round(law("kl-ms", history, 3)[1], 4) == mpf("0.4649")
    assert round(law("ms", history, 3)[1], 4) == mpf("0.4559")


def test_kt_means_by_hand():
    history = history_of([1], [0])  # means ¾ and ¼: kl(¼, ¾) = ½ ln 3
    assert close(
        law("kl-ms-kt", history), lambda: [1 / (1 + 3 ** -mpf("0.5")), 1 / (1 + mp.sqrt(3))]
    )


def test_ms_and_its_relatives_by_hand():
    history = history_of([1], [HALF, HALF])  # x = ½, N = 2, variance ¼: weight 1/e
    assert close(law("ms", history), lambda: [mp.e / (1 + mp.e), 1 / (1 + mp.e)])
    assert close(law("ms-booster", history, B=3), lambda: [3 / (3 + 1 / mp.e), 1 / (1 + 3 * mp.e)])

    def plus(inflation):
        best, other = 2 * (1 + mp.log(1 + mp.log(4)) / 2), inflation / mp.e
        return [best / (best + other), other / (best + other)]

    given = {"B": 2, "C": 0.5, "D": 0.25}
    assert close(law("ms+", history, **given, n_inside=True), lambda: plus(mpf("1.25")))
    assert close(law("ms+", history, **given, n_inside=False), lambda: plus(mpf("1.125")))
    assert close(law("ms+", history, B=1, C=0, D=0, n_inside=True), law("ms", history))


def test_med_by_hand():
    history = history_of([Fraction(3, 4)], [HALF, HALF])  # K_inf = ln 2: weight ¼
    assert close(law("med", history), [Fraction(4, 5), Fraction(1, 5)])
    binary = history_of([1, 0], [1, 0, 0, 0])
    assert close(law("med", binary), law("kl-ms", binary))


def test_exp_kl_ms_by_hand():
    history = history_of([2], [1, 1, 1])
    expected = {  # exp(−2 KL(1, 2)) of each family
        "poisson": lambda: 4 / mp.exp(2),
        "exponential": lambda: mp.e / 4,
        "geometric": lambda: (mpf(8) / 9) ** 2,
        "gaussian": lambda: 1 / mp.e,
    }
    for family, weight in expected.items():
        found = law("exp-kl-ms", history, family=family, variance=1)
        assert close(found, lambda weight=weight: [1 / (1 + weight()), weight() / (1 + weight())])
    first = law("exp-kl-ms", history_of([1], [0]), family="bernoulli")
    assert first == [0.5, 0.5]


def test_epsilon_greedy_by_hand():
    history = history_of([1, 0], [0], [HALF])
    assert close(
        law("epsilon-greedy", history, 3, epsilon=Fraction(3, 10)),
        [Fraction(9, 20), Fraction(1, 10), Fraction(9, 20)],
    )
    # t = 5: ε = 1·3/(2²·5) = 3/20
    assert close(law("epsilon-greedy", history, 3, c=1, d=2)[1], Fraction(1, 20))
    assert law("epsilon-greedy", history, 3, c=10, d=1) == law("uniform", history, 3)


# Policies that play an argmax


def test_dmed_follows_its_lists():
    def next_arm(history, genuine=True):
        return law("dmed", history, 2, genuine=genuine).index(1)

    history = [(0, 1), (1, 0)]
    assert next_arm(history) == 0  # the first list is all arms
    history += [(0, 0)]
    # t = 3, means ½ and 0; arm 0 enters: 0 ≤ ln 3 − ln 2. Arm 1 is still on the list.
    assert next_arm(history) == 1
    history += [(1, 0)]
    # t = 4: 2 kl(0, ½) = ln 4 > ln 4 − ln 2: arm 1 does not enter, but ≤ ln 4 it does.
    assert next_arm(history) == 0
    assert next_arm([*history, (0, 1)], genuine=False) == 1
    # Arm 1 stays out while 2 kl(0, m) > ln t − ln 2: m = 2/3, 1/2, 3/5 at t = 5, 6, 7.
    for reward in (1, 0, 1):
        history += [(0, reward)]
        assert next_arm(history) == 0
        assert next_arm([*history, (0, 1)]) == 0
    # Means ½ and 0 at t = 8 meet it exactly, 2 ln 2 = ln 8 − ln 2: the next list is {0, 1}.
    history += [(0, 0)]
    assert next_arm(history) == 0
    assert next_arm([*history, (0, 1)]) == 1


def test_imed_by_hand():
    history = history_of([1, 0], [1, 0, 0, 0], [0])
    found = INDICES["imed"](history, 3, {"divergence": "kl"})
    assert close(found, lambda: [-mp.log(2), -(mp.log(mpf(27) / 16) + mp.log(4)), -mp.log(2)])
    assert law("imed", history, 3, divergence="k-inf") == [0.5, 0, 0.5]


def test_kl_ucb_budgets():
    history = history_of([0, 0], [0, 0, 0])  # means 0: the index is 1 − exp(−budget/N); t = 6

    def indices(slug, **params):
        return INDICES[slug](history, 2, params)

    def at(budget, n):
        return 1 - mp.exp(-mpf(budget) / n)

    assert close(indices("kl-ucb")[0], lambda: at(mp.log(1 + 6 * mp.log(6) ** 2), 2))
    assert close(
        indices("kl-ucb", f="ln t + c ln ln t", c=3)[0],
        lambda: at(mp.log(6) + 3 * mp.log(mp.log(6)), 2),
    )
    assert close(indices("empirical-kl-ucb", c=1)[1], lambda: at(mp.log(6) + mp.log(mp.log(6)), 3))
    # Round 6 is decided after 5 pulls: ln(6/3), not ln(5/3).
    assert close(indices("kl-ucb+")[1], lambda: at(mp.log(2), 3))
    x = 25  # T/(Kn) = 100/(2·2)
    assert close(
        indices("kl-ucb++", horizon=100)[0], lambda: at(mp.log(x * (1 + mp.log(x) ** 2)), 2)
    )
    assert indices("kl-ucb++", horizon=4) == [0, 0]  # n ≥ T/K: no budget left


def test_kl_ucb_switch_by_hand():
    history = history_of([0, 0], [0, 0, 0])
    # T/K = 32 = 2^5: the switch is after exactly 2 pulls.
    kl_bound, moss_bound = INDICES["kl-ucb-switch"](history, 2, {"horizon": 64})
    assert close(kl_bound, lambda: 1 - mp.exp(-mp.log(16) / 2))
    assert close(moss_bound, lambda: mp.sqrt(mp.log(mpf(32) / 3) / 6))
    # Anytime at t = 6: ⌊3^(8/9)⌋ = 2, x = 6/4 and 1, so that arm 1 has no budget.
    kl_bound, moss_bound = INDICES["kl-ucb-switch"](history, 2, {})
    x = mpf("1.5")
    assert close(kl_bound, lambda: 1 - 1 / mp.sqrt(x * (1 + mp.log(x) ** 2)))
    assert moss_bound == 0


def test_floor_root_of_perfect_powers():
    for n in range(1, 40):
        assert naive.floor_root(n**5, 5) == n
        assert naive.floor_root(n**5 - 1, 5) == n - 1


def test_other_indices_by_hand():
    history = history_of([1, 0], [HALF, HALF, HALF])

    def indices(slug, **params):
        return INDICES[slug](history, 2, params)

    assert close(indices("ucb1")[0], lambda: mpf("0.5") + mp.sqrt(mp.log(5)))
    # V = ¼ and 0; E = 2 ln 6: round 6 is decided after 5 pulls.
    assert close(
        indices("ucb-v", zeta=2, c=1),
        lambda: [
            mpf("0.5") + mp.sqrt(mp.log(6) / 2) + 3 * mp.log(6),
            mpf("0.5") + 2 * mp.log(6),
        ],
    )
    assert close(indices("moss", horizon=100)[0], lambda: mpf("0.5") + mp.sqrt(mp.log(25) / 2))
    assert close(indices("moss-anytime", alpha=1)[0], lambda: mpf("0.5") + mp.sqrt(mp.log(1.5) / 2))
    assert indices("moss-anytime")[1] == HALF  # t = KN

    def ada():  # H = min(2, 2) + min(2, √6) = 4
        x = 25 + mp.e
        return mpf("0.5") + mp.sqrt(mp.log(x * mp.sqrt(mp.log(x)))) / 2

    assert close(indices("ada-ucb", horizon=100)[0], ada)


def test_argmax_ties_are_shared():
    history = history_of([1, 0], [HALF, HALF], [0, 0])
    for slug in ("ucb1", "moss-anytime", "kl-ucb"):
        assert law(slug, history, 3) == [0.5, 0.5, 0]


def test_efficient_ucb_v_eliminates_and_changes_phase():
    # T = 8, K = 2: ψT = 16, ε = 1, n = ⌈ln 16 / 2⌉ = 2, so the first phase ends at t = 4;
    # M = ⌊log2(8/e)/2⌋ = 0: one change of phase, to ε = ½, n = ⌈ln 4⌉ = 2.
    def indices(history):
        return INDICES["efficient-ucb-v"](history, 2, {"horizon": 8})

    history = history_of([1], [0])
    assert close(indices(history), lambda: [1 + mp.sqrt(mp.log(16) / 4), mp.sqrt(mp.log(16) / 4)])
    history += [(0, 1), (0, 1)]  # t = 4: ε is ½ from now on
    assert close(indices(history)[0], lambda: 1 + mp.sqrt(mp.log(8) / 12))
    # Arm 1 goes once √(ln 8/4) + √(ln 8/(4N)) < 1: √(ln 8)/2 = .7210, so from N = 7 on.
    for pulls in range(4, 9):
        history += [(0, 1)]
        assert (indices(history)[1] == -mp.inf) == (pulls >= 7)
    assert law("efficient-ucb-v", history, horizon=8) == [1, 0]


# Random indices


def test_argmax_law_of_discrete_laws():
    """Against the enumeration of all outcomes."""
    rng = random.Random(5)
    for K in (1, 2, 3, 4):
        laws = []
        for _ in range(K):
            places = rng.sample(range(5), 3)
            weights = [rng.randrange(1, 9) for _ in places]
            laws.append(
                {x: Fraction(w, sum(weights)) for x, w in zip(places, weights, strict=True)}
            )
        expected = [Fraction(0)] * K
        for outcome in itertools.product(*laws):
            chance = math.prod(law[x] for law, x in zip(laws, outcome, strict=True))
            winners = [a for a in range(K) if outcome[a] == max(outcome)]
            for a in winners:
                expected[a] += chance / len(winners)
        with mp.workdps(60):
            atoms = [{mpf(x): naive.real(p) for x, p in law.items()} for law in laws]
        found = naive.argmax_law(
            [lambda x, atom=atom: mp.fsum(p for y, p in atom.items() if y <= x) for atom in atoms],
            [lambda x: mpf(0)] * K,
            atoms,
            [mpf(0), mpf(5)],
        )
        assert close(found, expected)


def test_argmax_law_of_minus_exponentials():
    """−E_a with rates λ_a: the first event wins, with probability λ_a/Σλ."""
    rates = [1, 3, 40]
    found = naive.argmax_law(
        [lambda x, r=r: mp.exp(r * x) if x < 0 else mpf(1) for r in rates],
        [lambda x, r=r: r * mp.exp(r * x) if x < 0 else mpf(0) for r in rates],
        [{}] * 3,
        [mpf(-4), mpf(-1), mpf(0), mpf(1)],
    )
    assert close(found, [Fraction(rate, 44) for rate in rates])


def positive_sum(a, b, c, d):
    """P(Beta(a, b) > Beta(c, d)) for an integer a (Evan Miller's sum; reference §C1)."""
    with mp.workdps(60):
        return mp.fsum(
            mp.beta(c + i, b + d) / ((b + i) * mp.beta(1 + i, b) * mp.beta(c, d)) for i in range(a)
        )


def test_beta_argmax_three_ways():
    """Polynomials, quadrature and the sum of positive terms, down to 1e-46."""
    for a, b, c, d in [(1, 1, 1, 1), (3, 5, 7, 2), (1, 60, 90, 1), (40, 20, 20, 40)]:
        exactly = naive.beta_argmax_exactly([(a, b), (c, d)])
        assert sum(exactly) == 1
        assert close(positive_sum(a, b, c, d), exactly[0])
        by_quadrature = naive.law_of_argmax([naive.beta_law(a, b), naive.beta_law(c, d)])
        assert close(by_quadrature, exactly)
    triple = [(12, 8), (3, 11), (1, 2)]
    by_quadrature = naive.law_of_argmax([naive.beta_law(*pair) for pair in triple])
    assert close(by_quadrature, naive.beta_argmax_exactly(triple))


def test_thompson_by_hand():
    history = history_of([1], [0])
    # Uniform priors: densities 2x and 2(1−x), P = ∫ 2x (1 − (1−x)²) dx = 5/6.
    assert close(law("thompson", history, alpha=1, beta=1), [Fraction(5, 6), Fraction(1, 6)])

    # Jeffreys: from ½ at equal parameters, g(a+1, b, …) = g + h/a and g(…, d+1) = g + h/d with
    # h = B(a+c, b+d)/(B(a, b) B(c, d)) of the parameters before the step.
    def jeffreys():
        h = mpf("0.5")
        g = h + mp.beta(1, 1) / mp.beta(h, h) ** 2 / h
        return g + mp.beta(2, 1) / (mp.beta(3 * h, h) * mp.beta(h, h)) / h

    assert close(law("thompson", history)[0], jeffreys)


def test_top_two_by_hand():
    # Two arms and a fair coin: the challenger is always the other one.
    assert close(law("top-two-thompson", history_of([1], [0]), alpha=1, beta=1), [HALF, HALF])
    assert close(
        law("top-two-thompson", history_of([1], [0]), alpha=1, beta=1, leader=QUARTER)[0],
        QUARTER * Fraction(5, 6) + Fraction(3, 4) * Fraction(1, 6),
    )


def test_gaussian_thompson_two_ways():
    history = history_of([1, 0], [0.75, 0.75, 0.75])
    arms = naive.arms_of(history, 2)
    by_quadrature = naive.law_of_argmax(
        [naive.gaussian_law(arm.mean, QUARTER / arm.n) for arm in arms]
    )
    assert close(by_quadrature, law("gaussian-thompson", history))
    equal = law("gaussian-thompson", history_of([1], [1], [1]), 3)
    assert close(equal, [Fraction(1, 3)] * 3)


def test_npts_by_hand():
    assert law("npts", history_of([1], [1, 1], [1, 0]), 3) == [0.5, 0.5, 0]
    # Beta(1, 1) against Beta(1, 2): ∫ (1 − (1−x)²) dx = 2/3.
    assert close(law("npts", history_of([0], [0, 0])), [Fraction(2, 3), Fraction(1, 3)])


def test_boltzmann_gumbel_is_softmax_at_equal_counts():
    history = history_of([1, 0], [1, 1], [0.25, 0.25])  # scale C/√2, C = √2
    with mp.workdps(60):
        found = law("boltzmann-gumbel", history, 3, C=mp.sqrt(2))
        weights = [mp.exp(m) for m in (mpf("0.5"), mpf(1), mpf("0.25"))]
    assert close(found, naive.normalised(weights))


def test_exp_ts_by_hand():
    assert law("exp-ts", history_of([0.25], [1]), 2) == [0.5, 0.5]  # atoms ½ at 0 and at 1 each
    # ½δ_0 + ½U(0, 1) against ½U(0, 1) + ½δ_1: P = ¼ · ½.
    zeros_and_ones = history_of([0, 0], [1, 1])
    assert close(law("exp-ts", zeros_and_ones), [Fraction(1, 8), Fraction(7, 8)])
    assert close(law("exp-ts+", zeros_and_ones), [Fraction(1, 32), Fraction(31, 32)])
    # Equal means on an atom of mass 1 − 1/K: a tie among those, and else a fair draw.
    assert close(law("exp-ts+", history_of([1, 0], [0, 1])), [HALF, HALF])


def test_exp_ts_cdf_is_the_formula():
    with mp.workdps(50):
        for m, n, x in [(0.25, 8, 0.125), (0.25, 8, 0.75), (0, 3, 0.5), (1, 3, 0.5)]:
            cdf = naive.exp_ts_law(m, n).cdf(naive.logit(x))
            tail = mp.exp(-(n - 1) * naive.kl(m, x)) / 2
            assert close(cdf, 1 - tail if x >= m else tail)


@pytest.mark.parametrize("slug", ["mots", "mots-j"])
def test_mots_of_two_arms(slug):
    """P(arm 1 wins) = E[F_0(θ_1)] by mpmath's own quadrature, in other words than the oracle's."""
    history = history_of([0.75, 0.75, 0.75], [0.5])
    params = {"horizon": 12, "rho": 0.75, "alpha": 2, "sigma": 0.5}
    with mp.workdps(30):
        scale = mpf(1) / 2 if slug == "mots-j" else mpf(1) / 2 / mp.sqrt(mpf("0.75"))

        def cdf(x, mean, n):
            y = (x - mean) * mp.sqrt(n) / scale
            if slug == "mots":
                return mp.ncdf(y)
            return 1 - mp.exp(-(y**2) / 2) / 2 if y > 0 else mp.exp(-(y**2) / 2) / 2

        def pdf(x, mean, n):
            y = (x - mean) * mp.sqrt(n) / scale
            density = mp.npdf(y) if slug == "mots" else abs(y) * mp.exp(-(y**2) / 2) / 2
            return density * mp.sqrt(n) / scale

        tau = [
            mpf("0.75") + mp.sqrt(mpf(2) / 3 * mp.log(2)) / 2,
            mpf("0.5") + mp.sqrt(2 * mp.log(6)) / 2,
        ]
        assert tau[0] < tau[1]
        pieces = [-4, -2, -1, 0, mpf("0.25"), mpf("0.5"), mpf("0.75"), tau[0]]
        below = mp.quad(lambda x: pdf(x, mpf("0.5"), 1) * cdf(x, mpf("0.75"), 3), pieces)
        expected = below + 1 - cdf(tau[0], mpf("0.5"), 1)
    assert close(law(slug, history, **params)[1], expected, 20)


def test_mots_without_room_above_ties_on_nothing():
    """At a horizon of K·N the bound is the mean itself: atoms of ½ at both means."""
    params = {"horizon": 2, "rho": 1, "alpha": 2, "sigma": 1}
    assert close(law("mots", history_of([0], [0]), **params), [HALF, HALF])


# Adversarial policies


def test_adversarial_policies_start_uniform():
    for slug in ("tsallis-inf", "exp3", "exp3-ix", "exp3++"):
        for params in EXAMPLES[slug]:
            assert close(ORACLES[slug]([], 4, params), [QUARTER] * 4)


def test_tsallis_inf_meets_its_optimality_condition():
    """1/√w_1 − 1/√w_2 = (η/2)(L_1 − L_2) and Σ w = 1, with L worked out by hand."""
    history = [(0, 0.25, 0.5), (1, 0.5, 0.25)]
    w = law("tsallis-inf", history, estimator="iw")
    with mp.workdps(60):
        assert close(sum(w), 1)
        eta = 2 / mp.sqrt(3)  # L = (.75/.5, .5/.25)
        assert close(1 / mp.sqrt(w[0]) - 1 / mp.sqrt(w[1]), eta / 2 * (mpf("1.5") - 2))
    # The baseline waits for η² = 16/t ≤ w: with all rewards 1 the law stays uniform, until at
    # t = 32 of two arms both baselines are ½. Then L = ½ − ½/½ and ½.
    history = [(0, 1, 0.5)] * 32
    w = law("tsallis-inf", history, estimator="rv")
    with mp.workdps(60):
        eta = 4 / mp.sqrt(33)
        assert close(1 / mp.sqrt(w[0]) - 1 / mp.sqrt(w[1]), -eta / 2)
    assert close(law("tsallis-inf", history[:-1], estimator="rv"), [HALF, HALF])


def test_exp3_by_hand():
    history = [(0, 0.75, 0.5)]
    # G_0 = .1 · .75/(2 · .5) = .075
    assert close(
        law("exp3", history, form="rewards", gamma=Fraction(1, 10))[0],
        lambda: mpf("0.9") / (1 + mp.exp(-mpf("0.075"))) + mpf("0.05"),
    )
    # γ = √(2 ln 2/((e−1) T))
    assert close(
        law("exp3", history, form="rewards", horizon=100),
        lambda: law("exp3", history, form="rewards", gamma=mp.sqrt(mp.log(2) / (mp.e - 1) / 50)),
    )
    # L_0 = .25/.5, η_2 = √(ln 2/4), or √(2 ln 2/200) for T = 100
    assert close(
        law("exp3", history, form="losses", horizon=100)[0],
        lambda: 1 / (1 + mp.exp(mp.sqrt(mp.log(2) / 100) / 2)),
    )
    assert close(
        law("exp3", history, form="losses")[0],
        lambda: 1 / (1 + mp.exp(mp.sqrt(mp.log(2) / 4) / 2)),
    )
    # γ_1 = √(ln 2/2)/2
    assert close(
        law("exp3-ix", history)[0],
        lambda: (
            1 / (1 + mp.exp(mp.sqrt(mp.log(2) / 4) / 4 / (mpf("0.5") + mp.sqrt(mp.log(2) / 2) / 2)))
        ),
    )
    # A history without propensities takes the oracle's own, here uniform at first.
    assert law("exp3-ix", [(0, 0.75)]) == law("exp3-ix", history)


def test_exp3_plus_plus_by_hand():
    # After a loss of 1 at propensity ½: L = (2, 0), Δ = (1, 0), t = 2, η = √(ln 2/4)/2 = .208.
    history = [(0, 0, 0.5)]

    def expected(c):
        eta = mp.sqrt(mp.log(2) / 4) / 2
        low, high = min(mpf("0.25"), eta, c * mp.log(2) ** 2 / 2), eta
        return low + (1 - low - high) / (1 + mp.exp(2 * eta))

    for c in (18, 0.125):
        assert close(law("exp3++", history, version=2014, c=c)[0], lambda c=c: expected(c))
    # 40 losses of 0 and of 1: radius √(3 ln(81·2^(1/3))/80) = .411, gap 1 − 2·.411 = .178 and
    # 256 ln 81/(81 · .178²) is far above ½√(ln 2/162) = .0327; with β = 10^-6 it is below.
    history = [(0, 1, 0.5), (1, 0, 0.5)] * 40
    for beta in (256, Fraction(1, 10**6)):

        def expected_2017(beta=beta):
            eta = mp.sqrt(mp.log(2) / 162) / 2
            radius = mp.sqrt(3 * mp.log(81 * mp.cbrt(2)) / 80)
            low = min(eta, naive.real(beta) * mp.log(81) / (81 * (1 - 2 * radius) ** 2))
            return low + (1 - low - eta) / (1 + mp.exp(80 * eta))

        assert close(law("exp3++", history, version=2017, beta=beta)[1], expected_2017)


# All of them


CASES = [(slug, params) for slug, examples in EXAMPLES.items() for params in examples]


def test_every_policy_has_an_example():
    assert set(EXAMPLES) == set(ORACLES)
    assert set(INDICES) < set(ORACLES)


@pytest.mark.parametrize(("slug", "params"), CASES, ids=lambda value: str(value))
def test_every_law_is_a_law_and_blind_to_labels(slug, params):
    beta = slug in ("npts", "thompson", "top-two-thompson")
    values = [0, 1] if beta else [0, 0.25, 0.5, 1]
    history = history_at_random(3, 3, 12, values)
    before = mp.dps
    p = ORACLES[slug](history, 3, params)
    assert mp.dps == before
    with mp.workdps(60):
        assert abs(sum(p) - 1) < mpf("1e-40")
    assert all(0 <= x <= 1 for x in p)
    if slug in ("dmed", "fixed"):  # lists are in the order of the arms' numbers
        return
    turned = [((arm + 1) % 3, reward) for arm, reward in history]
    assert close(ORACLES[slug](turned, 3, params), p[-1:] + p[:-1])
