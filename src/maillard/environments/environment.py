"""What every environment is: data for its arms, and one kernel that pays them.

`law` holds a column of parameters for each arm, and `pay_kernel` draws the rewards of the arms that
a block of trials has chosen. Adding a law is adding a kernel and a class that fills the columns.
"""

import functools
import hashlib
import math
import reprlib
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ..compiled import Kernel, build
from ..divergence import k_inf

Array = NDArray[np.float64]

#: Of `pay_kernel`: arm of each lane, law[parameters, arms], t, generators → reward of each lane.
PAY: Final = "void(uint64[::1], float64[:, ::1], float64, uint64[::1], float64[::1])"

#: slug → class, filled as the classes are defined; `catalogue` reads it.
REGISTRY: dict[str, type["Environment"]] = {}

#: ("fixed", rounds), ("geometric", mean) or ("batch", size).
Delay = tuple[str, float]


class Environment:
    """K independent arms; means, gaps, best arm and variances are known exactly.

    Where the laws change, `law`, `means`, `variances`, `gaps` and `best` are those of round 1;
    `means_at(t)` has the others.
    """

    slug: ClassVar[str]
    title: ClassVar[str]
    #: The law, or what becomes of another environment's.
    formula: ClassVar[str]
    #: The class of laws over which `asymptotic_constant` takes its infimum.
    model: ClassVar[str] = "all laws on [L, U]"
    #: Whether the means are linear in the columns of `law`, so that means drift as laws do.
    linear: ClassVar[bool] = False

    #: Knot j is the first round, from 1, at which row j of `laws` and `mean_table` holds.
    knots: NDArray[np.int64]
    #: float64[knots, parameters, arms] and float64[knots, arms].
    laws: Array
    mean_table: Array
    #: Between knots: False, the last row holds; True, linear interpolation. The last row stays.
    drifts: bool = False
    #: When rewards are seen, None for at once. ("fixed", d): that of round t before the decision of
    #: round t + 1 + d. ("geometric", m): likewise, with d the failures before a success, of mean m,
    #: drawn for each reward. ("batch", b): those of rounds jb + 1 … (j + 1)b after round (j + 1)b.
    delay: Delay | None = None
    #: The longest horizon; None where there is no such limit.
    rounds: int | None = None

    def __init_subclass__(cls) -> None:
        if "slug" in vars(cls):
            REGISTRY[cls.slug] = cls

    def __init__(
        self,
        parameters: dict[str, Any],
        law: Any,
        means: Any,
        variances: Any,
        rewards: tuple[float, float],
        *,
        binary: bool = False,
    ) -> None:
        self.parameters = parameters
        self.means: Array = np.array(means, dtype=np.float64)
        self.variances: Array = np.array(variances, dtype=np.float64)
        #: float64[parameters, arms], what `pay_kernel` reads.
        self.law: Array = np.ascontiguousarray(law, dtype=np.float64)
        #: [L, U], infinite where rewards are unbounded.
        self.rewards = (float(rewards[0]), float(rewards[1]))
        #: Whether every reward is L or U.
        self.binary = binary
        self.knots = np.ones(1, dtype=np.int64)
        self.laws, self.mean_table = self.law[None], self.means[None].copy()
        self._freeze()

    def _freeze(self) -> None:
        self.means.setflags(write=False)
        self.variances.setflags(write=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._freeze()

    @property
    def pay_kernel(self) -> Kernel:
        """The kernel ``(arm, law, t, rng, reward)`` that fills `reward` for each lane's arm."""
        raise NotImplementedError

    @property
    def arms(self) -> int:
        """K."""
        return len(self.means)

    @property
    def best(self) -> int:
        """The arm of the largest mean, the first among equals."""
        return int(np.argmax(self.means))

    @property
    def gaps(self) -> Array:
        """Δ_a = μ* − μ_a."""
        return np.array(self.means.max() - self.means)

    def means_at(self, t: float) -> Array:
        """The means at round t."""
        return self._row_at(self.mean_table, t)

    def law_at(self, t: float) -> Array:
        """What `pay_kernel` reads at round t: float64[parameters, arms]."""
        return self._row_at(self.laws, t)

    def _row_at(self, table: Array, t: float) -> Array:
        if not t >= 1:
            raise ValueError(f"{self.slug}: rounds are counted from 1, not {t!r}")
        j = int(np.searchsorted(self.knots, t, side="right")) - 1
        row = table[j]
        if self.drifts and j + 1 < len(table):
            start, stop = float(self.knots[j]), float(self.knots[j + 1])
            row = row + (t - start) / (stop - start) * (table[j + 1] - row)
        return np.array(row)

    def check_horizon(self, horizon: int) -> None:
        """An error if the environment ends before the horizon."""
        if self.rounds is not None and horizon > self.rounds:
            raise ValueError(
                f"{self.slug}: a horizon of {horizon:,} is beyond the {self.rounds:,} recorded "
                "rounds: shorten it, or use order='resampled'"
            )

    def spec(self) -> dict[str, Any]:
        """The environment as plain data, which `environment_from` makes into it again."""
        return {"environment": self.slug, **{k: _spec(v) for k, v in self.parameters.items()}}

    def identity(self) -> dict[str, Any]:
        """Small plain data that differ where environments differ: what streams are seeded by."""
        return {"environment": self.slug, **{k: _identity(v) for k, v in self.parameters.items()}}

    def asymptotic_constant(self) -> float:
        """C = Σ Δ_a / K_inf(ν_a, μ*): no policy good on the whole `model` has regret o(C ln T).

        Lai and Robbins 1985; Burnetas and Katehakis 1996. K_inf is the least divergence from arm
        a's law to one in the model whose mean exceeds μ*. NaN where the laws change, and where the
        class says neither what they are (`_table`) nor how far from a mean (`_distance`).
        """
        if len(self.knots) > 1:
            return math.nan
        own = type(self)
        if own._table is Environment._table and own._distance is Environment._distance:
            return math.nan
        best = float(self.means.max())
        terms = []
        for arm in np.flatnonzero(self.gaps).tolist():
            distance = self._distance(arm, best)
            terms.append((best - float(self.means[arm])) / distance if distance > 0.0 else math.inf)
        return math.fsum(terms)

    def _distance(self, arm: int, mean: float) -> float:
        """K_inf from an arm's law to `mean`, over all laws on [L, U]."""
        low, high = self.rewards
        values, weights = self._table(arm)
        scaled = np.ascontiguousarray(np.minimum((values - low) / (high - low), 1.0))
        return float(
            _k_inf()(scaled, np.ascontiguousarray(weights), (mean - low) / (high - low))[0]
        )

    def _table(self, arm: int) -> tuple[Array, Array]:
        """Values and weights that stand for an arm's law, or that integrate like it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({shown})"


@functools.cache
def _k_inf() -> Kernel:
    return build(k_inf, "UniTuple(float64, 2)(float64[::1], float64[::1], float64)")


def _spec(value: Any) -> Any:
    if isinstance(value, Environment):
        return value.spec()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_spec(x) for x in value] if isinstance(value, list) else value


def _identity(value: Any) -> Any:
    if isinstance(value, Environment):
        return value.identity()
    if isinstance(value, np.ndarray):
        return digest(value)
    return [_identity(x) for x in value] if isinstance(value, list) else value


def remade(cls: type[Environment], parameters: dict[str, Any]) -> Environment:
    """An environment from its parameters, for pickles that would hold large tables twice."""
    return cls(**parameters)


def digest(table: Array) -> list[Any]:
    """A shape and a digest, which stand for a table too large to be written out."""
    stable = np.ascontiguousarray(table, dtype="<f8")
    return [*table.shape, hashlib.blake2b(stable.tobytes(), digest_size=16).hexdigest()]


def _shown(value: Any) -> str:
    if isinstance(value, Environment):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"<{' × '.join(map(str, value.shape))} numbers>"
    if isinstance(value, list) and value and isinstance(value[0], Environment):
        return "[" + ", ".join(map(repr, value)) + "]"
    return _SHORT.repr(value)


_SHORT: Final = reprlib.Repr()
_SHORT.maxlist = 8
