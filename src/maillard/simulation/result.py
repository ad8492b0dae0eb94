"""What `simulate` gives back: every policy's curve, as numbers, a table, a file or a figure."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..tables import Framed
from .curve import Curve, Ranges, joined, missing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..tables import Table

Array = NDArray[np.float64]

#: What must agree for two results to be parts of one.
_SHARED = ("environment", "horizon", "seed", "paired", "quantiles")


class Result(Framed):
    """The curves of a few policies in one environment.

    ``result["kl-ms"]`` is a policy's curve, with one row for each round of `rounds`: `regret`,
    `error`, `quantile(q)`, `realised`, `pulls`, `best`, `trials`. Equal seeds give equal bits
    whatever the number of workers, and parts of a run, merged in any order, equal the whole.
    """

    def __init__(
        self,
        environment: dict[str, Any],
        horizon: int,
        rounds: NDArray[np.int64],
        seed: int,
        paired: bool,
        constant: float,
        quantiles: tuple[float, ...],
        curves: Sequence[Curve],
        wanted: Ranges,
    ) -> None:
        #: The environment's `spec()`, plain data.
        self.environment = environment
        self.horizon = horizon
        #: The checkpoints: rounds, counted from 1.
        self.rounds = rounds
        self.seed, self.paired = seed, paired
        #: C of the lower bound C ln T: see `Environment.asymptotic_constant`.
        self.constant = constant
        self.quantiles = quantiles
        self.curves = {curve.label: curve for curve in curves}
        #: The trials that were asked for, as ranges (first, one past the last).
        self.wanted = wanted

    @property
    def policies(self) -> list[str]:
        """The policies' labels."""
        return list(self.curves)

    @property
    def trials(self) -> int:
        """How many trials of each policy were asked for."""
        return sum(stop - first for first, stop in self.wanted)

    @property
    def complete(self) -> bool:
        """Whether all trials are in; an interrupted run has fewer in some curve."""
        return not any(missing(self.wanted, curve.ranges) for curve in self.curves.values())

    def __getitem__(self, label: str) -> Curve:
        if label not in self.curves:
            raise KeyError(f"no policy {label!r} here; there are {', '.join(self.curves)}")
        return self.curves[label]

    def lower_bound(self) -> Array:
        """C ln t at the checkpoints: what regret grows like at the least, for long horizons.

        NaN where the notion does not apply, as in a world that changes.
        """
        with np.errstate(invalid="ignore"):  # ∞ · ln 1
            return np.array(self.constant * np.log(self.rounds))

    def nanoseconds(self, label: str) -> float:
        """Processor time for one step of one trial; NaN without trials."""
        curve = self[label]
        return 1e9 * curve.seconds / (curve.trials * self.horizon) if curve.trials else math.nan

    # ---------------------------------------------------------------------------------------- parts

    def merge(self, other: "Result") -> "Result":
        """The trials of both: `simulate(..., first=)` gives each part its own."""
        for name in _SHARED:
            if getattr(self, name) != getattr(other, name):
                raise ValueError(
                    f"results of different runs cannot be merged: {name} is "
                    f"{getattr(self, name)!r} in one and {getattr(other, name)!r} in the other"
                )
        if not np.array_equal(self.rounds, other.rounds):
            raise ValueError("results of different runs cannot be merged: other checkpoints")
        specs, others = ({k: c.policy for k, c in r.curves.items()} for r in (self, other))
        if specs != others:
            raise ValueError("results of different runs cannot be merged: other policies")
        curves = [curve.merge(other.curves[label]) for label, curve in self.curves.items()]
        return self.with_curves(curves, joined([*self.wanted, *other.wanted]))

    def with_curves(self, curves: Sequence[Curve], wanted: Ranges | None = None) -> "Result":
        """A result of the same run with other trials in it."""
        return Result(
            self.environment, self.horizon, self.rounds, self.seed, self.paired, self.constant,
            self.quantiles, curves, self.wanted if wanted is None else wanted,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Whether two results hold the same bits, time aside."""
        return (
            isinstance(other, Result)
            and all(getattr(self, name) == getattr(other, name) for name in (*_SHARED, "wanted"))
            and np.array_equal(self.rounds, other.rounds)
            and self.curves == other.curves
        )

    __hash__ = None  # type: ignore[assignment]

    # ------------------------------------------------------------------------------------ elsewhere

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; numbers that do not exist are None."""
        return {
            "environment": self.environment,
            "horizon": self.horizon,
            "trials": self.trials,
            "complete": self.complete,
            "seed": self.seed,
            "paired": self.paired,
            "asymptotic_constant": plain(self.constant),
            "checkpoints": self.rounds.tolist(),
            "policies": [self._curve_dict(curve) for curve in self.curves.values()],
        }

    def _curve_dict(self, curve: Curve) -> dict[str, Any]:
        return {
            "label": curve.label,
            "policy": curve.policy,
            "trials": curve.trials,
            "regret": plain(curve.regret),
            "standard_error": plain(curve.error),
            "quantiles": {f"{level:g}": plain(curve.quantile(level)) for level in self.quantiles},
            "realised_regret": plain(curve.realised),
            "realised_standard_error": plain(curve.realised_error),
            "pulls": plain(curve.pulls),
            "best_arm": plain(curve.best),
            "best_arm_standard_error": plain(curve.best_error),
            "nanoseconds_per_step": plain(self.nanoseconds(curve.label)),
        }

    def to_arrow(self) -> Any:
        """A pyarrow table with a row for each policy and checkpoint."""
        from .parquet import table_of

        return table_of(self)

    def to_parquet(self, path: str | Path) -> None:
        """Write the table, and the integers behind it, so that `read` gives back the same bits."""
        from .parquet import write

        write(self, Path(path))

    @classmethod
    def read(cls, path: str | Path) -> "Result":
        """A result that `to_parquet` wrote; of a run's folder, its `result.parquet`."""
        from .parquet import read

        return read(Path(path))

    def summary(self) -> "Table":
        """A table of the last round: print it, or let a notebook show it."""
        from .tables import summary

        return summary(self)

    def plot(
        self,
        path: str | Path | None = None,
        *,
        log_x: bool = False,
        lower_bound: bool = True,
    ) -> "Figure":
        """Regret curves with bands, as a Matplotlib figure; written to `path` if there is one.

        The lines are means; the bands reach from the lowest to the highest of `quantiles`.
        """
        from ..plots import regret_figure, write

        figure = regret_figure(self, log_x=log_x, lower_bound=lower_bound)
        if path is not None:
            write(figure, Path(path))
        return figure

    def __repr__(self) -> str:
        shown = ", ".join(f"{c.label}: {c.regret[-1]:.2f}" for c in self.curves.values())
        part = "" if self.complete else "incomplete, "
        return f"<Result after {self.horizon:,} rounds: {part}regret {shown}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def plain(value: Any) -> Any:
    """Arrays as lists and NaN or infinity as None, as JSON has neither."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(x) for x in value]
    return float(value) if math.isfinite(value) else None
