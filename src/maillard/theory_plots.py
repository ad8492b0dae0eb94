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
    """Upper bounds as thin lines, simulated regret as thick ones of the same colour, the rest grey.

    Both axes are logarithmic. An upper bound is drawn from where it says more than that the worst
    arm is pulled in every round; a policy that is tuned to the horizon, at the horizon only.
    """
    figure = new_figure(7.2, 4.6)
    import matplotlib

    last = _last_round(found)
    rounds = np.unique(np.floor(np.geomspace(1.0, last, 120)))
    worst = np.asarray(THEORIES["thompson"].trivial(found.means, rounds))  # T times the largest gap
    ends = [float(np.max(found.curve(slug, rounds[-1]))) or 1.0 for slug in found.policies]
    top, level = max(ends), min(ends)
    with matplotlib.rc_context(_SETTINGS):
        axes = figure.add_subplot()
        # Limits first: among equal arms nothing is positive, and there is nothing to scale by.
        axes.set_xlim(1.0, last)
        axes.set_ylim(max(1e-4 * level, min(0.01, 0.1 * level)), 2.0 * top)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot(rounds, _positive(worst), color="#AAAAAA", lw=1.1, label="the worst arm always")
        for number, slug in enumerate(found.policies):
            colour = _COLOURS[number % len(_COLOURS)]
            again = number // len(_COLOURS)  # how often the colours have started anew
            _upper(axes, found, slug, rounds, color=colour, linestyle=("--", ":", "-.")[again % 3])
            _simulated(axes, found, slug, color=colour, linestyle=("-", (0, (2, 0.8)))[again % 2])
        _lower(axes, found, rounds)
        axes.set_xlabel("round")
        axes.set_ylabel("regret")
        shown = ", ".join(f"{mean:g}" for mean in found.means[:8].tolist())
        more = f", … ({len(found.means)} arms)" if len(found.means) > 8 else ""
        axes.set_title(f"Means {shown}{more}", loc="left", fontsize=10)
        axes.grid(color="#E6E6E6", lw=0.8)
        axes.set_axisbelow(True)
        axes.legend(
            frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=2.6
        )
    return figure


def _last_round(found: "Bounds") -> float:
    last = max(np.ravel(np.array(found.horizon, dtype=object)).tolist())
    if last > 1e100:
        raise ValueError("a figure ends at T = 1e100 at the latest; bounds themselves go on")
    return max(float(last), 2.0)


def _positive(values: Any) -> Any:
    """A logarithmic axis has no place for 0."""
    return np.where(np.asarray(values) > 0.0, values, np.nan)


def _upper(axes: Any, found: "Bounds", slug: str, rounds: Any, **look: Any) -> None:
    """A policy's best bound, from the last round at which it was no news."""
    curve = np.asarray(found.curve(slug, rounds))
    known = np.asarray(THEORIES[slug].trivial(found.means, rounds))
    news = curve < known * (1.0 - 1e-9)
    first = max(int(news.argmax()) - 1, 0) if news.any() else len(rounds)
    label = f"{slug}: bound" if news.any() else f"{slug}: no bound below that"
    axes.plot(rounds[first:], _positive(curve[first:]), lw=1.1, label=label, **look)


def _simulated(axes: Any, found: "Bounds", slug: str, **look: Any) -> None:
    if slug not in found.simulated:
        return
    runs = found.simulated[slug]
    label = f"{slug}: {runs.trials:,} trials"
    if THEORIES[slug].tuned:
        look["linestyle"] = "none"
        axes.plot(runs.rounds[-1:], _positive(runs.regret[-1:]), "o", ms=5, label=label, **look)
    else:
        axes.plot(runs.rounds, _positive(runs.regret), lw=2.2, alpha=0.85, label=label, **look)


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


def crossover_figure(arms: Any, regret: dict[str, Any], error: dict[str, Any]) -> "Figure":
    """Regret over the number of arms K on Lattimore's instance with T = K³, a line a policy.

    With two standard errors either way. For comparison √(KT) = K² through the last point of the
    highest line and K ln T, the order of ln T/Δ_2, through the last point of the lowest.
    """
    figure = new_figure(7.2, 4.4)
    import matplotlib
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    count = np.asarray(arms, dtype=np.float64)
    with matplotlib.rc_context(_SETTINGS):
        axes = figure.add_subplot()
        for number, (slug, values) in enumerate(regret.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            mark = "osD^vP"[number % 6]
            spread = 2.0 * np.asarray(error[slug], dtype=np.float64)
            axes.errorbar(
                count, values, spread, fmt=f"{mark}-", color=colour, ms=4, lw=1.5, label=slug
            )
        highest = max(float(np.asarray(values)[-1]) for values in regret.values())
        lowest = min(float(np.asarray(values)[-1]) for values in regret.values())
        quadratic = highest * (count / count[-1]) ** 2
        linear = lowest * count * np.log(count) / (count[-1] * np.log(count[-1]))
        axes.plot(count, quadratic, ":", color=_INK, lw=1.0, label="∝ K² = √(KT)")
        axes.plot(count, linear, "--", color=_INK, lw=1.0, label="∝ K ln T")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(FixedLocator(count.tolist()))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.set_xlabel("arms K, with K³ rounds")
        axes.set_ylabel("regret from the second arm")
        axes.grid(color="#E6E6E6", lw=0.8)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, fontsize=8)
    return figure


def adaptation_figure(
    best: Any,
    bounds: dict[str, Any],
    measured: dict[str, list[tuple[float, float]]],
    arms: int,
    horizon: int,
) -> "Figure":
    """Regret at the hardest gap over the best mean: towards 0 on the left, 1 on the right.

    `bounds` has a value for each of `best`, `measured` pairs (best mean, regret).
    """
    figure = new_figure(7.2, 4.4)
    import matplotlib

    table = np.asarray(best, dtype=np.float64)
    with matplotlib.rc_context(_SETTINGS):
        panels: Any = figure.subplots(1, 2, sharey=True)
        for axes, far, name in zip(panels, (table, 1.0 - table), ("μ_1", "1 − μ_1"), strict=True):
            here = far <= 0.5
            for number, (slug, points) in enumerate(measured.items()):
                colour = _COLOURS[number % len(_COLOURS)]
                if slug in bounds:
                    values = np.asarray(bounds[slug])[here]
                    axes.plot(far[here], values, "--", color=colour, lw=1.2, label=f"{slug}: bound")
                at = np.array([top if name == "μ_1" else 1.0 - top for top, _ in points])
                regret = np.array([value for _, value in points])
                near = at <= 0.5 + 1e-12
                axes.plot(
                    at[near], regret[near], "osD^vP"[number % 6] + "-", color=colour, ms=4, lw=1.6,
                    label=f"{slug}: measured",
                )  # fmt: skip
            root = np.sqrt(arms * horizon * far[here] * (1.0 - far[here]))
            axes.plot(far[here], root, ":", color=_INK, lw=1.1, label="√(μ_1(1−μ_1)KT)")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(name)
            axes.grid(color="#E6E6E6", lw=0.8)
            axes.set_axisbelow(True)
        panels[0].set_ylabel(f"regret after {horizon:,} rounds, hardest gap of {arms} arms")
        panels[1].invert_xaxis()
        panels[1].legend(frameon=False, fontsize=8, loc="lower left")
    return figure
