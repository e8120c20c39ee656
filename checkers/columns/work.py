"""What a worker does with one file of a table: it reads some rows at a time, and hands on what comes of them.

Runs in Spark's Python workers, which are sent this code and need pyarrow and numpy alone.
"""

from __future__ import annotations

import io
import os
import zipimport
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.columns.numbers import Mask

ROWS = 1 << 17
"""That are read at a time: their columns of numbers stay in a core's cache."""


_T = TypeVar("_T", covariant=True)


class Shared(Protocol[_T]):
    """What all workers are given once, as Spark's `Broadcast` is."""

    @property
    def value(self) -> _T: ...


class Work(Protocol):
    """What is done to a file of a table; what comes of it, by name. Of a name that has no rows nothing need come."""

    def __call__(self, file: File) -> Mapping[str, pa.Table]: ...


@dataclass(frozen=True, slots=True)
class File:
    """A table's file that a worker has open. Its texts come as dictionaries."""

    parquet: pq.ParquetFile

    def pieces(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Its rows, some at a time, with these columns; one that it lacks is null."""
        there = [name for name in names if name in self.parquet.schema_arrow.names]
        for piece in self.parquet.iter_batches(batch_size=ROWS, columns=there):
            columns = [piece.column(name) if name in there else pa.nulls(piece.num_rows) for name in names]
            yield pa.RecordBatch.from_arrays(columns, names=list(names))

    def bounds(self, name: str) -> tuple[int, int]:
        """Between which numbers those of a column are; of any 64 bits where the file does not say."""
        metadata = self.parquet.metadata
        paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        told = [group.column(paths.index(name)).statistics for group in groups if name in paths]
        known = [one for one in told if one is not None and one.has_min_max]
        if len(known) < len(groups):
            return -(1 << 63), (1 << 63) - 1
        return min((one.min for one in known), default=0), max((one.max for one in known), default=-1)

    def chosen(self, masks: Sequence[Mask]) -> pa.Table:
        """Its rows where these masks say so, with all columns. masks: of the rows in their order, one after the other.

        Arrow begins a piece where a dictionary of some column begins, so that pieces with other columns are others.
        """
        mask, at = np.concatenate(masks), 0
        if len(mask) != self.parquet.metadata.num_rows:
            raise ValueError(f"a mask of {len(mask)} rows for a file of {self.parquet.metadata.num_rows}")
        found = []
        for piece in self.parquet.iter_batches(batch_size=ROWS):
            here, at = mask[at : at + piece.num_rows], at + piece.num_rows
            if here.any():
                found.append(piece.filter(pa.array(here)))
        return pa.Table.from_batches(found, self.parquet.schema_arrow)


@dataclass(frozen=True, slots=True)
class OfPath:
    """A file that the worker sees: how many rows it wrote below `out`, by name. A task that is carried out again writes
    the same once more.
    """

    work: Work

    def __call__(self, task: tuple[str, str, str]) -> dict[str, int]:
        keep_archives()
        path, out, piece = task
        made = self.work(File(opened(path)))
        for name, table in made.items():
            if table.num_rows:
                to = f"{out}/{name}/{piece}.parquet"
                beside = f"{out}/{name}/.{piece}.{uuid4().hex}"
                pq.write_table(table, beside, compression="snappy")
                os.replace(beside, to)
        return {name: table.num_rows for name, table in made.items()}


@dataclass(frozen=True, slots=True)
class OfContent:
    """A file that is handed over as bytes: rows of what comes of it, each with its name. names: columns of each."""

    work: Work
    names: Mapping[str, Sequence[str]]

    def __call__(self, row: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
        keep_archives()
        for name, table in self.work(File(opened(io.BytesIO(row.content)))).items():
            there = {column: table.column(column).to_pylist() for column in table.column_names}
            nothing = [None] * table.num_rows
            for values in zip(*[there.get(column, nothing) for column in self.names[name]], strict=True):
                yield name, values


def keep_archives() -> None:
    """Have this process take it that no archive of modules changes, from now on.

    For each task a worker has Python forget what it knows of its folders of modules (`importlib.invalidate_caches`).
    Python reads the list of files in pyspark's archive anew then, once for each of its packages that is in use: a tenth
    of a second, as long as it takes to go through a short file.
    """
    zipimport.zipimporter.invalidate_caches = _kept  # type: ignore[method-assign]


def _kept(self: zipimport.zipimporter) -> None:
    """Nothing is forgotten."""


def opened(source: Any) -> pq.ParquetFile:
    """A path, or what can be read as a file. Texts come as dictionaries."""
    texts = [field.name for field in pq.read_schema(source) if pa.types.is_string(field.type)]
    if not isinstance(source, str):
        source.seek(0)
    return pq.ParquetFile(source, read_dictionary=texts)
