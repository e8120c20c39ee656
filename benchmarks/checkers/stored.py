"""A made history as the Parquet tables that the checkers read; in pieces, by several processes.

A process holds one piece at a time, whatever the size of the history. Columns in which all is null are left out: the
readers' schema has them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.checkers.chunks import NULL, Columns, tables_of
from benchmarks.checkers.closing import rows_of
from benchmarks.checkers.planted import Anomaly, plan
from benchmarks.checkers.shape import Shape, Unit

FORMAT = 2
"""Of what is made: another one makes stored histories anew."""

_TEXTS = ("f", "phase", "p", "node", "reader", "consumer", "outcome", "error", "kind", "leader")
_INTS = ("acks", "nth", "of", "n_values", "isolation", "leader_epoch", "leader_epoch_answered", "epoch", "returned")
_BOOLS = ("sentinel", "in_order", "tombstone", "ascending", "epochs_ascend", "intact", "observed")
_KINDS: Mapping[str, pa.DataType] = {
    **dict.fromkeys(_TEXTS, pa.string()),
    **dict.fromkeys((*_INTS, "in_range", "highest_epoch"), pa.int32()),
    **dict.fromkeys(_BOOLS, pa.bool_()),
    "isr": pa.list_(pa.int32()),
}
TABLES = ("ops", "sends", "requests", "polls", "deletions", "coordination", "processed", "marks")
_AT_ONCE = 64


def make(shape: Shape, folder: Path, processes: int = 2) -> list[Anomaly]:
    """Write all tables below this folder, unless they are there. Returns what is planted."""
    anomalies = plan(shape)
    made = folder / "made.json"
    what = {"format": FORMAT, "blocks": shape.blocks, "seed": shape.seed}
    if made.is_file() and json.loads(made.read_text(encoding="utf-8")) == what:
        return anomalies
    shutil.rmtree(folder, ignore_errors=True)
    for table in TABLES:
        (folder / table).mkdir(parents=True)
    write = partial(write_unit, shape, anomalies, folder)
    with ProcessPoolExecutor(processes) as pool:
        units = shape.units()
        while some := list(islice(units, _AT_ONCE)):
            list(pool.map(write, some))
    write_closing(shape, anomalies, folder)
    made.write_text(json.dumps(what), encoding="utf-8")
    return anomalies


def write_unit(shape: Shape, anomalies: Iterable[Anomaly], folder: Path, unit: Unit) -> None:
    """One file of each table that the piece has rows of."""
    for table, columns in tables_of(shape, unit, anomalies).items():
        _write(folder, table, unit.name, arrow(columns))


def write_closing(shape: Shape, anomalies: Iterable[Anomaly], folder: Path) -> None:
    """How the history begins and ends: one file of each table."""
    for table, rows in rows_of(shape, anomalies).items():
        _write(folder, table, "closing", _of_rows(rows))


def arrow(columns: Columns) -> pa.Table:
    return pa.table({name: _array(name, column) for name, column in columns.items()})


def _array(name: str, column: np.ndarray[Any, np.dtype[Any]]) -> pa.Array:
    kind = _KINDS.get(name, pa.int64())
    if column.dtype == object or column.dtype == bool:
        return pa.array(column, kind)
    return pa.array(column, pa.int64(), mask=column == NULL).cast(kind)


def _of_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows], _KINDS.get(name, pa.int64())) for name in names})


def _write(folder: Path, table: str, name: str, rows: pa.Table) -> None:
    pq.write_table(rows, folder / table / f"{name}.parquet")
