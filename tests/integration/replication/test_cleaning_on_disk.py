"""Compaction under replication, on the real log store: three replicas, each cleaned by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.log.cleaner.cleaner import CleaningJob
from broker.log.cleaner.process import OnEvent, Stop
from broker.wire.api import ApiKey
from broker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.wire.record_batch import iter_batches
from tests.integration.replication.cleaned_cluster import (
    KEYS,
    cleaner_of,
    compacted_cluster,
    consume,
    log_of,
    put,
    write,
)
from tests.property.log.compaction_tools import HereRunner, keyed, last_values, records_of
from tests.support.disk_cluster import DiskCluster
from tests.support.flipped import flip
from tests.support.memory_cluster import produced
from tests.support.memory_node import TOPIC

pytestmark = pytest.mark.guarantee("L3", "L6")


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
    cluster = compacted_cluster(tmp_path)
    yield cluster
    cluster.close()


def test_replicas_cleaned_at_different_times_serve_the_same_values(cluster: DiskCluster) -> None:
    write(cluster, 1, range(40))
    expected = last_values(consume(cluster, 1))
    cleaner_of(cluster, 1).check()
    write(cluster, 1, range(40, 60))
    expected = last_values(consume(cluster, 1))
    cleaner_of(cluster, 3).check()
    for leader in (2, 3, 1):
        cluster.elect(leader)
        cluster.advance(1000)
        assert last_values(consume(cluster, leader)) == expected
    sizes = {i: len(records_of(log_of(cluster, i))) for i in (1, 2, 3)}
    assert sizes[3] < sizes[1] < sizes[2] == 180


def test_replica_that_was_away_follows_over_the_holes_of_a_cleaned_leader(cluster: DiskCluster) -> None:
    write(cluster, 1, range(10))
    cluster.stop(3)
    cluster.expire(3)
    write(cluster, 1, range(10, 60))
    cleaner_of(cluster, 1).check()
    expected = last_values(consume(cluster, 1))
    cluster.start(3)
    cluster.advance(5000)
    assert set(cluster.state.isr) == {1, 2, 3}
    assert log_of(cluster, 3).staged_end_offset == log_of(cluster, 1).staged_end_offset
    assert len(records_of(log_of(cluster, 3))) < 180
    cluster.elect(3)
    cluster.advance(1000)
    assert last_values(consume(cluster, 3)) == expected
    cleaner_of(cluster, 3).check()
    assert last_values(consume(cluster, 3)) == expected
    cluster.stop(3)
    cluster.start(3)
    cluster.advance(3000)
    assert last_values(records_of(log_of(cluster, 3))) == expected


@pytest.mark.parametrize("lost", ["", "leader-epoch-checkpoint"])
def test_tail_of_a_deposed_leader_is_cut_by_one_that_fetched_over_the_hole_where_the_epoch_began(
    cluster: DiskCluster, lost: str
) -> None:
    """Broker 3 cannot know where in the hole epoch 1 began; what it takes for it must not vouch for broker 1's tail."""
    write(cluster, 1, range(10))
    cluster.stop(3)
    cluster.expire(3)
    write(cluster, 1, range(10, 20))
    began = log_of(cluster, 1).staged_end_offset
    cluster.hold = lambda message: 1 in (message.source, message.target)
    cluster.produce_raw(1, keyed([(b"k%d" % key, b"never committed") for key in range(3)], 50), acks=1)
    cluster.kill(1)
    cluster.expire(1)
    cluster.hold = lambda message: False
    cluster.settle()
    write(cluster, 2, range(20, 80))
    cleaner_of(cluster, 2).check()
    first = min(record.offset for record in records_of(log_of(cluster, 2)) if record.offset >= 30)
    assert first > began + 3, "the hole does not reach beyond the tail"
    assert log_of(cluster, 2).epochs[-1] == (1, began)
    cluster.start(3)
    cluster.advance(5000)
    assert set(cluster.state.isr) == {2, 3}
    assert log_of(cluster, 3).epochs[-1] == (1, 30)
    if lost:
        cluster.kill(3)
        (cluster.folder_of(3) / lost).unlink()
        cluster.start(3)
        cluster.advance(5000)
        assert log_of(cluster, 3).epochs[-1] == (1, 30)
    expected = last_values(consume(cluster, 2))
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
    assert b"never committed" not in {record.value for record in records_of(log_of(cluster, 1))}
    cluster.elect(1)
    cluster.advance(1000)
    assert last_values(consume(cluster, 1)) == expected
    cleaner_of(cluster, 1).check()
    assert last_values(consume(cluster, 1)) == expected


def _epoch_end(cluster: DiskCluster, i: int, epoch: int, replica_id: int = -1) -> int:
    """Where a broker says that a leader epoch ended."""
    asked = OffsetForLeaderTopic(TOPIC, [OffsetForLeaderPartition(0, cluster.state.leader_epoch, epoch)])
    slot = cluster.request(
        i, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(replica_id, [asked]).encode(4)
    )
    assert slot.response is not None
    (partition,) = OffsetForLeaderEpochResponse.decode(4, memoryview(slot.response)[5:]).topics[0].partitions
    assert partition.error_code == 0
    return partition.end_offset


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
    put(cluster, 1, (b"gone", b"value"), (b"keep", b"value"), (b"gone", None), *_hot(9))
    cluster.advance(1000)
    cluster.stop(3)
    cluster.expire(3)
    cluster.elect(1)
    for _ in range(3):
        put(cluster, 1, *_hot(60))
        cluster.advance(1000)
        cleaner_of(cluster, 1).check()
    assert b"gone" not in {record.key for record in records_of(log_of(cluster, 1))}
    _made_anew(cluster, 2)
    cluster.stop(1)
    cluster.expire(1)
    cluster.settle()
    assert cluster.state.leader == 2
    cluster.start(3)
    cluster.advance(5000)
    assert 3 in cluster.state.isr
    assert last_values(records_of(log_of(cluster, 3))) == last_values(records_of(log_of(cluster, 2)))
    assert b"gone" not in last_values(records_of(log_of(cluster, 3)))


def test_replica_that_fetched_over_holes_gets_the_values_back_that_an_unclean_leader_has(
    cluster: DiskCluster,
) -> None:
    put(cluster, 1, (b"k", b"old"), (b"keep", b"value"), *_hot(9))
    cluster.advance(1000)
    cluster.stop(3)
    cluster.expire(3)
    put(cluster, 1, (b"k", b"new"), *_hot(90))
    cluster.advance(1000)
    cleaner_of(cluster, 1).check()
    _made_anew(cluster, 2)
    assert b"old" not in {record.value for record in records_of(log_of(cluster, 2))}
    for i in (1, 2):
        cluster.stop(i)
        cluster.expire(i)
    cluster.start(3)
    cluster.write(leader=3, leader_epoch=cluster.state.leader_epoch + 1, isr=(3,), lossy=True)
    cluster.advance(1000)
    cluster.start(2)
    cluster.advance(5000)
    assert 2 in cluster.state.isr
    expected = last_values(records_of(log_of(cluster, 3)))
    assert expected[b"k"] == b"old"
    assert last_values(records_of(log_of(cluster, 2))) == expected


def test_new_replica_of_a_cleaned_log_reaches_its_end(cluster: DiskCluster) -> None:
    write(cluster, 1, range(60))
    for i in (1, 2):
        cleaner_of(cluster, i).check()
    cluster.kill(3)
    cluster.expire(3)
    for path in cluster.folder_of(3).parent.rglob("*"):
        if path.is_file():
            path.unlink()
    cluster.folder_of(3).rmdir()
    cluster.start(3)
    cluster.advance(5000)
    assert set(cluster.state.isr) == {1, 2, 3}
    assert last_values(records_of(log_of(cluster, 3))) == last_values(consume(cluster, 1))


def test_leader_that_changes_during_a_cleaning_changes_nothing_for_it(cluster: DiskCluster) -> None:
    write(cluster, 1, range(50))
    runners = {i: PausedRunner() for i in (1, 2, 3)}
    cleaners = {i: cleaner_of(cluster, i, runner) for i, runner in runners.items()}
    for cleaner in cleaners.values():
        cleaner.check()
    assert all(runner.held for runner in runners.values())
    cluster.elect(2)
    cluster.advance(1000)
    write(cluster, 2, range(50, 70))
    expected = last_values(consume(cluster, 2))
    for i, runner in runners.items():
        runner.go()
        assert cleaners[i].runs >= 1
        assert len(records_of(log_of(cluster, i))) < 210
    for leader in (1, 2, 3):
        cluster.elect(leader)
        cluster.advance(1000)
        assert last_values(consume(cluster, leader)) == expected


def test_nothing_above_the_watermark_is_cleaned(cluster: DiskCluster) -> None:
    write(cluster, 1, range(10))
    committed = cluster.nodes[1].hw
    cluster.nodes[2].paused = cluster.nodes[3].paused = True
    for n in range(30):
        cluster.produce_raw(1, keyed([(b"k%d" % key, b"uncommitted%d" % n) for key in range(KEYS)], 50), acks=1)
    cluster.settle()
    before = [record for record in records_of(log_of(cluster, 1)) if record.offset < committed]
    cleaner_of(cluster, 1).check()
    after = [record for record in records_of(log_of(cluster, 1)) if record.offset < committed]
    assert last_values(after) == last_values(before)
    assert (log_of(cluster, 1).cleaning.cleaned_until or 0) <= committed


@pytest.mark.parametrize("harm", ["flipped", "shorter", "gone"])
def test_damage_that_a_cleaning_meets_takes_the_replica_offline_and_it_is_fetched_anew(
    cluster: DiskCluster, harm: str
) -> None:
    """Also where the leader meets it: it would serve that, and stay in the ISR."""
    write(cluster, 1, range(40))
    expected = last_values(consume(cluster, 1))
    path = Path(log_of(cluster, 1).cleaning.inactive_segments(1 << 40)[1].path(".log"))
    content = path.read_bytes()
    *_, (last, _) = iter_batches(memoryview(content), verify_crc=True)
    if harm == "gone":
        path.unlink()
    else:
        # A file that ends with a batch looks whole to whoever opens it.
        path.write_bytes(content[:last] if harm == "shorter" else content[:-1] + bytes([content[-1] ^ 1]))
    cleaner_of(cluster, 1).check()
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].damaged
    cluster.write(leader=2, leader_epoch=cluster.state.leader_epoch + 1, isr=(2, 3))
    cluster.advance(3000)
    assert set(cluster.state.isr) == {1, 2, 3}
    assert last_values(consume(cluster, 2)) == expected
    found = {i: last_values(records_of(log_of(cluster, i))) for i in (1, 2, 3)}
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
        cleaner_of(cluster, i).check()
        assert 40 not in {record.offset for record in records_of(log_of(cluster, i))}
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


@pytest.mark.parametrize("alone", [False, True])
def test_damage_that_a_cleaning_meets_costs_a_leader_its_place_unless_nobody_could_take_it(
    cluster: DiskCluster, alone: bool
) -> None:
    write(cluster, 1, range(60))
    for i in (2, 3) if alone else ():
        cluster.stop(i)
        cluster.expire(i)
    cluster.settle()
    flip(cluster.folder_of(1) / f"{0:020d}.log", -1)
    cleaner = cleaner_of(cluster, 1)
    cleaner.check()
    assert cleaner.uncleanable.keys() == {(TOPIC, 0)}
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].offline is not alone
    if alone:
        put(cluster, 1, (b"more", b"value"))
