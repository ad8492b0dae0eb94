"""What a notebook shows, and how tables become frames."""

import html.parser
import sys
from typing import Any

import numpy as np
import pytest

import maillard as mb
from maillard.tables import Framed, Table


class _Reader(html.parser.HTMLParser):
    """Collects cells, and sees that every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in {"div", "table", "caption", "b", "thead", "tbody", "tr", "th", "td", "small"}
        self.open.append(tag)
        if tag in ("th", "td"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] in ("th", "td"):
            self.cells[-1] += data


def read(thing: Any) -> _Reader:
    reader = _Reader()
    reader.feed(thing._repr_html_())
    reader.close()
    assert reader.open == []
    return reader


HOSTILE = '<script>alert(1)</script> & "quotes"'


def test_cells_are_escaped_and_columns_aligned() -> None:
    table = Table(HOSTILE, ("name", "n", "why"), ((HOSTILE, "1", "x"),), (HOSTILE,), words=(0, 2))
    found = read(table)
    assert found.cells == ["name", "n", "why", HOSTILE, "1", "x"]
    assert "<script>" not in table._repr_html_()
    assert found.text.count(HOSTILE) == 3
    assert table._repr_html_().count("text-align: right") == 2
    assert HOSTILE in str(table)
    assert "\x1b" not in str(table)


def test_a_long_last_column_of_words_is_folded_on_a_terminal() -> None:
    table = Table("t", ("name", "n", "why"), (("a", "1", "word " * 60),), words=(0, 2))
    assert max(len(line) for line in str(table).splitlines()) <= 160
    assert str(table).count("word") == 60


@pytest.mark.parametrize("name", mb.catalogue())
def test_every_policy_shows_itself(name: str) -> None:
    needed = {"horizon": 100, "weights": [0.3, 0.7]}
    entry = mb.describe(name)
    given = {p["name"]: needed.get(p["name"], 1.0) for p in entry["parameters"] if p["required"]}
    policy = mb.policy(name, arms=[HOSTILE, "b"], **given)
    found = read(policy)
    assert found.cells[:4] == ["arm", "pulls", "mean", "probability"]
    assert found.cells[4] == repr(HOSTILE)
    assert entry["formula"] in found.text
    policy.update("b", 0.25, propensity=0.5)
    assert read(policy).cells[9:11] == ["1", "0.25"]
    assert "· 1 reward seen" in read(policy).text


def test_many_arms_are_cut_short_and_unknown_probabilities_are_not_made_up() -> None:
    assert "and 80 more arms" in read(mb.policy("uniform", arms=100)).text
    policy = mb.policy("npts", arms=2)
    for arm in (0, 1, 1):
        policy.update(arm, 0.5)
    with pytest.raises(mb.InexactProbabilityError):
        policy.probabilities()
    assert read(policy).cells[7] == read(policy).cells[11] == "–"


def rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {"arm": HOSTILE if rng.random() < 0.5 else "b", "propensity": 0.5, "reward": 1.0, "x": None}
        for _ in range(20)
    ]


def test_logs_show_their_first_rows() -> None:
    log = mb.Log.read(rows())
    found = read(log)
    assert found.cells[:4] == ["arm", "propensity", "reward", "x"]
    assert len(found.cells) == 4 + 5 * 4
    assert "20 rows" in found.text
    assert read(mb.Log.read(rows()[:2])).cells[-1] == ""


def test_descriptions() -> None:
    found = read(description := mb.Log.read(rows()).describe())
    assert found.cells[:2] == ["arm", "pulls"]
    assert found.cells[7] in (HOSTILE, "b")
    assert "20 rows" in found.text
    for check in description.checks:
        assert check.sentence in found.text


def test_a_log_that_is_gone_shows_why(tmp_path: Any) -> None:
    path = tmp_path / "log.parquet"
    mb.Log.read(rows()).write(path)
    log = mb.Log.read(path)
    path.unlink()
    assert "log.parquet" in read(log).text


def test_evaluations_and_bounds() -> None:
    evaluation = mb.evaluate(rows(), target="b", rewards=(0, 1))
    found = read(evaluation)
    assert found.cells[:3] == ["estimator", "interval", "estimate"]
    assert len(found.cells) == 9 * (1 + len(evaluation.estimates))
    assert "recommended: " in found.text
    for note in evaluation.notes:
        assert note in found.text
    bounds = mb.bounds([0.8, 0.9], 1_000)
    assert read(bounds).cells[:2] == ["policy", "best bound"]
    assert {"kl-ms", "ucb1"} <= set(read(bounds).cells)
    assert "2 horizons" in mb.bounds([0.8, 0.9], [10, 20])._repr_html_()


def test_frames_hold_what_the_tables_hold() -> None:
    evaluation = mb.evaluate(rows(), target="b", rewards=(0, 1))
    log = mb.Log.read(rows())
    for thing in (evaluation, log):
        table = thing.to_arrow()
        assert thing.to_pandas().to_dict("list").keys() == set(table.column_names)
        assert thing.to_polars().to_arrow().column_names == table.column_names
        assert thing.to_polars().height == table.num_rows
    first = evaluation.to_arrow().to_pylist()[0]
    assert first == {"target": evaluation.target, **evaluation.estimates[0].to_dict()}


@pytest.mark.slow
def test_frames_of_results() -> None:
    result = mb.simulate(["ms", "uniform"], mb.Bernoulli([0.4, 0.6]), 20, 4, checkpoints=4)
    assert result.to_polars().height == len(result.to_pandas()) == result.to_arrow().num_rows
    assert read(result).cells[0] == "policy"


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_what_is_not_installed_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    log = mb.Log.read(rows())
    assert isinstance(log, Framed)
    with pytest.raises(ValueError, match=r"not installed: pip install .*, or use to_arrow\(\)"):
        getattr(log, f"to_{name}")()
