"""The batches of a `.log` file in order, and the damage between them.

Memory is bounded by keep_max and one chunk, whatever a length says. A batch whose header is possible comes out, its CRC
computed, right or wrong; bytes that cannot be a batch come out as Damage, and reading goes on at the next whole, valid
batch, which distinguishes damage in the middle from a torn end. Knows nothing of printing. Source: FileLogInputStream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from crc32c import crc32c

from broker.log.files.batch_scan import BadBatch, BatchAt, find_valid_batch, parse_header
from broker.wire.record_batch import CRC_START, HEADER, HEADER_SIZE, BatchHeader

CHUNK_BYTES: Final = 1 << 20
_DAMAGES_MAX: Final = 1000
"""Each may cost a search, so a file of nothing else is given up."""


class Batch(NamedTuple):
    """crc: computed. data: the whole batch, None where it is larger than was to be kept."""

    position: int
    header: BatchHeader
    crc: int
    data: bytes | None

    @property
    def valid(self) -> bool:
        """Whether the bytes are those that the header's CRC-32C was made of."""
        return self.crc == self.header.crc


class Damage(NamedTuple):
    """Bytes from position on are no batch. resumes: the next valid batch; None where none was found, and at the end."""

    position: int
    reason: str
    resumes: BatchAt | None
    searched: bool


def read_segment(
    file: BinaryIO, size: int, base_offset: int, keep_max: int = 0, limit: int | None = None
) -> Iterator[Batch | Damage]:
    """What lies in the first `size` bytes of a file opened with a buffer; its end may be Damage.

    keep_max: bytes of the largest batch whose content comes along. limit: a batch that ends beyond ends the reading.
    """
    position = search_from = damages = 0
    while position < size and (limit is None or position < limit):
        try:
            batch = _read_batch(file, position, size, keep_max, limit)
        except BadBatch as bad:
            damages += 1
            search = damages <= _DAMAGES_MAX
            # A batch that failed its CRC before may have lied about its length, so good ones may lie within it.
            found = find_valid_batch(file.fileno(), search_from, size, base_offset) if search else None
            yield Damage(bad.position, bad.reason, found, search)
            if found is None:
                return
            position = search_from = found.position
            file.seek(position)
            continue
        if batch is None:
            return
        yield batch
        position += batch.header.size
        if batch.valid:
            search_from = position


def _read_batch(file: BinaryIO, position: int, size: int, keep_max: int, limit: int | None) -> Batch | None:
    """The batch where the file stands; None if it ends beyond limit. Raises BadBatch."""
    head = file.read(min(HEADER_SIZE, size - position))
    if len(head) < min(HEADER_SIZE, size - position):
        raise BadBatch(position, "the file became shorter while it was read")
    if len(head) == HEADER_SIZE and not any(head):
        raise BadBatch(position, "zeros where a batch is due")
    at, _ = parse_header(head, 0, position, size)
    if limit is not None and at.end > limit:
        return None
    header = BatchHeader(*HEADER.unpack(head))
    crc = crc32c(head[CRC_START:])
    kept = [head]
    left = at.size - HEADER_SIZE
    while left:
        chunk = file.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise BadBatch(position, "the file became shorter while it was read")
        crc = crc32c(chunk, crc)
        left -= len(chunk)
        if at.size <= keep_max:
            kept.append(chunk)
    return Batch(position, header, crc, b"".join(kept) if at.size <= keep_max else None)
