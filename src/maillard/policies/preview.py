"""What a policy knows and would do next, as a notebook shows it."""

from typing import TYPE_CHECKING, Final

from ..tables import Table

if TYPE_CHECKING:
    from .policy import Policy

#: More arms than these are not shown.
ARMS: Final = 20


def preview(policy: "Policy") -> Table:
    """Each arm with its pulls, mean and probability, after the rewards so far."""
    try:
        probabilities = [_number(p) for p in policy.probabilities()]
    except ValueError:  # no exact probability is known here, and none is made up
        probabilities = ["–"] * len(policy.arms)
    rows = [
        (repr(arm), f"{pulls:,.0f}", _number(mean), p)
        for arm, pulls, mean, p in zip(
            policy.arms[:ARMS], policy.pulls, policy.means, probabilities, strict=False
        )
    ]
    chosen = "".join(f", {name} = {value}" for name, value in policy.parameters.items())
    notes = [policy.formula]
    if len(policy.arms) > ARMS:
        notes.insert(0, f"and {len(policy.arms) - ARMS:,} more arms")
    seen = policy.round - 1
    title = f"{policy.slug}{chosen} · {seen:,} reward{'' if seen == 1 else 's'} seen"
    return Table(title, ("arm", "pulls", "mean", "probability"), tuple(rows), tuple(notes))


def _number(value: float) -> str:
    return f"{value:.4g}" if value == value else "–"
