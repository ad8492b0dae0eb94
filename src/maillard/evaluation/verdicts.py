"""What to recommend, and what to say of an estimate in plain words."""

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from ..divergence import kl
from ..tables import counted
from .diagnostics import Diagnostics
from .estimators import Estimator, Point
from .intervals import Ends, Interval
from .refit import Experiment

#: (estimator, interval), the best first. Arms without a context: arm means, whose error is the
#: smallest on logs of learning policies. Their intervals that cover what they say on such logs come
#: first, the narrowest before the others: measured, see docs/coverage.md.
_WITHOUT_CONTEXT: Final = (
    ("dm", "policy-bootstrap"), ("dm", "likelihood-ratio"), ("dm", "kt"), ("dm", "betting"),
    ("aipw", "dr-betting"), ("dm", "t"), ("dm", "normal"), ("stable-variance", "normal"),
    ("aipw", "t"), ("aipw", "normal"), ("snipw", "t"), ("snipw", "normal"), ("ipw", "normal"),
)  # fmt: skip
#: Where rounds are independent the textbook's intervals cover, and are the narrowest.
_INDEPENDENT: Final = (("dm", "t"), ("dm", "normal"))
#: With a context arm means are no longer means of anything.
_WITH_CONTEXT: Final = (
    ("sndr", "t"), ("sndr", "normal"), ("aipw", "t"), ("aipw", "normal"), ("snipw", "t"),
    ("snipw", "normal"), ("ipw", "normal"),
)  # fmt: skip

#: Pulls of an arm from which its mean is as good as normal.
MANY: Final = 30
#: Weights are not to be trusted with fewer effective rows, or with a larger share in one row.
FEW: Final = 50.0
LARGE_SHARE: Final = 0.1
#: Propensities are often written with few digits, and then so wrong are all weights alike.
ROUNDED: Final = 1e-3
#: A tail index below 2 is an infinite variance.
HEAVY: Final = 2.0
#: How seldom an honest log is said to contradict itself.
FALSE_ALARM: Final = 1e-6


def recommended(
    pairs: Iterable[tuple[str, str]], contextual: bool, independent: bool = False
) -> tuple[str, str] | None:
    """The estimator and interval to believe, among those that gave a finite answer.

    `independent`: whether propensities never changed, and arms have many pulls.
    """
    finite = list(pairs)
    order: tuple[tuple[str, str], ...] = _WITH_CONTEXT if contextual else _WITHOUT_CONTEXT
    if independent and not contextual:
        order = _INDEPENDENT + order
    for pair in order:
        if pair in finite:
            return pair
    return finite[0] if finite else None


def verdict(
    estimator: Estimator, interval: Interval, point: Point, ends: Ends, seen: Diagnostics
) -> str:
    """One sentence: whether this number can be relied on, and if not, why."""
    if math.isnan(point.estimate):
        return f"nothing can be said: {_missing(point, seen)}"
    if math.isnan(ends.low) or math.isnan(ends.high):
        return f"no interval: {ends.reason or 'there is no standard error'}"
    if point.arms is not None:
        return _of_arm_means(interval, point, seen)
    left_out = ""
    if seen.impossible > 0.01 * seen.rows:
        left_out = f"; {counted(seen.impossible, 'round')} could not play what the target wants"
    if interval.anytime:
        return f"valid at every time, whatever policy wrote the log{left_out}"
    if seen.ess < FEW or seen.largest_share > LARGE_SHARE:
        return f"do not trust: {_too_few(seen)}{left_out}"
    if contradicted(seen):
        return f"do not trust: {_CONTRADICTED}{left_out}"
    error = seen.mean_weight_error
    if abs(seen.mean_weight - 1.0) > 4.0 * error + ROUNDED:
        return (
            f"do not trust: the weights average {seen.mean_weight:.3f} ± {error:.3f} and not 1, "
            f"so the propensities are not those drawn from, or arms were impossible{left_out}"
        )
    if seen.tail < HEAVY:
        return f"take care: the weights have a heavy tail (index {seen.tail:.1f}){left_out}"
    if not seen.constant:
        return f"take care: the policy was learning, and such intervals miss too often{left_out}"
    return f"sound: rounds are independent and weights moderate{left_out}"


_CONTRADICTED: Final = "the arms cannot have been drawn with the logged propensities"


def contradicted(seen: Diagnostics) -> bool:
    """Whether the arms were played more or less often than propensities that never changed allow.

    By Chernoff's bound: P(pulls/n as far from p) ≤ 2 exp(−n kl(pulls/n, p)) for each arm, with the
    p next to pulls/n of which the propensity may be a rounding.
    """
    p, n = seen.propensities, seen.rows
    # Propensities that sum to more than 1 are of rounds in which not all arms could be played.
    if not seen.constant or n == 0 or not np.nansum(p) <= 1.0 + ROUNDED:
        return False
    played = seen.pulls > 0.0
    share, p = seen.pulls[played] / n, p[played]
    nearest = np.clip(share, p * (1.0 - ROUNDED), np.minimum(p * (1.0 + ROUNDED), 1.0))
    far = max(kl(a, b) for a, b in zip(share, nearest))  # type: ignore[no-untyped-call]
    return bool(n * far > math.log(2.0 * len(seen.pulls) / FALSE_ALARM))


def _too_few(seen: Diagnostics) -> str:
    if seen.usable < FEW:
        reason = f"{counted(seen.usable, 'row')} are too few"
    elif seen.ess < FEW:
        reason = f"the weights leave {seen.ess:,.0f} effective rows of {seen.usable:,}"
    else:
        return f"one row has {seen.largest_share:.0%} of the weight"
    if seen.largest_share > LARGE_SHARE:
        reason += f", and one row has {seen.largest_share:.0%} of the weight"
    return reason


def _of_arm_means(interval: Interval, point: Point, seen: Diagnostics) -> str:
    assert point.arms is not None
    least = point.arms.pulls[point.arms.weights != 0.0].min()
    few = f", though one arm has only {counted(least, 'pull')}" if least < MANY else ""
    if interval.anytime:
        return f"valid at every time, whatever policy wrote the log{few}"
    if interval.name == "policy-bootstrap":
        experiment = interval.conditions.experiment
        assert isinstance(experiment, Experiment)
        policy = experiment.policy["policy"]
        return f"covers, if {policy} wrote this log and the rounds were fixed beforehand{few}"
    if interval.name == "likelihood-ratio":
        return f"covers on logs of learning policies, if the rounds were fixed beforehand{few}"
    if contradicted(seen):
        return f"take care: {_CONTRADICTED}, so rounds may depend on each other{few}"
    if seen.constant:
        return f"sound: rounds are independent{few}"
    return f"take care: the policy was learning, and such intervals miss too often{few}"


def _missing(point: Point, seen: Diagnostics) -> str:
    if point.arms is not None:
        return "an arm that the target wants was never played"
    if seen.usable == 0:
        return "in no round was everything possible that the target wants"
    if seen.mean_weight == 0.0:
        return "no row has an arm that the target plays"
    return "the terms of the rows are not finite"
