"""Which estimators and intervals are computed: what is wanted and goes with log and target."""

from typing import Any, NamedTuple

from . import catalogue, pushdown
from .estimators import Estimator
from .intervals import Conditions, Interval
from .targets import Target


class Plan(NamedTuple):
    """What one pass is to compute."""

    estimators: dict[str, Estimator]
    #: Each with the estimators that it goes with.
    intervals: dict[str, tuple[Interval, tuple[str, ...]]]
    #: Why something usual is missing.
    notes: list[str]

    @property
    def needs_probabilities(self) -> bool:
        """Whether anything needs the probabilities of all arms."""
        return "dr-betting" in self.intervals or any(
            estimator.needs_probabilities for estimator in self.estimators.values()
        )

    @property
    def one_pass(self) -> bool:
        """Whether anything takes one pass over all rows."""
        return any(estimator.one_pass for estimator in self.estimators.values())

    @property
    def sequential(self) -> bool:
        """Whether anything depends on the order of the rows."""
        return any(
            estimator.predicts and estimator.name != "dm" for estimator in self.estimators.values()
        ) or any(
            interval.anytime and type(interval).step is not Interval.step
            for interval, _ in self.intervals.values()
        )


def planned(
    conditions: Conditions,
    first: Target,
    second: Target | None,
    model: Any,
    estimators: Any,
    intervals: Any,
    remote: bool,
) -> Plan:
    """The estimators and intervals that are wanted and go together. What was named must go."""
    notes: list[str] = []
    named = {"estimator": _is_named(estimators), "interval": _is_named(intervals)}
    contextual = conditions.contextual
    wanted = catalogue.names(
        "estimator",
        estimators,
        catalogue.known_estimators(contextual or named["estimator"]),
        catalogue.USUAL_WITH_CONTEXT if contextual else catalogue.USUAL_ESTIMATORS,
    )
    kinds = catalogue.names("interval", intervals, catalogue.INTERVALS, catalogue.USUAL_INTERVALS)
    chosen: dict[str, Estimator] = {}
    for name in wanted:
        cls = catalogue.estimator_class(name, contextual, conditions.setting)
        obstacle = _obstacle(cls, conditions, first, second, model)
        if remote and not obstacle:
            obstacle = pushdown.obstacle(cls, model)
        if not obstacle:
            chosen[name] = cls(conditions.setting)
        elif named["estimator"]:
            raise ValueError(f"{name} {obstacle}")
        else:
            notes.append(f"{name} {obstacle}")
    paired: dict[str, tuple[Interval, tuple[str, ...]]] = {}
    for kind in kinds:
        interval = catalogue.INTERVALS[kind](conditions)
        obstacles = {name: interval.obstacle(estimator) for name, estimator in chosen.items()}
        if remote and (why := pushdown.interval_obstacle(interval)):
            obstacles = dict.fromkeys(chosen, why)
        fits = tuple(name for name, obstacle in obstacles.items() if not obstacle)
        if fits:
            paired[kind] = (interval, fits)
        elif named["interval"]:
            reasons = "; ".join(dict.fromkeys(obstacles.values()))
            raise ValueError(f"the interval {kind} {reasons}")
        elif not remote:
            patient = catalogue.INTERVALS[kind](conditions._replace(quick=False))
            for name, estimator in chosen.items():  # could be had, but was not asked for
                if not patient.obstacle(estimator):
                    notes.append(f"{kind} {obstacles[name]}")
    covered = {name for _, fits in paired.values() for name in fits}
    for name in [name for name in chosen if name not in covered]:
        if named["estimator"]:
            reasons = "; ".join(
                f"{kind} {catalogue.INTERVALS[kind](conditions).obstacle(chosen[name])}"
                for kind in kinds
            )
            raise ValueError(f"no interval that was asked for goes with {name}: {reasons}")
        del chosen[name]
    if not chosen:
        raise ValueError(f"nothing can be computed from this log: {'; '.join(notes)}")
    return Plan(chosen, paired, notes)


def _is_named(given: Any) -> bool:
    return given is not None and given != "all"


def _obstacle(
    cls: type[Estimator], conditions: Conditions, first: Target, second: Target | None, model: Any
) -> str:
    targets = [first] if second is None else [first, second]
    if cls.needs_probabilities and not conditions.probabilities:
        return "needs the probabilities of all arms in every row: the log has no such column"
    if cls.needs_fixed_target and any(isinstance(t, Target) and t.ordered for t in targets):
        return "weights rounds unequally, so the target must be the same in all of them"
    if cls.contextual == "only" and not conditions.contextual:
        return f"needs a context: without one it is {cls.name.removesuffix('-by-context')}"
    if cls.contextual == "no" and conditions.contextual:
        return "is for rewards and probabilities without context"
    if cls.contextual == "model" and model is None:
        return "needs a reward model where the target is given row by row: model="
    if cls.needs_distribution and any(
        isinstance(target, Target) and not target.whole for target in targets
    ):
        return "needs the target's probabilities of all arms, not of the logged one only"
    if cls.needs_blind and conditions.contextual and not conditions.setting.blind:
        return (
            "needs each round's probabilities at the contexts of other rounds: a log has them only "
            "if the policy that wrote it saw no context; then say so: blind=True, --blind"
        )
    if cls.rows_at_most is not None and conditions.setting.rows > cls.rows_at_most:
        return f"keeps rows in memory, at most {cls.rows_at_most:,}"
    return ""
