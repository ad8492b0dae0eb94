"""`collect`: logs of simulated decisions, each with its exact propensity, run by run."""

import contextlib
import os
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..logs import Log
from ..logs.schema import encoded, label_array, label_type
from ..logs.writing import (
    GROUP,
    parquet_writer,
    prepared,
    probabilities_field,
    probability_lists,
    runs_in,
)
from ..policies.checks import whole
from ..policies.decision import Decision
from ..policies.policy import InexactProbabilityError, Policy
from ..policies.storage import from_state
from . import engine
from .progress import progress as progress_line
from .specs import environment_for, policy_for

#: Rows that are simulated at once, 28 bytes each: what a worker holds in memory.
_BLOCK: Final = 1 << 23
#: Rows of a file in a folder, about. What is in each does not depend on the workers.
_FILE: Final = 1 << 23


def collect(
    policy: Any,
    environment: Any,
    horizon: int,
    runs: int = 1,
    seed: int = 0,
    out: str | Path | None = None,
    *,
    first: int = 0,
    paired: bool = False,
    probabilities: bool = False,
    workers: int | None = None,
    append: bool = False,
    progress: bool | None = None,
) -> Log:
    """Log every decision of `runs` independent experiments of `horizon` rounds.

    Run i is trial i of `simulate` with the same policy, environment and seed.

    >>> import maillard as mb
    >>> log = mb.collect("kl-ms", mb.Bernoulli([0.8, 0.9]), horizon=1_000, runs=3)
    >>> log.rows, log.arms
    (3000, (0, 1))

    Parameters
    ----------
    policy, environment : as `simulate` takes them.
    out : a folder of Parquet files, or one ``.parquet`` file; without it the log stays in memory.
    first : the number of the first run.
    paired : whether run i of every policy draws from the same random numbers.
    probabilities : whether to log the probability of every arm too, as some checks and estimators
        need it. It takes K numbers a row, and a thousand times as long: they are worked out by the
        online policy, which is shown every decision again.
    workers : threads; all cores by default. The log does not depend on them.
    append : whether to add to the log that is in the folder `out` already.

    Ctrl-C ends it early: what has been written to a folder by then is complete runs and stays.
    """
    plan = _Plan.of(policy, environment, horizon, runs, seed, first, paired, probabilities)
    count = (os.cpu_count() or 1) if workers is None else whole("workers", workers)
    with progress_line(progress, plan.policy.slug, runs * plan.horizon, 0) as advance:

        def told(rows: int) -> None:
            advance(plan.policy.slug, rows)

        if out is None:
            if append:
                raise ValueError("append= is for a folder of Parquet files: name it with out=")
            batches = plan.in_order(plan.blocks(first, first + runs), plan.columns, count)
            table = pa.Table.from_batches(_counted(batches, told), plan.schema)
            return Log.read(table)
        path = Path(out)
        if path.suffix == ".parquet" and not path.is_dir():
            if append:
                raise ValueError(f"{path} is a file: only a folder can be added to")
            _write_file(plan, path, count, told)
        elif path.suffix and not path.is_dir():
            raise ValueError(f"{path}: collect writes a .parquet file or a folder of such files")
        else:
            _write_folder(plan, path, count, append, told)
        return Log.read(path)


@dataclass(frozen=True)
class _Plan:
    """What is to be logged, checked."""

    policy: Policy
    program: engine.Program
    environment: Any
    horizon: int
    runs: int
    seed: int
    first: int
    paired: bool
    probabilities: bool
    schema: pa.Schema

    @classmethod
    def of(
        cls,
        policy: Any,
        environment: Any,
        horizon: int,
        runs: int,
        seed: int,
        first: int,
        paired: bool,
        probabilities: bool,
    ) -> "_Plan":
        world = environment_for(environment)
        rounds, number = whole("horizon", horizon), whole("runs", runs)
        start, root = whole("first", first, low=0), whole("seed", seed, low=0)
        made = policy_for(policy, world, rounds)
        if rounds < world.arms:
            raise ValueError(f"a horizon of {rounds} is too short for {world.arms} arms")
        world.check_horizon(rounds)
        program = engine.program(made, world)
        program.record(1)  # compiles what the workers need, before there are several
        if probabilities:
            _check_replayable(made, world)
        fields = [
            pa.field("run", pa.int32() if start + number < 2**31 else pa.int64(), nullable=False),
            pa.field("round", pa.int32(), nullable=False),
            pa.field("arm", label_type(made.arms), nullable=False),
            pa.field("propensity", pa.float64(), nullable=False),
            pa.field("log_propensity", pa.float64(), nullable=False),
            pa.field("reward", pa.float64(), nullable=False),
        ]
        if probabilities:
            fields.append(probabilities_field(len(made.arms)))
        metadata = {
            "policy": made.slug,
            "parameters": made.parameters,
            "rewards": made.rewards,
            "initial": made.initial,
            "floor": made.floor,
            "binarise": made._coin is not None,
            "environment": world.spec(),
            "delay": world.delay,
            "horizon": rounds,
            "seed": root,
            "paired": bool(paired),
        }
        schema = pa.schema(fields, encoded(metadata, made.arms))
        return cls(
            made, program, world, rounds, number, root, start, bool(paired),
            bool(probabilities), schema,
        )  # fmt: skip

    # --------------------------------------------------------------------------------------- pieces

    def blocks(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Runs that are simulated at once: whole blocks of the engine, if memory allows."""
        width = max(_BLOCK // self.horizon, 1)
        width = max(width // engine.LANES * engine.LANES, min(width, engine.LANES))
        for begin in range(first, stop, width):
            yield begin, min(begin + width, stop)

    def files(self) -> Iterator[tuple[int, int]]:
        """Runs that share a file."""
        width = -(-max(_FILE // self.horizon, 1) // engine.LANES) * engine.LANES
        stop = self.first + self.runs
        for begin in range(self.first, stop, width):
            yield begin, min(begin + width, stop)

    def in_order(
        self,
        pieces: Iterator[tuple[int, int]],
        work: Callable[[int, int], Any],
        workers: int,
    ) -> Generator[Any, None, None]:
        """What `work` makes of the pieces, in their order, a few of them at once.

        Nothing is begun after an error or an interruption; what is under way then is waited for.
        """
        with ThreadPoolExecutor(workers, thread_name_prefix="maillard") as pool:
            under_way: deque[Future[Any]] = deque()
            try:
                for first, stop in pieces:
                    if len(under_way) > workers:
                        yield under_way.popleft().result()
                    under_way.append(pool.submit(work, first, stop))
                while under_way:
                    yield under_way.popleft().result()
            finally:
                for future in under_way:
                    future.cancel()

    def columns(self, first: int, stop: int) -> pa.RecordBatch:
        """Runs `first` … `stop` − 1, one after another."""
        record = self.program.record(
            self.horizon, seed=self.seed, first=first, trials=stop - first, paired=self.paired
        )
        if np.isnan(record.propensity.min()):
            raise InexactProbabilityError(
                f"{self.policy.slug} has no exact probabilities here, so there is nothing to log: "
                "see `maillard policies`"
            )
        run = self.schema.field("run").type.to_pandas_dtype()
        rounds = np.arange(1, self.horizon + 1, dtype=np.int32)
        arrays = [
            pa.array(np.repeat(np.arange(first, stop, dtype=run), self.horizon)),
            pa.array(np.tile(rounds, stop - first)),
            label_array(record.arm.ravel(), self.policy.arms),
            pa.array(record.propensity.ravel()),
            pa.array(record.log_propensity.ravel()),
            pa.array(record.reward.ravel()),
        ]
        if self.probabilities:
            every = np.concatenate(
                [self._replayed(record, i) for i in range(stop - first)], dtype=np.float64
            )
            arrays.append(probability_lists(every, self.schema.field("probabilities")))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _replayed(self, record: engine.Record, run: int) -> NDArray[np.float64]:
        """The probability of every arm in every round of a run, from the online policy."""
        policy = from_state(self.policy.state())
        kind, value = self.environment.delay or ("fixed", 0)
        arms = policy.arms
        every = np.empty((self.horizon, len(arms)))
        waiting: deque[tuple[int, Decision, float]] = deque()
        steps = zip(
            record.arm[run].tolist(),
            record.propensity[run].tolist(),
            record.log_propensity[run].tolist(),
            record.reward[run].tolist(),
        )
        for step, (arm, p, log_p, reward) in enumerate(steps):
            every[step] = policy.probabilities()
            if abs(every[step, arm] - p) > 1e-9 * p:
                raise RuntimeError(
                    f"{policy.slug}: the replay of run {record.first + run} gives arm "
                    f"{arms[arm]!r} {every[step, arm]} in round {step + 1}, not {p}"
                )
            decision = Decision(arms[arm], p, log_p, policy.round, policy._note(arms, every[step]))
            due = step + value if kind == "fixed" else step // value * value + value - 1
            waiting.append((due, decision, reward))
            while waiting and waiting[0][0] <= step:
                policy.update(waiting[0][1], waiting.popleft()[2])
        return every


def _check_replayable(policy: Policy, world: Any) -> None:
    """The online policy must be able to follow what the engine did."""
    if policy._coin is not None:
        raise ValueError(
            f"probabilities= cannot be told for {policy.slug} with binarise=: its coins are not "
            "logged"
        )
    if world.delay is not None and world.delay[0] not in ("fixed", "batch"):
        raise ValueError("probabilities= needs delays that are the same for every reward")


def _counted(
    batches: Iterator[pa.RecordBatch], told: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        told(batch.num_rows)
        yield batch


def _write_file(plan: _Plan, path: Path, workers: int, told: Callable[[int], None]) -> None:
    few = bool(plan.environment.binary)
    blocks = plan.blocks(plan.first, plan.first + plan.runs)
    with (
        contextlib.closing(plan.in_order(blocks, plan.columns, workers)) as batches,
        parquet_writer(path, plan.schema, few) as writer,
    ):
        for batch in _counted(batches, told):
            writer.write_batch(batch, row_group_size=GROUP)


def _write_folder(
    plan: _Plan, folder: Path, workers: int, append: bool, told: Callable[[int], None]
) -> None:
    made = prepared(folder, plan.schema, append)
    there = runs_in(sorted(folder.glob("*.parquet")))
    last = plan.first + plan.runs - 1
    if there is not None and plan.first <= there[1] and last >= there[0]:
        raise ValueError(
            f"{folder} holds runs {there[0]} to {there[1]} already: number the new ones with "
            f"first={there[1] + 1}"
        )
    few = bool(plan.environment.binary)

    def work(first: int, stop: int) -> tuple[int, int]:
        path = folder / f"runs-{first:09d}-{stop - 1:09d}.parquet"
        with parquet_writer(path, plan.schema, few) as writer:
            for begin, end in plan.blocks(first, stop):
                writer.write_batch(plan.columns(begin, end), row_group_size=GROUP)
        return stop, (stop - first) * plan.horizon

    try:
        with contextlib.closing(plan.in_order(plan.files(), work, workers)) as files:
            for _, rows in files:
                told(rows)
    except KeyboardInterrupt:
        there = runs_in(sorted(folder.glob("runs-*.parquet")))
        if there is None:
            raise
        warnings.warn(
            f"interrupted: {folder} holds runs {there[0]} to {there[1]}; go on with "
            f"first={there[1] + 1} and append=True",
            RuntimeWarning,
            stacklevel=4,
        )
    finally:
        if made and not any(folder.iterdir()):
            folder.rmdir()
