"""Whole empirical laws: for the policies that look at more than the mean of an arm's rewards."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..compiled import Kernel, bind, kernel
from ..divergence import k_inf, k_inf_upper
from .checks import brief, whole
from .formula import adapt, shared
from .learning import PULLS, TOTAL
from .policy import Array, Policy


@kernel
def divergence_from(values, counts, best):
    """K_inf(F, best)."""
    return k_inf(values, counts, best)[0]


def level(*arguments: float) -> float:
    """Open: the level d_a of an upper confidence bound."""
    raise NotImplementedError


@kernel
def bound_at(values, counts, pulls, t, arms, p0, p1, p2, p3):
    """sup{μ: K_inf(F, μ) ≤ d_a}."""
    d = level(pulls, 0.0, 0.0, 0.0, 0.0, 0.0, t, arms, p0, p1, p2, p3, 0.0, 0.0, 0.0, 0.0)
    return k_inf_upper(values, counts, d)


class EmpiricalLaws(Policy):
    """Keeps every arm's rewards as (value, count) pairs, and fills a row of the statistics by them.

    The row is named ``divergence``, K_inf(F̂_a, μ̂_max), or ``bound``, sup{μ: K_inf(F̂_a, μ) ≤ d_a}
    with d_a by the policy's formula `level`.
    """

    ranges: tuple[str, ...] = ("bounded", "below")
    countable = False

    def _level(self) -> Kernel:
        return type(self).level  # type: ignore[attr-defined,no-any-return]

    def _start(self) -> None:
        self._laws: list[dict[float, int]] = [{} for _ in self.arms]
        self._arrays: list[tuple[Array, Array] | None] = [None] * len(self.arms)

    def _absorb(
        self, position: int, x: float, propensity: float, round: int, note: tuple[Any, ...]
    ) -> None:
        super()._absorb(position, x, propensity, round, note)
        self._laws[position][x] = self._laws[position].get(x, 0) + 1
        self._arrays[position] = None

    def _law(self, position: int) -> tuple[Array, Array]:
        arrays = self._arrays[position]
        if arrays is None:
            law = sorted(self._laws[position].items())
            arrays = np.array([x for x, _ in law]), np.array([float(n) for _, n in law])
            self._arrays[position] = arrays
        return arrays

    def _prepare(self, state: Array, positions: Sequence[int]) -> None:
        filled = {"bound", "divergence"}.intersection(self.rows)
        if not filled:
            return super()._prepare(state, positions)
        if np.any(state[PULLS] == 0.0):
            return None  # the first pulls need no statistics
        row = self._row_names().index(filled.pop())
        laws = [self._law(position) for position in positions]
        if "divergence" in self.rows:
            signature = "float64(float64[::1], float64[::1], float64)"
            measure = self._compiled("divergence", signature, lambda: divergence_from)
            best = (state[TOTAL] / state[PULLS]).max()
            state[row] = [measure(*law, best) for law in laws]
            return None
        signature = f"float64(float64[::1], float64[::1]{', float64' * 7})"
        bound = self._compiled("bound", signature, self._bound_kernel)
        t, arms, numbers = float(self.round), float(len(positions)), self._numbers[:4]
        state[row] = [
            bound(*law, n, t, arms, *numbers) for law, n in zip(laws, state[PULLS], strict=True)
        ]
        return None

    def _bound_kernel(self) -> Kernel:
        assert sum(len(spec.parts) for spec in self._declared.values()) <= 4
        return bind(bound_at, level=self._adapted_level())

    def _adapted_level(self) -> Kernel:
        """The formula `level`, as the rules call it."""
        words = {"pulls": self._words()["pulls"], **shared(self._words())}
        return adapt(self._level(), words)  # type: ignore[no-any-return]

    def _added(self, position: int) -> None:
        self._laws.append({})
        self._arrays.append(None)

    def _removed(self, position: int) -> None:
        del self._laws[position], self._arrays[position]

    def _extra_state(self) -> dict[str, Any]:
        return {"laws": [[list(pair) for pair in sorted(law.items())] for law in self._laws]}

    def _restore_extra(self, stored: Mapping[str, Any]) -> None:
        self._laws = [_checked_law(law) for law in stored["laws"]]
        if len(self._laws) != len(self.arms):
            raise ValueError("there must be one law for each arm")
        low = 0.0 if math.isfinite(self.rewards[0]) else -math.inf
        for law, n, total in zip(self._laws, *self._state[:2], strict=True):
            if sum(law.values()) != n:
                raise ValueError("the counts of a law must add up to its pulls")
            if not all(low <= x <= 1.0 and math.isfinite(x) for x in law):
                raise ValueError("a law holds a value outside the range of rewards")
            if abs(sum(x * n for x, n in law.items()) - total) > 1e-9 * max(n, abs(total)):
                raise ValueError("a law does not belong to its total")


def _checked_law(pairs: Any) -> dict[float, int]:
    """The counts of an arm's rewards by their value, from a list of pairs."""
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and type(pair[0]) in (int, float)
        for pair in pairs
    ):
        raise ValueError(f"a law is a list of pairs [value, count], not {brief(pairs)}")
    return {float(x): whole("the count of a value", n) for x, n in pairs}
