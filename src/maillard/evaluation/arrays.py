"""A log in memory, made of arrays: for simulations that evaluate thousands of logs."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..logs.sources import edges
from .moments import Array
from .rows import Codes


class _ArrayBatch(NamedTuple):
    first_row: int
    arm: Codes
    propensity: Array
    log_propensity: Array | None
    reward: Array
    probabilities: Array | None
    table: Any = None
    span: None = None


class ArrayLog:
    """Codes of arms, propensities, rewards, perhaps all probabilities: a log for `evaluate`.

    Nothing is copied or checked but lengths: what comes from a simulation is right already.
    """

    columns: tuple[str, ...] = ("arm", "propensity", "reward")

    def __init__(
        self,
        arms: int | Sequence[Any],
        arm: ArrayLike,
        propensity: ArrayLike,
        reward: ArrayLike,
        probabilities: ArrayLike | None = None,
        rewards: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.arms = tuple(range(arms)) if isinstance(arms, int) else tuple(arms)
        self.metadata: dict[str, Any] = {"rewards": list(rewards)}
        self._arm = np.asarray(arm, dtype=np.int32)
        self._propensity = np.asarray(propensity, dtype=np.float64)
        self._reward = np.asarray(reward, dtype=np.float64)
        self._probabilities = None
        self.first_row = 0
        self.rows = len(self._arm)
        if probabilities is not None:
            self._probabilities = np.asarray(probabilities, dtype=np.float64)
            self.columns = (*self.columns, "probabilities")
            if self._probabilities.shape != (self.rows, len(self.arms)):
                raise ValueError(
                    f"probabilities must be [{self.rows}, {len(self.arms)}], a row for each "
                    f"decision and a column for each arm, not {list(self._probabilities.shape)}"
                )
        if not self.rows == len(self._propensity) == len(self._reward):
            raise ValueError(
                f"{self.rows} arms, {len(self._propensity)} propensities and {len(self._reward)} "
                "rewards: a log has one of each for every decision"
            )

    def __len__(self) -> int:
        return self.rows

    def batches(
        self, size: int = 1 << 16, probabilities: bool = False, columns: Sequence[str] | None = None
    ) -> Iterator[_ArrayBatch]:
        """The rows in order, at most `size` at a time."""
        every = self._probabilities if probabilities else None
        for start in range(0, self.rows, size):
            part = slice(start, start + size)
            yield _ArrayBatch(
                self.first_row + start,
                self._arm[part],
                self._propensity[part],
                None,
                self._reward[part],
                None if every is None else every[part],
            )

    def pieces(self, count: int, first: float = 1.0) -> list["ArrayLog"]:
        """Consecutive parts, `count` at most, the first so many times as long as the others."""
        return [self._part(start, stop) for start, stop in edges(self.rows, count, first)]

    def outcomes(self, size: int = 1 << 16) -> Iterator[tuple[Codes, Array]]:
        """Arms and rewards, at most `size` at a time."""
        for batch in self.batches(size):
            yield batch.arm, batch.reward

    def _part(self, start: int, stop: int) -> "ArrayLog":
        part = slice(start, stop)
        every = None if self._probabilities is None else self._probabilities[part]
        found = ArrayLog(
            self.arms, self._arm[part], self._propensity[part], self._reward[part], every
        )
        found.metadata, found.first_row = self.metadata, self.first_row + start
        return found
