"""What is to be evaluated: a distribution over the arms, for all rows or for each."""

import difflib
import math
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..logs.remote import RemoteLog
from .moments import Array
from .rows import Batch

if TYPE_CHECKING:
    from ..policies.policy import Policy

#: How far probabilities may be from summing to 1.
SUM: Final = 1e-6


class Target:
    """The policy whose value is asked for. `weights` is its distribution where that never changes.

    `at(batch)` gives (distribution, probability of the logged arm): the distribution is [arms],
    [arms, rows], or None where only the logged arm's is known.
    """

    name: str
    weights: Array | None = None
    #: Whether the whole distribution is known, not the logged arm's share only.
    whole: bool = True
    #: Whether rows must come in order, in one pass.
    ordered: bool = False
    #: Whether the target is the user's own function of the row, which may depend on a context.
    contextual: bool = False

    def start(self) -> None:
        """Forget what a pass over the log has taught."""

    def at(self, batch: Batch) -> tuple[Array | None, Array]:
        """The target's probabilities in these rows."""
        raise NotImplementedError


class Fixed(Target):
    """The same distribution in every row."""

    def __init__(self, name: str, weights: Array) -> None:
        self.name, self.weights = name, weights
        self._same = bool(np.all(weights == weights[0])) if len(weights) else False

    def at(self, batch: Batch) -> tuple[Array | None, Array]:
        assert self.weights is not None
        if self._same:
            return self.weights, np.broadcast_to(self.weights[0], len(batch.arm))
        return self.weights, np.take(self.weights, batch.arm)


class PerRow(Target):
    """Probabilities of the logged arm, or of every arm, from an array or a column of the log."""

    contextual = True

    def __init__(self, name: str, values: Array | None, arms: int) -> None:
        self.name, self._values, self._arms = name, values, arms
        self.whole = values is not None and values.ndim == 2

    def look(self, log: Any) -> None:
        """See whether a column of the log has the probabilities of all arms."""
        if isinstance(log, RemoteLog):
            if self._values is not None:
                raise ValueError(
                    "target: the rows of a table in a database have no order that an array could "
                    "have too; join the probabilities to the table and name their column"
                )
            self.whole = log.holds_lists(self.name)
        elif self._values is None:
            for batch in log.batches(columns=(self.name,)):
                self.whole = numbers(batch, self.name).ndim == 2
                break

    def at(self, batch: Batch) -> tuple[Array | None, Array]:
        n = len(batch.arm)
        if self._values is not None:
            values = self._values[batch.first_row : batch.first_row + n]
        else:
            values = numbers(batch, self.name)
        if len(values) != n:
            raise ValueError(
                f"target: {len(self._values) if self._values is not None else 0} rows of "
                f"probabilities, but the log has a row {batch.first_row + n}"
            )
        _check_rows(values, self._arms, batch.first_row)
        if values.ndim == 1:
            return None, np.asarray(values)
        own = values[np.arange(n), batch.arm]
        return np.ascontiguousarray(values.T), own


class Replayed(Target):
    """A policy that learns from the log's own rewards, row by row, as if it had been watching.

    Its distribution in a row depends on earlier rows only. The value asked for is what it would
    have earned by choosing in each row, having learnt from the rows before.
    """

    ordered = True

    def __init__(self, policy: "Policy", arms: tuple[Any, ...]) -> None:
        self.name = policy.slug
        self._state, self._arms = policy.state(), arms
        self.start()

    def start(self) -> None:
        from ..policies.storage import from_state

        self._policy = from_state(self._state)
        self._order = [self._policy.arms.index(label) for label in self._arms]

    def at(self, batch: Batch) -> tuple[Array | None, Array]:
        policy, order = self._policy, self._order
        distribution = np.empty((len(order), len(batch.arm)))
        rows = zip(batch.arm.tolist(), batch.reward.tolist(), batch.propensity.tolist())
        for t, (arm, reward, propensity) in enumerate(rows):
            distribution[:, t] = policy.probabilities()[order]
            try:
                policy.update(self._arms[arm], reward, propensity=propensity)
            except ValueError as error:
                row = batch.first_row + t
                raise ValueError(f"row {row}: {self.name} cannot learn: {error}") from None
        return distribution, distribution[batch.arm, np.arange(len(batch.arm))]


def numbers(batch: Batch, column: str) -> Array:
    """A column of numbers, or of lists of numbers of one length, as [rows] or [rows, …]."""
    table = batch.table
    names = [] if table is None else list(table.schema.names)
    if column not in names:
        near = difflib.get_close_matches(column, names, n=2)
        hint = f"; did you mean {' or '.join(near)}?" if near else f" (it has {', '.join(names)})"
        raise ValueError(f"the log has no column {column!r}{hint}")
    array = table.column(column)
    rows, found = len(array), array
    if hasattr(array.type, "value_type"):  # lists
        found = array.flatten()
        if rows == 0 or len(found) % rows:
            raise ValueError(f"column {column!r}: the lists differ in length")
    try:
        values = np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"column {column!r} holds no numbers, but {array.type}") from None
    return values if found is array else values.reshape(rows, -1)


def _check_rows(values: Array, arms: int, first_row: int) -> None:
    if values.ndim == 2 and values.shape[1] != arms:
        raise ValueError(f"target: {values.shape[1]} probabilities in a row, but {arms} arms")
    bad = ~((values >= 0.0) & (values <= 1.0 + SUM))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        found = float(values[at])
        raise ValueError(
            f"row {first_row + at[0]}: the target's probability {found!r} is not in [0, 1]"
        )
    if values.ndim == 2 and len(values):
        sums = values.sum(axis=1)
        worst = int(np.argmax(np.abs(sums - 1.0)))
        if abs(sums[worst] - 1.0) > SUM:
            raise ValueError(
                f"row {first_row + worst}: the target's probabilities sum to {sums[worst]:g}"
            )


def target_of(given: Any, arms: tuple[Any, ...], rows: int, rewards: Any = None) -> Target:
    """The target that `given` means for a log with these arms.

    ``"uniform"``; an arm's label; ``{label: probability}`` or a list of probabilities in the order
    of the arms; the name of a policy, or a Policy: replayed on the log; ``"column:NAME"``; an array
    with a row for each row of the log, of the logged arm's probability or of all arms'.
    """
    if isinstance(given, Target):
        return given
    if _is_policy(given):
        if set(given.arms) != set(arms):
            raise ValueError(f"target {given.slug}: its arms are {given.arms}, the log's {arms}")
        return Replayed(given, arms)
    if isinstance(given, Mapping):
        return _by_label(given, arms)
    if isinstance(given, (str, int, np.integer)) and not isinstance(given, bool):
        return _named(given.item() if isinstance(given, np.integer) else given, arms, rows, rewards)
    if isinstance(given, Iterable):
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.empty((0, 0, 0))
        if values.ndim == 1 and len(values) == len(arms):
            return _by_label(dict(zip(arms, values.tolist(), strict=True)), arms)
        if values.ndim in (1, 2) and len(values) == rows:
            return PerRow("given row by row", values, len(arms))
        if values.ndim == 1 and len(values):
            raise ValueError(
                f"target: {len(values)} probabilities, but {len(arms)} arms and {rows} rows"
            )
    raise ValueError(
        "target must be 'uniform', an arm, {arm: probability}, a policy, 'column:NAME' or an array "
        f"with a row for each row of the log, not {given!r}"
    )


def _is_policy(given: Any) -> bool:
    """Whether it is a Policy; their module is imported by whoever has one."""
    module = sys.modules.get("maillard.policies.policy")
    return module is not None and isinstance(given, module.Policy)


def _named(given: str | int, arms: tuple[Any, ...], rows: int, rewards: Any) -> Target:
    if given == "uniform" and given not in arms:
        return Fixed("uniform", np.full(len(arms), 1.0 / len(arms)))
    from ..policies import catalogue

    policies = catalogue.catalogue()
    if given in arms:
        if given == "uniform" or given in policies:
            raise ValueError(
                f"target {given!r} is an arm and a policy: write {{{given!r}: 1.0}} for the arm, "
                f"or mb.policy({given!r}, arms) for the policy"
            )
        return _by_label({given: 1.0}, arms)
    if isinstance(given, str) and given.startswith("column:"):
        return PerRow(given.removeprefix("column:"), None, len(arms))
    if given in policies:
        needed = {}
        declared = policies[str(given)]._declared.get("horizon")
        if declared is not None and declared.required:
            needed["horizon"] = max(rows, 1)
        return Replayed(catalogue.policy(str(given), arms, rewards=rewards, **needed), arms)
    near = difflib.get_close_matches(str(given), [*map(str, arms), *policies, "uniform"], n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(
        f"unknown target {given!r}: neither an arm of the log ({_listed(arms)}) nor a policy{hint}"
    )


def _by_label(given: Mapping[Any, Any], arms: tuple[Any, ...]) -> Target:
    weights = np.zeros(len(arms))
    for label, probability in given.items():
        if label not in arms:
            raise ValueError(f"target: the log has no arm {label!r} (it has {_listed(arms)})")
        number = isinstance(probability, (int, float, np.floating))
        if not number or isinstance(probability, bool) or not 0.0 <= probability <= 1.0:
            raise ValueError(
                f"target: the probability of arm {label!r} must be in [0, 1], not {probability!r}"
            )
        weights[arms.index(label)] = probability
    total = math.fsum(weights)
    if abs(total - 1.0) > SUM:
        raise ValueError(f"target: the probabilities sum to {total:g}, not to 1")
    shown = {label: float(p) for label, p in zip(arms, weights) if p > 0.0}
    if len(shown) == 1:
        return Fixed(f"arm {next(iter(shown))}", weights / total)
    return Fixed(", ".join(f"{label}: {p:g}" for label, p in shown.items()), weights / total)


def _listed(arms: tuple[Any, ...]) -> str:
    shown = ", ".join(repr(label) for label in arms[:8])
    return shown + (", …" if len(arms) > 8 else "")
