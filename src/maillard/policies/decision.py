"""What a policy hands out: a choice together with the probability it was made with."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Decision(NamedTuple):
    """One choice: log all of it, and give it back to `update` with the reward, now or next week."""

    #: The label of the arm that was chosen.
    arm: Any
    #: The exact probability with which it was chosen.
    propensity: float
    #: Its logarithm, right where the propensity itself would underflow.
    log_propensity: float
    #: The round t at which the policy decided: 1 + the number of rewards it had seen.
    round: int
    #: What some policies need of the time of the decision to learn from its reward.
    note: tuple[Any, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary, for JSON and logs."""
        return {**self._asdict(), "note": list(self.note)}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Decision":
        """The decision that `to_dict` wrote."""
        try:
            return cls(**{**stored, "note": tuple(stored.get("note", ()))})
        except TypeError as error:
            raise ValueError(f"this is no decision: {error}") from None


class Decisions(Sequence[Decision]):
    """Many choices drawn from one distribution; a sequence of Decision, and arrays by column."""

    def __init__(
        self,
        labels: Sequence[Hashable],
        index: NDArray[np.int64],
        p: NDArray[np.float64],
        log_p: NDArray[np.float64],
        round: int,
        note: tuple[Any, ...],
    ) -> None:
        self._labels = tuple(labels)
        self._index = index
        self.propensity = p[index]
        self.log_propensity = log_p[index]
        self.round = round
        self.note = note

    @property
    def arm(self) -> list[Any]:
        """The chosen labels, in order."""
        return [self._labels[i] for i in self._index]

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        return Decision(
            self._labels[self._index[i]],
            float(self.propensity[i]),
            float(self.log_propensity[i]),
            self.round,
            self.note,
        )

    def __iter__(self) -> Iterator[Decision]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Decisions({len(self)} at round {self.round})"
