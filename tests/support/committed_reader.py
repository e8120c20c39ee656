"""A reader of committed records, as the Java consumer does it: what it shows of the batches that a fetch brings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.log.log import PartitionLog
from broker.wire.control_records import marker_of
from broker.wire.record_batch import iter_batches
from broker.wire.records import decode_records
from tests.support.chunks import chunk_view


def shown(data: memoryview, aborted: Iterable[tuple[int, int]]) -> list[tuple[int, bytes]]:
    """(offset, value) of the records that are left. aborted: (producer id, first offset).

    Source: org.apache.kafka.clients.consumer.internals.CompletedFetch.
    """
    waiting = sorted(aborted, key=lambda entry: entry[1])
    skipped: set[int] = set()
    found: list[tuple[int, bytes]] = []
    for position, header in iter_batches(data, verify_crc=True):
        while waiting and waiting[0][1] <= header.last_offset:
            skipped.add(waiting.pop(0)[0])
        batch = data[position : position + header.size]
        if header.is_control:
            end = marker_of(header, batch)
            if end is not None and not end.committed:
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            found += [(record.offset, record.value or b"") for record in decode_records(batch)]
    return found


def read_committed(log: PartitionLog, start: int, max_bytes: int) -> list[tuple[int, bytes]]:
    """All that such a reader shows from `start` up to the last stable offset, by fetches of at most max_bytes."""
    stable = log.last_stable_offset(log.log_end_offset)
    found: list[tuple[int, bytes]] = []
    while start < stable:
        chunk = log.read(start, max_bytes, stable, True)
        data = chunk_view(chunk)
        if not data:
            break
        aborted: Sequence[tuple[int, int]] = log.aborted_transactions(start, chunk)
        found += [(offset, value) for offset, value in shown(data, aborted) if offset >= start]
        start = log.end_offset_of(chunk)
    return found
