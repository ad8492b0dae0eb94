"""The compiled engine against `naive_simulation`: other code, other random numbers, the same laws.

A statistic of a trial (its regret, its pulls of an arm, …) has one law in the engine and in the
naive simulation if both are right, so that the differences D_i between a trial of the one and a
trial of the other are symmetric about 0. Given their sizes their signs are then fair coins, and by
Hoeffding's inequality, whatever the law and however few the trials,

    P(|Σ D_i| ≥ x √Σ D_i²) ≤ 2 exp(−x²/2):    √Σ D_i² is n standard errors of the mean difference.

Beyond x = 4 a statistic is compared again, twice, in fresh trials; beyond 4 all three times it is
wrong: by chance with (2e⁻⁸)³ < 3.1e-10. With the fewer than 3,000 statistics of all the tests here
a false alarm has a probability below 1e-6. All seeds are fixed.
"""

import math

import numpy as np
import pytest

import maillard as mb
import naive_simulation as naive
from maillard.simulation.engine import program

LIMIT = 4.0
HORIZON = 150
#: The first is the round in which the rewards of the first batch, or the first late one, tell.
CHECKPOINTS = [10, 50, 150]
#: The engine gives pulls as sums over the trials of a call: these are the calls and their trials.
CALLS, TRIALS = 64, 16

POLICIES = {
    "kl-ms": (naive.KLMS, {}),
    "kl-ms-kt": (naive.KLMSKT, {}),
    "ms": (naive.MS, {}),
    "ucb1": (naive.UCB1, {}),
    "ucb-v": (naive.UCBV, {}),
    "moss": (naive.MOSS, {"horizon": HORIZON}),
    "kl-ucb++": (naive.KLUCBPlusPlus, {"horizon": HORIZON}),
    "imed": (naive.IMED, {"divergence": "kl"}),
    "dmed": (naive.DMED, {"divergence": "kl"}),
    "ada-ucb": (naive.AdaUCB, {"horizon": HORIZON}),
    "efficient-ucb-v": (naive.EfficientUCBV, {"horizon": HORIZON}),
    "epsilon-greedy": (naive.EpsilonGreedy, {}),
    "thompson": (naive.Thompson, {}),
    "gaussian-thompson": (naive.GaussianThompson, {}),
    "exp-ts": (naive.ExpTS, {}),
    "mots": (naive.MOTS, {"horizon": HORIZON}),
    "boltzmann-gumbel": (naive.BoltzmannGumbel, {}),
    "exp3": (naive.EXP3, {}),
    "exp3 rewards": (naive.EXP3Rewards, {"form": "rewards", "horizon": HORIZON}),
    "exp3-ix": (naive.EXP3IX, {}),
    "exp3++": (naive.EXP3PlusPlus, {}),
    "tsallis-inf": (naive.TsallisIW, {}),
    "tsallis-inf rv": (naive.TsallisRV, {"estimator": "rv"}),
}

BERNOULLI = [0.3, 0.5, 0.6]
#: In [−1, 3], not [0, 1]: (low, high) of each arm.
LOW, HIGH = [-1.0, -0.6, 0.0], [2.0, 2.8, 2.8]
BEFORE, AFTER, CHANGE = [0.2, 0.7, 0.5], [0.8, 0.3, 0.5], 61

ONE = mb.Bernoulli(BERNOULLI), naive.bernoulli(BERNOULLI)
TURNING = (
    mb.Piecewise([mb.Bernoulli(BEFORE), mb.Bernoulli(AFTER)], [CHANGE]),
    naive.piecewise(naive.bernoulli(BEFORE), (CHANGE, naive.bernoulli(AFTER))),
)
WORLDS = {
    "bernoulli": ONE,
    "often 1": (mb.Bernoulli([0.85, 0.95]), naive.bernoulli([0.85, 0.95])),
    "uniform": (
        mb.UniformRewards(LOW, HIGH, rewards=(-1, 3)),
        naive.uniform(LOW, HIGH, rewards=(-1, 3)),
    ),
    "beta": (mb.Beta([2, 4, 3], [3, 3, 1.5]), naive.beta([2, 4, 3], [3, 3, 1.5])),
    "piecewise": TURNING,
    "fixed delay": (mb.Delayed(ONE[0], rounds=8), naive.delayed(ONE[1], 8)),
    "geometric delay": (mb.Delayed(ONE[0], mean=6), naive.delayed_at_random(ONE[1], 6)),
    "batches": (mb.Batched(ONE[0], 9), naive.batched(ONE[1], 9)),
    "late and turning": (mb.Delayed(TURNING[0], mean=6), naive.delayed_at_random(TURNING[1], 6)),
}

#: Those that are tried in every world but the last; all are in those of FULL.
EVERYWHERE = [
    "kl-ms", "kl-ms-kt", "ms", "ucb1", "ucb-v", "moss", "imed", "epsilon-greedy",
    "thompson", "gaussian-thompson", "boltzmann-gumbel", "exp3", "exp3++",
]  # fmt: skip
FULL = ["bernoulli", "uniform"]
BESIDES = [
    ("dmed", "piecewise"),
    ("efficient-ucb-v", "batches"),
    ("exp3-ix", "geometric delay"),
    ("tsallis-inf", "geometric delay"),
    ("kl-ms", "late and turning"),
    ("thompson", "late and turning"),
    ("exp3", "late and turning"),
]
CASES = [
    (name, world)
    for world in WORLDS
    for name in POLICIES
    if (name in EVERYWHERE and world != "late and turning")
    or world in FULL
    or (name, world) in BESIDES
]


def by_engine(name, world, run, **settings):
    """The statistics of one run, each with a number for every trial or call of the engine."""
    slug = name.split()[0]
    environment = WORLDS[world][0]
    policy = mb.policy(
        slug,
        arms=environment.arms,
        rewards=environment.rewards,
        **POLICIES[name][1],
        **settings,
    )
    made = program(policy, environment)
    assert made.path == "engine"
    assert made.exact == POLICIES[name][0].has_law
    starts = range(run * CALLS * TRIALS, (run + 1) * CALLS * TRIALS, TRIALS)
    chunks = [
        made.run(HORIZON, CHECKPOINTS, seed=1, first=first, trials=TRIALS) for first in starts
    ]
    return statistics(
        *(np.concatenate([getattr(c, x) for c in chunks], axis=1) for x in PER_TRIAL),
        np.stack([chunk.pulls for chunk in chunks], axis=1),
    )


PER_TRIAL = ("regret", "rewards", "best")


def by_hand(kind, world, run, instead=None, **settings):
    world = instead or WORLDS[world][1]
    found = naive.simulate(kind, world, HORIZON, CALLS * TRIALS, CHECKPOINTS, run, **settings)
    pulls = found.pulls.reshape(len(CHECKPOINTS), CALLS, TRIALS, -1).sum(axis=2)
    return statistics(*(getattr(found, x) for x in PER_TRIAL), pulls)


def statistics(regret, rewards, best, pulls):
    named = {}
    for c, t in enumerate(CHECKPOINTS):
        named |= {
            f"regret, round {t}": regret[c],
            f"rewards, round {t}": rewards[c],
            f"best, round {t}": best[c],
        }
        named |= {f"pulls of {a}, round {t}": x for a, x in enumerate(pulls[c].T)}
    return named


def score(one, other):
    """|Σ D| / √Σ D²."""
    difference = np.round(one - other, 9)  # what rounding alone makes differ is not random
    size = math.sqrt((difference**2).sum())
    return abs(difference.sum()) / size if size > 0 else 0.0


def disagreements(engine, hand):
    """The statistics beyond the limit in runs 0, 1 and 2, which the two functions make."""
    suspects = None
    for run in range(3):
        one, other = engine(run), hand(run)
        beyond = {name for name in one if score(one[name], other[name]) > LIMIT}
        suspects = beyond if suspects is None else suspects & beyond
        if not suspects:
            break
    return suspects


# --------------------------------------------------------------------------------------------------
# The naive simulations and the comparison themselves


def test_late_rewards_by_hand():
    """In order, two decisions late: the pulls of each arm go on until its first reward is seen.

    Round 1's is seen before round 4, so arm 1 begins there, and arm 2 in round 7. From round 10 on
    all arms have a reward, and KL-MS plays no other than the one that pays 1.
    """
    world = naive.delayed(naive.deterministic([0.0, 1.0, 0.5]), 2)
    found = naive.simulate(naive.KLMS, world, 12, 2, range(1, 13), 0, initial="in-order")
    chosen = np.diff(found.pulls, axis=0, prepend=0).argmax(axis=2).T
    assert chosen.tolist() == 2 * [[0, 0, 0, 1, 1, 1, 2, 2, 2, 1, 1, 1]]
    assert found.regret[-1].tolist() == 2 * [3 * 1.0 + 3 * 0.5]
    assert found.rewards[-1].tolist() == 2 * [6 * 1.0 + 3 * 0.5]
    assert found.best[-1].tolist() == 2 * [1.0]


def test_batches_by_hand():
    """Nothing is seen within a batch: each arm is all that is pulled in one, then the best."""
    world = naive.batched(naive.deterministic([0.2, 1.0]), 4)
    found = naive.simulate(naive.KLMS, world, 10, 1, [4, 8, 10], 0, initial="in-order")
    assert found.pulls[:, 0].tolist() == [[4, 0], [4, 4], [4, 6]]


def test_change_by_hand():
    """The new stage holds from its first round on, in the regret as in the rewards."""
    world = naive.piecewise(naive.deterministic([0.0, 1.0]), (3, naive.deterministic([1.0, 0.5])))
    found = naive.simulate(naive.MOSS, world, 3, 1, [1, 2, 3], 0, initial="in-order")
    assert found.rewards[:, 0].tolist() == [0.0, 1.0, 1.5]
    assert found.regret[:, 0].tolist() == [1.0, 1.0, 1.5]


def test_scores_of_equal_laws_are_small():
    """P(score ≥ 2) is below 2e⁻² ≈ 0.27, and about 0.05 here."""
    rng = np.random.default_rng(0)
    scores = [score(*rng.random((2, 100)) ** 8) for _ in range(1000)]
    assert 0.03 < np.mean(np.array(scores) > 2) < 0.08


# --------------------------------------------------------------------------------------------------
# The engine


@pytest.mark.slow
@pytest.mark.parametrize(("name", "world"), CASES)
def test_engine_agrees(name, world):
    assert not disagreements(
        lambda run: by_engine(name, world, run),
        lambda run: by_hand(POLICIES[name][0], world, run),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "world", "settings"),
    [
        ("kl-ms", "geometric delay", {"initial": "in-order"}),
        ("exp3++", "bernoulli", {"initial": "in-order"}),
        ("kl-ms", "bernoulli", {"floor": 0.1}),
        ("exp3", "batches", {"floor": 0.1}),
        ("thompson", "uniform", {"binarise": 5}),
        ("kl-ms", "beta", {"binarise": 5}),
    ],
)
def test_engine_agrees_in_other_settings(name, world, settings):
    settled = {**settings, "binarise": True} if "binarise" in settings else settings
    assert not disagreements(
        lambda run: by_engine(name, world, run, **settings),
        lambda run: by_hand(POLICIES[name][0], world, run, **settled),
    )


@pytest.mark.slow
@pytest.mark.parametrize("feedback", ["at once", "delay", "batches", "piecewise"])
@pytest.mark.parametrize(
    "name", ["ucb1", "ucb-v", "moss", "kl-ucb++", "imed", "ada-ucb", "efficient-ucb-v"]
)
def test_nothing_is_left_to_chance(name, feedback):
    """Where no reward, tie or first pull is random: the same decision in every round."""
    old, new = [0.31, 0.52, 0.6], [0.71, 0.33, 0.27]
    settled, hand = mb.Deterministic(old), naive.deterministic(old)
    turned = mb.Piecewise([settled, mb.Deterministic(new)], [60])
    environment, world = {
        "at once": (settled, hand),
        "delay": (mb.Delayed(settled, rounds=5), naive.delayed(hand, 5)),
        "batches": (mb.Batched(settled, 7), naive.batched(hand, 7)),
        "piecewise": (turned, naive.piecewise(hand, (60, naive.deterministic(new)))),
    }[feedback]
    kind, parameters = POLICIES[name]
    policy = mb.policy(name, arms=3, initial="in-order", **parameters)
    rounds = range(1, HORIZON + 1)
    engine = program(policy, environment).run(HORIZON, rounds, trials=1)
    found = naive.simulate(kind, world, HORIZON, 1, rounds, 0, initial="in-order")
    assert np.array_equal(engine.pulls, found.pulls[:, 0])
    assert engine.regret == pytest.approx(found.regret, rel=1e-12, abs=1e-12)
    assert engine.rewards == pytest.approx(found.rewards, rel=1e-12)
    assert np.array_equal(engine.best, found.best)


# --------------------------------------------------------------------------------------------------
# What the comparison can see


class WithoutCounts(naive.KLMS):
    """KL-MS that forgets the factor N."""

    def law(self):
        return naive.softmax(-naive.kl(self.mean, self.best))


#: As the piecewise world, five rounds too late.
LATER = naive.piecewise(naive.bernoulli(BEFORE), (CHANGE + 5, naive.bernoulli(AFTER)))

WRONG = [
    ("kl-ms", WithoutCounts, "bernoulli", {}),
    ("kl-ms", naive.KLMSKT, "often 1", {}),
    ("kl-ms", naive.KLMS, "bernoulli", {"floor": 0.1}),
    ("kl-ms", naive.KLMS, "batches", {"instead": naive.batched(ONE[1], 10)}),
    ("kl-ms", naive.KLMS, "fixed delay", {"initial": "in-order"}),
    ("kl-ms", naive.KLMS, "piecewise", {"instead": LATER}),
    ("thompson", naive.Thompson, "uniform", {"binarise": True}),
    ("exp3-ix", naive.EXP3, "bernoulli", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "world", "settings"), WRONG)
def test_what_is_wrong_is_caught(name, kind, world, settings):
    assert disagreements(
        lambda run: by_engine(name, world, run),
        lambda run: by_hand(kind, world, run, **settings),
    )
