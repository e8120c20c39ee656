"""What a leader takes from its followers' fetches, and what it answers them."""

from __future__ import annotations

import pytest

from broker.runtime.requests.request import Request
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from tests.support.memory_cluster import MemoryCluster, produced, values_of
from tests.support.memory_node import TOPIC, TOPIC_ID, FakeSlot


def follower_fetch(cluster: MemoryCluster, replica: int, broker_epoch: int, offset: int, last: int = -1) -> FakeSlot:
    slot = FakeSlot()
    body = fetch.encode_request(
        15,
        fetch.FetchRequest(
            replica_id=replica,
            replica_epoch=broker_epoch,
            max_wait_ms=0,
            partitions=[fetch.FetchPartition("", TOPIC_ID, 0, 0, offset, last)],
        ),
    )
    request = Request(1, 15, 99, f"broker-{replica}-fetcher-beef", memoryview(bytearray(body)), slot, True)
    cluster.nodes[1].up.handle_fetch(request)
    cluster.nodes[1].up.end_of_turn()
    return slot


class FollowerSession:
    """Broker 3's session with broker 1, for a broker 3 that is away: the test speaks for it."""

    def __init__(self, cluster: MemoryCluster, offset: int = 0) -> None:
        cluster.kill(3)
        self.cluster = cluster
        self.session_epoch = 0
        self.session_id = 0
        opened = self.poll(position_of_follower(offset), max_wait_ms=0)
        assert opened.response is not None
        self.session_id = fetch.decode_response(15, memoryview(opened.response)[5:]).session_id

    def poll(self, *named: fetch.FetchPartition, max_wait_ms: int = 500) -> FakeSlot:
        slot = FakeSlot()
        body = fetch.encode_request(
            15,
            fetch.FetchRequest(
                replica_id=3,
                replica_epoch=self.cluster.nodes[3].broker_epoch,
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                session_id=self.session_id,
                session_epoch=self.session_epoch,
                partitions=list(named),
            ),
        )
        self.session_epoch += 1
        request = Request(1, 15, 99, "broker-3-fetcher-beef", memoryview(bytearray(body)), slot, True)
        self.cluster.nodes[1].up.handle_fetch(request)
        self.cluster.nodes[1].up.end_of_turn()
        return slot


def position_of_follower(offset: int, last: int = -1) -> fetch.FetchPartition:
    return fetch.FetchPartition("", TOPIC_ID, 0, 0, offset, last)


def test_follower_gets_an_error_of_its_session_once_and_then_waits(cluster: MemoryCluster) -> None:
    session = FollowerSession(cluster)
    waiting = session.poll()
    assert waiting.response is None
    cluster.elect(2)
    cluster.settle()
    assert follower_answer(waiting).error == ErrorCode.FENCED_LEADER_EPOCH
    assert session.poll().response is None
    # To name it is to ask about it again.
    assert follower_answer(session.poll(position_of_follower(0))).error == ErrorCode.FENCED_LEADER_EPOCH
    still = session.poll()
    assert still.response is None
    cluster.advance(500)
    assert follower_answer(still).error == ErrorCode.FENCED_LEADER_EPOCH


def test_follower_gets_again_what_a_response_said_that_it_dropped(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    session = FollowerSession(cluster, offset=1)
    cluster.produce(1, "b", acks=1)
    first = follower_answer(session.poll(max_wait_ms=0))
    assert (values_of(first), first.high_watermark, first.log_start_offset) == (["b"], 1, 0)
    # While that is on its way the follower sends a second request, for another partition. Meanwhile broker 3 is out of
    # the ISR, the record is committed, and what is before it deleted.
    cluster.expire(3)
    cluster.settle()
    cluster.nodes[1].log.maybe_raise_log_start(1)
    second = follower_answer(session.poll(max_wait_ms=0))
    assert (values_of(second), second.high_watermark, second.log_start_offset) == (["b"], 2, 1)
    # The third goes out when the first answer has come, and names where that led: what the second says is dropped.
    third = follower_answer(session.poll(position_of_follower(2, last=0), max_wait_ms=0))
    assert (third.error, third.high_watermark, third.log_start_offset) == (0, 2, 1)
    # What is neither moved nor news is not told.
    idle = session.poll(max_wait_ms=0)
    assert idle.response is not None
    assert fetch.decode_response(15, memoryview(idle.response)[5:]).results == []


@pytest.mark.guarantee("R6")
def test_append_that_waits_for_a_joiner_that_fell_silent_waits_no_longer_than_its_lag_time(
    cluster: MemoryCluster,
) -> None:
    session = FollowerSession(cluster)
    cluster.produce(1, "a", acks=1)
    cluster.advance(20_000)
    assert set(cluster.state.isr) == {1, 2}
    session.poll(position_of_follower(0), max_wait_ms=0)
    assert produced(cluster.produce(1, "b")) is None
    cluster.settle()
    # It has all that there was at its last fetch, but less than is committed: waited for, and not proposed.
    session.poll(position_of_follower(1, last=0), max_wait_ms=0)
    waiting = cluster.produce(1, "c")
    cluster.advance(9000)
    assert produced(waiting) is None
    cluster.advance(10_000)
    result = produced(waiting)
    assert result is not None
    assert (result.error, result.base_offset) == (0, 2)


def follower_answer(slot: FakeSlot) -> fetch.FetchPartitionResult:
    assert slot.response is not None
    return fetch.decode_response(15, memoryview(slot.response)[5:]).results[0]


@pytest.mark.guarantee("R6")
def test_follower_outside_the_assignment_is_refused(cluster: MemoryCluster) -> None:
    assert follower_answer(follower_fetch(cluster, 9, 5, 0)).error == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.guarantee("R6")
def test_dead_incarnations_fetch_is_refused_and_counts_nothing(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: True
    cluster.produce(1, "a", acks=1)
    role = cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].leader
    assert role is not None
    answer = follower_answer(follower_fetch(cluster, 3, cluster.nodes[3].broker_epoch - 1, 1))
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert role.leos()[3] == 0


@pytest.mark.guarantee("R6")
def test_new_incarnations_fetch_voids_what_was_known(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    role = cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].leader
    assert role is not None
    assert role.leos()[3] == 1
    follower_fetch(cluster, 3, cluster.nodes[3].broker_epoch + 1, 0)
    assert role.leos()[3] == 0


@pytest.mark.guarantee("diverging-epochs")
def test_diverging_fetch_learns_where_and_counts_nothing(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    role = cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].leader
    assert role is not None
    answer = follower_answer(follower_fetch(cluster, 3, cluster.nodes[3].broker_epoch, 5, last=0))
    assert (answer.error, answer.diverging_epoch, answer.diverging_end_offset) == (0, 0, 1)
    assert role.leos()[3] == 1


@pytest.mark.guarantee("long-polls")
def test_watermark_does_not_wake_followers(cluster: MemoryCluster) -> None:
    cluster.advance(600)
    leader = cluster.nodes[1]
    before = len(leader.event_log.of("fetch_received"))
    slot = cluster.produce(1, "a")
    cluster.settle()
    assert produced(slot) is not None
    # One fetch each that brings the record and one each that waits for more; HW 1 adds none.
    assert len(leader.event_log.of("fetch_received")) - before == 2


def test_both_ends_log_the_same_request_id(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.advance(600)
    received = {(line["rid"], line["follower"]) for line in cluster.nodes[1].event_log.of("fetch_received")}
    for i in (2, 3):
        sent = {(line["rid"], i) for line in cluster.nodes[i].event_log.of("fetch_sent")}
        assert sent & received
        answered = {line["rid"] for line in cluster.nodes[i].event_log.of("fetch_answered")}
        assert answered <= {rid for rid, _ in sent}
        heard = cluster.nodes[i].event_log.of("hw")[-1]
        assert heard["rid"] in answered
