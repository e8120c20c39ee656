"""Lines of JSON → Parquet of the same types that Spark's reader would give them, by Arrow, at a tenth of its cost.

Decides which lines are beyond doubt. All others it writes to a file of their own, for Spark's reader: what a line that
is broken, or only unusual, means is said in one place. Knows nothing of histories but that a line is one JSON object.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
from pyspark.sql import types as T

CHUNK_BYTES = 32 << 20
"""How much is read at once; a chunk is longer where its last line is."""

BLOCK_BYTES = 4 << 20
"""What one thread reads at once. A longer line is odd."""

ODD_LINES = 64
"""How many odd lines are looked for in one chunk, by halving it; what is left of it then is odd as a whole."""

_ARROW: dict[T.DataType, pa.DataType] = {
    T.LongType(): pa.int64(),
    T.IntegerType(): pa.int32(),
    T.StringType(): pa.string(),
    T.BooleanType(): pa.bool_(),
    T.DoubleType(): pa.float64(),
}


def write_lines(path: Path, kind: T.StructType, parquet: Path, odd: Path, *, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Write the lines of a file as one Parquet file and those that Arrow does not read as Spark would to `odd`, as they
    are. Returns how many are odd; a file of none is not written. Files that are there are replaced.

    kind: fields that are no maps; a line may lack some and have others, which are left out.
    """
    fields = pa.schema([(field.name, _arrow(field.dataType)) for field in kind.fields])
    odd.unlink(missing_ok=True)
    parquet.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with path.open("rb") as file, pq.ParquetWriter(parquet, fields, compression="snappy") as writer:
        for chunk in _chunks(file, chunk_bytes):
            tables, rest = _split(chunk, fields)
            for table in tables:
                writer.write_table(table)
            if rest:
                with odd.open("ab") as left:
                    left.writelines(rest)
                count += sum(lines.count(b"\n") + (not lines.endswith(b"\n")) for lines in rest)
    return count


def _arrow(kind: T.DataType) -> pa.DataType:
    if isinstance(kind, T.ArrayType):
        return pa.list_(_arrow(kind.elementType))
    if isinstance(kind, T.StructType):
        return pa.struct([(field.name, _arrow(field.dataType)) for field in kind.fields])
    return _ARROW[kind]


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Whole lines, and the last of a torn file for itself."""
    while chunk := file.read(size):
        chunk += b"" if chunk.endswith(b"\n") else file.readline()
        end = chunk.rfind(b"\n") + 1
        yield from (piece for piece in (chunk[:end], chunk[end:]) if piece)


def _split(chunk: bytes, fields: pa.Schema) -> tuple[list[pa.Table], list[bytes]]:
    """(what Arrow reads, lines that it does not)."""
    tables: list[pa.Table] = []
    odd: list[bytes] = []
    left = [chunk]
    while left:
        lines = left.pop()
        table = _read(lines, fields)
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


def _read(lines: bytes, fields: pa.Schema) -> pa.Table | None:
    """A row for each line, or None where any of them is odd."""
    # For Spark a carriage return ends a line. Arrow crashes on a line that is `null`.
    if b"\r" in lines or not _are_objects(lines) or not _is_text(lines):
        return None
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(lines),
            pyarrow.json.ReadOptions(block_size=BLOCK_BYTES),
            pyarrow.json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore"),
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
