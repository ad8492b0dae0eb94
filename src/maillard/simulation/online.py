"""The slow path: trials step by step through the online policy, for what the engine cannot do."""

from collections import deque
from collections.abc import Hashable
from typing import Any

import numpy as np

from ..compiled import build
from ..environments.environment import PAY
from ..policies.policy import InexactProbabilityError, Policy
from ..policies.storage import from_state
from ..streams import LANES, WORDS, seed_lane
from . import loop
from .engine import Chunk, Program, Record, _checked_marks
from .loop import rounds_until_seen


def _seed_block(noise: Any, base: Any, first: int) -> None:
    """Start the streams of LANES trials."""
    for lane in range(LANES):
        seed_lane(noise, lane, base, first + lane)


def _waits(kind: int, parameter: float, step: int, noise: Any, out: Any) -> None:
    """Each lane's delay."""
    for lane in range(LANES):
        out[lane] = rounds_until_seen(kind, parameter, step, noise, lane)


class OnlineProgram(Program):
    """The same trials, with every decision made by `Policy.decide`: thousands of times slower."""

    path = "online"

    def __init__(self, policy: Policy, environment: Any, why: str) -> None:
        super().__init__(policy, environment)
        #: Why the compiled engine cannot do it.
        self.why = why
        self.exact = True  # until the policy itself says otherwise

    def compile(self) -> Program:
        """Compile, or fetch from the cache, what `run` needs."""
        build(self.environment.pay_kernel, PAY)
        return self

    def run(
        self,
        horizon: int,
        checkpoints: Any,
        seed: int = 0,
        first: int = 0,
        trials: int = 1,
        paired: bool = False,
    ) -> Chunk:
        """As `Program.run`."""
        self._check(horizon, first, trials)
        marks = _checked_marks(checkpoints, horizon)
        pulls = np.zeros((marks.size, len(self.policy.arms)), dtype=np.int64)
        results = np.zeros((3, marks.size, trials))
        for begin in range(0, trials, LANES):
            count = min(LANES, trials - begin)
            block = _Block(self, horizon, self._streams(seed, paired), first + begin, count)
            mark = 0
            for step in range(horizon):
                at_mark = mark < marks.size and marks[mark] == step + 1
                best = block.best_probabilities(step) if at_mark else None
                block.advance(step)
                if at_mark:
                    pulls[mark] += block.plays.sum(axis=1)
                    columns = slice(begin, begin + count)
                    results[loop.REGRET, mark, columns] = block.regret
                    results[loop.REWARDS, mark, columns] = block.earned
                    results[loop.BEST_ARM, mark, columns] = (
                        best if best is not None else block.best_chosen()
                    )
                    mark += 1
        return Chunk(first, trials, marks, pulls, *results)

    def sums(
        self, horizon: int, seed: int = 0, first: int = 0, trials: int = 1, paired: bool = False
    ) -> Any:
        """As `Program.sums`."""
        found = np.zeros((trials, len(self.policy.arms), loop.SUMS))
        for i in range(trials):
            record = self.record(horizon, seed, first + i, 1, paired)
            arm, reward = record.arm[0], record.reward[0]
            for power in range(loop.SUMS):
                found[i, :, power] = np.bincount(arm, reward**power, found.shape[1])
        return found

    def record(
        self, horizon: int, seed: int = 0, first: int = 0, trials: int = 1, paired: bool = False
    ) -> Record:
        """As `Program.record`; NaN where the policy has no exact probability to give."""
        self._check(horizon, first, trials)
        arm = np.zeros((trials, horizon), dtype=np.int32)
        columns = np.zeros((3, trials, horizon))
        for begin in range(0, trials, LANES):
            count = min(LANES, trials - begin)
            block = _Block(self, horizon, self._streams(seed, paired), first + begin, count)
            for step in range(horizon):
                decisions = block.advance(step)
                for l, decision in enumerate(decisions):
                    arm[begin + l, step] = block.position[decision.arm]
                    columns[loop.PROPENSITY, begin + l, step] = decision.propensity
                    columns[loop.LOG_PROPENSITY, begin + l, step] = decision.log_propensity
                columns[loop.REWARD, begin : begin + count, step] = block.paid
        return Record(first, arm, *columns)


class _Block:
    """Up to LANES trials, each an online policy of its own, paid together."""

    def __init__(
        self,
        program: Program,
        horizon: int,
        streams: tuple[np.uint64, np.uint64],
        first: int,
        count: int,
    ) -> None:
        self.world, self.horizon = program.environment, horizon
        saved = program.policy.state()
        self.policies = [from_state(saved) for _ in range(count)]
        for number, policy in enumerate(self.policies):
            if policy._coin is not None:  # every trial has a coin of its own
                policy._coin = np.random.default_rng([int(streams[1]), first + number])
        self.choices = [np.random.default_rng([int(streams[0]), first + l]) for l in range(count)]
        self.position: dict[Hashable, int] = {x: i for i, x in enumerate(program.policy.arms)}
        self.noise = np.empty(WORDS, np.uint64)
        build(_seed_block, "void(uint64[::1], uint64, int64)")(self.noise, streams[1], first)
        self.pay = build(self.world.pay_kernel, PAY)
        self.feedback, self.parameter, _ = program._feedback(horizon)
        self.mail: dict[int, deque[Any]] = {}
        self.plays = np.zeros((self.world.arms, count), dtype=np.int64)
        self.regret, self.earned, self.paid = np.zeros(count), np.zeros(count), np.zeros(count)
        self.gaps = np.zeros(self.world.arms)
        self.arm = np.zeros(LANES, np.uint64)
        self.law, self.mean = np.zeros(self.world.laws.shape[1:]), np.zeros(self.world.arms)

    def best_probabilities(self, step: int) -> Any:
        """Each trial's probability of the best arms now; None where there is no exact one."""
        self._turn(step)
        best = self.gaps == 0.0
        try:
            return [float(policy.probabilities()[best].sum()) for policy in self.policies]
        except InexactProbabilityError:
            return None

    def best_chosen(self) -> Any:
        """Whether each trial's last choice was a best arm."""
        chosen = self.arm[: len(self.policies)].astype(np.int64)
        return (self.gaps[chosen] == 0.0).astype(np.float64)

    def advance(self, step: int) -> list[Any]:
        """One decision of every trial, its reward, and all rewards that are due."""
        world = self.world
        self._turn(step)
        decisions = [p.decide(rng) for p, rng in zip(self.policies, self.choices, strict=True)]
        for l, decision in enumerate(decisions):
            self.arm[l] = self.position[decision.arm]
        reward = np.zeros(LANES)
        self.pay(self.arm, self.law, step + 1.0, self.noise, reward)
        chosen = self.arm[: len(decisions)].astype(np.int64)
        self.paid = reward[: len(decisions)].copy()
        self.earned += self.paid
        np.add.at(self.plays, (chosen, np.arange(len(decisions))), 1)
        if world.knots.size > 1:
            self.regret += self.gaps[chosen]
        else:
            self.regret = self.gaps @ self.plays
        waits = np.zeros(LANES, dtype=np.int64)
        if self.feedback != loop.IMMEDIATE:
            signature = "void(int64, float64, int64, uint64[::1], int64[::1])"
            build(_waits, signature)(self.feedback, self.parameter, step, self.noise, waits)
        for l, decision in enumerate(decisions):
            due = self.mail.setdefault(step + int(waits[l]), deque())
            due.append((self.policies[l], decision, float(self.paid[l])))
        for policy, decision, paid in self.mail.pop(step, ()):
            policy.update(decision, paid)
        return decisions

    def _turn(self, step: int) -> None:
        """The world of this round."""
        world = self.world
        if step == 0 or world.knots.size > 1:
            loop.turn_world(
                step, world.knots, world.laws, world.mean_table, world.drifts, self.law, self.mean
            )
            self.gaps = self.mean.max() - self.mean
