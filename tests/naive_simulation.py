"""Whole simulations once more, slowly and obviously: what the compiled engine is checked against.

Policies and worlds are written here from the papers, with NumPy and without a line of the library.
Many trials advance together only because Python is slow: every array is [trial, arm] or [trial].

A policy decides with the rewards that it has seen. Where its paper begins with a pull of each arm,
an arm none of whose rewards was seen is pulled first: each of these arms is as likely as another,
or in order the first of them. Round t is 1 + the rewards seen. What a reward teaches may depend
on the propensity and the round of its decision: those of the time when it was made.

    simulate(policy, world, …) -> what the engine says at its checkpoints, for every trial
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

# --------------------------------------------------------------------------------------------------
# Worlds


@dataclass(frozen=True)
class World:
    """Stages as (first round, means, rewards of the arms played); and when rewards are seen."""

    stages: tuple
    low: float = 0.0
    high: float = 1.0
    #: Of the decision of round t (an array of delays may be drawn): after which round it is seen.
    seen_after: Callable = lambda rng, t, trials: np.full(trials, t)

    def stage(self, t):
        """The means and the rewards that hold in round t."""
        return [(means, pay) for start, means, pay in self.stages if start <= t][-1]


def _stationary(means, pay, low=0.0, high=1.0):
    return World(((1, np.array(means), pay),), low, high)


def bernoulli(means):
    p = np.array(means)
    return _stationary(p, lambda rng, arm: (rng.random(arm.size) < p[arm]).astype(float))


def uniform(low, high, rewards=(0.0, 1.0)):
    a, b = np.array(low), np.array(high)
    return _stationary((a + b) / 2, lambda rng, arm: rng.uniform(a[arm], b[arm]), *rewards)


def beta(a, b):
    a, b = np.array(a), np.array(b)
    return _stationary(a / (a + b), lambda rng, arm: rng.beta(a[arm], b[arm]))


def deterministic(means):
    x = np.array(means)
    return _stationary(x, lambda rng, arm: x[arm])


def piecewise(first, *later):
    """One world, and then (round, world) for each that takes over in that round."""
    rows = [(t, *world.stages[0][1:]) for t, world in ((1, first), *later)]
    return replace(first, stages=tuple(rows))


def delayed(world, rounds):
    """The reward of round t is seen before the decision of round t + 1 + rounds."""
    return replace(world, seen_after=lambda rng, t, trials: np.full(trials, t + rounds))


def delayed_at_random(world, mean):
    """As `delayed`, by the failures before a first success, each reward by itself."""
    return replace(
        world, seen_after=lambda rng, t, trials: t + rng.geometric(1 / (1 + mean), trials) - 1
    )


def batched(world, size):
    """Rewards of the rounds up to a multiple of size are seen together after that round."""
    return replace(
        world, seen_after=lambda rng, t, trials: np.full(trials, math.ceil(t / size) * size)
    )


# --------------------------------------------------------------------------------------------------
# What all policies share


def outcome(p, q):
    """p ln(p/q) with 0 ln 0 = 0."""
    return np.where(p == 0, 0.0, p * np.log(p / q))


def kl(a, b):
    """Bernoulli: a ln(a/b) + (1−a) ln((1−a)/(1−b))."""
    return np.where(a == b, 0.0, outcome(a, b) + outcome(1 - a, 1 - b))


def ln_plus(x):
    return np.log(np.maximum(x, 1.0))


def border(still, inside, outside, halvings=40):
    """Between a place where `still` holds and one where it does not."""
    for _ in range(halvings):
        middle = (inside + outside) / 2
        holds = still(middle)
        inside = np.where(holds, middle, inside)
        outside = np.where(holds, outside, middle)
    return inside


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def shared_argmax(index):
    """Uniform on the largest."""
    largest = index == index.max(axis=1, keepdims=True)
    return largest / largest.sum(axis=1, keepdims=True)


class Policy:
    """Counts, sums and sums of squares of the rewards seen; a subclass says how to choose."""

    #: Whether each arm is pulled once first.
    first_pulls = True
    #: Whether `law` gives the probabilities; else `draws` gives numbers, and the largest plays.
    has_law = True

    def __init__(self, trials, arms, horizon, rng):
        self.trials, self.K, self.T, self.rng = trials, arms, horizon, rng
        self.N, self.S, self.Q = np.zeros((3, trials, arms))

    @property
    def mean(self):
        return self.S / self.N

    @property
    def variance(self):
        return np.maximum(self.Q / self.N - self.mean**2, 0.0)

    @property
    def best(self):
        return self.mean.max(axis=1, keepdims=True)

    @property
    def t(self):
        """The round to be decided, as a column."""
        return 1 + self.N.sum(axis=1, keepdims=True)

    def law(self):
        raise NotImplementedError

    def draws(self):
        raise NotImplementedError

    def learn(self, rows, arm, reward, p, t):
        """The trials `rows` see one reward each; p is the law it was decided by, in round t."""
        self.N[rows, arm] += 1
        self.S[rows, arm] += reward
        self.Q[rows, arm] += reward**2


# --------------------------------------------------------------------------------------------------
# Maillard sampling


class KLMS(Policy):
    """p ∝ exp(−N kl(m, m*))."""

    def law(self):
        return softmax(-self.N * kl(self.mean, self.best))


class KLMSKT(Policy):
    """The same of the means (S + 1/2)/(N + 1)."""

    def law(self):
        mean = (self.S + 0.5) / (self.N + 1)
        return softmax(-self.N * kl(mean, mean.max(axis=1, keepdims=True)))


class MS(Policy):
    """p ∝ exp(−N (m* − m)²/(2σ²)), σ² = 1/4."""

    def law(self):
        return softmax(-2 * self.N * (self.best - self.mean) ** 2)


# --------------------------------------------------------------------------------------------------
# Indices: the largest is played


class Indexed(Policy):
    def law(self):
        return shared_argmax(self.index())


class UCB1(Indexed):
    """m + √(2 ln t/N), t the pulls so far (Auer et al. 2002)."""

    def index(self):
        return self.mean + np.sqrt(2 * np.log(self.t - 1) / self.N)


class UCBV(Indexed):
    """m + √(2 V ln t/N) + 3 ln t/N, in round t (Audibert et al. 2009, ζ = c = 1)."""

    def index(self):
        share = np.log(self.t) / self.N
        return self.mean + np.sqrt(2 * self.variance * share) + 3 * share


class MOSS(Indexed):
    """m + √(ln+(T/(KN))/N)."""

    def index(self):
        return self.mean + np.sqrt(ln_plus(self.T / (self.K * self.N)) / self.N)


class KLUCBPlusPlus(Indexed):
    """max{b : N kl(m, b) ≤ g(N)}, g(n) = ln+(x (1 + (ln+ x)²)) with x = T/(Kn)."""

    def index(self):
        x = self.T / (self.K * self.N)
        allowed = ln_plus(x * (1 + ln_plus(x) ** 2)) / self.N
        mean = self.mean
        return border(lambda b: kl(mean, b) <= allowed, mean, np.ones_like(mean))


class IMED(Indexed):
    """The smallest N kl(m, m*) + ln N."""

    def index(self):
        return -(self.N * kl(self.mean, self.best) + np.log(self.N))


class AdaUCB(Indexed):
    """m + √(2σ²/N ln̄(T/H)), H_i = Σ_j min(N_i, √(N_i N_j)), ln̄ x = ln((x+e)√ln(x+e)), σ = 1/2."""

    def index(self):
        mine, theirs = self.N[:, :, None], self.N[:, None, :]
        x = self.T / np.minimum(mine, np.sqrt(mine * theirs)).sum(axis=2) + math.e
        return self.mean + np.sqrt(0.5 / self.N * np.log(x * np.sqrt(np.log(x))))


class EpsilonGreedy(Indexed):
    """1/10 uniform, 9/10 on the best means."""

    def law(self):
        return 0.1 / self.K + 0.9 * shared_argmax(self.mean)


class EfficientUCBV(Indexed):
    """m + √((V+2) ln(ψTε)/(8N)) among the arms left; ψ = T/K² (Mukherjee et al. 2018, ρ = 1/2)."""

    def __init__(self, *settings):
        super().__init__(*settings)
        self.left = np.ones_like(self.N, dtype=bool)
        self.phase = np.zeros(self.trials)
        self.end = self.K * self.length()
        self.last_phase = math.floor(0.5 * math.log2(self.T / math.e))

    def length(self):
        epsilon = 0.5**self.phase
        return np.ceil(ln_plus(self.T**2 / self.K**2 * epsilon**2) / (2 * epsilon))

    def radius(self):
        log_term = ln_plus(self.T**2 / self.K**2 * 0.5**self.phase)[:, None]
        return np.sqrt((self.variance + 2) * log_term / (8 * self.N))

    def index(self):
        return np.where(self.left, self.mean + self.radius(), -np.inf)

    def learn(self, rows, arm, reward, p, t):
        started = (self.N > 0).all(axis=1)
        super().learn(rows, arm, reward, p, t)
        judged = np.zeros(self.trials, dtype=bool)
        judged[rows] = True
        judged &= started & (self.left.sum(axis=1) > 1)
        low, high = self.mean - self.radius(), self.mean + self.radius()
        bar = np.where(self.left, low, -np.inf).max(axis=1, keepdims=True)
        self.left &= ~(judged[:, None] & (high < bar))
        pulls = self.N.sum(axis=1)
        over = judged & (pulls >= self.end) & (self.phase <= self.last_phase)
        self.phase[over] += 1
        self.end[over] = (pulls + self.left.sum(axis=1) * self.length())[over]


class DMED(Policy):
    """Goes through lists; an arm enters the next one if N kl(m, m*) ≤ ln(t/N).

    The first list holds all arms, and begins when each was pulled once (Honda & Takemura 2010).
    """

    def __init__(self, *settings):
        super().__init__(*settings)
        self.now = np.ones_like(self.N, dtype=bool)  # still to be pulled, of the current list
        self.next = np.zeros_like(self.now)

    def law(self):
        first = np.zeros_like(self.N)
        first[np.arange(self.trials), self.now.argmax(axis=1)] = 1
        return first

    def learn(self, rows, arm, reward, p, t):
        started = (self.N > 0).all(axis=1)
        super().learn(rows, arm, reward, p, t)
        seen = np.zeros_like(self.now)
        seen[rows, arm] = True
        judged = started & seen.any(axis=1)
        self.now &= ~(seen & judged[:, None])
        pulls = self.N.sum(axis=1, keepdims=True)
        near = self.N * kl(self.mean, self.best) <= np.log(pulls / self.N) + 1e-12
        self.next |= near & ~self.now & judged[:, None]
        over = judged & ~self.now.any(axis=1)
        self.now[over], self.next[over] = self.next[over], False


# --------------------------------------------------------------------------------------------------
# Random indices: the largest draw is played


class Random(Policy):
    has_law = False


class Thompson(Random):
    """Beta(1/2 + S, 1/2 + N − S)."""

    first_pulls = False
    prior = 0.5

    def draws(self):
        return self.rng.beta(self.prior + self.S, self.prior + self.N - self.S)


class GaussianThompson(Random):
    """N(m, 1/(4N))."""

    def draws(self):
        return self.mean + 0.5 / np.sqrt(self.N) * self.rng.standard_normal(self.N.shape)


class ExpTS(Random):
    """P(θ > x) = ½ exp(−(N−1) kl(m, x)) above m, P(θ ≤ x) alike below (Jin et al. 2022)."""

    def draws(self):
        mean, side = self.mean, self.rng.random(self.N.shape) < 0.5
        depth = self.rng.exponential(size=self.N.shape)
        end = np.where(side, 0.0, 1.0)
        # Half of the mass may be an atom at an end: all of it is after a single pull, 0 · ∞ = 0.
        at_end = (self.N == 1) | ((self.N - 1) * kl(mean, end) <= depth)
        inside = border(lambda x: (self.N - 1) * kl(mean, x) <= depth, mean, end)
        return np.where(at_end, end, inside)


class MOTS(Random):
    """min(N(m, σ²/(ρN)), m + σ√(α ln+(T/(KN))/N)), ρ = 0.9999, α = 2, σ = 1/2."""

    def draws(self):
        normal = self.mean + 0.5 / np.sqrt(0.9999 * self.N) * self.rng.standard_normal(self.N.shape)
        bonus = np.sqrt(2 / self.N * ln_plus(self.T / (self.K * self.N)))
        return np.minimum(normal, self.mean + 0.5 * bonus)


class BoltzmannGumbel(Random):
    """m + C/√N Z, Z a standard Gumbel, C = 1/2."""

    def draws(self):
        return self.mean + 0.5 / np.sqrt(self.N) * self.rng.gumbel(size=self.N.shape)


# --------------------------------------------------------------------------------------------------
# Adversarial policies: losses are 1 − reward, and L their importance-weighted sums


class Losses(Policy):
    first_pulls = False

    def __init__(self, *settings):
        super().__init__(*settings)
        self.L = np.zeros_like(self.N)

    def learn(self, rows, arm, reward, p, t):
        super().learn(rows, arm, reward, p, t)
        self.L[rows, arm] += (1 - reward) / p[np.arange(arm.size), arm]


class EXP3(Losses):
    """softmax(−η_t L), η_t = √(ln K/(tK))."""

    def law(self):
        return softmax(-np.sqrt(math.log(self.K) / (self.t * self.K)) * self.L)


class EXP3Rewards(Losses):
    """(1−γ) softmax(G) + γ/K, G_I += γ r/(K p_I), γ = min(1, √(K ln K/((e−1)T)))."""

    @property
    def gamma(self):
        return min(1.0, math.sqrt(self.K * math.log(self.K) / ((math.e - 1) * self.T)))

    def law(self):
        return (1 - self.gamma) * softmax(self.L) + self.gamma / self.K

    def learn(self, rows, arm, reward, p, t):
        Policy.learn(self, rows, arm, reward, p, t)
        self.L[rows, arm] += self.gamma * reward / (self.K * p[np.arange(arm.size), arm])


class EXP3IX(EXP3):
    """EXP3 with L_I += l/(p_I + η_t/2) (Neu 2015)."""

    def learn(self, rows, arm, reward, p, t):
        Policy.learn(self, rows, arm, reward, p, t)
        half_rate = 0.5 * np.sqrt(math.log(self.K) / (t * self.K))
        self.L[rows, arm] += (1 - reward) / (p[np.arange(arm.size), arm] + half_rate)


class EXP3PlusPlus(Losses):
    """(1 − Σε) softmax(−η_t L) + ε, η_t = ½√(ln K/(tK)), ε = min(1/(2K), η_t, 256 ln t/(t Δ²)).

    Δ = max(0, LCB − min UCB) of the mean losses seen, radius √(3 ln(t K^(1/3))/(2N)), within [0, 1]
    (Seldin & Lugosi 2017).
    """

    first_pulls = True

    def law(self):
        t, K = self.t, self.K
        rate = 0.5 * np.sqrt(math.log(K) / (t * K))
        radius = np.sqrt(3 * np.log(t * K ** (1 / 3)) / (2 * self.N))
        low = np.maximum(0, 1 - self.mean - radius)
        high = np.minimum(1, 1 - self.mean + radius)
        gap = np.maximum(0, low - high.min(axis=1, keepdims=True))
        epsilon = np.minimum(np.minimum(1 / (2 * K), rate), 256 * np.log(t) / (t * gap**2))
        return (1 - epsilon.sum(axis=1, keepdims=True)) * softmax(-rate * self.L) + epsilon


class TsallisIW(Losses):
    """w = 4/(η_t (L − x))², x below all L such that Σ w = 1, η_t = 2/√t (Zimmert & Seldin 2021)."""

    scale = 2.0

    def law(self):
        rate = self.scale / np.sqrt(self.t)
        gap = self.L - self.L.min(axis=1, keepdims=True)

        def weights(y):  # y = min L − x
            return 4 / (rate * (gap + y)) ** 2

        widest = 2 * math.sqrt(self.K) / rate
        w = weights(border(lambda y: weights(y).sum(axis=1, keepdims=True) >= 1, 2 / rate, widest))
        return w / w.sum(axis=1, keepdims=True)


class TsallisRV(TsallisIW):
    """With η_t = 4/√t, and B = ½ where w ≥ η_t²: L_i += B_i for all arms, L_I += (l − B_I)/w_I."""

    scale = 4.0

    def learn(self, rows, arm, reward, p, t):
        Policy.learn(self, rows, arm, reward, p, t)
        here = np.arange(arm.size)
        baseline = 0.5 * (p >= (16 / t)[:, None])
        self.L[rows] += baseline
        self.L[rows, arm] += (1 - reward - baseline[here, arm]) / p[here, arm]


# --------------------------------------------------------------------------------------------------
# The trials


@dataclass(frozen=True)
class Outcome:
    """At the checkpoints: [checkpoint, trial], the pulls [checkpoint, trial, arm]."""

    regret: np.ndarray
    rewards: np.ndarray
    best: np.ndarray
    pulls: np.ndarray


def choose(law, rng):
    """An arm for each row, drawn from it."""
    u = rng.random(len(law))[:, None]
    law = law / law.sum(axis=1, keepdims=True)
    return np.minimum((u >= np.cumsum(law, axis=1)).sum(axis=1), law.shape[1] - 1)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def simulate(
    kind, world, horizon, trials, checkpoints, seed, initial="shuffled", floor=0.0, binarise=False
):
    """So many trials of a policy in a world.

    Arms not seen yet divide by zero in the formulas; what comes of it is never looked at.
    """
    rng = np.random.default_rng(seed)
    K = world.stages[0][1].size
    policy = kind(trials, K, horizon, rng)
    everyone = np.arange(trials)
    due = np.empty((horizon, trials), dtype=int)
    decisions = []
    regret, earned, pulls = np.zeros(trials), np.zeros(trials), np.zeros((trials, K))
    written = []
    for t in range(1, horizon + 1):
        means, pay = world.stage(t)
        decided_in = policy.t[:, 0]

        if policy.has_law:
            law = policy.law()
        else:
            law = shared_argmax(policy.draws())
        unseen = policy.N == 0
        opening = policy.first_pulls & unseen.any(axis=1)
        first = unseen / unseen.sum(axis=1, keepdims=True)
        if initial == "in-order":
            first = unseen & (np.cumsum(unseen, axis=1) == 1)
        law = np.where(opening[:, None], first, law)
        law = (1 - floor) * law + floor / K
        arm = choose(law, rng)

        reward = pay(rng, arm)
        gaps = means.max() - means
        regret += gaps[arm]
        earned += reward
        pulls[everyone, arm] += 1
        if t in checkpoints:
            chance = law if policy.has_law else np.eye(K)[arm]
            best = chance[:, gaps == 0].sum(axis=1)
            written.append((regret.copy(), earned.copy(), best, pulls.copy()))

        scaled = (reward - world.low) / (world.high - world.low)
        if binarise:
            scaled = (rng.random(trials) < scaled).astype(float)
        decisions.append((arm, scaled, law, decided_in))
        due[t - 1] = world.seen_after(rng, t, trials)
        for made in np.flatnonzero((due[:t] == t).any(axis=1)):
            rows = np.flatnonzero(due[made] == t)
            policy.learn(rows, *(x[rows] for x in decisions[made]))
    return Outcome(*(np.array(x) for x in zip(*written, strict=True)))
