"""Minimum empirical divergence: MED, DMED and IMED."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..compiled import Kernel, kernel, wide
from ..divergence import kl
from ..numeric import INFINITY, log
from .empirical import EmpiricalLaws
from .families import Indexed, Weighted
from .learning import PULLS, TOTAL
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
#: Where the number of rewards seen stands in the memory.
SEEN = 0


@kernel
def first_of_list(state, memory, t, parameters, work, weight):
    """The first arm of the current list; uniform when none of these arms is on it."""
    arms, lanes = weight.shape
    found = work[0, 0]
    for l in range(lanes):
        found[l] = 0.0
    for a in range(arms):
        for l in range(lanes):
            listed = int(state[PLACE, a, l]) & CURRENT
            weight[a, l] = float(listed) * (1.0 - found[l])
            found[l] = max(found[l], float(listed))
    for a in range(arms):
        for l in range(lanes):
            weight[a, l] = weight[a, l] if found[l] > 0.0 else 1.0


@kernel
def fill_kl(state):
    """kl(μ̂_a, μ̂_max) among the arms pulled so far."""
    wide()
    best = np.full(state.shape[2], -INFINITY)
    for a in range(state.shape[1]):
        for l in range(state.shape[2]):
            mean = state[TOTAL, a, l] / state[PULLS, a, l]
            best[l] = max(best[l], mean if state[PULLS, a, l] > 0.0 else -INFINITY)
    for a in range(state.shape[1]):
        for l in range(state.shape[2]):
            mean = state[TOTAL, a, l] / state[PULLS, a, l]
            state[DIVERGENCE, a, l] = kl(mean, best[l]) if state[PULLS, a, l] > 0.0 else 0.0


@kernel
def review(state, memory, arm, genuine, live):
    """After a pull of `arm`: leave the lists, enter the next one, and turn the page at its end."""
    wide()
    arms, lanes = state.shape[1], state.shape[2]
    threshold, listed = np.zeros(lanes), np.zeros(lanes)
    for l in range(lanes):
        if live[l] > 0.0:
            state[PLACE, arm[l], l] = float(int(state[PLACE, arm[l], l]) & NEXT)
        threshold[l] = log(memory[SEEN, l])
    for a in range(arms):
        for l in range(lanes):
            pulls, place = state[PULLS, a, l], int(state[PLACE, a, l])
            level = threshold[l] - (log(pulls) if genuine else 0.0)
            free = ((place & (REMAINING | NEXT)) == 0) & (pulls > 0.0) & (live[l] > 0.0)
            enters = free & (pulls * state[DIVERGENCE, a, l] <= level)
            state[PLACE, a, l] = float(place + (NEXT if enters else 0))
            listed[l] = max(listed[l], float(place & CURRENT))
    for a in range(arms):
        for l in range(lanes):
            place = int(state[PLACE, a, l])
            turned = float(CURRENT | REMAINING) if place & NEXT else 0.0
            state[PLACE, a, l] = float(place) if listed[l] > 0.0 else turned


@kernel
def count_and_review(state, memory, arm, reward, propensity, t, parameters, live):
    """N_a, S_a, and the lists by kl: they begin when every arm has been pulled once."""
    again = np.zeros(live.size)
    for l in range(live.size):
        pulls = state[PULLS, arm[l], l]
        again[l] = live[l] if pulls > 0.0 else 0.0
        memory[SEEN, l] += live[l]
        state[PULLS, arm[l], l] = pulls + live[l]
        state[TOTAL, arm[l], l] += reward[l]
    fill_kl(state)
    review(state, memory, arm, parameters[0] != 0.0, again)


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
    memory = 1

    divergence = _divergence()
    genuine = Parameter(True, "whether the threshold is ln t − ln N_a, not ln t")

    def _check(self) -> None:
        _check_divergence(self.slug, self.divergence, self.rewards)

    def _start(self) -> None:
        super()._start()
        self._state[PLACE] = float(CURRENT | REMAINING)

    def _block(self) -> Kernel:
        return first_of_list

    def _learn_block(self) -> Kernel | None:
        return count_and_review if self.divergence == "kl" else None

    def _absorb(
        self, position: int, x: float, propensity: float, round: int, note: tuple[Any, ...]
    ) -> None:
        first = self._state[PULLS, position] == 0.0
        super()._absorb(position, x, propensity, round, note)
        if self.divergence == "kl":
            return
        self._memory[SEEN] += 1.0
        if first:
            return
        pulled = np.flatnonzero(self._state[PULLS])
        known = np.ascontiguousarray(self._state[:, pulled])
        super()._prepare(known, pulled.tolist())
        self._state[DIVERGENCE, pulled] = known[DIVERGENCE]
        signature = "void(float64[:, :, ::1], float64[:, ::1], int64[::1], boolean, float64[::1])"
        turn = self._compiled("review", signature, lambda: review)
        arm = np.array([position])
        turn(self._state[:, :, None], self._memory[:, None], arm, self.genuine, np.ones(1))

    def _restore_extra(self, stored: Mapping[str, Any]) -> None:
        super()._restore_extra(stored)
        flags = set(range((CURRENT | REMAINING | NEXT) + 1))
        if not flags.issuperset(self._state[PLACE].tolist()):
            raise ValueError("place must hold sums of the flags 1, 2 and 4")
        if self._memory[SEEN] != self._seen:
            raise ValueError("memory must hold the number of rewards seen")

    def _prepare(self, state: Array, positions: Any) -> None:
        """Nothing: the lists were brought up to date by the last reward."""
