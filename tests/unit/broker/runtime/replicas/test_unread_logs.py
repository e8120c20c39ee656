"""A replica whose sound log could not be read comes back when the controller speaks of it and the log can be read."""

from __future__ import annotations

import pytest

from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog, LogUnread, ProducersUnread
from broker.runtime.replicas.hosting import READ_AGAIN_MS
from broker.runtime.replicas.replica import Replica
from broker.wire.errors import ErrorCode
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC
from tests.support.settled_cluster import settled

TP = TopicPartition(TOPIC, 0)
pytestmark = pytest.mark.guarantee("R12")


def replica_of(cluster: MemoryCluster, i: int) -> Replica:
    return cluster.nodes[i].up.replicas.by_partition[TP]


def told(cluster: MemoryCluster, i: int) -> ErrorCode:
    """What the broker answers to the present state."""
    request = cluster.leader_and_isr(cluster.state, cluster.registered[i])
    return ErrorCode(cluster.apply(i, request).topics[0].partition_errors[0].error_code)


def unread_at(cluster: MemoryCluster, i: int, failure: LogUnread | None = None) -> None:
    """The replica goes offline, and out of the ISR after a while."""
    failure = failure or ProducersUnread(TP, "reading its producers", "no descriptor is free")
    cluster.nodes[i].up.replicas.take_offline(replica_of(cluster, i), failure)


def test_follower_whose_producers_could_not_be_read_follows_again() -> None:
    cluster = settled(min_isr=2)
    cluster.produce(1, "a", producer_id=7, producer_epoch=0, base_sequence=0)
    cluster.settle()
    unread_at(cluster, 3)
    assert told(cluster, 3) is ErrorCode.KAFKA_STORAGE_ERROR, "not at once: what was missing would be missing still"
    cluster.produce(1, "b", producer_id=7, producer_epoch=0, base_sequence=1)
    cluster.advance(READ_AGAIN_MS)
    assert (cluster.state.isr, cluster.nodes[3].log.values()) == ((1, 2), ["a"])
    assert told(cluster, 3) is ErrorCode.NONE
    cluster.advance(1000)
    assert (cluster.state.isr, cluster.nodes[3].log.values()) == ((1, 2, 3), ["a", "b"])
    cluster.elect(3)
    cluster.settle()
    again = cluster.produce(3, "b", producer_id=7, producer_epoch=0, base_sequence=1)
    cluster.settle()
    result = produced(again)
    assert result is not None
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 1), "its producers are known, too"


def test_leader_that_went_offline_does_not_lead_under_the_epoch_that_it_gave_up() -> None:
    cluster = settled(replicas=1)
    unread_at(cluster, 1)
    cluster.advance(READ_AGAIN_MS)
    assert told(cluster, 1) is ErrorCode.FENCED_LEADER_EPOCH
    cluster.elect(1)
    cluster.settle()
    result = produced(cluster.produce(1, "a"))
    assert result is not None
    assert result.error == 0


def test_replica_stays_offline_while_it_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = settled()
    unread_at(cluster, 3)
    tries: list[float] = []

    def fails() -> None:
        tries.append(cluster.loop.now)
        raise ProducersUnread(TP, "reading its producers", "no descriptor is free")

    with monkeypatch.context() as patched:
        patched.setattr(cluster.nodes[3].log, "restore_producers", fails)
        cluster.advance(READ_AGAIN_MS)
        for _ in range(2):
            assert told(cluster, 3) is ErrorCode.KAFKA_STORAGE_ERROR
        assert (len(tries), replica_of(cluster, 3).offline) == (1, True)
        cluster.advance(READ_AGAIN_MS)
        assert told(cluster, 3) is ErrorCode.KAFKA_STORAGE_ERROR
    cluster.advance(READ_AGAIN_MS)
    assert told(cluster, 3) is ErrorCode.NONE


def test_damage_that_the_second_attempt_finds_counts_as_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = settled()
    unread_at(cluster, 3)

    def fails() -> None:
        raise CorruptLog(TP, "reading its producers", "flipped")

    monkeypatch.setattr(cluster.nodes[3].log, "restore_producers", fails)
    cluster.advance(READ_AGAIN_MS)
    assert told(cluster, 3) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (replica_of(cluster, 3).offline, replica_of(cluster, 3).damaged) == (True, True)


def test_log_is_not_tried_again_before_what_was_missing_is_there() -> None:
    cluster = settled()
    there: list[bool] = []
    unread_at(cluster, 3, LogUnread(TP, "offset 0", "zstd is not installed", lambda: bool(there)))
    cluster.advance(READ_AGAIN_MS)
    assert told(cluster, 3) is ErrorCode.KAFKA_STORAGE_ERROR
    there.append(True)
    assert told(cluster, 3) is ErrorCode.NONE


@pytest.mark.parametrize("failure", [LogUnread(TP, "offset 0", "why"), CorruptLog(TP, "a segment", "flipped")])
def test_what_nothing_can_have_mended_stays_offline(failure: CorruptLog) -> None:
    cluster = settled()
    cluster.nodes[3].up.replicas.take_offline(replica_of(cluster, 3), failure)
    cluster.advance(READ_AGAIN_MS)
    told(cluster, 3)
    assert replica_of(cluster, 3).offline
