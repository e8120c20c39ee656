"""L4: every replica stores, and serves, the batch that the producer sent, in any codec; nothing is paid per record."""

from __future__ import annotations

import pytest

from broker.wire.compression import Compression
from broker.wire.record_batch import iter_batches
from broker.wire.records import NewRecord, encode_batch
from tests.support.calls import Calls
from tests.support.disk_cluster import DiskCluster
from tests.support.memory_cluster import fetched, produced
from tests.support.memory_node import FakeSlot

pytestmark = pytest.mark.guarantee("R2", "L4")

BASE_OFFSET = slice(0, 8)
LEADER_EPOCH = slice(12, 16)
PER_RECORD_MODULES = ("broker/wire/records.py", "broker/wire/raw_records.py", "broker/wire/compression.py")


def batch(codec: Compression, records: int = 20, seed: int = 0) -> bytes:
    return encode_batch(
        [NewRecord(b"key-%d" % n, b"value-%d-%d" % (seed, n) * 9, (("h", b"%d" % n),)) for n in range(records)],
        timestamps=[1_000 + n for n in range(records)],
        compression=codec,
    )


def stamped(sent: bytes, base_offset: int, epoch: int) -> bytes:
    """The two fields that are the leader's; the CRC covers neither."""
    data = bytearray(sent)
    data[BASE_OFFSET] = base_offset.to_bytes(8, "big")
    data[LEADER_EPOCH] = epoch.to_bytes(4, "big")
    return bytes(data)


def send(cluster: DiskCluster, data: bytes) -> int:
    slot = cluster.produce_raw(1, memoryview(bytearray(data)))
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == 0, result.error_message
    return result.base_offset


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_batch_is_stored_and_served_as_it_was_sent_but_for_offset_and_epoch(
    cluster: DiskCluster, codec: Compression
) -> None:
    cluster.elect(1)
    cluster.settle()
    expected = b""
    for seed in range(5):
        sent = batch(codec, seed=seed)
        assert sent[21:23] == (0).to_bytes(1, "big") + bytes([codec]), "its attributes name the codec"
        expected += stamped(sent, send(cluster, sent), epoch=1)
    cluster.advance(1000)
    for broker in cluster.ids:
        segments = sorted(cluster.folder_of(broker).glob("*.log"))
        assert b"".join(segment.read_bytes() for segment in segments) == expected, f"broker {broker}"
    served, offset = b"", 0
    while offset < 100:
        result = fetched(cluster.fetch(1, offset))
        assert result is not None
        view = bytes(result.records_view)
        assert view, f"nothing at {offset}"
        served += view
        for _, header in iter_batches(memoryview(view), verify_crc=True):
            offset = header.last_offset + 1
    assert served == expected


@pytest.mark.patches
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP], ids=["none", "gzip"])
def test_large_batch_takes_as_many_steps_as_a_small_one(cluster: DiskCluster, codec: Compression) -> None:
    def append_replicate_and_read(data: bytes) -> Calls:
        view = memoryview(bytearray(data))
        offset = cluster.nodes[1].log.staged_end_offset
        slots: list[FakeSlot] = []

        def run() -> None:
            slots.append(cluster.produce_raw(1, view))
            cluster.settle()
            slots.append(cluster.fetch(1, offset, max_bytes=1 << 20))

        calls = Calls().during(run)
        sent, read = produced(slots[0]), fetched(slots[1])
        assert sent is not None
        assert read is not None
        assert (sent.error, sent.base_offset, len(read.records_view)) == (0, offset, len(data))
        return calls

    append_replicate_and_read(batch(codec, 10))
    small, large = (append_replicate_and_read(batch(codec, records)) for records in (2, 3_000))
    assert small.total > 1000, "something was counted"
    # A segment is rolled: some steps more, never one per record.
    assert large.total - small.total < 1000
    assert large.of(*PER_RECORD_MODULES) == [], "nothing that looks into records or codecs"
