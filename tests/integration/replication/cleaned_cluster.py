"""Three replicas of a compacted partition on the real log store; what is written to them, and what clients read."""

from __future__ import annotations

import random
from pathlib import Path

from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.log import PartitionLog
from broker.runtime.replicas.cleanable_replicas import CleanableReplicas
from broker.wire.compression import Compression
from broker.wire.record_batch import iter_batches
from broker.wire.records import Record, decode_records
from tests.property.log.compaction_tools import HereRunner, keyed
from tests.support.disk_cluster import DiskCluster
from tests.support.memory_cluster import fetched, produced
from tests.support.memory_node import FakeSlot

KEYS = 6


def compacted_cluster(folder: Path) -> DiskCluster:
    """Its topic is compacted, and cleaned as soon as anything in it can be."""
    cluster = DiskCluster(folder)
    cluster.topic_config |= {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "delete.retention.ms": "0",
        "segment.bytes": "2000",
        "file.delete.delay.ms": "10",
    }
    cluster.settle()
    return cluster


def cleaner_of(cluster: DiskCluster, i: int, runner: HereRunner | None = None) -> LogCleaner:
    node = cluster.nodes[i]
    replicas = CleanableReplicas(node.up.replicas, lambda _: False)
    return LogCleaner(
        node.store,  # type: ignore[arg-type]
        replicas,
        runner or HereRunner(),
        CleanerSettings(),
        lambda: cluster.loop.now,
        replicas.on_damage,
    )


def log_of(cluster: DiskCluster, i: int) -> PartitionLog:
    log = cluster.nodes[i].log
    assert isinstance(log, PartitionLog)
    return log


def write(cluster: DiskCluster, leader: int, rounds: range, seed: int = 1) -> None:
    rng = random.Random(f"{seed}/{rounds}")
    for n in rounds:
        records = [
            (b"k%d" % rng.randrange(KEYS), None if rng.random() < 0.1 else b"%d/%d" % (n, part) * 5)
            for part in range(3)
        ]
        slot = cluster.produce_raw(leader, keyed(records, n, rng.choice(list(Compression))))
        cluster.settle()
        result = produced(slot)
        assert result is not None
        assert result.error == 0, result
    cluster.advance(1000)


def consume(cluster: DiskCluster, leader: int) -> list[Record]:
    """Everything from the beginning, as a client reads it."""
    found: list[Record] = []
    offset = log_of(cluster, leader).log_start_offset
    end = cluster.list_offsets(leader).offset
    while offset < end:
        result = fetched(cluster.fetch(leader, offset, max_bytes=1500))
        assert result is not None
        assert result.error == 0
        view = result.records_view
        assert view, f"nothing at {offset} of {end}"
        for position, header in iter_batches(view, verify_crc=True):
            found += [r for r in decode_records(view[position : position + header.size]) if r.offset >= offset]
            offset = header.last_offset + 1
    assert [record.offset for record in found] == sorted({record.offset for record in found})
    return found


def put(cluster: DiskCluster, leader: int, *records: tuple[bytes, bytes | None]) -> None:
    """Each in a batch of its own."""
    for record in records:
        result = produced(_settled(cluster, cluster.produce_raw(leader, keyed([record], 1))))
        assert result is not None
        assert result.error == 0


def _settled(cluster: DiskCluster, slot: FakeSlot) -> FakeSlot:
    cluster.settle()
    return slot
