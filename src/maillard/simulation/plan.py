"""What is to be simulated, checked; and the pieces of it that workers are given."""

import itertools
import json
import math
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..policies.checks import whole
from ..policies.policy import Policy
from ..streams import LANES
from . import engine
from .curve import MOST_AT_ONCE, PROBABILITY_QUANTUM, SAMPLE, Curve, Moments, Quanta, quantised
from .result import Result
from .specs import environment_for, policies_for, policy_spec

#: The most rounds at which results are written down.
MAX_CHECKPOINTS: Final = 512

#: Steps times arms of a piece: a fifth of a second of KL-MS, a few seconds of slower policies.
_PIECE: Final = 1 << 25
#: The same for policies that run one trial at a time, without the engine.
_SLOW_PIECE: Final = 1 << 15
#: Pieces that a policy's trials are cut into at the most.
_MOST_PIECES: Final = 2048

#: Bytes of an environment's description that a result carries with it.
_LARGEST_SPEC: Final = 1 << 16

_PROGRAMS: Final[OrderedDict[str, Any]] = OrderedDict()
_PROGRAMS_KEPT: Final = 16
_LOCK: Final = threading.RLock()


@dataclass(frozen=True)
class Job:
    """One policy in one environment, ready to be sent to wherever its trials are to run."""

    #: Before the policy, so that unpickling it elsewhere imports the class first.
    kind: type[Policy]
    policy: Policy
    environment: Any
    label: str
    spec: dict[str, Any]
    horizon: int
    rounds: NDArray[np.int64]
    #: What the best arm's mean has brought by each checkpoint.
    oracle: NDArray[np.float64]
    seed: int
    paired: bool
    quanta: Quanta
    #: Whether its trials run step by step, without the engine.
    slow: bool
    #: Names the compiled program in the process that runs this.
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    def program(self) -> Any:
        """The compiled program, made once in each process."""
        program = _PROGRAMS.get(self.key)
        if program is not None:
            return program
        with _LOCK:
            program = _PROGRAMS.get(self.key)
            if program is None:
                program = engine.program(self.policy, self.environment).compile()
                _PROGRAMS[self.key] = program
                while len(_PROGRAMS) > _PROGRAMS_KEPT:
                    _PROGRAMS.popitem(last=False)
            return program

    def empty(self) -> Curve:
        """The curve of no trials."""
        return Curve.empty(
            self.label, self.spec, self.quanta, len(self.rounds), self.environment.arms
        )


def run_piece(job: Job, first: int, stop: int) -> Curve:
    """Trials `first` … `stop` − 1, added up. This is what executors are given."""
    if type(job.policy) is not job.kind:
        raise ValueError(
            f"{job.kind.__name__} travels to another process by its slug, which is "
            f"{type(job.policy).__name__}'s: give it one of its own"
        )
    program = job.program()
    curve = job.empty()
    for begin in range(first, stop, MOST_AT_ONCE):
        count = min(MOST_AT_ONCE, stop - begin)
        started = time.thread_time()
        chunk = program.run(
            job.horizon,
            job.rounds,
            seed=job.seed,
            first=begin,
            trials=count,
            paired=job.paired,
        )
        seconds = time.thread_time() - started
        regret = quantised(chunk.regret, job.quanta.regret)
        realised = quantised(job.oracle[:, None] - chunk.rewards, job.quanta.realised)
        part = Curve(
            job.label,
            job.spec,
            job.quanta,
            ((begin, begin + count),),
            np.asarray(chunk.pulls, dtype=np.int64),
            Moments.of(regret),
            Moments.of(realised),
            Moments.of(quantised(chunk.best, PROBABILITY_QUANTUM)),
            regret[:, : max(SAMPLE - begin, 0)],
            seconds,
        )
        curve = curve.merge(part)
    return curve


@dataclass(frozen=True)
class Plan:
    """A run: everything that its bits depend on."""

    jobs: tuple[Job, ...]
    environment: Any
    horizon: int
    rounds: NDArray[np.int64]
    first: int
    trials: int
    seed: int
    paired: bool
    quantiles: tuple[float, ...]

    @classmethod
    def of(
        cls,
        policies: Any,
        environment: Any,
        horizon: int,
        trials: int,
        seed: int,
        checkpoints: int | Iterable[int],
        spacing: str,
        quantiles: Iterable[float],
        paired: bool,
        first: int,
    ) -> "Plan":
        """Check everything that can be checked before the first step."""
        world = environment_for(environment)
        horizon = whole("horizon", horizon)
        if horizon < world.arms:
            raise ValueError(
                f"a horizon of {horizon} is too short for {world.arms} arms: policies pull each "
                "arm once first"
            )
        if horizon > 2**40:
            raise ValueError(f"a horizon can be 2^40 at most, not {horizon}")
        trials, first = whole("trials", trials), whole("first", first, low=0)
        if first + trials > 2**40:
            raise ValueError("trials are numbered up to 2^40")
        seed = whole("seed", seed, low=0)
        if not isinstance(paired, (bool, np.bool_)):
            raise ValueError(f"paired must be True or False, not {paired!r}")
        world.check_horizon(horizon)
        rounds = checkpoint_rounds(horizon, checkpoints, spacing)
        made = policies_for(policies, world, horizon)
        quanta, oracle = Quanta.of(world, horizon), best_sums(world, rounds)
        jobs = tuple(
            Job(
                type(policy), policy, world, label, _plain_json(policy_spec(policy)),
                horizon, rounds, oracle, seed, bool(paired), quanta,
                engine.program(policy, world).path == "online",
            )
            for label, policy in made.items()
        )  # fmt: skip
        levels = _levels(quantiles)
        return cls(jobs, world, horizon, rounds, first, trials, seed, bool(paired), levels)

    @property
    def wanted(self) -> tuple[tuple[int, int], ...]:
        """The range of trials."""
        return ((self.first, self.first + self.trials),)

    def result(self, curves: Sequence[Curve]) -> Result:
        """What has come of it, as far as it has come."""
        return Result(
            described(self.environment), self.horizon, self.rounds, self.seed, self.paired,
            float(self.environment.asymptotic_constant()), self.quantiles, curves, self.wanted,
        )  # fmt: skip

    def description(self) -> dict[str, Any]:
        """Everything that the bits depend on, as plain data."""
        from .. import __version__

        return {
            "maillard": __version__,
            "environment": described(self.environment),
            "policies": {job.label: job.spec for job in self.jobs},
            "horizon": self.horizon,
            "checkpoints": self.rounds.tolist(),
            "first": self.first,
            "trials": self.trials,
            "seed": self.seed,
            "paired": self.paired,
            "quantiles": list(self.quantiles),
        }

    def pieces(
        self, job: Job, gaps: Sequence[tuple[int, int]], workers: int
    ) -> Iterator[tuple[int, int]]:
        """Ranges of trials that are run at once. However they are cut, the results are the same."""
        step = 1 if job.slow else LANES
        size = (_SLOW_PIECE if job.slow else _PIECE) // (self.horizon * self.environment.arms)
        # Every worker gets a few pieces, and nobody gets more than some thousands.
        size = min(size, math.ceil(self.trials / (4 * workers)))
        size = max(size, math.ceil(self.trials / _MOST_PIECES), 1)
        size = math.ceil(size / step) * step
        for first, stop in gaps:
            for begin in range(first, stop, size):
                yield begin, min(begin + size, stop)


def checkpoint_rounds(
    horizon: int, checkpoints: int | Iterable[int], spacing: str
) -> NDArray[np.int64]:
    """So many rounds up to the horizon, evenly spaced in t or in log t; or those given, and it."""
    if isinstance(checkpoints, (int, np.integer)) and not isinstance(checkpoints, bool):
        count = whole("checkpoints", checkpoints)
        if count > MAX_CHECKPOINTS:
            raise ValueError(f"there can be {MAX_CHECKPOINTS} checkpoints at most, not {count}")
        if spacing not in ("log", "linear"):
            raise ValueError(f"spacing must be 'log' or 'linear', not {spacing!r}")
        count = min(count, horizon)
        if spacing == "linear":
            return np.array([horizon * (i + 1) // count for i in range(count)], dtype=np.int64)
        # Each round is the geometric step towards the horizon from the one before, or the next.
        rounds = [1] if count > 1 else [horizon]
        while len(rounds) < count:
            steps = count - len(rounds)
            ahead = rounds[-1] * (horizon / rounds[-1]) ** (1.0 / steps)
            rounds.append(min(max(rounds[-1] + 1, round(ahead)), horizon - steps + 1))
        return np.array(rounds, dtype=np.int64)
    if isinstance(checkpoints, (str, bytes)) or not isinstance(checkpoints, Iterable):
        raise ValueError(f"checkpoints must be a number or a list of rounds, not {checkpoints!r}")
    given = [whole("a checkpoint", t) for t in checkpoints]
    if any(b <= a for a, b in itertools.pairwise(given)) or (given and given[-1] > horizon):
        raise ValueError(f"checkpoints must rise, and end by the horizon, {horizon}")
    if not given or given[-1] < horizon:
        given.append(horizon)
    if len(given) > MAX_CHECKPOINTS:
        raise ValueError(f"there can be {MAX_CHECKPOINTS} checkpoints at most, not {len(given)}")
    return np.array(given, dtype=np.int64)


def best_sums(environment: Any, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Σ_{s ≤ t} max_a μ_a(s) for each t of `rounds`."""
    knots, table = environment.knots, environment.mean_table
    best = table.max(axis=1)
    if not environment.drifts:
        before = np.append(0.0, np.cumsum(best[:-1] * np.diff(knots)))
        row = np.searchsorted(knots, rounds, side="right") - 1
        return np.array(before[row] + best[row] * (rounds - knots[row] + 1))
    sums, total, last = [], 0.0, 0
    for t in rounds.tolist():
        for begin in range(last, t, 1 << 16):
            now = np.arange(begin + 1, min(begin + (1 << 16), t) + 1)
            means = np.array([np.interp(now, knots, column) for column in table.T])
            total += math.fsum(means.max(axis=0).tolist())
        last = t
        sums.append(total)
    return np.array(sums)


def described(environment: Any) -> dict[str, Any]:
    """An environment's `spec()`, or a digest where that holds whole tables of rewards."""
    spec = environment.spec()
    small = len(json.dumps(spec, default=_as_list)) <= _LARGEST_SPEC
    return _plain_json(spec if small else environment.identity())


def _levels(quantiles: Any) -> tuple[float, ...]:
    try:
        levels = tuple(float(q) for q in quantiles)
    except (TypeError, ValueError):
        raise ValueError(f"quantiles must be numbers in [0, 1], not {quantiles!r}") from None
    if not all(0.0 <= q <= 1.0 for q in levels):
        raise ValueError(f"quantiles must be numbers in [0, 1], not {list(levels)}")
    return tuple(sorted(set(levels)))


def _plain_json(value: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from a file: lists for tuples, plain numbers for NumPy's."""
    plain: dict[str, Any] = json.loads(json.dumps(value, default=_as_list))
    return plain


def _as_list(value: Any) -> Any:
    return value.tolist()
