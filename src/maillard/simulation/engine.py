"""A policy in an environment, ready to run: compiled where that is possible, else step by step."""

import functools
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..compiled import Kernel, build, kernel
from ..environments.environment import PAY
from ..policies.adversarial import TsallisINF
from ..policies.empirical import EmpiricalLaws
from ..policies.families import Perturbed, quadrature
from ..policies.med import DMED
from ..policies.policy import Policy
from ..policies.quadrature import SIGNATURE as INTEGRATE
from ..policies.simple import Fixed
from ..policies.thompson import NPTS, TopTwoThompson
from ..streams import LANES, base
from . import loop
from .blocks import (
    DECIDE,
    LEARN,
    NotSimulatedError,
    deciding_block,
    integrated_block,
    learning_block,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

__all__ = ["LANES", "Chunk", "NotSimulatedError", "Program", "Record", "program"]

#: The most rounds at which results are written down.
MAX_CHECKPOINTS: Final = 512

#: The longest delay of a reward: each round of it takes 2 kB a block of trials.
MAX_DELAY: Final = 100_000

_FEEDBACK: Final = {"fixed": loop.FIXED, "geometric": loop.GEOMETRIC, "batch": loop.BATCH}

#: The steps in a policy's life that the blocks know how to take; another's own are taken online.
_KNOWN: Final = {
    "_absorb": (Policy, EmpiricalLaws, DMED, TsallisINF),
    "_prepare": (Policy, Perturbed, TopTwoThompson, EmpiricalLaws, DMED, Fixed),
    "decide": (Policy, NPTS),
    "_restricted": (Policy, NPTS),
}


@dataclass(frozen=True)
class Chunk:
    """What some trials have come to: a column for each, in the order of their numbers."""

    first: int
    trials: int
    checkpoints: Integers
    #: Decisions for each arm so far, summed over the trials: [checkpoint, arm].
    pulls: Integers
    #: Pseudo-regret so far: [checkpoint, trial].
    regret: Array
    #: Sum of the rewards so far, as they were paid: [checkpoint, trial].
    rewards: Array
    #: Probability of the best arm in the round of the checkpoint (of the best arms together); where
    #: choices are simulated by draws, whether it was chosen: [checkpoint, trial].
    best: Array


@dataclass(frozen=True)
class Record:
    """Every decision of some trials: [trial, round]."""

    first: int
    arm: NDArray[np.int32]
    propensity: Array
    log_propensity: Array
    reward: Array


def program(policy: Policy, environment: Any) -> "Program":
    """The policy in the environment, on the fastest path that there is for the two."""
    from .online import OnlineProgram

    why = _obstacle(policy, environment)
    return Program(policy, environment) if why is None else OnlineProgram(policy, environment, why)


def _obstacle(policy: Policy, environment: Any) -> str | None:
    """What keeps a policy off the compiled engine, if anything does."""
    for hook, owners in _KNOWN.items():
        if getattr(type(policy), hook) not in [getattr(owner, hook) for owner in owners]:
            return f"{policy.slug} has a {hook} of its own"
    binary = policy._coin is not None or (
        environment.binary and tuple(environment.rewards) == policy.rewards
    )
    whole_laws = getattr(policy, "divergence", "k-inf") == "k-inf"
    if isinstance(policy, EmpiricalLaws) and whole_laws and not binary:
        return f"{policy.slug} keeps whole empirical laws of rewards other than L and U"
    if getattr(policy, "estimator", "iw") == "rv" and environment.delay is not None:
        return f"{policy.slug} with estimator='rv' needs the weights of the time"
    return None


class Program:
    """A policy in an environment, ready to run in lockstep blocks.

    The policy says what to simulate and must not have seen any rewards; it is not changed. Rewards
    are scaled by its range, which must hold all that the environment pays.
    """

    #: Which path the trials take: the compiled engine, or the online policy step by step.
    path = "engine"

    def __init__(self, policy: Policy, environment: Any) -> None:
        low, high = environment.rewards
        if policy.round != 1:
            raise ValueError(
                f"{policy.slug}: simulation starts from a policy that has seen nothing"
            )
        if len(policy.arms) != environment.arms:
            raise ValueError(
                f"{policy.slug} has {len(policy.arms)} arms, the environment {environment.arms}"
            )
        if not (policy.rewards[0] <= low and high <= policy.rewards[1]):
            raise ValueError(
                f"{policy.slug} takes rewards in [{policy.rewards[0]:g}, {policy.rewards[1]:g}], "
                f"the environment pays in [{low:g}, {high:g}]"
            )
        self.policy, self.environment = policy, environment
        #: Whether each choice's probability comes with it; else only the choice does.
        self.exact = not isinstance(policy, Perturbed) or isinstance(policy, TopTwoThompson)
        #: Whether the probabilities of its random draws are integrated even where nobody asks.
        self.integrated = isinstance(policy, TopTwoThompson)
        self._blocks: dict[bool, tuple[Kernel, ...]] = {}

    def compile(self) -> "Program":
        """Compile, or fetch from the cache, what `run` needs."""
        _engine()
        self._blocks_for(exact=False)
        return self

    def _blocks_for(self, exact: bool) -> tuple[Kernel, ...]:
        """The compiled functions of the policy and its environment, in the engine's order."""
        exact = exact and not self.exact
        if exact not in self._blocks:
            late = self.environment.delay is not None
            integrated = exact or self.integrated
            self._blocks[exact] = (
                build(deciding_block(self.policy, apart=late, exact=integrated), DECIDE),
                quadrature() if integrated else build(no_integral, INTEGRATE),
                build(integrated_block(self.policy) if integrated else no_weights, DECIDE),
                build(learning_block(self.policy), LEARN),
                build(self.environment.pay_kernel, PAY),
            )
        return self._blocks[exact]

    def run(
        self,
        horizon: int,
        checkpoints: Any,
        seed: int = 0,
        first: int = 0,
        trials: int = 1,
        paired: bool = False,
    ) -> Chunk:
        """Trials `first` … `first` + `trials` − 1, written down at the checkpoints.

        Trial i draws its choices and its rewards from two streams that depend on the seed, the
        policy (unless `paired`), the environment and i alone.
        """
        self._check(horizon, first, trials)
        marks = _checked_marks(checkpoints, horizon)
        pulls = np.zeros((marks.size, len(self.policy.arms)), dtype=np.int64)
        results = np.zeros((3, marks.size, trials))
        streams = self._streams(seed, paired)
        self._call(False, horizon, marks, streams, first, trials, (pulls, results))
        return Chunk(first, trials, marks, pulls, *results)

    def sums(
        self, horizon: int, seed: int = 0, first: int = 0, trials: int = 1, paired: bool = False
    ) -> Array:
        """What each arm's rewards came to: [trial, arm, (number, sum, sum of squares)].

        The trials are those of `run`; rewards that come after the horizon are counted too.
        """
        self._check(horizon, first, trials)
        found = np.zeros((trials, len(self.policy.arms), loop.SUMS))
        streams = self._streams(seed, paired)
        marks = np.array([horizon])
        self._call(False, horizon, marks, streams, first, trials, arm_sums=found)
        return found

    def record(
        self, horizon: int, seed: int = 0, first: int = 0, trials: int = 1, paired: bool = False
    ) -> Record:
        """Every decision of as many trials, with its exact propensity.

        The trials are those of `run` unless the policy plays random draws: there the probabilities
        are worked out by quadrature, and the choices made from them.
        """
        self._check(horizon, first, trials)
        arm = np.zeros((trials, horizon), dtype=np.int32)
        columns = np.zeros((3, trials, horizon))
        marks = np.zeros(0, dtype=np.int64)
        streams = self._streams(seed, paired)
        self._call(True, horizon, marks, streams, first, trials, decisions=(arm, columns))
        return Record(first, arm, *columns)

    def _check(self, horizon: int, first: int, trials: int) -> None:
        if horizon < 1 or trials < 1 or first < 0:
            raise ValueError("there must be one round and one trial at least")
        self.environment.check_horizon(horizon)

    def _streams(self, seed: int, paired: bool) -> tuple[np.uint64, np.uint64]:
        """The bases of the streams of choices and of rewards."""
        whose = "" if paired else _identity(self.policy)
        world = self.environment.identity()
        return base(seed, whose, world, "choices"), base(seed, whose, world, "rewards")

    def _feedback(self, horizon: int) -> tuple[int, float, int]:
        """The kind of feedback, its parameter, and the longest delay that counts."""
        if self.environment.delay is None:
            return loop.IMMEDIATE, 0.0, 0
        kind, value = self.environment.delay
        longest = value - 1 if kind == "batch" else value
        if kind == "geometric":
            # ln of a failure's probability; a uniform variate is 2^-53 at least.
            value = -math.log1p(1.0 / value)
            longest = 53.0 * math.log(2.0) / -value
        longest = min(int(longest) + 1, horizon)
        if longest > MAX_DELAY:
            raise NotSimulatedError(
                f"delays of up to {longest:,} rounds are more than {MAX_DELAY:,}"
            )
        return _FEEDBACK[kind], float(value), longest

    def _call(
        self,
        exact: bool,
        horizon: int,
        marks: Integers,
        streams: tuple[np.uint64, np.uint64],
        first: int,
        trials: int,
        at_marks: tuple[Integers, Array] | None = None,
        arm_sums: Array | None = None,
        decisions: tuple[NDArray[np.int32], Array] | None = None,
    ) -> None:
        policy, world = self.policy, self.environment
        if at_marks is None:
            at_marks = (
                np.zeros((marks.size, world.arms), dtype=np.int64),
                np.zeros((3, marks.size, trials)),
            )
        if arm_sums is None:
            arm_sums = np.zeros((0, 0, loop.SUMS))
        if decisions is None:
            decisions = np.zeros((0, 0), dtype=np.int32), np.zeros((3, 0, 0))
        opening = loop.AT_ONCE
        if policy.forced:
            opening = loop.SHUFFLED if policy.initial == "shuffled" else loop.IN_ORDER
        low, high = policy.rewards
        # The family of random draws to integrate, if any are.
        integrated = exact or self.integrated
        family = policy.family if isinstance(policy, Perturbed) and integrated else -1
        feedback = self._feedback(horizon)
        late, summed = feedback[0] != loop.IMMEDIATE, arm_sums.size > 0
        space = loop.space(world.laws, feedback[2], late, summed)
        _engine()(
            *self._blocks_for(exact),
            family, self.integrated,
            policy._state, policy._memory, policy._numbers,
            opening, policy.floor, policy._coin is not None, low, high,
            exact or policy.needs_propensity or marks.size == 0,
            world.knots, world.laws, world.mean_table, world.drifts,
            *feedback,
            horizon, marks, *streams, first, trials, *at_marks, arm_sums, *decisions, *space,
        )  # fmt: skip


@kernel
def no_integral(family: int, laws: Any, target: int, out: Any) -> float:
    """In place of the quadrature where nothing is integrated."""
    return 0.0


@kernel
def no_weights(
    state: Any, memory: Any, t: Any, parameters: Any, work: Any, rng: Any, weight: Any
) -> None:
    """In place of what comes after it."""
    return


@functools.cache
def _engine() -> Kernel:
    return build(loop.run, loop.RUN)


def _identity(policy: Policy) -> list[Any]:
    """What a policy's stream of choices depends on: all but the labels of its arms."""
    return [
        policy.slug, sorted(policy.parameters.items()), list(policy.rewards), policy.initial,
        policy.floor, policy._coin is not None,
    ]  # fmt: skip


def _checked_marks(checkpoints: Any, horizon: int) -> Integers:
    marks = np.ascontiguousarray(checkpoints, dtype=np.int64)
    if marks.ndim != 1 or not 1 <= marks.size <= MAX_CHECKPOINTS:
        raise ValueError(f"there must be 1 to {MAX_CHECKPOINTS} checkpoints")
    if marks[0] < 1 or marks[-1] > horizon or np.any(np.diff(marks) <= 0):
        raise ValueError(f"checkpoints must rise from 1 at least to {horizon:,} at most")
    return marks
