"""The real log code and a broker's start over a folder with one corrupt file, and what must hold then.

`judge` opens the folder as a broker does, takes the logs over as its `ReplicaManager` does, reads everything, and
restores the replica from its leader's bytes where it must.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from broker.core.producers.state import KnownBatch, ProducerStates
from broker.log.files import checkpoints
from broker.log.files.log_dir import WrongIdentity
from broker.log.files.unclean_shutdown import UNCLEAN_MARK
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.replicas.replica import Replica
from broker.wire.record_batch import iter_batches, read_header
from tests.property.log.compaction_tools import keyed
from tests.property.log.corruption import corrupt
from tests.property.log.log_folder import (
    BYSTANDER,
    CLEANED,
    OVERRIDES,
    PARTITIONS,
    TOPIC_IDS,
    Kept,
    Template,
    open_store,
    started,
)
from tests.property.log.log_tools import TP, batch, fetch, read_all


@dataclass(frozen=True)
class Outcome:
    """how: untouched, cut, offline, found-by-read, refused (the broker does not start)."""

    file: str
    kind: str
    how: str


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
        manager = started(store)
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


def _open_unless_refused(path: str, name: str) -> LogManager | None:
    """None where the broker does not start: it says that meta.properties is wrong, and that is the damaged file."""
    try:
        return open_store(path)
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


def _judge_open(kept: Kept, manager: ReplicaManager, store: LogManager, tp: TopicPartition, name: str) -> str:
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


def _follow(kept: Kept, manager: ReplicaManager, store: LogManager, tp: TopicPartition) -> None:
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
    again = open_store(log.directory)
    try:
        reopened = again.get(tp)
        assert reopened is not None, again.offline_logs
        assert read_all(reopened, holes=True) == rows
        _judge_start(kept, started(again).replicas.by_partition[tp], "what was fetched, after a restart")
    finally:
        again.close(clean=False)
