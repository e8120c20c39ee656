"""One random corruption of a small log folder, the real log code and a broker's start over it, and what must hold then.

The folder holds a partition of several segments and epochs with idempotent producers and their snapshots, a compacted
one, and a third that an earlier stop left unclean; all checkpoints and marks, and meta.properties. One file is damaged
while nobody has it open. `judge` then opens the folder as a broker does, takes the logs over as its `ReplicaManager`
does, reads everything, and restores the replica from its leader's bytes where it must.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from broker.config.settings import Settings
from broker.core.producers.state import KnownBatch, ProducerStates
from broker.log.files import checkpoints
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.log.files.log_dir import WrongIdentity
from broker.log.files.unclean_shutdown import UNCLEAN_MARK
from broker.log.log import PartitionLog
from broker.log.log_manager import DiskLogStore
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.replicas.replica import Replica
from broker.wire.record_batch import iter_batches, read_header
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, keyed
from tests.property.log.log_tools import TINY, TOPIC_ID, TP, Clock, batch, fetch, kill, read_all
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
_BLOCK = 64
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


@dataclass(frozen=True)
class Outcome:
    """how: untouched, cut, offline, found-by-read, refused (the broker does not start)."""

    file: str
    kind: str
    how: str


class _Topics:
    """What the broker's metadata says of topics."""

    def overrides(self, topic: str) -> Mapping[str, str]:
        return OVERRIDES.get(topic, {})


def make_template(path: str, clean: bool, flushed: bool) -> Template:
    """Fill a store in `path` and take its files."""
    clock = Clock(now=1e6)
    store = _open(path, clock)
    for topic_partition, topic_id in TOPIC_IDS.items():
        # The bystander was unclean before.
        overrides = OVERRIDES.get(topic_partition.topic, {})
        store.create(topic_partition, topic_id, overrides, new=topic_partition != BYSTANDER)
    manager = _started(store)
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


def _open(path: str, clock: Clock | None = None) -> DiskLogStore:
    environment = (clock or Clock()).environment()
    return DiskLogStore([path], environment, defaults=TINY, topic_configs=OVERRIDES, identity=IDENTITY)


def _started(store: DiskLogStore) -> ReplicaManager:
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


def _flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _truncate(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _zero(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data))
    length = min(len(data) - start, rng.choice((1, 8, 64, 512, 4096)))
    data[start : start + length] = bytes(length)


def _swap(rng: random.Random, data: bytearray) -> None:
    size = min(_BLOCK, len(data) // 2)
    if size == 0:
        return
    a, b = rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)
    first, second = bytes(data[a : a + size]), bytes(data[b : b + size])
    data[a : a + size], data[b : b + size] = second, first


def _append(rng: random.Random, data: bytearray) -> None:
    data += rng.randbytes(rng.choice((1, 7, 61, 200, 5000)))


def _repeat(rng: random.Random, data: bytearray) -> None:
    """An old piece of the same file again at its end: valid bytes in the wrong place."""
    start = rng.randrange(len(data))
    data += data[start : start + rng.choice((61, 100, 700))]


_KINDS: dict[str, Callable[[random.Random, bytearray], None]] = {
    "flip": _flip,
    "truncate": _truncate,
    "zero": _zero,
    "swap": _swap,
    "append": _append,
    "repeat": _repeat,
}


def _touches_what_no_check_covers(name: str, before: bytes, after: bytearray) -> bool:
    """Whether what lies outside of a batch's CRC changed, as in Kafka's own files: a leader epoch; in a compacted log a
    base offset, where the new one would leave no more than a hole (`integration/log/test_compacted_damage.py` has the
    others).
    """
    if not name.endswith(".log"):
        return False
    batches = list(iter_batches(memoryview(before), verify_crc=True))
    if any(before[at + 12 : at + 16] != after[at + 12 : at + 16] for at, _ in batches):
        return True
    ends = [0, *(header.last_offset + 1 for _, header in batches)]
    starts = [*(header.base_offset for _, header in batches[1:]), 1 << 63]
    return name.startswith(f"{CLEANED}/") and any(
        before[at : at + 8] != after[at : at + 8] and low <= int.from_bytes(after[at : at + 8], "big") < high
        for (at, _), low, high in zip(batches, ends, starts, strict=False)
    )


def corrupt(template: Template, seed: int) -> tuple[str, str, dict[str, bytes]]:
    """(file, kind, files): the folder with one file damaged."""
    rng = random.Random(seed)
    while True:
        name = rng.choice(sorted(template.files))
        kind = rng.choice([*_KINDS, "delete"])
        files = dict(template.files)
        before = files.pop(name)
        if kind == "delete":
            return name, kind, files
        data = bytearray(before)
        if not data:
            continue
        _KINDS[kind](rng, data)
        if bytes(data) != before and not _touches_what_no_check_covers(name, before, data):
            return name, kind, {**files, name: bytes(data)}


def judge(template: Template, seed: int, path: str) -> Outcome:
    """Raises AssertionError, or whatever the broker's code should not have raised."""
    name, kind, files = corrupt(template, seed)
    for relative, content in files.items():
        file = Path(path, relative)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    store = _open_unless_refused(path, name)
    if store is None:
        return Outcome(name, kind, "refused")
    hurt = next((tp for tp in PARTITIONS if name.startswith(f"{tp}/")), None)
    try:
        if name != f"{BYSTANDER}/{UNCLEAN_MARK}" or kind != "delete":
            assert BYSTANDER in store.unclean or BYSTANDER in store.offline_logs, "damage made a stop clean"
        manager = _started(store)
        for replica in manager.replicas.by_partition.values():
            if not replica.offline:
                _judge_start(template.kept[replica.topic_partition], replica, name)
        for tp in PARTITIONS:
            if hurt not in (None, tp):
                # Damage to one partition's files is that partition's alone.
                log = store.get(tp)
                assert log is not None, store.offline_logs[tp]
                assert not manager.replicas.by_partition[tp].offline
                assert read_all(log, holes=True) == template.kept[tp].batches
        looked_at = TP if hurt is None else hurt
        kept = template.kept[looked_at]
        if looked_at == CLEANED and name.endswith(".log") and kind in ("delete", "truncate"):
            kept = replace(kept, unnoticed=tuple(_whole_batches(template.files[name])))
        how = _judge_open(kept, manager, store, looked_at, name)
    finally:
        store.close(clean=False)
    return Outcome(name, kind, how)


def _open_unless_refused(path: str, name: str) -> DiskLogStore | None:
    """None where the broker does not start: it says that meta.properties is wrong, and that is the damaged file."""
    try:
        return _open(path)
    except WrongIdentity as refusal:
        if name != checkpoints.META_PROPERTIES or name not in str(refusal):
            raise
        return None


def _judge_start(kept: Kept, replica: Replica, name: str) -> None:
    """What a replica that serves says of itself: a watermark in its log, and producers as the log has them."""
    log = replica.log
    assert log.log_start_offset <= replica.high_watermark <= log.staged_end_offset
    _judge_producers(kept, replica, name)


def _judge_producers(kept: Kept, replica: Replica, name: str) -> None:
    log = replica.log
    truth: dict[int, KnownBatch] = {}
    gone: set[int] = set()
    for content in kept.appended:
        header = read_header(memoryview(content))
        if header.producer_id >= 0 and header.last_offset < log.staged_end_offset:
            truth[header.producer_id] = KnownBatch(
                header.base_sequence, header.last_sequence, header.base_offset, header.last_offset
            )
            if header.last_offset < log.log_start_offset:
                gone.add(header.producer_id)
            else:
                gone.discard(header.producer_id)
    found = _newest(replica.log.producers)
    assert found == {producer: truth[producer] for producer in found}, f"{name}: producers that the log does not have"
    assert truth.keys() - found.keys() <= gone, f"{name}: producers of the log are forgotten"


def _newest(producers: ProducerStates) -> dict[int, KnownBatch]:
    return {producer: entry.batches[-1] for producer, entry in producers}


def _judge_open(kept: Kept, manager: ReplicaManager, store: DiskLogStore, tp: TopicPartition, name: str) -> str:
    log = store.get(tp)
    (log_dir,) = store._dirs
    if log is None:
        damage = store.offline_logs[tp]
        assert damage.where.startswith(log_dir.path), "it names the file"
        assert damage.reason
        restored = store.restore(tp, TOPIC_IDS[tp], OVERRIDES.get(tp.topic, {}))
        assert restored.log_start_offset <= kept.start, "it would have its followers delete what lies before"
        _follow(kept, manager, store, tp)
        return "offline"
    assert log.staged_end_offset <= kept.leo or name == checkpoints.LOG_STARTS
    if name != checkpoints.LOG_STARTS:
        # Records that were deleted may come back; a log never begins later than it did.
        assert log.log_start_offset <= kept.start, "a start with a hole"
    if log.staged_end_offset < kept.leo:
        (report,) = [report for report in store.reports if report.topic_partition == tp]
        assert not report.clean
        assert report.reason
        assert name.endswith(".log") or name == checkpoints.LOG_STARTS
        if log.staged_end_offset < kept.recovery_point:
            assert report.cut_below == log.staged_end_offset
    if manager.replicas.by_partition[tp].offline or not _reads_true(kept, log):
        log.forget_checked()
        store.offline_logs[tp] = CorruptLog(tp, log_dir.path, "found by a read")
        store.delete(tp)
        store.create(tp, TOPIC_IDS[tp], OVERRIDES.get(tp.topic, {}))
        _follow(kept, manager, store, tp)
        return "found-by-read"
    how = "cut" if log.staged_end_offset < kept.leo else "untouched"
    _follow(kept, manager, store, tp)
    return how


def _reads_true(kept: Kept, log: PartitionLog) -> bool:
    """Read everything: what was written, all of it, in its place. False where a read found damage."""
    found: list[bytes] = []
    offset = max(log.log_start_offset, kept.start)
    while offset < log.staged_end_offset:
        try:
            data = fetch(log, offset, 400)
        except CorruptLog as damage:
            if not (damage.where and damage.reason):
                raise
            return False
        assert data, f"nothing is served at {offset}, the log ends at {log.staged_end_offset}"
        for at, header in iter_batches(memoryview(data), verify_crc=True):
            found.append(data[at : at + header.size])
            assert offset <= header.last_offset
            offset = header.last_offset + 1
    start = max(log.log_start_offset, kept.start)
    written = [content for content in kept.batches if start <= _last(content) < log.staged_end_offset]
    assert found == [content for content in written if content in found or content not in kept.unnoticed]
    return True


def _whole_batches(data: bytes) -> list[bytes]:
    return [data[at : at + header.size] for at, header in iter_batches(memoryview(data), verify_crc=True)]


def _last(content: bytes) -> int:
    return read_header(memoryview(content)).last_offset


def _follow(kept: Kept, manager: ReplicaManager, store: DiskLogStore, tp: TopicPartition) -> None:
    """Fetch from a leader that has everything; the copy then equals it, and survives a clean stop."""
    log = store.get(tp)
    assert log is not None
    replica = manager.hosting.adopt(log, 0, clean=False)
    begin = read_header(memoryview(kept.batches[0])).base_offset
    if log.staged_end_offset < begin or log.staged_end_offset not in {
        begin,
        *(_last(content) + 1 for content in kept.batches),
    }:
        log.truncate_fully_and_start_at(begin)
        replica.log.restore_producers()
    for content in kept.batches:
        if _last(content) >= log.staged_end_offset:
            log.append_as_follower(memoryview(bytearray(content)))
            log.write()
    log.maybe_raise_log_start(kept.start)
    # Deleted records may come back in front, nothing may be missing there.
    rows = read_all(log, holes=True)
    wanted = [content for content in kept.batches if content in rows or content not in kept.unnoticed]
    assert rows[-len(wanted) :] == wanted
    _judge_producers(kept, replica, "what was fetched")
    log.append_as_leader(batch(9999) if tp != CLEANED else keyed([(b"k", b"v")]), 9)
    log.write()
    rows = read_all(log, holes=True)
    manager.shutdown(clean=True)
    store.close(clean=True)
    again = _open(log.directory)
    try:
        reopened = again.get(tp)
        assert reopened is not None, again.offline_logs
        assert read_all(reopened, holes=True) == rows
        _judge_start(kept, _started(again).replicas.by_partition[tp], "what was fetched, after a restart")
    finally:
        again.close(clean=False)
