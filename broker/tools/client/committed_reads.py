"""What of fetched batches a consumer is shown: no markers, and with read_committed nothing of aborted transactions.

Pure. Source: org.apache.kafka.clients.consumer.internals.CompletedFetch; KIP-98.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.wire.control_records import ABORT, control_type
from broker.wire.messages.fetch import AbortedTransaction
from broker.wire.record_batch import iter_batches
from broker.wire.records import Record, iter_records


class Shown(NamedTuple):
    """A record, and whether its time is the leader's (LogAppendTime) instead of the producer's."""

    record: Record
    append_time: bool


class Visible(NamedTuple):
    """next_offset: where to fetch on, behind markers and records that are not shown as well."""

    records: list[Shown]
    next_offset: int


def visible(
    view: memoryview, position: int, aborted: Sequence[AbortedTransaction] | None, *, check_crcs: bool
) -> Visible:
    """Records from `position` on. aborted: of the response, None for read_uncommitted. Raises CorruptBatch."""
    pending = sorted(aborted or (), key=lambda one: one.first_offset)
    skipped: set[int] = set()
    found: list[Shown] = []
    for start, header in iter_batches(view, verify_crc=check_crcs, allow_partial_tail=True):
        if header.last_offset < position:
            continue
        batch = view[start : start + header.size]
        if aborted is not None:
            while pending and pending[0].first_offset <= header.last_offset:
                skipped.add(pending.pop(0).producer_id)
        if header.is_control:
            if any(control_type(record) == ABORT for record in iter_records(header, batch)):
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            found += [
                Shown(record, header.is_log_append_time)
                for record in iter_records(header, batch)
                if record.offset >= position
            ]
        position = header.last_offset + 1
    return Visible(found, position)
