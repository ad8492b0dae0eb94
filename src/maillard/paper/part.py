"""A part of the report: what an experiment gives back."""

from typing import NamedTuple

from .verdicts import Finding


class Part(NamedTuple):
    """A section of the page, and what it found."""

    anchor: str
    title: str
    html: str
    findings: list[Finding]


def instance(means: tuple[float, ...]) -> str:
    """(0.80, 0.90), as the paper has it."""
    return "(" + ", ".join(f"{mean:.2f}" for mean in means) + ")"
