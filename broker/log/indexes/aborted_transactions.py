"""The aborted transactions of one log, in the `.txnindex` files beside its segments.

Only segments that hold the marker of an aborted transaction have such a file. Nothing of them is kept in memory but
which segments have one, and no file is left open: an entry is found by bisection in the file.
What happens to a segment's name happens to its index: `SegmentFiles` renames and syncs it, and `forget` and `note`
say here what became of it. Source: kafka TransactionIndex, LogSegment.collectAbortedTxns, LocalLog.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO

from broker.log.files.checkpoints import fsync_dir, replace_file
from broker.log.files.names import TXN_INDEX_SUFFIX, remove_if_there, segment_path
from broker.log.indexes.transaction_index import ENTRY_SIZE, AbortedTxn, BadTransactionIndex, decode, encode
from broker.model.ids import Offset

_READ_BYTES = 256 * ENTRY_SIZE


class AbortedTransactions:
    """False where the log has none. Every method but `forget`, `release` and `distrust` raises OSError."""

    __slots__ = ("_bases", "_directory", "_held", "unindexed_from")

    def __init__(self, directory: str, bases: Iterable[Offset] = (), unindexed_from: Offset | None = None) -> None:
        """bases: of the segments that have an index."""
        self._directory = directory
        self._bases = sorted(bases)
        self._held: dict[Offset, bytes] = {}
        """Indexes whose files are about to have other names."""
        self.unindexed_from = unindexed_from
        """From the segment with this base on the indexes are not to be believed: `rebuild` writes them anew."""

    def __bool__(self) -> bool:
        return bool(self._bases)

    def append(self, base: Offset, entries: Sequence[AbortedTxn]) -> bool:
        """Write entries behind those of a segment. True where it had none: its index has a new name."""
        data = encode(entries)
        fd = os.open(self._path(base), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)
        new = not self._bases or base > self._bases[-1]
        if new:
            self._bases.append(base)
        return new

    def overlapping(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        """Those with records in [start, end), by marker, and perhaps more that end later. Raises BadTransactionIndex.

        What is aborted behind an entry began at or beyond its last stable offset.
        """
        found: list[AbortedTxn] = []
        for base in self._bases[max(bisect_right(self._bases, start) - 1, 0) :]:
            with self._open(base) as file:
                if _collect(file, base, start, end, found):
                    break
        return found

    def cut(self, end: Offset) -> None:
        """Forget the transactions whose marker lies at or beyond end, the log's new one."""
        keep = bisect_left(self._bases, end)
        for base in self._bases[keep:]:
            remove_if_there(self._path(base))
        del self._bases[keep:]
        if not self._bases:
            return
        base = self._bases[-1]
        try:
            with self._open(base) as file:
                kept = _first_from(file, base, end)
        except BadTransactionIndex:
            self.distrust(base)
            return
        os.truncate(self._path(base), kept * ENTRY_SIZE)

    def distrust(self, base: Offset) -> None:
        """What the index of this segment says cannot be right."""
        self.unindexed_from = base if self.unindexed_from is None else min(base, self.unindexed_from)

    def rebuild(self, first: Offset, entries: Mapping[Offset, Sequence[AbortedTxn]]) -> None:
        """Let the segments from the one with base `first` on have these indexes, by base, and no others.

        They are on disk for good then.
        """
        for base in self._bases[bisect_left(self._bases, first) :]:
            if base not in entries:
                self.forget(base)
                remove_if_there(self._path(base))
        for base, own in entries.items():
            replace_file(self._path(base), encode(own), sync=True)
            self.note(base)
        fsync_dir(self._directory)
        self.unindexed_from = None

    # What becomes of segments

    def forget(self, base: Offset) -> None:
        """The segment is gone, or its index is."""
        self.release(base)
        place = bisect_left(self._bases, base)
        if place < len(self._bases) and self._bases[place] == base:
            del self._bases[place]

    def note(self, base: Offset) -> None:
        """A segment that was put in has an index, if there is a file."""
        if base not in self._bases and os.path.exists(self._path(base)):
            insort(self._bases, base)

    def hold(self, base: Offset) -> None:
        """Keep a segment's index at hand: its file is about to have another name, and reads go on."""
        if base in self._bases:
            with self._open(base) as file:
                self._held[base] = file.read()

    def release(self, base: Offset) -> None:
        """Undo `hold`."""
        self._held.pop(base, None)

    def _path(self, base: Offset) -> str:
        return segment_path(self._directory, base, TXN_INDEX_SUFFIX)

    def _open(self, base: Offset) -> BinaryIO:
        held = self._held.get(base)
        return io.BytesIO(held) if held is not None else open(self._path(base), "rb", buffering=0)


def _first_from(file: BinaryIO, base: Offset, offset: Offset) -> int:
    """Number of entries before the first whose marker lies at or beyond offset. Raises BadTransactionIndex."""
    high, rest = divmod(file.seek(0, os.SEEK_END), ENTRY_SIZE)
    if rest:
        raise BadTransactionIndex(base, f"{rest} bytes behind {high} entries of {ENTRY_SIZE} bytes")
    low = 0
    while low < high:
        middle = (low + high) // 2
        file.seek(middle * ENTRY_SIZE)
        (entry,) = decode(base, file.read(ENTRY_SIZE))
        if entry.last_offset < offset:
            low = middle + 1
        else:
            high = middle
    return low


def _collect(file: BinaryIO, base: Offset, start: Offset, end: Offset, found: list[AbortedTxn]) -> bool:
    """Add the entries of one segment that overlap [start, end); True when no later segment has more."""
    file.seek(_first_from(file, base, start) * ENTRY_SIZE)
    while data := file.read(_READ_BYTES):
        for entry in decode(base, data):
            if entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return True
    return False
