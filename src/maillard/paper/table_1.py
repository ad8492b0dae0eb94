"""Table 1 as the paper has it, and beside it what `maillard.theory` makes of each bound."""

import math
from typing import Any

import maillard as mb

from ..theory.known import THEORIES
from .laboratory import Laboratory
from .page import paragraphs, table, text
from .part import Part, instance
from .published import published


def run(lab: Laboratory) -> Part:
    """The table, and the bounds as numbers."""
    horizon = 10_000
    bounds = {
        tuple(means): mb.bounds(means=means, horizon=horizon) for means in published()["instances"]
    }
    rows = []
    for row in published()["table_1"]:
        slug = row["policy"]
        rows.append([
            f'{text(row["algorithm"])} <small><code>{slug}</code></small>',
            row["minimax_ratio"], row["sub_ucb"], row["closed_form"],
            text(row["reference"]),
            f'<a href="#bound-{slug}">as numbers</a>' if slug in THEORIES else "–",
        ])  # fmt: skip
    numbers = []
    for slug, theory in THEORIES.items():
        names = [bound.name for bound in theory.bounds if not bound.shown_only]
        sources = "; ".join(dict.fromkeys(b.source for b in theory.bounds if not b.shown_only))
        numbers.append([
            f'<code id="bound-{slug}">{slug}</code>',
            *(f"{float(b.best(slug)):,.1f}" for b in bounds.values()),
            worst(bounds, slug),
            f'<span class="say"><code>{"</code>, <code>".join(names)}</code></span>',
            f'<span class="say">{text(sources)}</span>',
        ])  # fmt: skip
    html = (
        paragraphs(
            "Table 1 compares analyses, not experiments; it is given as it is printed. Minimax "
            "ratio: the worst-case bound over √(KT). – is not reported; N/A: a deterministic "
            "policy; *: to a precision, in time logarithmic in it; **: conjectured not to be."
        )
        + table(
            ["", "minimax ratio", "sub-UCB", "closed form", "reference", "theory"],
            rows,
            "Table 1 of the paper, and where its bounds are numbers below.",
        )
        + table(
            ["", *(f"best bound, {instance(means)}" for means in bounds), "any instance",
             "in maillard.bounds", "from"],
            numbers,
            f"Upper bounds on regret after T = {horizon:,} rounds of K = 2 arms, computed by "
            "<code>maillard.bounds</code>; the first two columns are the least of the bounds and "
            "of the trivial one, the third holds for every instance, or every one with as good a "
            "best arm. Such bounds hold at all horizons; regret may be far below, as above.",
        )
    )  # fmt: skip
    return Part("table-1", "Table 1 and its bounds as numbers", html, [])


def worst(bounds: dict[Any, mb.Bounds], slug: str) -> str:
    """The bound that needs no means, where there is one: it may depend on the best arm's."""
    values = [b[slug].get("worst_case", math.nan) for b in bounds.values()]
    shown = [f"{float(v):,.1f}" for v in values if math.isfinite(v)]
    return " and ".join(dict.fromkeys(shown)) or "–"
