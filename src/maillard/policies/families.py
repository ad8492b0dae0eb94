"""Policies by the rule that turns their formula into a distribution: derive from one of these."""

import numpy as np

from ..compiled import Kernel, bind
from . import learning, rules
from .formula import adapt
from .policy import Array, Policy


class Weighted(Policy):
    """p_a ∝ exp(log_weight_a). Define `log_weight`; `estimate` too if it is not the sample mean."""

    exactness = "closed form"

    def _log_weight(self) -> Kernel:
        """The formula; a policy with several picks one by its parameters here."""
        return type(self).log_weight  # type: ignore[attr-defined,no-any-return]

    def _rule(self) -> Kernel:
        return self._bound(rules.weighted, log_weight=self._log_weight())  # type: ignore[no-any-return]


class Indexed(Policy):
    """The arm with the largest index, ties shared uniformly. Define `index`."""

    exactness = "closed form: uniform on the arms with the largest index"

    def _index(self) -> Kernel:
        """The formula; a policy with several picks one by its parameters here."""
        return type(self).index  # type: ignore[attr-defined,no-any-return]

    def _rule(self) -> Kernel:
        return self._bound(rules.maximised, index=self._index())  # type: ignore[no-any-return]

    def indices(self) -> Array:
        """Each arm's index now; +∞ for all arms not pulled yet, where each is pulled once first."""
        waiting = self._state[0] == 0.0
        if self.forced and waiting.any():
            raise ValueError("indices are defined once every arm has been pulled")
        self._choose_now(0.0)
        return np.array(self._work[rules.SCRATCH + 1])


class LossWeighted(Weighted):
    """p_a ∝ exp(−η · estimated loss_a): the adversarial policies. Define `loss_estimate` too."""

    rows = ("loss",)
    forced = False
    needs_propensity = True
    countable = False

    def _learn(self) -> Kernel:
        given = ("reward", "propensity")
        adapted = adapt(self._loss_estimate(), self._words(), given)
        return bind(learning.count_loss, loss_estimate=adapted)

    def _loss_estimate(self) -> Kernel:
        return type(self).loss_estimate  # type: ignore[attr-defined,no-any-return]

    def _added(self, position: int) -> None:
        self._state[learning.LOSS, position] = self._state[learning.LOSS, :position].min()
