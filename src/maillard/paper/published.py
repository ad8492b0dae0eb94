"""What the paper prints, from `published.json`. Numbers are text there: their digits count."""

import functools
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple


class Number(NamedTuple):
    """A printed number: its value, and half a unit of its last digit."""

    value: float
    half_unit: float
    text: str

    @classmethod
    def of(cls, text: str) -> "Number":
        decimals = len(text.partition(".")[2])
        return cls(float(text), 0.5 * 10.0**-decimals, text)


class Cell(NamedTuple):
    """One cell of the paper's eight tables."""

    label: str
    measure: str  # "mse" or "bias"
    means: tuple[float, ...]
    horizon: int
    policy: str
    samples: int
    number: Number


@functools.cache
def published() -> dict[str, Any]:
    """All of the file."""
    text = (files(__package__) / "published.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def cells() -> Iterator[Cell]:
    """Every cell of the tables of errors, in the paper's order."""
    for table in published()["tables"]:
        for policy, row in table["cells"].items():
            for samples, text in zip(published()["samples"], row, strict=True):
                yield Cell(
                    table["label"], table["measure"], tuple(table["means"]), table["horizon"],
                    policy, samples, Number.of(text),
                )  # fmt: skip
