"""The report's figures, as SVG inside the page: its colours are the page's, light or dark."""

import html
import io
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..plots import _COLOURS, _INK, _SETTINGS, new_figure
from .protocols import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..simulation.result import Result

BLUE, RED, GREEN, PINK = _COLOURS[:4]
#: The colour of a policy, in every figure.
COLOURS: Final = {"kl-ms": BLUE, "thompson": RED, "ms": GREEN}
NAMES: Final = {"kl-ms": "KL-MS", "thompson": "Bernoulli TS", "ms": "MS"}
_GRID: Final = "#E6E6E6"
_FAINT: Final = "#888888"

#: Colours of the figures → variables of the page's style.
_VARIABLES: Final = {
    _INK: "--ink", _GRID: "--grid", _FAINT: "--axis", "#555555": "--axis", "#ffffff": "--paper",
    **{colour: f"--c{i}" for i, colour in enumerate(_COLOURS)},
}  # fmt: skip


def svg(figure: "Figure", alt: str, prefix: str) -> str:
    """The figure as an element of a page. `prefix` keeps its ids apart from other figures'."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({**_SETTINGS, "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    found = text.getvalue()
    found = found[found.index("<svg") :]
    found = re.sub(r"<metadata>.*?</metadata>\s*", "", found, flags=re.S)
    found = re.sub(r"<!--.*?-->\s*", "", found, flags=re.S)
    found = re.sub(r'\bid="', f'id="{prefix}-', found)
    found = re.sub(r"url\(#", f"url(#{prefix}-", found)
    found = re.sub(r'href="#', f'href="#{prefix}-', found)
    found = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", found)
    for colour, variable in _VARIABLES.items():
        found = re.sub(colour, f"var({variable})", found, flags=re.I)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', found)
    assert size is not None
    head = (
        f'<svg role="img" aria-label="{html.escape(alt)}" viewBox="0 0 {size[1]} {size[2]}" '
        f'style="max-width:min(100%, {1.3 * float(size[1]):.0f}pt)" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return head + found[found.index(">") + 1 :]


def _axes(figure: "Figure", *place: int) -> Any:
    axes = figure.add_subplot(*place)
    axes.grid(True, color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def histograms(
    panels: dict[str, dict[str, Array]], truth: float, *, width: float = 3.4
) -> "Figure":
    """One above the other, on an axis of their own each: title → policy → estimates.

    The axis holds all but the outermost hundredths, and says how many are beyond it.
    """
    figure = new_figure(width, 0.5 + 1.75 * len(panels))
    import matplotlib

    with matplotlib.rc_context({**_SETTINGS, "font.size": 9}):
        for number, (title, values) in enumerate(panels.items(), start=1):
            axes = _axes(figure, len(panels), 1, number)
            valid = {policy: x[np.isfinite(x)] for policy, x in values.items()}
            ends = [np.quantile(x, [0.01, 0.99]) for x in valid.values() if len(x)]
            low = min([truth, *(float(pair[0]) for pair in ends)])
            high = max([truth, *(float(pair[1]) for pair in ends)])
            margin = max(0.05 * (high - low), 1e-6)
            low, high = low - margin, high + margin
            edges = np.linspace(low, high, 49)
            beyond = []
            for policy, x in valid.items():
                density = np.histogram(x, edges)[0] / max(len(x), 1) / (edges[1] - edges[0])
                colour = COLOURS[policy]
                axes.stairs(density, edges, fill=True, color=colour, alpha=0.35)
                axes.stairs(density, edges, color=colour, linewidth=1.2, label=NAMES[policy])
                share = np.mean((x < low) | (x > high)) if len(x) else 0.0
                if share > 0.0:
                    beyond.append(f"{NAMES[policy]} {100.0 * share:.1f} %")
            axes.axvline(truth, color=_INK, linewidth=1.0, linestyle=(0, (4, 2)))
            axes.set_xlim(low, high)
            axes.set_yticks([])
            axes.locator_params(axis="x", nbins=6)
            axes.spines["left"].set_visible(False)
            note = f"\nbeyond the axis: {', '.join(beyond)}" if beyond else "\n"
            axes.set_title(title + note, loc="left", fontsize=8.5)
            if number == 1:
                axes.legend(fontsize=8, frameon=False, loc="upper right", handlelength=1.2)
        axes.set_xlabel("estimate")
    return figure


def regret_lines(result: "Result") -> "Figure":
    """As the paper draws it: mean regret and the band of 95 % of the trials, over the rounds."""
    figure = result.plot(lower_bound=False)
    figure.set_size_inches(4.2, 3.1)
    import matplotlib

    axes = figure.axes[0]
    for line, band in zip(axes.get_lines(), axes.collections, strict=False):
        colour = COLOURS.get(str(line.get_label()), BLUE)
        line.set_color(colour)
        band.set_color(colour)
    with matplotlib.rc_context(_SETTINGS):
        axes.set_title("", loc="left")  # the caption says it
        axes.legend(
            handles=axes.get_lines(), labels=[NAMES[str(x.get_label())] for x in axes.get_lines()],
            loc="upper left", frameon=False,
        )  # fmt: skip
    return figure


def regret_dots(result: "Result") -> "Figure":
    """Every policy's regret at the end: mean, and the band of 95 % of the trials."""
    curves = sorted(result.curves.values(), key=lambda curve: float(curve.regret[-1]))
    figure = new_figure(4.2, 0.8 + 0.2 * len(curves))
    import matplotlib

    with matplotlib.rc_context({**_SETTINGS, "font.size": 9}):
        axes = _axes(figure)
        for row, curve in enumerate(curves):
            low, high = (curve.quantile(q)[-1] for q in (0.025, 0.975))
            colour = COLOURS.get(curve.label, _FAINT)
            axes.plot([low, high], [row, row], color=colour, linewidth=2.2, alpha=0.45)
            axes.plot([curve.regret[-1]], [row], "o", color=colour, markersize=4.5)
        axes.set_yticks(range(len(curves)), [curve.label for curve in curves])
        axes.set_ylim(len(curves) - 0.4, -0.6)
        axes.set_xscale("log")
        axes.set_xlabel(f"regret after {result.horizon:,} rounds (logarithmic)")
    return figure


def regret_many(result: "Result") -> "Figure":
    """Mean regret of all policies over the rounds."""
    figure = result.plot(log_x=True, lower_bound=False)
    for band in list(figure.axes[0].collections):
        band.remove()
    figure.axes[0].set_yscale("log")
    figure.axes[0].set_ylim(bottom=0.1)
    figure.axes[0].set_title("", loc="left")
    figure.set_size_inches(8.2, 5.2)
    return figure


def running_means(lines: dict[str, tuple[str, Array]]) -> "Figure":
    """The mean of the first n values over n: label → (colour, values)."""
    figure = new_figure(4.6, 3.3)
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        axes = _axes(figure)
        for number, (label, (colour, values)) in enumerate(lines.items()):
            n = np.arange(1, len(values) + 1)
            shown = np.unique(np.geomspace(1, len(values), 400).astype(int)) - 1
            mean = np.cumsum(values) / n
            style = "-" if number < 2 else (0, (3, 1.5))
            axes.plot(n[shown], mean[shown], color=colour, linestyle=style, label=label, lw=1.6)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("trials (logarithmic)")
        axes.set_ylabel("mean squared error so far")
        axes.legend(fontsize=8, frameon=False)
    return figure


def quantile_bars(
    rows: list[tuple[str, str, Array]], truth: float, *, limits: tuple[float, float]
) -> "Figure":
    """One row for each set of estimates: 90 % thin, 50 % thick, the median a dot."""
    figure = new_figure(4.2, 0.9 + 0.27 * len(rows))
    import matplotlib

    with matplotlib.rc_context({**_SETTINGS, "font.size": 9}):
        axes = _axes(figure)
        for row, (_, colour, values) in enumerate(rows):
            q = np.quantile(values[np.isfinite(values)], [0.05, 0.25, 0.5, 0.75, 0.95])
            axes.plot([q[0], q[4]], [row, row], color=colour, linewidth=1.6, alpha=0.6)
            axes.plot([q[1], q[3]], [row, row], color=colour, linewidth=6.0, alpha=0.45)
            axes.plot([q[2]], [row], "o", color=colour, markersize=4.5)
        axes.axvline(truth, color=_INK, linewidth=1.0, linestyle=(0, (4, 2)))
        axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(*limits)
        axes.set_xlabel("estimate of the uniform policy's value")
    return figure
