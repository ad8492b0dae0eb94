"""The two tables: every estimator and every interval by name."""

import difflib
from collections.abc import Iterable
from typing import Any, Final

from .arms import CADR, ArmMeans, ConstantAllocation, PropensityWeighted, TwoPointAllocation
from .bootstrap import OrdinaryBootstrap, PoissonBootstrap
from .contexts import (
    ContextualCADR,
    MinVarianceByContext,
    MinVarianceSoFar,
    StableVarianceByContext,
    StableVarianceSoFar,
)
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
    Setting,
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

#: Those of them that are another class where there is a context, and those that need one.
WITH_CONTEXT: Final[dict[str, type[Estimator]]] = {
    cls.name: cls
    for cls in (
        ModelDM, StableVarianceSoFar, MinVarianceSoFar, ContextualCADR,
        StableVarianceByContext, MinVarianceByContext,
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
#: With a context, where arm means are means of nothing, those whose pieces merge.
USUAL_WITH_CONTEXT: Final = ("dm", "ipw", "snipw", "clipped-ipw", "aipw")
USUAL_INTERVALS: Final = ("policy-bootstrap", "likelihood-ratio", "kt", "normal")


def known_estimators(contextual: bool) -> tuple[str, ...]:
    """The names of all estimators; without a context but for those that need one."""
    return tuple(dict.fromkeys((*ESTIMATORS, *WITH_CONTEXT)) if contextual else ESTIMATORS)


def estimator_class(name: str, contextual: bool, setting: Setting) -> type[Estimator]:
    """The class of an estimator, which may be another where there is a context."""
    plain = ESTIMATORS.get(name)
    if plain is None or (contextual and name in WITH_CONTEXT):
        # Where neither policy nor target looks at the context it changes predictions alone.
        unmoved = setting.blind and setting.weights is not None
        if plain is None or not (unmoved and plain.needs_blind):
            return WITH_CONTEXT[name]
    return plain


def names(what: str, given: Any, table: Iterable[str], usual: tuple[str, ...]) -> tuple[str, ...]:
    """The names that a request means: None the usual ones, "all" every one."""
    known = list(table)
    if given is None:
        return usual
    if given == "all":
        return tuple(known)
    if not isinstance(given, Iterable):
        raise ValueError(f"give the names of {what}s, not {given!r}")
    wanted = [given] if isinstance(given, str) else list(given)
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"unknown {what} {name!r}: {hint}")
    if not wanted:
        raise ValueError(f"name at least one {what}, or leave it out for the usual ones")
    return tuple(dict.fromkeys(wanted))
