"""The figure of an evaluation: intervals, weights, and the estimates as rows came in."""

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..logs.remote import RemoteLog
from ..plots import new_figure, write
from .arms import ArmMeans
from .estimators import IPW, SNIPW
from .moments import Array

if TYPE_CHECKING:
    from .evaluation import Evaluation

#: Points of the running estimates, at most.
_POINTS: Final = 300


def plot(evaluation: "Evaluation", path: Any = None) -> Any:
    """Draw an evaluation; with a path also write it there."""
    if evaluation.source is None or isinstance(evaluation.source[0], RemoteLog):
        raise ValueError("the figure shows all rows, but these stay in the database")
    figure = new_figure(11.0, 7.0)
    axes = figure.subplot_mosaic([["intervals", "weights"], ["intervals", "running"]])
    _draw_intervals(axes["intervals"], evaluation)
    weights, running = _seen_again(evaluation)
    _draw_weights(axes["weights"], weights)
    _draw_running(axes["running"], running)
    if path is not None:
        write(figure, path)
    return figure


def _draw_intervals(axes: Any, evaluation: "Evaluation") -> None:
    shown = [e for e in evaluation.estimates if math.isfinite(e.estimate)]
    for i, e in enumerate(shown):
        colour = "C1" if i == 0 and evaluation.recommended is not None else "C0"
        if math.isfinite(e.high - e.low):
            axes.plot([e.low, e.high], [i, i], color=colour, linewidth=2)
        axes.plot([e.estimate], [i], "o", color=colour)
    axes.set_yticks(range(len(shown)), [f"{e.estimator} · {e.interval}" for e in shown])
    axes.invert_yaxis()
    axes.set_xlabel("mean reward per round")
    axes.set_title(f"{evaluation.target}, {evaluation.level:.4g} intervals")


def _draw_weights(axes: Any, counts: Array) -> None:
    found = np.flatnonzero(counts)
    if len(found):
        exponents = np.arange(found[0], found[-1] + 1) - _ZERO
        axes.bar(exponents, counts[found[0] : found[-1] + 1], width=0.9)
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.5)  # a single row is seen too
    axes.set_xlabel("importance weight, as a power of 2")
    axes.set_ylabel("rows")


def _draw_running(axes: Any, running: dict[str, tuple[list[int], list[float]]]) -> None:
    for name, (rounds, values) in running.items():
        axes.plot(rounds, values, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("round")
    axes.set_ylabel("estimate so far")
    if running:
        axes.legend()


#: Weights are counted by their binary exponent, and this one stands for [1, 2).
_ZERO: Final = 1075


def _seen_again(
    evaluation: "Evaluation",
) -> tuple[Array, dict[str, tuple[list[int], list[float]]]]:
    """How many weights lie in each power of two, and the estimates after more and more rows."""
    assert evaluation.source is not None  # `plot` has seen to it
    log, whole = evaluation.source
    setting = next(iter(whole.estimators.values())).setting
    estimators: list[Any] = [IPW(setting), SNIPW(setting)]
    if evaluation.arm_sums is not None:
        estimators.append(ArmMeans(setting))
    states = [estimator.start() for estimator in estimators]
    counts = np.zeros(2 * _ZERO)
    lines: dict[str, tuple[list[int], list[float]]] = {e.name: ([], []) for e in estimators}
    points = np.unique(np.geomspace(1.0, setting.rows, _POINTS).astype(np.int64)).tolist()
    with np.errstate(all="ignore"):
        for rows in whole.blocks(log, points):
            weight = rows.weight[rows.weight > 0.0]
            exponents = np.clip(np.frexp(weight)[1] - 1 + _ZERO, 0, len(counts) - 1)
            counts += np.bincount(exponents, minlength=len(counts))
            seen = rows.first + len(rows)
            for i, estimator in enumerate(estimators):
                states[i] = estimator.step(states[i], rows)
                if seen in points:
                    value = estimator.finish(states[i]).estimate
                    if math.isfinite(value):
                        lines[estimator.name][0].append(seen)
                        lines[estimator.name][1].append(value)
    return counts, lines
