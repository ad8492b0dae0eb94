"""Other people's formats: CSV, the Open Bandit Dataset's layout, Vowpal Wabbit's dsjson."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maillard.logs import Log
from test_logs import gathered, table

# --------------------------------------------------------------------------------------------------
# CSV


def test_a_bare_csv(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('arm,propensity,reward,city\nred,0.5,1,Basel\n"a,b",0.25,0,"two\nlines"\n')
    log = Log.read(path)
    assert log.rows is None
    assert log.arms == ("a,b", "red")
    found = log.to_arrow()
    assert log.rows == 2
    assert found["reward"].to_pylist() == [1.0, 0.0]
    assert found["city"].to_pylist() == ["Basel", "two\nlines"]
    zipped = tmp_path / "log.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert Log.read(zipped).to_arrow().equals(found)


def test_csv_types_do_not_depend_on_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,propensity,reward\n" + "1,1,0\n" * 400_000 + "2,0.5,0.25\n")
    log = Log.read(path)
    assert log.arms == (1, 2)
    (last,) = list(log.batches(size=1 << 20))[-1:]
    assert last.reward[-1] == 0.25
    path.write_text("arm,propensity,reward\n" + "1,1,0\n" * 800_000 + "x,0.5,0.25\n")
    with pytest.raises(ValueError, match="need arms=, the list of them as strings"):
        len(Log.read(path))
    assert Log.read(path, arms=["1", "x"]).check().rows == 800_001


@given(
    labels=st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=4, unique=True),
        st.lists(
            st.text(st.characters(exclude_characters="\r\x00", codec="utf-8"), min_size=1),
            min_size=2, max_size=4, unique=True,
        ),
    ),
    rows=st.sampled_from([0, 1, 2, 30]),
)  # fmt: skip
def test_csv_round_trips(
    labels: list[Any], rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("csv") / "log.csv"
    log = Log.read(table(rows, labels), arms=labels)
    log.write(path)
    # Words are told from numbers by the labels where there is no row to tell it by.
    back = Log.read(path, arms=labels).check()
    assert back.arms == tuple(labels)
    ours, theirs = log.to_arrow(), back.to_arrow()
    for name in ("arm", "propensity", "reward", "probabilities", "run"):
        assert theirs[name].to_pylist() == ours[name].to_pylist()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("written", "rewards"),
    [(("True", "False"), [1.0, 0.0]), (("1", "0.25"), [1.0, 0.25]), (("", "1"), None)],
)
def test_csv_of_other_habits(
    tmp_path: Path, separator: str, written: tuple[str, str], rewards: list[float] | None
) -> None:
    path = tmp_path / "log.csv"
    lines = [("arm", "propensity", "reward"), ("a", "0.5", written[0]), ("b", "0.5", written[1])]
    path.write_text("".join(separator.join(line) + "\n" for line in lines))
    log = Log.read(path)
    assert log.arms == ("a", "b")
    if rewards is None:
        with pytest.raises(ValueError, match="row 0: the reward is missing"):
            log.check()
    else:
        (batch,) = log.batches()
        assert batch.reward.tolist() == rewards


def test_csv_says_where_it_cannot(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n1,0\n")
    with pytest.raises(ValueError, match="has no column propensity"):
        Log.read(path)
    path.write_text("arm,propensity,reward\n1,half,0\n")
    with pytest.raises(ValueError, match=r"log.csv: row 0: propensity is 'half', not a number"):
        Log.read(path)
    path.write_text("arm,propensity,reward\n" + "1,0.5,0\n" * 600_000 + "x,0.5,0\n")
    with pytest.raises(ValueError, match=r"row 600000: arm is 'x', not a number; labels that"):
        Log.read(path).check()
    path.write_text("arm,propensity,reward\n" + "1,0.5,True\n" * 400_000 + "1,0.5,yes\n")
    with pytest.raises(ValueError, match=r"row 400000: reward is 'yes', not True or False"):
        Log.read(path).check()
    path.write_text("arm,propensity,reward\n1,0.5,0\n1,0.5\n")
    with pytest.raises(ValueError, match=r"log.csv cannot be read: .*Expected 3 columns, got 2"):
        Log.read(path)
    path.write_text("arm,propensity,reward\n1,0.5,0\n,0.5,1\n1,,1\n1,1,\n")
    with pytest.raises(ValueError, match=r"row 1: the arm is missing; row 2: the propensity is"):
        Log.read(path).check()
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not a CSV file"):
        Log.read(path)
    nested = table(3).append_column("tags", pa.array([[1], [2], [3]]))
    with pytest.raises(ValueError, match="a CSV cannot hold the column tags"):
        Log.read(nested, arms=3).write(path)


# --------------------------------------------------------------------------------------------------
# Open Bandit

_OPEN_BANDIT = """\
,timestamp,item_id,position,click,{name},user_feature_0,user-item_affinity_0
0,2019-11-24 00:00:00.004101+00:00,79,2,0,0.0125,81ce123cbb5bd8ce,0.0
1,2019-11-24 00:00:00.025041+00:00,14,1,1,0.025,81ce123cbb5bd8ce,0.5
2,2019-11-24 00:00:00.025041+00:00,18,3,0,0.5,81ce123cbb5bd8ce,0.0
3,2019-11-24 00:00:00.085742+00:00,14,2,1,1.0,c2e4f76cdbabecd3,1.0
"""


@pytest.mark.parametrize("name", ["propensity_score", "action_prob"])
def test_open_bandit(tmp_path: Path, name: str) -> None:
    path = tmp_path / "all.csv"
    path.write_text(_OPEN_BANDIT.format(name=name))
    log = Log.read(path).check()
    assert log.arms == (14, 18, 79)
    found = gathered(log)
    assert found["arm"].tolist() == [2, 0, 1, 0]
    assert found["propensity"].tolist() == [0.0125, 0.025, 0.5, 1.0]
    assert found["reward"].tolist() == [0.0, 1.0, 0.0, 1.0]
    whole = log.to_arrow()
    assert whole.column_names == [
        "time", "arm", "propensity", "reward", "position", "user_feature_0",
        "user-item_affinity_0",
    ]  # fmt: skip
    assert whole["time"][3].as_py().microsecond == 85742
    assert whole["position"].to_pylist() == [2, 1, 3, 2]
    items = Log.read(path, arms=80, position=2)
    assert len(items.arms) == 80
    assert gathered(items)["arm"].tolist() == [79, 14]
    named = tmp_path / "all"
    named.write_text(path.read_text())
    assert Log.read(named, format="open-bandit").arms == log.arms


def test_open_bandit_round_trip(tmp_path: Path) -> None:
    first, second = tmp_path / "all.csv", tmp_path / "again.csv"
    first.write_text(_OPEN_BANDIT.format(name="action_prob"))
    log = Log.read(first)
    log.write(second, format="open-bandit")
    assert Log.read(second).to_arrow().equals(log.to_arrow())
    ours = Log.read(table(20, every=False))
    ours.write(second, format="open-bandit")
    back = Log.read(second).to_arrow()
    assert back["position"].to_pylist() == [1] * 20
    for name in ("arm", "propensity", "reward", "age", "country"):
        assert back[name].to_pylist() == ours.to_arrow()[name].to_pylist()
    with pytest.raises(ValueError, match="the labels of the arms must be integers"):
        Log.read(table(5, ["a", "b"], every=False)).write(second, format="open-bandit")


def test_open_bandit_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,propensity,reward\n1,0.5,0\n")
    with pytest.raises(ValueError, match="is not laid out as Open Bandit is"):
        Log.read(path, format="open-bandit")
    path.write_text("item_id,click,action_prob\n1,0,0.5\n")
    assert Log.read(path).arms == (1,)
    with pytest.raises(ValueError, match="has no column position"):
        Log.read(path, position=1)


# --------------------------------------------------------------------------------------------------
# dsjson. The first lines have the shape of a decision service's, down to single precision.


def line(**changes: Any) -> dict[str, Any]:
    """A decision among four coffees, the fourth chosen by exploration."""
    return {
        "_label_cost": -0.5,
        "_label_probability": 0.05000000074505806,
        "_label_Action": 4,
        "_labelIndex": 3,
        "o": [{"v": 0.5, "EventId": "one", "ActionTaken": False}],
        "Timestamp": "2021-02-04T16:31:29.2460000Z",
        "Version": "1",
        "EventId": "one",
        "a": [4, 2, 1, 3],
        "c": {
            "FromUrl": [{"timeofday": "Afternoon", "name": "Cathy"}],
            "_multi": [
                {"_tag": name, "i": {"constant": 1, "id": name}, "j": [{"type": "hot"}]}
                for name in ("Cappucino", "Cold brew", "Iced mocha", "Latte")
            ],
        },
        "p": [0.05, 0.15, 0.7, 0.1],
        "VWState": {"m": "ff0744c1aa494e1ab39ba0c78d048146"},
        "_original_label_cost": -0.5,
    } | changes


def written(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_dsjson(tmp_path: Path) -> None:
    second = line(
        _label_cost=0, _label_probability=0.425, _label_Action=1, _labelIndex=0, EventId="two",
        a=[1, 2, 3, 4], p=[0.85, 0.05, 0.05, 0.05], pdrop=0.5,
    )  # fmt: skip
    path = written(tmp_path / "log.dsjson", line(), second)
    log = Log.read(path).check()
    assert log.arms == ("Cappucino", "Cold brew", "Iced mocha", "Latte")
    assert log.rows == 2
    found = gathered(log, probabilities=True)
    assert found["arm"].tolist() == [3, 0]
    assert found["reward"].tolist() == [0.5, 0.0]
    assert math.copysign(1.0, found["reward"][1]) == 1.0
    # The choice's probability, whatever was dropped; a and p are permuted alike.
    assert found["propensity"].tolist() == [0.05, 0.85]
    assert found["probabilities"].tolist() == [[0.7, 0.15, 0.1, 0.05], [0.85, 0.05, 0.05, 0.05]]
    rows = log.to_arrow().to_pylist()
    assert [row["pass_probability"] for row in rows] == [1.0, 0.5]
    assert [row["event_id"] for row in rows] == ["one", "two"]
    assert json.loads(rows[0]["context"]) == {
        "FromUrl": [{"timeofday": "Afternoon", "name": "Cathy"}]
    }
    assert rows[0]["time"].isoformat() == "2021-02-04T16:31:29.246000+00:00"


def test_what_is_written_is_what_vowpal_wabbit_expects(tmp_path: Path) -> None:
    second = line(_label_probability=0.35, _label_Action=1, _labelIndex=0,
                  a=[1, 2, 4, 3], p=[0.7, 0.15, 0.05, 0.1], pdrop=0.5)  # fmt: skip
    log = Log.read(written(tmp_path / "in.dsjson", line(), second))
    log.write(tmp_path / "out.dsjson")
    lines = [json.loads(text) for text in (tmp_path / "out.dsjson").read_text().splitlines()]
    assert len(lines) == 2
    for ours, theirs, p in zip(lines, (line(), second), (0.05, 0.35)):
        for name in ("_label_cost", "_label_Action", "_labelIndex", "Version", "EventId"):
            assert ours[name] == theirs[name]
        # Chosen first; each action keeps its probability.
        assert ours["a"][0] == theirs["_label_Action"]
        assert dict(zip(ours["a"], ours["p"])) == dict(zip(theirs["a"], theirs["p"]))
        assert sorted(ours["a"]) == [1, 2, 3, 4]
        assert ours["_label_probability"] == pytest.approx(p)
        assert ours.get("pdrop", 0) == theirs.get("pdrop", 0)
        assert ours["c"]["FromUrl"] == theirs["c"]["FromUrl"]
        assert [one["_tag"] for one in ours["c"]["_multi"]] == list(log.arms)
    # And again: once in our hands nothing is lost.
    back = Log.read(tmp_path / "out.dsjson")
    assert back.to_arrow().equals(log.to_arrow(), check_metadata=True)
    back.write(tmp_path / "again.dsjson.gz")
    with gzip.open(tmp_path / "again.dsjson.gz", "rb") as file:
        assert file.read() == (tmp_path / "out.dsjson").read_bytes()


def test_read_as_a_stranger_would(tmp_path: Path) -> None:
    """Our own file without the line that only we understand."""
    log = Log.read(table(50, ["x", "y", "z"]), arms=["x", "y", "z"])
    log.write(tmp_path / "ours.json")
    lines = [json.loads(text) for text in (tmp_path / "ours.json").read_text().splitlines()]
    assert "_maillard" in lines[0]
    del lines[0]["_maillard"]
    back = Log.read(written(tmp_path / "theirs.json", *lines)).check().to_arrow()
    for name in ("arm", "propensity", "reward", "probabilities", "time"):
        assert back[name].to_pylist() == log.to_arrow()[name].to_pylist()


def test_dsjson_with_changing_actions(tmp_path: Path) -> None:
    def among(names: str, chosen: int, p: list[float]) -> dict[str, Any]:
        order = [chosen, *(i for i in range(len(names)) if i != chosen)]
        return line(
            _label_Action=chosen + 1, _labelIndex=chosen, _label_probability=p[chosen],
            a=[i + 1 for i in order], p=[p[i] for i in order],
            c={"_multi": [{"_tag": name} for name in names]},
        )  # fmt: skip

    path = written(tmp_path / "log.json", among("ab", 1, [0.25, 0.75]), among("cb", 0, [0.5, 0.5]))
    log = Log.read(path).check()
    assert log.arms == ("a", "b", "c")
    found = gathered(log, probabilities=True)
    assert found["arm"].tolist() == [1, 2]
    assert found["probabilities"].tolist() == [[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]]
    few = Log.read(path, arms=["a", "b"])
    with pytest.raises(ValueError, match="row 1: the arm is missing"):
        few.check()


def test_dsjson_without_names_or_without_all_probabilities(tmp_path: Path) -> None:
    plain = line(c={"_multi": [{"f": 1}, {"f": 2}, {"f": 3}, {"f": 4}]})
    log = Log.read(written(tmp_path / "log.json", plain, plain)).check()
    assert log.arms == (0, 1, 2, 3)
    assert gathered(log)["arm"].tolist() == [3, 3]
    partial = line(a=[4], p=[0.05])
    log = Log.read(written(tmp_path / "log.json", line(), partial)).check()
    assert "probabilities" not in log.columns
    assert gathered(log)["propensity"].tolist() == [0.05, 0.05]
    two_files = [written(tmp_path / f"{i}.json", line(EventId=str(i))) for i in range(3)]
    assert Log.read(two_files).to_arrow()["event_id"].to_pylist() == ["0", "1", "2"]


def test_lines_that_are_no_decisions_are_counted(tmp_path: Path) -> None:
    unlabelled = line()
    del unlabelled["_label_cost"]
    lines = [
        {"RewardValue": 1.0, "EnqueuedTimeUtc": "2018-01-03T20:12:20.028Z", "EventId": "x"},
        line(_skipLearn=True),
        unlabelled,
        line(),
        line(_skipLearn=False),
    ]
    log = Log.read(written(tmp_path / "log.json", *lines)).check()
    assert log.rows == 2
    assert log.skipped == {
        "rewards without a decision": 1,
        "decisions that were never activated": 1,
        "decisions without a reward": 1,
    }
    assert log.describe().to_dict()["skipped"] == log.skipped


def test_dsjson_errors_name_the_line(tmp_path: Path) -> None:
    cases = [
        ("not JSON", "line 3 is not JSON"),
        ([1, 2], "line 3: a line must be a JSON object"),
        (line(a=[4, 4, 1, 3]), "line 3: a and p must be lists of the same length"),
        (line(a=[4, 2, 1]), "line 3: a and p must be lists of the same length"),
        (line(a=[4, 2, 0, 3]), "line 3: a must hold whole numbers from 1 on"),
        (line(_label_Action=5), "line 3: the chosen action 5 is not in a"),
        (line(_label_probability="NaN"), "line 3: 'NaN' is not a number"),
        (line(_label_probability=0.15), "line 3: _label_probability 0.15 is not the chosen"),
        (line(pdrop=0.5, _label_probability=0.0125), "line 3: _label_probability 0.0125"),
        (line(Timestamp="yesterday"), "Timestamp 'yesterday' is not of the form"),
        ({"_outcomes": [], **line()}, "line 3: only plain contextual bandits"),
        ({k: v for k, v in line().items() if k != "p"}, "line 3: there is no 'p'"),
        (line(p=None), "line 3: "),
    ]
    for bad, said in cases:
        text = bad if isinstance(bad, str) else json.dumps(bad)
        path = tmp_path / "log.dsjson"
        path.write_text(f"{json.dumps(line())}\n\n{text}\n")
        with pytest.raises(ValueError, match=said):
            Log.read(path).check()
    # Rows, like those of any log, are checked as rows.
    bad = line(p=[0.05, 0.15, 0.7, 0.2])
    with pytest.raises(ValueError, match=r"row 1: the probabilities sum to 1.1, not to 1"):
        Log.read(written(path, line(), bad)).check()
    # A dropped line's label may leave the dropping out: the choice's probability is the same.
    kept = line(pdrop=0.5)
    assert gathered(Log.read(written(path, kept)))["propensity"].tolist() == [0.05]


def test_dsjson_keeps_columns_of_any_name(tmp_path: Path) -> None:
    source = table(5)
    for name in ("label_cost", "pdrop", "c", "_tag", "größe"):
        source = source.append_column(name, pa.array(np.arange(5) / 3))
    log = Log.read(source, arms=3)
    log.write(tmp_path / "log.dsjson")
    assert Log.read(tmp_path / "log.dsjson").to_arrow().equals(log.to_arrow(), check_metadata=True)
    nan = table(3).append_column("x", pa.array([1.0, math.nan, 2.0]))
    with pytest.raises(ValueError, match="dsjson cannot hold NaN or infinity"):
        Log.read(nan, arms=3).write(tmp_path / "nan.dsjson")
    nested = table(3).append_column("tags", pa.array([[1], [2], [3]]))
    with pytest.raises(ValueError, match="dsjson cannot hold the column tags"):
        Log.read(nested, arms=3).write(tmp_path / "nan.dsjson")
    assert not (tmp_path / "nan.dsjson").exists()
    clock = table(3).set_column(2, "time", pa.array([1, 2, 3]))
    log = Log.read(clock, arms=3)
    log.write(tmp_path / "clock.dsjson")
    assert Log.read(tmp_path / "clock.dsjson").to_arrow().equals(log.to_arrow())
