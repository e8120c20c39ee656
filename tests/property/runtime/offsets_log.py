"""Logs of a partition of `__consumer_offsets`, with all that may lie there, and what they say read record by record."""

from __future__ import annotations

from random import Random

from broker.core.group.offsets import GroupOffsets
from broker.core.group.snapshot import GroupSnapshot
from broker.runtime.group import records
from broker.wire.compression import Compression
from broker.wire.control_records import EndOfTransaction, marker, marker_of
from broker.wire.coordinator_records.offsets_topic import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from broker.wire.raw_records import payload_of, raw_records
from broker.wire.record_batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, BatchHeader, read_header, seal
from broker.wire.records import NewRecord, encode_batch, iter_records

GROUPS = ("g", "gruppe-ä", "another group with a name of more than sixty-three bytes, so long that it is")
PRODUCERS = (3, 4)
_TOPICS = ("t", "topic")
_METADATA = ("", "", "", "plain", "größer", "long " * 30)


def batches(rng: Random, count: int) -> list[bytes]:
    """So many batches, one behind the other, some cleaned."""
    out: list[bytes] = []
    offset = rng.randrange(100)
    for _ in range(count):
        offset += rng.choice((0, 0, 0, 1, 5))
        batch = _batch(rng, offset)
        offset = read_header(memoryview(batch)).last_offset + 1
        out.append(_cleaned(rng, batch) if rng.random() < 0.2 else batch)
    return out


def _batch(rng: Random, offset: int) -> bytes:
    producer = rng.choice(PRODUCERS)
    if rng.random() < 0.15:
        new = marker(EndOfTransaction(rng.random() < 0.6, 0))
        if rng.random() < 0.1:
            new = NewRecord(b"\0\0\0\2", b"\0\0")  # of KRaft
        return encode_batch(
            [new], timestamps=5, base_offset=offset, producer_id=producer, transactional=True, control=True
        )
    new_records = [_record(rng) for _ in range(rng.choice((1, 1, 1, 2, 3, 70)))]
    times: int | list[int] = 5
    if rng.random() < 0.1:
        times = [rng.randrange(10_000_000) for _ in new_records]
    more = {"producer_id": producer, "base_sequence": 0, "transactional": True} if rng.random() < 0.3 else {}
    compression = rng.choice((None, None, None, Compression.GZIP))
    return encode_batch(new_records, timestamps=times, base_offset=offset, compression=compression, **more)  # type: ignore[arg-type]


def _record(rng: Random) -> NewRecord:
    headers = [("h", b"v")] if rng.random() < 0.003 else []
    if rng.random() < 0.1:
        return NewRecord(*_group_record(rng), headers)
    key: bytes | None = OffsetCommitKey(rng.choice(GROUPS), rng.choice(_TOPICS), rng.randrange(2)).encode()
    if rng.random() < 0.04 and key is not None:
        key = rng.choice((key + b"behind", b"\0\0" + key[2:], b"\0\7" + key[2:], key[:-1], b"", None))
    return NewRecord(key, _value(rng), headers)


def _group_record(rng: Random) -> tuple[bytes, bytes | None]:
    group = rng.choice(GROUPS)
    snapshot = GroupSnapshot(group, "consumer", rng.randrange(9), None, None, 7, ())
    value = records.group_record(snapshot).value
    if rng.random() < 0.2:
        value = rng.choice((None, b"\0\11", b"\0\3\0"))
    return GroupMetadataKey(group).encode(), value


def _value(rng: Random) -> bytes | None:
    if rng.random() < 0.1:
        return None
    value = OffsetCommitValue(rng.randrange(1000), rng.randrange(-1, 3), rng.choice(_METADATA), rng.randrange(1 << 40))
    if rng.random() < 0.1:
        return value.encode(rng.randrange(5))
    data = value.encode()
    if rng.random() < 0.08:
        at = rng.randrange(len(data))
        return rng.choice(
            (data[:at], data + b"x", data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :], b"\0\0" + data[2:])
        )
    return data


def _cleaned(rng: Random, batch: bytes) -> bytes:
    """Without some of its records, as compaction leaves a batch."""
    view = memoryview(batch)
    header = read_header(view)
    if header.compression:
        return batch
    payload = payload_of(header, view)
    kept = [bytes(payload[raw.start : raw.end]) for raw in raw_records(header, payload) if rng.random() < 0.5]
    out = bytearray(HEADER_SIZE) + b"".join(kept)
    changed = header._replace(batch_length=len(out) - LENGTH_PREFIX_SIZE, record_count=len(kept))
    seal(changed, memoryview(out))
    return bytes(out)


class PlainLoad:
    """What the log says, each record decoded and taken in its turn. `groups`: (offsets, snapshot) by id."""

    def __init__(self) -> None:
        self.offsets: dict[str, GroupOffsets] = {}
        self.snapshots: dict[str, GroupSnapshot | None] = {}
        self.passed_over = 0

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            end = marker_of(header, batch)
            if end is not None:
                for offsets in self.offsets.values():
                    offsets.end_transaction(header.producer_id, end.committed)
            return
        for record in iter_records(header, batch):
            try:
                known = records.read(record.key, record.value)
            except records.Unreadable:
                self.passed_over += 1
                continue
            if isinstance(known, records.GroupRecord):
                self.snapshots[known.group_id] = known.snapshot
                continue
            offsets = self.offsets.setdefault(known.group_id, GroupOffsets())
            if not header.is_transactional:
                if known.value is None:
                    offsets.remove((known.partition,))
                else:
                    offsets.restore(known.partition, known.value, record.offset)
            elif known.value is not None:
                offsets.restore_transactional(header.producer_id, known.partition, known.value, record.offset)
