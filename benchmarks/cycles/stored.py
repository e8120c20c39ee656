"""A made history of transactions as the Parquet tables that the checkers read, written piece by piece."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.checkers.chunks import Columns
from benchmarks.checkers.stored import TABLES, arrow
from benchmarks.cycles.shape import Shape, tables_of


def make(shape: Shape, folder: Path) -> None:
    """Write all tables below this folder, which is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    for table in TABLES:
        (folder / table).mkdir(parents=True)
    for first, end in shape.pieces():
        for table, columns in tables_of(shape, first, end).items():
            pq.write_table(_arrow(table, columns), folder / table / f"{first:09}.parquet")


def _arrow(table: str, columns: Columns) -> pa.Table:
    rows = arrow(columns)
    if table != "coordination":
        return rows
    commits = pa.repeat(pa.scalar(True), rows.num_rows)
    asked = pa.StructArray.from_arrays([rows["asked"].combine_chunks(), commits], ["txn", "commit"])
    return rows.set_column(rows.schema.get_field_index("asked"), "asked", asked)
