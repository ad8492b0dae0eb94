"""The bootstrap through the policy: against enumeration, slow arithmetic, and its own promise."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import maillard as mb
from maillard.evaluation import policy_bootstrap
from maillard.evaluation.arrays import ArrayLog
from maillard.evaluation.policy_bootstrap import laws_of
from maillard.evaluation.refit import Experiment, Inversion, Laws, Pool, experiment_of, world_of

KT = {"policy": "kl-ms-kt", "rewards": [0.0, 1.0], "initial": "shuffled", "floor": 0.0}


def log_of(
    arm: Any, reward: Any, policy: str = "uniform", rewards: tuple[float, float] = (0.0, 1.0)
) -> ArrayLog:
    """A log whose metadata name its policy; the propensities play no part here."""
    log = ArrayLog(2, arm, np.full(len(arm), 0.5), reward, rewards=rewards)
    log.metadata |= {"policy": policy, "horizon": len(arm)}
    return log


def ends(log: Any, target: Any = "uniform", **options: Any) -> tuple[float, float]:
    found = mb.evaluate(log, target, estimators="dm", intervals="policy-bootstrap", **options)
    return found.best.low, found.best.high


# --------------------------------------------------------------------------------------------------
# Laws


def test_tilted_coins_are_all_coins() -> None:
    laws = Laws.of_coins(np.array([9.0, 0.0, 4.0]), np.array([2.0, 0.0, 4.0]))
    means, variances = laws.moments(laws.centre)
    np.testing.assert_allclose(means, [0.25, 0.5, 0.9], rtol=1e-14)
    np.testing.assert_allclose(variances, means * (1 - means), rtol=1e-13)
    tilted = laws.moments(laws.centre + np.array([1.0, -2.0, 30.0]))[0]
    odds = np.array([0.25 / 0.75, 1.0, 9.0]) * np.exp([1.0, -2.0, 30.0])
    np.testing.assert_allclose(tilted, odds / (1 + odds), rtol=1e-13)


def test_laws_of_values_keep_means_and_variances() -> None:
    """One more reward, half at each end; within a part of the range only two moments are kept."""
    rng = np.random.default_rng(0)
    rewards = [rng.beta(2, 5, 300), np.append(rng.beta(9, 1, 40), [0.0, 1.0, 1.0])]
    sums = np.zeros((3, 2, 18))
    for a, x in enumerate(rewards):
        part = np.where(x == 0, 0, np.where(x == 1, 17, 1 + (16 * x).astype(int)))
        for power in range(3):
            np.add.at(sums[power, a], part, x**power)
    laws = laws_of(sums)
    assert not laws.binary
    means, variances = laws.moments(laws.centre)
    for a, x in enumerate(rewards):
        weights = np.append(np.ones(len(x)), [0.5, 0.5]) / (len(x) + 1)
        values = np.append(x, [0.0, 1.0])
        mean = weights @ values
        assert means[a] == pytest.approx(mean, rel=1e-12)
        assert variances[a] == pytest.approx(weights @ (values - mean) ** 2, rel=1e-10)
    # Its cumulant is the logarithm of Σ weight e^{θx}, and its derivative the mean.
    tilt, step = np.array([3.0, -8.0]), 1e-5
    direct = [
        math.log(sum(w * math.exp(t * x) for w, x in zip(np.exp(base), values)))
        for t, base, values in zip(tilt, laws.log_base, laws.values)
    ]
    np.testing.assert_allclose(laws.cumulant(tilt), direct, rtol=1e-12)
    slope = (laws.cumulant(tilt + step) - laws.cumulant(tilt - step)) / (2 * step)
    np.testing.assert_allclose(laws.moments(tilt)[0], slope, rtol=1e-8)


def test_tilts_are_the_nearest_laws_of_their_value() -> None:
    """They minimise Σ (N_a + 1) KL(P_a ‖ centre) subject to Σ π(a) μ_a = v."""
    pulls, totals, weights = np.array([5.0, 30.0]), np.array([2.0, 20.0]), np.array([0.7, 0.3])
    laws = Laws.of_coins(pulls, totals)
    search = Inversion(_nothing(2), laws, weights, pulls, totals, totals, 64)
    centre = laws.moments(laws.centre)[0]

    def divergence(first: float, value: float) -> float:
        means = np.array([first, (value - 0.7 * first) / 0.3])
        each = means * np.log(means / centre) + (1 - means) * np.log((1 - means) / (1 - centre))
        return float((pulls + 1) @ each)

    for z in (-1.5, 0.7, 2.5):
        means, value = laws.moments(search.tilt(z))[0], search.value(z)
        low, high = max(0.0, (value - 0.3) / 0.7), min(1.0, value / 0.7)
        found = optimize.minimize_scalar(
            lambda first, value=value: divergence(first, value),
            bounds=(low + 1e-9, high - 1e-9), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        assert means[0] == pytest.approx(found.x, abs=1e-6)


def _nothing(arms: int) -> Pool:
    return Pool(Experiment(KT, 10), (0.0, 1.0), arms, 0)


def test_worlds_pay_by_the_tilted_laws_in_the_units_of_the_log() -> None:
    values, counts = np.array([[0.25, 0.5], [0.1, 0.9]]), np.array([[3.0, 1.0], [0.0, 6.0]])
    laws = Laws.of_values(values, counts)
    tilt = np.array([1.0, -0.5])
    world = world_of(laws, tilt, (-2.0, 6.0), ("fixed", 3))
    means, variances = laws.moments(tilt)
    np.testing.assert_allclose(world.means, -2.0 + 8.0 * means, rtol=1e-12)
    np.testing.assert_allclose(world.variances, 64.0 * variances, rtol=1e-10)
    assert world.rewards == (-2.0, 6.0)
    assert world.delay == ("fixed", 3)
    assert world_of(laws, tilt, (0.0, 1.0), ("batch", 5.0)).delay == ("batch", 5)
    assert world_of(laws, tilt, (0.0, 1.0), ("geometric", 2.5)).delay == ("geometric", 2.5)
    coins = Laws.of_coins(np.array([3.0, 9.0]), np.array([1.0, 3.0]))
    assert world_of(coins, coins.centre, (0.0, 1.0), None).slug == "bernoulli"
    shifted = world_of(coins, coins.centre, (-1.0, 1.0), None)
    assert shifted.binary
    np.testing.assert_allclose(shifted.means, [-0.25, -0.3], atol=1e-14)


# --------------------------------------------------------------------------------------------------
# Reweighted experiments


def enumerated(rounds: int, means: tuple[float, float]) -> dict[tuple[int, ...], float]:
    """P(N_0, S_0, N_1, S_1) of KT-smoothed KL-MS, by every course of so many rounds."""
    law: dict[tuple[int, ...], float] = {(0, 0, 0, 0): 1.0}
    for _ in range(rounds):
        after: dict[tuple[int, ...], float] = {}
        for (n0, s0, n1, s1), p in law.items():
            if not n0 or not n1:
                chance = [0.5, 0.5] if n0 == n1 else [float(not n0), float(not n1)]
            else:
                m = np.array([(s0 + 0.5) / (n0 + 1), (s1 + 0.5) / (n1 + 1)])
                kl = m * np.log(m / m.max()) + (1 - m) * np.log((1 - m) / (1 - m.max()))
                w = np.exp(-np.array([n0, n1]) * kl)
                chance = (w / w.sum()).tolist()
            for arm, x in itertools.product((0, 1), (0, 1)):
                q = p * chance[arm] * (means[arm] if x else 1.0 - means[arm])
                key = (n0 + (arm == 0), s0 + x * (arm == 0), n1 + (arm == 1), s1 + x * (arm == 1))
                after[key] = after.get(key, 0.0) + q
        law = after
    return law


@pytest.mark.slow
def test_reweighted_experiments_are_those_of_another_law() -> None:
    """Simulated under two laws, asked about a third: probabilities of what the arms come to.

    The standard errors follow from the weights; 1e-6 over the 12 events is 5.3 of them.
    """
    rounds, count = 9, 20_000
    laws = Laws.of_coins(np.array([4.0, 4.0]), np.array([1.0, 3.0]))
    pool = Pool(Experiment(KT, rounds), (0.0, 1.0), 2, seed=7)
    pool.add(laws, np.array([-0.4, 0.4]), count)
    pool.add(laws, np.array([0.5, -0.9]), count)
    assert np.all(pool.pulls.sum(axis=1) == rounds)
    asked = np.array([0.1, -0.3])
    exact = enumerated(rounds, tuple((1 / (1 + np.exp(-asked))).tolist()))
    assert sum(exact.values()) == pytest.approx(1.0, abs=1e-12)
    weights = pool.weights(laws, asked)
    assert weights.sum() == pytest.approx(1.0)
    assert 0.5 * len(pool) < pool.size(laws, asked) <= len(pool)
    for n0 in range(1, 9):
        seen = pool.pulls[:, 0] == n0
        p = sum(q for key, q in exact.items() if key[0] == n0)
        error = math.sqrt((weights**2 * (seen - p) ** 2).sum())
        assert abs(weights[seen].sum() - p) < 5.3 * error
    for s1 in range(4):
        seen = pool.totals[:, 1] == s1
        p = sum(q for key, q in exact.items() if key[3] == s1)
        error = math.sqrt((weights**2 * (seen - p) ** 2).sum())
        assert abs(weights[seen].sum() - p) < 5.3 * error
    # Far from all that was simulated it says that it knows little.
    assert pool.size(laws, np.array([6.0, -6.0])) < 0.02 * len(pool)


@pytest.mark.slow
def test_a_pool_can_use_what_another_has_simulated() -> None:
    laws = Laws.of_coins(np.array([4.0, 4.0]), np.array([1.0, 3.0]))
    first, second = np.array([0.3, 0.3]), np.array([-0.2, 0.1])
    whole = Pool(Experiment(KT, 20), (0.0, 1.0), 2, seed=1)
    whole.add(laws, first, 64)
    whole.add(laws, second, 100)  # rounded up
    assert [len(block.pulls) for block in whole.blocks] == [64, 128]
    other = Pool(Experiment(KT, 20), (0.0, 1.0), 2, seed=1)
    other.use(whole.blocks[1:])
    assert len(other) == 128
    np.testing.assert_array_equal(other.totals, whole.totals[64:])
    np.testing.assert_allclose(other.weights(laws, second), 1 / 128)
    other.use([])
    assert len(other) == 0
    assert other.size(laws, second) == 0.0


# --------------------------------------------------------------------------------------------------
# The interval


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3, 20])
def test_of_one_arm_in_a_fixed_design_it_is_clopper_and_pearsons(n: int) -> None:
    """Each arm is played n times whatever happens: an exact test of a coin, inverted."""
    for s in {0, 1, n // 2, n}:
        laws = Laws.of_coins(np.array([n * 1.0, 1.0]), np.array([s * 1.0, 0.0]))
        pool = _Fixed(n)
        search = Inversion(
            pool, laws, np.array([1.0, 0.0]), np.array([n * 1.0, 1.0]), np.array([s * 1.0, 0.0]),
            np.array([s * 1.0, 0.0]), 20_000,
        )  # fmt: skip
        low, high = (search.end(side, 0.025) for side in (-1.0, 1.0))
        # 20,000 simulations: a standard error of 0.0011, which counts against it, and as much noise
        # of 0.025; ends are where the tail is somewhere between these.
        wider = stats.binomtest(s, n).proportion_ci(0.95 + 2 * 0.0075, method="exact")
        narrower = stats.binomtest(s, n).proportion_ci(0.95 - 2 * 0.0055, method="exact")
        assert wider.low - 1e-4 <= low <= narrower.low + 1e-4
        assert narrower.high - 1e-4 <= high <= wider.high + 1e-4


class _Fixed(Pool):
    """Experiments in which arm 0 is played n times and arm 1 once."""

    def __init__(self, n: int) -> None:
        super().__init__(Experiment(KT, n + 1), (0.0, 1.0), 2, seed=0)
        self.n, self.rng = n, np.random.default_rng(n)

    def _simulated(self, laws: Laws, tilt: Any, count: int) -> Any:
        means = laws.moments(tilt)[0]
        pulls = np.tile([self.n * 1.0, 1.0], (count, 1))
        totals = self.rng.binomial(pulls.astype(int), means).astype(float)
        return pulls, totals, totals


@pytest.mark.slow
def test_a_uniform_log_has_the_classical_interval() -> None:
    """Many independent rows: within noise that of the normal law, for coins and other rewards."""
    rng = np.random.default_rng(3)
    arm = rng.integers(0, 2, 3000)
    for reward in (
        (rng.random(3000) < np.array([0.3, 0.6])[arm]).astype(float),
        rng.beta(np.array([3.0, 6.0])[arm], 4.0),
    ):
        log = log_of(arm, reward)
        low, high = ends(log, replicates=4000)
        normal = mb.evaluate(log, estimators="dm", intervals="normal").best
        width = normal.high - normal.low
        assert high - low == pytest.approx(1.03 * width, rel=0.06)
        assert high + low == pytest.approx(normal.high + normal.low, abs=0.08 * width)
        difference = ends(log, 1, versus=0, replicates=4000)
        normal = mb.evaluate(log, 1, versus=0, estimators="dm", intervals="normal").best
        width = normal.high - normal.low
        assert difference[1] - difference[0] == pytest.approx(1.03 * width, rel=0.06)
        assert sum(difference) == pytest.approx(normal.high + normal.low, abs=0.08 * width)


@pytest.mark.slow
def test_the_units_of_the_rewards_do_not_matter() -> None:
    rng = np.random.default_rng(4)
    arm, reward = rng.integers(0, 2, 200), rng.beta(2.0, 3.0, 200)
    one = ends(log_of(arm, reward), replicates=2000)
    other = ends(log_of(arm, 10.0 - 4.0 * reward, rewards=(6.0, 10.0)), replicates=2000)
    width = one[1] - one[0]
    assert 10.0 - 4.0 * one[0] == pytest.approx(other[1], abs=0.4 * width)
    assert 10.0 - 4.0 * one[1] == pytest.approx(other[0], abs=0.4 * width)


@pytest.mark.slow
def test_equal_seeds_give_equal_intervals() -> None:
    log = mb.collect("kl-ms", mb.Bernoulli([0.6, 0.8]), horizon=200, seed=1)
    assert ends(log) == ends(log)
    assert ends(log) != ends(log, seed=1)
    # Nothing depends on how the rows come.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        assert ends(log, executor=pool, pieces=3) == ends(log)


@pytest.mark.slow
def test_extreme_logs_have_ends_at_the_ends_of_the_range() -> None:
    arm = np.arange(40) % 2
    for reward, low, high in ((0.0, 0.0, 0.2), (1.0, 0.8, 1.0)):
        found = ends(log_of(arm, np.full(40, reward)))
        assert low <= found[0] <= found[1] <= high
        assert low in found or high in found
    # One pull of an arm tells little of its mean.
    found = ends(log_of(np.array([0] + [1] * 30), np.array([1.0] + [0.0, 1.0] * 15)), 0)
    assert found[0] < 0.25
    assert found[1] > 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        mb.Delayed(mb.Bernoulli([0.4, 0.6]), rounds=20),
        mb.Delayed(mb.Bernoulli([0.4, 0.6]), mean=5.0),
        mb.Batched(mb.Beta([2.0, 3.0], [2.0, 2.0]), size=10),
    ],
    ids=["fixed", "geometric", "batches"],
)
def test_delays_are_simulated_too(world: Any) -> None:
    log = mb.collect("thompson", world, horizon=120, runs=2, seed=3)
    found = experiment_of(log.metadata, log.rows)
    assert isinstance(found, Experiment)
    assert (found.rounds, found.runs, found.delay) == (120, 2, tuple(world.delay))
    low, high = ends(log, replicates=300)
    truth = float(world.means.mean())
    assert 0.0 < low < truth < high < 1.0


@pytest.mark.slow
def test_several_runs_are_simulated_as_several() -> None:
    """Sixteen runs of 50 rounds are another experiment than one of 800, and tell more of arm 0."""
    log = mb.collect("kl-ms", mb.Bernoulli([0.3, 0.8]), horizon=50, runs=16, seed=0)
    pool = Pool(Experiment(KT, 50, 16), (0.0, 1.0), 2, 0)
    laws = Laws.of_coins(np.array([9.0, 9.0]), np.array([3.0, 6.0]))
    pool.add(laws, laws.centre, 64)
    assert np.all(pool.pulls.sum(axis=1) == 800)
    assert pool.pulls.min() >= 16
    low, high = ends(log, replicates=300)
    assert 0.4 < low < high < 0.7
    one = ends(log, run=3, replicates=300)
    assert one[1] - one[0] > 1.5 * (high - low)


def test_what_stands_in_the_way() -> None:
    rng = np.random.default_rng(0)
    arm, reward = rng.integers(0, 2, 30), rng.integers(0, 2, 30)
    bare = ArrayLog(2, arm, np.full(30, 0.5), reward)
    named = log_of(arm, reward)
    asked: dict[str, Any] = {"estimators": "dm", "intervals": "policy-bootstrap"}
    with pytest.raises(ValueError, match="needs a log whose metadata name the policy"):
        mb.evaluate(bare, **asked)
    with pytest.raises(ValueError, match="is for dm: arm means"):
        mb.evaluate(named, estimators="snipw", intervals="policy-bootstrap")
    with pytest.raises(ValueError, match="target that is the same in every row"):
        mb.evaluate(named, "kl-ms", **asked)
    strange = log_of(arm, reward, policy="oracle")
    with pytest.raises(ValueError, match="cannot simulate the policy that the log names, 'oracle'"):
        mb.evaluate(strange, **asked)
    uneven = log_of(arm, reward)
    uneven.metadata["horizon"] = 20
    with pytest.raises(ValueError, match="needs runs of 20 rounds"):
        mb.evaluate(uneven, **asked)
    unbounded = log_of(arm, reward, rewards=(0.0, math.inf))
    with pytest.raises(ValueError, match="needs the range of the rewards"):
        mb.evaluate(unbounded, **asked)


def test_what_takes_long_is_done_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    log = log_of(rng.integers(0, 2, 60), rng.integers(0, 2, 60), policy="kl-ms")
    monkeypatch.setattr(policy_bootstrap, "QUICK", 100)
    found = mb.evaluate(log)
    assert found.best.interval != "policy-bootstrap"
    (note,) = (note for note in found.notes if note.startswith("policy-bootstrap simulates"))
    assert "60 rows of 2 arms: ask for it by name" in note
    monkeypatch.setattr(policy_bootstrap, "disabled", lambda: False)
    monkeypatch.setattr(policy_bootstrap, "QUICK", 1_000)
    slow = mb.evaluate(log_of(log._arm, log._reward * 0.5, policy="npts"))
    (one,) = (e for e in slow.estimates if e.interval == "policy-bootstrap")
    assert "simulates npts step by step, which takes long: ask for it by name" in one.verdict
    assert slow.best is not one


def test_a_log_cut_short_is_an_experiment_of_its_rows() -> None:
    metadata = {"policy": "kl-ms", "parameters": {"booster": 2.0}, "horizon": 100, "floor": 0.1}
    found = experiment_of(metadata, 60)
    assert found == Experiment({"policy": "kl-ms", "booster": 2.0, "floor": 0.1}, 60, 1, None)
    found = experiment_of(metadata | {"binarise": True, "delay": ["batch", 5]}, 300)
    assert isinstance(found, Experiment)
    assert (found.rounds, found.runs, found.delay) == (100, 3, ("batch", 5))
    assert found.policy["binarise"] == 0
    assert "not so many times as long" in str(experiment_of(metadata, 250))
    one = experiment_of(metadata, 100, whole=False)
    assert isinstance(one, Experiment)
    assert (one.rounds, one.runs) == (100, 1)


@pytest.mark.slow
def test_it_covers_on_logs_of_a_learning_policy() -> None:
    """200 short logs of KL-MS at 90 %, where arm means are biased; misses beyond 1e-6 would show.

    The first arm of each is often given up early: a t interval misses it more often.
    """
    logs, means = 200, (0.6, 0.7)
    log = mb.collect("kl-ms", mb.Bernoulli(means), horizon=60, runs=logs, seed=11)
    misses: dict[Any, int] = dict.fromkeys(("uniform", 0, 1), 0)
    for run in range(logs):
        for target in misses:
            low, high = ends(log, target, run=run, level=0.9, replicates=250, seed=run)
            truth = means[target] if isinstance(target, int) else sum(means) / 2
            misses[target] += not low <= truth <= high
    most = int(stats.binom.isf(1e-6 / 3, logs, 0.1))
    assert max(misses.values()) <= most
    assert min(misses.values()) >= 2  # and not because it is too wide


def test_fractions_of_a_share_are_exact() -> None:
    """The enumeration that is used above is itself right: two rounds by hand."""
    law = enumerated(2, (0.5, 0.25))
    assert law[1, 1, 1, 0] == pytest.approx(float(Fraction(1, 2) * Fraction(3, 4)))
    assert {key[0] for key, p in law.items() if p > 0.0} == {1}
