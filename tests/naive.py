"""Every policy once more, slowly and obviously: what the library is checked against.

A history is the list of (arm, reward) in order of observation, or (arm, reward, propensity) where
the propensity with which the arm was chosen matters (EXP3 and its relatives, Tsallis-INF; without
it the probability that the oracle itself gives is used). Rewards are numbers or Fractions; a float
counts as the rational number that it is, so means are exact and their ties are ties.

    ORACLES[slug](history, K, params) -> the law of the next choice, K numbers of DIGITS digits
    INDICES[slug](history, K, params) -> the indices whose argmax is played (IMED's with sign −)

Both suppose that the first pulls are over: every arm was observed once, where the policy needs it.

Means are exact. Indices closer than TIE are one index: different expressions of one number. A tie
is shared uniformly. Laws found by quadrature (see `argmax_law`) have a relative error of 1e-40.

Which t? With n rewards observed, the next choice is that of round n + 1. Where the source counts
rounds, as the paper does in its Algorithm 2, t = n + 1; where it counts pulls made, t = n:

    n + 1   kl-ucb, kl-ucb+, empirical-kl-ucb, kl-ucb-switch (anytime), ucb-v, moss-anytime, ms+,
            epsilon-greedy (decaying), tsallis-inf, exp3, exp3-ix, exp3++
    n       ucb1; dmed and efficient-ucb-v, whose tests follow the n-th reward
    none    all others: no t, or a fixed horizon
"""

import functools
import itertools
import math
from fractions import Fraction

from mpmath import mp, mpf
from mpmath.calculus.quadrature import GaussLegendre

DIGITS = 60
TIE = mpf("1e-30")

#: Policies whose t is the number of pulls made; for all others it is the round to be decided.
COUNTS_PULLS = {"ucb1"}

ORACLES = {}
INDICES = {}

#: For every policy, parameters with which all of its variants can be tried.
EXAMPLES = {
    "kl-ms": [{}],
    "kl-ms-kt": [{}, {"alpha": 1, "beta": 2}],
    "ms": [{}, {"variance": 1}],
    "ms+": [{"B": 2, "C": 0.5, "D": 0.25, "n_inside": inside} for inside in (True, False)],
    "ms-booster": [{"B": 4}],
    "kl-ms-booster": [{"B": 0.5}],
    "med": [{}],
    "exp-kl-ms": [{"family": "gaussian", "variance": 2}]
    + [{"family": name} for name in ("poisson", "exponential", "bernoulli", "geometric")],
    "dmed": [
        {"genuine": genuine, "divergence": divergence}
        for genuine in (True, False)
        for divergence in ("kl", "k-inf")
    ],
    "imed": [{"divergence": "kl"}, {"divergence": "k-inf"}],
    "kl-ucb": [{"f": "1+t ln^2 t"}, {"f": "ln t + c ln ln t", "c": 3}],
    "kl-ucb+": [{}],
    "kl-ucb++": [{"horizon": 1000}],
    "kl-ucb-switch": [{"horizon": 1000}, {"horizon": None}],
    "empirical-kl-ucb": [{"c": 1}],
    "ucb1": [{}, {"alpha": 1}],
    "ucb-v": [{"zeta": 1.2, "c": 1}],
    "efficient-ucb-v": [{"horizon": 100}],
    "moss": [{"horizon": 1000}],
    "moss-anytime": [{}, {"alpha": 1}],
    "ada-ucb": [{"horizon": 1000}, {"horizon": 1000, "sigma": 1}],
    "thompson": [{}, {"alpha": 1, "beta": 1}],
    "top-two-thompson": [{"alpha": 1, "beta": 1}, {"alpha": 1, "beta": 1, "leader": 0.75}],
    "gaussian-thompson": [{}, {"variance": 1}],
    "npts": [{}],
    "exp-ts": [{}],
    "exp-ts+": [{}],
    "mots": [{"horizon": 1000, "rho": 0.9999, "alpha": 2, "sigma": 0.5}],
    "mots-j": [{"horizon": 1000, "alpha": 2, "sigma": 0.5}],
    "boltzmann-gumbel": [{"C": 0.5}],
    "tsallis-inf": [{"estimator": "iw"}, {"estimator": "rv"}],
    "exp3": [
        {"form": "rewards", "gamma": 0.1},
        {"form": "rewards", "horizon": 1000},
        {"form": "losses"},
        {"form": "losses", "horizon": 1000},
    ],
    "exp3-ix": [{"horizon": None}, {"horizon": 1000}],
    "exp3++": [{"version": 2014}, {"version": 2017}, {"version": 2014, "c": 0.01}],
    "epsilon-greedy": [{"epsilon": 0.1}, {"c": 1, "d": 0.5}],
    "uniform": [{}],
    "fixed": [{"probabilities": [0.25, 0.25, 0.5]}],
}


# --------------------------------------------------------------------------------------------------
# Numbers and statistics


def exact(number):
    """The rational number that a float, an int or a Fraction is."""
    return Fraction(number)


def real(number):
    """A number of any kind at the working precision; an mpf as it is."""
    if isinstance(number, mpf):
        return number
    if isinstance(number, float) and math.isinf(number):
        return mpf(number)
    number = exact(number)
    return mpf(number.numerator) / number.denominator


def ln(x):
    return mp.log(real(x))


def ln_plus(x):
    """max(0, ln x), with ln+ 0 = 0."""
    return mp.log(real(x)) if x > 1 else mpf(0)


class Arm:
    """The rewards of one arm, and their exact count, sum, mean and variance (divided by N)."""

    def __init__(self, rewards):
        self.rewards = [exact(reward) for reward in rewards]

    @property
    def n(self):
        return len(self.rewards)

    @property
    def total(self):
        return sum(self.rewards, Fraction(0))

    @property
    def mean(self):
        return self.total / self.n

    @property
    def variance(self):
        return sum((x - self.mean) ** 2 for x in self.rewards) / self.n


def arms_of(history, K):
    return [Arm([item[1] for item in history if item[0] == a]) for a in range(K)]


def round_of(slug, history):
    return len(history) + (0 if slug in COUNTS_PULLS else 1)


def floor_root(x, degree):
    """⌊x^(1/degree)⌋ for an exact x ≥ 0: no rounding can miss a perfect power."""
    n = 0
    while exact(n + 1) ** degree <= x:
        n += 1
    return n


def bisect(still, low, high):
    """The border between where `still` holds, from `low` on, and where it no longer does."""
    low, high = mpf(low), mpf(high)
    for _ in range(4 * mp.dps):  # 4 bits for each digit: more than there are
        middle = (low + high) / 2
        if still(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2


# --------------------------------------------------------------------------------------------------
# Divergences, and their inverses. First-order terms cancel between equal means: twice the digits.


def _careful(divergence):
    """The textbook formula, of two means, with twice the digits; 0 where they are equal."""

    @functools.wraps(divergence)
    def value(a, b):
        if a == b:
            return mpf(0)
        with mp.workdps(2 * DIGITS):
            found = divergence(real(a), real(b))
        with mp.workdps(DIGITS):
            return +found

    return value


def _outcome(p, q):
    """p ln(p/q) with 0 ln 0 = 0."""
    if p == 0:
        return mpf(0)
    return mp.inf if q == 0 else p * mp.log(p / q)


@_careful
def kl(a, b):
    """Bernoulli: a ln(a/b) + (1−a) ln((1−a)/(1−b))."""
    return _outcome(a, b) + _outcome(1 - a, 1 - b)


@_careful
def kl_poisson(a, b):
    return _outcome(a, b) + b - a


@_careful
def kl_exponential(a, b):
    """a/b − 1 − ln(a/b); a mean of 0 is infinitely far from every other."""
    return mp.inf if a == 0 or b == 0 else a / b - 1 - mp.log(a / b)


@_careful
def kl_geometric(a, b):
    """On 0, 1, 2, …: a ln(a(1+b)/(b(1+a))) + ln((1+b)/(1+a))."""
    return _outcome(a, b) + (1 + a) * mp.log((1 + b) / (1 + a))


@mp.workdps(DIGITS)
def kl_gaussian(a, b, variance):
    return real((exact(a) - exact(b)) ** 2 / (2 * exact(variance)))


@mp.workdps(2 * DIGITS)
def kl_upper_gap(a, d):
    """1 − max{b : kl(a, b) ≤ d}, with all its digits however small it is."""
    a, d = real(a), real(d)
    if a == 1 or d == mp.inf:
        return mpf(0)
    if a == 0:
        return mp.exp(-d)
    # With 1 − b = (1−a) e^(−y): kl = a ln(a/b) + (1−a) y ≥ −1/e + (1−a) y, whence the bracket.
    y = bisect(
        lambda y: a * mp.log(a / (1 - (1 - a) * mp.exp(-y))) + (1 - a) * y <= d,
        0,
        (d + 1) / (1 - a),
    )
    return (1 - a) * mp.exp(-y)


@mp.workdps(DIGITS)
def kl_upper(a, d):
    """max{b : kl(a, b) ≤ d}."""
    return real(a) if d <= 0 else 1 - kl_upper_gap(a, d)


@mp.workdps(DIGITS)
def kl_lower(a, d):
    """min{b : kl(a, b) ≤ d}."""
    return real(a) if d <= 0 else kl_upper_gap(1 - a, d)


def is_binary(rewards):
    return set(rewards) <= {0, 1}


def _atoms(rewards):
    """The empirical law as [(value, weight)], exactly."""
    values = [exact(x) for x in rewards]
    return [(x, Fraction(values.count(x), len(values))) for x in sorted(set(values))]


@mp.workdps(2 * DIGITS)
def k_inf_dual(rewards, mu):
    """max over 0 ≤ λ ≤ 1/(1−μ) of E ln(1 − λ(X−μ)), the root of the derivative by bisection."""
    atoms = _atoms(rewards)
    if sum(w * x for x, w in atoms) >= mu:
        return mpf(0)
    if mu >= 1:
        return mp.inf
    law = [(real(x), real(w)) for x, w in atoms]
    mu = real(mu)
    top = 1 / (1 - mu)

    def value(lam):
        return mp.fsum(w * mp.log(1 - lam * (x - mu)) for x, w in law)

    def slope(lam):
        return -mp.fsum(w * (x - mu) / (1 - lam * (x - mu)) for x, w in law)

    no_atom_at_one = atoms[-1][0] < 1
    if no_atom_at_one and mp.fsum(w * (1 - mu) / (1 - x) for x, w in law) <= 1:
        return mp.fsum(w * mp.log((1 - x) / (1 - mu)) for x, w in law)
    return value(bisect(lambda lam: slope(lam) > 0, 0, top))


def k_inf(rewards, mu):
    """inf{KL(F, G) : E_G > μ, G on (−∞, 1]} for the empirical law F of the rewards."""
    if is_binary(rewards):
        mean = exact(sum(rewards)) / len(rewards)
        return mpf(0) if mean >= mu else kl(mean, mu)
    return k_inf_dual(rewards, mu)


@mp.workdps(2 * DIGITS)
def k_inf_upper_primal(rewards, d):
    """max of E_G over the G on the rewards' values and 1 with KL(F, G) ≤ d.

    By Lagrange G has weights proportional to w/(ν−x) with a ν ≥ 1 at which the constraint is tight
    (Filippi, Cappé & Garivier 2010); where it is slack at ν = 1, 1 itself gets the rest.
    """
    atoms = _atoms(rewards)
    mean = sum(w * x for x, w in atoms)
    d = real(d)
    if d <= 0 or mean == 1:
        return real(mean)
    if d == mp.inf:
        return mpf(1)
    law = [(real(x), real(w)) for x, w in atoms]

    def spent(gap):  # gap = ν − 1
        weights = [w / (1 - x + gap) for x, w in law]
        return mp.log(mp.fsum(weights)) - mp.fsum(
            w * mp.log(g / w) for (_, w), g in zip(law, weights, strict=True)
        )

    def law_at(gap, rest):
        weights = [w / (1 - x + gap) for x, w in law]
        total = mp.fsum(weights)
        return rest + (1 - rest) * mp.fsum(
            g / total * x for (x, _), g in zip(law, weights, strict=True)
        )

    if atoms[-1][0] < 1 and spent(mpf(0)) <= d:
        return law_at(mpf(0), 1 - mp.exp(spent(mpf(0)) - d))
    # `spent` falls from ∞ to 0 as ν leaves 1; its border is sought in ln(ν − 1).
    low, high = mpf(-1), mpf(1)
    while spent(mp.exp(low)) < d:
        low *= 2
    while spent(mp.exp(high)) > d:
        high *= 2
    return law_at(mp.exp(bisect(lambda s: spent(mp.exp(s)) > d, low, high)), mpf(0))


def k_inf_upper(rewards, d):
    """sup{μ : K_inf(F, μ) ≤ d}."""
    if is_binary(rewards):
        return kl_upper(exact(sum(rewards)) / len(rewards), d)
    return k_inf_upper_primal(rewards, d)


def to_best(arms, divergence):
    """D(arm, best mean) for every arm, the divergence named "kl" or "k-inf"."""
    best = max(arm.mean for arm in arms)
    if divergence == "kl":
        return [kl(arm.mean, best) for arm in arms]
    assert divergence == "k-inf"
    return [k_inf(arm.rewards, best) for arm in arms]


# --------------------------------------------------------------------------------------------------
# Rules: from numbers for each arm to the law of the choice


@mp.workdps(DIGITS)
def normalised(weights):
    total = mp.fsum(weights)
    return [w / total for w in weights]


def decayed(count, divergence):
    """exp(−count · divergence), where 0 · ∞ = 0."""
    return mpf(1) if count == 0 or divergence == 0 else mp.exp(-count * divergence)


def tied(x, y):
    return x == y or abs(x - y) < TIE  # the first for infinities


def uniform_on(winners, K):
    return [mpf(a in winners) / len(winners) for a in range(K)]


def uniform_argmax(indices):
    best = max(indices)
    return uniform_on({a for a, x in enumerate(indices) if tied(x, best)}, len(indices))


QUADRATURE_DIGITS = 50
TOLERANCE = mpf("1e-41")


@functools.cache
def _gauss_nodes():
    """24 nodes on [−1, 1]: on a panel two deviations wide a Gaussian's error is below 1e-40."""
    with mp.workdps(QUADRATURE_DIGITS + 10):
        return GaussLegendre(mp).calc_nodes(4, mp.prec)


def _panel(f, left, right):
    middle, half = (left + right) / 2, (right - left) / 2
    return half * mp.fsum(w * f(middle + half * x) for x, w in _gauss_nodes())


def _halved(f, left, right, whole, allowed, depth=0):
    """The panel's integral, halved until the two halves agree with the whole."""
    assert depth < 40, "the integrand is not smooth between its breakpoints"
    middle = (left + right) / 2
    first, second = _panel(f, left, middle), _panel(f, middle, right)
    if abs(first + second - whole) <= allowed:
        return first + second
    return _halved(f, left, middle, first, allowed, depth + 1) + _halved(
        f, middle, right, second, allowed, depth + 1
    )


def integral(f, points):
    """∫ f over the real line, f ≥ 0 and smooth between the points, its bulk among them.

    Outside the points, panels twice as long each time, until they no longer matter.
    """
    panels = [(*edge, _panel(f, *edge)) for edge in itertools.pairwise(points)]
    total = mp.fsum(whole for *_, whole in panels)
    for end, width in ((points[0], points[0] - points[1]), (points[-1], points[-1] - points[-2])):
        whole = None
        while whole is None or whole > TOLERANCE * total:
            width *= 2
            left, right = sorted((end, end + width))
            whole = _panel(f, left, right)
            panels.append((left, right, whole))
            total += whole
            end += width
    if total == 0:
        return mpf(0)
    allowed = TOLERANCE * total
    return mp.fsum(_halved(f, *panel, allowed) for panel in panels)


def argmax_law(cdfs, pdfs, atoms, breakpoints):
    """P(X_a is the largest) for independent X_a, ties shared uniformly.

    X_a has the distribution function cdfs[a], atoms[a] = {place: mass} and, between the
    breakpoints, the smooth density pdfs[a]. P_a = ∫ f_a Π F_b + Σ over the atoms of a.
    """
    K = len(cdfs)
    with mp.workdps(QUADRATURE_DIGITS):
        cdfs = [functools.cache(cdf) for cdf in cdfs]
        points = sorted(set(breakpoints))

        def continuous(a):
            others = [cdfs[b] for b in range(K) if b != a]
            return integral(lambda x: pdfs[a](x) * mp.fprod(F(x) for F in others), points)

        def at(place, a):
            """P(X_a = place, no other is larger, and a wins the draw among those that tie)."""
            others = [b for b in range(K) if b != a]
            here = {b: atoms[b].get(place, mpf(0)) for b in range(K)}
            chance = mpf(0)
            for tie in itertools.product([False, True], repeat=K - 1):
                chance += mp.fprod(
                    here[b] if ties else cdfs[b](place) - here[b]
                    for b, ties in zip(others, tie, strict=True)
                ) / (1 + sum(tie))
            return here[a] * chance

        return [continuous(a) + mp.fsum(at(place, a) for place in atoms[a]) for a in range(K)]


# --------------------------------------------------------------------------------------------------
# Registration


def oracle(slug):
    def register(law):
        ORACLES[slug] = mp.workdps(DIGITS)(law)
        return ORACLES[slug]

    return register


def index(slug):
    """Register indices, and the uniform law on their argmax."""

    def register(indices):
        INDICES[slug] = mp.workdps(DIGITS)(indices)
        ORACLES[slug] = mp.workdps(DIGITS)(lambda *args: uniform_argmax(indices(*args)))
        return INDICES[slug]

    return register


# --------------------------------------------------------------------------------------------------
# Maillard sampling and its relatives


@oracle("kl-ms")
def kl_ms(history, K, params):
    """exp(−N_a kl(m_a, m*)) (the paper's Algorithm 1)."""
    arms = arms_of(history, K)
    distances = to_best(arms, "kl")
    return normalised([decayed(arm.n, d) for arm, d in zip(arms, distances, strict=True)])


@oracle("kl-ms-kt")
def kl_ms_kt(history, K, params):
    """The same with means (S+α)/(N+α+β); the exponent keeps N."""
    alpha = exact(params.get("alpha", 0.5))
    beta = exact(params.get("beta", 0.5))
    arms = arms_of(history, K)
    means = [(arm.total + alpha) / (arm.n + alpha + beta) for arm in arms]
    return normalised(
        [decayed(arm.n, kl(m, max(means))) for arm, m in zip(arms, means, strict=True)]
    )


def gaussian_distances(arms, params):
    best = max(arm.mean for arm in arms)
    variance = params.get("variance", Fraction(1, 4))
    return [kl_gaussian(arm.mean, best, variance) for arm in arms]


@oracle("ms")
def ms(history, K, params):
    """exp(−N_a (m*−m_a)²/(2σ²)) (the paper's equation 1)."""
    arms = arms_of(history, K)
    distances = gaussian_distances(arms, params)
    return normalised([decayed(arm.n, d) for arm, d in zip(arms, distances, strict=True)])


@oracle("ms+")
def ms_plus(history, K, params):
    """B(1 + C ln(1 + ln(t/N))) for each best arm, (1 + D [N] x) exp(−N x) for the others.

    The factor [N] is there if n_inside; x is the Gaussian divergence.
    """
    arms = arms_of(history, K)
    t = round_of("ms+", history)
    B, C, D = (real(params[name]) for name in "BCD")
    weights = []
    for arm, x in zip(arms, gaussian_distances(arms, params), strict=True):
        if x == 0:
            weights.append(B * (1 + C * mp.log(1 + ln(Fraction(t, arm.n)))))
        else:
            inflation = 1 + D * x * (arm.n if params["n_inside"] else 1)
            weights.append(inflation * decayed(arm.n, x))
    return normalised(weights)


def boosted(arms, distances, params):
    """Weight B for every arm that ties for the best, instead of 1."""
    B = real(params["B"])
    return normalised(
        [B if d == 0 else decayed(arm.n, d) for arm, d in zip(arms, distances, strict=True)]
    )


@oracle("ms-booster")
def ms_booster(history, K, params):
    arms = arms_of(history, K)
    return boosted(arms, gaussian_distances(arms, params), params)


@oracle("kl-ms-booster")
def kl_ms_booster(history, K, params):
    arms = arms_of(history, K)
    return boosted(arms, to_best(arms, "kl"), params)


@oracle("med")
def med(history, K, params):
    """exp(−N_a K_inf(F_a, m*))."""
    arms = arms_of(history, K)
    distances = to_best(arms, "k-inf")
    return normalised([decayed(arm.n, d) for arm, d in zip(arms, distances, strict=True)])


FAMILIES = {
    "bernoulli": kl,
    "poisson": kl_poisson,
    "exponential": kl_exponential,
    "geometric": kl_geometric,
}


@oracle("exp-kl-ms")
def exp_kl_ms(history, K, params):
    """exp(−(N_a−1) KL(m_a, m*)), the divergence of the family in its means."""
    arms = arms_of(history, K)
    if params["family"] == "gaussian":
        distances = gaussian_distances(arms, params)
    else:
        best = max(arm.mean for arm in arms)
        distances = [FAMILIES[params["family"]](arm.mean, best) for arm in arms]
    return normalised([decayed(arm.n - 1, d) for arm, d in zip(arms, distances, strict=True)])


# --------------------------------------------------------------------------------------------------
# DMED and IMED


@oracle("dmed")
def dmed(history, K, params):
    """A point mass on the first arm, by number, of those that the current list has still to pull.

    Honda & Takemura (2010), as read here. After the first pulls, one of each arm, the list holds
    all arms. Each later reward, the t-th of all, is added to its arm's statistics and takes its
    arm off the list; then every arm j that is not still on the list and has
    N_j D(j, m*) ≤ ln t − ln N_j (`genuine`; else ≤ ln t), a tie included, enters the next list, and
    stays there. When the list is empty the next one takes its place. Rewards of arms that the list
    does not hold count in the statistics and in the tests, and leave the list as it is.
    """
    arms = [Arm([]) for _ in range(K)]
    waiting, coming = None, set()
    for t, item in enumerate(history, 1):
        arms[item[0]].rewards.append(exact(item[1]))
        if waiting is None:
            if all(arm.n for arm in arms):
                waiting = set(range(K))
            continue
        waiting.discard(item[0])
        distances = to_best(arms, params.get("divergence", "kl"))
        for j, arm in enumerate(arms):
            threshold = ln(Fraction(t, arm.n)) if params["genuine"] else ln(t)
            if j not in waiting and arm.n * distances[j] <= threshold + TIE:
                coming.add(j)
        if not waiting:
            waiting, coming = coming, set()
    return uniform_on({min(waiting)}, K)


@index("imed")
def imed(history, K, params):
    """−(N_a D(a, m*) + ln N_a)."""
    arms = arms_of(history, K)
    distances = to_best(arms, params.get("divergence", "kl"))
    return [-(arm.n * d + ln(arm.n)) for arm, d in zip(arms, distances, strict=True)]


# --------------------------------------------------------------------------------------------------
# Upper confidence bounds


@index("kl-ucb")
def kl_ucb(history, K, params):
    """max{b : N kl(m, b) ≤ ln f(t)} with f named by its formula."""
    t = round_of("kl-ucb", history)
    budget = {
        "1+t ln^2 t": lambda: ln(1 + t * ln(t) ** 2),
        "ln t + c ln ln t": lambda: ln(t) + real(params["c"]) * ln(ln(t)),
    }[params.get("f", "1+t ln^2 t")]()
    return [kl_upper(arm.mean, budget / arm.n) for arm in arms_of(history, K)]


@index("kl-ucb+")
def kl_ucb_plus(history, K, params):
    """max{b : N kl(m, b) ≤ ln(t/N)}."""
    t = round_of("kl-ucb+", history)
    return [kl_upper(arm.mean, ln(Fraction(t, arm.n)) / arm.n) for arm in arms_of(history, K)]


@index("kl-ucb++")
def kl_ucb_plus_plus(history, K, params):
    """max{b : N kl(m, b) ≤ g(N)}, g(n) = ln+(x (1 + (ln+ x)²)) with x = T/(Kn)."""
    T = exact(params["horizon"])

    def g(n):
        x = T / (K * n)
        return ln_plus(real(x) * (1 + ln_plus(x) ** 2))

    return [kl_upper(arm.mean, g(arm.n) / arm.n) for arm in arms_of(history, K)]


@index("kl-ucb-switch")
def kl_ucb_switch(history, K, params):
    """K_inf's bound for the first pulls of an arm, MOSS's after them.

    With horizon T: budget ln+(T/(KN)), switch after ⌊(T/K)^(1/5)⌋ pulls. Without: with
    x = t/(KN), budget ln+(x (1 + (ln+ x)²)), switch after ⌊(t/K)^(8/9)⌋ pulls.
    """
    T = params.get("horizon")
    if T is not None:
        last = floor_root(exact(T) / K, 5)
    else:
        t = round_of("kl-ucb-switch", history)
        last = floor_root(Fraction(t, K) ** 8, 9)
    indices = []
    for arm in arms_of(history, K):
        if T is not None:
            budget = ln_plus(exact(T) / (K * arm.n))
        else:
            x = Fraction(t, K * arm.n)
            budget = ln_plus(real(x) * (1 + ln_plus(x) ** 2))
        if arm.n <= last:
            indices.append(k_inf_upper(arm.rewards, budget / arm.n))
        else:
            indices.append(real(arm.mean) + mp.sqrt(budget / (2 * arm.n)))
    return indices


@index("empirical-kl-ucb")
def empirical_kl_ucb(history, K, params):
    """sup{μ : N K_inf(F, μ) ≤ ln t + c ln ln t}."""
    t = round_of("empirical-kl-ucb", history)
    budget = ln(t) + real(params["c"]) * ln(ln(t))
    return [k_inf_upper(arm.rewards, budget / arm.n) for arm in arms_of(history, K)]


@index("ucb1")
def ucb1(history, K, params):
    """m + √(α ln t/(2N)); α = 4 is Auer et al.'s √(2 ln t/N)."""
    t = round_of("ucb1", history)
    alpha = real(params.get("alpha", 4))
    return [real(arm.mean) + mp.sqrt(alpha * ln(t) / (2 * arm.n)) for arm in arms_of(history, K)]


@index("ucb-v")
def ucb_v(history, K, params):
    """m + √(2VE/N) + 3cE/N with E = ζ ln t and V the variance divided by N."""
    exploration = real(params["zeta"]) * ln(round_of("ucb-v", history))
    return [
        real(arm.mean)
        + mp.sqrt(2 * real(arm.variance) * exploration / arm.n)
        + 3 * real(params["c"]) * exploration / arm.n
        for arm in arms_of(history, K)
    ]


@index("efficient-ucb-v")
def efficient_ucb_v(history, K, params):
    """m + √((V+2) ln(ψTε)/(8N)) for the arms that are left, −∞ for the others (ρ = 1/2).

    Mukherjee et al. (2018), as read here. ψ = T/K², ε = 1 and the phase ends at N_0 = K n with
    n = ⌈ln(ψTε²)/(2ε)⌉. After the t-th reward, first pulls aside, with radii c of the current ε:
    arms with m + c < max over the arms left of (m − c) go, all judged before any goes; then, if
    t ≥ N_m and m ≤ M = ⌊log2(T/e)/2⌋, ε halves, the next phase ends at t + |arms left|·n with the
    new ε, and m grows by one. A logarithm below 0 counts as 0. Nothing changes with one arm left.
    """
    T = exact(params["horizon"])
    psi_T = T * T / K**2
    last_phase = int(mp.floor(mp.log(real(T) / mp.e, 2) / 2))
    epsilon, phase = Fraction(1), 0
    left = set(range(K))
    arms = [Arm([]) for _ in range(K)]

    def pulls():
        return int(mp.ceil(ln_plus(psi_T * epsilon**2) / (2 * real(epsilon))))

    def radius(arm):
        return mp.sqrt((real(arm.variance) + 2) * ln_plus(psi_T * epsilon) / (8 * arm.n))

    end = K * pulls()
    for t, item in enumerate(history, 1):
        started = all(arm.n for arm in arms)
        arms[item[0]].rewards.append(exact(item[1]))
        if not started or len(left) == 1:
            continue
        floor = max(real(arms[j].mean) - radius(arms[j]) for j in left)
        left = {i for i in left if real(arms[i].mean) + radius(arms[i]) >= floor - TIE}
        if t >= end and phase <= last_phase:
            epsilon /= 2
            end = t + len(left) * pulls()
            phase += 1
    return [real(arm.mean) + radius(arm) if i in left else -mp.inf for i, arm in enumerate(arms)]


@index("moss")
def moss(history, K, params):
    """m + √(ln+(T/(KN))/N)."""
    T = exact(params["horizon"])
    return [
        real(arm.mean) + mp.sqrt(ln_plus(T / (K * arm.n)) / arm.n) for arm in arms_of(history, K)
    ]


@index("moss-anytime")
def moss_anytime(history, K, params):
    """m + √((1+α)/2 · ln+(t/(KN))/N)."""
    t = round_of("moss-anytime", history)
    factor = (1 + real(params.get("alpha", 1.35))) / 2
    return [
        real(arm.mean) + mp.sqrt(factor * ln_plus(Fraction(t, K * arm.n)) / arm.n)
        for arm in arms_of(history, K)
    ]


@index("ada-ucb")
def ada_ucb(history, K, params):
    """m + σ √(2/N · ln((x+e)√ln(x+e))), x = T/Σ_j min(N, √(N N_j))."""
    T = real(params["horizon"])
    sigma = real(params.get("sigma", 0.5))
    arms = arms_of(history, K)
    indices = []
    for arm in arms:
        x = T / mp.fsum(min(mpf(arm.n), mp.sqrt(arm.n * other.n)) for other in arms) + mp.e
        confidence = mp.log(x * mp.sqrt(mp.log(x)))
        indices.append(real(arm.mean) + sigma * mp.sqrt(2 * confidence / arm.n))
    return indices


# --------------------------------------------------------------------------------------------------
# Thompson sampling and other random indices


class Law:
    """A law on the real line as `argmax_law` wants it, and points that mark out its bulk."""

    def __init__(self, cdf, pdf, points, atoms=()):
        self.cdf, self.pdf, self.points, self.atoms = cdf, pdf, points, dict(atoms)


def law_of_argmax(laws):
    return argmax_law(
        [law.cdf for law in laws],
        [law.pdf for law in laws],
        [law.atoms for law in laws],
        [point for law in laws for point in law.points],
    )


def around(centre, deviation):
    return [centre + k * deviation for k in (-8, -4, -2, 0, 2, 4, 8)]


@mp.workdps(DIGITS)
def gaussian_law(mean, variance):
    mean, deviation = real(mean), mp.sqrt(real(variance))
    return Law(
        lambda x: mp.ncdf(x, mean, deviation),
        lambda x: mp.npdf(x, mean, deviation),
        around(mean, deviation),
    )


def expit(z):
    """x with z = ln(x/(1−x)); the probability 1 − x is expit(−z)."""
    return 1 / (1 + mp.exp(-z))


def logit(x):
    x = exact(x)
    if x in (0, 1):
        return mp.inf if x else -mp.inf
    return ln(x / (1 - x))


@mp.workdps(DIGITS)
def beta_law(a, b):
    """Of z = ln(X/(1−X)) with X ~ Beta(a, b): smooth on the whole line for every a, b > 0."""
    a, b = real(a), real(b)
    beta = mp.beta(a, b)

    def cdf(z):  # the incomplete integral on the small side of the mean, then its complement
        x, y = expit(z), expit(-z)
        if x * b < y * a:
            return mp.betainc(a, b, 0, x) / beta
        return 1 - mp.betainc(b, a, 0, y) / beta

    return Law(
        cdf,
        lambda z: expit(z) ** a * expit(-z) ** b / beta,
        around(mp.log(a / b), mp.sqrt(1 / a + 1 / b)),
    )


def polynomial_product(p, q):
    product = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, c in enumerate(p):
        for j, d in enumerate(q):
            product[i + j] += c * d
    return product


def antiderivative(p):
    return [Fraction(0)] + [c / (i + 1) for i, c in enumerate(p)]


def beta_argmax_exactly(parameters):
    """P(X_a is the largest), X_a ~ Beta(a, b) with integers a, b ≥ 1: polynomials, so rational."""

    def density(a, b):
        front = Fraction(math.factorial(a + b - 1), math.factorial(a - 1) * math.factorial(b - 1))
        return [Fraction(0)] * (a - 1) + [front * (-1) ** i * math.comb(b - 1, i) for i in range(b)]

    densities = [density(int(a), int(b)) for a, b in parameters]
    functions = [antiderivative(density) for density in densities]
    law = []
    for a in range(len(parameters)):
        others = functions[:a] + functions[a + 1 :]
        law.append(sum(antiderivative(functools.reduce(polynomial_product, others, densities[a]))))
    return law


def beta_argmax(parameters):
    if all(exact(x).denominator == 1 for pair in parameters for x in pair):
        return [real(p) for p in beta_argmax_exactly(parameters)]
    return law_of_argmax([beta_law(a, b) for a, b in parameters])


@oracle("thompson")
def thompson(history, K, params):
    """Argmax of Beta(α+S, β+N−S)."""
    alpha, beta = exact(params.get("alpha", 0.5)), exact(params.get("beta", 0.5))
    return beta_argmax(
        [(alpha + arm.total, beta + arm.n - arm.total) for arm in arms_of(history, K)]
    )


@oracle("top-two-thompson")
def top_two_thompson(history, K, params):
    """With probability `leader` Thompson's choice, else the first of further draws to differ."""
    leader = real(params.get("leader", 0.5))
    best = thompson(history, K, params)
    if K == 1:
        return best

    def challenger(i):
        chance = mpf(0)
        for j in range(K):
            if j != i:
                chance += best[j] * best[i] / mp.fsum(best[k] for k in range(K) if k != j)
        return chance

    return [leader * best[i] + (1 - leader) * challenger(i) for i in range(K)]


@oracle("gaussian-thompson")
def gaussian_thompson(history, K, params):
    """Argmax of N(m, σ²/N)."""
    variance = exact(params.get("variance", 0.25))
    arms = arms_of(history, K)
    if K == 2:
        gap = real(arms[0].mean - arms[1].mean)
        z = gap / mp.sqrt(real(variance / arms[0].n + variance / arms[1].n))
        return [mp.ncdf(z), mp.ncdf(-z)]
    return law_of_argmax([gaussian_law(arm.mean, variance / arm.n) for arm in arms])


@oracle("npts")
def npts(history, K, params):
    """Argmax of Beta(S+1, N−S), which is 1 itself if S = N; binary rewards."""
    arms = arms_of(history, K)
    assert all(is_binary(arm.rewards) for arm in arms)
    perfect = {a for a, arm in enumerate(arms) if arm.total == arm.n}
    if perfect:
        return uniform_on(perfect, K)
    return beta_argmax([(arm.total + 1, arm.n - arm.total) for arm in arms])


@mp.workdps(DIGITS)
def exp_ts_law(m, n):
    """Of z = ln(θ/(1−θ)) where θ has F = 1 − ½e^(−(n−1)kl(m,θ)) above m, ½e^(−(n−1)kl(m,θ)) below.

    Where kl stays finite at 0 or 1 (m is that end, or n = 1) half of the mass is an atom there.
    """
    m, centre = exact(m), logit(m)
    p, q = real(m), real(1 - m)
    entropy = _outcome(p, 1) + _outcome(q, 1)
    atoms = {}
    if m == 0 or n == 1:
        atoms[-mp.inf] = mpf(1) / 2
    if m == 1 or n == 1:
        atoms[mp.inf] = mpf(1) / 2

    def tail(z):  # ½ exp(−(n−1) kl(m, θ)) at a finite z
        cross = (p * mp.log1p(mp.exp(-z)) if p else 0) + (q * mp.log1p(mp.exp(z)) if q else 0)
        return mp.exp(-(n - 1) * (entropy + cross)) / 2

    def cdf(z):
        if mp.isinf(z):
            return mpf(1) if z > 0 else atoms.get(z, mpf(0))
        return 1 - tail(z) if z >= centre else tail(z)

    def pdf(z):  # dkl/dz = (θ−m)/(θ(1−θ)) · θ(1−θ)
        return (n - 1) * abs(expit(z) - p) * tail(z)

    smoothed = (m * n + Fraction(1, 2)) / (n + 1)
    points = around(logit(smoothed), 1 / mp.sqrt(real(n * smoothed * (1 - smoothed))))
    return Law(cdf, pdf, points if mp.isinf(centre) else [centre, *points], atoms)


@oracle("exp-ts")
def exp_ts(history, K, params):
    """Jin et al. (2022): argmax of draws from `exp_ts_law`."""
    return law_of_argmax([exp_ts_law(arm.mean, arm.n) for arm in arms_of(history, K)])


@oracle("exp-ts+")
def exp_ts_plus(history, K, params):
    """Each arm's index is its mean, and only with probability 1/K a draw from `exp_ts_law`."""

    def mixed(arm):
        law, place, share = exp_ts_law(arm.mean, arm.n), logit(arm.mean), mpf(1) / K
        atoms = {z: share * mass for z, mass in law.atoms.items()}
        atoms[place] = atoms.get(place, mpf(0)) + 1 - share
        return Law(
            lambda z: (1 - share) * (z >= place) + share * law.cdf(z),
            lambda z: share * law.pdf(z),
            law.points,
            atoms,
        )

    return law_of_argmax([mixed(arm) for arm in arms_of(history, K)])


@mp.workdps(DIGITS)
def clipped(law, bound):
    """The law of min(X, bound)."""
    with mp.workdps(2 * DIGITS):
        mass = 1 - law.cdf(bound)
    return Law(
        lambda x: mpf(1) if x >= bound else law.cdf(x),
        lambda x: mpf(0) if x >= bound else law.pdf(x),
        [*law.points, bound],
        {bound: mass},
    )


def mots_bound(arm, K, params):
    """m + σ √(α/N ln+(T/(KN)))."""
    log_term = ln_plus(exact(params["horizon"]) / (K * arm.n))
    return real(arm.mean) + real(params["sigma"]) * mp.sqrt(
        real(params["alpha"]) * log_term / arm.n
    )


@oracle("mots")
def mots(history, K, params):
    """Argmax of min(N(m, σ²/(ρN)), τ) (Jin et al. 2021)."""
    rho, sigma = exact(params["rho"]), exact(params["sigma"])
    return law_of_argmax(
        [
            clipped(gaussian_law(arm.mean, sigma**2 / (rho * arm.n)), mots_bound(arm, K, params))
            for arm in arms_of(history, K)
        ]
    )


@mp.workdps(DIGITS)
def rayleigh_law(mean, variance):
    """Two-sided: density |x−m|/(2v) exp(−(x−m)²/(2v))."""
    mean, variance = real(mean), real(variance)

    def tail(x):
        return mp.exp(-((x - mean) ** 2) / (2 * variance)) / 2

    return Law(
        lambda x: 1 - tail(x) if x >= mean else tail(x),
        lambda x: abs(x - mean) / variance * tail(x),
        around(mean, mp.sqrt(variance)),
    )


@oracle("mots-j")
def mots_j(history, K, params):
    """MOTS with a two-sided Rayleigh law of scale σ/√N."""
    sigma = exact(params["sigma"])
    return law_of_argmax(
        [
            clipped(rayleigh_law(arm.mean, sigma**2 / arm.n), mots_bound(arm, K, params))
            for arm in arms_of(history, K)
        ]
    )


@mp.workdps(DIGITS)
def gumbel_law(place, scale):
    def height(x):
        return mp.exp(-(x - place) / scale)

    return Law(
        lambda x: mp.exp(-height(x)),
        lambda x: height(x) * mp.exp(-height(x)) / scale,
        around(place, scale),
    )


@oracle("boltzmann-gumbel")
def boltzmann_gumbel(history, K, params):
    """Argmax of m + C/√N · standard Gumbel (Cesa-Bianchi et al. 2017)."""
    C = real(params["C"])
    return law_of_argmax(
        [gumbel_law(real(arm.mean), C / mp.sqrt(arm.n)) for arm in arms_of(history, K)]
    )


# --------------------------------------------------------------------------------------------------
# Adversarial policies: losses are 1 − reward


def exponential(logits):
    top = max(logits)
    return normalised([mp.exp(x - top) for x in logits])


def replay(history, K, law, update):
    """The law after the history: law(t, L) decides round t, update(t, L, p, item) follows it.

    L are the cumulative estimates; p is the law of round t, at the observed arm the propensity
    that the history gives, if it gives one.
    """
    L = [mpf(0)] * K
    for t, item in enumerate(history, 1):
        p = law(t, L)
        if len(item) == 3:
            p[item[0]] = real(item[2])
        update(t, L, p, item)
    return law(len(history) + 1, L)


def loss_of(item):
    return 1 - real(item[1])


@mp.workdps(DIGITS)
def tsallis_law(losses, eta):
    """w = 4/(η(L−x))², with the x below all losses at which these sum to 1."""
    K = len(losses)
    gaps = [loss - min(losses) for loss in losses]

    def weights(y):  # y = min L − x
        return [4 / (eta * (gap + y)) ** 2 for gap in gaps]

    y = bisect(lambda y: mp.fsum(weights(y)) >= 1, 2 / eta, 2 * mp.sqrt(K) / eta)
    return normalised(weights(y))


@oracle("tsallis-inf")
def tsallis_inf(history, K, params):
    """Zimmert & Seldin (2021). iw: η = 2/√t, L_I += l/w_I. rv: η = 4/√t, and with
    B_i = ½ where w_i ≥ η², else 0: L_i += B_i for every arm, L_I += (l−B_I)/w_I besides.

    The test w_i ≥ η² is made with the law of the oracle; the division is by the propensity given.
    """
    reduced = {"iw": False, "rv": True}[params["estimator"]]

    def eta(t):
        return (4 if reduced else 2) / mp.sqrt(t)

    def update(t, L, p, item):
        baseline = [mpf(0)] * K
        if reduced:
            own = tsallis_law(L, eta(t))
            baseline = [mpf(w > eta(t) ** 2 - TIE) / 2 for w in own]
        for i in range(K):
            L[i] += baseline[i]
        chosen = item[0]
        L[chosen] += (loss_of(item) - baseline[chosen]) / p[chosen]

    return replay(history, K, lambda t, L: tsallis_law(L, eta(t)), update)


def anytime_or_fixed(K, T):
    """η_t = √(ln K/(tK)), or √(2 ln K/(TK)) with a horizon T."""
    if T is None:
        return lambda t: mp.sqrt(ln(K) / (t * K))
    return lambda t: mp.sqrt(2 * ln(K) / (real(T) * K))


@oracle("exp3")
def exp3(history, K, params):
    """rewards: (1−γ) softmax(G) + γ/K, G_I += γ r/(K p_I), γ given or min(1, √(K ln K/((e−1)T))).
    losses: softmax(−η_t L), L_I += l/p_I.
    """
    if params["form"] == "losses":
        eta = anytime_or_fixed(K, params.get("horizon"))

        def lose(t, L, p, item):
            L[item[0]] += loss_of(item) / p[item[0]]

        return replay(history, K, lambda t, L: exponential([-eta(t) * x for x in L]), lose)

    assert params["form"] == "rewards"
    if params.get("gamma") is not None:
        gamma = real(params["gamma"])
    else:
        gamma = min(mpf(1), mp.sqrt(K * ln(K) / ((mp.e - 1) * real(params["horizon"]))))

    def gain(t, G, p, item):
        G[item[0]] += gamma * real(item[1]) / (K * p[item[0]])

    return replay(
        history, K, lambda t, G: [(1 - gamma) * w + gamma / K for w in exponential(G)], gain
    )


@oracle("exp3-ix")
def exp3_ix(history, K, params):
    """softmax(−η_t L), L_I += l/(p_I + η_t/2) (Neu 2015)."""
    eta = anytime_or_fixed(K, params.get("horizon"))

    def update(t, L, p, item):
        L[item[0]] += loss_of(item) / (p[item[0]] + eta(t) / 2)

    return replay(history, K, lambda t, L: exponential([-eta(t) * x for x in L]), update)


@oracle("exp3++")
def exp3_plus_plus(history, K, params):
    """(1 − Σε) softmax(−η_t L) + ε, L_I += l/p_I, η_t = ½√(ln K/(tK)), ε = min(1/(2K), η_t, ξ).

    2014 (Seldin & Slivkins): ξ = c (ln t)²/(t Δ²), Δ = min(1, (L − min L)/(t−1)).
    2017 (Seldin & Lugosi): ξ = β ln t/(t Δ²), Δ = max(0, LCB − min UCB) of the mean observed loss,
    radius √(α ln(t K^(1/α))/(2N)), within [0, 1]; rewards of the first pulls enter L as all others.
    Where Δ = 0, ξ = ∞.
    """
    version = params["version"]

    def gaps_2014(t, L, seen):
        return [min(mpf(1), (x - min(L)) / (t - 1)) if t > 1 else mpf(0) for x in L]

    def gaps_2017(t, L, seen):
        alpha = real(params.get("alpha", 3))
        low, high = [], []
        for arm in arms_of(seen, K):
            if arm.n == 0:
                low.append(mpf(0))
                high.append(mpf(1))
                continue
            loss = 1 - real(arm.mean)
            radius = mp.sqrt(alpha * (ln(t) + ln(K) / alpha) / (2 * arm.n))
            low.append(max(mpf(0), loss - radius))
            high.append(min(mpf(1), loss + radius))
        return [max(mpf(0), x - min(high)) for x in low]

    def law(t, L):
        eta = mp.sqrt(ln(K) / (t * K)) / 2
        gaps = {2014: gaps_2014, 2017: gaps_2017}[version](t, L, history[: t - 1])
        if version == 2014:
            scale = real(params.get("c", 18)) * ln(t) ** 2
        else:
            scale = real(params.get("beta", 256)) * ln(t)
        xi = [scale / (t * gap**2) if gap > 0 else mp.inf for gap in gaps]
        epsilon = [min(mpf(1) / (2 * K), eta, x) for x in xi]
        rho = exponential([-eta * x for x in L])
        rest = 1 - mp.fsum(epsilon)
        return [rest * r + e for r, e in zip(rho, epsilon, strict=True)]

    def update(t, L, p, item):
        L[item[0]] += loss_of(item) / p[item[0]]

    return replay(history, K, law, update)


# --------------------------------------------------------------------------------------------------
# Simple ones


@oracle("epsilon-greedy")
def epsilon_greedy(history, K, params):
    """ε/K + (1−ε) uniform on the best means; ε given, or min(1, cK/(d²t))."""
    if params.get("epsilon") is not None:
        epsilon = real(params["epsilon"])
    else:
        t = round_of("epsilon-greedy", history)
        epsilon = min(mpf(1), real(exact(params["c"]) * K / (exact(params["d"]) ** 2 * t)))
    greedy = uniform_argmax([arm.mean for arm in arms_of(history, K)])
    return [epsilon / K + (1 - epsilon) * g for g in greedy]


@oracle("uniform")
def uniform(history, K, params):
    return [mpf(1) / K] * K


@oracle("fixed")
def fixed(history, K, params):
    return normalised([real(p) for p in params["probabilities"]])
