"""A `.log` file: a line per batch, and per record where the options say so.

Beyond what Kafka's tool says: why bytes are no batch and where the next one begins, and offsets that go back, which no
CRC covers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO, Final

from broker.dump.lines import Contents, batch_line, record_line
from broker.dump.report import Finding, Report
from broker.dump.segment_reader import CHUNK_BYTES, Batch, Damage, read_segment
from broker.wire.compression import INFLATED_BYTES_MAX
from broker.wire.record_batch import CorruptBatch
from broker.wire.records import iter_records

_INT32_MAX: Final = 2**31 - 1
_OPENED_MAX: Final = INFLATED_BYTES_MAX
"""Bytes of a batch, packed or not, for it to be opened."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """deep: a line per record. contents: key and value too, like this. bytes_max: of the file, None for all."""

    deep: bool = False
    contents: Contents | None = None
    metadata: bool = True
    bytes_max: int | None = None


class LogDump:
    """One file's dump."""

    def __init__(self, path: str, base_offset: int, options: LogOptions, report: Report) -> None:
        self._path = path
        self._base_offset = base_offset
        self._options = options
        self._report = report
        self._last_record: int | None = None

    def run(self) -> None:
        """Raises OSError."""
        report, options = self._report, self._options
        report.line(f"Log starting offset: {self._base_offset}")
        with open(self._path, "rb", buffering=CHUNK_BYTES) as file:
            self._dump(file, os.fstat(file.fileno()).st_size, options)

    def _dump(self, file: BinaryIO, size: int, options: LogOptions) -> None:
        expected = self._base_offset
        keep_max = _OPENED_MAX if options.deep else 0
        for found in read_segment(file, size, self._base_offset, keep_max, options.bytes_max):
            if isinstance(found, Damage):
                self._damaged(found, size)
                continue
            self._report.line(batch_line(found.header, found.position, found.valid))
            self._check(found, expected)
            if found.valid:
                expected = found.header.last_offset + 1
            if options.deep:
                self._dump_records(found)

    def _damaged(self, damage: Damage, size: int) -> None:
        if damage.resumes is None:
            # Kafka's line, with the name alone.
            name = os.path.basename(self._path)
            self._report.line(f"Found {size - damage.position} invalid bytes at the end of {name}")
            behind = (
                "no valid batch was found behind" if damage.searched else "so much is damaged that the rest is left"
            )
            self._problem(damage.position, f"{damage.reason}; {behind}")
        else:
            next_one = f"the next valid batch is at position {damage.resumes.position}"
            self._problem(damage.position, f"{damage.reason}; {next_one}, offset {damage.resumes.base_offset}")

    def _check(self, batch: Batch, expected: int) -> None:
        header = batch.header
        if not batch.valid:
            self._problem(batch.position, f"CRC32C is {batch.crc:#010x}, the header says {header.crc:#010x}")
        elif header.base_offset < expected:
            self._problem(batch.position, f"base offset {header.base_offset}, {expected} or more is due")
        elif header.last_offset - self._base_offset > _INT32_MAX:
            most = self._base_offset + _INT32_MAX
            self._problem(batch.position, f"last offset {header.last_offset}, {most} is the most in this segment")

    def _dump_records(self, batch: Batch) -> None:
        if batch.data is None:
            size = batch.header.size
            self._problem(batch.position, f"a batch of {size} bytes is not opened, {_OPENED_MAX} are the most")
            return
        options, header = self._options, batch.header
        try:
            for record in iter_records(header, memoryview(batch.data)):
                self._follow(record.offset)
                self._report.line(record_line(header, record, options.metadata, options.contents))
        except CorruptBatch as bad:
            self._problem(batch.position, f"its records cannot be read: {bad.reason}")

    def _follow(self, offset: int) -> None:
        last, self._last_record = self._last_record, offset
        if last is not None and offset != last + 1:
            # A cleaned log has gaps; offsets that go back are reported with their batch.
            path = os.path.abspath(self._path)
            self._report.pair(Finding.NON_CONSECUTIVE, path, last, offset, harmless=True)

    def _problem(self, position: int, reason: str) -> None:
        self._report.problem(self._path, f"at position {position}: {reason}")
