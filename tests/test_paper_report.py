"""The report as a whole: a tiny run from end to end, the page, the folder, the command."""

import html.parser
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from maillard.cli import main
from maillard.commands.common import INTERRUPTED
from maillard.paper import figures, page, reproduce, verdicts
from maillard.paper.laboratory import Laboratory, Size
from maillard.paper.part import Part
from maillard.paper.published import published

TINY = Size(
    "tiny", regret=4, others=3, slow=0, closed=70, integrated={1_000: 66, 10_000: 66}, evaluated=6,
    repeats=1, horizons={1_000: 40, 10_000: 60},
)  # fmt: skip


class Reader(html.parser.HTMLParser):
    """Elements, ids and links of a page; complains of tags that do not match."""

    VOID = frozenset({"meta", "br", "path", "use", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


def check_that_the_page_asks_for_nothing(report: Path, read: Reader) -> None:
    text = (report / "index.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 5_000_000
    assert {name for name, _ in read.elements} & {
        "link",
        "script",
        "img",
        "iframe",
        "object",
    } == set()
    assert "@import" not in text
    for _, attributes in read.elements:
        assert "src" not in attributes
        for name, value in attributes.items():
            assert "url(" not in (value or "") or "url(#" in (value or ""), (name, value)
    outside = [a["href"] for a in read.all("a") if str(a["href"]).startswith("http")]
    assert outside == [published()["source"]["code"]]


def check_links_and_ids(report: Path, read: Reader) -> None:
    ids = [a["id"] for _, a in read.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for name, attributes in read.elements:
        target = attributes.get("href") or attributes.get("xlink:href") or ""
        if target.startswith("#"):
            assert target[1:] in ids, (name, target)
        elif target and not target.startswith("http"):
            assert (report / target).is_file(), target
    for reference in re.findall(r"url\(#([^)]+)\)", (report / "index.html").read_text("utf-8")):
        assert reference in ids


def check_that_figures_can_be_read_by_all(report: Path, read: Reader) -> None:
    pictures = list(read.all("svg"))
    histograms = len(published()["histograms"])
    assert len(pictures) == 2 + 4 + 4 + histograms + 1 + 2
    assert all(len(str(a["aria-label"])) > 40 and a["role"] == "img" for a in pictures)
    text = (report / "index.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.S))
    # Every colour is the page's, so that it changes with it.
    assert re.findall(r"#[0-9a-fA-F]{6}\b", drawn) == []
    assert drawn.count("var(--ink)") > 100
    for caption in re.findall(r"<figcaption>(<b>Figure 1,.*?)</figcaption>", text, re.S):
        assert "trials" in caption
        assert "T = 60" in caption
        assert "data/figure-1.parquet" in caption


def check_that_nothing_undefined_is_shown(report: Path, read: Reader) -> None:
    text = (report / "index.html").read_text(encoding="utf-8")
    words = re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", text, flags=re.S))
    assert re.findall(r"(?<![-\w])(nan|inf|None|NaN)\b", words) == []


def check_findings(report: Path, read: Reader) -> None:
    data = json.loads((report / "report.json").read_text(encoding="utf-8"))
    found = data["findings"]
    counts = {name: sum(f["experiment"] == name for f in found) for name in ("Figure 1", "Tables")}
    assert counts == {"Figure 1": 3, "Tables": 48 + 5}
    assert len(found) == 3 + 4 + 53 + 1
    assert sum(data["verdicts"].values()) == len(found)
    # So few trials of so short logs decide nothing.
    numbers = [f for f in found if f["as_written"] is not None]
    assert len(numbers) == 51
    assert {f["verdict"] for f in numbers} == {verdicts.UNDECIDED}
    text = (report / "index.html").read_text(encoding="utf-8")
    for finding in numbers[3:]:
        assert f">{finding['printed'].replace('-', '−')}<" in text


def check_that_data_are_those_of_the_tables(report: Path, read: Reader) -> None:
    table = pq.read_table(report / "data" / "estimates-0.8-0.9-1000.parquet").to_pandas()
    one = table[
        (table.policy == "thompson") & (table.protocol == "as released")
        & (table.propensities == "M=1000")
    ].estimate  # fmt: skip
    found = json.loads((report / "report.json").read_text(encoding="utf-8"))["findings"]
    (finding,) = (
        f for f in found
        if f["what"] == "Mean squared error, (0.80, 0.90), T = 1,000, Bernoulli TS, M = 1,000"
    )  # fmt: skip
    assert finding["as_released"]["value"] == pytest.approx(np.mean((one - 0.85) ** 2))
    assert finding["as_released"]["trials"] == len(one) == 66
    for path in (report / "data").glob("*.csv"):
        assert pyarrow.csv.read_csv(path).num_rows > 0


def without_times(folder: Path) -> dict[str, Any]:
    """All that a report holds, but for what is timed."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    del data["seconds"], data["verdicts"]
    data["findings"] = [f for f in data["findings"] if f["experiment"] != "Timing"]
    files = {
        path.name: path.read_bytes()
        for path in (folder / "data").iterdir()
        if path.name != "timing.csv"
    }
    timed = r'<span class="timing">(<span.*?</span>|[^<])*</span>'
    return {"page": re.sub(timed, "", text, flags=re.S), "report": data, "data": files}


@pytest.mark.slow
def test_a_report_from_end_to_end(tmp_path: Path) -> None:
    """A tiny run, the page in many respects, and the same page again: on other workers, over an
    older report.
    """
    out = tmp_path / "deep" / "report"
    told: list[str] = []
    found = reproduce.reproduce(out, TINY, workers=1, told=told.append)
    assert found.path == out / "index.html"
    assert [line.split(":")[0] for line in told] == [f"{i} of 6" for i in range(1, 7)]
    reader = Reader()
    reader.feed((out / "index.html").read_text(encoding="utf-8"))
    assert reader.open == []
    for check in (
        check_that_the_page_asks_for_nothing,
        check_links_and_ids,
        check_that_figures_can_be_read_by_all,
        check_that_nothing_undefined_is_shown,
        check_findings,
        check_that_data_are_those_of_the_tables,
    ):
        check(out, reader)

    again = tmp_path / "again"
    (again / "data").mkdir(parents=True)
    (again / "index.html").write_text("an older one")
    reproduce.reproduce(again, TINY, workers=3)
    first, second = without_times(out), without_times(again)
    assert first["data"] == second["data"]
    assert first["report"] == second["report"]
    assert first["page"] == second["page"]
    assert "µs" in (again / "index.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "deep"]


# --------------------------------------------------------------------------------------------------
# Without the experiments


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every experiment gives an empty part; returns the names of those that ran."""
    ran: list[str] = []

    def fake(name: str) -> Any:
        class Script:
            __doc__ = f"Something about {name}."

            @staticmethod
            def run(lab: Laboratory) -> Part:
                ran.append(name)
                lab.write(f"{name}.csv", {"x": [1.0]})
                if "fails" in ran:
                    raise KeyboardInterrupt
                return Part(name, name, "<p>nothing</p>", [])

        return Script

    monkeypatch.setattr(reproduce, "_script", fake)
    return ran


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, stub: list[str]) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"holds chapter\.tex, which is no part of a report"):
        reproduce.reproduce(out)
    assert stub == []
    assert (out / "chapter.tex").read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file: name a folder"):
        reproduce.reproduce(tmp_path / "file")
    with pytest.raises(ValueError, match="size must be one of quick, default, full, not 'huge'"):
        reproduce.reproduce(tmp_path / "new", "huge")


def test_a_report_is_replaced_whole_or_not_at_all(tmp_path: Path, stub: list[str]) -> None:
    out = tmp_path / "report"
    reproduce.reproduce(out)
    assert len(stub) == len(reproduce.EXPERIMENTS)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert {p.name for p in before} >= {"index.html", "report.json", "figure_1.csv"}
    stub.append("fails")
    with pytest.raises(KeyboardInterrupt):
        reproduce.reproduce(out)
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["report"]


def test_an_older_report_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, stub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report"
    reproduce.reproduce(out)
    before = (out / "index.html").read_bytes()
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if "-new-" in self.name:
            raise OSError("the disk is full")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="the disk is full"):
        reproduce.reproduce(out)
    assert (out / "index.html").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["report"]


def test_the_command(tmp_path: Path, stub: list[str]) -> None:
    out = tmp_path / "report"
    words = ["reproduce", "--quick", "--out", str(out)]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0
    assert str(out / "index.html") in result.stdout
    assert result.stderr.count(" of 6: ") == 6
    printed = CliRunner().invoke(main, [*words, "--json", "--seed", "5", "--workers", "1"])
    data = json.loads(printed.stdout)
    assert (data["size"], data["seed"]) == ("quick", 5)
    assert CliRunner().invoke(main, [*words, "--quiet"]).output == ""
    stub.append("fails")
    stopped = CliRunner().invoke(main, words)
    assert stopped.exit_code == INTERRUPTED
    assert "no report was written" in stopped.stderr


def test_misuse_is_one_line_and_exit_code_2(tmp_path: Path, stub: list[str]) -> None:
    for words, message in (
        (["--quick", "--full"], "give --quick or --full, not both"),
        (["--workers", "0"], "workers must be"),
        (["--seed", "-1"], "seed must be"),
    ):
        result = CliRunner().invoke(main, ["reproduce", "--out", str(tmp_path / "r"), *words])
        assert result.exit_code == 2
        assert message in result.output
        assert result.output.count("\n") == 1
    assert stub == []
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib(
    tmp_path: Path, stub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = CliRunner().invoke(main, ["reproduce", "--out", str(tmp_path / "report")])
    assert result.exit_code == 2
    assert "pip install 'maillard[plots]'" in result.output
    assert result.output.count("\n") == 1
    assert stub == []


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from maillard.cli import main\n"
        "try: main(['reproduce', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'numba', 'numpy', 'rich', 'matplotlib'} & set(sys.modules)"
    )
    text = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert "maillard reproduce --quick --out DIR" in text


def test_every_experiment_says_what_it_is() -> None:
    for name in reproduce.EXPERIMENTS:
        module = importlib.import_module(f"maillard.paper.{name}")
        assert str(module.__doc__).splitlines()[0].endswith(".")


def test_pages_escape_text() -> None:
    assert page.text("<b> & 'c'") == "&lt;b&gt; &amp; 'c'"
    assert "&lt;" in page.badge("<odd>")
    assert page.number(-0.5, 2) == "−0.50"
    one = verdicts.Comparison(-0.25, 0.125, -2.0, 300, 0.9, verdicts.AGREES)
    shown = page.comparison(one, 3)
    assert "−0.250" in shown
    assert "± 0.125" in shown
    assert "−2.0&nbsp;s.e." in shown
    assert "†" in shown
    assert page.comparison(None) == "–"


def test_svg_stands_by_itself() -> None:
    text, again = (
        figures.svg(
            figures.histograms({"one": {"kl-ms": np.linspace(0.0, 1.0, 50)}}, 0.5),
            'a "figure" of <one>',
            "first",
        )
        for _ in range(2)
    )
    assert text == again
    assert 'aria-label="a &quot;figure&quot; of &lt;one&gt;"' in text
    assert "metadata" not in text
    assert "<!--" not in text
    assert all(name.startswith("first-") for name in re.findall(r'\bid="([^"]+)"', text))
    assert re.findall(r"href=\"(?!#first-)", text) == []
