"""The engine against the online policies, and against itself however trials are grouped."""

import math
from typing import Any

import numpy as np
import pytest

import maillard as mb
from histories import needed
from maillard import compiled
from maillard.compiled import build
from maillard.environments import Batched, Bernoulli, Delayed, Deterministic, Piecewise
from maillard.policies.empirical import EmpiricalLaws
from maillard.policies.families import Perturbed
from maillard.simulation.engine import LANES, NotSimulatedError, Program, program
from maillard.simulation.online import OnlineProgram
from maillard.streams import WORDS, betas, gamma, normal

CATALOGUE = mb.catalogue()
MEANS = [0.3, 0.55, 0.5]
WORLD = Bernoulli(MEANS)
#: Choices of the parameters beyond the defaults: each takes another way through the engine.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in CATALOGUE),
    ("kl-ms", {"booster": 2.0}),
    ("kl-ms", {"floor": 0.1}),
    ("kl-ms", {"initial": "in-order"}),
    ("ms+", {"C": 0.5, "D": 0.3}),
    ("tsallis-inf", {"estimator": "rv"}),
    ("exp3++", {"version": "2014"}),
    ("exp3", {"form": "rewards", "gamma": 0.2}),
    ("imed", {"divergence": "kl"}),
    ("dmed", {"divergence": "kl", "genuine": False}),
    ("kl-ucb", {"f": "log-t", "c": 3.0}),
    ("kl-ucb-switch", {"horizon": 200}),
    ("epsilon-greedy", {"c": 1.0, "d": 0.3}),
    ("exp-kl-ms", {"family": "bernoulli"}),
]
variants = pytest.mark.parametrize(
    ("name", "given"), VARIANTS, ids=[f"{name}{given or ''}" for name, given in VARIANTS]
)

# Machine code takes a second a policy to make, plain Python minutes to run.
pytestmark = pytest.mark.slow


def make(name: str, given: dict[str, Any], arms: int = 3, **more: Any) -> mb.Policy:
    if name == "exp-kl-ms":
        given = {"family": "bernoulli", **given}
    return mb.policy(name, arms, **{**needed(CATALOGUE[name], arms), **given, **more})


def near_tie(policy: Any) -> bool:
    """Whether two arms have the largest index, but for rounding."""
    if not policy.pulls.all():
        return False
    first, second = sorted(policy.indices())[:-3:-1]
    return bool(0.0 < first - second < 1e-12)


@variants
@pytest.mark.parametrize("world", [WORLD, Delayed(WORLD, rounds=3)], ids=["at once", "late"])
def test_a_recorded_trial_replays_online(name: str, given: dict[str, Any], world: Any) -> None:
    """The online policy, fed with a simulated trial, has the probabilities that were recorded."""
    ready = program(make(name, given), world)
    late = world.delay is not None
    if late and given.get("estimator") == "rv":
        assert isinstance(ready, OnlineProgram)
        return
    assert isinstance(ready, Program)
    assert ready.path == "engine"
    rounds = 40
    record = ready.record(rounds, seed=5, first=63, trials=2)
    for trial in range(2):
        policy = make(name, given)
        waiting: list[tuple[int, Any, float]] = []
        for step in range(rounds):
            p = policy.probabilities()
            arm, propensity = record.arm[trial, step], record.propensity[trial, step]
            # K_inf of laws on {0, 1} is kl, by another road; draws are integrated, not weighed.
            if isinstance(policy, (Perturbed, EmpiricalLaws)):
                if name in ("imed", "empirical-kl-ucb", "kl-ucb-switch") and near_tie(policy):
                    break  # ln 3 by two roads: which is the larger is for the last digit to say
                assert propensity == pytest.approx(p[arm], rel=1e-11)
            elif policy.floor > 0.0 or policy._mixture() is not None:
                assert propensity == pytest.approx(p[arm], rel=1e-15)  # sums to 1 in one ulp
            else:
                assert propensity == p[arm]
            assert record.log_propensity[trial, step] == pytest.approx(
                math.log(propensity), rel=1e-13, abs=1e-15
            )
            note = policy._note(policy.arms, p) if policy._notes else ()
            decision = mb.Decision(int(arm), propensity, math.log(propensity), policy.round, note)
            waiting.append((step + (3 if late else 0), decision, record.reward[trial, step]))
            while waiting and waiting[0][0] == step:
                policy.update(*waiting.pop(0)[1:])


@variants
def test_grouping_changes_nothing(name: str, given: dict[str, Any]) -> None:
    """Trial i is the same trial, to the last bit, whichever others run beside it."""
    ready = program(make(name, given), WORLD)
    marks, rounds, trials = [1, 10, 50], 50, LANES + 7
    if name == "top-two-thompson":
        marks, rounds = [1, 6, 12], 12
    whole = ready.run(rounds, marks, seed=1, trials=trials)
    parts = [ready.run(rounds, marks, seed=1, first=f, trials=n) for f, n in ((0, 5), (5, 66))]
    for field in ("regret", "rewards", "best"):
        together = np.hstack([getattr(part, field) for part in parts])
        np.testing.assert_array_equal(together, getattr(whole, field))
    np.testing.assert_array_equal(sum(part.pulls for part in parts), whole.pulls)
    np.testing.assert_array_equal(whole.pulls.sum(axis=1), np.array(marks) * trials)
    other = ready.run(rounds, marks, seed=2, trials=trials)
    assert not np.array_equal(other.rewards, whole.rewards)


@variants
def test_run_and_record_tell_of_the_same_trials(name: str, given: dict[str, Any]) -> None:
    ready = program(make(name, given), WORLD)
    if not ready.exact:
        return  # a log's choices are made from the probabilities, a run's by draws
    record = ready.record(20, seed=3, trials=9)
    chunk = ready.run(20, [20], seed=3, trials=9)
    np.testing.assert_array_equal(np.bincount(record.arm.ravel(), minlength=3), chunk.pulls[0])
    np.testing.assert_allclose(record.reward.sum(axis=1), chunk.rewards[0], rtol=1e-12)
    gaps = WORLD.gaps[record.arm].sum(axis=1)
    np.testing.assert_allclose(gaps, chunk.regret[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [n for n, c in CATALOGUE.items() if issubclass(c, Perturbed)])
def test_draws_agree_with_their_probabilities(name: str) -> None:
    """Runs by draws and records by quadrature pull arms equally often in the mean.

    10 policies × 3 arms, each within 6 standard errors: false alarms once in 1.7e7 runs.
    """
    ready = program(make(name, {}), WORLD)
    rounds, trials = (12, 256) if name == "top-two-thompson" else (25, 1024)
    record = ready.record(rounds, seed=8, trials=trials)
    counts = np.stack([(record.arm == a).sum(axis=1) for a in range(3)])
    many = 16 * trials if name != "top-two-thompson" else trials
    chunk = ready.run(rounds, [rounds], seed=9, trials=many)
    spread = counts.std(axis=1, ddof=1) * (1.0 / trials + 1.0 / many) ** 0.5
    difference = counts.mean(axis=1) - chunk.pulls[0] / many
    assert np.all(abs(difference) <= 6.0 * spread + 1e-12)


@pytest.mark.parametrize("name", ["kl-ms", "exp3-ix", "ucb-v", "thompson", "dmed"])
def test_rewards_in_time_need_no_calendar(name: str) -> None:
    """No delay, a delay of 0 and batches of 1 are one world; the calendar must not show."""
    worlds = [WORLD, Delayed(WORLD, rounds=0), Batched(WORLD, size=1)]
    streams_of = [program(make(name, {}), world) for world in worlds]
    chunks = []
    for ready in streams_of:
        assert isinstance(ready, Program)
        ready._streams = lambda seed, paired: (np.uint64(1), np.uint64(2))  # type: ignore[method-assign]
        chunks.append(ready.run(60, [7, 60], trials=70))
    for chunk in chunks[1:]:
        np.testing.assert_array_equal(chunk.pulls, chunks[0].pulls)
        np.testing.assert_array_equal(chunk.rewards, chunks[0].rewards)
        np.testing.assert_allclose(chunk.best, chunks[0].best, rtol=1e-13)


@pytest.mark.parametrize(
    "world",
    [
        Delayed(WORLD, rounds=5),
        Delayed(WORLD, mean=4.0),
        Batched(WORLD, size=7),
        Piecewise([WORLD, Bernoulli([0.9, 0.1, 0.2])], changes=[11]),
        Deterministic(MEANS),
    ],
    ids=lambda world: world.slug,
)
@pytest.mark.parametrize("name", ["kl-ms-kt", "exp3-ix"])
def test_the_online_path_is_the_same_experiment(name: str, world: Any) -> None:
    """Mean regret, reward and probability of the best arm of the two paths, within 6 errors."""
    policy = make(name, {})
    fast, slow = Program(policy, world), OnlineProgram(policy, world, "compared")
    n, rounds = 192, 30
    a, b = fast.run(rounds, [rounds], seed=1, trials=4096), slow.run(rounds, [rounds], trials=n)
    for field in ("regret", "rewards", "best"):
        x, y = getattr(a, field)[0], getattr(b, field)[0]
        error = math.hypot(x.std() / len(x) ** 0.5, x.std() / n**0.5)
        assert abs(x.mean() - y.mean()) <= 6.0 * error + 1e-12
    assert b.pulls.sum() == n * rounds


def test_paired_policies_meet_the_same_luck() -> None:
    always = [make("fixed", {"weights": w}) for w in ([1.0, 0.0, 0.0], [1.0, 1e-12, 0.0])]
    alone = [program(p, WORLD).run(50, [50], trials=8).rewards for p in always]
    paired = [program(p, WORLD).run(50, [50], trials=8, paired=True).rewards for p in always]
    assert not np.array_equal(*alone)
    np.testing.assert_array_equal(*paired)


def test_equal_stages_are_no_change() -> None:
    still, moving = WORLD, Piecewise([WORLD, WORLD], changes=[20])
    chunks = []
    for world in (still, moving):
        ready = program(make("kl-ms", {}), world)
        ready._streams = lambda seed, paired: (np.uint64(1), np.uint64(2))  # type: ignore[method-assign]
        chunks.append(ready.run(40, [10, 40], trials=65))
    np.testing.assert_array_equal(chunks[0].pulls, chunks[1].pulls)
    np.testing.assert_allclose(chunks[0].regret, chunks[1].regret, rtol=1e-12)


def test_misuse_is_one_line() -> None:
    policy = make("kl-ms", {})
    for build_it, words in [
        (lambda: program(make("kl-ms", {}, arms=2), WORLD), "2 arms"),
        (lambda: program(make("kl-ms", {}, rewards=(0.2, 1.0)), WORLD), "pays in"),
        (lambda: program(policy, WORLD).run(10, [11]), "checkpoints"),
        (lambda: program(policy, WORLD).run(10, [5, 5]), "checkpoints"),
        (lambda: program(policy, WORLD).run(0, [1]), "one round"),
        (lambda: program(policy, Delayed(WORLD, mean=1e5)).run(10**6, [10]), "delays"),
    ]:
        with pytest.raises(ValueError, match=words) as error:
            build_it()
        assert "\n" not in str(error.value)
    assert issubclass(NotSimulatedError, ValueError)
    seen = make("kl-ms", {})
    seen.update(0, 1.0)
    with pytest.raises(ValueError, match="seen nothing"):
        program(seen, WORLD)


# --------------------------------------------------------------------------------------------------
# Variates: 200,000 of each against their distribution function (Kolmogorov-Smirnov at 1e-9)


def many(draw: Any, signature: str, *arguments: Any, count: int = 3125) -> Any:
    """`count` blocks of LANES variates."""
    rng = np.random.default_rng(4).integers(0, 2**63, WORDS).astype(np.uint64)
    out = np.empty((count, LANES))
    build(draw, signature)(rng, *arguments, out)
    return out.ravel()


def fill_normal(rng: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for lane in range(LANES):
            out[i, lane] = normal(rng, lane)


def fill_gamma(rng: Any, shape: float, out: Any) -> None:
    for i in range(out.shape[0]):
        for lane in range(LANES):
            out[i, lane] = gamma(rng, lane, shape)


def fill_beta(rng: Any, a: float, b: float, out: Any) -> None:
    work = np.empty((7, LANES))
    for i in range(out.shape[0]):
        for lane in range(LANES):
            work[0, lane], work[1, lane] = a, b
        betas(rng, work[0], work[1], out[i], work[2], work[3], work[4], work[5], work[6])


FALSE_ALARM = 1e-9


def check_law(sample: Any, cumulative: Any) -> None:
    from scipy import stats

    assert stats.kstest(sample, cumulative).pvalue > FALSE_ALARM


def test_normal_variates() -> None:
    from scipy import stats

    sample = many(fill_normal, "void(uint64[::1], float64[:, ::1])")
    check_law(sample, stats.norm.cdf)
    assert abs((sample**4).mean() - 3.0) < 6.0 * (96.0 / sample.size) ** 0.5


@pytest.mark.parametrize("shape", [0.5, 1.0, 1.5, 3.7, 250.0, 1e6])
def test_gamma_variates(shape: float) -> None:
    from scipy import stats

    sample = many(fill_gamma, "void(uint64[::1], float64, float64[:, ::1])", shape)
    check_law(sample, stats.gamma(shape).cdf)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        *((0.5, 0.5), (0.5, 30.0), (1.0, 1.0), (1.0, 1.5), (1.5, 0.5), (1.5, 2.5), (0.2, 1.5)),
        *((4.5, 400.5), (1e5, 3e4), (0.01, 0.2)),
    ],
)
def test_beta_variates(a: float, b: float) -> None:
    from scipy import stats

    sample = many(fill_beta, "void(uint64[::1], float64, float64, float64[:, ::1])", a, b)
    check_law(sample, stats.beta(a, b).cdf)


def fill_betas(rng: Any, a: Any, b: Any, out: Any) -> None:
    work = np.empty((5, LANES))
    betas(rng, a, b, out, work[0], work[1], work[2], work[3], work[4])


def test_a_variate_is_the_same_whatever_the_others_are() -> None:
    """Rejections, and shapes with a way of their own, leave the other lanes alone."""
    fill = build(fill_betas, "void(uint64[::1], float64[::1], float64[::1], float64[::1])")
    numbers = np.random.default_rng(5)
    shapes = np.array([0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 7.5, 300.0])
    for _ in range(2 if compiled.disabled() else 20):
        start = numbers.integers(0, 2**63, WORDS).astype(np.uint64)
        a, b = numbers.choice(shapes, (2, LANES))
        mixed, after, alone = np.empty(LANES), start.copy(), np.empty(LANES)
        fill(after, a, b, mixed)
        for lane in range(LANES):
            rng = start.copy()
            fill(rng, np.full(LANES, a[lane]), np.full(LANES, b[lane]), alone)
            assert alone[lane] == mixed[lane]
            assert np.array_equal(rng[lane::LANES], after[lane::LANES])


def test_plain_python_takes_the_same_steps() -> None:
    """The engine's source, uncompiled, gives the compiled engine's bits."""
    if compiled.disabled():
        pytest.skip("nothing is compiled here")
    ready = program(make("kl-ms", {}), WORLD)
    compiled_chunk = ready.run(6, [3, 6], seed=2, trials=3)
    import os
    import subprocess
    import sys

    code = (
        "import maillard as mb\n"
        "from maillard.environments import Bernoulli\n"
        "from maillard.simulation.engine import program\n"
        f"c = program(mb.policy('kl-ms', 3), Bernoulli({MEANS})).run(6, [3, 6], seed=2, trials=3)\n"
        "print([x.hex() for x in [*c.regret.ravel(), *c.rewards.ravel(), *c.best.ravel()]])\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    arrays = (compiled_chunk.regret, compiled_chunk.rewards, compiled_chunk.best)
    assert eval(done.stdout) == [float(x).hex() for array in arrays for x in array.ravel()]


@pytest.mark.parametrize(
    "world",
    [
        Bernoulli([0.3, 0.7]),
        Batched(mb.Beta([0.4, 0.6], [2.0, 3.0]), size=7),
        Delayed(Bernoulli([0.3, 0.7]), rounds=500),  # nothing is ever seen
    ],
    ids=["at once", "batches", "too late"],
)
@pytest.mark.parametrize("path", [Program, OnlineProgram])
def test_sums_are_those_of_the_recorded_decisions(world: Any, path: Any) -> None:
    policy = mb.policy("kl-ms-kt", 2)
    ready = path(policy, world, *(["asked for"] if path is OnlineProgram else []))
    rounds = 60
    trials = 70 if path is Program else 3
    record = ready.record(rounds, seed=2, first=5, trials=trials)
    found = ready.sums(rounds, seed=2, first=5, trials=trials)
    for trial in range(trials):
        for arm in range(2):
            rewards = record.reward[trial][record.arm[trial] == arm]
            direct = [len(rewards), rewards.sum(), (rewards**2).sum()]
            assert found[trial, arm] == pytest.approx(direct, rel=1e-14)
