"""Sums over a log that stays in a database: the estimators' own terms as column expressions.

`RowLocal.terms` is written once. Here its row is one of Ibis columns and its `minimum` and `where`
are Ibis's, so DuckDB, Spark or a warehouse works the terms out and sums them, and only sums come
back: for every arm the number of rows, the terms' means and, centred at these in a second scan,
the sums of their products. They are put together in the order of the arms. Within an arm a database
adds in the order that it likes, so the last digits may differ from one run to the next.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np

from ..logs.checks import EACH
from ..logs.remote import RemoteLog
from .arms import ArmMeans
from .diagnostics import LARGEST, Diagnostics
from .estimators import Estimator, RowLocal
from .intervals import Interval
from .moments import Array, Moments
from .passes import Order, Pass, State
from .rows import NEVER
from .targets import SUM, Fixed, PerRow, Target

#: How the columns are called that are joined to a log's: nobody's own column is called so.
_TARGET: Final = "_target_{}"
#: Under which name a target's weights stand among the estimators.
_WEIGHT: Final = "weight {}"


def obstacle(cls: type[Estimator], model: Any) -> str:
    """Why an estimator cannot be computed where the rows have no order; empty if it can."""
    if cls is ArmMeans or (issubclass(cls, RowLocal) and not cls.predicts):
        return ""
    if issubclass(cls, RowLocal) and not cls.needs_fixed_target and isinstance(model, str):
        return ""
    return "needs the rows in their order, which a table in a database has not"


def interval_obstacle(interval: Interval) -> str:
    """Why an interval cannot be computed from sums; empty if it can."""
    if type(interval).step is Interval.step:
        return ""
    return "needs the rows themselves: these stay in the database"


class _Side(NamedTuple):
    """One target's columns."""

    #: Its probability of the logged arm.
    own: Any
    #: Its probability of each arm; None where only the logged arm's is known.
    each: Sequence[Any] | None
    #: Rows in which it wants the impossible; None if there are none.
    impossible: Any


class _Term(NamedTuple):
    """A column, and the rows that count (None: all)."""

    term: Any
    where: Any

    def equals(self, other: "_Term") -> bool:
        """Whether both are the same expression."""
        if (self.where is None) != (other.where is None) or not self.term.equals(other.term):
            return False
        return self.where is None or bool(self.where.equals(other.where))

    def rows(self, ibis: Any) -> Any:
        """How many rows count."""
        return self.term.count() if self.where is None else _number(ibis, self.where).sum()


def state_of(log: RemoteLog, whole: Pass) -> State:
    """The state of a log, as `Pass.run_over` finds it where the rows are read."""
    return _Scan(log, whole).state()


class _Scan:
    def __init__(self, log: RemoteLog, whole: Pass) -> None:
        import ibis

        self.ibis, self.log, self.whole = ibis, log, whole
        self.arms = len(log.arms)
        self.ops = SimpleNamespace(minimum=ibis.least, where=ibis.ifelse)
        self.targets = [t for t in (whole.target, whole.versus) if t is not None]
        self.local = {
            name: estimator
            for name, estimator in whole.estimators.items()
            if isinstance(estimator, RowLocal)
        }

    def state(self) -> State:
        """Two scans for the sums, one for the largest weights of each target."""
        rows, sides, kept = self._rows({})
        found = self._terms(rows, sides, kept)
        sums = {f"_rows_{i}": one.rows(self.ibis) for i, one in enumerate(found)}
        averages = {f"_mean_{i}": one.term.mean(where=one.where) for i, one in enumerate(found)}
        first = self._by_arm(rows, {**sums, **averages, **self._wrong(rows, sides)})
        self._refuse_wrong(first)
        self.counts = np.array([first[name] for name in sums])
        self.means = np.array([first[name] for name in averages])

        centres = {f"_centre_{i}": np.nan_to_num(one) for i, one in enumerate(self.means)}
        rows, sides, kept = self._rows({**centres, "_arm_mean": self.log.mean})
        found = self._terms(rows, sides, kept)
        deviations = [one.term - rows[f"_centre_{i}"] for i, one in enumerate(found)]
        pairs = {(i, j) for mine in self.places.values() for i in mine for j in mine if i <= j}
        products = {
            f"_product_{i}_{j}": (deviations[i] * deviations[j]).sum(where=found[i].where)
            for i, j in sorted(pairs)
        }
        reward = rows.reward - rows["_arm_mean"]
        second = self._by_arm(rows, {"_squares": (reward * reward).sum(), **products})
        self.comoments = np.zeros((len(found), len(found), self.arms))
        for i, j in pairs:
            self.comoments[i, j] = self.comoments[j, i] = second[f"_product_{i}_{j}"]

        seen = [self._seen(rows, i, found) for i in range(len(sides))]
        return State(
            {
                name: self._moments(name)
                if name in self.places
                else self._arm_means(estimator, second["_squares"])
                for name, estimator in self.whole.estimators.items()
            },
            dict.fromkeys(self.whole.intervals),
            seen[0],
            seen[1] if len(seen) > 1 else Diagnostics.empty(self.arms),
            Order(),
        )

    # ------------------------------------------------------------------------------------- columns

    def _rows(self, joined: dict[str, Array]) -> tuple[Any, list[_Side], Any]:
        """The joined table, the targets' columns, and which rows are usable (None: all)."""
        fixed = {
            _TARGET.format(i): target.weights
            for i, target in enumerate(self.targets)
            if target.weights is not None
        }
        rows = self.log.joined({**fixed, **joined})
        sides = [self._side(rows, i, target) for i, target in enumerate(self.targets)]
        bad = [side.impossible for side in sides if side.impossible is not None]
        return rows, sides, ~_folded(bad, lambda a, b: a | b) if bad else None

    def _side(self, rows: Any, i: int, target: Target) -> _Side:
        each: Sequence[Any] | None = None
        if isinstance(target, Fixed):
            assert target.weights is not None
            own, each = rows[_TARGET.format(i)], target.weights.tolist()
            used: Sequence[int] = np.flatnonzero(target.weights).tolist()
        elif target.whole:
            own, used = rows[target.name][rows["_position"]].cast("float64"), range(self.arms)
            each = [rows[target.name][a].cast("float64") for a in used]
        else:
            own = rows[target.name].cast("float64")
        if "probabilities" in rows.columns:
            if each is None:
                return _Side(own, None, None)
            zero = [rows.probabilities[a] < NEVER for a in used]
            if not isinstance(target, Fixed):
                zero = [nothing & (each[a] != 0.0) for a, nothing in zip(used, zero)]
            return _Side(own, each, _folded(zero, lambda a, b: a | b))
        if self.arms == 1 or not np.any(self.log.most == 1.0):
            return _Side(own, each, None)
        return _Side(own, each, (rows.propensity == 1.0) & (own < 1.0))

    def _terms(self, rows: Any, sides: list[_Side], kept: Any) -> list[_Term]:
        """The weights' and all estimators' terms, each once; `self.places` says which are whose."""
        found: list[_Term] = []
        self.places: dict[str, list[int]] = {}

        def add(name: str, term: Any, where: Any) -> None:
            new = _Term(term, where)
            places = (i for i, one in enumerate(found) if one.equals(new))
            place = next(places, len(found))
            if place == len(found):
                found.append(new)
            self.places.setdefault(name, []).append(place)

        # The second target's weights are described in all rows that it could have played.
        own = None if sides[-1].impossible is None else ~sides[-1].impossible
        for i, side in enumerate(sides):
            add(_WEIGHT.format(i), side.own / rows.propensity, own if i else kept)
        for name, estimator in self.local.items():
            for side in sides:
                row = self._row(rows, side)
                for term in estimator.terms(row, self.ops, estimator.setting.cap):
                    add(name, term, kept)
        return found

    def _row(self, rows: Any, side: _Side) -> SimpleNamespace:
        """What `RowLocal.terms` may ask of a row."""
        weight = side.own / rows.propensity
        row = SimpleNamespace(weight=weight, reward=rows.reward, gain=weight * rows.reward)
        if isinstance(self.whole.model, str) and side.each is not None:
            model = rows[self.whole.model]
            row.predicted = model[rows["_position"]].cast("float64")
            row.value = _folded(
                [model[a].cast("float64") * pi for a, pi in enumerate(side.each)],
                lambda a, b: a + b,
            )
        return row

    # --------------------------------------------------------------------------------------- checks

    def _wrong(self, rows: Any, sides: list[_Side]) -> dict[str, Any]:
        """Counts of rows whose lists or target's probabilities cannot be right."""
        found = {}
        lists = ["probabilities"] if "probabilities" in rows.columns else []
        lists += [t.name for t in self.targets if isinstance(t, PerRow) and t.whole]
        lists += [self.whole.model] if isinstance(self.whole.model, str) else []
        for i, name in enumerate(dict.fromkeys(lists)):
            right = (rows[name].length() == self.arms).fill_null(False)
            found[f"_wrong_length_{i}"] = _number(self.ibis, ~right).sum()
        if "probabilities" in rows.columns:
            own = rows.probabilities[rows["_position"]]
            right = ((own - rows.propensity).abs() <= EACH * rows.propensity).fill_null(False)
            found["_wrong_own"] = _number(self.ibis, ~right).sum()
        for i, (target, side) in enumerate(zip(self.targets, sides)):
            if isinstance(target, PerRow):
                right = ((side.own >= 0.0) & (side.own <= 1.0 + SUM)).fill_null(False)
                if side.each is not None:
                    total = _folded(list(side.each), lambda a, b: a + b)
                    right &= ((total - 1.0).abs() <= SUM).fill_null(False)
                found[f"_wrong_target_{i}"] = _number(self.ibis, ~right).sum()
        return found

    def _refuse_wrong(self, means: dict[str, Array]) -> None:
        for name, counts in means.items():
            bad = int(counts.sum()) if name.startswith("_wrong_") else 0
            if bad and name.startswith("_wrong_length_"):
                raise ValueError(
                    f"the table has {bad:,} rows with a list that is not of {self.arms} numbers, "
                    "one for each arm"
                )
            if bad and name == "_wrong_own":
                order = ", ".join(map(str, self.log.arms))
                raise ValueError(
                    f"the table has {bad:,} rows whose propensity is not the arm's probability: "
                    f"are the arms in the order of the probabilities, {order}?"
                )
            if bad:
                target = self.targets[int(name.removeprefix("_wrong_target_"))]
                raise ValueError(
                    f"column {target.name}: {bad:,} rows have probabilities of the target that "
                    "are not in [0, 1] or do not sum to 1"
                )

    # ----------------------------------------------------------------------------------------- sums

    def _by_arm(self, rows: Any, sums: dict[str, Any]) -> dict[str, Array]:
        """The sums of every arm's rows; zeros for arms without rows."""
        named = {name: one.cast("float64") for name, one in sums.items()}
        table = rows.group_by("_position").agg(**named).to_pyarrow()
        places = table["_position"].to_numpy()
        found = {name: np.zeros(self.arms) for name in sums}
        for name, values in found.items():
            values[places] = table[name].to_numpy()
        return found

    def _moments(self, name: str) -> Moments:
        places = self.places[name]
        state = Moments.empty(len(places))
        counts = self.counts[places[0]]
        for a in np.flatnonzero(counts):
            comoment = self.comoments[np.ix_(places, places)][..., a]
            state = state.merged(Moments(int(counts[a]), self.means[places, a], comoment))
        return state

    def _arm_means(self, estimator: Estimator, squares: Array) -> Any:
        log = self.log
        return estimator.start()._replace(
            pulls=log.pulls, mean=log.mean, squares=squares, rows=log.rows
        )

    def _seen(self, rows: Any, i: int, found: list[_Term]) -> Diagnostics:
        """What the weights of a target are like."""
        log, name = self.log, _WEIGHT.format(i)
        moments = self._moments(name)
        weight, where = found[self.places[name][0]]
        column = (rows if where is None else rows.filter(where)).select(_weight=weight)
        top = column.order_by(self.ibis.desc("_weight")).limit(LARGEST).to_pyarrow()
        played = log.pulls > 0
        return Diagnostics(
            log.rows, log.rows - moments.n, float(moments.mean[0]), float(moments.comoment[0, 0]),
            np.sort(top["_weight"].to_numpy())[::-1], float(np.nanmin(log.least)), log.pulls,
            log.least, bool(np.all(log.least[played] == log.most[played])),
            log.lowest, log.highest, self._possible(rows),
        )  # fmt: skip

    def _possible(self, rows: Any) -> Any:
        """Which arms were ever possible: those that were played, or had a probability."""
        possible = self.log.pulls > 0
        missing = np.flatnonzero(~possible).tolist()
        if missing and "probabilities" in rows.columns:
            most = {f"_most_{a}": rows.probabilities[a].max() for a in missing}
            (found,) = rows.agg(**most).to_pyarrow().to_pylist()
            possible[missing] = [(found[f"_most_{a}"] or 0.0) > 0.0 for a in missing]
        return possible


def _number(ibis: Any, condition: Any) -> Any:
    return ibis.ifelse(condition, 1, 0)


def _folded(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Parts joined two by two, so that expressions over many arms do not grow deep."""
    while len(parts) > 1:
        pairs = [join(a, b) for a, b in zip(parts[::2], parts[1::2])]
        parts = pairs + ([parts[-1]] if len(parts) % 2 else [])
    return parts[0]
