"""`evaluate` and what it returns."""

import math
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from ..logs.remote import RemoteLog, is_table
from ..policies import checks
from ..tables import Framed
from . import pushdown
from .diagnostics import Diagnostics
from .estimators import ArmSums, Point, Setting
from .intervals import Conditions, Ends
from .moments import Array
from .passes import Pass, State
from .planning import Plan, planned
from .refit import experiment_of
from .rows import NEVER
from .sequences import ArmBounds, arm_bounds
from .targets import Fixed, PerRow, Target, numbers, target_of
from .verdicts import MANY, contradicted, recommended, verdict

#: Rewards beyond this have no variance in double precision.
ENORMOUS: Final = 1e100


class Estimate(NamedTuple):
    """One estimator's answer with one interval."""

    estimator: str
    interval: str
    estimate: float
    low: float
    high: float
    standard_error: float
    #: Effective sample size: of the importance weights, or of the pulls that arm means rest on.
    ess: float
    #: The share of the weight that the heaviest row has.
    largest_weight_share: float
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data; None where there is no number."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in self._asdict().items()
        }


@dataclass
class Evaluation(Framed):
    """What a log says of a target: estimates, the recommended one first, and what to distrust."""

    target: str
    recommended: str | None
    estimates: list[Estimate]
    level: float
    #: Counts, weights and propensities of the log under the target.
    diagnostics: Diagnostics
    #: The labels of the log's arms.
    arms: tuple[Any, ...]
    #: Pulls and mean reward of every arm; None where rewards may depend on a context.
    arm_sums: ArmSums | None = None
    #: The range of the rewards, if it is known.
    rewards: tuple[float, float] | None = None
    #: What a reader should know besides.
    notes: list[str] = field(default_factory=list)
    #: How to see the rows again, for `plot`.
    source: tuple[Any, Pass] | None = field(default=None, repr=False)

    @property
    def arm_bounds(self) -> ArmBounds:
        """Intervals for the means of all arms, and of the best, that hold at any stopping time."""
        if self.arm_sums is None or self.rewards is None:
            raise ValueError(
                "intervals for the arms need 'dm' among the estimators and rewards in a known range"
            )
        pulls, mean, _, _ = self.arm_sums
        totals = np.where(pulls > 0, mean, 0.0) * pulls
        return arm_bounds(pulls, totals, self.level, self.rewards)

    @property
    def best(self) -> Estimate:
        """The recommended estimate."""
        if self.recommended is None:
            raise ValueError("nothing can be recommended: no estimate has a finite interval")
        return self.estimates[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `--json` prints it."""
        return {
            "target": self.target,
            "recommended": self.recommended,
            "estimates": [estimate.to_dict() for estimate in self.estimates],
        }

    def summary(self) -> str:
        """The estimates as a table, what the weights are like, and the notes."""
        from .report import summary

        return summary(self)

    def to_arrow(self) -> Any:
        """A pyarrow table with a row for each estimate, the recommended one first."""
        import pyarrow as pa

        return pa.Table.from_pylist(
            [{"target": self.target, **estimate.to_dict()} for estimate in self.estimates],
            metadata={"recommended": self.recommended or ""},
        )

    def plot(self, path: Any = None) -> Any:
        """Estimates with intervals, the weights' distribution and the estimates as rows came in.

        Reads the log once more. With a path the figure is written there; it is returned anyhow.
        """
        from .figure import plot

        return plot(self, path)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from .report import table

        return table(self)._repr_html_()


def evaluate(
    log: Any,
    target: Any = "uniform",
    *,
    versus: Any = None,
    estimators: Any = None,
    intervals: Any = None,
    level: float = 0.95,
    rewards: tuple[float, float] | None = None,
    model: Any = None,
    clip: float | None = None,
    blind: bool = False,
    run: int | None = None,
    replicates: int = 1000,
    seed: int = 0,
    executor: Any = None,
    pieces: int = 2,
    arms: Any = None,
) -> Evaluation:
    """What `target` would have earned per round, from a log of another policy's choices.

    A log of several runs is taken as one long experiment in the order of its rows: everything that
    is computed holds for it, since a later run's choices depend on earlier rows at most. The runs
    must have had the same arms; `run` picks one of them.

    Parameters
    ----------
    log : a Log, or whatever `Log.read` takes: a path, a folder, a pattern, a table. Of an Ibis
        table only sums are fetched: the estimators that need no order, where the table lies.
    target : ``"uniform"``, an arm's label, ``{label: probability}``, a list of probabilities in the
        order of the arms, the name of a policy or a Policy (replayed on the log: it learns from the
        log's rewards as if it had been watching), ``"column:NAME"`` or an array with the target's
        probabilities row by row, of the logged arm or of all arms.
    versus : a second target; everything is then about the first's value minus the second's.
    estimators, intervals : names, ``"all"``, or None for the usual ones that the log allows.
    level : the nominal coverage, 1 − α.
    rewards : the range [L, U] of the rewards. By default the log's; where it does not say, [0, 1]
        if all rewards lie there.
    model : predicted rewards of all arms in every row, a column's name or an array [rows, arms]:
        rewards may then depend on a context. Predictions must not have been fitted to these rows.
    clip : λ, where weights are clipped, truncated or bent; √rows by default.
    blind : whether the policy that wrote the log saw no context, so that its probabilities in a
        round would have been the same in any other. Matters only where rewards or the target depend
        on a context: estimators that weight rounds unequally need it.
    run : the one run to evaluate.
    replicates, seed : of the bootstrap.
    executor : a `concurrent.futures` executor that works on `pieces` of the log side by side. What
        takes one pass, such as weights from all earlier contexts, leaves it idle.
    arms : the labels of the arms, or their number K for 0 … K−1, where the log does not say. By
        default those that occur.
    """
    log = _opened(log, arms, run)
    remote = isinstance(log, RemoteLog)
    arms = tuple(log.arms)
    total = int(log.rows if log.rows is not None else len(log))
    rows = total if run is None or remote else _rows_of_run(log, run)
    if rows == 0:
        raise ValueError("the log has no rows: there is nothing to evaluate")
    if not isinstance(level, (float, np.floating)) or not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, not {level!r}")
    replicates, pieces = checks.whole("replicates", replicates), checks.whole("pieces", pieces)
    seed = checks.whole("seed", seed, low=0)
    if not isinstance(blind, (bool, np.bool_)):
        raise ValueError(f"blind must be True or False, not {blind!r}")
    stated, bounds = _range(log, rewards)
    first = target_of(target, arms, total, stated)
    second = None if versus is None else target_of(versus, arms, total, stated)
    for one in (first, second):
        if isinstance(one, PerRow):
            one.look(log)
    weights = _difference(first, second)
    given_rows = first.contextual or (second is not None and second.contextual)
    contextual = model is not None or given_rows
    if remote:
        _refuse_remote(log, first, second, model, executor)
    else:
        checks.executor_or_none(executor)
    setting = Setting(rows, len(arms), weights, _cap(clip, rows), second is not None, bool(blind))
    every = "probabilities" in log.columns
    conditions = Conditions(
        setting, bounds, every or len(arms) == 2, contextual, level, replicates, seed,
        experiment_of(log.metadata, rows, run is None), intervals is None,
    )  # fmt: skip
    plan = planned(conditions, first, second, model, estimators, intervals, remote)
    # What is known to have no zero in it need not be looked through for one.
    positive = every and (getattr(log, "least_probability", None) or 0.0) > 8.0 * NEVER
    read = (every and not positive) or (plan.needs_probabilities and (every or len(arms) == 2))
    whole = Pass(
        len(arms), first, second, plan.estimators, plan.intervals, probabilities=read,
        prior=_prior(bounds), model=_model(model), run=run,
        ordered=plan.sequential, remembers=plan.sequential,
        weighs="cadr" in plan.estimators and not contextual,
    )  # fmt: skip
    if remote:
        state = pushdown.state_of(log, whole)
    else:
        state = whole.run_over(log, None if plan.one_pass else executor, pieces)
    _refuse_enormous(state)
    if not positive:
        _refuse_impossible(arms, first, second, state, every)
    notes = [*plan.notes, *_notes(state, stated, bounds)]
    if not getattr(log, "says_arms", True):
        notes.append(
            f"the log does not say which arms there are: taken as the {len(arms)} that occur "
            "(else give arms=)"
        )
    outside = bounds is not None and not (
        bounds[0] <= state.seen.lowest_reward and state.seen.highest_reward <= bounds[1]
    )
    if outside and stated is not None:
        low, high = state.seen.lowest_reward, state.seen.highest_reward
        raise ValueError(
            f"rewards from {low:g} to {high:g} are not in the range [{stated[0]:g}, {stated[1]:g}]"
        )
    name = first.name if second is None else f"{first.name} − {second.name}"
    found = _answers(plan, conditions, state, ranged=not outside)
    best = recommended(
        [(e.estimator, e.interval) for e in found if math.isfinite(e.high - e.low)],
        contextual,
        _independent(found, state),
    )
    found.sort(key=lambda e: (e.estimator, e.interval) != best)
    return Evaluation(
        name,
        None if best is None else best[0],
        found,
        level,
        state.seen,
        arms,
        None if contextual or "dm" not in plan.estimators else _arm_sums(plan, state),
        None if outside else bounds,
        notes,
        (log, whole),
    )


# --------------------------------------------------------------------------------------------------
# Before the pass


def _opened(log: Any, arms: Any, run: int | None) -> Any:
    if is_table(log):
        return RemoteLog(log, arms, run)
    if hasattr(log, "batches") and hasattr(log, "arms") and arms is None:
        return log
    from ..logs import Log

    return Log.read(log, arms=arms)


def _refuse_remote(
    log: RemoteLog, first: Target, second: Target | None, model: Any, executor: Any
) -> None:
    """What takes more than sums over a table whose rows have no order."""
    for target in (first, second):
        if target is not None and target.ordered:
            raise ValueError(
                f"target {target.name}: a policy is replayed row by row, and a table in a database "
                "has no order; export the log to a file"
            )
    if model is not None and not isinstance(model, str):
        raise ValueError("model: of a table in a database it must be the name of a column")
    if model is not None and not log.holds_lists(model):
        raise ValueError(f"model: column {model!r} must hold lists, a prediction for each arm")
    if executor is not None:
        raise ValueError("executor= is for logs that are read here, not for a table in a database")


def _rows_of_run(log: Any, run: int) -> int:
    if "run" not in log.columns:
        raise ValueError(f"run={run}: the log has no column run")
    batches = log.batches(columns=("run",))
    rows = sum(int(np.count_nonzero(numbers(batch, "run") == run)) for batch in batches)
    if rows == 0:
        raise ValueError(f"the log has no run {run}")
    return rows


def _range(
    log: Any, given: tuple[float, float] | None
) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """The range that is stated, and the one to work with: [0, 1] as long as nothing contradicts."""
    stated = given if given is not None else log.metadata.get("rewards")
    if stated is None:
        return None, (0.0, 1.0)
    try:
        low, high = (float(end) for end in stated)
    except (TypeError, ValueError):
        raise ValueError(f"rewards must be a pair (L, U), not {stated!r}") from None
    if not low < high:
        raise ValueError(f"rewards=(L, U) needs L < U, not ({low:g}, {high:g})")
    bounded = math.isfinite(low) and math.isfinite(high)
    return (low, high), (low, high) if bounded else None


def _prior(bounds: tuple[float, float] | None) -> float:
    """The prediction for an arm that has not been seen."""
    return 0.0 if bounds is None else 0.5 * (bounds[0] + bounds[1])


def _cap(clip: float | None, rows: int) -> float:
    if clip is None:
        return math.sqrt(rows)
    if isinstance(clip, bool) or not isinstance(clip, (int, float, np.number)) or not clip >= 1.0:
        raise ValueError(f"clip must be a number of at least 1, not {clip!r}")
    return float(clip)


def _difference(first: Target, second: Target | None) -> Array | None:
    if second is None:
        return first.weights
    if first.weights is None or second.weights is None:
        return None
    difference = first.weights - second.weights
    if not difference.any():
        raise ValueError("the two targets are the same distribution: their values do not differ")
    return np.asarray(difference)


def _model(model: Any) -> str | Array | None:
    if model is None or isinstance(model, str):
        return model
    values = np.asarray(model, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError("model must be a column's name or an array [rows, arms]")
    return values


# --------------------------------------------------------------------------------------------------
# After the pass


def _refuse_impossible(
    arms: tuple[Any, ...], first: Target, second: Target | None, state: State, every: bool
) -> None:
    for target in (first, second):
        if target is None or not isinstance(target, Fixed):
            continue
        assert target.weights is not None
        for a in np.flatnonzero((target.weights > 0.0) & ~state.seen.possible):
            why = (
                "its probability is 0 in every row"
                if every
                else "it was never played, and no probabilities say that it could have been"
            )
            raise ValueError(
                f"the target gives arm {arms[a]!r} probability {target.weights[a]:g}, but the log "
                f"says nothing about it: {why}"
            )


def _refuse_enormous(state: State) -> None:
    largest = max(-state.seen.lowest_reward, state.seen.highest_reward)
    if largest > ENORMOUS:
        raise ValueError(
            f"rewards as large as {largest:g} cannot be evaluated, for their squares overflow: "
            "measure them in larger units"
        )


def _notes(
    state: State,
    stated: tuple[float, float] | None,
    bounds: tuple[float, float] | None,
) -> list[str]:
    seen, notes = state.seen, []
    if state.order.runs > 1:
        notes.append(f"{state.order.runs:,} runs, taken together as one experiment")
    if state.order.repeated:
        notes.append(
            f"{state.order.repeated:,} rows repeat the row before, round and all: copied twice?"
        )
    if contradicted(seen):
        notes.append(
            "the arms cannot have been drawn with the logged propensities: `maillard logs "
            "describe` tells more"
        )
    if stated is None and bounds is not None:
        if seen.lowest_reward < 0.0 or seen.highest_reward > 1.0:
            notes.append(
                f"rewards go from {seen.lowest_reward:g} to {seen.highest_reward:g} and the log "
                "does not state their range: give rewards=(L, U) for confidence sequences"
            )
        else:
            notes.append("the log does not state the range of the rewards: taken as [0, 1]")
    return notes


def _independent(found: list[Estimate], state: State) -> bool:
    """Whether the textbook's intervals of arm means are to be believed."""
    if not state.seen.constant or np.any(state.seen.pulls < MANY) or contradicted(state.seen):
        return False
    # Rewards that never differed have no standard error to speak of.
    return all(one.standard_error > 0.0 for one in found if one.estimator == "dm")


def _answers(plan: Plan, conditions: Conditions, state: State, ranged: bool) -> list[Estimate]:
    """Every estimator with every interval that goes with it."""
    seen = state.seen
    if state.other.rows and state.other.ess < seen.ess:
        seen = state.other
    found = []
    for name, estimator in plan.estimators.items():
        with np.errstate(all="ignore"):
            point = estimator.finish(state.estimators[name])
        for kind, (interval, names) in plan.intervals.items():
            if name not in names:
                continue
            if interval.ranged and not ranged:
                ends = Ends(math.nan, math.nan, "rewards leave [0, 1] and no range is stated")
            elif math.isnan(point.estimate):
                ends = Ends(math.nan, math.nan)
            else:
                with np.errstate(all="ignore"):
                    ends = interval.ends(estimator, point, state.intervals[kind], seen)
            ess, share = _effective(point, seen)
            words = verdict(estimator, interval, point, ends, seen)
            found.append(
                Estimate(
                    name, kind, point.estimate, ends.low, ends.high, point.error, ess, share, words
                )
            )
    return found


def _effective(point: Point, seen: Diagnostics) -> tuple[float, float]:
    """Effective sample size and largest share: of arm means, those of the pulls that they use."""
    if point.arms is None:
        return seen.ess, seen.largest_share
    pulls, _, _, weights = point.arms
    used = weights != 0.0
    if not used.any() or np.any(pulls[used] == 0):
        return 0.0, math.nan
    each = np.abs(weights[used]) / pulls[used]
    total = float(np.abs(weights[used]).sum())
    return total**2 / float(np.abs(weights[used]) @ each), float(each.max()) / total


def _arm_sums(plan: Plan, state: State) -> ArmSums | None:
    return plan.estimators["dm"].finish(state.estimators["dm"]).arms
