"""`simulate`: policies in an environment, many trials each, on any workers, with the same bits."""

import contextlib
import os
import warnings
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..policies.checks import executor_or_none, whole
from .curve import Curve, missing
from .plan import Job, Plan, run_piece
from .progress import Advance
from .progress import progress as progress_line
from .result import Result

if TYPE_CHECKING:
    from .folder import RunFolder

#: Tasks given to an executor ahead of what it has finished: only these are in memory.
_AHEAD: Final = 64

#: Seconds to wait for the running pieces of somebody else's executor before giving them up.
_PATIENCE: Final = 10.0


class SimulationError(RuntimeError):
    """An executor failed before all trials were in; `result` holds those that are."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.result)


def simulate(
    policies: Any,
    environment: Any,
    horizon: int,
    trials: int,
    seed: int = 0,
    *,
    checkpoints: int | Iterable[int] = 256,
    spacing: str = "log",
    quantiles: Iterable[float] = (0.05, 0.5, 0.95),
    paired: bool = False,
    first: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
) -> Result:
    """Run every policy in the environment for `trials` independent trials of `horizon` rounds.

    The result depends on nothing but the first five arguments, `checkpoints`, `paired` and `first`:
    not by a bit on the workers, the executor, the order of policies or an interruption in between.

    >>> import maillard as mb
    >>> world = mb.Bernoulli([0.8, 0.9])
    >>> result = mb.simulate(["kl-ms", "thompson:prior=1,1"], world, horizon=1_000, trials=100)
    >>> result["kl-ms"].regret[-1] < 100
    True

    Parameters
    ----------
    policies : one or a list of: a name (``"kl-ms"``), a name with parameters
        (``"thompson:prior=1,1"`` or ``("kl-ms", {"booster": 2})``), a Policy that has seen nothing,
        or a class. Arms and the range of rewards are the environment's; a policy that needs
        ``horizon=`` gets the simulation's.
    environment : one such as ``mb.Bernoulli([0.8, 0.9])``, or text: ``"gaussian:means=0,0.5"``.
    checkpoints : how many rounds to write results down at (512 at most), with `spacing` "log" or
        "linear"; or the rounds themselves. The horizon is always one of them.
    quantiles : levels for the summary and the figure. They are those of the trials with an index
        below 4096, which bounds the memory; all else is over all trials.
    paired : whether trial i of every policy draws from the same random numbers.
    first : the index of the first trial: ten runs of 200 trials with first=0, 200, … merge into
        one of 2,000.
    workers : threads; all cores by default. With an `executor`, how many tasks it runs at once.
    executor : anything that is a concurrent.futures.Executor: processes, or Dask's
        ``client.get_executor()``.
    progress : whether to show it on standard error; by default only on a terminal.
    folder : where to keep finished pieces as they come and the result at the end. With `resume` a
        run that was cut short there goes on, to the bits that it would have had.

    Ctrl-C ends it early: the result then holds the trials that are complete, says so in a warning,
    and its `complete` is False. A second Ctrl-C does not wait for those that are running.
    """
    plan = Plan.of(
        policies, environment, horizon, trials, seed, checkpoints, spacing, quantiles, paired, first
    )
    result = run(
        plan, workers=workers, executor=executor, progress=progress, folder=folder, resume=resume
    )
    if not result.complete:
        warnings.warn(f"interrupted: {how_much(result)}", RuntimeWarning, stacklevel=2)
    return result


def run(
    plan: Plan,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
) -> Result:
    """Run a plan; what an interruption leaves is a result that is not `complete`."""
    if workers is None:
        # With an executor we cannot know; the number only sizes the pieces.
        count = (os.cpu_count() or 1) if executor is None else _AHEAD // 4
    else:
        count = whole("workers", workers)
    executor_or_none(executor)
    if resume and folder is None:
        raise ValueError("resume needs the folder of the run")
    held = None if folder is None else _held(folder, plan, resume)
    session = _Session(plan, held, progress)
    pool = (
        ThreadPoolExecutor(count, thread_name_prefix="maillard") if executor is None else executor
    )
    try:
        session.go(pool, count, own=executor is None)
    except Exception:
        if held is not None:
            held.leave_if_empty()
        raise
    finally:
        if executor is None:
            pool.shutdown(wait=False, cancel_futures=True)
    result = session.result()
    if not any(curve.trials for curve in result.curves.values()):  # only an interruption can do so
        if held is not None:
            held.leave_if_empty()
        raise KeyboardInterrupt
    if held is not None:
        held.finish(result)
    return result


def _held(folder: str | Path, plan: Plan, resume: bool) -> "RunFolder":
    from .folder import RunFolder  # brings PyArrow, which takes a tenth of a second

    return RunFolder(folder, plan, resume=resume)


class _Session:
    """The pieces of a run under way, and what has come of them."""

    def __init__(self, plan: Plan, held: "RunFolder | None", show: bool | None) -> None:
        self.plan, self.held, self.show = plan, held, show
        self.curves = [job.empty() for job in plan.jobs] if held is None else held.load()
        self._under_way: dict[Future[Curve], int] = {}

    def result(self) -> Result:
        """What is complete."""
        return self.plan.result(self.curves)

    def go(self, pool: Executor, workers: int, *, own: bool) -> None:
        """Run what is missing. Ctrl-C ends it early; another failure of the pool is an error."""
        plan = self.plan
        total = len(plan.jobs) * plan.trials * plan.horizon
        done = sum(curve.trials for curve in self.curves) * plan.horizon
        with progress_line(self.show, plan.jobs[0].label, total, done) as advance:
            try:
                self._submit(pool, workers, own, advance)
            except KeyboardInterrupt:
                self._drain(None if own else _PATIENCE)
            except _Failure as failure:
                self._drain(_PATIENCE)
                raise self._error(plan.jobs[failure.number], failure.cause) from failure.cause

    def _submit(self, pool: Executor, workers: int, own: bool, advance: Advance) -> None:
        ahead = max(2 * workers, 0 if own else _AHEAD)
        for number, job in enumerate(self.plan.jobs):
            gaps = missing(self.plan.wanted, self.curves[number].ranges)
            for first, stop in self.plan.pieces(job, gaps, workers):
                while len(self._under_way) >= ahead:
                    self._collect(own, advance)
                try:
                    self._under_way[pool.submit(run_piece, job, first, stop)] = number
                except Exception as error:
                    raise _Failure(number, error) from None
        while self._under_way:
            self._collect(own, advance)

    def _collect(self, own: bool, advance: Advance) -> None:
        """Wait for a piece or more, and take them in."""
        finished, _ = wait(self._under_way, return_when=FIRST_COMPLETED)
        for future in finished:
            number = self._under_way[future]
            try:
                curve = future.result()
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # a cancelled task is not an Exception everywhere
                if own:
                    raise
                raise _Failure(number, error) from None
            self._take(number, curve)
            del self._under_way[future]
            advance(curve.label, curve.trials * self.plan.horizon)

    def _take(self, number: int, curve: Curve) -> None:
        if missing(curve.ranges, self.curves[number].ranges):  # else an interruption came between
            self.curves[number] = self.curves[number].merge(curve)
            if self.held is not None:
                self.held.add(curve)

    def _drain(self, patience: float | None) -> None:
        """Drop what has not begun, wait for the rest, and take in what comes of it."""
        with contextlib.suppress(KeyboardInterrupt):
            for future in self._under_way:
                future.cancel()
            wait(self._under_way, timeout=patience)
        for future, number in self._under_way.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                self._take(number, future.result())

    def _error(self, job: Job, cause: BaseException) -> SimulationError:
        result = self.result()
        kept = result[job.label].trials
        where = ""
        if self.held is not None and any(curve.trials for curve in self.curves):
            self.held.finish(result)
            where = f", kept in {self.held.path} for resume=True"
        words = (str(cause) or type(cause).__name__).splitlines()[0]
        return SimulationError(
            f"the executor failed in {job.label}, {kept:,} of {self.plan.trials:,} trials "
            f"complete{where}: {type(cause).__name__}: {words}",
            result,
        )


class _Failure(Exception):
    """The pool could not run a piece of this job."""

    def __init__(self, number: int, cause: BaseException) -> None:
        super().__init__(number)
        self.number, self.cause = number, cause


def how_much(result: Result) -> str:
    """Which trials are complete, in words."""
    shares = [f"{c.label} {c.trials:,} of {result.trials:,}" for c in result.curves.values()]
    return f"complete are {', '.join(shares)} trials"
