"""Learning from counts instead of single rewards: pulls, sums and sums of squares."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .checks import LARGEST, brief
from .learning import PULLS, TOTAL

if TYPE_CHECKING:
    from .policy import Policy

Array = NDArray[np.float64]


def possible(policy: "Policy", pulls: Array, totals: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Scaled totals brought into the range that so many rewards can have, and whether they fit.

    A sum of rewards may leave its range by rounding: as much as that is forgiven.
    """
    low, high = (policy._scaled(end) for end in policy.rewards)
    with np.errstate(invalid="ignore"):  # 0 rewards in an unbounded range: 0·∞
        lower = np.where(pulls > 0, pulls * low, 0.0)
        upper = np.where(pulls > 0, pulls * high, 0.0)
    inside = np.clip(totals, lower, upper)
    some = np.maximum(pulls, 1.0)
    fits = (np.abs(totals) / some <= LARGEST) & (np.abs(totals - inside) <= 1e-9 * some)
    return inside, fits


def checked(
    policy: "Policy", pulls: Any, totals: Any, squares: Any
) -> tuple[Array, Array, Array | None]:
    """Pulls, scaled totals and scaled sums of squares; a ValueError where they are impossible."""
    arms = len(policy.arms)
    n, s = _numbers("pulls", pulls, arms), _numbers("totals", totals, arms)
    with np.errstate(invalid="ignore"):  # infinite ones are refused below
        x = (s - n * policy._shift) / policy._scale
    x, fits = possible(policy, n, x)
    for i, label in enumerate(policy.arms):
        if not (0 <= n[i] <= 2**53 and n[i] == np.floor(n[i])):
            raise ValueError(f"pulls of arm {label!r} must be a count, not {n[i]:g}")
        if not fits[i] or (n[i] > 0 and not policy._accepts(s[i] / n[i])):
            raise ValueError(
                f"total {s[i]:g} of arm {label!r} is impossible for {n[i]:g} rewards "
                f"{policy._range_text()}"
            )
    if "spread" not in policy.rows:
        return n, x, None
    if squares is None:
        raise ValueError(f"{policy.slug} uses the variance: give the squares too")
    q = _numbers("squares", squares, arms)
    q = (q - 2 * policy._shift * s + n * policy._shift**2) / policy._scale**2
    # Σ r ≥ Σ r² ≥ (Σ r)²/n for rewards in [0, 1].
    slack = 1e-9 * np.maximum(n, 1.0)
    least = x * x / np.maximum(n, 1.0)
    wrong = np.flatnonzero(~((least - slack <= q) & (q <= x + slack)))
    if wrong.size:
        label = policy.arms[int(wrong[0])]
        raise ValueError(f"the squares of arm {label!r} are impossible for its total")
    return n, x, q


def added_spread(state: Array, n: Array, x: Array, q: Array | None) -> Array:
    """What new counts add to Σ (r − mean)²: their own, and Chan's term between old and new."""
    assert q is not None
    old, total = state[PULLS], state[TOTAL]
    with np.errstate(invalid="ignore", divide="ignore"):
        within = np.where(n > 0, np.maximum(q - x * x / n, 0.0), 0.0)
        gap = np.where((n > 0) & (old > 0), x / n - total / old, 0.0)
    return np.asarray(within + gap**2 * n * old / np.maximum(n + old, 1.0))


def _numbers(name: str, values: Any, arms: int) -> Array:
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biufO":
            raise TypeError
        array = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, not {brief(values)}") from None
    if array.shape != (arms,):
        raise ValueError(f"{name} must have one number for each of {arms} arms")
    return array
