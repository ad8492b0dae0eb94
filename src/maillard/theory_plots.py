"""Figures of bounds: between the lower and the upper ones, and where minimax policies lose."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .plots import _COLOURS, _INK, _SETTINGS, new_figure
from .theory.known import THEORIES
from .theory.lower import finite_time, small_horizon

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .theory.report import Bounds


def bounds_figure(found: "Bounds") -> "Figure":
    """Upper bounds as lines, simulated regret as thick ones of the same colour, lower bounds grey.

    Both axes are logarithmic. A policy that is tuned to the horizon is shown at the horizon only.
    """
    figure = new_figure(7.2, 5.0)
    import matplotlib

    last = max(float(np.max(found.horizon)), 2.0)
    rounds = np.unique(np.floor(np.geomspace(1.0, last, 120)))
    curves = {slug: found.curve(slug, rounds) for slug in found.policies}
    top = max(float(np.max(curve)) for curve in curves.values()) or 1.0
    with matplotlib.rc_context(_SETTINGS):
        axes = figure.add_subplot()
        # Limits first: among equal arms nothing is positive, and there is nothing to scale by.
        axes.set_xlim(1.0, last)
        axes.set_ylim(max(1e-4 * top, min(0.01, 0.1 * top)), 2.0 * top)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for number, (slug, curve) in enumerate(curves.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            style = ("--", "-.", ":")[number // len(_COLOURS) % 3]
            axes.plot(rounds, _positive(curve), style, color=colour, lw=1.1, label=f"{slug}: bound")
            _simulated(axes, found, slug, colour)
        _lower(axes, found, rounds)
        axes.set_xlabel("round")
        axes.set_ylabel("regret")
        shown = ", ".join(f"{mean:g}" for mean in found.means[:8].tolist())
        more = f", … ({len(found.means)} arms)" if len(found.means) > 8 else ""
        axes.set_title(f"Means {shown}{more}", loc="left", fontsize=10)
        axes.grid(color="#dddddd", lw=0.5)
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _positive(values: Any) -> Any:
    """A logarithmic axis has no place for 0."""
    return np.where(np.asarray(values) > 0.0, values, np.nan)


def _simulated(axes: Any, found: "Bounds", slug: str, colour: str) -> None:
    if slug not in found.simulated:
        return
    runs = found.simulated[slug]
    label = f"{slug}: {runs.trials:,} trials"
    if THEORIES[slug].tuned:
        axes.plot(
            runs.rounds[-1:], _positive(runs.regret[-1:]), "o", color=colour, ms=5, label=label
        )
    else:
        axes.plot(runs.rounds, _positive(runs.regret), color=colour, lw=2.4, alpha=0.8, label=label)


def _lower(axes: Any, found: "Bounds", rounds: Any) -> None:
    if found.asymptotic_constant > 0.0:
        late = rounds[rounds >= 2.0]  # ln 1 = 0 has no place on a logarithmic axis
        slope = found.asymptotic_constant * np.log(late)
        axes.plot(late, slope, color=_INK, lw=1.3, label="C ln t, the limit's slope")
    elsewhere = finite_time(found.means, rounds, found.limit(rounds))
    for style, label, values in (
        (":", "lower bound, if good elsewhere", elsewhere),
        ("-.", "lower bound, if no worse than random", small_horizon(found.means, rounds)),
    ):
        if np.max(values) > 0.0:
            axes.plot(rounds, _positive(values), style, color=_INK, lw=1.1, label=label)


def crossover_figure(arms: Any, regret: dict[str, Any]) -> "Figure":
    """Regret over the number of arms K on Lattimore's instance with T = K³, a line a policy.

    With √(KT) = K² and K ln T for comparison, through the first point of the first two policies.
    """
    figure = new_figure(7.2, 4.4)
    import matplotlib

    count = np.asarray(arms, dtype=np.float64)
    with matplotlib.rc_context(_SETTINGS):
        axes = figure.add_subplot()
        for number, (slug, values) in enumerate(regret.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            style = ("o-", "s--", "^-.")[number // len(_COLOURS) % 3]
            axes.plot(count, values, style, color=colour, ms=4, lw=1.5, label=slug)
        highest = max(float(np.asarray(values)[0]) for values in regret.values())
        lowest = min(float(np.asarray(values)[0]) for values in regret.values())
        quadratic = highest * (count / count[0]) ** 2
        linear = lowest * count * np.log(count) / (count[0] * np.log(count[0]))
        axes.plot(count, quadratic, ":", color=_INK, lw=1.0, label="∝ K² = √(KT)")
        axes.plot(count, linear, "--", color=_INK, lw=1.0, label="∝ K ln T")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("arms K, horizon K³")
        axes.set_ylabel("regret")
        axes.grid(color="#dddddd", lw=0.5)
        axes.legend(frameon=False, fontsize=8)
    return figure
