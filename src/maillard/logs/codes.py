"""Columns as arrays: labels as positions in the list of arms, numbers as float64.

A view wherever there is one: nothing is copied that is in memory in the form asked for.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: Integer labels that lie no further apart are looked up in a table.
_SPAN: Final = 1 << 16
#: Numbers whose order in memory is changed at a time.
_TURNED: Final = 1 << 14


class Coder:
    """Turns the labels of one log's arms into positions; what is no label becomes −1."""

    def __init__(self, arms: Sequence[Any]) -> None:
        self.arms = tuple(arms)
        self._text = bool(self.arms) and isinstance(self.arms[0], str)
        self._in_order = self.arms == tuple(range(len(self.arms)))
        self._dictionary: pa.Array | None = None
        self._codes = np.zeros(0, dtype=np.int32)
        self._table: NDArray[np.int32] | None = None
        if not self._text:
            labels = np.array(self.arms, dtype=np.int64)
            self._order = np.argsort(labels).astype(np.int32)
            self._sorted = labels[self._order]
            span = int(self._sorted[-1]) - int(self._sorted[0]) + 1 if self.arms else 0
            if 0 < span <= _SPAN:
                self._table = np.full(span, -1, dtype=np.int32)
                self._table[labels - self._sorted[0]] = np.arange(len(labels))

    def __call__(self, column: pa.Array) -> NDArray[np.int32]:
        """The position of each label."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            return self._from_dictionary(column)
        if pa.types.is_integer(kind) and not self._text:
            return self._from_integers(column)
        if is_text(kind) and self._text:
            labels = pa.array(self.arms, pa.string())
            if kind != pa.string():
                column = column.cast(pa.string())
            found = pc.index_in(column, value_set=labels)
            codes: NDArray[np.int32] = view(pc.fill_null(found, -1), np.int32)
            return codes
        return np.full(len(column), -1, dtype=np.int32)

    def _from_dictionary(self, column: pa.DictionaryArray) -> NDArray[np.int32]:
        dictionary = column.dictionary
        if self._dictionary is None or not dictionary.equals(self._dictionary):
            self._codes, self._dictionary = self(dictionary), dictionary
        indices = column.indices
        if column.null_count == 0 and np.array_equal(self._codes, np.arange(len(self._codes))):
            straight: NDArray[np.int32] = view(indices, np.int32)
            return straight
        # The last stands for what is missing.
        codes: NDArray[np.int32] = np.append(self._codes, np.int32(-1)).astype(np.int32)
        places = view(pc.fill_null(indices.cast(pa.int32()), len(dictionary)), np.int32)
        return np.take(codes, places)

    def _from_integers(self, column: pa.Array) -> NDArray[np.int32]:
        missing = None
        if column.null_count:
            missing = view(column.is_null().cast(pa.int8()), np.int8) == 1
            column = pc.fill_null(column, 0)
        if pa.types.is_uint64(column.type):
            column = pc.min_element_wise(column, pa.scalar(2**63 - 1, pa.uint64()))
        arms = len(self.arms)
        if self._in_order and column.type == pa.int32():
            codes = view(column, np.int32)
            unsigned = codes.view(np.uint32)  # where negative numbers are large ones
            if codes.size and unsigned.max() >= arms:
                codes = np.where(unsigned >= arms, np.int32(-1), codes)
        elif not arms:
            codes = np.full(len(column), -1, dtype=np.int32)
        elif self._table is not None:
            places = view(column, np.int64) - self._sorted[0]
            unsigned = places.view(np.uint64)
            outside = bool(places.size) and unsigned.max() >= len(self._table)
            if outside:
                places = np.where(unsigned >= len(self._table), 0, places)
            codes = places.astype(np.int32) if self._in_order else np.take(self._table, places)
            if outside:
                codes = np.where(unsigned >= len(self._table), np.int32(-1), codes)
        else:
            values = view(column, np.int64)
            places = np.minimum(np.searchsorted(self._sorted, values), arms - 1)
            found = self._sorted[places] == values
            codes = np.where(found, self._order[places], np.int32(-1))
        return codes if missing is None else np.where(missing, np.int32(-1), codes)


def view(column: pa.Array, kind: Any) -> NDArray[Any]:
    """A column without nulls as an array of a type: itself, or its cast."""
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array if array.dtype == kind else array.astype(kind)


def numbers(column: pa.Array) -> NDArray[np.float64]:
    """A column of numbers as float64; nulls are NaN."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if column.type != pa.float64():
        column = column.cast(pa.float64())
    array: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    return array


def matrix(column: pa.Array, width: int) -> NDArray[np.float64] | None:
    """A column of lists as float64[rows, width]; None if one is missing or of another length."""
    rows = len(column)
    if column.null_count:
        return None
    if pa.types.is_fixed_size_list(column.type):
        if column.type.list_size != width:
            return None
    elif not np.all(pc.list_value_length(column).to_numpy(zero_copy_only=False) == width):
        return None
    return numbers(column.flatten()).reshape(rows, width)


def by_column(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same numbers, with each column in one piece of memory."""
    rows, width = table.shape
    columns = np.empty((width, rows))
    step = max(1, _TURNED // max(width, 1))
    for start in range(0, rows, step):  # a few rows, which stay in the cache for all columns
        columns[:, start : start + step] = table[start : start + step].T
    return columns.T


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def is_lists(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists of numbers."""
    lists = (
        pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    )
    return bool(lists and is_number(kind.value_type))


def _added(found: set[Any], column: pa.Array) -> bool:
    """Add the integers that occur, if they lie close together: without hashing each of them."""
    if column.null_count or not len(column) or pa.types.is_uint64(column.type):
        return False
    values = view(column, np.int64)
    least, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    if span > min(_SPAN, len(values)):
        return False
    there = np.zeros(span, dtype=np.bool_)
    there[values - least] = True
    found.update((np.flatnonzero(there) + least).tolist())
    return True


def labels_in(columns: Iterable[pa.Array]) -> tuple[Any, ...]:
    """Every label that occurs, sorted."""
    found: set[Any] = set()
    for column in columns:
        if pa.types.is_dictionary(column.type):
            labels = column.dictionary.to_pylist()
            if not found.issuperset(labels):  # a dictionary may hold what no row uses
                used = pc.unique(column.indices).to_pylist()
                found.update(labels[i] for i in used if i is not None)
        elif not (pa.types.is_integer(column.type) and _added(found, column)):
            found.update(pc.unique(column).to_pylist())
    found.discard(None)
    return tuple(sorted(found))
