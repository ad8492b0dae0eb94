"""What a log holds, in one pass: arms, rewards, propensities, and whether these can be true."""

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .honesty import Evidence, p_value
from .schema import Batch

if TYPE_CHECKING:
    from .log import Log

#: Upper ends of the histogram's bins; the lower end of each is the one before.
_EDGES: Final = (1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9, 1.0)
#: How far an arm's propensities may be from summing to 1: they are often written with few digits.
_SUM: Final = 1e-3
#: Below this a p-value is called a contradiction. One honest log in a thousand is below at most.
SUSPICIOUS: Final = 1e-3


@dataclass(frozen=True)
class Check:
    """One question to the logged probabilities: what was found, its p-value, and what it means."""

    name: str
    #: None where the log cannot tell.
    p: float | None
    sentence: str
    facts: dict[str, Any]

    @property
    def suspicious(self) -> bool:
        """Whether an honest log would hardly look like this."""
        return self.p is not None and self.p < SUSPICIOUS

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "check": self.name,
            "p": self.p,
            "suspicious": self.suspicious,
            "sentence": self.sentence,
            **self.facts,
        }


@dataclass(frozen=True)
class Description:
    """What `Log.describe` found."""

    name: str
    rows: int
    runs: int | None
    #: Whether the rounds of every run rise from row to row; None without that column.
    ordered: bool | None
    arms: list[dict[str, Any]]
    rewards: dict[str, Any]
    histogram: list[dict[str, Any]]
    effective_sample_size: float
    largest_weight_share: float
    zero_propensities: int | None
    checks: list[Check]
    metadata: dict[str, Any]
    columns: list[str]
    skipped: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "log": self.name,
            "rows": self.rows,
            "runs": self.runs,
            "rounds_in_order": self.ordered,
            "columns": self.columns,
            "metadata": self.metadata,
            "arms": self.arms,
            "rewards": self.rewards,
            "propensities": self.histogram,
            "uniform": {
                "effective_sample_size": self.effective_sample_size,
                "largest_weight_share": self.largest_weight_share,
                "zero_propensities": self.zero_propensities,
            },
            "checks": [check.to_dict() for check in self.checks],
            "skipped": self.skipped,
        }

    def __str__(self) -> str:
        return "\n".join(f"{check.name}: {check.sentence}" for check in self.checks)

    def _repr_html_(self) -> str:
        from . import summary

        shown = summary.arms(self)._repr_html_() + summary.propensities(self)._repr_html_()
        said = "".join(f"<div>{html.escape(text)}</div>" for text, _ in summary.sentences(self))
        return f"<div>{shown}{said}</div>"


class _Tally:
    """What is counted on the way: rewards by arm, propensities, runs."""

    def __init__(self, arms: int) -> None:
        self.counts = np.zeros(arms)
        self.means = np.zeros(arms)
        self.squares = np.zeros(arms)  # Σ (r − mean)², merged by Chan's formula
        self.least = np.full(arms, math.inf)  # propensity
        self.most = np.zeros(arms)
        self.low, self.high = math.inf, -math.inf
        self.bins = np.zeros(len(_EDGES), dtype=np.int64)
        self.runs = 0
        self.ordered: bool | None = None
        self._last: tuple[int | None, Any] | None = None

    def add(self, batch: Batch, run: NDArray[Any] | None, rounds: NDArray[Any] | None) -> None:
        """Some more rows."""
        arm, reward, arms = batch.arm, batch.reward, len(self.counts)
        n = np.bincount(arm, minlength=arms).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(n > 0, np.bincount(arm, reward, minlength=arms) / n, 0.0)
            spread = np.bincount(arm, (reward - mean[arm]) ** 2, minlength=arms)
            total = self.counts + n
            step = np.where(total > 0, (mean - self.means) / total, 0.0)
        self.squares += spread + step * (mean - self.means) * self.counts * n
        self.means += step * n
        self.counts = total
        self._add_extremes(arm, batch.propensity)
        self.low, self.high = min(self.low, reward.min()), max(self.high, reward.max())
        self.bins += np.bincount(np.searchsorted(_EDGES, batch.propensity), minlength=len(_EDGES))
        self._add_order(run, rounds)

    def _add_extremes(self, arm: NDArray[np.int32], propensity: NDArray[np.float64]) -> None:
        short = arm.astype(np.uint16) if len(self.counts) <= 1 << 16 else arm  # sorted by digits
        order = np.argsort(short, kind="stable")
        sorted_arm = arm[order]
        starts = np.flatnonzero(np.diff(sorted_arm, prepend=-1))
        least = np.minimum.reduceat(propensity[order], starts)
        most = np.maximum.reduceat(propensity[order], starts)
        there = sorted_arm[starts]
        self.least[there] = np.minimum(self.least[there], least)
        self.most[there] = np.maximum(self.most[there], most)

    @property
    def constant(self) -> NDArray[np.float64] | None:
        """The probabilities of all rows, where each arm always has one and these sum to 1."""
        if not np.array_equal(self.least, self.most) or abs(self.most.sum() - 1.0) > _SUM:
            return None
        return np.asarray(self.most / self.most.sum())

    def _add_order(self, run: NDArray[Any] | None, rounds: NDArray[Any] | None) -> None:
        if run is not None:
            started = self._last is None or self._last[0] != run[0]
            self.runs += int(np.count_nonzero(np.diff(run))) + started
        if rounds is not None:
            rising = np.diff(rounds) > 0
            if run is not None:
                rising |= np.diff(run) != 0
            self.ordered = self.ordered is not False and bool(rising.all())
            if self._last is not None and (run is None or run[0] == self._last[0]):
                self.ordered &= bool(rounds[0] > self._last[1])
        self._last = (
            None if run is None else int(run[-1]),
            None if rounds is None else rounds[-1],
        )


def describe(log: "Log") -> Description:
    """Read a log once and say what is in it."""
    arms = log.arms
    evidence, tally = Evidence(len(arms)), _Tally(len(arms))
    size = max((1 << 16) // max(len(arms), 4), 256)  # what is computed from it fits into the cache
    for batch in log.batches(size, probabilities=True, columns=("run", "round")):
        run = _integers(batch, "run")
        tally.add(batch, run, _integers(batch, "round"))
        evidence.add(batch.arm, batch.propensity, batch.probabilities, run)
    known = evidence.complete == evidence.rows > 0
    assumed = None if known or not evidence.rows else tally.constant
    if assumed is not None:
        evidence.expected = evidence.rows * assumed
        evidence.spread = evidence.expected * (1.0 - assumed)
    counted = evidence.count_evidence() if known or assumed is not None else None
    return Description(
        name=log.name,
        rows=evidence.rows,
        runs=tally.runs if "run" in log.columns else None,
        ordered=tally.ordered,
        arms=[_arm(i, label, tally, evidence, counted) for i, label in enumerate(arms)],
        rewards=_rewards(tally, evidence.rows),
        histogram=[
            {"above": low, "up_to": high, "rows": int(rows)}
            for low, high, rows in zip((0.0, *_EDGES), _EDGES, tally.bins)
        ],
        effective_sample_size=evidence.effective,
        largest_weight_share=1.0 / evidence.relative if evidence.rows else 0.0,
        zero_propensities=evidence.zeros if known else None,
        checks=_checks(evidence, counted, arms, tally.ordered, assumed is not None),
        metadata=log.metadata,
        columns=list(log.columns),
        skipped=log.skipped,
    )


def _integers(batch: Batch, name: str) -> NDArray[np.int64] | None:
    if name not in batch.table.schema.names:
        return None
    column = batch.table.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        return None
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _arm(
    i: int, label: Any, tally: _Tally, evidence: Evidence, counted: NDArray[np.float64] | None
) -> dict[str, Any]:
    pulls = int(tally.counts[i])
    several = pulls > 1
    spread = math.sqrt(evidence.spread[i])
    surplus = float(evidence.pulls[i] - evidence.expected[i])
    return {
        "arm": label,
        "pulls": pulls,
        "expected_pulls": None if counted is None else float(evidence.expected[i]),
        "standard_score": surplus / spread if counted is not None and spread > 0.0 else None,
        "p": None if counted is None else p_value(counted[i]),
        "mean_reward": float(tally.means[i]) if pulls else None,
        "standard_deviation": math.sqrt(tally.squares[i] / (pulls - 1)) if several else None,
        "smallest_propensity": float(tally.least[i]) if pulls else None,
    }


def _rewards(tally: _Tally, rows: int) -> dict[str, Any]:
    if not rows:
        return {"mean": None, "smallest": None, "largest": None}
    mean = math.fsum(tally.means * tally.counts) / rows
    return {"mean": mean, "smallest": float(tally.low), "largest": float(tally.high)}


# --------------------------------------------------------------------------------------------------
# What the checks say


def _checks(
    evidence: Evidence,
    counted: NDArray[np.float64] | None,
    arms: tuple[Any, ...],
    ordered: bool | None,
    assumed: bool,
) -> list[Check]:
    if not evidence.rows:
        return [Check("rows", None, "The log has no rows.", {})]
    return [
        _weight_check(evidence),
        _count_check(evidence, counted, arms, assumed),
        _shift_check(evidence, ordered),
    ]


_CANNOT: Final = (
    "Cannot be told: the log has no column `probabilities` with the probability of every arm."
)


def _weight_check(evidence: Evidence) -> Check:
    p = p_value(evidence.weight_evidence())
    mean = evidence.mean_weight
    known = evidence.complete == evidence.rows
    wanted = evidence.mean_weights / evidence.rows if known else 1.0
    said = f"The mean importance weight for the uniform target is {mean:.4g}"
    if known and evidence.zeros:
        said += (
            f"; it should be about {wanted:.4g}, not 1, because {evidence.zeros:,} rows gave some "
            "arm probability zero"
        )
    else:
        said += "; it should be about 1"
    said += f" (p = {_shown(p)})."
    if p < SUSPICIOUS:
        said += (
            " An honest log hardly looks like this: the logged propensities are not those that "
            "were drawn from."
        )
    elif mean < wanted and not known:
        said += (
            " Nothing contradicts the propensities, but a mean below 1 cannot be judged without "
            "the probabilities of all arms: rare large weights may be what is missing."
        )
    else:
        said += " Nothing contradicts the propensities."
    facts = {"mean_weight": mean, "expected": wanted, "two_sided": known}
    return Check("mean weight", p, said, facts)


def _count_check(
    evidence: Evidence, counted: NDArray[np.float64] | None, arms: tuple[Any, ...], assumed: bool
) -> Check:
    if counted is None:
        return Check("counts", None, _CANNOT, {})
    top = float(counted.max())
    p = p_value(top + math.log(np.mean(np.exp(counted - top))))
    worst = int(np.argmax(counted))
    pulls, expected = int(evidence.pulls[worst]), float(evidence.expected[worst])
    said = (
        f"Arm {arms[worst]!r} was played {pulls:,} times; its probabilities sum to {expected:,.1f}"
    )
    if assumed:
        said = (
            "Every arm has the same propensity in all its rows, and these sum to 1: taken as the "
            f"probabilities of all rows. {said}"
        )
    others = "" if len(arms) == 1 else " This is the arm that differs most."
    if p < SUSPICIOUS:
        said += (
            f" (p = {_shown(p)} for all arms). An honest log hardly looks like this: the arms were "
            "not drawn from the logged probabilities."
        )
    else:
        said += f" (p = {_shown(p)} for all arms).{others} Nothing contradicts the probabilities."
    return Check("counts", p, said, {"arm": arms[worst], "pulls": pulls, "expected": expected})


def _shift_check(evidence: Evidence, ordered: bool | None) -> Check:
    if evidence.complete != evidence.rows:
        return Check("one row late", None, _CANNOT, {})
    if ordered is False:
        # A row from the future knows what was chosen: to be foretold by it means nothing.
        return Check("one row late", None, "Cannot be told: the rounds are not in order.", {})
    p = p_value(evidence.shift_evidence())
    if p < SUSPICIOUS:
        said = (
            f"The probabilities of the row before foretell the choices better than a row's own "
            f"(p = {_shown(p)}): they seem to be logged one row late, after the policy had learnt."
        )
    else:
        said = (
            "The probabilities of the row before do not foretell the choices better than a row's "
            f"own (p = {_shown(p)})."
        )
    return Check("one row late", p, said, {})


def _shown(p: float) -> str:
    return f"{p:.2g}" if p >= 1e-4 else f"{p:.0e}" if p > 1e-99 else "0"
