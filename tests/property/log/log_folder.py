"""A small log folder as a broker leaves it, file by file, and what its logs hold.

The folder holds a partition of several segments and epochs with idempotent producers and their snapshots, a compacted
one, and a third that an earlier stop left unclean; all checkpoints and marks, and meta.properties.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.config.settings import Settings
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.log.files.unclean_shutdown import UNCLEAN_MARK
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.replicas.replica import Replica
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, keyed
from tests.property.log.log_tools import TINY, TOPIC_ID, TP, Clock, batch, kill, read_all
from tests.support.fake_loop import FakeLoop

BYSTANDER = TopicPartition("u", 3)
CLEANED = TopicPartition("c", 1)
PARTITIONS = (TP, BYSTANDER, CLEANED)
TOPIC_IDS = {TP: TOPIC_ID, BYSTANDER: "BBBBBBBBBBBBBBBBBBBBBQ", CLEANED: "CCCCCCCCCCCCCCCCCCCCCQ"}
OVERRIDES = {CLEANED.topic: COMPACTED}
IDENTITY = (1, "cluster-of-the-test")
SETTINGS = Settings.parse({"broker.id": "1", "zookeeper.connect": "localhost:2181", "log.dirs": "/none"})
BATCHES = 24
START = 5
_WALL_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Kept:
    """What one partition held: its batches from the log start on, and all that were ever appended."""

    batches: list[bytes]
    appended: list[bytes]
    start: int
    recovery_point: int
    unnoticed: tuple[bytes, ...] = ()
    """Batches whose absence looks as if compaction had removed them: their segment is gone, or ends earlier."""

    @property
    def leo(self) -> int:
        return read_header(memoryview(self.appended[-1])).last_offset + 1


@dataclass(frozen=True)
class Template:
    """A folder's files by relative path, and what its partitions held."""

    files: dict[str, bytes]
    kept: Mapping[TopicPartition, Kept]
    clean: bool


class _Topics:
    """What the broker's metadata says of topics."""

    def overrides(self, topic: str) -> Mapping[str, str]:
        return OVERRIDES.get(topic, {})


def make_template(path: str, clean: bool, flushed: bool) -> Template:
    """Fill a store in `path` and take its files."""
    clock = Clock(now=1e6)
    store = open_store(path, clock)
    for topic_partition, topic_id in TOPIC_IDS.items():
        # The bystander was unclean before.
        overrides = OVERRIDES.get(topic_partition.topic, {})
        store.create(topic_partition, topic_id, overrides, new=topic_partition != BYSTANDER)
    manager = started(store)
    log, other, cleaned = (manager.replicas.by_partition[topic_partition] for topic_partition in PARTITIONS)
    appended: dict[TopicPartition, list[bytes]] = {topic_partition: [] for topic_partition in PARTITIONS}

    def append(replica: Replica, data: memoryview, epoch: int) -> None:
        replica.log.append_as_leader(data, epoch)
        replica.log.write()
        appended[replica.topic_partition].append(bytes(data))

    for value in range(BATCHES):
        append(log, _produced(value), value // 10)
        append(other, batch(value + 500), 2)
        append(cleaned, keyed([(b"k%d" % (value % 5), b"%d" % value * 20)], 1000 + value), value // 9)
        if value == 12:
            log.log.snapshot_producers()
            if flushed:
                log.log.flush()
                store.checkpoint_recovery_points()
    clock.advance(1000)
    cleaned.log.flush()
    cleaner_for(store, clock).cleaner.check()
    log.log.maybe_raise_log_start(START)
    store.checkpoint_log_start_offsets()
    store.checkpoint_high_watermarks(
        {
            TP: log.log.staged_end_offset - 2,
            BYSTANDER: other.log.staged_end_offset,
            CLEANED: cleaned.log.staged_end_offset,
        }
    )
    logs = store.logs()
    points = {
        tp: logs[tp].staged_end_offset if clean else logs[tp].recovery_point if flushed else 0 for tp in PARTITIONS
    }
    if flushed:
        store.checkpoint_recovery_points()
    kept = {
        tp: Kept(read_all(logs[tp], holes=True), appended[tp], logs[tp].log_start_offset, points[tp])
        for tp in PARTITIONS
    }
    assert len(kept[CLEANED].batches) < BATCHES, "nothing was compacted"
    if clean:
        store.registered(77)
        manager.shutdown(clean=True)
        store.close(clean=True)
    else:
        manager.replicas.stopped = True
        kill(store)
    root = Path(path)
    files = {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
    files.pop(".lock", None)
    shutil.rmtree(path)
    known = {Path(name).name for name in files} | {Path(name).suffix for name in files}
    assert {CLEANER_OFFSETS, UNCLEAN_MARK, ".snapshot", "highwater-run-mark"} <= known
    return Template(files, kept, clean)


def _produced(value: int) -> memoryview:
    """A batch of one to three records of one of three idempotent producers; the third comes late."""
    sizes = [1 + earlier % 3 for earlier in range(value)]
    producer = 7 + value % 2 if value < 18 else 9
    mine = [size for earlier, size in enumerate(sizes) if (7 + earlier % 2 if earlier < 18 else 9) == producer]
    body = value.to_bytes(8, "big") + bytes(40)
    records = [NewRecord(None, body)] * (1 + value % 3)
    return memoryview(
        bytearray(
            encode_batch(
                records, timestamps=1000 + value, producer_id=producer, producer_epoch=0, base_sequence=sum(mine)
            )
        )
    )


def open_store(path: str, clock: Clock | None = None) -> LogManager:
    environment = (clock or Clock()).environment()
    return LogManager([path], environment, defaults=TINY, topic_configs=OVERRIDES, identity=IDENTITY)


def started(store: LogManager) -> ReplicaManager:
    """A broker's runtime that has taken the logs over and been told nothing yet."""
    none: object = None
    manager = ReplicaManager(
        SETTINGS,
        FakeLoop(),
        store,
        None,
        none,  # type: ignore[arg-type]
        none,  # type: ignore[arg-type]
        _Topics(),  # type: ignore[arg-type]
        none,  # type: ignore[arg-type]
        lambda: 77,
        wall_ms=lambda: _WALL_MS,
    )
    manager.startup()
    manager.end_of_turn()
    return manager
