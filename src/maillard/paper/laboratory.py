"""Where the experiments are run: sizes, seeds, progress, and logs that several of them share."""

import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import maillard as mb

from ..simulation.progress import progress as progress_line
from .protocols import (
    RELEASED,
    Array,
    Rows,
    after_update,
    environment,
    ipw,
    logger,
    monte_carlo,
    replay,
)
from .published import published

#: Rows of logs that are worked on at once at most, and pieces of a study, if it has as many
#: trials. What comes out does not depend on the workers.
_ROWS: Final = 640_000
_PIECES: Final = 8
_LANES: Final = 64

Result = TypeVar("Result")

#: Intervals that take no time. (One that simulates each experiment again takes seconds a log.)
_INTERVALS: Final = ("likelihood-ratio", "kt", "normal")

#: (estimator, interval) → (estimate, low, high) for one log.
Answers = dict[tuple[str, str], tuple[float, float, float]]


@dataclass(frozen=True)
class Size:
    """How many trials of everything."""

    name: str
    #: Trials of the regret figures, and of those with all other policies.
    regret: int
    others: int
    #: Trials of policies that take thousands of nanoseconds a step; 0 leaves them out.
    slow: int
    #: Logs of KL-MS.
    closed: int
    #: Logs of Thompson sampling, whose probabilities are integrated at every step: by the paper's
    #: horizon.
    integrated: dict[int, int]
    #: Logs that `evaluate` is shown.
    evaluated: int
    #: Times that each timing is repeated.
    repeats: int = 5
    #: The horizon that is simulated for each of the paper's: another one only to try things out.
    horizons: dict[int, int] = field(default_factory=lambda: {1_000: 1_000, 10_000: 10_000})


SIZES: Final = {
    size.name: size
    for size in (
        Size("quick", 256, 64, 0, 256, {1_000: 128, 10_000: 104}, 24, repeats=2),
        Size("default", 2_000, 512, 64, 2_000, {1_000: 2_000, 10_000: 512}, 512),
        Size("full", 2_000, 2_000, 128, 2_000, {1_000: 2_000, 10_000: 2_000}, 2_000),
    )
}


class Study(NamedTuple):
    """What the logs of one policy in one instance say of the uniform policy's value."""

    policy: str
    means: tuple[float, ...]
    #: The rounds of a log, and the horizon in the paper that they stand for.
    horizon: int
    paper_horizon: int
    protocol: str
    #: How the logged probabilities came about → an estimate for each log, not finite if invalid.
    estimates: dict[str, Array]
    #: (estimator, interval) → estimates, lower and upper ends for some of the logs, by `evaluate`.
    evaluated: dict[tuple[str, str], Array]

    @property
    def truth(self) -> float:
        """The uniform policy's value."""
        return sum(self.means) / len(self.means)

    @property
    def trials(self) -> int:
        """The number of logs."""
        return len(self.estimates["exact"])

    def errors(self, key: str) -> Array:
        """Estimates minus the truth."""
        return self.estimates[key] - self.truth

    def key(self, samples: int) -> str:
        """The probabilities that the paper has in its column M: exact ones for KL-MS."""
        return "exact" if self.policy == "kl-ms" else f"M={samples}"


class Laboratory:
    """Runs what the experiments ask for, and writes their data into a folder."""

    def __init__(
        self,
        size: Size,
        folder: Path,
        *,
        seed: int = 0,
        workers: int = 1,
        progress: bool | None = None,
    ) -> None:
        self.size, self.folder, self.seed, self.workers = size, folder, seed, workers
        #: Whether to show progress, as `simulate` takes it.
        self.progress = progress
        self._studies: dict[tuple[Any, ...], Study] = {}

    # ------------------------------------------------------------------------------------- the logs

    def study(
        self, policy: str, means: tuple[float, ...], paper_horizon: int, protocol: str
    ) -> Study:
        """Logs of a policy and what comes of them; made once."""
        key = (policy, means, paper_horizon, protocol)
        if key not in self._studies:
            self._studies[key] = self._study(*key)
        return self._studies[key]

    def _study(
        self, policy: str, means: tuple[float, ...], paper_horizon: int, protocol: str
    ) -> Study:
        horizon = self.size.horizons[paper_horizon]
        closed = policy == "kl-ms"
        trials = self.size.closed if closed else self.size.integrated[paper_horizon]
        evaluated = 0
        if protocol != RELEASED and paper_horizon == max(self.size.horizons):
            evaluated = min(self.size.evaluated, trials)
        name = f"{policy} {means} {horizon} {protocol}"

        def piece(first: int, stop: int) -> tuple[dict[str, Array], list[Answers]]:
            # As released the last round's probability is that of a round more.
            rounds = horizon + (protocol == RELEASED)
            log = mb.collect(
                logger(policy, protocol), environment(means, protocol), rounds, stop - first,
                self.seed, first=first, workers=1, progress=False,
            )  # fmt: skip
            rng = np.random.default_rng([self.seed, zlib.crc32(name.encode()), first])
            rows = Rows.of(log, stop - first)
            table = log.to_arrow()
            shown = range(max(0, min(evaluated, stop) - first))
            answers = [_answers(table.slice(run * rounds, rounds)) for run in shown]
            return estimates(rows, protocol, [] if closed else published()["samples"], rng), answers

        label = f"{policy}, means {means[0]:g} and {means[1]:g}, T = {horizon:,}, {protocol}"
        pieces = self.in_pieces(piece, trials, horizon, label)
        keys = list(pieces[0][0])
        answers = [answer for _, some in pieces for answer in some]
        found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
        for answer in answers:
            for pair, row in answer.items():
                found.setdefault(pair, []).append(row)
        return Study(
            policy, means, horizon, paper_horizon, protocol,
            {key: np.concatenate([some[key] for some, _ in pieces]) for key in keys},
            {pair: np.array(rows).T for pair, rows in found.items()},
        )  # fmt: skip

    def in_pieces(
        self, work: Callable[[int, int], Result], trials: int, horizon: int, label: str
    ) -> list[Result]:
        """What `work(first, stop)` makes of the trials, in order, a few pieces at once."""
        width = max(min(_ROWS // horizon, -(-trials // _PIECES)), 1)
        width -= width % _LANES if width > _LANES else 0  # whole blocks, or less than one
        done: list[Result] = []
        with (
            progress_line(self.progress, label, trials * horizon, 0) as advance,
            ThreadPoolExecutor(self.workers, thread_name_prefix="maillard") as pool,
        ):
            waiting: deque[tuple[int, Future[Result]]] = deque()
            try:
                for first, stop in _ranges(trials, width):
                    waiting.append((stop - first, pool.submit(work, first, stop)))
                while waiting:
                    count, future = waiting.popleft()
                    done.append(future.result())
                    advance(label, count * horizon)
            finally:
                for _, future in waiting:
                    future.cancel()
        return done

    # ----------------------------------------------------------------------------------- the regret

    def simulate(
        self, policies: list[Any], world: mb.Environment, trials: int, **options: Any
    ) -> mb.Result:
        """`mb.simulate` for the paper's longest horizon; nothing less than all trials will do."""
        given = {"workers": self.workers, "progress": self.progress, **options}
        horizon = self.size.horizons[max(self.size.horizons)]
        result = mb.simulate(policies, world, horizon, trials, self.seed, **given)
        if not result.complete:
            raise KeyboardInterrupt
        return result

    # ------------------------------------------------------------------------------------- the data

    def write(self, name: str, columns: dict[str, Any]) -> str:
        """Write a table, CSV or Parquet by its name, and say where it is in the report's folder."""
        path = self.folder / "data" / name
        path.parent.mkdir(exist_ok=True)
        table = pa.table(columns)
        if path.suffix == ".csv":
            pyarrow.csv.write_csv(table, path)
        else:
            pq.write_table(table, path, compression="zstd")
        return f"data/{name}"


def _ranges(trials: int, width: int) -> Iterator[tuple[int, int]]:
    for first in range(0, trials, width):
        yield first, min(first + width, trials)


def estimates(
    rows: Rows, protocol: str, samples: list[int], rng: np.random.Generator
) -> dict[str, Array]:
    """Every estimate of the uniform policy's value that the report shows, for each log.

    "exact" is from the exact probabilities, "M=…" from the shares of as many posterior draws. As
    released there are two more: "M=… unfloored", before the floor of 0.5/M was added, and "p_t",
    from the probabilities that were drawn from.
    """
    found = {}
    if protocol != RELEASED:
        found["exact"] = ipw(rows, rows.propensity)
        for m in samples:
            found[f"M={m}"] = ipw(rows, monte_carlo(rng, m, rows.propensity))
        return found
    rows, following = after_update(rows)
    found["exact"] = replay(rows, following, rng)
    found["p_t"] = replay(rows, rows.propensity, rng)
    for m in samples:
        share = monte_carlo(rng, m, following)
        found[f"M={m}"] = replay(rows, np.maximum(share, 0.5 / m), rng)
        found[f"M={m} unfloored"] = replay(rows, share, rng)
    return found


def _answers(log: pa.Table) -> Answers:
    """What `evaluate` says; the evaluation itself would hold on to the log."""
    found = mb.evaluate(log, "uniform", intervals=_INTERVALS)
    return {(e.estimator, e.interval): (e.estimate, e.low, e.high) for e in found.estimates}
