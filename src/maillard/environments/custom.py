"""A user's own law of rewards, written as a scalar formula and compiled like ours."""

import difflib
import functools
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..compiled import Kernel, bind, build, disabled, fingerprint, kernel, wide
from ..divergence import kl
from ..streams import LANES, WORDS, exponential, normal, uniform
from .checks import Array, column, interval, numbers
from .environment import PAY, Environment

#: What a formula may name besides its columns, each with the expression that stands for it.
FRESH: Final = {
    "u": "uniform(rng, lane)",
    "v": "uniform(rng, lane)",
    "z": "normal(rng, lane)",
    "e": "exponential(rng, lane)",
    "t": "t",
}
#: What is stated of the rewards; columns have other names.
STATED: Final = ("means", "rewards", "variances", "binary")
#: How often the checks may be wrong about a law that is as its user says.
FALSE_ALARM: Final = 1e-6


def formula(law: Any, a: int, t: float, rng: Any, lane: int) -> float:
    """Open: the user's formula, with this argument list in place of its own."""
    raise NotImplementedError


@kernel
def pay_custom(arm, law, t, rng, reward):
    """What the formula gives."""
    wide()
    for lane in range(LANES):
        reward[lane] = 1.0 * formula(law, arm[lane], t, rng, lane)  # also of True and False


@functools.cache
def _pay(own: Kernel, names: tuple[str, ...]) -> Kernel:
    """The kernel that pays by a formula; row i of the law is its i-th column."""
    rows = iter(range(len(names)))
    words = [FRESH.get(name) or f"law[{next(rows)}, a]" for name in names]
    scope: dict[str, Any] = {
        "own": kernel(own),
        "uniform": uniform,
        "normal": normal,
        "exponential": exponential,
    }
    exec(f"def formula(law, a, t, rng, lane): return own({', '.join(words)})", scope)
    return bind(pay_custom, formula=kernel(scope["formula"]))


class Custom(Environment):
    """Rewards by a scalar formula of yours, compiled like ours.

    The formula's argument names say what it needs: columns of yours, one number for each arm; `u`
    and `v`, uniforms in [0, 1); `z`, a standard normal; `e`, a standard exponential; `t`, the
    round. Each reward draws them afresh::

        mb.Custom(lambda p, u: 1.0 if u < p else 0.0, means=[0.8, 0.9], p=[0.8, 0.9])

    Inside use `log`, `exp`, … of `maillard.numeric`, which vectorise, or `math`. The formula names
    no variables around it: what it needs are columns. It may be a `def` or a lambda; a `def` of a
    module can be pickled, a lambda needs cloudpickle. `binary` says that every reward is L or U.

    You state the means, in every round the same, and the variances if they are known (else they are
    NaN). Some draws of each arm are checked at once: that they lie in `rewards`, and that their
    average agrees with the mean (on a bounded range by P(kl(average, μ) ≥ x) ≤ 2 exp(−nx), Chernoff
    and Hoeffding; with given variances on others by the median of means). A law that is as stated
    is refused once in a million times.
    """

    slug = "custom"
    title = "Custom"
    formula = "a formula of yours"

    def __init__(
        self,
        function: Callable[..., float],
        /,
        means: Sequence[float],
        rewards: tuple[float, float] = (0.0, 1.0),
        variances: Sequence[float] | None = None,
        binary: bool = False,
        **given: float | Sequence[float],
    ) -> None:
        ends = _ends(rewards)
        mean = numbers(self.slug, "means", means, *ends)
        arms = len(mean)
        names = _arguments(function, given)
        rows = [
            column(self.slug, name, given[name], -math.inf, math.inf, arms) for name in _own(names)
        ]
        bounded = math.isfinite(ends[1] - ends[0])
        if binary and not bounded:
            raise ValueError(f"{self.slug}: binary rewards need rewards=(L, U) with finite ends")
        most = (ends[1] - mean) * (mean - ends[0]) if bounded else np.full(arms, math.inf)
        if binary and variances is None:
            variance = most
        else:
            variance = _variances(variances, most)
        parameters = {
            "means": mean.tolist(),
            "rewards": [_finite(end) for end in ends],
            "variances": None if variances is None else variance.tolist(),
            "binary": bool(binary),
            **{name: row.tolist() for name, row in zip(_own(names), rows)},
        }
        law = np.array(rows).reshape(len(rows), arms)
        super().__init__(parameters, law, mean, variance, ends, binary=bool(binary))
        self.function, self._names = function, names
        self._check()

    @property
    def pay_kernel(self) -> Kernel:
        return _pay(self.function, self._names)

    def spec(self) -> dict[str, Any]:
        """A description; `environment_from` cannot make the formula from it."""
        name = getattr(self.function, "__qualname__", "formula")
        stated = {key: self.parameters[key] for key in STATED}
        return {
            "environment": self.slug,
            "formula": name,
            "fingerprint": fingerprint(self.pay_kernel),
            **stated,
            "columns": {k: v for k, v in self.parameters.items() if k not in stated},
        }

    def identity(self) -> dict[str, Any]:
        return self.spec()

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", "formula")
        return super().__repr__().replace("Custom(", f"Custom({name}, ", 1)

    def _distance(self, arm: int, mean: float) -> float:
        """K_inf where rewards are L or U; of other formulas nobody knows it."""
        if not self.binary:
            return math.nan
        low, high = self.rewards
        own = (float(self.means[arm]) - low) / (high - low)
        return float(kl(own, (mean - low) / (high - low)))

    def asymptotic_constant(self) -> float:
        """C for `binary` rewards, else NaN: see `Environment.asymptotic_constant`."""
        return super().asymptotic_constant() if self.binary else math.nan

    def _check(self) -> None:
        """Draws of every arm: in range, and with the stated mean."""
        try:
            draws = _draws(self.pay_kernel, self.law, self.arms)
        except Exception as error:
            raise ValueError(f"{self.slug}: the formula cannot be used: {_line(error)}") from error
        low, high = self.rewards
        for arm, values in enumerate(draws):
            wrong = ~((values >= low) & (values <= high) & np.isfinite(values))
            if self.binary:
                wrong |= (values != low) & (values != high)
            if wrong.any():
                value = float(values[np.argmax(wrong)])
                allowed = f"{low:g} or {high:g}" if self.binary else f"in [{low:g}, {high:g}]"
                raise ValueError(f"{self.slug}: arm {arm} paid {value!r}, which is not {allowed}")
            average, agrees = _agrees(
                values, float(self.means[arm]), float(self.variances[arm]), low, high, self.arms
            )
            if not agrees:
                raise ValueError(
                    f"{self.slug}: arm {arm} pays {average:.6g} on average over {len(values):,} "
                    f"draws, but its stated mean is {float(self.means[arm])!r}"
                )


def _line(error: Exception) -> str:
    """What an error says, without the stages of the compiler that the first line may name."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Failed in", "There are"))]
    return textwrap.shorten(" ".join(told[:2]), 240, placeholder=" …") or type(error).__name__


def _draws(pay_kernel: Kernel, law: Array, arms: int) -> Array:
    """Rewards of every arm, [arm, draw], at rounds 1, 2, 4, … 32,768 and again."""
    blocks = 8 if disabled() else min(max(4096 // arms, 8), 256)
    rng = np.random.default_rng(0).integers(1, 2**64, WORDS, dtype=np.uint64)
    pay = build(pay_kernel, PAY)
    out = np.empty((arms, blocks, LANES))
    for arm in range(arms):
        lanes = np.full(LANES, arm, dtype=np.uint64)
        for block in range(blocks):
            pay(lanes, law, 2.0 ** (block % 16), rng, out[arm, block])
    return out.reshape(arms, -1)


def _agrees(
    values: Array, mean: float, variance: float, low: float, high: float, arms: int
) -> tuple[float, bool]:
    """The average and whether it may be that of draws with this mean."""
    n = len(values)
    if math.isfinite(high - low):
        average = min(max(math.fsum(values.tolist()) / n, low), high)
        scaled = (average - low) / (high - low), (mean - low) / (high - low)
        return average, bool(n * float(kl(*scaled)) <= math.log(2.0 * arms / FALSE_ALARM))
    if not math.isfinite(variance):
        return float(values.mean()), True  # nothing can be said of unknown tails
    # P(|median of k groups' means − μ| > 2 sd √(k/n)) ≤ e^−k/8: by Chebyshev's inequality each
    # group is that far off with probability ¼ at most, and half of them must be.
    groups = math.ceil(8.0 * math.log(arms / FALSE_ALARM))
    size = n // groups
    means = values[: groups * size].reshape(groups, size).mean(axis=1)
    middle = float(np.median(means))
    slack = 1e-12 * float(np.abs(values).max())
    return middle, abs(middle - mean) <= 2.0 * math.sqrt(variance / size) + slack


def _arguments(function: Any, given: dict[str, Any]) -> tuple[str, ...]:
    """The names of the formula's arguments, each a column or fresh."""
    if not callable(function):
        raise ValueError(f"custom: the formula must be a function, not {function!r}")
    clash = [name for name in given if name in FRESH]
    if clash:
        raise ValueError(f"custom: {clash[0]!r} is drawn afresh and cannot name a column")
    try:
        arguments = inspect.signature(function).parameters
        kernel(function)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"custom: {error}: write a plain function, and give what it needs as columns"
        ) from None
    for name, argument in arguments.items():
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD, argument.KEYWORD_ONLY):
            raise ValueError(f"custom: the formula's argument {name!r} must be a plain one")
        if name not in given and name not in FRESH:
            near = difflib.get_close_matches(name, given, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f": give {name}=[…], one an arm"
            if name in STATED:
                hint = f": {name}= is said of the rewards, so name the column otherwise"
            raise ValueError(
                f"custom: the formula asks for {name!r}, which is neither a column nor one of "
                f"{', '.join(FRESH)}{hint}"
            )
    for name in given:
        if name not in arguments:
            raise ValueError(
                f"custom: there is a column {name!r}, but the formula names only "
                f"{', '.join(arguments) or 'nothing'}"
            )
    return tuple(arguments)


def _own(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name not in FRESH]


def _ends(rewards: Any) -> tuple[float, float]:
    """(L, U), of which either may be infinite."""
    try:
        low, high = (float(end) for end in rewards)
    except (TypeError, ValueError):
        return interval("custom", rewards)  # which says what is wrong
    if math.isfinite(low) and math.isfinite(high):
        return interval("custom", rewards)
    if not low < high:
        raise ValueError(f"custom: rewards=(L, U) needs L < U, not ({low!r}, {high!r})")
    return low, high


def _finite(end: float) -> float | None:
    """As plain data: JSON has no infinity."""
    return end if math.isfinite(end) else None


def _variances(variances: Any, most: Array) -> Array:
    """NaN where they are not given, else at most (U − μ)(μ − L) (Bhatia and Davis 2000)."""
    if variances is None:
        return np.full(len(most), math.nan)
    row = column("custom", "variances", variances, 0.0, math.inf, len(most))
    for arm, bound in enumerate(most.tolist()):
        if row[arm] > bound * (1.0 + 1e-12):
            raise ValueError(
                f"custom: variances of arm {arm} is {float(row[arm])!r}, more than its mean in "
                f"[L, U] allows, {bound:g}"
            )
    return row
