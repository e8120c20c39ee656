"""Idempotent producers: sequences, repeats, and what survives a change of leader, a restart, a truncation."""

from __future__ import annotations

import pytest

from broker.core.producers import snapshot as producer_snapshot
from broker.core.producers.state import ProducerStates
from broker.model.log_errors import ProducersUnread
from broker.runtime.replicas.truncation import ReplicaTruncation
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import FakeSlot

pytestmark = pytest.mark.guarantee("idempotent-producers")


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.settle()
    return cluster


def send(cluster: MemoryCluster, value: str, sequence: int, *, to: int = 1, epoch: int = 0, acks: int = -1) -> FakeSlot:
    return cluster.produce(to, value, acks=acks, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


def result(slot: FakeSlot) -> tuple[int, int]:
    answer = produced(slot)
    assert answer is not None, "not answered yet"
    return answer.error, answer.base_offset


def test_repeat_gets_the_original_offset_and_is_not_appended(cluster: MemoryCluster) -> None:
    first = send(cluster, "a", 0)
    cluster.settle()
    assert result(first) == (0, 0)
    send(cluster, "b", 1)
    cluster.settle()
    repeat = send(cluster, "a", 0)
    assert result(repeat) == (0, 0)
    assert cluster.nodes[1].log.values() == ["a", "b"]


def test_repeat_of_an_uncommitted_batch_waits_until_it_is_committed(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: message.target == 1
    send(cluster, "a", 0)
    cluster.settle()
    repeat = send(cluster, "a", 0)
    cluster.settle()
    assert produced(repeat) is None
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    assert result(repeat) == (0, 0)


def test_gap_is_out_of_order(cluster: MemoryCluster) -> None:
    send(cluster, "a", 0)
    assert result(send(cluster, "c", 2))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_old_epoch_is_error_47_and_new_epoch_starts_at_0(cluster: MemoryCluster) -> None:
    send(cluster, "a", 0, epoch=1)
    assert result(send(cluster, "b", 0, epoch=0))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert result(send(cluster, "b", 3, epoch=2))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert result(send(cluster, "b", 0, epoch=2, acks=1)) == (0, 1)


def test_five_batches_are_remembered(cluster: MemoryCluster) -> None:
    for sequence in range(6):
        send(cluster, f"v{sequence}", sequence)
    cluster.settle()
    for sequence in range(1, 6):
        assert result(send(cluster, "again", sequence)) == (0, sequence)
    assert result(send(cluster, "again", 0))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_repeat_after_a_change_of_leader_gets_the_original_offset(cluster: MemoryCluster) -> None:
    send(cluster, "a", 0)
    send(cluster, "b", 1)
    cluster.settle()
    cluster.kill(1)
    cluster.expire(1)
    cluster.advance(2000)
    assert result(send(cluster, "b", 1, to=2)) == (0, 1)
    assert result(send(cluster, "d", 3, to=2))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert cluster.nodes[2].log.values() == ["a", "b"]


def test_repeat_after_a_restart_gets_the_original_offset(cluster: MemoryCluster) -> None:
    send(cluster, "a", 0)
    cluster.settle()
    for i in (2, 3, 1):
        cluster.kill(i)
        cluster.expire(i)
    cluster.start(1)
    cluster.settle()
    assert cluster.state.leader == 1
    assert result(send(cluster, "a", 0)) == (0, 0)


def test_truncated_batch_is_forgotten_and_may_be_sent_again(cluster: MemoryCluster) -> None:
    send(cluster, "a", 0)
    cluster.settle()
    cluster.hold = lambda message: 1 in (message.source, message.target)
    send(cluster, "b", 1, acks=1)
    cluster.elect(2)
    cluster.settle()
    cluster.hold = lambda message: False
    cluster.lose()
    cluster.advance(40000)
    assert cluster.nodes[1].log.values() == ["a"]
    cluster.elect(1)
    cluster.advance(2000)
    again = send(cluster, "b", 1)
    cluster.settle()
    assert result(again) == (0, 1)


def test_follower_that_begins_anew_knows_no_producer_until_it_has_its_records(cluster: MemoryCluster) -> None:
    send(cluster, "a", 0)
    cluster.settle()
    cluster.kill(3)
    cluster.expire(3)
    for sequence in range(1, 4):
        send(cluster, "b", sequence)
    cluster.settle()
    for i in (1, 2):
        cluster.nodes[i].up.replicas.by_partition[("t", 0)].log.maybe_raise_log_start(4)
    cluster.start(3)
    cluster.advance(2000)
    assert cluster.nodes[3].log.log_start_offset == 4
    cluster.elect(3)
    cluster.advance(2000)
    assert result(send(cluster, "c", 4, to=3, acks=1)) == (0, 4)


def test_init_producer_id_gives_each_asker_its_own(cluster: MemoryCluster) -> None:
    ids = []
    for _ in range(2):
        slot = cluster.request(1, ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 60000).encode(4))
        assert slot.response is not None
        answer = InitProducerIdResponse.decode(4, slot.response[5:])
        assert (answer.error_code, answer.producer_epoch) == (0, 0)
        ids.append(answer.producer_id)
    assert ids[0] != ids[1]


def test_snapshot_round_trip_keeps_the_newest_batch_of_each_producer() -> None:
    states = ProducerStates()
    states.append(1, 0, 0, 4, 10, 14, 0.0)
    states.append(1, 0, 5, 9, 15, 19, 0.0)
    states.append(2, 3, 2**31 - 1, 1, 20, 22, 300.0)
    found = producer_snapshot.decode(producer_snapshot.encode(states, wall_ms=50_000, now_ms=1000.0))
    assert [tuple(known) for known in found or ()] == [
        (1, 0, (5, 9, 15, 19), 49_000, -1, -1),
        (2, 3, (2**31 - 1, 1, 20, 22), 49_300, -1, -1),
    ]


def test_damaged_snapshot_is_none() -> None:
    data = bytearray(producer_snapshot.encode(ProducerStates(), 5, 0))
    assert producer_snapshot.decode(bytes(data)) == []
    data[-1] ^= 1
    assert producer_snapshot.decode(bytes(data)) is None
    assert producer_snapshot.decode(b"") is None


def test_cut_whose_producers_cannot_be_read_is_in_the_event_log(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cluster, "a", 0)
    cluster.settle()
    node = cluster.nodes[3]
    replica = node.up.replicas.by_partition[("t", 0)]
    truncation = ReplicaTruncation(3, cluster.loop, node.store, node.event_log, node.up.remade_logs)
    unread = ProducersUnread(replica.topic_partition, "reading its producers", "no descriptor is free")

    def truncate_to(offset: int) -> None:
        replica.log.truncate_fully_and_start_at(offset)
        raise unread

    monkeypatch.setattr(node.log, "truncate_to", truncate_to)
    with pytest.raises(ProducersUnread):
        truncation.truncate(replica, 0, "diverging-epoch")
    node.event_log.flush()
    assert [(line["from_leo"], line["to"]) for line in node.event_log.of("truncate")] == [(1, 0)]


@pytest.mark.patches
def test_batches_that_a_follower_could_not_take_count_once(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are fetched again. Counted twice, they would push others out: a repeat of those would be out of order."""
    node = cluster.nodes[2]
    write, left = node.log.write, [ValueError("staged batches make no sense")]
    for sequence in range(5):
        if sequence == 4:

            def fails_once() -> None:
                if left and node.log.staged:
                    raise left.pop()
                write()

            monkeypatch.setattr(node.log, "write", fails_once)
        send(cluster, str(sequence), sequence)
        cluster.advance(2000)
    assert not left
    assert node.log.values() == ["0", "1", "2", "3", "4"]
    cluster.elect(2)
    cluster.settle()
    again = send(cluster, "0", 0, to=2)
    cluster.settle()
    assert result(again) == (0, 0)
