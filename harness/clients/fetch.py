"""One fetch of one partition: what came back as records of the harness, and which offsets it covered.

Decides how the bytes of a response become records: a cut-off last batch is left for the next fetch, a batch that
begins before the position gives only what lies at or after it, control batches give none but are passed over, and so
are, under read_committed, batches of transactions that the response names as aborted. Must not know routing or the
history. Invariant: every other record that the response holds in [position, next_position) is in `records`, also one
that is damaged; nothing outside of it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.control_records import ABORT, control_type
from broker.wire.errors import error_name
from broker.wire.messages import fetch, fetch_response
from broker.wire.messages.fetch_response import AbortedTransaction
from broker.wire.record_batch import BatchHeader, CorruptBatch, check_crc, is_cut_off, read_header
from broker.wire.records import decode_records
from harness.clients.connection import Connection, Response
from harness.clients.responses import decoded, malformed
from harness.clients.values import parse_record

FETCH_VERSION = 12
FETCH_BY_ID_VERSION = 13


class Polled(NamedTuple):
    """records: (offset, value or None, leader epoch of its batch, intact), by offset."""

    error: str | None
    next_position: int
    hw: int
    lso: int
    log_start: int
    records: list[tuple[int, int | None, int, bool]]
    at_ns: int


def fetch_one(
    connection: Connection,
    topic: str,
    partition: int,
    *,
    position: int,
    leader_epoch: int,
    isolation: int,
    max_wait_ms: int,
    max_bytes: int,
    deadline_ns: int,
    rack: str = "",
    topic_id: str = "",
) -> Polled:
    """One Fetch request, without a fetch session. rack: of the consumer, where it may be read for by a follower.
    topic_id: fetch from the topic of this id; without one, from that of the name.

    Raises ClientError when there is no response that can be read.
    """
    request = fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        isolation_level=isolation,
        rack_id=rack,
        partitions=[
            fetch.FetchPartition(
                topic,
                topic_id,
                partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=position,
                max_bytes=max_bytes,
            )
        ],
    )
    version = FETCH_BY_ID_VERSION if topic_id else FETCH_VERSION
    body = fetch.encode_request(version, request)
    received = connection.exchange(ApiKey.FETCH, version, body, deadline_ns)
    response = decoded_fetch(connection, received, version)
    if response.error:
        return Polled(error_name(response.error), position, -1, -1, -1, [], received.at_ns)
    for result in response.results:
        # By id a response has no names, and without one no ids.
        if (result.topic or topic, result.topic_id, result.partition) == (topic, topic_id, partition):
            return polled(connection, result._replace(topic=topic), position, isolation, received.at_ns)
    raise malformed(connection, f"no response for {topic}-{partition}")


def decoded_fetch(
    connection: Connection, received: Response, version: int = FETCH_VERSION
) -> fetch_response.FetchResponse:
    """The response to a Fetch of that version. Raises ClientError when it cannot be read."""
    return decoded(connection, received, lambda: fetch_response.decode_response(version, received.body))


def polled(
    connection: Connection, result: fetch_response.FetchPartitionResult, position: int, isolation: int, at_ns: int
) -> Polled:
    """What a response says of one partition that was fetched from position. Raises ClientError where it cannot be
    read.
    """
    if result.error:
        return Polled(error_name(result.error), position, -1, -1, -1, [], at_ns)
    try:
        next_position, records = read_records(
            result.records_view, result.topic, result.partition, position, (result.aborted or ()) if isolation else ()
        )
    except CorruptBatch as error:
        raise malformed(connection, str(error)) from None
    return Polled(
        None,
        next_position,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        records,
        at_ns,
    )


def read_records(
    view: memoryview, topic: str, partition: int, position: int, aborted: Sequence[AbortedTransaction] = ()
) -> tuple[int, list[tuple[int, int | None, int, bool]]]:
    """(next position, records) of the batches in view. Raises CorruptBatch where no batch header can be read.

    A batch whose CRC or records are broken counts as one record at its first offset that is not intact. aborted:
    transactions whose batches give no records, as the response names them.
    """
    records: list[tuple[int, int | None, int, bool]] = []
    skipped = _Aborted(aborted)
    next_position = position
    at = 0
    while at < len(view) and not is_cut_off(view, at):
        header = read_header(view, at)
        batch = view[at : at + header.size]
        at += header.size
        if header.last_offset < position:
            continue
        next_position = max(next_position, header.last_offset + 1)
        if not skipped.covers(header, batch) and not header.is_control:
            records.extend(_batch_records(batch, header, topic, partition, position))
    return next_position, records


class _Aborted:
    """Which of the batches belong to an aborted transaction: those of a producer from where one begins to its abort
    marker. Batches come in the order of their offsets. Source: Kafka's CompletedFetch.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._ahead = sorted(aborted, key=lambda one: one.first_offset)
        self._open: set[int] = set()

    def covers(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the batch's records are to be skipped."""
        while self._ahead and self._ahead[0].first_offset <= header.last_offset:
            self._open.add(self._ahead.pop(0).producer_id)
        if header.producer_id not in self._open:
            return False
        if header.is_control and _is_abort(batch):
            self._open.discard(header.producer_id)
        return header.is_transactional


def _is_abort(batch: memoryview) -> bool:
    try:
        return any(control_type(record) == ABORT for record in decode_records(batch))
    except CorruptBatch:
        return False


def _batch_records(
    batch: memoryview, header: BatchHeader, topic: str, partition: int, position: int
) -> list[tuple[int, int | None, int, bool]]:
    epoch = header.partition_leader_epoch
    try:
        check_crc(batch, 0, header)
        decoded = decode_records(batch)
    except CorruptBatch:
        return [(max(header.base_offset, position), None, epoch, False)]
    out: list[tuple[int, int | None, int, bool]] = []
    for record in decoded:
        if record.offset >= position:
            value, intact = parse_record(record.key, record.value, record.headers, topic, partition)
            out.append((record.offset, value, epoch, intact))
    return out


def poll_fields(polled: Polled) -> dict[str, object]:
    """The fields of an ok poll's line (docs/history-format.md)."""
    return {
        "next_position": polled.next_position,
        "hw": polled.hw,
        "lso": polled.lso,
        "log_start": polled.log_start,
        "records": [
            {"offset": offset, "value": value, "epoch": epoch, "intact": intact}
            for offset, value, epoch, intact in polled.records
        ],
    }
