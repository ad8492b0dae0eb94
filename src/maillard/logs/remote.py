"""A log that stays where it lies: an Ibis table in DuckDB, Spark or a warehouse.

Nothing but sums ever comes from it. `maillard.evaluation.pushdown` asks for them.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from .schema import NEEDED, checked_arms

#: What is wrong with a row, by the name of the column that counts such rows.
_WRONG: Final = {
    "no_arm": "without an arm",
    "bad_propensity": "whose propensity is not in (0, 1]",
    "bad_reward": "whose reward is missing, NaN or infinite",
}


def is_table(source: Any) -> bool:
    """Whether it is an Ibis table; Ibis is imported by whoever has one."""
    relations = sys.modules.get("ibis.expr.types.relations")
    return relations is not None and isinstance(source, relations.Table)


class RemoteLog:
    """An Ibis table with the columns arm, propensity and reward.

    It is looked through once when it is opened: arms, counts, ranges, and rows that cannot be
    right. A table has no order, so such rows are counted and not numbered.
    """

    metadata: Mapping[str, Any] = {}
    name = "the table"

    def __init__(self, table: Any, arms: Any = None, run: int | None = None) -> None:
        import ibis

        lacking = [name for name in NEEDED if name not in table.columns]
        if lacking:
            raise ValueError(
                f"the table has no column {' and no column '.join(lacking)}: a log has arm, "
                f"propensity and reward; it has {', '.join(table.columns[:12])}"
            )
        kinds = dict(table.schema().items())
        self.text = kinds["arm"].is_string()
        if not self.text and not kinds["arm"].is_integer():
            raise ValueError(f"arms must be integers or strings, not {kinds['arm']}")
        for name in ("propensity", "reward"):
            if not kinds[name].is_numeric() and not kinds[name].is_boolean():
                raise ValueError(f"the column {name} must hold numbers, not {kinds[name]}")
        if run is not None:
            if "run" not in table.columns:
                raise ValueError(f"run={run}: the log has no column run")
            table = table.filter(table.run == run)
        reward = table.reward.cast("int8") if kinds["reward"].is_boolean() else table.reward
        #: The rows, with arms, propensities and rewards in one type whatever the table's.
        self.table = table.mutate(
            arm=table.arm.cast("string" if self.text else "int64"),
            propensity=table.propensity.cast("float64"),
            reward=reward.cast("float64"),
        )
        self.columns = tuple(self.table.columns)
        self._lists = {name for name, kind in kinds.items() if kind.is_array()}
        if "probabilities" in table.columns and arms is None:
            raise ValueError(
                "the table has probabilities but does not say of which arms: give arms=, the "
                "labels in their order"
            )
        #: Whether it was said which arms there are.
        self.says_arms = arms is not None
        self._look(ibis, None if arms is None else checked_arms(arms), run)

    def _look(self, ibis: Any, arms: tuple[Any, ...] | None, run: int | None) -> None:
        rows = self.table
        p, r = rows.propensity, rows.reward
        # In databases NaN is larger than any number, and what is compared to null is null.
        bad = {
            "no_arm": rows.arm.isnull(),
            "bad_propensity": ~((p > 0.0) & (p <= 1.0)).fill_null(False),
            "bad_reward": ~(r.abs() <= sys.float_info.max).fill_null(False),
        }
        counts = {
            name: ibis.ifelse(condition, 1, 0).sum().cast("int64")
            for name, condition in bad.items()
        }
        found = (
            rows.group_by("arm")
            .agg(
                rows=rows.count(), mean=r.mean(), lowest=r.min(), highest=r.max(),
                least=p.min(), most=p.max(), **counts,
            )
            .to_pyarrow()
            .to_pylist()
        )  # fmt: skip
        problems = [
            f"{count:,} rows {words}"
            for name, words in _WRONG.items()
            if (count := sum(one[name] for one in found))
        ]
        if problems:
            raise ValueError(f"the table has {' and '.join(problems)}")
        if run is not None and not found:
            raise ValueError(f"the log has no run {run}")
        by_label = {one["arm"]: one for one in found}
        if arms is None:
            arms = tuple(sorted(by_label))
        unknown = sorted(set(by_label) - set(arms))
        if unknown:
            count = sum(by_label[label]["rows"] for label in unknown)
            raise ValueError(
                f"the table has {count:,} rows with arm {unknown[0]!r}, which is none of the arms"
            )
        self.arms = arms
        self.pulls, self.mean, self.least, self.most, low, high = (
            np.array([by_label.get(label, {}).get(name, empty) for label in arms], dtype=np.float64)
            for name, empty in (
                ("rows", 0), ("mean", 0.0), ("least", np.nan), ("most", np.nan),
                ("lowest", np.inf), ("highest", -np.inf),
            )
        )  # fmt: skip
        self.rows = int(self.pulls.sum())
        self.lowest, self.highest = low.min(initial=np.inf), high.max(initial=-np.inf)

    def __len__(self) -> int:
        return self.rows

    def holds_lists(self, column: str) -> bool:
        """Whether a column has a number for every arm in each row."""
        if column not in self.columns:
            raise ValueError(f"the log has no column {column!r} (it has {', '.join(self.columns)})")
        return column in self._lists

    def joined(self, columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]) -> Any:
        """The rows with further columns that have a value for each arm, and the arm's position.

        A small table is joined. A chain of CASE would be gone through arm by arm in every row.
        """
        import ibis

        kind = pa.string() if self.text else pa.int64()
        small = ibis.memtable(
            pa.table({
                "_label": pa.array(self.arms, kind),
                "_position": pa.array(range(len(self.arms)), pa.int32()),
                **{name: pa.array(np.asarray(values)) for name, values in columns.items()},
            })
        )  # fmt: skip
        return self.table.join(small, self.table.arm == small["_label"])
