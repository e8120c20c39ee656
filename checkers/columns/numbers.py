"""Columns of a piece of a table as arrays of numbers, and sums over stretches of its rows.

Runs in Spark's Python workers. All arrays of one piece are of one length; 64-bit integers where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LEAST, MOST = np.int64(-(1 << 63)), np.int64((1 << 63) - 1)
FOLDED: Mapping[str, np.ufunc] = {
    **dict.fromkeys(("offsets", "bits"), np.bitwise_or),
    "begin": np.minimum,
    "end": np.maximum,
}
"""How rows of one stretch become one: by sums, but for these."""


def numbers(column: pa.Array) -> tuple[Numbers, Mask]:
    """The numbers, 0 where there is none, and where there is one."""
    there = known(column)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64), there
    filled = column.fill_null(0) if column.null_count else column
    return filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), there


def known(column: pa.Array) -> Mask:
    """Where the column is not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def true(column: pa.Array) -> Mask:
    """Where a column of truths is true, and not null."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.bool_)
    filled = column.fill_null(False) if column.null_count else column
    found: Mask = filled.to_numpy(zero_copy_only=False)
    return found


class Names:
    """Texts of a file as small numbers, the same in all its pieces; null is one of them."""

    def __init__(self) -> None:
        self._number: dict[str | None, int] = {}

    def __getitem__(self, number: int) -> str | None:
        return list(self._number)[number]

    def number(self, name: str | None) -> int:
        return self._number.setdefault(name, len(self._number))

    def of(self, column: pa.Array) -> Numbers:
        """column: a dictionary of texts, or null."""
        if pa.types.is_null(column.type):
            return np.full(len(column), self.number(None), np.int64)
        own = [self.number(name) for name in column.dictionary.to_pylist()]
        indices = column.indices
        if indices.null_count:
            own.append(self.number(None))
            indices = indices.fill_null(len(own) - 1)
        found: Numbers = np.array(own, np.int64)[indices.to_numpy(zero_copy_only=False)]
        return found

    def texts(self, found: Numbers) -> pa.Array:
        """The texts that these numbers stand for."""
        return pa.array(list(self._number), pa.string()).take(pa.array(found))


def stretches(*keys: Numbers) -> Numbers:
    """Where rows begin that are unlike those before them in one of these columns."""
    rows = len(keys[0])
    if not rows:
        return np.zeros(0, np.int64)
    new = np.zeros(rows, np.bool_)
    new[0] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def folded(keys: Sequence[str], columns: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """One row for each stretch of rows that are next to each other and alike in these columns."""
    starts = stretches(*(columns[key] for key in keys))
    if not len(starts):
        return dict(columns)
    return {
        name: column[starts] if name in keys else FOLDED.get(name, np.add).reduceat(column, starts)
        for name, column in columns.items()
    }


def gathered(keys: Sequence[str], parts: Sequence[Mapping[str, Numbers]]) -> dict[str, Numbers]:
    """One row for all that are alike in these columns, wherever they are."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort([columns[key] for key in reversed(keys)])
    return folded(keys, {name: column[order] for name, column in columns.items()})


def among(ascending: Numbers, wanted: Numbers) -> tuple[Mask, npt.NDArray[np.intp]]:
    """Which numbers are among these, and where."""
    at = np.searchsorted(ascending, wanted)
    there = at < len(ascending)
    there[there] = ascending[at[there]] == wanted[there]
    return there, at


def any_between(ascending: Numbers, least: int, most: int) -> bool:
    """Whether one of these numbers is among [least, most]."""
    return bool(np.searchsorted(ascending, least) < np.searchsorted(ascending, most, side="right"))


def table(columns: Mapping[str, Any]) -> pa.Table:
    """Of arrays of numbers, or of Arrow's."""
    return pa.table(
        {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in columns.items()}
    )
