"""The sums of a table in a database: DuckDB and Spark say what the embedded pass says."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import maillard as mb

ibis = pytest.importorskip("ibis")

# Ibis calls what DuckDB 2 and the pandas beneath Spark call deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

ROWS, ARMS = 500, 3
LOCAL = ["dm", "ipw", "snipw", "clipped-ipw", "truncated-ipw", "sub-gaussian-ipw"]
WITH_MODEL = [*LOCAL, "aipw", "sndr", "switch-dr", "dr-os", "sub-gaussian-dr"]
#: Puts an Arrow table where a backend can find it.
Placing = Callable[[pa.Table], Any]


def lists(values: Any) -> pa.Array:
    return pa.array(np.asarray(values).tolist(), pa.list_(pa.float64()))


def table(labels: Any = range(ARMS), zeros: int = 0, seed: int = 0) -> pa.Table:
    """A log with everything that a row may have; its first rows cannot play the last arm."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([2.0, 3.0, 4.0], ROWS)
    p[:zeros] = [0.4, 0.6, 0.0]
    code = (rng.random((ROWS, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(0, ARMS - 1)
    target = rng.dirichlet([1.0, 1.0, 1.0], ROWS)
    return pa.table({
        "arm": pa.array(list(labels)).take(pa.array(code)),
        "propensity": p[np.arange(ROWS), code],
        "reward": np.where(code == 1, rng.random(ROWS), rng.integers(0, 2, ROWS)),
        "probabilities": lists(p),
        "target": lists(target),
        "own": target[np.arange(ROWS), code],
        "predicted": lists(rng.random((ROWS, ARMS))),
        "run": np.repeat([3, 7], ROWS // 2),
    })  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Where tables lie


#: Spark's client leaves its sockets to the garbage collector.
LEFT_OPEN = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def duckdb() -> Placing:
    connection = importlib.import_module("duckdb").connect()
    backend = ibis.duckdb.from_connection(connection)

    def place(data: pa.Table) -> Any:
        connection.from_arrow(data).create_view("given")
        connection.execute("CREATE OR REPLACE TABLE log AS SELECT * FROM given")
        return backend.table("log")

    return place


@pytest.fixture(scope="module")
def spark() -> Iterator[Placing]:
    """A session of one machine; nothing leaves it."""
    pyspark = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = pyspark.SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    backend = ibis.pyspark.connect(session)

    def place(data: pa.Table) -> Any:
        kinds = ", ".join(f"{field.name} {SPARK_TYPES[str(field.type)]}" for field in data.schema)
        columns = [column.to_pylist() for column in data.columns]
        rows = list(zip(*columns, strict=True))
        session.createDataFrame(rows, kinds).createOrReplaceTempView("log")
        return backend.table("log")

    yield place
    session.stop()


SPARK_TYPES = {
    "int64": "bigint", "int32": "int", "string": "string", "double": "double", "float": "float",
    "bool": "boolean", "list<item: double>": "array<double>",
}  # fmt: skip


@pytest.fixture(
    params=["duckdb", pytest.param("spark", marks=[pytest.mark.slow, LEFT_OPEN])],
)
def place(request: pytest.FixtureRequest) -> Placing:
    placing: Placing = request.getfixturevalue(request.param)
    return placing


# --------------------------------------------------------------------------------------------------
# Agreement


def same(remote: mb.Evaluation, here: mb.Evaluation) -> None:
    assert remote.target == here.target
    assert remote.recommended == here.recommended
    assert len(remote.estimates) == len(here.estimates) > 0
    for one, other in zip(remote.estimates, here.estimates, strict=True):
        assert one[:2] == other[:2]
        assert one[2:8] == pytest.approx(other[2:8], rel=1e-9, abs=1e-12, nan_ok=True), one[:2]
        assert one.verdict == other.verdict
    mine, theirs = remote.diagnostics, here.diagnostics
    assert (mine.rows, mine.impossible, mine.constant) == (
        theirs.rows, theirs.impossible, theirs.constant,
    )  # fmt: skip
    np.testing.assert_allclose(mine.largest, theirs.largest, rtol=1e-12)
    np.testing.assert_array_equal(mine.pulls, theirs.pulls)
    assert mine.tail == pytest.approx(theirs.tail, rel=1e-9, nan_ok=True)
    assert mine.lowest_reward == theirs.lowest_reward
    assert mine.highest_reward == theirs.highest_reward
    assert mine.smallest_propensity == theirs.smallest_propensity


CASES: dict[str, dict[str, Any]] = {
    "uniform": {"target": "uniform", "estimators": LOCAL},
    "one arm": {"target": 2, "estimators": LOCAL, "clip": 3.0},
    "by label": {"target": {0: 0.25, 1: 0.75}, "estimators": LOCAL, "clip": 1.5},
    "contrast": {"target": "uniform", "versus": 0, "estimators": LOCAL},
    "probabilities by row": {"target": "column:own", "estimators": LOCAL[1:]},
    "distributions by row": {"target": "column:target", "estimators": LOCAL[1:]},
    "model": {"target": "uniform", "model": "predicted", "estimators": WITH_MODEL, "clip": 2.0},
    "both": {
        "target": "column:target", "versus": {0: 0.5, 2: 0.5}, "model": "predicted",
        "estimators": WITH_MODEL, "clip": 2.0,
    },
    "run": {"target": "uniform", "estimators": LOCAL, "run": 7},
}  # fmt: skip


def check(place: Placing, data: pa.Table, arms: Any = ARMS, **options: Any) -> None:
    """The same from the database and from the rows."""
    options = {"intervals": ["normal", "t"], **options}
    if "dm" in options["estimators"] and "model" not in options:
        options["intervals"] = ["kt", "normal", "t"]
    remote = mb.evaluate(place(data), arms=arms, **options)
    same(remote, mb.evaluate(mb.Log.read(data, arms=arms), **options))


@pytest.mark.parametrize("case", CASES)
def test_the_same_as_the_embedded_pass(place: Placing, case: str) -> None:
    check(place, table(), **CASES[case])


@pytest.mark.parametrize(
    "case", ["uniform", "by label", "contrast", "distributions by row", "both"]
)
def test_rounds_that_could_not_play_the_target(place: Placing, case: str) -> None:
    check(place, table(zeros=150), **CASES[case])


def test_labels_and_types_of_every_kind(place: Placing) -> None:
    labels = ["red", "green", "it's blue"]
    data = table(labels).drop_columns(["run"])
    target = {"red": 0.5, "it's blue": 0.5}
    check(place, data, labels, target=target, estimators=LOCAL)
    bare = data.select(["arm", "propensity", "reward"])
    check(place, bare, None, target="uniform", estimators=LOCAL)
    narrow = table().select(["arm", "propensity", "reward"])
    narrow = narrow.set_column(0, "arm", narrow["arm"].cast(pa.int32()))
    narrow = narrow.set_column(2, "reward", pa.array(np.asarray(narrow["reward"]) > 0.5))
    check(place, narrow, None, target="uniform", estimators=LOCAL)
    single = narrow.set_column(1, "propensity", narrow["propensity"].cast(pa.float32()))
    check(place, single, None, target="uniform", estimators=LOCAL)


def test_certain_rounds_without_a_column_of_probabilities(place: Placing) -> None:
    data = table().select(["arm", "propensity", "reward"])
    p = np.array(data["propensity"]).copy()
    p[:40] = 1.0
    check(place, data.set_column(1, "propensity", pa.array(p)), target="uniform", estimators=LOCAL)


def test_constant_propensities(place: Placing) -> None:
    rng = np.random.default_rng(1)
    arm = rng.integers(0, 2, ROWS)
    data = pa.table({
        "arm": arm, "propensity": np.where(arm == 0, 0.3, 0.7), "reward": rng.random(ROWS) * 2 - 1,
    })  # fmt: skip
    options = {"rewards": (-1.0, 1.0), "estimators": ["ipw", "snipw"]}
    check(place, data, 2, intervals=["empirical-bernstein", "normal"], **options)


def test_a_small_spread_on_a_large_mean(place: Placing) -> None:
    """Raw sums of squares would leave nothing of it."""
    rng = np.random.default_rng(2)
    arm = rng.integers(0, 2, ROWS)
    reward = 1e7 + rng.random(ROWS)
    data = pa.table({"arm": arm, "propensity": np.full(ROWS, 0.5), "reward": reward})
    check(place, data, 2, target="uniform", estimators=["dm", "snipw"])


def test_one_row(place: Placing) -> None:
    data = pa.table({"arm": [1], "propensity": [0.5], "reward": [1.0]})
    check(place, data, 2, target=1, estimators=LOCAL)


# --------------------------------------------------------------------------------------------------
# Refusals; one backend says what all say


def test_what_a_table_cannot_say(duckdb: Placing) -> None:
    log = duckdb(table())
    for options, message in (
        ({"estimators": "aw-aipw-two-point"}, "needs the rows in their order"),
        ({"estimators": "aipw"}, "needs the rows in their order"),
        ({"intervals": "bootstrap", "estimators": "ipw"}, "stay in the database"),
        ({"intervals": "betting", "estimators": "dm"}, "stay in the database"),
        ({"target": "kl-ms"}, "replayed row by row"),
        ({"target": np.full(ROWS, 0.5)}, "no order"),
        ({"model": np.zeros((ROWS, ARMS))}, "name of a column"),
        ({"model": "nothing"}, "no column 'nothing'"),
        ({"model": "reward"}, "must hold lists"),
        ({"executor": object()}, "executor="),
        ({"target": "column:nothing"}, "no column 'nothing'"),
        ({"target": "column:run"}, "column run: .* rows have probabilities of the target"),
        ({"target": "column:predicted", "model": "predicted"}, "do not sum to 1"),
        ({"run": 5}, "no run 5"),
        ({"rewards": (0.5, 1.0)}, "not in the range"),
        ({"target": {0: 0.5, 9: 0.5}}, "no arm 9"),
    ):
        with pytest.raises(ValueError, match=message):
            mb.evaluate(log, arms=ARMS, **options)
    found = mb.evaluate(log, arms=ARMS)
    assert {e.estimator for e in found.estimates} == {"dm", "ipw", "snipw", "clipped-ipw"}
    assert any("aipw needs the rows in their order" in note for note in found.notes)
    with pytest.raises(ValueError, match="stay in the database"):
        found.plot()


def spoiled(name: str, value: Any, at: int = 7) -> pa.Table:
    data = table().select(["arm", "propensity", "reward"])
    values = data[name].to_pylist()
    values[at] = value
    kind = data[name].type
    return data.set_column(data.schema.get_field_index(name), name, pa.array(values, kind))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("propensity", 0.0, "1 rows whose propensity is not in"),
        ("propensity", 1.5, "1 rows whose propensity is not in"),
        ("propensity", float("nan"), "1 rows whose propensity is not in"),
        ("propensity", None, "1 rows whose propensity is not in"),
        ("reward", None, "1 rows whose reward is missing, NaN or infinite"),
        ("reward", float("nan"), "1 rows whose reward is missing, NaN or infinite"),
        ("reward", float("inf"), "1 rows whose reward is missing, NaN or infinite"),
        ("arm", None, "1 rows without an arm"),
        ("arm", 9, "1 rows with arm 9, which is none of the arms"),
    ],
)
def test_rows_that_cannot_be_right_are_counted(
    place: Placing, name: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        mb.evaluate(place(spoiled(name, value)), arms=ARMS)


def test_tables_that_cannot_be_a_log(duckdb: Placing) -> None:
    data = table(["a", "b", "c"])
    for wrong, arms, message in (
        (data.drop_columns("propensity"), None, "no column propensity"),
        (data, None, "does not say of which arms"),
        (data, ["c", "b", "a"], "the arm's probability: are the arms in the order"),
        (data, ["a", "b", "c", "d"], "list that is not of 4 numbers"),
        (data.set_column(0, "arm", pa.array([0.5] * ROWS)), None, "arms must be integers or str"),
        (data.set_column(2, "reward", pa.array(["x"] * ROWS)), None, "must hold numbers"),
        (data.select(["arm", "propensity", "reward"]).slice(0, 0), None, "no rows"),
    ):
        with pytest.raises(ValueError, match=message):
            mb.evaluate(duckdb(wrong), arms=arms)


def test_arms_that_were_possible_or_not(duckdb: Placing) -> None:
    data = pa.table({"arm": [0, 1] * 21, "propensity": [0.45] * 42, "reward": [1.0, 0.0] * 21})
    with pytest.raises(ValueError, match="never played, and no probabilities say"):
        mb.evaluate(duckdb(data), arms=3)
    possible = data.append_column("probabilities", lists([[0.45, 0.45, 0.1]] * 42))
    remote = mb.evaluate(duckdb(possible), arms=3, estimators=LOCAL)
    same(remote, mb.evaluate(mb.Log.read(possible, arms=3), estimators=LOCAL))
    never = data.append_column("probabilities", lists([[0.45, 0.55, 0.0]] * 42))
    never = never.set_column(1, "propensity", pa.array([0.45, 0.55] * 21))
    with pytest.raises(ValueError, match="its probability is 0 in every row"):
        mb.evaluate(duckdb(never), arms=3)


def test_the_target_is_a_joined_table(duckdb: Placing) -> None:
    """A hundred arms are a hundred rows to join, not a hundred cases to go through."""
    from maillard.evaluation.estimators import SNIPW, Setting
    from maillard.evaluation.passes import Pass
    from maillard.evaluation.pushdown import _Scan
    from maillard.evaluation.targets import Fixed
    from maillard.logs.remote import RemoteLog

    data = pa.table({"arm": range(100), "propensity": [0.01] * 100, "reward": [1.0] * 100})
    log = RemoteLog(duckdb(data))
    target = Fixed("uniform", np.full(100, 0.01))
    estimators = {"snipw": SNIPW(Setting(100, 100, target.weights))}
    scan = _Scan(log, Pass(100, target, None, estimators, {}, probabilities=False, prior=0.5))
    rows, sides, kept = scan._rows({})
    terms = [one.term for one in scan._terms(rows, sides, kept)]
    query = ibis.to_sql(rows.select(**{f"t{i}": term for i, term in enumerate(terms)}))
    assert "JOIN" in query
    assert "CASE" not in query
    assert len(query) < 5_000
