"""The `.txnindex` files of one log: its aborted transactions, by the segment that holds their markers.

Only segments that hold the marker of an aborted transaction have such a file. Nothing of them is kept in memory but
which segments have one, and no file is left open: an entry is found by bisection in the file. An index cannot be
checked against its segment, as other indexes are: where it is doubted, it has to be derived from the log again.
What happens to a segment's name happens to its index: `SegmentFiles` renames and syncs it, and `forget` and `note` say
here what became of it. Source: kafka TransactionIndex, LogSegment.collectAbortedTxns, LocalLog.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO, Final, NamedTuple

from broker.log.files.checkpoints import fsync_dir, replace_file
from broker.log.files.names import TXN_INDEX_SUFFIX, remove_if_there, segment_path
from broker.log.files.open_segments import OpenSegments
from broker.log.indexes.aborted_txn import ENTRY_SIZE, AbortedTxn, TransactionIndexDamaged, decode, encode
from broker.model.ids import Offset

_READ_BYTES = 256 * ENTRY_SIZE
LOG_END: Final = 2**63 - 1


class Doubt(NamedTuple):
    """The indexes of segments with bases in [first, end) are not to be believed."""

    first: Offset
    end: Offset = LOG_END


class TransactionIndexes:
    """False where the log has none. Reads and changes of files raise OSError."""

    __slots__ = ("_bases", "_directory", "_held", "_newest", "_open_segments", "doubt")

    def __init__(
        self, directory: str, open_segments: OpenSegments, bases: Iterable[Offset] = (), doubt: Doubt | None = None
    ) -> None:
        """bases: of the segments that have an index. open_segments: give a descriptor back where none is free."""
        self._directory = directory
        self._open_segments = open_segments
        self._bases = sorted(bases)
        self._held: dict[Offset, bytes] = {}
        """Indexes of segments whose files are about to have other names, also of those that have none."""
        self._newest: Offset | None = None
        """No marker of an aborted transaction lies beyond it; None before that was read."""
        self.doubt = doubt
        """Until `rebuild` no index in there is to be read."""

    def __bool__(self) -> bool:
        return bool(self._bases) or self.doubt is not None

    def append(self, base: Offset, entries: Sequence[AbortedTxn]) -> bool:
        """Write entries behind those of a segment. True where it had none: its index has a new name."""
        data = encode(entries)
        path = self._path(base)
        fd = self._open_segments.with_room(lambda: os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
        try:
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)
        self._newest = entries[-1].last_offset
        new = not self._bases or base > self._bases[-1]
        if new:
            self._bases.append(base)
        return new

    def none_from(self, start: Offset) -> bool:
        """Whether no marker of an aborted transaction lies at or beyond start. Raises TransactionIndexDamaged."""
        if self._newest is None:
            self._newest = self._find_newest()
        return self._newest < start

    def overlapping(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        """Those with records in [start, end), by marker, and perhaps more that end later.

        Raises TransactionIndexDamaged.
        """
        found: list[AbortedTxn] = []
        for base in self._bases[max(bisect_right(self._bases, start) - 1, 0) :]:
            with self._open(base) as file:
                if _collect(file, base, start, end, found):
                    break
        return found

    def cut(self, end: Offset) -> bool:
        """Forget the transactions whose marker lies at or beyond end, the log's new one. True where a name is gone."""
        keep = bisect_left(self._bases, end)
        gone = self._bases[keep:]
        for base in gone:
            remove_if_there(self._path(base))
        del self._bases[keep:]
        self._newest = None
        if self._bases:
            self._cut_last(self._bases[-1], end)
        return bool(gone)

    def _cut_last(self, base: Offset, end: Offset) -> None:
        try:
            with self._open(base) as file:
                kept = _first_from(file, base, end)
        except TransactionIndexDamaged:
            self.distrust(Doubt(base))
            return
        fd = self._open_segments.with_room(lambda: os.open(self._path(base), os.O_WRONLY))
        try:
            os.ftruncate(fd, kept * ENTRY_SIZE)
        finally:
            os.close(fd)

    def clear(self) -> None:
        """Forget all: the log is empty."""
        for base in self._bases:
            remove_if_there(self._path(base))
        self._bases.clear()
        self._newest = self.doubt = None

    def distrust(self, doubt: Doubt) -> None:
        """What these indexes say cannot be right, or may not be."""
        known = self.doubt
        self.doubt = doubt if known is None else Doubt(min(doubt.first, known.first), max(doubt.end, known.end))

    def rebuild(self, doubt: Doubt, entries: Mapping[Offset, Sequence[AbortedTxn]]) -> None:
        """Let the segments with bases in there have these indexes, by base, and no others; on disk for good."""
        for base in self._bases[bisect_left(self._bases, doubt.first) : bisect_left(self._bases, doubt.end)]:
            if base not in entries:
                self.drop(base)
        for base, own in entries.items():
            if base in self._held:
                # Its files may have other names by now; a start after a stop in between reads no index of this name.
                self._held[base] = encode(own)
            else:
                replace_file(self._path(base), encode(own), sync=True)
            if base not in self._bases:
                insort(self._bases, base)
        fsync_dir(self._directory)
        self._newest = self.doubt = None

    # What becomes of segments

    def forget(self, base: Offset) -> None:
        """The segment is gone, or its index is. Touches no file."""
        self.release(base)
        place = bisect_left(self._bases, base)
        if place < len(self._bases) and self._bases[place] == base:
            del self._bases[place]

    def drop(self, base: Offset) -> None:
        """The segment has no aborted transaction, whatever file of its name there is."""
        if base in self._held:
            self._held[base] = b""
            return
        self.forget(base)
        remove_if_there(self._path(base))

    def note(self, base: Offset) -> None:
        """A segment that was put in has an index, if there is a file."""
        if base not in self._bases and os.path.exists(self._path(base)):
            insort(self._bases, base)

    def hold(self, base: Offset) -> None:
        """Keep a segment's index at hand: its file is about to have another name, and reads go on."""
        data = b""
        if base in self._bases:
            try:
                with self._open(base) as file:
                    data = file.read()
            except TransactionIndexDamaged:
                self.distrust(Doubt(base, base + 1))
        self._held[base] = data

    def release(self, base: Offset) -> None:
        """Undo `hold`. Touches no file."""
        self._held.pop(base, None)

    def check(self, base: Offset) -> None:
        """Read all of a segment's index. Raises TransactionIndexDamaged."""
        if base in self._bases:
            with self._open(base) as file:
                for _ in decode(base, file.read()):
                    pass

    def _find_newest(self) -> Offset:
        for base in reversed(self._bases):
            with self._open(base) as file:
                count = _entries(file, base)
                if count:
                    return _entry(file, base, count - 1).last_offset
        return -1

    def _path(self, base: Offset) -> str:
        return segment_path(self._directory, base, TXN_INDEX_SUFFIX)

    def _open(self, base: Offset) -> BinaryIO:
        """Raises TransactionIndexDamaged where somebody has removed the file."""
        held = self._held.get(base)
        if held is not None:
            return io.BytesIO(held)
        try:
            return self._open_segments.with_room(lambda: open(self._path(base), "rb", buffering=0))
        except FileNotFoundError:
            raise TransactionIndexDamaged(base, "the file is gone") from None


def _entries(file: BinaryIO, base: Offset) -> int:
    count, rest = divmod(file.seek(0, os.SEEK_END), ENTRY_SIZE)
    if rest:
        raise TransactionIndexDamaged(base, f"{rest} bytes behind {count} entries of {ENTRY_SIZE} bytes")
    return count


def _entry(file: BinaryIO, base: Offset, number: int) -> AbortedTxn:
    file.seek(number * ENTRY_SIZE)
    (entry,) = decode(base, file.read(ENTRY_SIZE))
    return entry


def _first_from(file: BinaryIO, base: Offset, offset: Offset) -> int:
    """Number of entries before the first whose marker lies at or beyond offset. Raises TransactionIndexDamaged."""
    low, high = 0, _entries(file, base)
    while low < high:
        middle = (low + high) // 2
        if _entry(file, base, middle).last_offset < offset:
            low = middle + 1
        else:
            high = middle
    return low


def _collect(file: BinaryIO, base: Offset, start: Offset, end: Offset, found: list[AbortedTxn]) -> bool:
    """Add the entries of one segment that overlap [start, end); True when no later entry, of any segment, does."""
    file.seek(_first_from(file, base, start) * ENTRY_SIZE)
    while data := file.read(_READ_BYTES):
        for entry in decode(base, data):
            if entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                # Whatever is aborted behind it began at or beyond that offset.
                return True
    return False
