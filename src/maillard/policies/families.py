"""Policies by the rule that turns their formula into a distribution: derive from one of these."""

import functools
from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

import numpy as np

from ..compiled import Kernel, bind, build
from . import learning, rules
from .formula import adapt, shared
from .policy import Array, Policy
from .quadrature import SIGNATURE as ARGMAX_SIGNATURE
from .quadrature import argmax_probabilities


class Weighted(Policy):
    """p_a ∝ exp(log_weight_a). Define `log_weight`; `estimate` too if it is not the sample mean."""

    exactness = "closed form"

    def _log_weight(self) -> Kernel:
        """The formula; a policy with several picks one by its parameters here."""
        return type(self).log_weight  # type: ignore[attr-defined,no-any-return]

    def _rule(self) -> Kernel:
        return self._bound(rules.weighted, log_weights=self._log_weight())  # type: ignore[no-any-return]


class Indexed(Policy):
    """The arm with the largest index, ties shared uniformly. Define `index`."""

    exactness = "closed form: uniform on the arms with the largest index"

    def _index(self) -> Kernel:
        """The formula; a policy with several picks one by its parameters here."""
        return type(self).index  # type: ignore[attr-defined,no-any-return]

    def _rule(self) -> Kernel:
        return self._bound(rules.maximised, indices=self._index())  # type: ignore[no-any-return]

    def indices(self) -> Array:
        """Each arm's index now; a ValueError while arms wait for their first pull."""
        waiting = self._state[0] == 0.0
        if self.forced and waiting.any():
            raise ValueError("indices are defined once every arm has been pulled")
        self._choose_now(0.0)
        return np.array(self._work[rules.SCRATCH + rules.INDICES])


class Perturbed(Policy):
    """The arm whose random draw is the largest. Define `family` and the formula `law`.

    `law` returns three numbers, the parameters of the law that an arm's draw comes from (what they
    are for each family stands in `quadrature`).
    """

    exactness = "quadrature of log-concave integrands, to 1e-12 relatively"
    rows = ("chance",)
    derived = ("chance",)

    family: ClassVar[int]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.rows[:1] != ("chance",):
            raise TypeError(f"{cls.__name__}: the rows of a Perturbed policy begin with 'chance'")

    def _rule(self) -> Kernel:
        return rules.perturbed

    def _draw_laws(self, state: Array) -> Array:
        """The parameters of every arm's law."""
        signature = "void(float64[:, ::1], float64, float64[::1], float64[:, ::1])"
        fill = self._compiled("laws", signature, self._laws_kernel)
        laws = np.empty((3, state.shape[1]))
        fill(state, self._seen + 1.0, self._numbers, laws)
        return laws

    def _law_formula(self) -> Kernel:
        """The formula `law`, as the rules call it."""
        # The draws are independent: the law of one arm knows nothing of how the others stand.
        words = {
            word: meaning
            for word, meaning in self._words().items()
            if word not in ("best", "chance")
        }
        return adapt(type(self).law, words)  # type: ignore[attr-defined,no-any-return]

    def _laws_kernel(self) -> Kernel:
        law = self._law_formula()
        return bind(rules.draw_laws, law=law, **self._row_numbers())

    def _prepare(self, state: Array, positions: Sequence[int]) -> None:
        """P(arm a's draw is the largest) into its row."""
        if self.forced and np.any(state[0] == 0.0):
            return
        chance = np.empty(state.shape[1])
        total = quadrature()(self.family, self._draw_laws(state), -1, chance)
        # The error is about 1e-14 an arm; a sum far from 1 would mean that the quadrature failed.
        if not abs(total - 1.0) <= 1e-12 * max(100, chance.size):
            raise ArithmeticError(f"{self.slug}: the chances of the largest draw sum to {total}")
        state[rules.CHANCE] = chance

    def log_probabilities(self, eligible: Iterable[Hashable] | None = None) -> Array:
        """Logarithms of the probabilities: finite where the probability itself underflows.

        An arm whose probability is below 1e-250 or so is integrated once more, on its own.
        """
        positions, p, log_p = self._restricted(self.arms if eligible is None else eligible)
        vector = np.full(len(self.arms), -np.inf)
        vector[positions] = log_p
        state = np.ascontiguousarray(self._state[:, positions])
        if not (self.forced and np.any(state[0] == 0.0)):
            for i in np.flatnonzero(log_p == -np.inf):
                vector[positions[int(i)]] = self._log_tail(state, p, int(i))
        return vector

    def _log_tail(self, state: Array, p: Array, arm: int) -> float:
        """The logarithm of one arm's probability, however small."""
        return self._log_chance(state, arm)

    def _log_chance(self, state: Array, arm: int) -> float:
        """ln P(the arm's draw is the largest)."""
        return float(
            quadrature()(self.family, self._draw_laws(state), arm, np.empty(state.shape[1]))
        )


@functools.cache
def quadrature() -> Kernel:
    """The compiled integral: P(arm a's draw is the largest) for every arm, or ln P of one."""
    return build(argmax_probabilities, ARGMAX_SIGNATURE)


class LossWeighted(Weighted):
    """p_a ∝ exp(−η · estimated loss_a): the adversarial policies. Define `loss_estimate` too."""

    rows = ("loss",)
    forced = False
    needs_propensity = True
    countable = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.rows[:1] != ("loss",):
            raise TypeError(f"{cls.__name__}: the rows of a LossWeighted policy begin with 'loss'")

    def _learn(self) -> Kernel:
        given = ("reward", "propensity")
        adapted = adapt(self._loss_estimate(), shared(self._words()), given)
        return bind(learning.count_loss, loss_estimate=adapted)

    def _loss_estimate(self) -> Kernel:
        return type(self).loss_estimate  # type: ignore[attr-defined,no-any-return]

    def _added(self, position: int) -> None:
        self._state[learning.LOSS, position] = self._state[learning.LOSS, :position].min()
