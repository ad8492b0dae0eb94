"""The page on measured coverage and its figure, from what `coverage_of_intervals.py` measured."""

import json
import math
import re
import textwrap
from pathlib import Path
from typing import Any

from coverage_data import (
    BOUNDLESS,
    TARGETS,
    gathered,
    minutes,
    most_ever,
    of_poisson,
    pairs_of,
    relative_width,
    seen,
    summaries,
    summary,
)
from coverage_logs import (
    CELLS,
    DRAWS,
    HORIZONS,
    INSTANCES,
    LEARNING,
    MONTE_CARLO,
    POLICIES,
    REPLICATES,
)
from timing import table

from maillard.plots import _SETTINGS, new_figure
from maillard.plots import write as write_figure

DOCS = Path(__file__).parent.parent / "docs"
#: Pairs in the figure, those of arm means first.
SHOWN = (
    "dm policy-bootstrap", "dm likelihood-ratio", "dm kt", "dm betting", "dm t", "dm normal",
    "dm bootstrap", "dm poisson-bootstrap", "aipw dr-betting",
    "aw-aipw-two-point normal", "aw-aipw-constant normal", "stable-variance normal",
    "min-variance normal", "cadr normal", "aipw normal", "aipw bootstrap", "sndr normal",
    "snipw normal", "snipw bootstrap", "clipped-ipw normal", "ipw normal",
)  # fmt: skip
SETTINGS = [(instance, horizon) for instance in INSTANCES for horizon in HORIZONS]


# --------------------------------------------------------------------------------------------------
# Text


def percent(x: float) -> str:
    """A coverage."""
    return f"{100.0 * x:.1f}"


def size(x: float | None) -> str:
    """A width, in three digits."""
    if x is None or not math.isfinite(x):
        return "–"
    return f"{x:.3g}" if x <= BOUNDLESS else "> 1"


def name_of(pair: str) -> str:
    """Estimator and interval as code."""
    estimator, interval = pair.split(" ")
    return f"`{estimator}` `{interval}`"


def overview(data: dict[str, Any]) -> str:
    """Pairs over all cells of learning policies: those that cover first, the narrowest of them."""
    found = summaries(data)
    found.sort(key=lambda s: (-s.enough / s.cells, s.width if s.enough == s.cells else -s.mean))
    rows = [
        [
            name_of(s.pair), f"{s.enough} of {s.cells}", percent(s.least.coverage),
            percent(s.mean), f"{s.width:.2f}" if s.width > 0.0 else "–", f"{s.logs:,}",
        ]
        for s in found
    ]  # fmt: skip
    heads = ["estimator, interval", "cells ≥ 94.5 %", "least", "mean", "width", "logs"]
    return table(heads, rows)


def of_weighted(data: dict[str, Any]) -> str:
    """What the weighted estimators' intervals are worth, in a sentence."""
    weighted = [s for s in summaries(data) if not s.pair.startswith("dm ")]
    good = sorted((s for s in weighted if s.enough == s.cells), key=lambda s: s.width)
    nearest = max((s for s in weighted if s not in good), key=lambda s: s.enough / s.cells)
    rest = f"{name_of(nearest.pair)}, does in {nearest.enough} of {nearest.cells}"
    if not good:
        return (
            f"None of the weighted estimators' intervals covers in every cell; the nearest, {rest}."
        )
    names = ", ".join(f"{name_of(s.pair)} at {s.width:.2f} times the width" for s in good)
    return (
        f"Of the weighted estimators' intervals these cover in every cell: {names}. The nearest of "
        f"the others, {rest}."
    )


def settings(data: dict[str, Any], policy: str, target: str) -> str:
    """Coverage and width of every pair in the four settings of one policy and target."""
    heads = ["estimator, interval", *(f"({i}), {t:,}" for i, t in SETTINGS)]
    rows = []
    for pair in pairs_of(data):
        by_place = {
            (one.instance, one.horizon): one
            for one in seen(data, pair, learning=False)
            if (one.policy, one.target) == (policy, target)
        }
        if not by_place:
            continue
        cells = [by_place.get(place) for place in SETTINGS]
        shown = ["–" if c is None else f"{percent(c.coverage)} · {size(c.width)}" for c in cells]
        rows.append([name_of(pair), *shown])
    return table(heads, rows)


def ever(data: dict[str, Any]) -> str:
    """How often each sequence had ever missed by the horizon, in the worst cells."""
    heads = ["cell", "target", "`kt`", "`betting`", "`dr-betting`", "logs"]
    rows = []
    for cell in CELLS:
        kinds = data["cells"].get(f"{cell.policy} {cell.instance} {cell.horizon}", {})
        for target, pairs in kinds.get("ever", {}).items():
            shown = [percent(pairs[p][0]) for p in ("dm kt", "dm betting", "aipw dr-betting")]
            place = f"{cell.policy}, ({cell.instance}), T = {cell.horizon:,}"
            rows.append([place, target, *shown, f"{pairs['dm kt'][2]:,}"])
    return table(heads, rows) if rows else ""


def more(data: dict[str, Any]) -> str:
    """The cells beyond two coins."""
    heads = ["logs of", "target", "interval", "coverage", "width", "logs"]
    rows = [
        [name, target, f"`{pair.split()[1]}`", percent(row[0]), size(row[1]), f"{row[2]:,}"]
        for name, targets in data["more"].items()
        for target, pairs in targets.items()
        for pair, row in pairs.items()
    ]
    return table(heads, rows) if rows else ""


def range_of(data: dict[str, Any], pair: str) -> str:
    """The least and the largest coverage in cells of learning policies."""
    found = [one.coverage for one in seen(data, pair)]
    return f"{percent(min(found))} to {percent(max(found))} %"


def logs_of(data: dict[str, Any]) -> str:
    """The number of logs of a cell, as far as it is the same."""
    counts = {one.logs for pair in pairs_of(data) for one in seen(data, pair)}
    return " or ".join(f"{n:,}" for n in sorted(counts))


def wrapped(text: str) -> str:
    """Paragraphs and lists in lines of one length; the rest as it is."""

    def filled(words: str, indent: str = "") -> str:
        return textwrap.fill(
            " ".join(words.split()),
            100,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )

    blocks = []
    for block in text.split("\n\n"):
        if block.startswith("- "):
            block = "\n".join(filled(item, "  ") for item in re.split(r"\n(?=- )", block))
        elif not block.lstrip().startswith(("#", "|", "!", "`" * 3)):
            block = filled(block)
        blocks.append(block)
    return "\n\n".join(blocks) + "\n"


def page(data: dict[str, Any]) -> str:
    """The page."""
    best, next_best, kt, normal, ipw = (
        summary(data, f"{pair}")
        for pair in ("dm policy-bootstrap", "dm likelihood-ratio", "dm kt", "dm normal",
                     "ipw normal")
    )  # fmt: skip
    assert best is not None
    assert next_best is not None
    assert kt is not None
    assert normal is not None
    assert ipw is not None
    two_point = next(
        (
            one
            for one in seen(data, "aw-aipw-two-point normal")
            if one[:4] == ("KL-MS", "0.8, 0.9", 10_000, "uniform")
        ),
        None,
    )
    same = next(
        one for one in seen(data, "dm policy-bootstrap")
        if one[:4] == ("KL-MS", "0.8, 0.9", 10_000, "uniform")
    )  # fmt: skip
    against = (
        f" On logs of KL-MS at means (0.8, 0.9) and T = 10,000, target uniform, it is "
        f"{size(same.width)} wide; the normal interval of two-point weighted AIPW is "
        f"{size(two_point.width)} wide and covers {percent(two_point.coverage)} %."
        if two_point is not None
        else ""
    )
    sections = []
    for target in TARGETS:
        for policy in POLICIES:
            sections.append(f"### {policy}, target {target}\n\n{settings(data, policy, target)}")
    return wrapped(f"""# Measured coverage

An interval of 95 % should hold the truth in 95 of 100 logs. Whether it does on logs of a policy
that learns is not for the textbook to say: such a policy pulls an arm no more when it looks
bad, and its propensities fall like 1/t. So it was measured: {logs_of(data)} simulated logs a
cell; six policies, the paper's two instances of coins, two horizons, three targets (all arms
alike, and each arm).

![Coverage of each interval in every cell of learning policies, and its width](coverage.svg)

*Each dot is a cell of a policy that learns, with all arms alike as the target; to the right the
width, as a multiple of the normal interval's of arm means.*

## What is recommended, and why

An interval is recommended if it covers at least 94.5 % in every cell of learning policies; of those
that do, the narrowest.

- **`dm` with `policy-bootstrap`** where the log names its policy: {range_of(data, best.pair)} in
  {best.cells} cells, at {best.width:.2f} times the width of the normal interval.{against}
- **`dm` with `likelihood-ratio`** otherwise: {range_of(data, next_best.pair)}, at
  {next_best.width:.2f} times the width. It needs pulls and rewards only.
- **`kt`** if one looks again and again, or stops when one likes: {range_of(data, kt.pair)} at the
  horizon, at {kt.width:.2f} times the width, and it holds at every round at once.
- Where propensities never changed, the textbook's `normal` and `t` of arm means.

The same normal interval of arm means covers {range_of(data, normal.pair)} where the policy learns,
that of inverse propensity weighting {range_of(data, ipw.pair)}. {of_weighted(data)}
A bootstrap of rows takes them for independent, which a learning policy's are not: its percentiles
cover {range_of(data, "dm bootstrap")} for `dm`, {range_of(data, "snipw bootstrap")} for `snipw` and
{range_of(data, "aipw bootstrap")} for `aipw`. Poisson counts change that by
{percent(of_poisson(data))} percentage points at most.

What the bootstrap through the policy supposes: that the log is what the named policy did, in a
number of rounds that was fixed beforehand, and that rewards of one arm are independent and
alike. It then simulates the experiment again under other laws of the rewards, some 3,000 times,
and keeps the values of the target under which an outcome like the logged one is not too rare.
For rewards of two values the laws are all coins; for others the empirical laws, tilted, with
one more reward, half at either end of the range. The simulations' own error is counted against
it, so that it is a little too wide. It takes about a third of a second for 10,000 rounds of
KL-MS, and so it is computed unasked for up to 50,000 rounds × arms, and beyond that when asked
for by name.

## Over all cells of learning policies

`width` is the mean multiple of the normal interval's of arm means in the same cell (geometric
mean). With 2,000 logs a coverage has a standard error of half a percent, so that an interval
which covers exactly 95 % shows less than 94.5 % in one cell of seven. A dash stands where the
mean width of some cell is more than the range of the rewards: Student's law with little more than
one effective row has no bounds to speak of.

{overview(data)}

Bootstraps are of {REPLICATES:,} replicates. An empirical Bernstein interval exists only where
propensities never change: see the tables of uniform logs. A log without an interval, such as one in
which an arm has one pull and so no standard error, counts as not covered.

## Ever missed

Confidence sequences promise to miss at no time, but for 5 % of logs. Here is the percentage of
logs on which they had missed in any round up to the horizon, followed round by round. For `kt`
and `betting` this is that any arm that the target wants was missed at its share of α, which is
what is promised. The most in any cell with exact propensities: `kt`
{percent(most_ever(data, "dm kt"))}, `betting` {percent(most_ever(data, "dm betting"))},
`dr-betting` {percent(most_ever(data, "aipw dr-betting"))} %. With Monte Carlo propensities, which
are not those drawn from, nothing is promised to `dr-betting`: the most there is
{percent(most_ever(data, "aipw dr-betting", exact=False))} %.

{ever(data)}

## Beyond two coins

Ten coins with means from 0.1 to 0.9, rewards that are seen after every hundredth round only, and
rewards that are no coins, Beta(4, 1) and Beta(9, 1). More arms err to the same side together: the
textbook's intervals fail with their number, and the recommended ones do not.

{more(data)}

## Every cell

Coverage in percent and mean width. The propensities of *{MONTE_CARLO}* are not exact: each is
the share of {DRAWS:,} posterior draws in which the arm was best, Binomial({DRAWS:,},
p)/{DRAWS:,} of the exact p; where that was none or all of them, half a draw was put in place
of none, as in the code that was published with KL-MS. Arm means do not use propensities: their
rows are those of *Thompson*.

{chr(10).join(section + chr(10) for section in sections)}
## What this does not show

Two arms, coins and two horizons decide; ten arms, batches and other rewards were looked at
less. The policies ran with their defaults. The bootstrap was given the policy that had made the
log: a log whose metadata name another, or whose rewards drift, is not covered by any of this.
The shared simulations that made {logs_of(data)} logs a cell affordable have errors that
neighbouring logs share.

## Run it again

```
python benchmarks/coverage_of_intervals.py --folder build/coverage
python benchmarks/coverage_of_intervals.py --folder build/coverage --page
```

The first may be started several times at once, stopped and started again; the second writes
this page, its figure and its data, `docs/coverage.json`, in which tasks that were not run again
stay as they were. All tasks together took {minutes(data)} minutes of one core:
{"; ".join(data["machine"])}.""")


# --------------------------------------------------------------------------------------------------
# Figure


def draw(data: dict[str, Any]) -> Any:
    """Coverage of each pair in every cell of learning policies, and how wide it is."""
    import matplotlib

    figure = new_figure(9.0, 8.0)
    colours = dict(zip(LEARNING, ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73")))
    with matplotlib.rc_context(_SETTINGS):
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        shown = [pair for pair in SHOWN if summary(data, pair) is not None]
        for i, pair in enumerate(shown):
            found = [one for one in seen(data, pair) if one.target == "uniform"]
            for j, one in enumerate(found):
                place = i + 0.5 * ((j + 0.5) / len(found) - 0.5)
                mark = "o" if one.horizon == HORIZONS[0] else "s"
                style: dict[str, Any] = {
                    "color": colours[one.policy], "markersize": 4, "alpha": 0.85,
                }  # fmt: skip
                left.plot(max(100.0 * one.coverage, 50.0), place, mark, **style)
                right.plot(relative_width(data, one), place, mark, **style)
        left.axvline(95.0, color="#333333", linewidth=1.0)
        left.axvline(94.5, color="#333333", linewidth=0.8, linestyle=":")
        left.set_yticks(range(len(shown)), [pair.replace(" ", " · ") for pair in shown])
        left.invert_yaxis()
        left.set_xlim(49.0, 100.5)
        left.set_xlabel("% of logs whose interval holds the truth (edge: 50 or less)")
        right.set_xscale("log")
        right.set_xticks([0.5, 1.0, 2.0, 5.0, 10.0], ["½", "1", "2", "5", "10"])
        right.minorticks_off()
        right.axvline(1.0, color="#333333", linewidth=0.8, linestyle=":")
        right.set_xlabel("width, × that of dm · normal")
        handles = [
            *(matplotlib.lines.Line2D([], [], marker="o", linestyle="", color=c, label=p)
              for p, c in colours.items()),
            *(matplotlib.lines.Line2D([], [], marker=m, linestyle="", color="#888888",
                                      label=f"T = {t:,}")
              for m, t in zip("os", HORIZONS)),
        ]  # fmt: skip
        figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color="#eeeeee")
            axes.set_axisbelow(True)
    return figure


def write(folder: Path, docs: Path = DOCS) -> None:
    """The data, the page and the figure, with what the folder holds in them."""
    path = docs / "coverage.json"
    there = path.exists()
    data = gathered(folder, json.loads(path.read_text(encoding="utf-8")) if there else None)
    lines = ",\n".join(
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(part, ensure_ascii=False)}"
        for name, part in data.items()
        if name != "cells"
    )
    cells = ",\n".join(
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(part, ensure_ascii=False)}"
        for name, part in data["cells"].items()
    )
    text = f'{{{lines},\n"cells": {{\n{cells}\n}}}}\n'
    path.write_text(text, encoding="utf-8")
    again(docs)


def again(docs: Path = DOCS) -> None:
    """The page and the figure, of the data that lie beside them."""
    data = json.loads((docs / "coverage.json").read_text(encoding="utf-8"))
    (docs / "coverage.md").write_text(page(data), encoding="utf-8")
    write_figure(draw(data), docs / "coverage.svg")
