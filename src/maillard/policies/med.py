"""Minimum empirical divergence: MED, DMED and IMED."""

import math
from typing import Any

import numpy as np

from ..compiled import Kernel, kernel
from ..divergence import kl
from ..numeric import INFINITY, log
from .empirical import EmpiricalLaws
from .families import Indexed, Weighted
from .learning import PULLS
from .parameters import Parameter
from .policy import Array


def _divergence() -> Parameter:
    return Parameter(
        "k-inf",
        "between laws (k-inf, for all bounded rewards) or between means (kl, for Bernoulli ones)",
        choices=("k-inf", "kl"),
    )


def _check_divergence(slug: str, divergence: str, rewards: tuple[float, float]) -> None:
    if divergence == "kl" and rewards[0] == -math.inf:
        raise ValueError(f"{slug}: divergence='kl' needs rewards in a bounded interval")


class MED(EmpiricalLaws, Weighted):
    """Minimum empirical divergence: asymptotically optimal for bounded rewards of any law.

    For Bernoulli rewards it is KL-MS.
    """

    slug = "med"
    title = "Minimum empirical divergence"
    formula = "p_a ∝ exp(−N_a K_inf(F̂_a, μ̂_max))"
    reference = "Honda and Takemura (2011)"
    setting = "rewards in [L, U] or (−∞, U]"
    exactness = "closed form up to a one-dimensional dual, solved to float64"
    rows = ("divergence",)
    derived = ("divergence",)

    @staticmethod
    def log_weight(pulls, divergence):
        return 0.0 if divergence == 0.0 else -pulls * divergence


def _by_laws(pulls, divergence):
    return -(pulls * divergence + log(pulls))


def _by_means(pulls, mean, best):
    return -(pulls * kl(mean, best) + log(pulls))


class IMED(EmpiricalLaws, Indexed):
    """Indexed minimum empirical divergence: deterministic, anytime, asymptotically optimal.

    `indices()` gives the negative of the paper's index, which is minimised.
    """

    slug = "imed"
    title = "Indexed minimum empirical divergence"
    formula = "argmin N_a K_inf(F̂_a, μ̂_max) + ln N_a; with divergence=kl, kl(μ̂_a, μ̂_max)"
    reference = "Honda and Takemura (2015)"
    setting = "rewards in [L, U] or (−∞, U]"
    rows = ("divergence",)
    derived = ("divergence",)

    divergence = _divergence()

    def _check(self) -> None:
        _check_divergence(self.slug, self.divergence, self.rewards)

    def _index(self) -> Kernel:
        return _by_laws if self.divergence == "k-inf" else _by_means


# DMED goes through lists of arms. Where an arm stands is a sum of these flags.
PLACE = 2
DIVERGENCE = 3
CURRENT, REMAINING, NEXT = 1, 2, 4


@kernel
def first_of_list(state, memory, t, parameters, work, log_p, p):
    """The first arm of the current list; uniform when none of these arms is on it."""
    chosen = -1
    for a in range(p.size):
        if (int(state[PLACE, a]) & CURRENT) & (1 if chosen < 0 else 0):
            chosen = a
    for a in range(p.size):
        hit = (a == chosen) | (chosen < 0)
        share = 1.0 if chosen >= 0 else 1.0 / p.size
        p[a] = share if hit else 0.0
        log_p[a] = log(share) if hit else -INFINITY


@kernel
def fill_kl(state):
    """kl(μ̂_a, μ̂_max) among the arms pulled so far."""
    best = -INFINITY
    for a in range(state.shape[1]):
        if state[PULLS, a] > 0.0:
            best = max(best, state[1, a] / state[PULLS, a])
    for a in range(state.shape[1]):
        if state[PULLS, a] > 0.0:
            state[DIVERGENCE, a] = kl(state[1, a] / state[PULLS, a], best)


@kernel
def review(state, arm, seen, genuine):
    """After a pull of `arm`: leave the lists, enter the next one, and turn the page at its end."""
    place = int(state[PLACE, arm])
    state[PLACE, arm] = float(place & NEXT)
    for a in range(state.shape[1]):
        if (int(state[PLACE, a]) & (REMAINING | NEXT)) | (state[PULLS, a] == 0.0):
            continue
        threshold = log(seen) - (log(state[PULLS, a]) if genuine else 0.0)
        if state[PULLS, a] * state[DIVERGENCE, a] <= threshold:
            state[PLACE, a] = float(int(state[PLACE, a]) | NEXT)
    for a in range(state.shape[1]):
        if int(state[PLACE, a]) & CURRENT:
            return
    for a in range(state.shape[1]):
        listed = int(state[PLACE, a]) & NEXT
        state[PLACE, a] = float(CURRENT | REMAINING) if listed else 0.0


class DMED(EmpiricalLaws):
    """Deterministic minimum empirical divergence: plays through lists of arms worth another pull.

    Arms on the current list are pulled in order; an arm enters the next list when
    N_a K_inf(F̂_a, μ̂_max) ≤ ln t − ln N_a (`genuine=False`: ≤ ln t, as Garivier and Cappé compare).
    Restricted to eligible arms none of which is on the list, the choice is uniform.
    """

    slug = "dmed"
    title = "Deterministic minimum empirical divergence"
    formula = "list of arms with N_a K_inf(F̂_a, μ̂_max) ≤ ln t − ln N_a"
    reference = "Honda and Takemura (2010)"
    setting = "rewards in [L, U] or (−∞, U]"
    exactness = "closed form: all on the arm whose turn it is"
    rows = ("place", "divergence")
    derived = ("divergence",)

    divergence = _divergence()
    genuine = Parameter(True, "whether the threshold is ln t − ln N_a, not ln t")

    def _check(self) -> None:
        _check_divergence(self.slug, self.divergence, self.rewards)

    def _start(self) -> None:
        super()._start()
        self._state[PLACE] = float(CURRENT | REMAINING)

    def _rule(self) -> Kernel:
        return first_of_list

    def _absorb(
        self, position: int, x: float, propensity: float, round: int, note: tuple[Any, ...]
    ) -> None:
        first = self._state[PULLS, position] == 0.0
        super()._absorb(position, x, propensity, round, note)
        if first:
            return  # the lists begin when every arm has been pulled once, and hold all of them
        if self.divergence == "kl":
            self._compiled("kl", "void(float64[:, ::1])", lambda: fill_kl)(self._state)
        else:
            pulled = np.flatnonzero(self._state[PULLS])
            known = np.ascontiguousarray(self._state[:, pulled])
            super()._prepare(known, pulled.tolist())
            self._state[DIVERGENCE, pulled] = known[DIVERGENCE]
        signature = "void(float64[:, ::1], int64, float64, boolean)"
        turn = self._compiled("review", signature, lambda: review)
        turn(self._state, position, float(self._seen + 1), self.genuine)

    def _prepare(self, state: Array, positions: Any) -> None:
        """Nothing: the lists were brought up to date by the last reward."""
