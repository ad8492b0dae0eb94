"""The two tables: every estimator and every interval by name."""

import difflib
from collections.abc import Iterable
from typing import Any, Final

from .arms import CADR, ArmMeans, ConstantAllocation, PropensityWeighted, TwoPointAllocation
from .bootstrap import OrdinaryBootstrap, PoissonBootstrap
from .estimators import (
    AIPW,
    DROS,
    IPW,
    SNDR,
    SNIPW,
    ClippedIPW,
    Estimator,
    MinVariance,
    ModelDM,
    StableVariance,
    SubGaussianDR,
    SubGaussianIPW,
    SwitchDR,
    TruncatedIPW,
)
from .intervals import EmpiricalBernstein, Interval, Normal, StudentT
from .likelihood import LikelihoodRatio
from .policy_bootstrap import PolicyBootstrap
from .sequences import DoublyRobustBetting, HedgedBetting, KTSequence

#: A new estimator is one class, and its name here.
ESTIMATORS: Final[dict[str, type[Estimator]]] = {
    cls.name: cls
    for cls in (
        ArmMeans,
        IPW, SNIPW, ClippedIPW, TruncatedIPW, SubGaussianIPW,
        AIPW, SNDR, SwitchDR, DROS, SubGaussianDR,
        PropensityWeighted, ConstantAllocation, TwoPointAllocation,
        StableVariance, MinVariance, CADR,
    )
}  # fmt: skip

#: A new interval is one class, and its name here.
INTERVALS: Final[dict[str, type[Interval]]] = {
    cls.name: cls
    for cls in (
        Normal, StudentT, EmpiricalBernstein, OrdinaryBootstrap, PoissonBootstrap,
        PolicyBootstrap, LikelihoodRatio, KTSequence, HedgedBetting, DoublyRobustBetting,
    )
}  # fmt: skip

#: What is computed when nothing is asked for, where the log allows it.
USUAL_ESTIMATORS: Final = (
    "dm", "ipw", "snipw", "clipped-ipw", "aipw", "aw-aipw-two-point", "stable-variance",
)  # fmt: skip
USUAL_INTERVALS: Final = ("policy-bootstrap", "likelihood-ratio", "kt", "normal")


def estimator_class(name: str, contextual: bool) -> type[Estimator]:
    """The class of an estimator; with a context the direct method is the reward model's."""
    return ModelDM if name == "dm" and contextual else ESTIMATORS[name]


def names(what: str, given: Any, table: Iterable[str], usual: tuple[str, ...]) -> tuple[str, ...]:
    """The names that a request means: None the usual ones, "all" every one."""
    known = list(table)
    if given is None:
        return usual
    if given == "all":
        return tuple(known)
    wanted = [given] if isinstance(given, str) else list(given)
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"unknown {what} {name!r}: {hint}")
    if not wanted:
        raise ValueError(f"name at least one {what}, or leave it out for the usual ones")
    return tuple(dict.fromkeys(wanted))
