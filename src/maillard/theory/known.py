"""Which bounds are known of which policy: a table from names to functions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from . import lower, maillard_sampling, published
from .instances import checked_horizons, checked_means, gaps_of, trivial


@dataclass(frozen=True)
class Bound:
    """One bound of one policy: its name, where it is from, and how to evaluate it."""

    name: str
    source: str
    #: (means, horizon) → regret.
    evaluate: Callable[[Any, Any], Any]
    #: Whether it holds on every instance with as many arms (and perhaps the same best mean).
    worst_case: bool = False
    #: Printed with constants that its proof does not give, or gives better: never the best.
    shown_only: bool = False
    #: Whether `evaluate` takes Theorem 1's delta= and c=.
    free: bool = False


@dataclass(frozen=True)
class Theory:
    """What is known of one policy's regret."""

    slug: str
    bounds: tuple[Bound, ...]
    #: means → the known limsup of regret over ln T, NaN where none is known.
    slope: Callable[[Any], Any]
    #: Parameters with which the policy has to be made for the bounds to hold.
    parameters: dict[str, Any] = field(default_factory=dict)
    #: Whether the policy is tuned to the horizon: its bound then is not one for earlier rounds.
    tuned: bool = False
    #: Whether every arm is pulled once before anything else.
    forced: bool = True

    def made(self, horizon: int) -> tuple[str, dict[str, Any]]:
        """The policy that the bounds are about, as a simulation of so many rounds takes it."""
        # Some that may know their horizon are another policy, with other bounds, when they do not.
        return self.slug, self.parameters | ({"horizon": horizon} if self.tuned else {})

    def trivial(self, means: Any, horizon: Any) -> Any:
        """What the policy cannot exceed whatever it does."""
        if self.forced:
            return trivial(means, horizon)
        return float(gaps_of(checked_means(means)).max()) * checked_horizons(horizon).rounds[()]


_PAPER = "Qin, Jun and Zhang 2023"


def _best(means: Any) -> Any:
    return checked_means(means).max(axis=-1)


def _arms(means: Any) -> int:
    return int(checked_means(means).shape[-1])


def _unknown(means: Any) -> float:
    return math.nan


def _ucb_v_slope(means: Any) -> Any:
    row = checked_means(means)
    gaps = row.max(axis=-1, keepdims=True) - row
    with np.errstate(all="ignore"):
        terms = np.where(gaps > 0.0, row * (1.0 - row) / gaps + 2.0, 0.0)
    return 8.0 * 1.2 * terms.sum(axis=-1)


def _two_arms(means: Any, horizon: Any) -> Any:
    """Thompson's bound where there is one."""
    if _arms(means) == 2:
        return published.thompson(means, horizon)
    return np.full(checked_horizons(horizon).log.shape, math.inf)[()]


THEORIES: Final = {
    theory.slug: theory
    for theory in (
        Theory(
            "kl-ms",
            (
                Bound(
                    "theorem_1",
                    f"{_PAPER}, Theorem 1, repaired",
                    maillard_sampling.theorem_1,
                    free=True,
                ),
                Bound(
                    "theorem_1_printed",
                    f"{_PAPER}, Theorem 1",
                    partial(maillard_sampling.theorem_1, form="printed"),
                    shown_only=True,
                    free=True,
                ),
                Bound(
                    "theorem_1_appendix",
                    f"{_PAPER}, Theorem 1 as proven",
                    partial(maillard_sampling.theorem_1, form="appendix"),
                    shown_only=True,
                    free=True,
                ),
                Bound(
                    "arm_pull_lemma", f"{_PAPER}, arm-pull lemma", maillard_sampling.arm_pull_lemma
                ),
                Bound(
                    "arm_pull_lemma_sharp",
                    f"{_PAPER}, arm-pull lemma without rounding up",
                    partial(maillard_sampling.arm_pull_lemma, form="sharp"),
                ),
                Bound("sub_ucb", f"{_PAPER}, Theorem 2 with a constant", maillard_sampling.sub_ucb),
                Bound(
                    "worst_case",
                    f"{_PAPER}, Theorem 3 with a constant",
                    lambda m, t: maillard_sampling.worst_case(_best(m), _arms(m), t),
                    worst_case=True,
                ),
            ),
            lower.lai_robbins,
        ),
        Theory(
            "ms",
            (
                Bound("arm_pull_lemma_sharp", "as KL-MS, for σ = 1/2", maillard_sampling.ms),
                Bound(
                    "worst_case",
                    f"{_PAPER}, Appendix on MS, with a constant",
                    lambda m, t: maillard_sampling.ms_worst_case(_arms(m), t),
                    worst_case=True,
                ),
            ),
            maillard_sampling.ms_slope,
        ),
        Theory(
            "thompson",
            (Bound("two_arms", "Agrawal and Goyal 2012, proof of Theorem 1", _two_arms),),
            lower.lai_robbins,
            forced=False,
        ),
        Theory(
            "kl-ucb",
            (
                Bound(
                    "arm_pull_lemma", f"{_PAPER}, Appendix on KL-UCB, repaired", published.kl_ucb
                ),
                Bound(
                    "arm_pull_lemma_printed",
                    f"{_PAPER}, Appendix on KL-UCB",
                    partial(published.kl_ucb, form="printed"),
                    shown_only=True,
                ),
                Bound(
                    "worst_case",
                    f"{_PAPER}, Appendix on KL-UCB, with a constant",
                    lambda m, t: published.kl_ucb_worst_case(_best(m), _arms(m), t),
                    worst_case=True,
                ),
            ),
            lower.lai_robbins,
        ),
        Theory(
            "kl-ucb++",
            (
                Bound(
                    "arm_pull_lemma", f"{_PAPER}, Appendix on KL-UCB++", published.kl_ucb_plus_plus
                ),
                Bound(
                    "worst_case",
                    "Ménard and Garivier 2017",
                    lambda m, t: published.kl_ucb_plus_plus_worst_case(_arms(m), t),
                    worst_case=True,
                ),
            ),
            lower.lai_robbins,
            tuned=True,
        ),
        Theory(
            "kl-ucb-switch",
            (
                Bound(
                    "worst_case",
                    "Garivier, Hadiji, Ménard and Stoltz 2022, Theorem 1",
                    lambda m, t: published.kl_ucb_switch_worst_case(_arms(m), t),
                    worst_case=True,
                ),
            ),
            lower.lai_robbins,
            tuned=True,
        ),
        Theory(
            "moss",
            (
                Bound(
                    "worst_case",
                    "Lattimore and Szepesvári 2020, Theorem 9.1",
                    published.moss,
                    worst_case=True,
                ),
            ),
            _unknown,
            tuned=True,
        ),
        Theory(
            "ucb-v",
            (
                Bound(
                    "arm_pull_lemma",
                    "Audibert, Munos and Szepesvári 2009, Theorem 3",
                    published.ucb_v,
                ),
                Bound(
                    "published",
                    "Audibert, Munos and Szepesvári 2009, Theorem 4",
                    published.ucb_v_published,
                ),
                Bound(
                    "worst_case",
                    f"{_PAPER}, Appendix on UCB-V, with a constant",
                    lambda m, t: published.ucb_v_worst_case(_best(m), _arms(m), t),
                    worst_case=True,
                ),
            ),
            _ucb_v_slope,
            {"zeta": 1.2, "c": 1.0},
        ),
        Theory(
            "ucb1",
            (
                Bound("theorem_1", "Auer, Cesa-Bianchi and Fischer 2002", published.ucb1),
                Bound(
                    "worst_case",
                    "the same, gaps split",
                    lambda m, t: published.ucb1_worst_case(_arms(m), t),
                    worst_case=True,
                ),
            ),
            lambda m: 16.0 * maillard_sampling.ms_slope(m),
        ),
    )
}
