"""Figures. Matplotlib is imported when one is made."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from .files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .simulation.result import Result

#: Okabe and Ito's colours, which people of all kinds of colour vision tell apart; yellow is too
#: pale for a line. Line styles change when they start again, and with the shades of grey in print.
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STYLES: Final = ("-", "--", "-.", ":")
_INK: Final = "#333333"

_SETTINGS: Final = cast(
    Any,
    {
        "font.size": 10,
        "axes.edgecolor": "#888888",
        "axes.labelcolor": _INK,
        "text.color": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "svg.hashsalt": "maillard",  # equal figures are equal files
    },
)


def new_figure(width: float = 7.2, height: float = 4.4) -> "Figure":
    """An empty figure, tied to no window and no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError(
            "figures need Matplotlib: pip install 'maillard[plots]', or leave the figure out"
        ) from None
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def check_name(path: str | Path) -> None:
    """Refuse a figure's file of no known format, or in no folder: before the work, not after it."""
    path = Path(path)
    known = new_figure().canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in known:
        what = f"{path.suffix} is no format of figures" if path.suffix else "it has no suffix"
        raise ValueError(f"{path}: {what}: name a figure's file .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into")


def write(figure: "Figure", path: str | Path) -> None:
    """Write a figure, whole or not at all; the suffix decides the format."""
    path = Path(path)
    check_name(path)
    import matplotlib

    # A date inside would make equal figures unequal files.
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
    with replacing(path) as beside, matplotlib.rc_context(_SETTINGS):
        figure.savefig(beside, metadata=undated)


def regret_figure(result: "Result", *, log_x: bool = False, lower_bound: bool = True) -> "Figure":
    """Mean regret of each policy over the rounds, with a band between the outermost quantiles."""
    figure = new_figure()
    import matplotlib
    from matplotlib.ticker import FuncFormatter

    with matplotlib.rc_context(_SETTINGS):
        axes = figure.add_subplot()
        highest = _curves(axes, result)
        if lower_bound:
            _bound(axes, result, highest)
        if log_x:
            axes.set_xscale("log")
            axes.set_xlim(max(float(result.rounds[0]), 1.0), result.horizon)
        else:
            axes.set_xlim(0.0, result.horizon)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("round" + (" (logarithmic)" if log_x else ""))
        axes.set_ylabel("regret")
        axes.set_title(_title(result), loc="left", fontsize=10)
        axes.grid(True, color="#E6E6E6", linewidth=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        _legend(axes)
    return figure


def _curves(axes: Any, result: "Result") -> float:
    """Lines and bands; the largest regret that is drawn."""
    levels = result.quantiles
    bands = len(levels) >= 2
    highest = 0.0
    for i, curve in enumerate(result.curves.values()):
        if not curve.trials:
            continue
        colour = _COLOURS[i % len(_COLOURS)]
        style = _STYLES[i // len(_COLOURS) % len(_STYLES)]
        regret = curve.regret
        highest = max(highest, float(np.max(regret)))
        axes.plot(result.rounds, regret, style, color=colour, linewidth=1.8, label=curve.label)
        if bands and curve.sample.shape[1]:
            low, high = curve.quantile(levels[0]), curve.quantile(levels[-1])
            # Many bands on top of each other hide everything.
            shade = 0.16 if len(result.curves) <= 4 else 0.07
            axes.fill_between(result.rounds, low, high, color=colour, alpha=shade, linewidth=0)
    return highest


def _bound(axes: Any, result: "Result", highest: float) -> None:
    bound = result.lower_bound()
    if not np.isfinite(bound[-1]) or bound[-1] <= 0.0:
        return
    # A bound for long horizons may lie far above everything in a short one: the curves matter.
    shown = bound <= 3.0 * highest if highest > 0.0 else np.ones(len(bound), dtype=bool)
    if not shown.any():
        return
    axes.plot(
        result.rounds[shown], bound[shown], linestyle=(0, (4, 2)), color="#555555", linewidth=1.2,
        label=f"lower bound {result.constant:.3g} ln t",
    )  # fmt: skip


def _title(result: "Result") -> str:
    from .simulation.tables import environment_text

    trials = {curve.trials for curve in result.curves.values()}
    count = f"{max(trials):,} trials" if len(trials) == 1 else f"up to {max(trials):,} trials"
    band = ""
    if len(result.quantiles) >= 2:
        low, high = 100.0 * result.quantiles[0], 100.0 * result.quantiles[-1]
        band = f", mean and {low:g}–{high:g} % of trials"
    text = environment_text(result.environment)
    return f"{text if len(text) <= 60 else text[:57] + '…'}\n{count}{band}"


def _legend(axes: Any) -> None:
    """Names in the order in which the lines end, from the top; beside the axes if they are many."""
    lines = sorted(axes.get_lines(), key=lambda line: -float(line.get_ydata()[-1]))
    if len(lines) <= 8:
        axes.legend(handles=lines, loc="upper left", framealpha=0.85, edgecolor="none")
    elif lines:
        axes.legend(
            handles=lines, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False,
            ncols=math.ceil(len(lines) / 18), fontsize=8, handlelength=2.8,
        )  # fmt: skip
