"""Fetch, its sessions and long polls, ListOffsets and epochs, as a client and as a follower see them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from broker.model.ids import TopicPartition
from broker.runtime.fetch.offset_requests import LATEST
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from broker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.wire.records import NewRecord, encode_batch
from tests.support.memory_cluster import MemoryCluster, fetched, produced, values_of
from tests.support.memory_node import TOPIC, TOPIC_ID, FakeSlot


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.settle()
    return cluster


def fetch_request(cluster: MemoryCluster, **fields: Any) -> FakeSlot:
    body = fetch.encode_request(12, fetch.FetchRequest(**fields))
    return cluster.ask(1, ApiKey.FETCH, 12, body)


def answer_of(slot: FakeSlot) -> fetch.FetchResponse:
    assert slot.answer is not None, "not answered yet"
    return fetch.decode_response(12, memoryview(slot.answer)[5:])


def position(offset: int, **fields: Any) -> fetch.FetchPartition:
    return fetch.FetchPartition(topic=TOPIC, partition=0, fetch_offset=offset, **fields)


@pytest.mark.guarantee("R4", "long-polls")
def test_fetch_waits_for_the_watermark_and_is_woken_by_it(cluster: MemoryCluster) -> None:
    slot = cluster.fetch(1, 0, max_wait_ms=10000)
    cluster.settle()
    assert slot.answer is None
    cluster.produce(1, "a")
    cluster.settle()
    assert values_of(fetched(slot)) == ["a"]


@pytest.mark.guarantee("long-polls")
def test_fetch_that_finds_nothing_is_answered_empty_when_time_is_over(cluster: MemoryCluster) -> None:
    slot = cluster.fetch(1, 0, max_wait_ms=700)
    cluster.advance(690)
    assert slot.answer is None
    cluster.advance(20)
    assert values_of(fetched(slot)) == []


@pytest.mark.guarantee("slow-consumer")
def test_long_poll_of_a_client_that_is_gone_is_forgotten_long_before_its_time(cluster: MemoryCluster) -> None:
    slot = cluster.fetch(1, 0, max_wait_ms=2**31 - 1)
    staying = cluster.fetch(1, 0, max_wait_ms=60_000)
    cluster.settle()
    slot.open = False
    gone = weakref.ref(slot)
    del slot
    cluster.advance(15_000)
    gc.collect()
    assert gone() is None
    cluster.produce(1, "a")
    cluster.settle()
    assert values_of(fetched(staying)) == ["a"]


@pytest.mark.guarantee("slow-consumer")
def test_producer_that_is_gone_leaves_no_time_out_behind_and_its_records_commit(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: True
    slot = cluster.produce(1, "a", timeout_ms=2**31 - 1)
    slot.open = False
    cluster.advance(15_000)
    assert len(cluster.nodes[1].up.appender._deadlines) == 0
    cluster.hold = lambda message: False
    cluster.release()
    cluster.advance(1_000)
    assert slot.answer is None
    assert values_of(fetched(cluster.fetch(1, 0))) == ["a"]


@pytest.mark.guarantee("long-polls")
def test_fetch_waits_for_min_bytes(cluster: MemoryCluster) -> None:
    slot = fetch_request(cluster, min_bytes=120, max_wait_ms=5000, partitions=[position(0)])
    cluster.produce(1, "a")
    cluster.settle()
    assert slot.answer is None
    cluster.produce(1, "b")
    cluster.settle()
    assert values_of(answer_of(slot).results[0]) == ["a", "b"]


@pytest.mark.guarantee("R4")
def test_fetch_above_the_watermark_waits_and_above_the_end_is_out_of_range(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: True
    cluster.produce(1, "a", acks=1)
    between = fetched(cluster.fetch(1, 1))
    assert between is not None
    assert (between.error, between.high_watermark) == (0, 0)
    above = fetched(cluster.fetch(1, 2))
    assert above is not None
    assert above.error == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.guarantee("R4")
def test_reader_of_committed_records_is_told_the_watermark_as_the_last_stable_offset(cluster: MemoryCluster) -> None:
    # No transactions are served, so nothing but the watermark is in the way.
    cluster.produce(1, "a")
    cluster.settle()
    cluster.hold = lambda message: True
    cluster.produce(1, "b", acks=1)
    read_committed = 1
    slot = fetch_request(cluster, isolation_level=read_committed, partitions=[position(0)])
    result = answer_of(slot).results[0]
    assert values_of(result) == ["a"]
    assert (result.high_watermark, result.last_stable_offset, list(result.aborted or ())) == (1, 1, [])


@pytest.mark.guarantee("R2")
def test_consumer_is_served_by_the_leader_alone(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    for follower in (2, 3):
        refused = fetched(cluster.fetch(follower, 0))
        assert refused is not None
        assert (refused.error, values_of(refused)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
        assert refused.current_leader_id == 1
        assert cluster.list_offsets(follower).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetch_returns_one_batch_even_above_the_limit(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a" * 500)
    cluster.produce(1, "b")
    cluster.settle()
    assert values_of(fetched(cluster.fetch(1, 0, max_bytes=1))) == ["a" * 500]


@pytest.mark.guarantee("R10")
@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, 0), (1, 0), (0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_fetch_and_list_offsets_are_fenced_by_leader_epoch(cluster: MemoryCluster, epoch: int, error: int) -> None:
    cluster.elect(1)
    cluster.advance(1000)
    result = fetched(cluster.fetch(1, 0, epoch=epoch))
    assert result is not None
    assert result.error == error
    assert cluster.list_offsets(1, epoch=epoch).error_code == error
    assert end_of_epoch(cluster, 0, epoch).error_code == error


def end_of_epoch(cluster: MemoryCluster, epoch: int, current: int = -1) -> EpochEndOffset:
    body = OffsetForLeaderEpochRequest(
        -2, [OffsetForLeaderTopic(TOPIC, [OffsetForLeaderPartition(0, current, epoch)])]
    ).encode(2)
    slot = cluster.ask(1, ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, body)
    assert slot.answer is not None
    return OffsetForLeaderEpochResponse.decode(2, slot.answer[4:]).topics[0].partitions[0]


@pytest.mark.guarantee("diverging-epochs")
def test_offset_for_leader_epoch_is_where_the_next_epoch_starts(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    cluster.elect(1)
    cluster.settle()
    answer = end_of_epoch(cluster, 0)
    assert (answer.leader_epoch, answer.end_offset) == (0, 1)
    assert end_of_epoch(cluster, 7).end_offset == -1


@pytest.mark.guarantee("diverging-epochs")
def test_consumer_that_tells_its_last_epoch_hears_where_it_diverges(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a", "b")
    cluster.elect(1)
    cluster.settle()
    cluster.produce(1, "c")
    cluster.settle()
    # Epoch 0 ended at 2: who has more of it has what is no longer there.
    part = answer_of(
        fetch_request(cluster, max_wait_ms=1000, min_bytes=1, partitions=[position(3, last_fetched_epoch=0)])
    ).results[0]
    assert (part.error, part.diverging_epoch, part.diverging_end_offset) == (0, 0, 2)
    same = answer_of(fetch_request(cluster, partitions=[position(2, last_fetched_epoch=0)])).results[0]
    assert (same.diverging_epoch, values_of(same)) == (-1, ["c"])


@pytest.mark.parametrize("waits", [False, True])
def test_fetch_of_bytes_damaged_under_the_leader_takes_the_replica_offline_and_nothing_else(
    cluster: MemoryCluster, waits: bool
) -> None:
    node = cluster.nodes[1]
    if waits:
        slot = cluster.fetch(1, 0, max_wait_ms=1000)
        cluster.hold = lambda message: True
    cluster.produce(1, "a", acks=1)
    base, last, epoch, data = node.log.batches[0]
    node.log.batches[0] = (base, last, epoch, data[:16] + b"\x63" + data[17:])
    if waits:
        # The watermark rises at the followers' next fetch, and wakes the consumer in the end of the turn.
        cluster.hold = lambda message: False
        cluster.release()
    cluster.settle()
    if not waits:
        slot = cluster.fetch(1, 0, max_wait_ms=1000, min_bytes=100_000)
    answer = fetched(slot)
    assert answer is not None
    assert (answer.error, list(answer.records)) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    replica = node.up.replicas.by_partition[(TOPIC, 0)]
    assert (replica.offline, replica.damaged) == (True, True)


@pytest.mark.guarantee("R4")
def test_list_offsets_tells_consumers_the_watermark_and_followers_the_end(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: True
    cluster.produce(1, "a", acks=1)
    assert cluster.list_offsets(1).offset == 0
    assert cluster.list_offsets(1, replica_id=2).offset == 1
    assert cluster.list_offsets(1, timestamp=-2).offset == 0


@pytest.mark.parametrize("version", range(1, 8))
def test_list_offsets_tells_the_epoch_in_versions_that_have_room_for_it(cluster: MemoryCluster, version: int) -> None:
    cluster.produce(1, "a", acks=1)
    for timestamp in (-1, -2):
        newest = cluster.list_offsets(1, timestamp=timestamp, version=7)
        answer = cluster.list_offsets(1, timestamp=timestamp, version=version)
        assert (answer.error_code, answer.offset) == (0, newest.offset)
        assert answer.leader_epoch == (newest.leader_epoch if version >= 4 else -1)


def test_list_offsets_of_the_newest_record_finds_the_first_that_has_the_largest_timestamp(
    cluster: MemoryCluster,
) -> None:
    none = cluster.list_offsets(1, timestamp=-3)
    assert (none.error_code, none.offset, none.timestamp) == (0, -1, -1)
    for stamp in (5, 9, 9, 7):
        batch = encode_batch([NewRecord(None, b"x")], timestamps=stamp)
        cluster.produce_raw(1, memoryview(bytearray(batch)))
    cluster.settle()
    found = cluster.list_offsets(1, timestamp=-3)
    assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (0, 1, 9, 0)
    # KIP-734: known from version 7 on.
    assert cluster.list_offsets(1, timestamp=-3, version=6).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert cluster.list_offsets(1, timestamp=-4).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.guarantee("R4")
def test_list_offsets_of_the_newest_record_tells_nothing_above_the_watermark(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: True
    cluster.produce(1, "a", acks=1)
    assert cluster.list_offsets(1, timestamp=-3).offset == -1
    assert cluster.list_offsets(1, timestamp=-3, replica_id=2).offset == 0


@pytest.mark.guarantee("R4")
def test_list_offsets_by_time_stops_at_the_watermark(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    assert cluster.list_offsets(1, timestamp=0).offset == 0
    assert cluster.list_offsets(1, timestamp=2).offset == -1


@pytest.mark.parametrize(("timestamp", "end"), [(LATEST, 1), (2, -1)], ids=["latest", "later-than-every-record"])
@pytest.mark.parametrize(
    ("version", "error"), [(7, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
)
def test_new_leader_tells_no_end_before_its_watermark_reaches_its_epoch(
    version: int, error: int, timestamp: int, end: int
) -> None:
    cluster = MemoryCluster()
    cluster.settle()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.hold = lambda message: message.target == 2
    cluster.kill(1)
    cluster.expire(1)
    cluster.settle()
    assert cluster.nodes[2].hw == 0
    assert cluster.list_offsets(2, version=version, timestamp=timestamp).error_code == error
    # A follower is answered from the log's end: nothing there lies above what it may know.
    assert cluster.list_offsets(2, version=version, timestamp=timestamp, replica_id=3).offset == end
    cluster.hold = lambda message: False
    cluster.release()
    cluster.advance(1500)
    assert cluster.list_offsets(2, version=version, timestamp=timestamp).offset == end


@pytest.mark.guarantee("long-polls")
def test_session_names_only_what_changed(cluster: MemoryCluster) -> None:
    first = answer_of(fetch_request(cluster, max_wait_ms=0, session_epoch=0, partitions=[position(0)]))
    assert first.session_id > 0
    assert len(first.results) == 1
    second = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=1))
    assert (second.error, second.results) == (0, [])
    cluster.produce(1, "a")
    cluster.settle()
    third = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=2))
    assert values_of(third.results[0]) == ["a"]
    fourth = answer_of(
        fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=3, partitions=[position(1)])
    )
    assert fourth.results == []


@pytest.mark.guarantee("long-polls")
def test_session_learns_a_topic_of_which_its_leader_had_not_heard() -> None:
    cluster = MemoryCluster(1, start=False)
    cluster.start(1, tell=False)

    def asked(**fields: Any) -> fetch.FetchResponse:
        slot = cluster.ask(1, ApiKey.FETCH, 13, fetch.encode_request(13, fetch.FetchRequest(max_wait_ms=0, **fields)))
        assert slot.answer is not None
        return fetch.decode_response(13, memoryview(slot.answer)[5:])

    by_id = fetch.FetchPartition(topic_id=TOPIC_ID, partition=0, fetch_offset=0)
    first = asked(session_epoch=0, partitions=[by_id])
    assert [result.error for result in first.results] == [ErrorCode.UNKNOWN_TOPIC_ID]
    cluster.tell(1)
    cluster.settle()
    # A client names a partition again only where its own position has changed.
    second = asked(session_id=first.session_id, session_epoch=1)
    assert [result.error for result in second.results] == [0]
    cluster.produce(1, "a")
    cluster.settle()
    third = asked(session_id=first.session_id, session_epoch=2)
    assert values_of(third.results[0]) == ["a"]


@pytest.mark.guarantee("long-polls")
def test_session_out_of_step_or_unknown_is_refused(cluster: MemoryCluster) -> None:
    first = answer_of(fetch_request(cluster, max_wait_ms=0, session_epoch=0, partitions=[position(0)]))
    wrong = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=5))
    assert wrong.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    other = first.session_id % 1000 + 1
    unknown = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=other, session_epoch=1))
    assert unknown.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.guarantee("long-polls")
def test_session_forgets_partitions_and_ends(cluster: MemoryCluster) -> None:
    first = answer_of(fetch_request(cluster, max_wait_ms=0, session_epoch=0, partitions=[position(0)]))
    fetch_request(
        cluster,
        max_wait_ms=0,
        session_id=first.session_id,
        session_epoch=1,
        forgotten=[fetch.ForgottenPartition(TOPIC, "", 0)],
    )
    cluster.produce(1, "a")
    cluster.settle()
    third = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=2))
    assert third.results == []
    fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=-1)
    gone = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=3))
    assert gone.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_unknown_partition_is_answered_at_once(cluster: MemoryCluster) -> None:
    slot = fetch_request(cluster, max_wait_ms=9000, partitions=[fetch.FetchPartition(topic="other", partition=0)])
    assert answer_of(slot).results[0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.guarantee("R10")
def test_waiting_fetch_hears_of_a_lost_leadership(cluster: MemoryCluster) -> None:
    slot = cluster.fetch(1, 0, max_wait_ms=60000)
    cluster.elect(2)
    cluster.settle()
    result = fetched(slot)
    assert result is not None
    assert (result.error, result.current_leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


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
        assert opened.answer is not None
        self.session_id = fetch.decode_response(15, memoryview(opened.answer)[5:]).session_id

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


def test_follower_hears_an_error_of_its_session_once_and_then_waits(cluster: MemoryCluster) -> None:
    session = FollowerSession(cluster)
    waiting = session.poll()
    assert waiting.answer is None
    cluster.elect(2)
    cluster.settle()
    assert follower_answer(waiting).error == ErrorCode.FENCED_LEADER_EPOCH
    assert session.poll().answer is None
    # To name it is to ask about it again.
    assert follower_answer(session.poll(position_of_follower(0))).error == ErrorCode.FENCED_LEADER_EPOCH
    still = session.poll()
    assert still.answer is None
    cluster.advance(500)
    assert follower_answer(still).error == ErrorCode.FENCED_LEADER_EPOCH


def test_follower_is_told_again_what_an_answer_said_that_it_dropped(cluster: MemoryCluster) -> None:
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
    assert idle.answer is not None
    assert fetch.decode_response(15, memoryview(idle.answer)[5:]).results == []


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
    assert slot.answer is not None
    return fetch.decode_response(15, memoryview(slot.answer)[5:]).results[0]


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
def test_diverging_fetch_is_told_where_and_counts_nothing(cluster: MemoryCluster) -> None:
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


def test_follower_behind_the_leaders_start_begins_anew_there() -> None:
    cluster = MemoryCluster(min_isr=1)
    cluster.settle()
    cluster.kill(3)
    cluster.expire(3)
    for value in "abc":
        cluster.produce(1, value)
    cluster.settle()
    log = cluster.nodes[1].log
    log.batches = log.batches[2:]
    log.start = 2
    cluster.start(3)
    cluster.advance(5000)
    assert cluster.nodes[3].log.start == 2
    assert cluster.nodes[3].log.values() == ["c"]
    assert set(cluster.state.isr) == {1, 2, 3}


def test_empty_follower_ahead_of_an_unclean_leader_begins_anew_where_that_leaders_log_does() -> None:
    cluster = MemoryCluster(min_isr=1)
    cluster.settle()
    for value in "abc":
        cluster.produce(1, value)
    cluster.settle()
    for i in (1, 3):
        cluster.kill(i)
        cluster.expire(i)
    # As after it began anew at the start of a leader that had removed everything before 1000.
    cluster.nodes[3].log.truncate_fully_and_start_at(1000)
    cluster.nodes[3].store.checkpointed[TopicPartition(TOPIC, 0)] = 1000
    cluster.write(leader=2, leader_epoch=cluster.state.leader_epoch + 1, isr=(2,), lossy=True)
    cluster.start(3)
    cluster.advance(5000)
    assert (cluster.nodes[3].log.start, cluster.nodes[3].log.values()) == (0, ["a", "b", "c"])
    assert set(cluster.state.isr) == {2, 3}
    (cut,) = cluster.nodes[3].event_log.of("truncate")
    assert (cut["to"], cut["hw"], cut["in_isr"]) == (0, 1000, False)
