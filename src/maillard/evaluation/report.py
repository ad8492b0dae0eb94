"""An evaluation as text."""

import math
from typing import TYPE_CHECKING, Final

from ..tables import Table, counted

if TYPE_CHECKING:
    from .evaluation import Estimate, Evaluation


def summary(evaluation: "Evaluation") -> str:
    """The table of estimates, the facts about the weights, the notes."""
    seen = evaluation.diagnostics
    lines = [
        f"value of {evaluation.target}, {evaluation.level:.4g} intervals, "
        f"{counted(seen.rows, 'round')} of {counted(len(evaluation.arms), 'arm')}",
        "",
        *_aligned(_rows(evaluation.estimates, evaluation.recommended), _WORDS),
        "",
        f"weights: mean {seen.mean_weight:.4g} ± {_number(seen.mean_weight_error)}, effective rows "
        f"{seen.ess:,.0f}, largest share {_percent(seen.largest_share)}",
        f"propensities: smallest {seen.smallest_propensity:.3g}; in "
        f"{counted(seen.impossible, 'round')} the "
        "target wants an arm of probability 0",
    ]
    if evaluation.arm_sums is not None and evaluation.rewards is not None:
        lines += ["", *_arms(evaluation)]
    lines += ["", *(f"note: {note}" for note in evaluation.notes)] if evaluation.notes else []
    return "\n".join([*lines, "", _recommended(evaluation)])


def table(evaluation: "Evaluation") -> Table:
    """The same for a notebook."""
    seen = evaluation.diagnostics
    heads, *rows = _rows(evaluation.estimates, evaluation.recommended)
    title = (
        f"Value of {evaluation.target}, {evaluation.level:.4g} intervals, {seen.rows:,} rounds of "
        f"{len(evaluation.arms)} arms"
    )
    return Table(title, heads, tuple(rows), (_recommended(evaluation), *evaluation.notes), _WORDS)


def _recommended(evaluation: "Evaluation") -> str:
    if evaluation.recommended is None:
        return "recommended: none, no estimate has a finite interval"
    best = evaluation.best
    return (
        f"recommended: {best.estimator} with {best.interval}, {best.estimate:.4f} in "
        f"[{best.low:.4f}, {best.high:.4f}]: {best.verdict}"
    )


#: The columns that hold words.
_WORDS: Final = (0, 1, 8)


def _rows(estimates: "list[Estimate]", recommended: str | None) -> list[tuple[str, ...]]:
    """The heads, and a row for each estimate."""
    head = (
        "estimator",
        "interval",
        "estimate",
        "low",
        "high",
        "error",
        "ess",
        "largest",
        "verdict",
    )
    rows: list[tuple[str, ...]] = [head]
    for i, e in enumerate(estimates):
        star = " *" if i == 0 and recommended is not None else ""
        rows.append((
            e.estimator + star, e.interval, _number(e.estimate), _number(e.low), _number(e.high),
            _number(e.standard_error), f"{e.ess:,.0f}", _percent(e.largest_weight_share), e.verdict,
        ))  # fmt: skip
    return rows


def _arms(evaluation: "Evaluation") -> list[str]:
    assert evaluation.arm_sums is not None
    bounds = evaluation.arm_bounds
    rows: list[tuple[str, ...]] = [("arm", "pulls", "mean", "low", "high", "")]
    _, means, *_ = sums = evaluation.arm_sums
    for a, label in enumerate(evaluation.arms[:20]):
        rows.append((
            str(label), f"{sums.pulls[a]:,.0f}", _number(means[a]),
            _number(bounds.low[a]), _number(bounds.high[a]),
            "can be the best" if bounds.best_arms[a] else "",
        ))  # fmt: skip
    lines = _aligned(rows, left=(0, 5))
    if len(evaluation.arms) > 20:
        lines.append(f"and {len(evaluation.arms) - 20} more")
    return lines


def _aligned(rows: list[tuple[str, ...]], left: tuple[int, ...]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def _number(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:.4f}"


def _percent(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{float(f'{100.0 * value:.2g}'):g} %"
