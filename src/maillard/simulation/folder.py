"""A folder that holds a run: what is complete survives whatever happens to the process.

``run.json`` says everything that the run's bits depend on; ``pieces/`` gets a Parquet file for each
finished range of trials, whole or not at all; at the end they become one ``result.parquet``.
"""

import json
import re
import warnings
from pathlib import Path
from typing import Any, Final

from ..files import replacing
from .curve import Curve, missing
from .parquet import read, write
from .plan import Plan
from .result import Result

_NAME: Final = re.compile(r"(\d+)-(\d+)-(\d+)\.parquet")


class RunFolder:
    """One run's folder, new or taken up again."""

    def __init__(self, path: str | Path, plan: Plan, *, resume: bool) -> None:
        self.path = Path(path)
        self.plan = plan
        self._manifest = self.path / "run.json"
        self._pieces = self.path / "pieces"
        self._whole = self.path / "result.parquet"
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file: a run needs a folder")
        if self._manifest.exists():
            if not resume:
                raise ValueError(
                    f"{self.path} holds a run already: resume it, or name another folder"
                )
            self._check_same()
        else:
            self._check_no_leftovers()
            self._pieces.mkdir(parents=True, exist_ok=True)
            text = json.dumps(plan.description(), indent=2, allow_nan=False)
            with replacing(self._manifest) as beside:
                beside.write_text(text + "\n")

    def _check_no_leftovers(self) -> None:
        for name in (self._pieces, self._whole):
            if name.exists():
                raise ValueError(
                    f"{self.path} has {name.name} but no run.json: name another folder"
                )

    def _check_same(self) -> None:
        try:
            held = json.loads(self._manifest.read_text())
            if not isinstance(held, dict):
                raise ValueError("it is not a table")
        except ValueError as error:  # not UTF-8, not JSON
            raise ValueError(f"{self._manifest} is damaged: {error}") from None
        for name, value in self.plan.description().items():
            if held.get(name) != value:
                raise ValueError(
                    f"{self.path} holds another run: {_difference(name, held.get(name), value)}"
                )

    # ----------------------------------------------------------------------------------------------

    def load(self) -> list[Curve]:
        """What earlier sessions have completed. Damaged files are dropped, with a warning."""
        self._pieces.mkdir(parents=True, exist_ok=True)
        for stray in self._pieces.glob(".*"):  # of a process that was killed while writing
            stray.unlink(missing_ok=True)
        curves = [job.empty() for job in self.plan.jobs]
        names = sorted(self._pieces.glob("*.parquet"), key=_place)
        for name in ([self._whole] if self._whole.exists() else []) + names:
            found = self._loaded(name)
            if found is None:
                continue
            for i, (curve, more) in enumerate(zip(curves, found, strict=True)):
                # Two sessions may have cut the trials at other places: what is known is skipped.
                if missing(more.ranges, curve.ranges) == more.ranges:
                    curves[i] = curve.merge(more)
        return curves

    def _loaded(self, name: Path) -> list[Curve] | None:
        try:
            result = read(name)
            known = [result.curves.get(job.label, job.empty()) for job in self.plan.jobs]
            for curve, job in zip(known, self.plan.jobs, strict=True):
                curve.merge(job.empty())  # the same policy, rounded alike
                if curve.pull_totals.shape != (len(job.rounds), self.plan.environment.arms):
                    raise ValueError("it has another shape")
                if missing(curve.ranges, self.plan.wanted):
                    raise ValueError("it has other trials")
        except ValueError as error:
            warnings.warn(f"{error}; it is run again", RuntimeWarning, stacklevel=4)
            name.unlink()
            return None
        return known

    def add(self, curve: Curve) -> None:
        """Keep a finished piece."""
        number = [job.label for job in self.plan.jobs].index(curve.label)
        ((first, stop),) = curve.ranges
        write(self.plan.result([curve]), self._pieces / f"{number}-{first}-{stop}.parquet")

    def leave_if_empty(self) -> None:
        """Take back what was written of a run that came to nothing."""
        if self._whole.exists() or any(self._pieces.glob("*.parquet")):
            return
        self._manifest.unlink(missing_ok=True)
        for place in (self._pieces, self.path):
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()

    def finish(self, result: Result) -> None:
        """Put all that is complete into one file, and drop the pieces."""
        write(result, self._whole)
        for name in self._pieces.glob("*.parquet"):
            if _NAME.fullmatch(name.name):
                name.unlink()
        if not any(self._pieces.iterdir()):
            self._pieces.rmdir()


def _place(name: Path) -> tuple[int, ...]:
    match = _NAME.fullmatch(name.name)
    return tuple(int(x) for x in match.groups()) if match else (1 << 60,)


def _difference(name: str, held: Any, wanted: Any) -> str:
    if name == "maillard":
        return f"it was begun with version {held} of maillard, this is {wanted}"
    texts = [json.dumps(x, ensure_ascii=False) for x in (held, wanted)]
    if max(map(len, texts)) > 80:
        return f"its {name} differ"
    return f"its {name}: {texts[0]}, wanted: {texts[1]}"
