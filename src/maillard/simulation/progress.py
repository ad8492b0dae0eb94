"""How far a simulation has come, on a terminal: policy, steps a second, time remaining."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

#: Told a policy's label and how many steps have been made since it was last called.
Advance = Callable[[str, int], None]


def shown(wanted: bool | None) -> bool:
    """Whether progress is to be shown: by default where somebody looks."""
    return sys.stderr.isatty() if wanted is None else bool(wanted)


@contextlib.contextmanager
def progress(
    wanted: bool | None, label: str, total: int, done: int, console: Any = None
) -> Iterator[Advance]:
    """A line on standard error for as long as the work lasts, if it is wanted."""
    if not shown(wanted) or total <= done:
        yield lambda label, steps: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        """Steps a second."""

        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{rate(speed)} steps/s")

    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), Speed(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console or Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda label, steps: bar.update(task, advance=steps, description=label)


def rate(speed: float) -> str:
    """A number in three digits: 123 million as 123 M."""
    for unit in ("", " k", " M", " G"):
        if speed < 1000.0 or unit == " G":
            return f"{speed:.3g}{unit}" if speed < 1000.0 else f"{speed:.0f}{unit}"
        speed /= 1000.0
    raise AssertionError
