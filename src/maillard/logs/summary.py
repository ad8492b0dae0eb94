"""A description of a log as tables: the arms, the propensities, and sentences about both."""

from typing import TYPE_CHECKING, Final

from ..tables import Table

if TYPE_CHECKING:
    from .description import Description

#: More arms than these are not shown.
ARMS: Final = 40


def arms(found: "Description") -> Table:
    """What is known of each arm, under a line about the whole log."""
    heads = ("arm", "pulls", "share", "Σ probability", "mean reward", "± sd", "least propensity")
    rows = []
    for arm in found.arms[:ARMS]:
        expected = arm["expected_pulls"]
        rows.append((
            str(arm["arm"]),
            f"{arm['pulls']:,}",
            f"{arm['pulls'] / max(found.rows, 1):.1%}",
            "" if expected is None else f"{expected:,.1f}",
            _number(arm["mean_reward"]),
            _number(arm["standard_deviation"]),
            _number(arm["smallest_propensity"]),
        ))  # fmt: skip
    notes = [", ".join(f"{k} {v}" for k, v in found.metadata.items() if v is not None)]
    if len(found.arms) > ARMS:
        notes.insert(0, f"… and {len(found.arms) - ARMS} more arms (to_dict() and --json have all)")
    return Table(_headline(found), heads, tuple(rows), tuple(note for note in notes if note))


def propensities(found: "Description") -> Table:
    """How many rows have propensities of which size."""
    most = max(one["rows"] for one in found.histogram) or 1
    used = [i for i, one in enumerate(found.histogram) if one["rows"]]
    rows = []
    for one in found.histogram[min(used, default=0) :]:
        bar = "█" * round(40 * one["rows"] / most) or ("▏" if one["rows"] else "")
        rows.append((f"{one['above']:g} – {one['up_to']:g}", f"{one['rows']:,}", bar))
    return Table("", ("propensity", "rows", ""), tuple(rows), (_uniform(found),), words=(2,))


def sentences(found: "Description") -> list[tuple[str, bool]]:
    """What each check says, and whether an honest log would hardly say so."""
    return [(f"{check.name}: {check.sentence}", check.suspicious) for check in found.checks]


def _headline(found: "Description") -> str:
    words = [f"{found.name}: {found.rows:,} rows"]
    if found.runs is not None:
        words.append(f"{found.runs:,} run{'' if found.runs == 1 else 's'}")
    words.append(f"{len(found.arms):,} arms")
    low, high = found.rewards["smallest"], found.rewards["largest"]
    if low is not None:
        words.append(f"rewards from {low:g} to {high:g}, mean {found.rewards['mean']:.4g}")
    if found.ordered is False:
        words.append("rounds out of order")
    words += [f"{count:,} {reason} left out" for reason, count in found.skipped.items()]
    return ", ".join(words)


def _uniform(found: "Description") -> str:
    words = (
        f"For the uniform target: effective sample size {found.effective_sample_size:,.1f} of "
        f"{found.rows:,}, the largest weight is {found.largest_weight_share:.2%} of all"
    )
    if found.zero_propensities:
        words += f", {found.zero_propensities:,} rows could not play every arm"
    return words + "."


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
