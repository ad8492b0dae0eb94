"""Logs: what is written is read, what is wrong is named, and honest logs pass the checks."""

import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import maillard as mb
from maillard.cli import main
from maillard.logs import Log, honesty
from maillard.logs.codes import Coder
from maillard.logs.description import _Tally
from maillard.logs.honesty import CUTS, Evidence, p_value
from maillard.logs.schema import KEY

LABELS = {
    "strings": ["red", "grün", "蓝", ""],
    "numbers in order": [0, 1, 2, 3],
    "numbers": [7, -3, 2**40, 0],
}


def table(rows: int = 100, labels: Any = 3, *, seed: int = 0, every: bool = True) -> pa.Table:
    """An honest log with context, as anybody might make it."""
    rng = np.random.default_rng(seed)
    labels = list(range(labels)) if isinstance(labels, int) else labels
    p = rng.dirichlet(np.ones(len(labels)), rows).reshape(rows, len(labels))
    arm = np.minimum((rng.random(rows)[:, None] > p.cumsum(axis=1)).sum(axis=1), len(labels) - 1)
    columns = {
        "run": pa.array(np.arange(rows) // 10, pa.int32()),
        "round": pa.array(np.arange(rows) % 10 + 1, pa.int32()),
        "time": pa.array(np.arange(rows) * 1_000_003, pa.timestamp("us", "UTC")),
        "arm": pa.array([labels[a] for a in arm]),
        "propensity": pa.array(p[np.arange(rows), arm], pa.float64()),
        "reward": pa.array(rng.random(rows)),
        "country": pa.array([["dé", "🇨🇭", None][i % 3] for i in range(rows)], pa.string()),
        "age": pa.array(rng.integers(18, 99, rows)),
    }
    if every:
        columns["probabilities"] = pa.FixedSizeListArray.from_arrays(p.ravel(), len(labels))
    return pa.table(columns)


def gathered(log: Log, **options: Any) -> dict[str, Any]:
    """All batches put together."""
    batches = list(log.batches(**options))
    first = 0
    for batch in batches:
        assert batch.first_row == first
        first += len(batch.arm)
    names = ("arm", "propensity", "reward", "probabilities", "log_propensity")
    parts = {name: [getattr(batch, name) for batch in batches] for name in names}
    return {k: None if not v or v[0] is None else np.concatenate(v) for k, v in parts.items()}


# --------------------------------------------------------------------------------------------------
# Reading


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_batches_are_the_rows(labels: list[Any], size: int) -> None:
    source = table(50, labels)
    log = Log.read(source, arms=labels)
    found = gathered(log, size=size, probabilities=True)
    assert [labels[i] for i in found["arm"]] == source["arm"].to_pylist()
    assert found["arm"].dtype == np.int32
    assert found["propensity"].tolist() == source["propensity"].to_pylist()
    assert found["reward"].tolist() == source["reward"].to_pylist()
    assert found["probabilities"].tolist() == source["probabilities"].to_pylist()


def test_columns_that_are_asked_for() -> None:
    log = Log.read(table(20), arms=3)
    (batch,) = log.batches()
    assert set(batch.table.schema.names) == {*table(1).schema.names} - {"probabilities"}
    (batch,) = log.batches(columns=())
    assert batch.table.schema.names == ["arm", "propensity", "reward"]
    (batch,) = log.batches(columns=["age", "no such column", "reward"], probabilities=True)
    wanted = ["arm", "propensity", "reward", "age", "probabilities"]
    assert batch.table.schema.names == wanted
    assert batch.log_propensity is None
    with pytest.raises(ValueError, match="at least one row"):
        list(log.batches(size=0))


def test_a_bare_table_is_a_log() -> None:
    log = Log.read(pa.table({"reward": [1, 0], "arm": ["b", "a"], "propensity": [0.5, 1]}))
    assert log.arms == ("a", "b")
    assert gathered(log)["arm"].tolist() == [1, 0]
    assert gathered(log)["reward"].tolist() == [1.0, 0.0]
    assert (log.rows, len(log), log.metadata) == (2, 2, {})


def test_views_are_not_copies() -> None:
    p, reward = np.full(100, 0.5), np.zeros(100)
    arm = np.zeros(100, dtype=np.int32)
    (batch,) = Log.read(pa.table({"arm": arm, "propensity": p, "reward": reward}), arms=2).batches()
    for ours, theirs in ((batch.propensity, p), (batch.reward, reward), (batch.arm, arm)):
        assert np.shares_memory(ours, theirs)


def test_frames_and_other_tables() -> None:
    source = table(30, ["a", "b", "c"])
    plain = source.drop_columns(["probabilities", "time"])
    expected = gathered(Log.read(plain))
    frames = [
        plain.to_pandas(),
        pl.from_arrow(plain),
        pl.from_arrow(plain).with_columns(pl.col("arm").cast(pl.Categorical)),
        plain.to_batches()[0],
        pa.RecordBatchReader.from_batches(plain.schema, plain.to_batches(7)),
        pyarrow.dataset.dataset(plain),
    ]
    for frame in frames:
        found = gathered(Log.read(frame))
        for name in ("arm", "propensity", "reward"):
            assert np.array_equal(found[name], expected[name])
    whole = Log.read(source, arms=["a", "b", "c"])
    assert pl.DataFrame(whole).height == 30
    assert list(whole.to_pandas().columns) == list(whole.to_arrow().column_names)
    assert isinstance(whole.to_pandas(), pd.DataFrame)


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64(),
        pa.dictionary(pa.int8(), pa.int64()),
    ],
)  # fmt: skip
def test_integer_labels_of_any_width(kind: pa.DataType) -> None:
    column = pa.array([2, 0, 5, None, 2], pa.int64())
    column = column.dictionary_encode().cast(kind) if "dict" in str(kind) else column.cast(kind)
    assert Coder([0, 2])(column).tolist() == [1, 0, -1, -1, 1]
    assert Coder([0, 1, 2])(column).tolist() == [2, 0, -1, -1, 2]
    assert Coder([])(column).tolist() == [-1] * 5


def test_huge_integers_are_not_taken_for_others() -> None:
    column = pa.array([2**64 - 1, 2**32, 1], pa.uint64())
    assert Coder([0, 1])(column).tolist() == [-1, -1, 1]
    column = pa.array([-1, 2**32, 1], pa.int64())
    assert Coder([0, 1])(column).tolist() == [-1, -1, 1]


def test_dictionaries_may_differ_from_batch_to_batch() -> None:
    parts = [pa.array(x).dictionary_encode() for x in (["b", "a"], ["a", "c", "b"], ["c", None])]
    column = pa.chunked_array(parts)
    source = pa.table({"arm": column, "propensity": [1.0] * 7, "reward": [0.0] * 7})
    assert Log.read(source).arms == ("a", "b", "c")
    found = gathered(Log.read(source.slice(0, 6), arms=["c", "b", "a"]))
    assert found["arm"].tolist() == [1, 2, 2, 0, 1, 0]


def test_pieces_are_the_whole_in_order(tmp_path: Path) -> None:
    log = Log.read(table(1000), arms=3)
    log.write(tmp_path / "one.parquet")
    for start in range(0, 1000, 300):
        part = Log.read(table(1000).slice(start, 300), arms=3)
        part.write(tmp_path / "many", append=True)
    log.write(tmp_path / "log.arrow")
    for path in ("one.parquet", "many", "log.arrow"):
        whole = Log.read(tmp_path / path)
        for count in (1, 2, 3, 50):
            pieces = whole.pieces(count)
            assert 1 <= len(pieces) <= count
            assert sum(len(piece) for piece in pieces) == 1000
            pieces = [pickle.loads(pickle.dumps(piece)) for piece in pieces]
            found = [batch for piece in pieces for batch in piece.batches(size=64)]
            rewards = np.concatenate([batch.reward for batch in found])
            assert np.array_equal(rewards, gathered(log)["reward"])
            starts = np.cumsum([0, *(len(batch.arm) for batch in found[:-1])])
            assert [batch.first_row for batch in found] == starts.tolist()


def test_pieces_of_a_table() -> None:
    pieces = Log.read(table(10), arms=3).pieces(3)
    assert [(piece.first_row, len(piece)) for piece in pieces] == [(0, 3), (3, 3), (6, 4)]
    assert len(Log.read(table(0), arms=3).pieces(3)) == 1


# --------------------------------------------------------------------------------------------------
# Writing


@given(
    labels=st.one_of(
        st.lists(st.text(max_size=8), min_size=2, max_size=5, unique=True),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=5, unique=True),
    ),
    rows=st.sampled_from([0, 1, 2, 17]),
    ending=st.sampled_from([".parquet", ".arrow", ".dsjson", ""]),
)
def test_round_trips(
    labels: list[Any], rows: int, ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Surrogates are no text that a file could hold; the labels of policies cannot be files' either.
    labels = [x.encode("utf-8", "ignore").decode() if isinstance(x, str) else x for x in labels]
    labels = list(dict.fromkeys(labels))
    path = tmp_path_factory.mktemp("logs") / f"log{ending}"
    source = table(rows, labels)
    metadata = {"policy": "kl-ms", "rewards": [0.0, 1.0], "note": {"größe": [1, None]}}
    log = Log(Log.read(source, arms=labels).source, arms=labels, metadata=metadata)
    log.write(path)
    back = Log.read(path).check()
    assert back.arms == tuple(labels)
    assert back.metadata == metadata
    assert back.to_arrow().equals(log.to_arrow(), check_metadata=True)
    assert back.to_arrow().select(source.column_names).drop_columns("arm").to_pylist() == (
        source.drop_columns("arm").to_pylist()
    )
    assert back.to_arrow()["arm"].to_pylist() == source["arm"].to_pylist()


def test_metadata_keeps_infinite_ranges(tmp_path: Path) -> None:
    log = Log(Log.read(table(5), arms=3).source, arms=3, metadata={"rewards": (0.0, math.inf)})
    log.write(tmp_path / "log.parquet")
    assert Log.read(tmp_path / "log.parquet").check().metadata == {"rewards": [0.0, "inf"]}


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    bad = table(100).to_pandas()
    bad.loc[60, "reward"] = math.nan
    broken = Log.read(bad, arms=3)
    for name in ("log.parquet", "log.arrow", "log.csv", "log.dsjson", "folder"):
        path = tmp_path / name
        with pytest.raises(ValueError, match="row 60: the reward is missing or NaN"):
            broken.write(path)
        assert list(tmp_path.iterdir()) == []
        Log.read(table(3), arms=3).write(path)
        before = sorted((f, f.stat().st_size) for f in path.parent.rglob("*"))
        with pytest.raises(ValueError, match=r"row 60|holds a log already"):
            broken.write(path)
        with pytest.raises(ValueError, match=r"row 60|is a file|already"):
            broken.write(path, append=True)
        assert sorted((f, f.stat().st_size) for f in path.parent.rglob("*")) == before
        for file in sorted(tmp_path.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()


def test_appending(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    first, second = table(40), table(40, seed=1)
    second = second.set_column(0, "run", pa.array(np.arange(40) // 10 + 4, pa.int32()))
    Log.read(first, arms=3).write(folder)
    with pytest.raises(ValueError, match="holds a log already; append=True adds to it"):
        Log.read(second, arms=3).write(folder)
    with pytest.raises(ValueError, match="holds runs 0 to 3 already: number the new ones from 4"):
        Log.read(first, arms=3).write(folder, append=True)
    with pytest.raises(ValueError, match="has other arms"):
        Log.read(table(5, 4), arms=4).write(folder, append=True)
    with pytest.raises(ValueError, match="has other columns"):
        Log.read(second.drop_columns("age"), arms=3).write(folder, append=True)
    Log.read(second, arms=3).write(folder, append=True)
    both = Log.read(folder)
    assert both.to_arrow()["reward"].to_pylist() == [
        *first["reward"].to_pylist(), *second["reward"].to_pylist(),
    ]  # fmt: skip
    assert len(list(folder.iterdir())) == 2
    pattern = Log.read(str(folder / "part-*.parquet"))
    assert len(pattern) == len(Log.read(sorted(folder.iterdir()))) == len(both) == 80


def test_files_that_disagree(tmp_path: Path) -> None:
    def write(name: str, arms: int, **metadata: Any) -> None:
        log = Log.read(table(4, arms), arms=arms)
        Log(log.source, arms=arms, metadata=metadata).write(tmp_path / name)

    write("a.parquet", 3, policy="kl-ms", seed=1)
    write("b.parquet", 3, policy="kl-ms", seed=2)
    assert Log.read(tmp_path).metadata == {"policy": "kl-ms"}
    write("c.parquet", 4)
    with pytest.raises(ValueError, match=r"a.parquet and .*c.parquet have different arms"):
        Log.read(tmp_path)
    (tmp_path / "c.parquet").unlink()
    pq.write_table(table(4).drop_columns("age"), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="different arms"):
        Log.read(tmp_path)
    plain = tmp_path / "plain"
    plain.mkdir()
    pq.write_table(table(4, every=False), plain / "1.parquet")
    pq.write_table(table(4, every=False).drop_columns("age"), plain / "2.parquet")
    assert "age" not in Log.read(plain).columns
    odd = table(4, every=False)
    odd = odd.set_column(5, "reward", pa.array([1, 0, 1, 0]))
    pq.write_table(odd, plain / "3.parquet")
    with pytest.raises(ValueError, match=r"column reward is double in .* but int64 in"):
        Log.read(plain)


def test_other_folders_and_names(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Log.read(tmp_path / "nothing.parquet")
    with pytest.raises(FileNotFoundError, match="holds no Parquet files"):
        Log.read(tmp_path)
    with pytest.raises(FileNotFoundError, match="no file is like"):
        Log.read(str(tmp_path / "*.parquet"))
    (tmp_path / "x.parquet").write_bytes(b"not Parquet at all")
    with pytest.raises(ValueError, match=r"x.parquet is not a Parquet file"):
        Log.read(tmp_path)
    (tmp_path / "x.arrow").write_bytes(b"not Arrow at all")
    with pytest.raises(ValueError, match=r"x.arrow is not an Arrow file"):
        Log.read(tmp_path / "x.arrow")
    (tmp_path / "x.txt").write_text("arm")
    with pytest.raises(ValueError, match="the ending does not say what is in it; give format="):
        Log.read(tmp_path / "x.txt")
    with pytest.raises(ValueError, match="unknown format 'xml'"):
        Log.read(tmp_path / "x.txt", format="xml")
    with pytest.raises(ValueError, match="mixes the formats arrow and parquet"):
        Log.read([tmp_path / "x.arrow", tmp_path / "x.parquet"])
    with pytest.raises(ValueError, match="a path, a table or a list of rows, not from int"):
        Log.read(3)
    with pytest.raises(ValueError, match="the list holds no rows"):
        Log.read([])
    with pytest.raises(ValueError, match="has no option position"):
        Log.read(tmp_path / "x.parquet", position=1)
    with pytest.raises(ValueError, match="the ending does not say"):
        Log.read(table(3), arms=3).write(tmp_path / "y.txt")
    result = {"kind": "simulation", "format": 1}
    pq.write_table(
        table(1).replace_schema_metadata({KEY: json.dumps(result)}), tmp_path / "x.parquet"
    )
    with pytest.raises(ValueError, match="the log's metadata is damaged: 'arms'"):
        Log.read(tmp_path / "x.parquet")
    result |= {"arms": None}
    pq.write_table(
        table(1).replace_schema_metadata({KEY: json.dumps(result)}), tmp_path / "x.parquet"
    )
    with pytest.raises(ValueError, match="holds a simulation, not a log of decisions"):
        Log.read(tmp_path / "x.parquet")


# --------------------------------------------------------------------------------------------------
# What cannot be right


def spoiled(**changes: dict[int, Any]) -> pa.Table:
    """A log of 100 rows in which some values are others."""
    source = table(100, 3)
    columns = {name: source[name].to_pylist() for name in source.column_names}
    for name, rows in changes.items():
        for row, value in rows.items():
            columns[name][row] = value
    kinds = {"probabilities": pa.list_(pa.float64())}
    return pa.table(
        {k: pa.array(v, kinds.get(k, source.schema.field(k).type)) for k, v in columns.items()}
    )


SPOILED: dict[str, tuple[dict[str, dict[int, Any]], list[str]]] = {
    "propensity 0": ({"propensity": {64: 0.0}}, ["row 64: propensity 0.0 is not in (0, 1]"]),
    "above 1": ({"propensity": {99: 1.5}}, ["row 99: propensity 1.5 is not in (0, 1]"]),
    "below 0": ({"propensity": {0: -0.5}}, ["row 0: propensity -0.5 is not in (0, 1]"]),
    "propensity NaN": ({"propensity": {31: math.nan}}, ["row 31: the propensity is missing"]),
    "no propensity": ({"propensity": {32: None}}, ["row 32: the propensity is missing"]),
    "infinite": ({"propensity": {32: math.inf}}, ["row 32: propensity inf is not in (0, 1]"]),
    "no arm": ({"arm": {33: None}}, ["row 33: the arm is missing"]),
    "other arm": ({"arm": {34: 17}}, ["row 34: arm 17 is none of the arms"]),
    "reward NaN": ({"reward": {63: math.nan}}, ["row 63: the reward is missing or NaN"]),
    "no reward": ({"reward": {65: None}}, ["row 65: the reward is missing or NaN"]),
    "infinite reward": ({"reward": {1: -math.inf}}, ["row 1: reward -inf is not in [0, 1]"]),
    "reward outside": ({"reward": {2: 1.25}}, ["row 2: reward 1.25 is not in [0, 1]"]),
    "sum": (
        {"probabilities": {97: [0.5, 0.25, 0.5]}},
        ["row 97: the probabilities sum to 1.25, not to 1"],
    ),
    "negative": (
        {"probabilities": {96: [1.5, -0.5, 0.0]}},
        ["row 96: a probability is negative or NaN"],
    ),
    "several": (
        {"propensity": {3: 2.0}, "reward": {70: None, 5: math.nan}, "arm": {5: None}},
        [
            "row 3: propensity 2.0 is not in (0, 1]",
            "row 5: the arm is missing",
            "row 5: the reward is missing or NaN",
            "row 70: the reward is missing or NaN",
        ],
    ),
}


@pytest.mark.parametrize("size", [1, 32, 100, 1 << 16])
@pytest.mark.parametrize("case", SPOILED)
def test_what_is_wrong_is_named_with_its_row(case: str, size: int) -> None:
    changes, said = SPOILED[case]
    log = Log.read(spoiled(**changes), arms=3)
    log.metadata = {"rewards": [0.0, 1.0]}
    with pytest.raises(ValueError, match="its first row is 0") as error:
        list(log.batches(size=size, probabilities=True))
    assert "\n" not in str(error.value)
    for words in said:
        assert words in str(error.value)
    with pytest.raises(ValueError, match="its first row is 0"):
        log.check()


@pytest.mark.parametrize("size", [1, 32, 1000])
def test_a_propensity_that_is_not_the_arms_probability(size: int) -> None:
    source = table(100)
    arm, p = source["arm"].to_pylist()[77], source["propensity"].to_pylist()[77]
    log = Log.read(spoiled(propensity={77: p * 0.99}), arms=3)
    with pytest.raises(ValueError, match=f"row 77: propensity {p * 0.99:.9g} is not the arm's"):
        list(log.batches(size=size, probabilities=True))
    other = (arm + 1) % 3
    with pytest.raises(ValueError, match=r"row 77: propensity .* is not the arm's probability"):
        list(Log.read(spoiled(arm={77: other}), arms=3).batches(size=size, probabilities=True))


def test_problems_are_counted_up_to_a_few() -> None:
    log = Log.read(spoiled(propensity=dict.fromkeys(range(20, 90), 2.0)), arms=3)
    with pytest.raises(ValueError, match="and more") as error:
        list(log.batches(size=10))
    assert str(error.value).count("row ") == 6  # five, and the remark on the first row
    assert "row 24" in str(error.value)
    assert "row 25" not in str(error.value)


def test_nothing_is_handed_out_once_something_is_wrong() -> None:
    log = Log.read(spoiled(propensity={45: 2.0}), arms=3)
    seen = []
    with pytest.raises(ValueError, match="row 45"):
        seen.extend(batch.first_row for batch in log.batches(size=10))
    assert seen == [0, 10, 20, 30]


def test_checks_can_be_left_out_but_arms_must_be_arms() -> None:
    log = Log.read(spoiled(propensity={3: 2.0}), arms=3, check=False)
    assert gathered(log, size=16)["propensity"][3] == 2.0
    with pytest.raises(ValueError, match="row 40: arm 9 is none of the arms"):
        list(Log.read(spoiled(arm={40: 9}), arms=3, check=False).batches(size=16))


@pytest.mark.parametrize("lists", [[0.5, 0.5], None])
def test_ragged_probabilities(lists: Any) -> None:
    log = Log.read(spoiled(probabilities={41: lists}), arms=3)
    what = "the probabilities are missing" if lists is None else "2 probabilities for 3 arms"
    with pytest.raises(ValueError, match=rf"row 41: .*{what}"):
        list(log.batches(size=20, probabilities=True))


def test_single_precision_is_close_enough() -> None:
    source = table(200, 5)
    p = np.array(source["probabilities"].to_pylist(), dtype=np.float32)
    lists = pa.FixedSizeListArray.from_arrays(p.ravel(), 5)
    source = source.set_column(source.column_names.index("probabilities"), "probabilities", lists)
    Log.read(source, arms=5).check()


def test_a_frame_whose_labels_are_of_two_kinds() -> None:
    frame = pd.DataFrame({"arm": [0, "a"], "propensity": [0.5, 0.5], "reward": [0.0, 1.0]})
    with pytest.raises(ValueError, match="the table cannot be read: Could not convert 'a'"):
        Log.read(frame)


def test_columns_that_cannot_be_a_log() -> None:
    good = {"arm": [0, 1], "propensity": [0.5, 0.5], "reward": [0.0, 1.0]}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"arm": [0]}, "has no column propensity and no column reward.*it has arm"),
        (good | {"arm": [0.0, 1.0]}, "arms must be integers or strings, not double"),
        (good | {"arm": [True, False]}, "arms must be integers or strings, not bool"),
        (good | {"reward": ["a", "b"]}, "the column reward must hold numbers, not string"),
        (good | {"log_propensity": ["a", "b"]}, "the column log_propensity must hold numbers"),
        (good | {"probabilities": [1.0, 1.0]}, "must hold lists of numbers, not double"),
        (good | {"probabilities": [[1.0], [1.0]]}, "does not say of which arms: give arms="),
    ]
    for columns, said in cases:
        with pytest.raises(ValueError, match=said):
            Log.read(pa.table(columns))
    doubled = pa.Table.from_arrays([pa.array([1])] * 4, ["arm", "propensity", "reward", "reward"])
    with pytest.raises(ValueError, match="has the column reward more than once"):
        Log.read(doubled)
    with pytest.raises(ValueError, match="the column arm holds int64, but the arms are 'a', 'b'"):
        Log.read(pa.table(good), arms=["a", "b"])
    labelled = Log.read(table(3), arms=3).to_arrow()
    with pytest.raises(ValueError, match="of the arms 0, 1, 2: they cannot be others"):
        Log.read(labelled, arms=[2, 1, 0])
    assert Log.read(labelled.drop_columns("probabilities"), arms=5).arms == (0, 1, 2, 3, 4)
    for arms, said in (([0, "a"], "all integers or all strings"), ([0, 0], "named twice"),
                       ("ab", "a number or a list"), ([1.5], "string or an integer"),
                       ([2**70, 1], "64 bits")):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            Log.read(pa.table(good), arms=arms)


# --------------------------------------------------------------------------------------------------
# Describing


def test_a_description_by_hand() -> None:
    every = [[0.5, 0.5], [0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]
    source = pa.table({
        "run": [0, 0, 1, 1],
        "round": [1, 2, 1, 2],
        "arm": ["a", "b", "a", "a"],
        "propensity": [0.5, 0.75, 1.0, 0.5],
        "reward": [1.0, 0.0, 0.5, 0.75],
        "probabilities": every,
    })  # fmt: skip
    found = Log.read(source, arms=["a", "b"]).describe().to_dict()
    assert (found["rows"], found["runs"], found["rounds_in_order"]) == (4, 2, True)
    assert found["rewards"] == {"mean": 0.5625, "smallest": 0.0, "largest": 1.0}
    first, second = found["arms"]
    assert (first["pulls"], first["mean_reward"], first["expected_pulls"]) == (3, 0.75, 2.25)
    assert (second["pulls"], second["mean_reward"], second["expected_pulls"]) == (1, 0.0, 1.75)
    assert first["standard_deviation"] == pytest.approx(0.25)
    assert second["standard_deviation"] is None
    assert (first["smallest_propensity"], second["smallest_propensity"]) == (0.5, 0.75)
    # Σp(1−p) = 1/4 + 3/16 + 0 + 1/4 = 11/16.
    assert first["standard_score"] == pytest.approx(0.75 / math.sqrt(11 / 16))
    weights = [Fraction(1), Fraction(2, 3), Fraction(1, 2), Fraction(1)]
    effective = sum(weights) ** 2 / sum(w * w for w in weights)
    assert found["uniform"]["effective_sample_size"] == pytest.approx(float(effective))
    assert found["uniform"]["largest_weight_share"] == pytest.approx(float(1 / sum(weights)))
    assert found["uniform"]["zero_propensities"] == 1
    check = found["checks"][0]
    assert check["mean_weight"] == pytest.approx(float(sum(weights)) / 4)
    assert check["expected"] == pytest.approx(3.5 / 4)
    assert "1 rows gave some arm probability zero" in check["sentence"]
    assert sum(one["rows"] for one in found["propensities"]) == 4
    assert {one["up_to"]: one["rows"] for one in found["propensities"]}[0.5] == 2
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_rewards_are_merged_as_if_at_once(size: int) -> None:
    source = table(500, 4)
    tally = _Tally(4)
    for batch in Log.read(source, arms=4).batches(size):
        tally.add(batch, batch.table["run"].to_numpy(), batch.table["round"].to_numpy())
    arm, reward = (np.array(source[name]) for name in ("arm", "reward"))
    for i in range(4):
        own = reward[arm == i]
        assert tally.counts[i] == len(own)
        assert tally.means[i] == pytest.approx(own.mean(), rel=1e-13)
        assert tally.squares[i] == pytest.approx(((own - own.mean()) ** 2).sum(), rel=1e-11)
    assert (tally.runs, tally.ordered) == (50, True)
    assert (tally.low, tally.high) == (reward.min(), reward.max())


def test_hostile_logs_are_described() -> None:
    empty = Log.read(table(0, every=False)).describe().to_dict()
    assert empty["rows"] == 0
    assert empty["checks"][0]["sentence"] == "The log has no rows."
    one = Log.read(table(1), arms=3).describe().to_dict()
    assert one["rows"] == 1
    single = Log.read(
        pa.table({"arm": ["a"] * 9, "propensity": [1.0] * 9, "reward": [0.5] * 9})
    ).describe()
    assert single.checks[0].p == 1.0
    backwards = Log.read(table(20).take(list(range(19, -1, -1))), arms=3).describe()
    assert backwards.ordered is False
    assert backwards.checks[2].p is None
    assert "not in order" in backwards.checks[2].sentence
    for found in (empty, one, single.to_dict()):
        json.dumps(found, allow_nan=False)


def test_without_probabilities_only_one_side_can_be_told() -> None:
    log = Log.read(table(500, 3, every=False))
    weight, counts, late = log.describe().checks
    assert weight.p == 1.0
    assert weight.facts["two_sided"] is False
    assert counts.p is None
    assert late.p is None
    assert "has no column `probabilities`" in counts.sentence
    # Of two arms, one probability says both.
    assert all(
        check.p is not None for check in Log.read(table(500, 2, every=False)).describe().checks
    )


def test_counts_of_a_bare_log_whose_propensities_never_change() -> None:
    """A constant policy's log says the probabilities of all rows without a column of them."""
    rng = np.random.default_rng(0)
    p = np.array([0.5, 0.3, 0.2])
    honest = rng.choice(3, 5_000, p=p)
    ones = np.ones(5_000)

    def counts(propensity: Any, arm: Any = honest) -> Any:
        bare = pa.table({"arm": arm, "propensity": propensity, "reward": ones})
        found = Log.read(bare).describe()
        return found.checks[1], [one["expected_pulls"] for one in found.arms]

    for arm, suspicious in ((honest, False), (rng.integers(0, 3, 5_000), True)):
        check, expected = counts(p[arm].round(6), arm)
        assert check.suspicious is suspicious
        assert check.sentence.startswith("Every arm has the same propensity in all its rows")
        np.testing.assert_allclose(expected, 5_000 * p)
    # Neither propensities that change nor those that leave something over say the others'.
    for propensity in (np.linspace(0.2, 0.5, 5_000), 0.5 * p[honest]):
        check, expected = counts(propensity)
        assert check.p is None
        assert expected == [None] * 3


# --------------------------------------------------------------------------------------------------
# Can the probabilities be true? An exact law: e-values by enumeration of all that may happen.


def _enumerated(arms: int, depth: int) -> list[tuple[Fraction, list[int], list[list[Fraction]]]]:
    """All histories of a policy whose probabilities depend on what it chose."""
    histories: list[tuple[Fraction, list[int], list[list[Fraction]]]] = [(Fraction(1), [], [])]
    for step in range(depth):
        grown = []
        for chance, chosen, rows in histories:
            raw = [Fraction(1 + 3 * chosen.count(a) + (a == step % arms), 1) for a in range(arms)]
            if step % 2:
                raw[chosen[-1]] = Fraction(0)  # sometimes an arm is impossible
            p = [x / sum(raw) for x in raw]
            grown += [(chance * p[a], [*chosen, a], [*rows, p]) for a in range(arms) if p[a] > 0]
        histories = grown
    return histories


@pytest.mark.parametrize(("arms", "depth"), [(2, 6), (3, 5)])
def test_e_values_have_expectation_at_most_one(arms: int, depth: int) -> None:
    total = {"weights": 0.0, "counts": 0.0, "shift": 0.0, "stakes": 0.0}
    mass = Fraction(0)
    for chance, chosen, rows in _enumerated(arms, depth):
        evidence = Evidence(arms)
        every = np.array([[float(x) for x in row] for row in rows])
        evidence.add(np.array(chosen, dtype=np.int32), every[np.arange(depth), chosen], every)
        mass += chance
        weight = float(chance)
        total["weights"] += weight * math.exp(evidence.weight_evidence())
        total["counts"] += weight * np.exp(evidence.count_evidence()).mean()
        total["shift"] += weight * math.exp(evidence.shift_evidence())
        total["stakes"] += weight * np.exp(evidence.wealth).mean()
    assert mass == 1
    assert all(value <= 1.0 + 1e-12 for value in total.values()), total
    # The likelihood ratio is a martingale: nothing is given away where no arm is impossible.
    assert total["shift"] > 0.3


def test_sums_do_not_depend_on_the_batches() -> None:
    source = table(999, 4)
    log = Log.read(source, arms=4)
    found = []
    for size in (1, 10, 999):
        evidence = Evidence(4)
        for batch in log.batches(size=size, probabilities=True):
            run = batch.table.column("run").to_numpy()
            evidence.add(batch.arm, batch.propensity, batch.probabilities, run)
        found.append(evidence)
    for other in found[1:]:
        for name in ("pulls", "expected", "spread", "excess", "variance", "wealth", "ratio"):
            ours, theirs = getattr(found[0], name), getattr(other, name)
            assert np.allclose(ours, theirs, rtol=1e-10, atol=1e-9)
        assert (other.zeros, other.pairs, other.complete) == (0, 999 - 100, 999)


def test_sums_by_hand() -> None:
    """Against plain loops."""
    source = table(60, 3)
    every = np.array(source["probabilities"].to_pylist())
    arm = np.array(source["arm"].to_pylist(), dtype=np.int32)
    evidence = Evidence(3)
    evidence.add(arm, every[np.arange(60), arm], every, np.array(source["run"].to_pylist()))
    for i, cut in enumerate(CUTS):
        excess = variance = 0.0
        for t in range(60):
            capped = [min(1 / (3 * p), cut) for p in every[t]]
            mean = sum(p * w for p, w in zip(every[t], capped))
            excess += capped[arm[t]] - mean
            variance += sum(p * (w - mean) ** 2 for p, w in zip(every[t], capped))
        assert evidence.excess[i] == pytest.approx(excess, rel=1e-10, abs=1e-12)
        assert evidence.variance[i] == pytest.approx(variance, rel=1e-10, abs=1e-12)
    ratio = 0.0
    for t in range(1, 60):
        if t % 10:
            ratio += math.log(1 + 0.3 * (every[t - 1][arm[t]] / every[t][arm[t]] - 1))
    assert evidence.ratio[1] == pytest.approx(ratio, rel=1e-12)


def test_freedman_by_hand() -> None:
    scales = [2.0**k for k in range(3, -21, -1)]
    for total, variance, up, down in ((3.0, 2.0, 1.0, 1.0), (-40.0, 30.0, 16.0, 1.0)):
        terms = [
            math.exp(s / bound * sign * total - (math.exp(s) - 1 - s) / bound**2 * variance)
            for sign, bound in ((1, up), (-1, down))
            for s in scales
        ]
        found = float(honesty.freedman(total, variance, up, down))
        assert found == pytest.approx(math.log(sum(terms) / len(terms)), rel=1e-9)


def kl_ms_logs(
    means: list[float], rounds: int, runs: int, seed: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """arm[run, t] and p[run, t, arm] of KL-MS on Bernoulli arms, one round more than asked for."""
    rng, arms = np.random.default_rng(seed), len(means)
    pulls, totals = np.zeros((runs, arms)), np.zeros((runs, arms))
    chosen = np.zeros((runs, rounds + 1), dtype=np.int32)
    p = np.zeros((runs, rounds + 1, arms))
    tiny = 1e-300
    for t in range(rounds + 1):
        mean = totals / np.maximum(pulls, 1)
        best = np.minimum(mean.max(axis=1, keepdims=True), 1.0)
        kl = np.where(mean > 0, mean * np.log(np.maximum(mean, tiny) / np.maximum(best, tiny)), 0)
        kl += np.where(
            mean < 1,
            (1 - mean) * np.log(np.maximum(1 - mean, tiny) / np.maximum(1 - best, tiny)),
            0,
        )
        weight = np.exp(-pulls * np.maximum(kl, 0.0))
        waiting = pulls == 0
        weight = np.where(waiting.any(axis=1, keepdims=True), waiting, weight)
        p[:, t] = weight / weight.sum(axis=1, keepdims=True)
        u = rng.random(runs)[:, None]
        chosen[:, t] = np.minimum((u >= p[:, t].cumsum(axis=1)).sum(axis=1), arms - 1)
        rows = np.arange(runs)
        pulls[rows, chosen[:, t]] += 1
        totals[rows, chosen[:, t]] += rng.random(runs) < np.array(means)[chosen[:, t]]
    return chosen, p


def p_values(arm: Any, every: Any, complete: bool = True) -> list[float]:
    """Those of one log, by the three checks."""
    evidence = Evidence(every.shape[1])
    own = every[np.arange(len(arm)), arm]
    evidence.add(arm, own, every if complete else None)
    counts = np.logaddexp.reduce(evidence.count_evidence()) - math.log(every.shape[1])
    return [
        p_value(evidence.weight_evidence()),
        p_value(counts),
        p_value(evidence.shift_evidence()),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("means", [[0.8, 0.9], [0.2, 0.25], [0.2, 0.4, 0.6]])
def test_honest_logs_of_a_learning_policy_pass(means: list[float]) -> None:
    """P(p ≤ 5 %) ≤ 5 % for each check: 400 logs, an alarm by chance below 1e-6 at 49 of them."""
    arm, p = kl_ms_logs(means, 1000, 400, seed=3)
    found = np.array([p_values(arm[i], p[i]) for i in range(400)])
    assert ((found <= 0.05).sum(axis=0) <= 48).all()
    alone = np.array([p_values(arm[i], p[i], complete=False)[0] for i in range(400)])
    assert (alone <= 0.05).sum() <= 48


def test_honest_uniform_logs_pass() -> None:
    rng = np.random.default_rng(4)
    every = np.full((1000, 5), 0.2)
    found = np.array(
        [p_values(rng.integers(0, 5, 1000).astype(np.int32), every) for _ in range(200)]
    )
    # 34 of 200 are as unlikely as 1e-9 at a level of 5 %.
    assert ((found <= 0.05).sum(axis=0) < 34).all()


@pytest.mark.slow
def test_probabilities_that_are_one_row_late_are_found() -> None:
    """The classic: the probabilities are read after the update. Counts cannot see it."""
    runs, rounds = 60, 2000
    arm, p = kl_ms_logs([0.8, 0.9], rounds, runs, seed=5)
    late = Evidence(2)
    honest = Evidence(2)
    kept = 0
    for i in range(runs):
        mine, shifted = arm[i, 2:-1], p[i, 3:]
        own = shifted[np.arange(len(mine)), mine]
        if own.min() > 0.0:  # else validation has refused it
            kept += 1
            late.add(mine, own, shifted, np.full(len(mine), i))
            true = p[i, 2:-1]
            honest.add(mine, true[np.arange(len(mine)), mine], true, np.full(len(mine), i))
    assert kept > 10
    assert p_value(late.shift_evidence()) < 1e-6
    assert p_value(honest.shift_evidence()) > 0.05
    assert p_value(float(late.count_evidence().max())) > 0.05


def test_arms_that_were_not_drawn_from_the_probabilities_are_found() -> None:
    rng = np.random.default_rng(6)
    every = np.tile([0.7, 0.2, 0.1], (2000, 1))
    greedy = np.zeros(2000, dtype=np.int32)
    wrong = rng.choice(3, 2000, p=[0.6, 0.25, 0.15]).astype(np.int32)
    for arm in (greedy, wrong):
        weights, counts, _ = p_values(arm, every)
        assert counts < 1e-6
        assert weights < 1e-6
    # Without the other arms' probabilities, weights that are too large can still be seen.
    assert p_values(wrong, every, complete=False)[0] < 1e-6


# --------------------------------------------------------------------------------------------------
# The command line


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_describe_on_the_command_line(tmp_path: Path) -> None:
    Log.read(table(300, ["red", "green", "blue"]), arms=["red", "green", "blue"]).write(
        tmp_path / "logs"
    )
    text = " ".join(run("logs", "describe", str(tmp_path / "logs")).split())
    for words in ("300 rows, 30 runs, 3 arms", "green", "█", "effective sample size",
                  "mean weight:", "counts:", "one row late:"):  # fmt: skip
        assert words in text
    found = json.loads(run("logs", "describe", str(tmp_path / "logs"), "--json"))
    assert found == Log.read(tmp_path / "logs").describe().to_dict()


def test_check_and_convert_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    Log.read(table(30), arms=3).write(path)
    assert "30 rows, nothing wrong" in run("logs", "check", str(path))
    for name in ("log.csv", "log.dsjson", "log.arrow", "folder"):
        assert "30 rows" in run("logs", "convert", str(path), str(tmp_path / name))
        assert Log.read(tmp_path / name).check().arms == (0, 1, 2)
    pq.write_table(spoiled(reward={4: None}), path)
    output = run("logs", "check", str(path), "--arms", "3", code=2)
    assert output.count("\n") == 1
    assert "row 4: the reward is missing or NaN" in output
    assert run("logs", "describe", str(tmp_path / "no"), code=2).count("\n") == 1


def test_logs_import_neither_numba_nor_matplotlib(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    Log.read(table(30), arms=3).write(path)
    code = (
        "import sys, maillard as mb\n"
        f"log = mb.Log.read({str(path)!r}); log.check(); log.describe()\n"
        f"log.write({str(tmp_path / 'x.dsjson')!r}); log.write({str(tmp_path / 'x.csv')!r})\n"
        "heavy = {'numba', 'matplotlib', 'scipy', 'polars'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names() -> None:
    assert mb.Log is Log
    assert repr(Log.read(table(5), arms=3)) == "Log(the table: 5 rows)"


def test_rows_and_columns_of_plain_python() -> None:
    rows = [
        {"arm": "a", "propensity": 0.5, "reward": 1},
        {"arm": "b", "propensity": 0.25, "reward": 0, "page": "home"},
    ]
    columns = {"arm": np.array(["a", "b"]), "propensity": [0.5, 0.25], "reward": [1, 0]}
    for source in (rows, tuple(rows), columns):
        log = Log.read(source).check()
        (batch,) = log.batches()
        assert log.arms == ("a", "b")
        assert batch.propensity.tolist() == [0.5, 0.25]
    assert Log.read(rows).to_arrow()["page"].to_pylist() == [None, "home"]
    with pytest.raises(ValueError, match="these columns are no table"):
        Log.read({"arm": [1, 2], "propensity": [0.5], "reward": [1.0]})
    with pytest.raises(ValueError, match="these columns are no table"):
        Log.read([{"arm": 1, "propensity": 0.5}, {"arm": "b", "propensity": "x"}])
