"""Rows of a table cut by partition, and put together again: what of an exchange is done by workers.

Runs in Spark's Python workers, which are sent this code and need pyarrow and numpy alone.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from zlib import crc32

import numpy as np
import pyarrow as pa

from checkers.columns.numbers import stretches
from checkers.columns.work import File, Work, keep_archives, opened

Piece = tuple[str, tuple[str, bytes]]
"""A partition; of a table, by its name, some rows of that partition, as Arrow's stream and without the column `p`."""

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class OfPartition(Protocol[_T_co]):
    """What is made of all rows of a partition, by the name of their table."""

    def __call__(self, p: str, tables: Mapping[str, pa.Table]) -> _T_co: ...


def slot_of(p: str) -> int:
    """The same in every process, as `hash` is not."""
    return crc32(p.encode())


def cut(name: str, rows: pa.Table) -> Iterator[Piece]:
    """Rows of a table that has `p`, by that. What has no partition is left out."""
    if not rows.num_rows:
        return
    whole = _one_chunk(rows)
    p = whole.column("p").combine_chunks()
    number = p.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.argsort(number, kind="stable")
    starts = stretches(number[order])
    rest = whole.drop_columns(["p"])
    if len(starts) > 1:
        rest = rest.take(pa.array(order))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        if number[order[start]] >= 0:
            yield p.dictionary[int(number[order[start]])].as_py(), (name, _encoded(rest.slice(start, end - start)))


@dataclass(frozen=True, slots=True)
class CutPath:
    """Pieces of what comes of a file that the worker sees. works: of each table, by its number."""

    works: Sequence[Work]

    def __call__(self, task: tuple[int, str]) -> Iterator[Piece]:
        keep_archives()
        number, path = task
        return _cut_all(self.works[number](File(opened(path))))


@dataclass(frozen=True, slots=True)
class CutContent:
    """Pieces of what comes of a file that is handed over as bytes."""

    work: Work

    def __call__(self, row: Any) -> Iterator[Piece]:
        keep_archives()
        return _cut_all(self.work(File(opened(io.BytesIO(row.content)))))


@dataclass(frozen=True, slots=True)
class Together(Generic[_T]):
    """What is made of each partition, of the pieces of several."""

    work: OfPartition[_T]

    def __call__(self, pieces: Iterable[Piece]) -> Iterator[tuple[str, _T]]:
        keep_archives()
        of: dict[str, dict[str, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        for p, (name, rows) in pieces:
            of[p][name].append(rows)
        for p in sorted(of):
            tables = of.pop(p)
            yield p, self.work(p, {name: _decoded(tables.pop(name)) for name in sorted(tables)})


def _cut_all(made: Mapping[str, pa.Table]) -> Iterator[Piece]:
    for name, rows in made.items():
        yield from cut(name, rows)


def _encoded(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _decoded(pieces: list[bytes]) -> pa.Table:
    return _one_chunk(pa.concat_tables([pa.ipc.open_stream(piece).read_all() for piece in pieces]))


def _one_chunk(rows: pa.Table) -> pa.Table:
    """With texts as dictionaries, each of one for all rows."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            rows = rows.set_column(number, field.name, rows.column(number).dictionary_encode())
    return rows.unify_dictionaries().combine_chunks()
