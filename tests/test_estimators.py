"""The estimators: against exact enumeration, slow formulas, hand-worked numbers, other engines."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maillard as mb
from maillard.evaluation import passes
from maillard.evaluation.arrays import ArrayLog
from maillard.evaluation.catalogue import ESTIMATORS
from maillard.evaluation.estimators import ModelDM, RowLocal, Setting
from maillard.evaluation.evaluation import Estimate, evaluate
from maillard.evaluation.moments import Moments
from maillard.evaluation.passes import Pass
from maillard.evaluation.rows import History
from maillard.evaluation.sequences import pseudo_outcomes
from maillard.evaluation.targets import Fixed

ALL = tuple(ESTIMATORS)


def estimates(log: Any, target: Any = "uniform", **options: Any) -> dict[str, Estimate]:
    options = {"estimators": "all", "intervals": "normal"} | options
    return {e.estimator: e for e in evaluate(log, target, **options).estimates}


def learning_log(seed: int, rows: int = 300, arms: int = 3, zeros: bool = False) -> Any:
    """Arms, rewards and probabilities of a greedy-ish learner."""
    rng = np.random.default_rng(seed)
    means = rng.random(arms)
    probabilities = np.empty((rows, arms))
    arm = np.empty(rows, dtype=np.int32)
    reward = np.empty(rows)
    totals = np.ones(arms)
    for t in range(rows):
        p = totals + 2.0
        if zeros and t < arms:
            p = np.where(np.arange(arms) == t, 1.0, 0.0)
        probabilities[t] = p / p.sum()
        arm[t] = rng.choice(arms, p=probabilities[t])
        reward[t] = float(rng.random() < means[arm[t]]) if seed % 2 else rng.beta(2, 3)
        totals[arm[t]] += reward[t]
    return arm, reward, probabilities


def as_log(arm: Any, reward: Any, probabilities: Any, bare: bool = False) -> ArrayLog:
    own = probabilities[np.arange(len(arm)), arm]
    return ArrayLog(probabilities.shape[1], arm, own, reward, None if bare else probabilities)


# --------------------------------------------------------------------------------------------------
# Every trajectory of a tiny bandit

MEANS = (Fraction(1, 3), Fraction(3, 4))


def trajectories(rounds: int) -> Iterator[tuple[Fraction, list[int], list[int], list[Any]]]:
    """Probability, arms, rewards and propensities of every course of a learner on two coins."""
    for course in itertools.product(itertools.product((0, 1), (0, 1)), repeat=rounds):
        chance, totals, pulls, ps = Fraction(1), [0, 0], [0, 0], []
        for arm, reward in course:
            first = Fraction(1 + 2 * totals[0] + pulls[1], 3 + 2 * sum(totals) + sum(pulls))
            p = (first, 1 - first)
            chance *= p[arm] * (MEANS[arm] if reward else 1 - MEANS[arm])
            ps.append(p)
            totals[arm] += reward
            pulls[arm] += 1
        yield chance, [a for a, _ in course], [r for _, r in course], ps


WEIGHTS = (Fraction(2, 5), Fraction(3, 5))
VALUE = sum(w * m for w, m in zip(WEIGHTS, MEANS))


def expectation(function: Callable[[ArrayLog], float], rounds: int = 4) -> float:
    terms = []
    for chance, arms, rewards, ps in trajectories(rounds):
        table = np.array([[float(x) for x in p] for p in ps])
        terms.append(float(chance) * function(as_log(np.array(arms), np.array(rewards), table)))
    return math.fsum(terms)


def test_the_trajectories_are_all_of_them() -> None:
    assert sum(chance for chance, *_ in trajectories(4)) == 1


@pytest.mark.parametrize(("name", "unbiased"), [("ipw", True), ("aipw", True), ("snipw", False)])
def test_unbiasedness_over_every_trajectory(name: str, unbiased: bool) -> None:
    target = {0: 0.4, 1: 0.6}

    def run(log: ArrayLog) -> float:
        return estimates(log, target, estimators=[name])[name].estimate

    # Self-normalisation divides by nothing where the weights vanish; here they never do.
    bias = expectation(run) - float(VALUE)
    assert (abs(bias) < 1e-14) is unbiased
    assert unbiased or abs(bias) > 1e-3


def test_the_exact_expectations_in_fractions() -> None:
    """The same two estimators once more without floating point, from the formulas."""
    ipw, aipw = Fraction(0), Fraction(0)
    for chance, arms, rewards, ps in trajectories(3):
        pulls, totals = [0, 0], [Fraction(1, 2)] * 2
        for a, r, p in zip(arms, rewards, ps):
            q = [s / (n + 1) for s, n in zip(totals, pulls)]
            v = sum(w * x for w, x in zip(WEIGHTS, q))
            ipw += chance * WEIGHTS[a] / p[a] * r / 3
            aipw += chance * (v + WEIGHTS[a] / p[a] * (r - q[a])) / 3
            pulls[a] += 1
            totals[a] += r
    assert ipw == aipw == VALUE


@pytest.mark.parametrize("ceiling", [0.0, 0.5, 4.0])
def test_pseudo_outcomes_have_the_right_mean_over_every_trajectory(ceiling: float) -> None:
    """Also with weights of their own for each arm: the realised weight in the sum would not do."""
    target = Fixed("", np.array([0.4, 0.6]))

    def side(which: int) -> Callable[[ArrayLog], float]:
        def run(log: ArrayLog) -> float:
            batch = next(log.batches(probabilities=True))
            whole = Pass(2, target, None, {}, {}, probabilities=True, prior=0.5)
            phi = pseudo_outcomes(whole.rows(batch, passes.History.empty(2)), (0.0, 1.0), ceiling)[
                which
            ]
            assert phi.min() >= -ceiling - 1e-15
            return float(phi.mean())

        return run

    assert expectation(side(0)) == pytest.approx(float(VALUE), abs=1e-13)
    assert expectation(side(1)) == pytest.approx(1.0 - float(VALUE), abs=1e-13)


# --------------------------------------------------------------------------------------------------
# Slow formulas


def slow(arm: Any, reward: Any, probabilities: Any, pi: Any, cap: float) -> dict[str, Any]:
    """(estimate, error) of every estimator, row by row, as the papers write them."""
    rows, arms = probabilities.shape
    used = [a for a in range(arms) if pi[a] > 0]
    q_rows, totals, pulls = [], np.full(arms, 0.5), np.ones(arms)
    for a, r in zip(arm, reward):
        q_rows.append(totals / pulls)
        totals, pulls = totals.copy(), pulls.copy()
        totals[a] += r
        pulls[a] += 1
    q = np.array(q_rows)
    own = probabilities[np.arange(rows), arm]
    w = pi[arm] / own
    v = q @ pi
    miss = reward - q[np.arange(rows), arm]
    fine = np.array([all(p[a] > 0 for a in used) for p in probabilities])

    def mean_of(x: Any) -> Any:
        x = x[fine]
        n = len(x)
        return x.mean(), math.sqrt(sum((y - x.mean()) ** 2 for y in x) / n / (n - 1))

    def ratio_of(h: Any, g: Any) -> Any:
        n, value = len(h), math.fsum(h * g) / math.fsum(h)
        return value, math.sqrt(math.fsum((h * (g - value)) ** 2) * n / (n - 1)) / math.fsum(h)

    bent = w / (1 - 1 / cap + w / cap)
    cut = np.where(w <= cap, w, 0.0)
    wf, vf, mf = w[fine], v[fine], miss[fine]
    corrected = math.fsum(wf * mf) / math.fsum(wf)
    n = len(wf)
    influence = vf - vf.mean() + n * wf * (mf - corrected) / math.fsum(wf)
    found = {
        "ipw": mean_of(w * reward),
        "snipw": ratio_of(wf, reward[fine]),
        "clipped-ipw": mean_of(np.minimum(w, cap) * reward),
        "truncated-ipw": mean_of(cut * reward),
        "sub-gaussian-ipw": mean_of(bent * reward),
        "aipw": mean_of(v + w * miss),
        "sndr": (
            vf.mean() + corrected,
            math.sqrt(math.fsum(influence**2) / n / (n - 1)),
        ),
        "switch-dr": mean_of(v + cut * miss),
        "dr-os": mean_of(v + cap**2 * w / (w**2 + cap**2) * miss),
        "sub-gaussian-dr": mean_of(v + bent * miss),
    }
    g = q.copy()
    g[np.arange(rows), arm] += miss / own
    score = v + w * miss
    with np.errstate(divide="ignore"):
        variance = np.array([sum(pi[a] ** 2 / p[a] for a in used) for p in probabilities])
    found["stable-variance"] = ratio_of(1 / np.sqrt(variance), score)
    found["min-variance"] = ratio_of(1 / variance, score)

    def by_arm(h: Any) -> Any:
        values = [math.fsum(h[:, a] * g[:, a]) / math.fsum(h[:, a]) for a in range(arms)]
        terms = sum(pi[a] * h[:, a] * (g[:, a] - values[a]) / math.fsum(h[:, a]) for a in used)
        error = math.sqrt(math.fsum(terms**2) * rows / (rows - 1))
        return math.fsum(pi[a] * values[a] for a in used), error

    def stick(share: Callable[[float, int], float]) -> Any:
        h = np.zeros((rows, arms))
        for a in range(arms):
            spent = 0.0
            for t in range(1, rows + 1):
                e = probabilities[t - 1, a]
                part = min(max(share(e, t), 0.0), 1.0) * (1.0 - spent)
                spent += part
                h[t - 1, a] = math.sqrt(part * e)
        return h

    def two_point(e: float, t: int) -> float:
        rest = t**-0.7 + (rows**0.3 - t**0.3) / 0.3  # Σ_{s ≥ t} s^−0.7, by its integral
        return e / (rows - t + 1) + (1 - e) * t**-0.7 / rest

    found["aw-aipw-propensity"] = by_arm(probabilities)
    found["aw-aipw-constant"] = by_arm(stick(lambda e, t: 1.0 / (rows - t + 1)))
    found["aw-aipw-two-point"] = by_arm(stick(two_point))

    h = np.zeros(rows)
    for t in range(1, rows):
        moments = np.zeros(2)
        for s in range(t):
            p_now = probabilities[t, arm[s]]
            d = math.inf
            if p_now > 0 or pi[arm[s]] == 0:
                again = 0.0 if pi[arm[s]] == 0 else pi[arm[s]] / p_now
                d = v[t] + again * (reward[s] - q[t, arm[s]])
            moments += p_now / own[s] * np.array([d, d**2]) / t if p_now > 0 else 0.0
        wanted = all(probabilities[t, a] > 0 for a in used)
        sigma = moments[1] - moments[0] ** 2
        h[t] = 1 / math.sqrt(sigma) if wanted and sigma > 0 else 0.0
    found["cadr"] = ratio_of(h, score)
    count = np.bincount(arm, minlength=arms)
    groups = [reward[arm == a] for a in range(arms)]
    found["dm"] = (
        math.fsum(pi[a] * groups[a].mean() for a in used),
        math.sqrt(sum(pi[a] ** 2 * groups[a].var(ddof=1) / count[a] for a in used)),
    )
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pi", [(0.2, 0.3, 0.5), (0.0, 0.25, 0.75), (0.0, 1.0, 0.0)])
def test_slow_formulas_agree(seed: int, pi: tuple[float, ...]) -> None:
    arm, reward, probabilities = learning_log(seed, rows=120, zeros=seed > 1)
    expected = slow(arm, reward, probabilities, np.array(pi), 3.0)
    found = estimates(as_log(arm, reward, probabilities), dict(enumerate(pi)), clip=3.0)
    assert set(found) == set(expected) == set(ALL)
    for name, (value, error) in expected.items():
        assert found[name].estimate == pytest.approx(value, rel=1e-9, abs=1e-12), name
        assert found[name].standard_error == pytest.approx(error, rel=1e-8, abs=1e-12), name


@pytest.mark.parametrize("negative", [False, True])
def test_rounds_in_which_an_arm_was_certain_have_no_weight(negative: bool) -> None:
    """Those of infinite variance; the sign of the zero beside a certain arm does not matter."""
    zero = -0.0 if negative else 0.0
    probabilities = np.array([[1.0, zero], [zero, 1.0], [0.5, 0.5], [0.2, 0.8]])
    arm, reward = np.array([0, 1, 1, 0]), np.array([1.0, 0.0, 1.0, 0.0])
    log = ArrayLog(2, arm, probabilities[np.arange(4), arm], reward, probabilities)
    names = ["stable-variance", "min-variance"]
    # Means before the rows: (1/2, 1/2), (3/4, 1/2), (3/4, 1/4), (3/4, 1/2).
    score = np.array([0.5 + 1.0 * (1 - 0.25), 0.625 + 2.5 * (0 - 0.75)])
    variance = np.array([1.0, 0.25 / 0.2 + 0.25 / 0.8])
    for name, h in zip(names, (1.0 / np.sqrt(variance), 1.0 / variance), strict=True):
        (found,) = evaluate(log, estimators=name, intervals="normal").estimates
        assert found.estimate == pytest.approx((h @ score) / h.sum(), rel=1e-12)
        assert found.standard_error > 0.0


@pytest.mark.slow
def test_first_pulls_that_were_forced() -> None:
    """Logs of `collect` begin with certain choices: the arm beside them has a plain zero."""
    log = mb.collect("kl-ms", mb.Bernoulli([0.3, 0.6]), horizon=60, seed=1)
    found = evaluate(log, estimators="all", intervals="normal")
    assert all(math.isfinite(e.estimate) for e in found.estimates)
    whole = found.source[1] if found.source is not None else None
    assert whole is not None
    (batch,) = log.batches(columns=["log_propensity"])
    every = whole.rows(batch, History.empty(2)).probabilities
    assert every.min() == 0.0
    assert not np.signbit(every).any()


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_were_all_alike_have_no_variance_not_even_a_rounded_one(seed: int) -> None:
    """CADR in fractions. One over the root of 1e-17 would be the weight of all rows together."""
    rows, arms, rng = 25, 3, np.random.default_rng(seed)
    arm, reward = rng.integers(0, arms, rows).tolist(), rng.integers(0, 2, rows).tolist()
    pi = (Fraction(1, 5), Fraction(3, 10), Fraction(1, 2))
    totals, pulls = [Fraction(1, 2)] * arms, [1] * arms
    weights, scores, none = [], [], 0
    for t in range(rows):
        q = [total / n for total, n in zip(totals, pulls)]
        v = sum(x * y for x, y in zip(pi, q))
        terms = [v + 3 * pi[arm[s]] * (reward[s] - q[arm[s]]) for s in range(t)]
        mean = sum(terms) / max(t, 1)
        variance = sum((term - mean) ** 2 for term in terms) / max(t, 1)
        none += variance == 0
        weights.append(1.0 / math.sqrt(variance) if variance else 0.0)
        scores.append(float(v + 3 * pi[arm[t]] * (reward[t] - q[arm[t]])))
        totals[arm[t]] += reward[t]
        pulls[arm[t]] += 1
    assert none >= 2
    log = as_log(np.array(arm), np.array(reward), np.full((rows, arms), 1 / 3))
    target = {a: float(x) for a, x in enumerate(pi)}
    found = estimates(log, target, estimators="cadr")["cadr"].estimate
    expected = math.fsum(h * d for h, d in zip(weights, scores)) / math.fsum(weights)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("arms", [2, 12])
def test_many_arms_take_the_other_path_to_the_same_numbers(
    arms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm, reward, probabilities = learning_log(5, rows=400, arms=arms)
    log = as_log(arm, reward, probabilities)
    names = ["aipw", "sndr", "dr-os"]
    before = estimates(log, estimators=names)
    monkeypatch.setattr("maillard.evaluation.rows._FEW_ARMS", 100 if arms > 2 else 1)
    for name, one in estimates(log, estimators=names).items():
        assert one.estimate == pytest.approx(before[name].estimate, rel=1e-12)


@pytest.mark.parametrize("arms", [2, 7])
def test_the_history_of_few_arms_is_that_of_many(
    arms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm, reward, probabilities = learning_log(6, rows=500, arms=arms)
    own = probabilities[np.arange(500), arm]
    few = passes.History.of(arm, own, reward, arms)
    monkeypatch.setattr("maillard.evaluation.rows.FEW", 1)
    many = passes.History.of(arm, own, reward, arms)
    for a, b in zip(few[1:], many[1:]):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    each = [(arm == a, power) for power in range(3) for a in range(arms)]
    exact = [math.fsum(reward[mine] ** power / own[mine]) for mine, power in each]
    np.testing.assert_allclose(few.inverse.ravel(), exact, rtol=1e-13)


def test_two_arms_need_no_column_of_probabilities() -> None:
    arm, reward, probabilities = learning_log(7, arms=2)
    whole = estimates(as_log(arm, reward, probabilities))
    for name, one in estimates(as_log(arm, reward, probabilities, bare=True)).items():
        assert one.estimate == pytest.approx(whole[name].estimate, rel=1e-12)
        assert one.standard_error == pytest.approx(whole[name].standard_error, rel=1e-10)


def test_a_contrast_is_the_difference_with_a_joint_error() -> None:
    arm, reward, probabilities = learning_log(3, rows=500)
    log = as_log(arm, reward, probabilities)
    first, second = {0: 0.5, 1: 0.5}, {1: 0.25, 2: 0.75}
    a, b, both = estimates(log, first), estimates(log, second), estimates(log, first, versus=second)
    shared = {"stable-variance", "min-variance", "cadr"}  # one set of round weights for both
    for name in set(ALL) - shared:
        assert both[name].estimate == pytest.approx(a[name].estimate - b[name].estimate, abs=1e-12)
    w = (np.array([0.5, 0.5, 0.0])[arm] - np.array([0.0, 0.25, 0.75])[arm]) / probabilities[
        np.arange(500), arm
    ]
    assert both["ipw"].standard_error == pytest.approx((w * reward).std(ddof=1) / math.sqrt(500))
    d = np.array([0.5, 0.25, -0.75])
    h = 1.0 / np.sqrt((d**2 / probabilities).sum(axis=1))
    q = np.array([0.5] * 3)
    pulls, total = np.ones(3), np.full(3, 0.5)
    score = []
    for t in range(500):
        q = total / pulls
        score.append(d @ q + w[t] * (reward[t] - q[arm[t]]))
        total[arm[t]] += reward[t]
        pulls[arm[t]] += 1
    assert both["stable-variance"].estimate == pytest.approx((h * score).sum() / h.sum())


def test_a_reward_model_takes_the_place_of_running_means() -> None:
    rng = np.random.default_rng(2)
    rows, arms = 200, 3
    model, probabilities = rng.random((rows, arms)), rng.dirichlet([2, 2, 2], rows)
    pi = rng.dirichlet([1, 1, 1], rows)
    arm = np.array([rng.choice(arms, p=p) for p in probabilities])
    reward = rng.random(rows)
    each = np.arange(rows)
    log = as_log(arm, reward, probabilities)
    found = estimates(log, pi, model=model)
    v, w = (pi * model).sum(axis=1), pi[each, arm] / probabilities[each, arm]
    miss = reward - model[each, arm]
    assert found["dm"].estimate == pytest.approx(v.mean())
    assert found["aipw"].estimate == pytest.approx((v + w * miss).mean())
    assert found["sndr"].estimate == pytest.approx(v.mean() + (w * miss).sum() / w.sum())
    assert "aw-aipw-two-point" not in found  # more of them in test_contexts.py


# --------------------------------------------------------------------------------------------------
# By hand


def test_a_log_worked_by_hand() -> None:
    """Arms a, b, a, b with propensities ½, ½, ¾, ¼ and rewards 1, 0, 1, 1; target uniform.

    w = 1, 1, ⅔, 2;  w r = 1, 0, ⅔, 2.  Predictions (prior ½): a: ½, ¾, ¾, ⅚;  b: ½, ½, ¼, ¼.
    v = ½, ⅝, ½, 13/24;  D = 1, ⅛, ⅔, 49/24.
    """
    log = ArrayLog(["a", "b"], [0, 1, 0, 1], [0.5, 0.5, 0.75, 0.25], [1, 0, 1, 1])
    found = estimates(log, clip=1.5)
    assert found["ipw"].estimate == pytest.approx(11 / 12)
    assert found["snipw"].estimate == pytest.approx(11 / 14)
    assert found["clipped-ipw"].estimate == pytest.approx(19 / 24)
    assert found["truncated-ipw"].estimate == pytest.approx(5 / 12)
    assert found["dm"].estimate == pytest.approx(0.75)
    assert found["aipw"].estimate == pytest.approx((1 + 1 / 8 + 2 / 3 + 49 / 24) / 4)
    assert found["dm"].standard_error == pytest.approx(math.sqrt(0.25 * 0 + 0.25 * 0.5 / 2))
    assert found["ipw"].ess == pytest.approx((14 / 3) ** 2 / (1 + 1 + 4 / 9 + 4))
    assert found["ipw"].largest_weight_share == pytest.approx(2 / (14 / 3))
    mean = 11 / 12
    squares = (1 - mean) ** 2 + mean**2 + (2 / 3 - mean) ** 2 + (2 - mean) ** 2
    assert found["ipw"].standard_error == pytest.approx(math.sqrt(squares / 12))


# --------------------------------------------------------------------------------------------------
# A monoid

finite = st.floats(-1e3, 1e3)


@given(st.lists(st.tuples(finite, finite), max_size=40), st.data())
def test_moments_merge_like_one_piece(rows: list[tuple[float, float]], data: Any) -> None:
    table = np.array(rows).reshape(-1, 2).T
    cut = data.draw(st.integers(0, len(rows)))
    again = data.draw(st.integers(cut, len(rows)))
    a, b, c = (Moments.of(table[:, i:j]) for i, j in ((0, cut), (cut, again), (again, None)))
    left, right, whole = a.merged(b).merged(c), a.merged(b.merged(c)), Moments.of(table)
    for one in (left, right):
        assert one.n == whole.n
        np.testing.assert_allclose(one.mean, whole.mean, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(one.comoment, whole.comoment, rtol=1e-10, atol=1e-8)


def test_moments_of_a_small_spread_on_a_large_mean() -> None:
    """Raw sums of squares would leave nothing of it."""
    exact = [Fraction(10**9) + Fraction(i % 7, 8) for i in range(1000)]
    columns = np.array([[float(x) for x in exact]])
    pieces = [Moments.of(columns[:, i : i + 10]) for i in range(0, 1000, 10)]
    found = Moments.empty(1)
    for piece in pieces:
        found = found.merged(piece)
    mean = sum(exact) / 1000
    assert found.squares(np.ones(1)) == pytest.approx(
        float(sum((x - mean) ** 2 for x in exact)), rel=1e-6
    )


@given(
    st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 4),
    st.lists(st.integers(0, 60), min_size=2, max_size=2),
)  # fmt: skip
def test_pieces_merge_associatively(seed: int, rows: int, arms: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(arms, 0.5), rows) * 0.9 + 0.1 / arms
    arm = np.array([rng.choice(arms, p=p / p.sum()) for p in probabilities], dtype=np.int32)
    log = as_log(arm, rng.random(rows), probabilities)
    weights = rng.dirichlet(np.ones(arms))
    setting = Setting(rows, arms, weights, 3.0)
    whole = Pass(
        arms, Fixed("", weights), None, {name: cls(setting) for name, cls in ESTIMATORS.items()},
        {}, probabilities=True, prior=0.5,
    )  # fmt: skip
    a, b = sorted(min(cut, rows) for cut in cuts)
    parts, history = [], passes.History.empty(arms)
    for start, stop in ((0, a), (a, b), (b, rows)):
        part = log._part(start, stop)
        parts.append(whole.piece(part, history))
        history = history + whole.history(part)
    one = whole.piece(log)
    left = whole.merge(whole.merge(parts[0], parts[1]), parts[2])
    right = whole.merge(parts[0], whole.merge(parts[1], parts[2]))
    with np.errstate(all="ignore"):
        for name, estimator in whole.estimators.items():
            expected = estimator.finish(one.estimators[name])
            for state in (left, right):
                found = estimator.finish(state.estimators[name])
                close = {"rel": 1e-11, "abs": 1e-13, "nan_ok": True}
                assert found.estimate == pytest.approx(expected.estimate, **close), name
                close = {"rel": 1e-7, "abs": 1e-9, "nan_ok": True}
                assert found.error == pytest.approx(expected.error, **close), name
    for state in (left, right):
        assert state.seen.ess == pytest.approx(one.seen.ess, rel=1e-12)
        assert state.seen.constant == one.seen.constant
        np.testing.assert_array_equal(state.seen.largest, one.seen.largest)


@pytest.mark.parametrize("arms", [2, 3, 11])
def test_batches_of_any_size_give_the_same(arms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arm, reward, probabilities = learning_log(11, rows=600, arms=arms)
    log = as_log(arm, reward, probabilities)
    whole = estimates(log)
    for size in (7, 256) if arms > 2 else (1,):
        monkeypatch.setattr(passes, "BATCH", size)
        for name, one in estimates(log).items():
            assert one.estimate == pytest.approx(whole[name].estimate, rel=1e-12), name
            assert one.standard_error == pytest.approx(whole[name].standard_error, rel=1e-11), name


# --------------------------------------------------------------------------------------------------
# The same terms on other engines


def columns_of_a_log() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    weight, reward = rng.pareto(1.5, 1000), rng.random(1000)
    return {
        "weight": weight, "reward": reward, "gain": weight * reward,
        "predicted": rng.random(1000), "value": rng.random(1000),
    }  # fmt: skip


LOCAL = [
    cls
    for cls in (*ESTIMATORS.values(), ModelDM)
    if issubclass(cls, RowLocal) and not cls.needs_fixed_target
]


@pytest.mark.parametrize("cls", LOCAL, ids=lambda cls: cls.__name__)
def test_terms_are_the_same_on_polars_and_duckdb(cls: type[RowLocal]) -> None:
    pl = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    columns = columns_of_a_log()
    expected = np.array(cls.terms(SimpleNamespace(**columns), np, 2.0)).mean(axis=1)

    frame = pl.DataFrame(columns)
    ops = SimpleNamespace(
        minimum=pl.min_horizontal, where=lambda c, a, b: pl.when(c).then(a).otherwise(b)
    )
    row = SimpleNamespace(**{name: pl.col(name) for name in columns})
    terms = cls.terms(row, ops, 2.0)
    found = frame.select(**{f"t{i}": term.mean() for i, term in enumerate(terms)}).row(0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)

    def constant(x: Any) -> Any:
        return x if isinstance(x, duckdb.Expression) else duckdb.ConstantExpression(x)

    ops = SimpleNamespace(
        minimum=lambda a, b: duckdb.FunctionExpression("least", constant(a), constant(b)),
        where=lambda c, a, b: duckdb.CaseExpression(c, constant(a)).otherwise(constant(b)),
    )
    row = SimpleNamespace(**{name: duckdb.ColumnExpression(name) for name in columns})
    terms = cls.terms(row, ops, 2.0)
    table = frame.to_arrow()
    means = [duckdb.FunctionExpression("avg", term) for term in terms]
    found = duckdb.connect().from_arrow(table).aggregate(means).fetchall()[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
