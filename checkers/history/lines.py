"""Lines of JSON → Parquet of the same types that Spark's reader would give them, by Arrow, at a tenth of its cost.

Decides which lines are beyond doubt. All others it writes to a file of their own, for Spark's reader: what a line that
is broken, or only unusual, means is said in one place. Knows nothing of histories but that a line is one JSON object.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute
import pyarrow.json
import pyarrow.parquet as pq
from pyspark.sql import types as T

CHUNK_BYTES = 32 << 20
"""How much is read at once; a chunk is longer where its last line is."""

BLOCK_BYTES = 4 << 20
"""What one thread reads at once. A longer line is odd."""

ODD_LINES = 64
"""How many odd lines are looked for in one chunk, by halving it; what is left of it then is odd as a whole."""

GROUP_ROWS = 1024
"""How many rows of one text a chunk has that are a row group of their own."""

_ARROW: dict[T.DataType, pa.DataType] = {
    T.LongType(): pa.int64(),
    T.IntegerType(): pa.int32(),
    T.StringType(): pa.string(),
    T.BooleanType(): pa.bool_(),
    T.DoubleType(): pa.float64(),
}


@dataclass(frozen=True, slots=True)
class Form:
    """How lines are read. kind: their fields; a line may lack some and have others, which are left out.

    put: makes of lines as many that Arrow can read, which wants maps from texts to numbers as lists of {"key",
    "value"}, and lists of one type; None where it is not sure of some. What is no JSON may not become any.
    """

    kind: T.StructType
    put: Callable[[bytes], bytes | None] = lambda lines: lines

    def read(self) -> pa.Schema:
        """What Arrow reads."""
        return pa.schema([(field.name, _arrow(field.dataType)) for field in self.kind.fields])

    def made(self, table: pa.Table) -> pa.Table:
        """With maps for what was read as lists of their entries."""
        for number, field in enumerate(self.kind.fields):
            if isinstance(field.dataType, T.MapType):
                table = table.set_column(number, field.name, _maps(table.column(number)))
        return table


def write_lines(
    path: Path,
    form: Form,
    parquet: Path,
    odd: Path,
    finished: Callable[[pa.Table], pa.Table] = lambda table: table,
    *,
    apart: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> int:
    """Write the lines of a file as one Parquet file and those that Arrow does not read as Spark would to `odd`, as they
    are. Returns how many are odd; a file of none is not written. Files that are there are replaced.

    finished: what is written of a table; of the same columns, whatever its rows are. apart: a column of texts by which
    rows are looked for: who wants those of one text reads hardly any others.
    """
    odd.unlink(missing_ok=True)
    parquet.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    fields = finished(form.made(form.read().empty_table())).schema
    with path.open("rb") as file, pq.ParquetWriter(parquet, fields, compression="snappy") as writer:
        for chunk in _chunks(file, chunk_bytes):
            tables, rest = _split(chunk, form)
            for table in tables:
                for rows in _groups(finished(form.made(table)), apart):
                    writer.write_table(rows)
            if rest:
                with odd.open("ab") as left:
                    left.writelines(rest)
                count += sum(lines.count(b"\n") + (not lines.endswith(b"\n")) for lines in rest)
    return count


def _groups(table: pa.Table, apart: str | None) -> list[pa.Table]:
    """What becomes row groups of its own: all rows of each text of which there are many, and the others. Readers leave
    groups out by the least and the greatest text in them.
    """
    if apart is None or not table.num_rows:
        return [table]
    texts = table.column(apart)
    counts = pyarrow.compute.value_counts(texts)
    many = counts.field("values").filter(pyarrow.compute.greater_equal(counts.field("counts"), GROUP_ROWS)).drop_null()
    rest = table.filter(pyarrow.compute.invert(pyarrow.compute.is_in(texts, many)))
    of_each = [table.filter(pyarrow.compute.equal(texts, text)) for text in many]
    return [group for group in (*of_each, rest) if group.num_rows]


def _arrow(kind: T.DataType) -> pa.DataType:
    if isinstance(kind, T.ArrayType):
        return pa.list_(_arrow(kind.elementType))
    if isinstance(kind, T.StructType):
        return pa.struct([(field.name, _arrow(field.dataType)) for field in kind.fields])
    if isinstance(kind, T.MapType):
        return pa.list_(pa.struct([("key", _arrow(kind.keyType)), ("value", _arrow(kind.valueType))]))
    return _ARROW[kind]


def _maps(entries: pa.ChunkedArray) -> pa.ChunkedArray:
    entry = entries.type.value_type
    made = [
        pa.MapArray.from_arrays(lists.offsets, lists.values.field(0), lists.values.field(1), mask=lists.is_null())
        for lists in entries.chunks
    ]
    return pa.chunked_array(made, pa.map_(entry.field(0).type, entry.field(1).type))


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Whole lines, and the last of a torn file for itself."""
    while chunk := file.read(size):
        chunk += b"" if chunk.endswith(b"\n") else file.readline()
        end = chunk.rfind(b"\n") + 1
        yield from (piece for piece in (chunk[:end], chunk[end:]) if piece)


def _split(chunk: bytes, form: Form) -> tuple[list[pa.Table], list[bytes]]:
    """(what Arrow reads, lines that it does not)."""
    tables: list[pa.Table] = []
    odd: list[bytes] = []
    left = [chunk]
    while left:
        lines = left.pop()
        table = _read(lines, form)
        if table is not None:
            tables.append(table)
        elif len(odd) < ODD_LINES and (middle := _middle(lines)):
            left += [lines[middle:], lines[:middle]]
        else:
            odd.append(lines)
    return tables, odd


def _middle(lines: bytes) -> int:
    """Where the second half begins, 0 for a single line."""
    half = lines.find(b"\n", len(lines) // 2) + 1
    if 0 < half < len(lines):
        return half
    return lines.rfind(b"\n", 0, len(lines) // 2) + 1


def _read(lines: bytes, form: Form) -> pa.Table | None:
    """A row for each line, or None where any of them is odd."""
    # For Spark a carriage return ends a line. Arrow crashes on a line that is `null`.
    if b"\r" in lines or not _are_objects(lines) or not _is_text(lines):
        return None
    put = form.put(lines)
    if put is None:
        return None
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(put),
            pyarrow.json.ReadOptions(block_size=BLOCK_BYTES),
            pyarrow.json.ParseOptions(explicit_schema=form.read(), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException:
        return None
    # Two objects on one line, one on two, or none on one.
    return table if table.num_rows == lines.count(b"\n") else None


def _are_objects(lines: bytes) -> bool:
    """By how each begins and ends. None then goes on over the next line: what has begun in it, and `}` has ended in
    it, wants a comma or a bracket there.
    """
    ends = lines.count(b"\n")
    return lines.startswith(b"{") and lines.count(b"\n{") == ends - 1 and lines.count(b"}\n") == ends


def _is_text(lines: bytes) -> bool:
    if lines.isascii():
        return True
    try:
        lines.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
