"""Tables as all parts of the library show them: text on a terminal, HTML in a notebook, frames."""

import html
import io
from dataclasses import dataclass
from typing import Any, Final

#: Wide enough that no number is cut where the width of a terminal is not known.
_WIDTH: Final = 160


def counted(number: float, noun: str) -> str:
    """``1 run``, ``2,000 runs``."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Table:
    """Rows of text under a title; columns hold numbers, but for those in `words`."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    #: Positions of the columns that hold words: aligned on the left, the last one may be folded.
    words: tuple[int, ...] = (0,)

    def __rich__(self) -> Any:
        from rich import box
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, head in enumerate(self.heads):
            folded = i > 0 and i == max(self.words)
            table.add_column(
                head,
                justify="left" if i in self.words else "right",
                no_wrap=not folded,
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        title = [Text(self.title, style="bold")] if self.title else []
        return Group(*title, table, *(Text(note, style="dim") for note in self.notes))

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=_WIDTH, no_color=True, force_terminal=False).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        right = "text-align: right; font-variant-numeric: tabular-nums"

        def line(cells: tuple[str, ...], tag: str) -> str:
            inside = (
                f'<{tag} style="{"text-align: left" if i in self.words else right}">'
                f"{html.escape(cell)}</{tag}>"
                for i, cell in enumerate(cells)
            )
            return f"<tr>{''.join(inside)}</tr>"

        body = "".join(line(row, "td") for row in self.rows)
        notes = "".join(f"<div><small>{html.escape(note)}</small></div>" for note in self.notes)
        return (
            f'<div><table><caption style="text-align: left"><b>{html.escape(self.title)}</b>'
            f"</caption><thead>{line(self.heads, 'th')}</thead><tbody>{body}</tbody></table>"
            f"{notes}</div>"
        )


class Framed:
    """What has a method `to_arrow` becomes a frame of pandas or Polars, where that is installed."""

    def to_arrow(self) -> Any:
        """A pyarrow table."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The table of `to_arrow` as a pandas frame, where pandas is installed."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise ValueError(
                "pandas is not installed: pip install pandas, or use to_arrow()"
            ) from None
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The table of `to_arrow` as a Polars frame, where Polars is installed."""
        try:
            import polars
        except ImportError:
            raise ValueError(
                "Polars is not installed: pip install 'maillard[polars]', or use to_arrow()"
            ) from None
        return polars.from_arrow(self.to_arrow())
