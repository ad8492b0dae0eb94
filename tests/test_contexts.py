"""Rounds weighted unequally with a context: enumeration, slow formulas, simulated logs."""

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import maillard as mb
from maillard.cli import main
from maillard.evaluation import contexts, passes
from maillard.evaluation.arrays import ArrayLog
from maillard.evaluation.catalogue import (
    ESTIMATORS,
    WITH_CONTEXT,
    estimator_class,
    known_estimators,
)
from maillard.evaluation.estimators import Setting
from maillard.evaluation.evaluation import Estimate, evaluate
from maillard.evaluation.passes import Pass
from maillard.evaluation.targets import PerRow

BY_ARM = ("aw-aipw-propensity", "aw-aipw-constant", "aw-aipw-two-point")
BY_PAST = ("stable-variance", "min-variance", "cadr")
BY_CONTEXT = ("stable-variance-by-context", "min-variance-by-context")


def estimates(log: Any, target: Any, **options: Any) -> dict[str, Estimate]:
    options = {"estimators": "all", "intervals": "normal"} | options
    return {e.estimator: e for e in evaluate(log, target, **options).estimates}


# --------------------------------------------------------------------------------------------------
# Every trajectory of a tiny bandit with two contexts

CHANCE = (Fraction(1, 3), Fraction(2, 3))
MEANS = ((Fraction(1, 4), Fraction(3, 4)), (Fraction(7, 8), Fraction(1, 5)))
TARGET = ((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 10), Fraction(9, 10)))
MODEL = ((Fraction(1, 2), Fraction(1, 3)), (Fraction(1, 5), Fraction(2, 3)))  # a poor one
WORTH = [sum(pi * mu for pi, mu in zip(TARGET[x], MEANS[x])) for x in (0, 1)]
VALUE = sum(chance * worth for chance, worth in zip(CHANCE, WORTH))


class Course(NamedTuple):
    chance: Fraction
    context: list[int]
    arm: list[int]
    reward: list[int]
    #: p_t(x, a) for both contexts.
    p: list[tuple[tuple[Fraction, Fraction], ...]]


def courses(rounds: int, blind: bool) -> Iterator[Course]:
    """Every course of a learner that sees the context, or does not."""
    for steps in itertools.product(itertools.product((0, 1), repeat=3), repeat=rounds):
        chance, good, ps = Fraction(1), [1, 1], []
        for x, a, r in steps:
            first = Fraction(good[0], sum(good))
            p = tuple(
                (share, 1 - share)
                for share in (first, first if blind else Fraction(1, 6) + first / 2)
            )
            chance *= CHANCE[x] * p[x][a] * (MEANS[x][a] if r else 1 - MEANS[x][a])
            ps.append(p)
            good[a] += 2 * r
        yield Course(chance, *(list(part) for part in zip(*steps)), ps)  # type: ignore[arg-type]


def score(course: Course, t: int) -> Fraction:
    x, a = course.context[t], course.arm[t]
    value = sum(pi * q for pi, q in zip(TARGET[x], MODEL[x]))
    return value + TARGET[x][a] / course.p[t][x][a] * (course.reward[t] - MODEL[x][a])


def variance(course: Course, t: int, x: int) -> Fraction:
    return sum((pi**2 / p for pi, p in zip(TARGET[x], course.p[t][x])), Fraction(0))


def at_earlier_contexts(course: Course, t: int) -> Fraction:
    """As published: this round's policy, at the contexts of earlier rows."""
    return 1 / sum((variance(course, t, x) for x in course.context[:t]), Fraction(0)) if t else 0


def of_earlier_rounds(course: Course, t: int) -> Fraction:
    return 1 / sum((variance(course, s, course.context[s]) for s in range(t)), Fraction(0))


def at_its_own_context(course: Course, t: int) -> Fraction:
    return 1 / variance(course, t, course.context[t])


@pytest.mark.parametrize("blind", [False, True])
def test_the_courses_are_all_of_them(blind: bool) -> None:
    assert sum(course.chance for course in courses(2, blind)) == 1


@pytest.mark.parametrize("blind", [False, True])
def test_weights_of_the_past_keep_the_mean_and_weights_of_the_own_context_do_not(
    blind: bool,
) -> None:
    """E Σ h (D − V) in fractions: zero is what makes the ratio Σ h D / Σ h consistent."""
    for weight, right in (
        (at_earlier_contexts, True),
        (of_earlier_rounds, True),
        (at_its_own_context, False),
    ):
        found = sum(
            course.chance * weight(course, t) * (score(course, t) - VALUE)
            for course in courses(3, blind)
            for t in (1, 2)
        )
        assert (found == 0) is right, weight


def log_of(course: Course) -> tuple[ArrayLog, Any, Any]:
    """The log, the target row by row, the model."""
    rows = range(len(course.arm))
    p = np.array([[float(x) for x in course.p[t][course.context[t]]] for t in rows])
    own = p[np.arange(len(p)), course.arm]
    target = np.array([[float(x) for x in TARGET[course.context[t]]] for t in rows])
    model = np.array([[float(x) for x in MODEL[course.context[t]]] for t in rows])
    return ArrayLog(2, course.arm, own, course.reward, p), target, model


def state_of(name: str, log: ArrayLog, target: Any, model: Any, blind: bool) -> Any:
    setting = Setting(len(log), len(log.arms), None, 3.0, blind=blind)
    estimator = estimator_class(name, True, setting)(setting)
    whole = Pass(
        len(log.arms), PerRow("", target, len(log.arms)), None, {name: estimator}, {},
        probabilities=True, prior=0.5, model=model,
    )  # fmt: skip
    return whole.piece(log).estimators[name]


@pytest.mark.parametrize(
    ("name", "blind"),
    [
        *((name, True) for name in (*BY_PAST, *BY_ARM)),
        *((name, False) for name in ("stable-variance", "min-variance")),
    ],
)
def test_over_every_trajectory(name: str, blind: bool) -> None:
    """E Σ h D = V E Σ h; arm by arm, E Σ h(a) π(x, a) G(a) = E Σ h(a) · E π(x, a) μ(x, a)."""
    found = []
    for course in courses(3, blind):
        mean = state_of(name, *log_of(course), blind).moments.mean
        found.append(float(course.chance) * mean)
    h, scores = np.split(np.array([math.fsum(column) for column in zip(*found)]), 2)
    if name in BY_ARM:
        parts = [sum(CHANCE[x] * TARGET[x][a] * MEANS[x][a] for x in (0, 1)) for a in (0, 1)]
    else:
        parts = [VALUE]
    assert np.all(h > 0.0)
    np.testing.assert_allclose(scores, h * np.array([float(part) for part in parts]), rtol=1e-13)


# --------------------------------------------------------------------------------------------------
# Slow formulas


class Data(NamedTuple):
    arm: Any
    reward: Any
    probabilities: Any
    target: Any
    other: Any
    model: Any

    @property
    def log(self) -> ArrayLog:
        own = self.probabilities[np.arange(len(self.arm)), self.arm]
        return ArrayLog(self.probabilities.shape[1], self.arm, own, self.reward, self.probabilities)


def contextual_data(seed: int, rows: int = 90, arms: int = 3, zeros: bool = False) -> Data:
    """A log of no policy in particular, with contexts from a short list."""
    rng = np.random.default_rng(seed)
    kinds = 5
    context = rng.integers(0, kinds, rows)
    probabilities = rng.dirichlet(np.full(arms, 2.0), rows)
    target = rng.dirichlet(np.ones(arms), kinds)
    target[0] = np.eye(arms)[0]
    if zeros:
        target[1, 0], target[1, 1] = 0.0, target[1, 0] + target[1, 1]
        probabilities[::7, 0] = 0.0
        probabilities /= probabilities.sum(axis=1, keepdims=True)
    arm = np.array([rng.choice(arms, p=p) for p in probabilities])
    other = rng.dirichlet(np.ones(arms), kinds)
    model = rng.random((kinds, arms))
    reward = (rng.random(rows) < model[context, arm]).astype(float)
    return Data(arm, reward, probabilities, target[context], other[context], model[context])


def slow(data: Data, d: Any, model: Any, blind: bool) -> dict[str, tuple[float, float]]:
    """(estimate, error), as the papers write them: every round's policy at every row's context."""
    p, arm, reward = data.probabilities, data.arm, data.reward
    rows, arms = p.shape
    if model is None:
        pulls, totals, lines = np.ones(arms), np.full(arms, 0.5), []
        for a, r in zip(arm, reward):
            lines.append(totals / pulls)
            pulls[a] += 1
            totals[a] += r
        model = np.array(lines)
    own = p[np.arange(rows), arm]
    g = model.copy()
    g[np.arange(rows), arm] += (reward - model[np.arange(rows), arm]) / own
    full = (d * g).sum(axis=1)

    def v(t: int, s: int) -> float:
        """The variance of round t's policy at the context of row s."""
        pairs = [(d[s, a] ** 2, p[t, a]) for a in range(arms) if d[s, a] != 0.0]
        return math.inf if any(q == 0.0 for _, q in pairs) else sum(x / q for x, q in pairs)

    def ratio_of(h: Any) -> tuple[float, float]:
        value = math.fsum(h * full) / math.fsum(h)
        squares = math.fsum((h * (full - value)) ** 2) * rows / (rows - 1)
        return value, math.sqrt(squares) / math.fsum(h)

    found = {}
    for name, power in (("stable-variance", 0.5), ("min-variance", 1.0)):
        h = np.zeros(rows)
        for t in range(rows):
            past = [v(t, s) if blind else v(s, s) for s in range(t)]
            past = past if blind else [x for x in past if math.isfinite(x)]
            if past and math.isfinite(v(t, t)):
                h[t] = (sum(past) / len(past)) ** -power
        found[name] = ratio_of(h)
    if not blind:
        return found
    for name, power in (("stable-variance-by-context", 0.5), ("min-variance-by-context", 1.0)):
        table = np.array([[v(t, s) ** -power for s in range(rows)] for t in range(rows)])
        shares = table / table.sum(axis=0)
        b = np.diag(shares) * full
        squares = math.fsum((b[t] - math.fsum(shares[t] * b)) ** 2 for t in range(rows))
        found[name] = math.fsum(b), math.sqrt(squares * rows / (rows - 1))
    h = np.zeros(rows)
    for t in range(1, rows):
        first = second = 0.0
        for s in range(t):
            now = p[t, arm[s]]
            miss = d[s, arm[s]] * (reward[s] - model[s, arm[s]])
            if now == 0.0:
                second = second if miss == 0.0 else math.inf
                first += miss / own[s]
                continue
            term = d[s] @ model[s] + miss / now
            first += now / own[s] * term / t
            second += now / own[s] * term**2 / t
        sigma = second - first**2
        if math.isfinite(v(t, t)) and math.isfinite(sigma) and sigma > 0.0:
            h[t] = sigma**-0.5
    found["cadr"] = ratio_of(h)

    def by_arm(h: Any) -> tuple[float, float]:
        part = d * g
        values = (h * part).sum(axis=0) / h.sum(axis=0)
        terms = (h * (part - values) / h.sum(axis=0)).sum(axis=1)
        return values.sum(), math.sqrt(math.fsum(terms**2) * rows / (rows - 1))

    found["aw-aipw-propensity"] = by_arm(p)
    found["aw-aipw-constant"] = by_arm(np.sqrt(p))
    h = np.zeros((rows, arms))
    left = np.ones(arms)
    for t in range(1, rows + 1):
        e = p[t - 1]
        rest = t**-0.7 + (rows**0.3 - t**0.3) / 0.3
        share = np.clip(e / (rows - t + 1) + (1 - e) * t**-0.7 / rest, 0.0, 1.0)
        h[t - 1] = np.sqrt(share * left * e)
        left = left * (1 - share)
    found["aw-aipw-two-point"] = by_arm(h)
    return found


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", ["target", "contrast", "no model", "fixed target"])
def test_slow_formulas_agree(what: str, seed: int, blind: bool) -> None:
    data = contextual_data(seed, zeros=seed == 2)
    d, target, model, versus = data.target, data.target, data.model, None
    if what == "contrast":
        d, versus = data.target - data.other, data.other
    elif what == "no model":
        model = None
    elif what == "fixed target":
        target = {0: 0.5, 1: 0.2, 2: 0.3}
        d = np.tile(list(target.values()), (len(data.arm), 1))
    expected = slow(data, d, model, blind)
    if model is None:
        expected.pop("cadr", None)
    found = estimates(data.log, target, versus=versus, model=model, blind=blind)
    weighted = {*BY_ARM, *BY_PAST, *BY_CONTEXT} & set(found)
    assert weighted == set(expected)
    if what == "fixed target" and blind:
        # Then a round's variance is known beforehand: the first row counts too.
        for name in ("stable-variance", "min-variance"):
            expected[name] = expected[f"{name}-by-context"]
    for name, (value, error) in expected.items():
        assert found[name].estimate == pytest.approx(value, rel=1e-10, abs=1e-12), name
        assert found[name].standard_error == pytest.approx(error, rel=1e-9), name


def test_without_a_context_the_weights_by_context_are_the_plain_ones() -> None:
    data = contextual_data(4)
    target = np.tile([0.2, 0.3, 0.5], (len(data.arm), 1))
    found = estimates(data.log, target, blind=True)
    plain = estimates(data.log, {0: 0.2, 1: 0.3, 2: 0.5})
    for name in ("stable-variance", "min-variance"):
        one = found[f"{name}-by-context"]
        assert one.estimate == pytest.approx(plain[name].estimate, rel=1e-12)
        assert one.standard_error == pytest.approx(plain[name].standard_error, rel=1e-10)
    for name in BY_ARM:
        assert found[name].estimate == pytest.approx(plain[name].estimate, rel=1e-12)
        assert found[name].standard_error == pytest.approx(plain[name].standard_error, rel=1e-10)


@pytest.mark.parametrize("blind", [False, True])
def test_batches_of_any_size_and_pieces_give_the_same(
    blind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = contextual_data(5, rows=500, zeros=True)
    options: Any = {"model": data.model, "blind": blind}
    whole = estimates(data.log, data.target, **options)
    with ThreadPoolExecutor(2) as pool:
        found = [estimates(data.log, data.target, executor=pool, pieces=3, **options)]
        if blind:
            cut = options | {"estimators": [*BY_ARM, *BY_CONTEXT], "executor": pool}
            pieces = estimates(data.log, data.target, pieces=5, **cut)
            assert set(pieces) == {*BY_ARM, *BY_CONTEXT}
            found.append({**whole, **pieces})
    for size in (7, 256):
        monkeypatch.setattr(passes, "BATCH", size)
        found.append(estimates(data.log, data.target, **options))
    monkeypatch.setattr(contexts, "_AT_A_TIME", 600)
    found.append(estimates(data.log, data.target, **options))
    for again in found:
        assert set(again) == set(whole)
        for name, one in again.items():
            assert one.estimate == pytest.approx(whole[name].estimate, rel=1e-12), name
            close = pytest.approx(whole[name].standard_error, rel=1e-11)
            assert one.standard_error == close, name


def test_pieces_of_weights_by_context_merge_in_any_way() -> None:
    data = contextual_data(6, rows=120)
    setting = Setting(120, 3, None, 3.0, blind=True)
    estimator = WITH_CONTEXT["min-variance-by-context"](setting)
    whole = Pass(
        3, PerRow("", data.target, 3), None, {"one": estimator}, {},
        probabilities=True, prior=0.5, model=data.model,
    )  # fmt: skip
    parts = [
        whole.piece(data.log._part(i, j)).estimators["one"] for i, j in ((0, 9), (9, 70), (70, 120))
    ]
    left = estimator.merge(estimator.merge(parts[0], parts[1]), parts[2])
    right = estimator.merge(parts[0], estimator.merge(parts[1], parts[2]))
    expected = estimator.finish(whole.piece(data.log).estimators["one"])
    for state in (left, right):
        found = estimator.finish(state)
        assert found.estimate == pytest.approx(expected.estimate, rel=1e-13)
        assert found.error == pytest.approx(expected.error, rel=1e-12)
    so_far = WITH_CONTEXT["stable-variance"](setting)
    state = so_far.start()
    assert so_far.merge(state, state) is state
    used = so_far.step(state, whole.rows(next(data.log.batches(probabilities=True)), _no_past()))
    with pytest.raises(ValueError, match="stable-variance takes one pass"):
        so_far.merge(used, used)


def _no_past() -> passes.History:
    return passes.History.empty(3)


# --------------------------------------------------------------------------------------------------
# Simulated logs


def simulated(runs: int, rounds: int, blind: bool, seed: int) -> Iterator[tuple[Any, ...]]:
    """(log, target, model) of a learner with p falling like t^−0.4, on the bandit above."""
    rng = np.random.default_rng(seed)
    means, target, model = (
        np.array([[float(x) for x in line] for line in table]) for table in (MEANS, TARGET, MODEL)
    )
    context = (rng.random((runs, rounds)) > float(CHANCE[0])).astype(int)
    wins, pulls = np.full((runs, 2, 2), 0.5), np.ones((runs, 2, 2))
    arm, reward = np.empty((runs, rounds), dtype=int), np.empty((runs, rounds))
    p = np.empty((runs, rounds, 2))
    each = np.arange(runs)
    for t in range(rounds):
        seen = 0 if blind else context[:, t]
        better = np.argmax((wins / pulls)[each, seen], axis=1)
        least = 0.5 * (t + 1.0) ** -0.4
        p[:, t] = least
        p[each, t, better] = 1.0 - least
        arm[:, t] = rng.random(runs) > p[:, t, 0]
        reward[:, t] = rng.random(runs) < means[context[:, t], arm[:, t]]
        wins[each, seen, arm[:, t]] += reward[:, t]
        pulls[each, seen, arm[:, t]] += 1.0
    for r in range(runs):
        own = p[r, np.arange(rounds), arm[r]]
        log = ArrayLog(2, arm[r], own, reward[r], p[r])
        yield log, target[context[r]], model[context[r]]


def deviations(found: Any) -> Callable[[float], float]:
    """How far the mean of independent numbers is from another, in standard errors."""
    values = np.array(found)
    error = values.std(ddof=1) / math.sqrt(len(values))
    return lambda expected: abs(values.mean() - expected) / error


@pytest.mark.parametrize("blind", [False, True])
def test_a_large_number_of_logs_averages_to_the_value(blind: bool) -> None:
    """Means of 150 logs within 6 standard errors: false alarms below 1e-7 for each of ten.

    What self-normalisation and an estimated Z cost, O(1/T), is a fraction of one.
    """
    found: dict[str, list[float]] = {}
    own = []
    for log, target, model in simulated(150, 600, blind, seed=8):
        for name, one in estimates(log, target, model=model, blind=blind).items():
            found.setdefault(name, []).append(one.estimate)
        p = next(log.batches(probabilities=True)).probabilities
        assert p is not None
        h = 1.0 / (target**2 / p).sum(axis=1)
        miss = log._reward - model[np.arange(600), log._arm]
        weight = target[np.arange(600), log._arm] / log._propensity
        full = (target * model).sum(axis=1) + weight * miss
        own.append((h * full).sum() / h.sum())
    weighted = {*BY_PAST, *BY_ARM, *BY_CONTEXT} if blind else {"stable-variance", "min-variance"}
    assert weighted < set(found)
    for name in (*sorted(weighted), "aipw"):
        assert deviations(found[name])(float(VALUE)) < 6.0, name
    # Weights of a row's own context would not do: here they estimate something else.
    assert not blind or deviations(own)(float(VALUE)) > 10.0


# --------------------------------------------------------------------------------------------------
# What is refused, and in which words


def test_what_a_context_takes_is_said_in_one_line() -> None:
    data = contextual_data(1)
    log, target = data.log, data.target
    needs = "needs each round's probabilities at the contexts of other rounds"
    options: dict[str, dict[str, Any]] = {
        **{f"{name} {needs}": {"estimators": name, "model": data.model} for name in BY_ARM},
        **{f"{name} {needs}": {"estimators": name, "model": data.model} for name in BY_CONTEXT},
        f"cadr {needs}": {"estimators": "cadr", "model": data.model},
        "cadr needs a reward model": {"estimators": "cadr", "blind": True},
        "blind must be True or False": {"blind": "yes"},
    }
    for message, option in options.items():
        with pytest.raises(ValueError, match=message):
            evaluate(log, target, **option)
    with pytest.raises(ValueError, match=r"cadr-by-context.*: did you mean"):
        evaluate(log, target, estimators="cadr-by-context")
    with pytest.raises(ValueError, match="needs a context: without one it is stable-variance"):
        evaluate(log, "uniform", estimators="stable-variance-by-context")
    for name in ("stable-variance", *BY_ARM):
        with pytest.raises(ValueError, match="target must be the same in all of them"):
            evaluate(log, "thompson", estimators=name)
    own = target[np.arange(len(target)), data.arm]
    with pytest.raises(ValueError, match="needs the target's probabilities of all arms"):
        evaluate(log, own, estimators="stable-variance")
    bare = ArrayLog(3, data.arm, np.full(len(own), 0.3), data.reward)
    with pytest.raises(ValueError, match="stable-variance needs the probabilities of all arms"):
        evaluate(bare, target, estimators="stable-variance")


def test_weights_by_context_keep_rows_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = contextual_data(1)
    monkeypatch.setattr(WITH_CONTEXT["min-variance-by-context"], "rows_at_most", 89)
    with pytest.raises(ValueError, match="keeps rows in memory, at most 89"):
        evaluate(data.log, data.target, estimators="min-variance-by-context", blind=True)


def test_names_with_a_context_and_without() -> None:
    assert known_estimators(contextual=False) == tuple(ESTIMATORS)
    assert set(known_estimators(contextual=True)) == {*ESTIMATORS, *BY_CONTEXT}
    data = contextual_data(1)
    usual = evaluate(data.log, data.target, model=data.model)
    assert {e.estimator for e in usual.estimates} == {"dm", "ipw", "snipw", "clipped-ipw", "aipw"}
    assert not any("blind" in note for note in usual.notes)
    everything = estimates(data.log, data.target, model=data.model, blind=True)
    assert set(everything) == {*ESTIMATORS, *BY_CONTEXT}


def test_one_row_and_targets_that_are_the_same() -> None:
    log = ArrayLog(2, [0], [0.5], [1.0], [[0.5, 0.5]])
    found = estimates(log, [[0.25, 0.75]], model=[[0.5, 0.5]], blind=True)
    assert math.isnan(found["stable-variance"].estimate)  # nothing came before
    assert math.isnan(found["cadr"].estimate)
    assert found["stable-variance-by-context"].estimate == pytest.approx(0.75)
    assert math.isnan(found["stable-variance-by-context"].standard_error)
    data = contextual_data(2)
    same = estimates(data.log, data.target, versus=data.target, model=data.model, blind=True)
    assert same["stable-variance-by-context"].estimate == 0.0
    assert math.isnan(same["stable-variance"].estimate)  # no round has a variance


def test_an_arm_that_nobody_wants_may_be_impossible() -> None:
    data = contextual_data(7, arms=2)
    rows = len(data.arm)
    three = np.column_stack([data.probabilities, np.zeros(rows)])
    own = three[np.arange(rows), data.arm]
    log = ArrayLog(3, data.arm, own, data.reward, three)
    wide = np.column_stack([data.target, np.zeros(rows)])
    model = np.column_stack([data.model, np.full(rows, 0.5)])
    found = estimates(log, wide, model=model, blind=True)
    expected = estimates(data.log, data.target, model=data.model, blind=True)
    for name in (*BY_PAST, *BY_ARM, *BY_CONTEXT):
        assert found[name].estimate == pytest.approx(expected[name].estimate, rel=1e-12), name
        close = pytest.approx(expected[name].standard_error, rel=1e-10)
        assert found[name].standard_error == close, name


def test_on_the_command_line(tmp_path: Path) -> None:
    data = contextual_data(3)
    rows = len(data.arm)

    def lists(values: Any) -> Any:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 3)

    table = pa.table({
        "arm": data.arm, "reward": data.reward,
        "propensity": data.probabilities[np.arange(rows), data.arm],
        "probabilities": lists(data.probabilities), "mine": lists(data.target),
        "predicted": lists(data.model),
    })  # fmt: skip
    path = tmp_path / "log.parquet"
    mb.Log.read(table, arms=3).write(path)
    command = [
        "evaluate", str(path), "--target", "column:mine", "--model", "predicted",
        "--interval", "normal", "--estimator", "cadr",
    ]  # fmt: skip
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code != 0
    assert "cadr needs each round's probabilities at the contexts" in refused.output
    done = CliRunner().invoke(main, [*command, "--blind", "--json"])
    assert done.exit_code == 0
    expected = estimates(data.log, data.target, model=data.model, blind=True)["cadr"]
    assert f'"estimate": {expected.estimate}' in done.output


def test_rows_that_were_all_alike_have_no_variance_with_a_context_either() -> None:
    """One over the root of a rounded zero would be the weight of all rows together."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        context, arm = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
        reward = (rng.random(400) < np.where(arm == context, 0.7, 0.3)).astype(float)
        target = np.column_stack([1 - context, context]).astype(float)
        model = np.where(target == 1.0, 0.6, 0.4)
        log = ArrayLog(2, arm, np.full(400, 0.5), reward)
        found = estimates(log, target, model=model, blind=True, estimators=["cadr", "aipw"])
        error = found["aipw"].standard_error
        assert found["cadr"].estimate == pytest.approx(found["aipw"].estimate, abs=error)
        assert found["cadr"].standard_error == pytest.approx(error, rel=0.2)
