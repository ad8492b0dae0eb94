"""Can the logged probabilities be those that were drawn from? Tests that hold for any policy.

Given the past, an honest row has arm a with probability p_t(a), so that for weights h known before
the draw Σ_t h_t(a) (1{A_t = a} − p_t(a)) is a martingale. Its terms are neither alike nor
independent, and the inverse propensities of a learning policy, of the order of t, have no normal
limit to speak of. So no p-value here is asymptotic. Each is 1/E for an *e-value* E: a nonnegative
statistic whose expectation is at most 1 if the log is honest, whatever the policy; P(E ≥ 1/α) ≤ α
is Markov's inequality. An average of e-values is one again, which is how sides, scales and arms are
put together. The price is power: the p-values are conservative.

- Freedman's e-value (1975; Bennett's bound, one step at a time): for differences X_t ≤ c with
  conditional variance v_t, exp(λ ΣX_t − ψ(λc)/c² Σv_t) with ψ(x) = e^x − 1 − x.
- The bettor's: for W_t ≥ 0 of conditional mean at most 1, Π (1 + λ (W_t − 1)), 0 ≤ λ ≤ 1.
- The likelihood ratio: Π q_t(A_t)/p_t(A_t) for any distributions q_t known before the draw.

All are functions of sums, in any order of the rows, but for the last one: it compares each row
with the one before, and holds only if that was earlier.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: λ·c of Freedman's e-values: from what 10^12 fair coins need to what a single surprise does.
_SCALES: Final = np.exp2(np.arange(3.0, -21.0, -1.0))
#: Where weights are cut off: the conditional mean of a weight so cut is known exactly.
CUTS: Final = (2.0, 16.0, 256.0, 65536.0)
#: Shares that the bettor stakes.
_STAKES: Final = np.exp2(np.arange(-1.0, -13.0, -1.0))
#: Shares of the row before in the distributions that the likelihood ratio tries.
_SHARES: Final = np.array([0.03, 0.3, 0.9, 0.999])


def freedman(total: Any, variance: Any, up: Any, down: Any) -> Array:
    """log E against Σ X_t ≠ 0, for −down ≤ X_t ≤ up and the sum of conditional variances."""
    total, variance = np.asarray(total)[..., None], np.asarray(variance)[..., None]
    sides = []
    for sign, bound in ((1.0, up), (-1.0, down)):
        psi = np.expm1(_SCALES) - _SCALES
        sides.append((_SCALES * sign * total - psi * variance / bound) / bound)
    return _log_mean(np.concatenate(sides, axis=-1))


def _log_mean(logs: Array) -> Array:
    """log of the mean of exp over the last axis."""
    top = np.max(logs, axis=-1, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        found = np.log(np.mean(np.exp(logs - safe), axis=-1)) + safe[..., 0]
    return np.asarray(found)


def p_value(log_e: Any) -> float:
    """1/E, and never more than 1."""
    return float(math.exp(-max(float(log_e), 0.0)))


@dataclass
class Evidence:
    """The sums of some consecutive rows that the e-values are made of."""

    arms: int
    rows: int = 0
    #: Rows with the probability of every arm.
    complete: int = 0
    #: The largest w = 1/(K p), a weight for the uniform target; Σ w and Σ w² in terms of it, as
    #: squares of weights can be beyond all numbers.
    largest: float = 0.0
    relative: float = 0.0
    squares: float = 0.0
    #: Rows in which some arm had probability zero.
    zeros: int = 0
    #: Σ 1{A_t = a}, Σ p_t(a) and Σ p_t(a)(1 − p_t(a)), by arm.
    pulls: Array = field(default_factory=lambda: np.zeros(0))
    expected: Array = field(default_factory=lambda: np.zeros(0))
    spread: Array = field(default_factory=lambda: np.zeros(0))
    #: Σ E[w_t | past], which is the rows' number less the zeros' shares.
    mean_weights: float = 0.0
    #: By cut: Σ (min(w, c) − its conditional mean), and Σ of the conditional variances.
    excess: Array = field(default_factory=lambda: np.zeros(len(CUTS)))
    variance: Array = field(default_factory=lambda: np.zeros(len(CUTS)))
    #: By stake: log of the bettor's wealth.
    wealth: Array = field(default_factory=lambda: np.zeros(len(_STAKES)))
    #: By share: log of the likelihood ratio of the row before; and the row to go on from.
    ratio: Array = field(default_factory=lambda: np.zeros(len(_SHARES)))
    pairs: int = 0
    last: tuple[Array, int] | None = None

    def __post_init__(self) -> None:
        for name in ("pulls", "expected", "spread"):
            setattr(self, name, np.zeros(self.arms))

    def add(
        self,
        arm: NDArray[np.int32],
        propensity: Array,
        every: Array | None,
        run: NDArray[Any] | None = None,
    ) -> None:
        """Some more rows, those that follow."""
        weight = 1.0 / np.maximum(self.arms * propensity, 1e-300)  # subnormal ones overflow
        self.rows += len(arm)
        self._add_weights(weight)
        self.pulls += np.bincount(arm, minlength=self.arms)
        for i, stake in enumerate(_STAKES):
            self.wealth[i] += log_product(weight, stake)
        if every is None:
            every = of_two(arm, propensity) if self.arms == 2 else None
        if every is not None:
            self._add_complete(arm, weight, every, run)

    def _add_weights(self, weight: Array) -> None:
        largest = max(self.largest, float(weight.max()))
        scaled, shrunk = weight / largest, self.largest / largest
        self.relative = self.relative * shrunk + float(scaled.sum())
        self.squares = self.squares * shrunk**2 + float((scaled * scaled).sum())
        self.largest = largest

    def _add_complete(
        self, arm: NDArray[np.int32], weight: Array, every: Array, run: NDArray[Any] | None
    ) -> None:
        self.complete += len(arm)
        # An arm a row: sums over few arms are then sums of long rows, which is what is fast.
        p = np.ascontiguousarray(every.T)
        self.expected += p.sum(axis=1)
        self.spread += (p * (1.0 - p)).sum(axis=1)
        possible = p > 0.0
        self.zeros += int((~possible.all(axis=0)).sum())
        self.mean_weights += float(possible.sum()) / self.arms
        each = (1.0 / self.arms) / np.where(possible, np.maximum(p, 1e-300), np.inf)
        for i, cut in enumerate(CUTS):
            capped = np.minimum(each, cut)
            first = capped * p
            mean = first.sum(axis=0)
            second = (capped * first).sum(axis=0)
            self.excess[i] += float((np.minimum(weight, cut) - mean).sum())
            self.variance[i] += float(np.maximum(second - mean * mean, 0.0).sum())
        self._add_pairs(arm, every, run)

    def _add_pairs(self, arm: NDArray[np.int32], every: Array, run: NDArray[Any] | None) -> None:
        runs = np.zeros(len(arm), dtype=np.int64) if run is None else run
        before = every[:-1]
        if self.last is not None:
            before = np.concatenate([self.last[0][None], before])
            previous = np.concatenate([[self.last[1]], runs[:-1]])
        else:
            previous = runs[:-1]
        start = len(arm) - len(before)
        same = previous == runs[start:]
        rows = np.arange(len(before))
        own = np.maximum(every[start + rows, arm[start:]], 1e-300)
        quotient = (before[rows, arm[start:]] / own)[same]
        self.pairs += len(quotient)
        for i, share in enumerate(_SHARES):
            self.ratio[i] += log_product(quotient, share)
        self.last = every[-1].copy(), int(runs[-1])

    # ------------------------------------------------------------------------------------ verdicts

    @property
    def effective(self) -> float:
        """The effective sample size for the uniform target, (Σw)²/Σw²."""
        return self.relative**2 / self.squares if self.squares else 0.0

    @property
    def mean_weight(self) -> float:
        """Σw/n."""
        return self.largest * (self.relative / self.rows)

    def weight_evidence(self) -> float:
        """log E against the mean weight being what the probabilities say."""
        found = [_log_mean(self.wealth)]
        if self.complete == self.rows:
            cuts = np.array(CUTS)
            found.append(_log_mean(freedman(self.excess, self.variance, cuts[:, None], 1.0)))
        return float(_log_mean(np.array(found)))

    def count_evidence(self) -> Array:
        """log E against each arm's count being what its probabilities say."""
        return freedman(self.pulls - self.expected, self.spread, 1.0, 1.0)

    def shift_evidence(self) -> float:
        """log E against the rows' own probabilities and for those of the row before."""
        return float(_log_mean(self.ratio))


def log_product(values: Array, stake: float) -> float:
    """log Π (1 + stake (value − 1)): one logarithm for eight factors where they are ordinary."""
    factors = stake * (values - 1.0) + 1.0
    if factors.size < 8 or factors.max() > 1e30 or factors.min() < 1e-30:
        return float(np.log1p(stake * (values - 1.0)).sum())
    count = factors.size // 8
    total = float(np.log(factors[8 * count :]).sum())
    product = factors[: 4 * count] * factors[4 * count : 8 * count]
    product = product[: 2 * count] * product[2 * count :]
    return total + float(np.log(product[:count] * product[count:]).sum())


def of_two(arm: NDArray[np.int32], propensity: Array) -> Array:
    """The probabilities of both of two arms, from that of the one that was chosen."""
    every = np.empty((len(arm), 2))
    rows = np.arange(len(arm))
    every[rows, arm] = propensity
    every[rows, 1 - arm] = 1.0 - propensity
    return every
