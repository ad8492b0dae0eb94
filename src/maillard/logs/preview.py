"""The first rows of a log, as a notebook shows them."""

from typing import TYPE_CHECKING, Any, Final

from ..tables import Table

if TYPE_CHECKING:
    from .log import Log

#: How much is shown.
ROWS: Final = 5
_LONGEST: Final = 60


def preview(log: "Log") -> Table:
    """Title, first rows and metadata; only the title where the rows cannot be read."""
    names = [name for name in log.columns if name != "probabilities"]
    known = [f"{key} {_text(value)}" for key, value in log.metadata.items() if value is not None]
    notes = [" · ".join(known)] if known else []
    if "probabilities" in log.columns:
        notes.append("with the probabilities of all arms in every row")
    try:
        batch = next(iter(log.source.batches(names, ROWS)), None)
    except (OSError, ValueError) as error:
        return Table(repr(log), (), (), (str(error),))
    found = [] if batch is None else batch.slice(0, ROWS).to_pylist()
    rows = tuple(tuple(_text(row[name]) for name in names) for row in found)
    words = tuple(i for i, name in enumerate(names) if name == "arm")
    return Table(repr(log), tuple(names), rows, tuple(notes), words)


def _text(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
