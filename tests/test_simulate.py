"""`simulate` and its result: what the numbers are, that parts merge, and what is refused."""

import itertools
import json
import math
import pickle
import random
import subprocess
import sys
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maillard as mb
from maillard.compiled import disabled
from maillard.environments import Bernoulli, Delayed, Drifting, Gaussian, Piecewise, Poisson, Replay
from maillard.plots import regret_figure
from maillard.policies.maillard import KLMS
from maillard.simulation import engine, folder, plan
from maillard.simulation.curve import Curve, Moments, Quanta, joined, missing, quantised, sampled
from maillard.simulation.plan import Plan, best_sums, checkpoint_rounds
from maillard.simulation.result import Result
from maillard.simulation.specs import labelled, parse, policies_for

WORLD = Bernoulli([0.3, 0.6])
POLICIES = ["kl-ms", "ms", ("kl-ms", {"booster": 2})]

#: Small as plain Python, where a step costs a thousand times more.
HORIZON, TRIALS = (20, 70) if disabled() else (60, 1100)


def run(policies: Any = POLICIES, world: Any = WORLD, **given: Any) -> Result:
    settings = {"horizon": HORIZON, "trials": TRIALS, "seed": 5, "checkpoints": 9}
    return mb.simulate(policies, world, **{**settings, **given})


@pytest.fixture(scope="module")
def whole() -> Result:
    return run()


# --------------------------------------------------------------------------------------------------
# What the numbers are


def test_sums_are_those_of_the_single_trials() -> None:
    """Against trials run one by one and added as fractions."""
    trials = 5
    result = run("kl-ms", trials=trials, quantiles=[0.0, 0.25, 1.0])
    policy = mb.policy("kl-ms", arms=2)
    single = [
        engine.program(policy, WORLD).run(HORIZON, result.rounds, seed=5, first=i, trials=1)
        for i in range(trials)
    ]
    curve = result["kl-ms"]
    for c, t in enumerate(result.rounds.tolist()):
        for found, error, values in (
            (curve.regret, curve.error, [x.regret[c, 0] for x in single]),
            (curve.realised, curve.realised_error, [t * 0.6 - x.rewards[c, 0] for x in single]),
            (curve.best, curve.best_error, [x.best[c, 0] for x in single]),
        ):
            exact = [Fraction(float(v)) for v in values]
            mean = sum(exact) / trials
            spread = sum((x - mean) ** 2 for x in exact) / (trials * (trials - 1))
            assert found[c] == pytest.approx(float(mean), abs=1e-9)
            assert error[c] == pytest.approx(math.sqrt(spread), abs=1e-9)
        pulls = np.mean([x.pulls[c] for x in single], axis=0)
        assert np.array_equal(curve.pulls[c], pulls)
        assert curve.regret[c] == pytest.approx(0.3 * pulls[0], abs=1e-9)
        for level in (0.0, 0.25, 1.0):
            assert curve.quantile(level)[c] == pytest.approx(
                np.quantile([x.regret[c, 0] for x in single], level), abs=1e-9
            )
    assert curve.pulls.sum(axis=1).tolist() == result.rounds.tolist()


def test_a_policy_that_knows_nothing_pulls_all_arms_alike() -> None:
    # 70 trials at least: the bound is 6 standard errors, a false alarm rate of 2e-9.
    curve = run("uniform")["uniform"]
    assert abs(curve.regret[-1] - 0.15 * HORIZON) < 6 * curve.error[-1]
    assert abs(curve.realised[-1] - 0.15 * HORIZON) < 6 * curve.realised_error[-1]
    assert curve.best[-1] == pytest.approx(0.5, abs=1e-9)


def test_the_lower_bound_is_lai_and_robbins(whole: Result) -> None:
    kl = 0.3 * math.log(0.3 / 0.6) + 0.7 * math.log(0.7 / 0.4)
    assert whole.constant == pytest.approx(0.3 / kl, rel=1e-12)
    assert whole.lower_bound()[-1] == pytest.approx(0.3 / kl * math.log(HORIZON), rel=1e-12)


@given(
    st.integers(2, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-(2**51), 2**51), min_size=n, max_size=n), min_size=1, max_size=4
        )
    )
)
def test_moments_are_exact(rows: list[list[int]]) -> None:
    n = len(rows[0])
    moments = Moments.of(np.array(rows, dtype=np.int64))
    assert moments.totals == tuple(sum(row) for row in rows)
    assert moments.squares == tuple(sum(x * x for x in row) for row in rows)
    for row, mean, error in zip(rows, moments.mean(n), moments.error(n), strict=True):
        exact = Fraction(sum(row), n)
        spread = sum((x - exact) ** 2 for x in row) / (n * (n - 1))
        assert mean == float(exact)
        assert error == pytest.approx(math.sqrt(spread), rel=1e-12)


def test_moments_at_their_largest() -> None:
    q = np.full((1, 1024), 2**52 - 1, dtype=np.int64)
    assert Moments.of(q).squares == (1024 * (2**52 - 1) ** 2,)
    assert Moments.of(-q).squares == (1024 * (2**52 - 1) ** 2,)


@pytest.mark.parametrize(
    "world",
    [
        Bernoulli([0.8, 0.9]),
        Bernoulli([0.5, 0.5]),
        Gaussian([0.0, 1e9]),
        Gaussian([0.0, 1e-9], sd=1e6),
        Poisson([1e-6, 1e6]),
    ],
)
@pytest.mark.parametrize("horizon", [2, 10**4, 10**9])
def test_quanta_leave_room_and_many_digits(world: Any, horizon: int) -> None:
    quanta = Quanta.of(world, horizon)
    most = horizon * float(np.ptp(world.means))
    assert most / quanta.regret < 2**52
    assert quanta.regret <= max(most, 1.0) * 1e-14
    tail = horizon * (float(np.ptp(world.means)) + 40.0 * float(np.sqrt(world.variances.max())))
    assert tail / quanta.realised < 2**52
    assert math.frexp(quanta.regret)[0] == math.frexp(quanta.realised)[0] == 0.5


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_what_cannot_be_added_exactly_is_an_error(value: float) -> None:
    with pytest.raises(ArithmeticError, match="rewards are not numbers"):
        quantised(np.array([[value]]), 1.0)


def test_the_best_mean_brings_what_it_brings_in_worlds_that_change() -> None:
    a, b = Bernoulli([0.2, 0.5]), Bernoulli([0.9, 0.4])
    rounds = np.arange(1, 31)
    for world in (
        a,
        Piecewise([a, b, a], [8, 20]),
        Drifting([a, b, a], [1, 11, 21]),
        Delayed(a, 3),
    ):
        slow = np.cumsum([max(world.means_at(t)) for t in rounds.tolist()])
        assert best_sums(world, rounds) == pytest.approx(slow, rel=1e-13)
        few = np.array([1, 9, 10, 30])
        assert best_sums(world, few) == pytest.approx(slow[few - 1], rel=1e-13)


# --------------------------------------------------------------------------------------------------
# Parts and wholes


def test_ten_parts_in_any_order_are_the_whole(whole: Result) -> None:
    parts = [run(trials=TRIALS // 10, first=i * (TRIALS // 10), workers=1) for i in range(10)]
    for seed in range(3):
        random.Random(seed).shuffle(parts)
        merged = parts[0]
        for part in parts[1:]:
            merged = merged.merge(part)
        assert merged == whole
        assert (
            merged.to_arrow()
            .drop_columns("nanoseconds_per_step")
            .equals(whole.to_arrow().drop_columns("nanoseconds_per_step"))
        )
        assert all(np.array_equal(merged[k].sample, whole[k].sample) for k in whole.policies)


def test_neither_workers_nor_pieces_nor_company_change_a_bit(
    whole: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(workers=1) == run(workers=3) == whole
    monkeypatch.setattr(plan, "_PIECE", 1)
    monkeypatch.setattr(plan, "_MOST_PIECES", 7)
    assert run(workers=2) == whole
    monkeypatch.setattr(plan, "MOST_AT_ONCE", 50)
    assert run(workers=2) == whole
    alone = run("ms")
    assert alone["ms"] == whole["ms"]
    backwards = run(POLICIES[::-1])
    assert backwards == whole
    assert backwards.policies == whole.policies[::-1]


def test_seeds_and_pairing() -> None:
    policies = ["uniform", ("uniform", {"floor": 0.5})]
    apart, paired = run(policies), run(policies, paired=True)
    labels = apart.policies
    assert not np.array_equal(apart[labels[0]].sample, apart[labels[1]].sample)
    assert np.array_equal(paired[labels[0]].sample, paired[labels[1]].sample)
    assert run("ms", seed=6) != run("ms", seed=5) == run("ms", seed=5)


#: Three regrets for each of up to 40 trials, cut into ranges somewhere.
@st.composite
def cut_curves(draw: st.DrawFn) -> tuple[list[Curve], Curve]:
    trials = draw(st.integers(1, 40))
    shift = draw(st.sampled_from([0, 4080]))  # across the end of the sample for quantiles
    numbers = st.integers(-(2**51), 2**51)
    q = np.array(
        draw(st.lists(st.lists(numbers, min_size=trials, max_size=trials), min_size=3, max_size=3))
    )
    cuts = sorted(draw(st.sets(st.integers(1, trials), max_size=6)) | {0, trials})
    spans = list(itertools.pairwise(cuts))
    curves = [made_curve(q, shift, first, stop) for first, stop in spans]
    return draw(st.permutations(curves)), made_curve(q, shift, 0, trials)


def made_curve(q: Any, shift: int, first: int, stop: int) -> Curve:
    some = q[:, first:stop]
    moments = Moments.of(some)
    pulls = np.stack([some.sum(axis=1) % 1000, some.sum(axis=1) // 1000], axis=1)
    span = (shift + first, shift + stop)
    return Curve(
        "p", {"policy": "p"}, Quanta(1.0, 1.0), (span,), 0 * pulls + (stop - first), moments,
        moments, moments, some[:, : sampled(*span)],
    )  # fmt: skip


@given(cut_curves())
def test_merging_is_associative_and_commutative(case: tuple[list[Curve], Curve]) -> None:
    parts, whole = case
    left = parts[0]
    for part in parts[1:]:
        left = left.merge(part)
    right = parts[-1]
    for part in parts[-2::-1]:
        right = part.merge(right)
    middle = len(parts) // 2
    if middle > 0:
        first, second = parts[0], parts[middle]
        for part in parts[1:middle]:
            first = part.merge(first)
        for part in parts[middle + 1 :]:
            second = second.merge(part)
        assert second.merge(first) == whole
    assert left == right == whole
    empty = Curve.empty("p", {"policy": "p"}, Quanta(1.0, 1.0), 3, 2)
    assert empty.merge(whole) == whole.merge(empty) == whole
    assert empty.merge(empty) == empty


ranges = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 6)).map(lambda p: (p[0], p[0] + p[1])), max_size=5
)


@given(ranges, ranges)
def test_ranges_are_sets(wanted: list[tuple[int, int]], known: list[tuple[int, int]]) -> None:
    def numbers(spans: Any) -> set[int]:
        return {i for first, stop in spans for i in range(first, stop)}

    union = joined(wanted)
    assert numbers(union) == numbers(wanted)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(union))
    assert numbers(missing(union, known)) == numbers(wanted) - numbers(known)


def test_parts_that_do_not_fit_are_refused(whole: Result) -> None:
    for other, why in (
        (run(seed=6), "seed is 5 in one and 6 in the other"),
        (run(paired=True), "paired"),
        (run(world=Bernoulli([0.3, 0.5])), "environment"),
        (run(horizon=HORIZON - 1), "horizon"),
        (run(checkpoints=8), "checkpoints"),
        (run(quantiles=[0.5]), "quantiles"),
        (run(["kl-ms", "ms"]), "other policies"),
        (run(first=TRIALS - 1, trials=2), f"trials {TRIALS - 1} to {TRIALS - 1} are in both"),
    ):
        with pytest.raises(ValueError, match=why):
            whole.merge(other)
    with pytest.raises(ValueError, match="not curves of the same policy"):
        whole["ms"].merge(whole["kl-ms:booster=1"])


def test_quantiles_are_those_of_the_first_trials() -> None:
    late = run("ms", trials=3, first=5000)
    assert late["ms"].sample.shape == (9, 0)
    assert np.isnan(late["ms"].quantile(0.5)).all()
    across = run("ms", trials=4, first=4094)
    assert across["ms"].sample.shape == (9, 2)
    with pytest.raises(ValueError, match="level must be in"):
        across["ms"].quantile(1.5)


# --------------------------------------------------------------------------------------------------
# The result elsewhere


def test_parquet_gives_back_the_same_bits(whole: Result, tmp_path: Path) -> None:
    for result in (whole, run("ms", first=4095, trials=2), run("ms", trials=1, first=9999)):
        result.to_parquet(tmp_path / "r.parquet")
        back = mb.Result.read(tmp_path / "r.parquet")
        assert back == result
        assert back.to_dict() == result.to_dict()
        assert back.nanoseconds("ms") == result.nanoseconds("ms")
    assert [p.name for p in tmp_path.iterdir()] == ["r.parquet"]
    half = run(trials=TRIALS // 2)
    half.to_parquet(tmp_path / "r.parquet")
    rest = run(first=TRIALS // 2, trials=TRIALS - TRIALS // 2)
    assert mb.Result.read(tmp_path / "r.parquet").merge(rest) == whole


def test_a_world_without_a_lower_bound_survives_a_file(tmp_path: Path) -> None:
    worlds = (
        (Piecewise([WORLD, Bernoulli([0.6, 0.3])], [5]), math.nan),
        (Bernoulli([0.5, 1.0]), None),
    )
    for world, constant in worlds:
        result = run("kl-ms", world, trials=3)
        result.to_parquet(tmp_path / "r.parquet")
        assert mb.Result.read(tmp_path / "r.parquet") == result
        json.dumps(result.to_dict(), allow_nan=False)
        if constant is not None:
            assert math.isnan(result.constant)
            assert np.isnan(result.lower_bound()).all()
        result.plot(tmp_path / "r.svg")
        assert "complete" not in str(result.summary())


def test_a_table_for_each_taste(whole: Result) -> None:
    table = whole.to_arrow()
    assert table.num_rows == 3 * 9
    frame = whole.to_pandas()
    last = frame[(frame.policy == "ms") & (frame["round"] == HORIZON)].iloc[0]
    assert last.regret == whole["ms"].regret[-1]
    assert last.standard_error == whole["ms"].error[-1]
    assert last["quantile_0.5"] == whole["ms"].quantile(0.5)[-1]
    assert list(last.pulls) == whole["ms"].pulls[-1].tolist()
    entry = whole.to_dict()["policies"][1]
    assert (entry["label"], entry["trials"]) == ("ms", TRIALS)
    assert entry["regret"] == whole["ms"].regret.tolist()
    assert json.loads(json.dumps(whole.to_dict(), allow_nan=False)) == whole.to_dict()
    with pytest.raises(KeyError, match="no policy 'kl-ms' here; there are kl-ms:booster=1, ms"):
        whole["kl-ms"]
    assert pickle.loads(pickle.dumps(whole)) == whole


def test_the_summary_names_policies_by_their_regret(whole: Result) -> None:
    text = str(whole.summary())
    order = sorted(whole.policies, key=lambda label: whole[label].regret[-1])
    places = [text.index(f" {label} ") for label in order]
    assert places == sorted(places)
    assert f"Regret after {HORIZON} rounds · bernoulli · means 0.3, 0.6" in text
    assert f"{whole['ms'].regret[-1]:.2f}" in text
    assert "Lower bound" in text
    page = whole._repr_html_()
    assert page.count("<tr>") == 4
    assert "kl-ms:booster=2" in page
    assert "Result after" in repr(whole)
    single = run("ms", trials=1)
    assert "–" in str(single.summary())  # one trial has no standard error


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_figures(whole: Result, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"regret.{suffix}"
    whole.plot(path, log_x=suffix == "png")
    assert path.stat().st_size > 1000
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_figure_shows_curves_bands_and_the_bound(whole: Result) -> None:
    axes = whole.plot().axes[0]
    drawn = {line.get_label(): line for line in axes.get_lines()}
    assert set(drawn) == {*whole.policies, f"lower bound {whole.constant:.3g} ln t"}
    assert np.array_equal(drawn["ms"].get_ydata(), whole["ms"].regret)
    assert len(axes.collections) == 3
    colours = {line.get_color() for line in axes.get_lines()}
    assert len(colours) == 4
    assert len(whole.plot(lower_bound=False).axes[0].get_lines()) == 3
    assert whole.plot(log_x=True).axes[0].get_xscale() == "log"
    many = run([f"epsilon-greedy:epsilon=0.{i}" for i in range(1, 10)], trials=2)
    assert len(regret_figure(many).axes[0].get_legend().get_texts()) == 10


def test_figures_that_cannot_be_written(whole: Result, tmp_path: Path) -> None:
    for name, why in (("regret", "has no suffix"), ("regret.xyz", "xyz")):
        with pytest.raises(ValueError, match=why):
            whole.plot(tmp_path / name)
    with pytest.raises(OSError, match="there is no folder"):
        whole.plot(tmp_path / "absent" / "regret.png")
    with pytest.raises(OSError, match="is a folder"):
        whole.to_parquet(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_equal_figures_are_equal_files(whole: Result, tmp_path: Path) -> None:
    for suffix in ("svg", "png"):
        names = [tmp_path / f"{i}.{suffix}" for i in range(2)]
        for name in names:
            whole.plot(name)
        assert names[0].read_bytes() == names[1].read_bytes()


def test_files_that_hold_no_result(whole: Result, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(OSError, match="there is no file"):
        mb.Result.read(tmp_path / "absent.parquet")
    path = tmp_path / "r.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(ValueError, match="does not hold a result"):
        mb.Result.read(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(ValueError, match="it was not written by to_parquet"):
        mb.Result.read(path)
    whole.to_parquet(path)
    good = pq.read_table(path)
    pq.write_table(good.drop_columns("sample"), path)
    with pytest.raises(ValueError, match="does not hold a result"):
        mb.Result.read(path)
    pq.write_table(good.slice(1), path)
    with pytest.raises(ValueError, match="rows are missing"):
        mb.Result.read(path)
    about = json.loads(good.schema.metadata[b"maillard"])
    for changed in ({"format": 99}, {"kind": "log"}, {"policies": 3}, {"wanted": "x"}):
        text = json.dumps({**about, **changed})
        pq.write_table(good.replace_schema_metadata({b"maillard": text}), path)
        with pytest.raises(ValueError, match="does not hold a result"):
            mb.Result.read(path)
    whole.to_parquet(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="does not hold a result") as caught:
        mb.Result.read(path)
    assert "\n" not in str(caught.value)


# --------------------------------------------------------------------------------------------------
# Names of policies and environments, checkpoints, and what is refused


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("kl-ms", ("kl-ms", {})),
        ("thompson:prior=1,1", ("thompson", {"prior": [1, 1]})),
        ("kl-ms:booster=2,floor=0.1", ("kl-ms", {"booster": 2, "floor": 0.1})),
        ("dmed:genuine=false", ("dmed", {"genuine": False})),
        ("kl-ucb:f=1+t-log2-t , c=3", ("kl-ucb", {"f": "1+t-log2-t", "c": 3})),
        ("x:p=[[0.5, 0.5], [1, 0]],v=0,1", ("x", {"p": [[0.5, 0.5], [1, 0]], "v": [0, 1]})),
        ("exp3:gamma=none", ("exp3", {"gamma": None})),
    ],
)
def test_text_is_parsed(text: str, parsed: Any) -> None:
    assert parse(text) == parsed


@pytest.mark.parametrize(
    "text", ["ms:", "ms:2", "ms:,", "ms:a=1,,", "ms:a=1,a=2", "ms:a=[1", "ms:=3"]
)
def test_text_that_means_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"twice|form|list"):
        parse(text)


def test_policies_in_every_form() -> None:
    class Mine(mb.KLMS):  # type: ignore[misc, name-defined]
        """A class of one's own."""

    made = policies_for(
        [
            "kl-ms",
            "thompson:prior=1,1",
            ("kl-ms", {"booster": 2}),
            {"policy": "kl-ms", "booster": 3, "floor": 0.1},
            mb.policy("ucb1", arms=["red", "green"]),
            mb.MS,
            "moss",
            ("moss", {"horizon": 7}),
            "exp3++:version=2014",
            "fixed:weights=1,2",
        ],
        WORLD,
        HORIZON,
    )
    assert list(made) == [
        "kl-ms:booster=1,floor=0",
        "thompson",
        "kl-ms:booster=2,floor=0",
        "kl-ms:booster=3,floor=0.1",
        "ucb1",
        "ms",
        f"moss:horizon={HORIZON}",
        "moss:horizon=7",
        "exp3++",
        "fixed",
    ]
    assert made["thompson"].prior == (1.0, 1.0)
    assert all(len(policy.arms) == 2 for policy in made.values())
    assert list(policies_for(Mine, WORLD, 9)) == ["kl-ms"]
    assert list(policies_for(("kl-ms", {"booster": 2}), WORLD, 9)) == ["kl-ms"]
    wide = Gaussian([0.0, 1.0])
    assert policies_for("ms", wide, 9)["ms"].rewards == (-math.inf, math.inf)
    poisson = policies_for("exp-kl-ms:family=poisson", WORLD, 9)["exp-kl-ms"]
    assert poisson.rewards == (0.0, math.inf)


def test_labels_tell_what_differs() -> None:
    made = [
        mb.policy("ms", 2, rewards=(0, 1)),
        mb.policy("ms", 2, rewards=(-1, 1)),
        mb.policy("ms", 2, rewards=(0, 1), binarise=3),
    ]
    assert list(labelled(made)) == [
        "ms:rewards=0,1,binarise=false",
        "ms:rewards=-1,1,binarise=false",
        "ms:rewards=0,1,binarise=true",
    ]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"policies": "kl-sm"}, "unknown policy 'kl-sm': did you mean"),
        ({"policies": []}, "one policy at least"),
        ({"policies": 3}, "3 is no policy"),
        ({"policies": [None]}, "None is no policy"),
        ({"policies": ["ms", "ms"]}, "ms is there twice"),
        ({"policies": "ms:boost=2"}, "ms has no parameter 'boost'; did you mean 'booster'"),
        ({"policies": "thompson:prior=1"}, "takes 2 numbers"),
        ({"policies": mb.policy("ms", 3)}, "3 arms, the environment 2"),
        ({"policies": ("ms", {"rewards": (0, 0.5)})}, r"takes rewards in \[0.0, 0.5\]"),
        ({"policies": ("ms", {3: 4})}, "ms: keywords must be strings"),
        ({"world": "bernouli:means=0.1,0.2"}, "unknown environment 'bernouli'"),
        ({"world": "bernoulli:means=0.1,1.2"}, r"\[0, 1\]"),
        ({"world": "bernoulli:mean=0.1,0.2"}, "did you mean 'means'"),
        ({"world": [0.8, 0.9]}, "is no environment"),
        ({"world": Bernoulli}, "is no environment"),
        ({"world": Gaussian([0.0, 1.0]), "policies": "kl-ms"}, "kl-ms is for"),
        ({"horizon": 1}, "a horizon of 1 is too short for 2 arms"),
        ({"horizon": 2**41}, r"2\^40"),
        ({"horizon": 10.5}, "horizon must be a whole number"),
        ({"trials": 0}, "trials must be a whole number of at least 1"),
        ({"trials": 2**41}, r"2\^40"),
        ({"first": -1}, "first must be a whole number of at least 0"),
        ({"seed": -1}, "seed"),
        ({"seed": "0"}, "seed"),
        ({"paired": "yes"}, "paired must be True or False"),
        ({"checkpoints": 513}, "512 checkpoints at most"),
        ({"checkpoints": 0}, "checkpoints"),
        ({"checkpoints": "many"}, "checkpoints must be a number or a list"),
        ({"checkpoints": [3, 2]}, "must rise"),
        ({"checkpoints": [3, 1000]}, "must rise, and end by the horizon"),
        ({"checkpoints": [0, 3]}, "a checkpoint must be a whole number of at least 1"),
        ({"spacing": "cubic"}, "spacing must be"),
        ({"quantiles": [2.0]}, "quantiles must be numbers in"),
        ({"quantiles": ["a"]}, "quantiles must be numbers in"),
        ({"workers": 0}, "workers"),
        ({"executor": 3}, "executor must be a concurrent.futures.Executor"),
        ({"resume": True}, "resume needs the folder"),
        ({"world": Replay(np.full((5, 2), 0.1))}, "beyond the 5 recorded rounds"),
    ],
)
def test_misuse_is_one_line(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        run(**changed)
    assert "\n" not in str(caught.value)


def test_a_policy_that_has_seen_rewards_is_refused() -> None:
    policy = mb.policy("ms", 2)
    policy.update(0, 1.0)
    with pytest.raises(ValueError, match="has seen 1 rewards"):
        run(policy)


@given(st.integers(1, 2**40), st.integers(1, 512))
def test_checkpoints_are_evenly_spaced(horizon: int, count: int) -> None:
    for spacing in ("log", "linear"):
        rounds = checkpoint_rounds(horizon, count, spacing)
        assert len(rounds) == min(count, horizon)
        assert rounds[0] >= 1
        assert rounds[-1] == horizon
        assert (np.diff(rounds) > 0).all()
    if count > 1:
        rounds = checkpoint_rounds(horizon, count, "log")
        ratios = rounds[1:] / rounds[:-1]
        # Ratios are even where they are not forced to be steps of one round.
        free = np.diff(rounds) > 50
        if free.any():
            assert ratios[free].max() < ratios[free].min() * 1.05


def test_checkpoints_as_given() -> None:
    assert checkpoint_rounds(10, [2, 5], "log").tolist() == [2, 5, 10]
    assert checkpoint_rounds(10, np.array([10]), "log").tolist() == [10]
    assert checkpoint_rounds(10, [], "log").tolist() == [10]
    assert checkpoint_rounds(10, 4, "linear").tolist() == [2, 5, 7, 10]
    assert checkpoint_rounds(1, 4, "log").tolist() == [1]
    with pytest.raises(ValueError, match="512"):
        checkpoint_rounds(10**6, range(1, 600), "log")


def test_large_descriptions_are_not_carried_along() -> None:
    table = np.random.default_rng(0).random((20_000, 2))
    described = Plan.of("ms", Replay(table), 10, 1, 0, 4, "log", [], False, 0).description()
    assert len(json.dumps(described)) < 2000


@pytest.mark.slow
def test_memory_grows_neither_with_the_horizon_nor_with_trials() -> None:
    def peak(horizon: int, trials: int) -> int:
        tracemalloc.start()
        mb.simulate("ms", WORLD, horizon, trials, checkpoints=8, workers=1)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(100, 64)  # what is imported and compiled stays
    few = peak(100, 8_192)
    # A number for each step would be 655 MB, one for each trial half a MB at every checkpoint.
    assert peak(10_000, 8_192) < few + 2**17
    assert peak(100, 65_536) < few + 2**19
    # 10^6 trials of 10^6 steps are not run here, but cut into pieces.
    made = Plan.of("ms", WORLD, 10**6, 10**6, 0, 512, "log", [], False, 0)
    assert sum(1 for _ in made.pieces(made.jobs[0], made.wanted, 2)) <= 2_048


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, maillard.simulation.result, maillard.simulation.tables, maillard.plots\n"
        "heavy = {'numba', 'matplotlib', 'pandas', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "import maillard; maillard.simulate; maillard.Result\n"
        "assert 'numba' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --------------------------------------------------------------------------------------------------
# A folder that holds the run


def interrupting(after: int) -> Any:
    """An executor for which Ctrl-C is pressed after so many tasks."""
    from concurrent.futures import ThreadPoolExecutor

    class Interrupting(ThreadPoolExecutor):
        left = after

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            return super().submit(*args, **kwargs)

    return Interrupting(1)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> int:
    """Pieces of 64 trials, whatever a step costs."""
    monkeypatch.setattr(plan, "_PIECE", 1)
    monkeypatch.setattr(plan, "_MOST_PIECES", 10**9)
    return 64


def test_interruption_keeps_what_is_complete(small_pieces: int) -> None:
    with interrupting(1) as pool, pytest.warns(RuntimeWarning, match="complete are kl-ms:boo"):
        result = run(executor=pool)
    assert not result.complete
    assert [curve.trials for curve in result.curves.values()] == [small_pieces, 0, 0]
    assert "Incomplete" in str(result.summary())
    assert "incomplete" in repr(result)
    json.dumps(result.to_dict(), allow_nan=False)
    assert np.isnan(result["ms"].regret).all()
    assert len(result.plot().axes[0].get_lines()) == 2
    rest = run(first=small_pieces, trials=TRIALS - small_pieces)
    assert result[result.policies[0]].merge(rest[result.policies[0]]).trials == TRIALS


def test_nothing_is_left_of_a_run_that_came_to_nothing(tmp_path: Path) -> None:
    with interrupting(0) as pool, pytest.raises(KeyboardInterrupt):
        run(executor=pool, folder=tmp_path / "run")
    with pytest.raises(ValueError, match="delays of up to"):
        run("ms", Delayed(WORLD, 10**6), horizon=10**7, trials=1, folder=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_policy_without_the_engine_gives_the_same_bits_however_it_is_cut() -> None:
    class Own(KLMS):
        """Decides by itself, which only the online path can follow."""

        def decide(self, *given: Any, **named: Any) -> Any:
            return super().decide(*given, **named)

    settings: dict[str, Any] = {"horizon": 8, "trials": 5}
    assert Plan.of(Own, WORLD, 8, 5, 0, 4, "log", [], False, 0).jobs[0].slow
    parts = [run(Own, **{**settings, "trials": n, "first": i}) for i, n in ((3, 2), (0, 3))]
    assert parts[0].merge(parts[1]) == run(Own, **settings) == run(Own, **settings, workers=1)


def test_a_run_that_was_cut_short_goes_on_to_the_same_bits(
    whole: Result, small_pieces: int, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    count = 0
    while True:
        with interrupting(2) as pool:
            try:
                result = run(executor=pool, folder=path, resume=count > 0)
            except RuntimeWarning:
                count += 1
                assert (path / "result.parquet").exists()
                continue
        break
    assert count >= 2
    assert result == whole == mb.Result.read(path)
    assert sorted(p.name for p in path.iterdir()) == ["result.parquet", "run.json"]
    assert run(folder=path, resume=True) == whole  # nothing is left to do


def test_pieces_of_a_process_that_was_killed_are_taken_up(
    whole: Result, small_pieces: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder.RunFolder, "finish", lambda self, result: None)
    with interrupting(2) as pool, pytest.warns(RuntimeWarning):
        run(executor=pool, folder=tmp_path)
    monkeypatch.undo()
    pieces = sorted((tmp_path / "pieces").iterdir())
    assert [p.name for p in pieces] == ["0-0-64.parquet", *[p.name for p in pieces[1:]]]
    assert not (tmp_path / "result.parquet").exists()
    pieces[0].write_bytes(b"")
    (tmp_path / "pieces" / ".0-64-128-abcd.parquet").write_bytes(b"half")
    with pytest.warns(RuntimeWarning, match="does not hold a result"):
        assert run(folder=tmp_path, resume=True) == whole
    assert sorted(p.name for p in tmp_path.iterdir()) == ["result.parquet", "run.json"]


def test_pieces_that_overlap_are_counted_once(whole: Result, tmp_path: Path) -> None:
    run(folder=tmp_path)
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    run(trials=10).to_parquet(pieces / "0-0-10.parquet")
    other = run(["kl-ms", "ms"], trials=5)
    other.to_parquet(pieces / "1-0-5.parquet")
    assert run(folder=tmp_path, resume=True) == whole
    run(world=Bernoulli([0.1, 0.2, 0.3])).to_parquet(tmp_path / "result.parquet")
    with pytest.warns(RuntimeWarning, match="it is run again"):
        assert run(folder=tmp_path, resume=True) == whole


def test_folders_of_other_runs_are_refused(tmp_path: Path) -> None:
    run("ms", folder=tmp_path, trials=5)
    with pytest.raises(ValueError, match="holds a run already"):
        run("ms", folder=tmp_path, trials=5)
    for changed, why in (
        ({"trials": 6}, "its trials: 5, wanted: 6"),
        ({"seed": 6}, "its seed: 5, wanted: 6"),
        ({"world": Bernoulli([0.3, 0.7])}, "its environment: "),
        ({"policies": "kl-ms"}, "its policies"),
        ({"checkpoints": 8}, "its checkpoints"),
        ({"first": 5}, "its first: 0, wanted: 5"),
        ({"paired": True}, "its paired: false, wanted: true"),
    ):
        with pytest.raises(ValueError, match=f"holds another run: {why}") as caught:
            run(**{"policies": "ms", "folder": tmp_path, "resume": True, "trials": 5, **changed})
        assert "\n" not in str(caught.value)
    manifest = tmp_path / "run.json"
    text = manifest.read_text()
    manifest.write_text(text.replace(f'"maillard": "{mb.__version__}"', '"maillard": "0.0.1"'))
    with pytest.raises(ValueError, match=r"begun with version 0\.0\.1"):
        run("ms", folder=tmp_path, trials=5, resume=True)
    for damaged in ("", "{", "[]", "\udc80"):
        manifest.write_bytes(damaged.encode(errors="surrogateescape"))
        with pytest.raises(ValueError, match="is damaged"):
            run("ms", folder=tmp_path, trials=5, resume=True)
    manifest.unlink()
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"has result\.parquet but no run\.json"):
            run("ms", folder=tmp_path, trials=5, resume=resume)
    with pytest.raises(ValueError, match="is a file"):
        run("ms", folder=tmp_path / "result.parquet", trials=5)


def test_a_new_folder_can_be_resumed_and_errors_leave_none(tmp_path: Path) -> None:
    assert run("ms", folder=tmp_path / "a" / "b", trials=3, resume=True).complete
    with pytest.raises(ValueError, match="too short"):
        run("ms", folder=tmp_path / "c", horizon=1)
    assert not (tmp_path / "c").exists()
