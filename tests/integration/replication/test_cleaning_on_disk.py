"""Compaction and deletion under replication, on the real log store: three replicas, each cleaned by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.log.cleaner.cleaner import CleaningJob
from broker.log.cleaner.process import OnEvent, Stop
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.log import PartitionLog
from broker.runtime.replicas.cleanable_replicas import CleanableReplicas
from broker.wire.api import ApiKey
from broker.wire.compression import Compression
from broker.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.wire.record_batch import iter_batches
from broker.wire.records import Record, decode_records
from tests.property.log.compaction_tools import HereRunner, keyed, last_values, records_of
from tests.support.disk_cluster import DiskCluster
from tests.support.flipped import flip
from tests.support.memory_cluster import fetched, produced
from tests.support.memory_node import TOPIC, FakeSlot

pytestmark = pytest.mark.guarantee("L3", "L6")

KEYS = 6


class PausedRunner(HereRunner):
    """Holds a cleaning back until `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[CleaningJob, OnEvent]] = []

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        self.held.append((job, on_event))
        return lambda: None

    def go(self) -> None:
        held, self.held = self.held, []
        for job, on_event in held:
            super().start(job, on_event)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DiskCluster]:
    cluster = DiskCluster(tmp_path)
    cluster.topic_config |= {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "delete.retention.ms": "0",
        "segment.bytes": "2000",
        "file.delete.delay.ms": "10",
    }
    cluster.settle()
    yield cluster
    cluster.close()


def _cleaner(cluster: DiskCluster, i: int, runner: HereRunner | None = None) -> LogCleaner:
    node = cluster.nodes[i]
    replicas = CleanableReplicas(node.up.replicas)
    return LogCleaner(
        node.store,  # type: ignore[arg-type]
        replicas,
        runner or HereRunner(),
        CleanerSettings(),
        lambda: cluster.loop.now,
        replicas.on_damage,
    )


def _log(cluster: DiskCluster, i: int) -> PartitionLog:
    log = cluster.nodes[i].log
    assert isinstance(log, PartitionLog)
    return log


def _write(cluster: DiskCluster, leader: int, rounds: range, seed: int = 1) -> None:
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


def _consume(cluster: DiskCluster, leader: int) -> list[Record]:
    """Everything from the beginning, as a client reads it."""
    found: list[Record] = []
    offset = _log(cluster, leader).log_start_offset
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


def test_replicas_cleaned_at_different_times_serve_the_same_values(cluster: DiskCluster) -> None:
    _write(cluster, 1, range(40))
    expected = last_values(_consume(cluster, 1))
    _cleaner(cluster, 1).check()
    _write(cluster, 1, range(40, 60))
    expected = last_values(_consume(cluster, 1))
    _cleaner(cluster, 3).check()
    for leader in (2, 3, 1):
        cluster.elect(leader)
        cluster.advance(1000)
        assert last_values(_consume(cluster, leader)) == expected
    sizes = {i: len(records_of(_log(cluster, i))) for i in (1, 2, 3)}
    assert sizes[3] < sizes[1] < sizes[2] == 180


def test_replica_that_was_away_follows_over_the_holes_of_a_cleaned_leader(cluster: DiskCluster) -> None:
    _write(cluster, 1, range(10))
    cluster.stop(3)
    cluster.expire(3)
    _write(cluster, 1, range(10, 60))
    _cleaner(cluster, 1).check()
    expected = last_values(_consume(cluster, 1))
    cluster.start(3)
    cluster.advance(5000)
    assert set(cluster.state.isr) == {1, 2, 3}
    assert _log(cluster, 3).staged_end_offset == _log(cluster, 1).staged_end_offset
    assert len(records_of(_log(cluster, 3))) < 180
    cluster.elect(3)
    cluster.advance(1000)
    assert last_values(_consume(cluster, 3)) == expected
    _cleaner(cluster, 3).check()
    assert last_values(_consume(cluster, 3)) == expected
    cluster.stop(3)
    cluster.start(3)
    cluster.advance(3000)
    assert last_values(records_of(_log(cluster, 3))) == expected


@pytest.mark.parametrize("lost", ["", "leader-epoch-checkpoint"])
def test_tail_of_a_deposed_leader_is_cut_by_one_that_fetched_over_the_hole_where_the_epoch_began(
    cluster: DiskCluster, lost: str
) -> None:
    """Broker 3 cannot know where in the hole epoch 1 began; what it takes for it must not vouch for broker 1's tail."""
    _write(cluster, 1, range(10))
    cluster.stop(3)
    cluster.expire(3)
    _write(cluster, 1, range(10, 20))
    began = _log(cluster, 1).staged_end_offset
    cluster.hold = lambda message: 1 in (message.source, message.target)
    cluster.produce_raw(1, keyed([(b"k%d" % key, b"never committed") for key in range(3)], 50), acks=1)
    cluster.kill(1)
    cluster.expire(1)
    cluster.hold = lambda message: False
    cluster.settle()
    _write(cluster, 2, range(20, 80))
    _cleaner(cluster, 2).check()
    first = min(record.offset for record in records_of(_log(cluster, 2)) if record.offset >= 30)
    assert first > began + 3, "the hole does not reach beyond the tail"
    assert _log(cluster, 2).epochs[-1] == (1, began)
    cluster.start(3)
    cluster.advance(5000)
    assert set(cluster.state.isr) == {2, 3}
    assert _log(cluster, 3).epochs[-1] == (1, 30)
    if lost:
        cluster.kill(3)
        (cluster.folder_of(3) / lost).unlink()
        cluster.start(3)
        cluster.advance(5000)
        assert _log(cluster, 3).epochs[-1] == (1, 30)
    expected = last_values(_consume(cluster, 2))
    cluster.stop(2)
    cluster.expire(2)
    cluster.settle()
    assert cluster.state.leader == 3
    # To a consumer that stands before the hole's end nothing was cut; a follower hears where the hole begins.
    assert _epoch_end(cluster, 3, 0) == first
    assert _epoch_end(cluster, 3, 0, replica_id=2) == 30
    cluster.start(1)
    cluster.advance(5000)
    assert set(cluster.state.isr) == {1, 3}
    assert b"never committed" not in {record.value for record in records_of(_log(cluster, 1))}
    cluster.elect(1)
    cluster.advance(1000)
    assert last_values(_consume(cluster, 1)) == expected
    _cleaner(cluster, 1).check()
    assert last_values(_consume(cluster, 1)) == expected


def _epoch_end(cluster: DiskCluster, i: int, epoch: int, replica_id: int = -1) -> int:
    """Where a broker says that a leader epoch ended."""
    asked = OffsetForLeaderTopic(TOPIC, [OffsetForLeaderPartition(0, cluster.state.leader_epoch, epoch)])
    slot = cluster.ask(i, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(replica_id, [asked]).encode(4))
    assert slot.answer is not None
    (partition,) = OffsetForLeaderEpochResponse.decode(4, memoryview(slot.answer)[5:]).topics[0].partitions
    assert partition.error_code == 0
    return partition.end_offset


def _put(cluster: DiskCluster, leader: int, *records: tuple[bytes, bytes | None]) -> None:
    """Each in a batch of its own."""
    for record in records:
        result = produced(_settled(cluster, cluster.produce_raw(leader, keyed([record], 1))))
        assert result is not None
        assert result.error == 0


def _settled(cluster: DiskCluster, slot: FakeSlot) -> FakeSlot:
    cluster.settle()
    return slot


def _hot(rounds: int) -> list[tuple[bytes, bytes | None]]:
    return [(b"hot%d" % (n % 3), b"%d" % n * 10) for n in range(rounds)]


def _made_anew(cluster: DiskCluster, i: int) -> None:
    """Its disk was replaced; it fetches everything from the leader."""
    cluster.kill(i)
    cluster.expire(i)
    for path in cluster.folder_of(i).parent.rglob("*"):
        if path.is_file():
            path.unlink()
    cluster.folder_of(i).rmdir()
    cluster.start(i)
    cluster.advance(5000)
    assert i in cluster.state.isr


def test_replica_that_has_a_tombstone_keeps_it_from_bringing_its_value_back(cluster: DiskCluster) -> None:
    """The leader has neither any more, and takes an epoch for begun before either: what is cut then is not only it."""
    _put(cluster, 1, (b"gone", b"value"), (b"keep", b"value"), (b"gone", None), *_hot(9))
    cluster.advance(1000)
    cluster.stop(3)
    cluster.expire(3)
    cluster.elect(1)
    for _ in range(3):
        _put(cluster, 1, *_hot(60))
        cluster.advance(1000)
        _cleaner(cluster, 1).check()
    assert b"gone" not in {record.key for record in records_of(_log(cluster, 1))}
    _made_anew(cluster, 2)
    cluster.stop(1)
    cluster.expire(1)
    cluster.settle()
    assert cluster.state.leader == 2
    cluster.start(3)
    cluster.advance(5000)
    assert 3 in cluster.state.isr
    assert last_values(records_of(_log(cluster, 3))) == last_values(records_of(_log(cluster, 2)))
    assert b"gone" not in last_values(records_of(_log(cluster, 3)))


def test_replica_that_fetched_over_holes_gets_the_values_back_that_an_unclean_leader_has(
    cluster: DiskCluster,
) -> None:
    _put(cluster, 1, (b"k", b"old"), (b"keep", b"value"), *_hot(9))
    cluster.advance(1000)
    cluster.stop(3)
    cluster.expire(3)
    _put(cluster, 1, (b"k", b"new"), *_hot(90))
    cluster.advance(1000)
    _cleaner(cluster, 1).check()
    _made_anew(cluster, 2)
    assert b"old" not in {record.value for record in records_of(_log(cluster, 2))}
    for i in (1, 2):
        cluster.stop(i)
        cluster.expire(i)
    cluster.start(3)
    cluster.write(leader=3, leader_epoch=cluster.state.leader_epoch + 1, isr=(3,), lossy=True)
    cluster.advance(1000)
    cluster.start(2)
    cluster.advance(5000)
    assert 2 in cluster.state.isr
    expected = last_values(records_of(_log(cluster, 3)))
    assert expected[b"k"] == b"old"
    assert last_values(records_of(_log(cluster, 2))) == expected


def test_new_replica_of_a_cleaned_log_reaches_its_end(cluster: DiskCluster) -> None:
    _write(cluster, 1, range(60))
    for i in (1, 2):
        _cleaner(cluster, i).check()
    cluster.kill(3)
    cluster.expire(3)
    for path in cluster.folder_of(3).parent.rglob("*"):
        if path.is_file():
            path.unlink()
    cluster.folder_of(3).rmdir()
    cluster.start(3)
    cluster.advance(5000)
    assert set(cluster.state.isr) == {1, 2, 3}
    assert last_values(records_of(_log(cluster, 3))) == last_values(_consume(cluster, 1))


def test_leader_that_changes_during_a_cleaning_changes_nothing_for_it(cluster: DiskCluster) -> None:
    _write(cluster, 1, range(50))
    runners = {i: PausedRunner() for i in (1, 2, 3)}
    cleaners = {i: _cleaner(cluster, i, runner) for i, runner in runners.items()}
    for cleaner in cleaners.values():
        cleaner.check()
    assert all(runner.held for runner in runners.values())
    cluster.elect(2)
    cluster.advance(1000)
    _write(cluster, 2, range(50, 70))
    expected = last_values(_consume(cluster, 2))
    for i, runner in runners.items():
        runner.go()
        assert cleaners[i].runs >= 1
        assert len(records_of(_log(cluster, i))) < 210
    for leader in (1, 2, 3):
        cluster.elect(leader)
        cluster.advance(1000)
        assert last_values(_consume(cluster, leader)) == expected


def test_nothing_above_the_watermark_is_cleaned(cluster: DiskCluster) -> None:
    _write(cluster, 1, range(10))
    committed = cluster.nodes[1].hw
    cluster.nodes[2].paused = cluster.nodes[3].paused = True
    for n in range(30):
        cluster.produce_raw(1, keyed([(b"k%d" % key, b"uncommitted%d" % n) for key in range(KEYS)], 50), acks=1)
    cluster.settle()
    before = [record for record in records_of(_log(cluster, 1)) if record.offset < committed]
    _cleaner(cluster, 1).check()
    after = [record for record in records_of(_log(cluster, 1)) if record.offset < committed]
    assert last_values(after) == last_values(before)
    assert (_log(cluster, 1).cleaning.cleaned_until or 0) <= committed


@pytest.mark.parametrize("harm", ["flipped", "shorter", "gone"])
def test_damage_that_a_cleaning_meets_takes_the_replica_offline_and_it_is_fetched_anew(
    cluster: DiskCluster, harm: str
) -> None:
    """Also where the leader meets it: it would serve that, and stay in the ISR."""
    _write(cluster, 1, range(40))
    expected = last_values(_consume(cluster, 1))
    path = Path(_log(cluster, 1).cleaning.inactive_segments(1 << 40)[1].path(".log"))
    content = path.read_bytes()
    *_, (last, _) = iter_batches(memoryview(content), verify_crc=True)
    if harm == "gone":
        path.unlink()
    else:
        # A file that ends with a batch looks whole to whoever opens it.
        path.write_bytes(content[:last] if harm == "shorter" else content[:-1] + bytes([content[-1] ^ 1]))
    _cleaner(cluster, 1).check()
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].damaged
    cluster.write(leader=2, leader_epoch=cluster.state.leader_epoch + 1, isr=(2, 3))
    cluster.advance(3000)
    assert set(cluster.state.isr) == {1, 2, 3}
    assert last_values(_consume(cluster, 2)) == expected
    found = {i: last_values(records_of(_log(cluster, i))) for i in (1, 2, 3)}
    assert found == dict.fromkeys((1, 2, 3), expected)


def test_idempotent_producer_is_known_after_its_records_were_compacted_away(cluster: DiskCluster) -> None:
    producer: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0}
    for sequence in range(40):
        cluster.produce_raw(1, keyed([(b"same", b"v" * 90)], 1, base_sequence=sequence, **producer))
    last_of_producer = keyed([(b"other", b"v" * 90)], 1, base_sequence=40, **producer)
    again = memoryview(bytearray(last_of_producer))
    cluster.produce_raw(1, last_of_producer)
    for _ in range(60):
        cluster.produce_raw(1, keyed([(b"other", b"w" * 90), (b"same", b"w" * 90)], 1))
    cluster.advance(1000)
    for i in (1, 2, 3):
        _cleaner(cluster, i).check()
        assert 40 not in {record.offset for record in records_of(_log(cluster, i))}
    # No snapshot helps: the log itself must still say it.
    for i in (2, 3, 1):
        cluster.kill(i)
        for path in cluster.folder_of(i).glob("*.snapshot"):
            path.unlink()
        cluster.expire(i)
    for i in (1, 2, 3):
        cluster.start(i)
    cluster.advance(3000)
    leader = cluster.state.leader
    repeated = produced(cluster.produce_raw(leader, again, acks=1))
    assert repeated is not None
    assert (repeated.error, repeated.base_offset) == (0, 40)
    gap = produced(cluster.produce_raw(leader, keyed([(b"x", b"y")], 1, base_sequence=99, **producer), acks=1))
    assert gap is not None
    assert gap.error == 45


def test_deleted_records_stay_deleted_over_kills_and_new_leaders(cluster: DiskCluster) -> None:
    cluster.topic_config["cleanup.policy"] = "delete"
    for node in cluster.nodes.values():
        node.up.hosting.on_topic_config(TOPIC)
    _write(cluster, 1, range(40))
    request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 77)])], 5000)
    slot = cluster.ask(1, ApiKey.DELETE_RECORDS, 2, request.encode(2))
    cluster.settle()
    assert slot.answer is not None
    cluster.advance(1100)
    cluster.kill(1)
    cluster.expire(1)
    cluster.settle()
    assert cluster.list_offsets(cluster.state.leader, -2).offset == 77
    cluster.start(1)
    cluster.settle()
    assert _log(cluster, 1).log_start_offset == 77
    for i in (1, 2, 3):
        cluster.kill(i)
        cluster.expire(i)
    for i in (1, 2, 3):
        cluster.start(i)
    cluster.advance(3000)
    assert [_log(cluster, i).log_start_offset for i in (1, 2, 3)] == [77, 77, 77]
    first = _consume(cluster, cluster.state.leader)[0]
    assert first.offset == 77
    before = _log(cluster, 1).segment_base_offsets
    _log(cluster, 1).delete_old_segments(0, cluster.nodes[1].hw)
    assert before[0] < _log(cluster, 1).segment_base_offsets[0] <= 77


def test_replica_that_ends_below_what_was_deleted_begins_anew_behind_it(cluster: DiskCluster) -> None:
    cluster.topic_config["cleanup.policy"] = "delete"
    for node in cluster.nodes.values():
        node.up.hosting.on_topic_config(TOPIC)
    _write(cluster, 1, range(10))
    cluster.stop(3)
    cluster.expire(3)
    _write(cluster, 1, range(10, 40))
    for node in (cluster.nodes[1], cluster.nodes[2]):
        node.up.on_live_brokers({1, 2})
    request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 77)])], 5000)
    slot = cluster.ask(1, ApiKey.DELETE_RECORDS, 2, request.encode(2))
    cluster.settle()
    assert slot.answer is not None
    _log(cluster, 1).delete_old_segments(0, cluster.nodes[1].hw)
    for node in (cluster.nodes[1], cluster.nodes[2]):
        node.up.on_live_brokers({1, 2, 3})
    cluster.start(3)
    cluster.advance(5000)
    assert set(cluster.state.isr) == {1, 2, 3}
    log = _log(cluster, 3)
    assert (log.log_start_offset, log.staged_end_offset) == (77, 120)
    assert [record.offset for record in records_of(log)] == list(range(77, 120))


@pytest.mark.parametrize(("away_ms", "known"), [(3_600_000, True), (90_000_000, False)])
def test_idle_producer_expires_also_while_its_broker_is_away(cluster: DiskCluster, away_ms: int, known: bool) -> None:
    cluster.produce_raw(1, keyed([(b"k", b"v")], 1, producer_id=5, producer_epoch=0, base_sequence=0))
    cluster.settle()
    cluster.stop(3)
    cluster.wall_ms += away_ms
    cluster.start(3, tell=False)
    producers = dict(cluster.nodes[3].up.replicas.by_partition[(TOPIC, 0)].log.producers)
    assert (5 in producers) is known


@pytest.mark.parametrize("alone", [False, True])
def test_damage_that_a_cleaning_meets_costs_a_leader_its_place_unless_nobody_could_take_it(
    cluster: DiskCluster, alone: bool
) -> None:
    _write(cluster, 1, range(60))
    for i in (2, 3) if alone else ():
        cluster.stop(i)
        cluster.expire(i)
    cluster.settle()
    flip(cluster.folder_of(1) / f"{0:020d}.log", -1)
    cleaner = _cleaner(cluster, 1)
    cleaner.check()
    assert cleaner.uncleanable.keys() == {(TOPIC, 0)}
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].offline is not alone
    if alone:
        _put(cluster, 1, (b"more", b"value"))
