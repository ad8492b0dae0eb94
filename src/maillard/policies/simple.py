"""Yardsticks: uniform, a fixed distribution, ε-greedy."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..compiled import Kernel
from ..numeric import log
from .families import Indexed, Weighted
from .parameters import Parameter
from .policy import ANY_RANGE


class Uniform(Weighted):
    """Every arm with the same probability, whatever happens: the log that evaluates best."""

    slug = "uniform"
    title = "Uniform"
    formula = "p_a = 1/K"
    reference = "the design of a classical randomised experiment"
    setting = "any rewards"
    ranges = ANY_RANGE
    forced = False

    @staticmethod
    def log_weight(pulls):
        return 0.0


class Fixed(Weighted):
    """A distribution that never changes, given by its weights in the order of `arms`.

    Among eligible arms, and after an arm has been retired, the others keep their proportions. An
    arm cannot be added: nothing says what its probability should be.
    """

    slug = "fixed"
    title = "Fixed distribution"
    formula = "p_a = w_a / Σ_b w_b"
    reference = "the design of a randomised experiment with unequal arms"
    setting = "any rewards"
    ranges = ANY_RANGE
    rows = ("weight",)
    forced = False

    weights = Parameter(help="one weight for each arm, in order", low=0.0, vector=True)

    @staticmethod
    def log_weight(weight):
        return log(weight)

    def _start(self) -> None:
        if len(self.weights) != len(self.arms):
            raise ValueError(f"fixed: {len(self.weights)} weights for {len(self.arms)} arms")
        if not sum(self.weights) > 0.0:
            raise ValueError("fixed: one weight at least must be positive")
        self._state[2] = self.weights

    def _restore_extra(self, stored: Mapping[str, Any]) -> None:
        if tuple(self._state[2].tolist()) != self.weights:
            raise ValueError("the statistic weight must repeat the weights")

    def _no_distribution(self) -> Exception:
        return ValueError("fixed: none of these arms has a positive weight")

    def _check_retirable(self, position: int) -> None:
        if not np.delete(self._state[2], position).any():
            raise ValueError("fixed: no arm with a positive weight would be left")

    def _check_addable(self) -> None:
        raise ValueError("fixed: a new arm would have no probability; make a new policy")

    def _removed(self, position: int) -> None:
        self.parameters["weights"] = tuple(self._state[2].tolist())


def _constant(epsilon):
    return epsilon


def _decaying(t, arms, c, d):
    return min(1.0, c * arms / (d * d * t))


class EpsilonGreedy(Indexed):
    """The best mean with probability 1 − ε, any arm with probability ε; ties are shared.

    With `c` and `d` the share decays as min(1, cK/(d² t)) instead: logarithmic regret if d is a
    lower bound on the gaps. Each arm is pulled once first, unlike in Figure 3 of the reference.
    """

    slug = "epsilon-greedy"
    title = "ε-greedy"
    formula = "p_a = ε/K + (1−ε) 1{a ∈ argmax μ̂}/|argmax μ̂|"
    reference = "Auer, Cesa-Bianchi, Fischer (2002), Figure 3"
    setting = "any rewards"
    exactness = "closed form"
    ranges = ANY_RANGE

    epsilon = Parameter(0.1, "the share of uniform exploration", low=0.0, high=1.0)
    c = Parameter(None, "makes the share decay as cK/(d² t)", low=0.0, open=True, optional=True)
    d = Parameter(None, "a lower bound on the gaps", low=0.0, open=True, optional=True)

    @staticmethod
    def index(mean):
        return mean

    def _check(self) -> None:
        if (self.c is None) != (self.d is None):
            raise ValueError("epsilon-greedy: a decaying share needs both c and d")

    def _mixture(self) -> Kernel:
        return _constant if self.c is None else _decaying
