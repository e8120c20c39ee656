"""The runtime as a whole, three brokers in memory: committing, waiting, shrinking, joining, failing over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.model.log_errors import LogDirFailed
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey, response_header_version
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch, produce
from broker.wire.records import NewRecord, encode_batch
from tests.support.kept import kept_bytes
from tests.support.memory_cluster import MemoryCluster, fetched, produced, values_of
from tests.support.memory_links import Held
from tests.support.memory_node import TOPIC, FakeSlot


def settled(min_isr: int = 1, **kwargs: object) -> MemoryCluster:
    cluster = MemoryCluster(min_isr=min_isr, **kwargs)  # type: ignore[arg-type]
    cluster.settle()
    return cluster


@pytest.mark.guarantee("R5")
def test_produce_acks_all_is_answered_once_every_isr_member_has_it() -> None:
    cluster = settled()
    cluster.hold = lambda message: message.kind == "request" and message.source == 3
    slot = cluster.produce(1, "a")
    cluster.settle()
    assert produced(slot) is None
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert (result.error, result.base_offset) == (0, 0)
    assert cluster.nodes[1].hw == 1
    assert [node.log.values() for node in cluster.nodes.values()] == [["a"]] * 3


@pytest.mark.guarantee("R5")
def test_produce_acks_1_is_answered_by_the_leaders_write_alone() -> None:
    cluster = settled()
    cluster.hold = lambda message: True
    result = produced(cluster.produce(1, "a", acks=1))
    assert result is not None
    assert result.error == 0
    assert cluster.nodes[1].log.values() == ["a"]
    assert cluster.nodes[1].hw == 0


@pytest.mark.guarantee("R5")
def test_produce_acks_0_has_no_answer_and_a_failure_closes_the_connection() -> None:
    cluster = settled()
    slot = cluster.produce(1, "a", acks=0)
    assert slot.nothing
    refused = cluster.produce(2, "a", acks=0)
    assert refused.closed is not None
    assert "NOT_LEADER_OR_FOLLOWER" in refused.closed


@pytest.mark.guarantee("R2", "R5")
def test_produce_to_follower_is_refused() -> None:
    result = produced(settled().produce(2, "a"))
    assert result is not None
    assert result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.guarantee("R5")
def test_produce_unknown_acks_is_refused() -> None:
    result = produced(settled().produce(1, "a", acks=2))
    assert result is not None
    assert result.error == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.guarantee("R5")
def test_produce_damaged_batch_is_refused_and_nothing_appended() -> None:
    from broker.wire.records import NewRecord, encode_batch

    cluster = settled()
    batch = bytearray(encode_batch([NewRecord(None, b"a")], timestamps=1))
    batch[-1] ^= 1
    result = produced(cluster.produce_raw(1, memoryview(batch)))
    assert result is not None
    assert result.error == ErrorCode.CORRUPT_MESSAGE
    assert cluster.nodes[1].log.leo == 0


@pytest.mark.guarantee("R5", "header-counts")
def test_produce_damaged_batches_of_one_client_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    from broker.wire.records import NewRecord, encode_batch

    cluster = settled()
    for flipped in (-1, -2, -3):
        batch = bytearray(encode_batch([NewRecord(None, b"aaaa")], timestamps=1))
        batch[flipped] ^= 1
        result = produced(cluster.produce_raw(1, memoryview(batch)))
        assert result is not None
        assert result.error_message
    (line,) = [record.getMessage() for record in caplog.records if "is refused with" in record.getMessage()]
    assert "client 'client' sent a batch to" in line
    assert "CORRUPT_MESSAGE" in line


@pytest.mark.guarantee("R5")
def test_produce_of_clients_with_endless_names_leaves_little_behind() -> None:
    cluster = settled()
    batch = bytearray(encode_batch([NewRecord(None, b"aaaa")], timestamps=1))
    batch[-1] ^= 1
    part = produce.ProducePartition(TOPIC, 0, memoryview(batch))
    body = produce.encode_request(9, produce.ProduceRequest(None, 1, 1000, [part]))

    def send_all() -> None:
        for number in range(50):
            slot, name = FakeSlot(), f"{number:05}".ljust(30_000, "x")
            request = Request(ApiKey.PRODUCE, 9, 7, name, memoryview(bytearray(body)), slot, True)
            cluster.dispatch(cluster.nodes[1], request)
            cluster.nodes[1].up.end_of_turn()
            result = produced(slot)
            assert result is not None
            assert result.error == ErrorCode.CORRUPT_MESSAGE

    assert kept_bytes(send_all) < 50 * 3_000


@pytest.mark.guarantee("R5")
def test_produce_zstd_needs_a_version_whose_readers_know_it() -> None:
    from broker.wire.compression import Compression
    from broker.wire.messages import produce
    from broker.wire.records import NewRecord, encode_batch

    cluster = settled()
    for version, error in ((6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)):
        batch = bytearray(encode_batch([NewRecord(None, b"a")], timestamps=1, compression=Compression.ZSTD))
        part = produce.ProducePartition(TOPIC, 0, memoryview(batch))
        slot = cluster.ask(
            1, ApiKey.PRODUCE, version, produce.encode_request(version, produce.ProduceRequest(None, 1, 1000, [part]))
        )
        assert slot.answer is not None
        assert produce.decode_response(version, memoryview(slot.answer)[4:]).results[0].error == error


@pytest.mark.patches
def test_many_produces_in_one_turn_cost_one_write() -> None:
    cluster = settled()
    manager = cluster.nodes[1].up
    turns = manager.end_of_turn
    manager.end_of_turn = lambda: None  # type: ignore[method-assign]
    slots = [cluster.produce(1, f"v{i}", acks=1) for i in range(5)]
    assert all(slot.answer is None for slot in slots)
    manager.end_of_turn = turns  # type: ignore[method-assign]
    manager.end_of_turn()
    assert cluster.nodes[1].log.writes == 1
    assert [result.base_offset for slot in slots if (result := produced(slot))] == [0, 1, 2, 3, 4]


@pytest.mark.guarantee("R5")
def test_produce_below_min_isr_is_refused_before_the_append() -> None:
    cluster = settled(min_isr=2)
    for i in (2, 3):
        cluster.kill(i)
        cluster.expire(i)
    cluster.settle()
    result = produced(cluster.produce(1, "a"))
    assert result is not None
    assert result.error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert cluster.nodes[1].log.leo == 0
    # acks=1 goes on; the watermark does not.
    accepted = produced(cluster.produce(1, "b", acks=1))
    assert accepted is not None
    assert accepted.error == 0
    assert cluster.nodes[1].hw == 0


@pytest.mark.guarantee("R5")
def test_reads_and_acks_0_and_1_go_on_below_min_isr() -> None:
    cluster = settled(min_isr=2)
    cluster.produce(1, "committed")
    cluster.settle()
    for i in (2, 3):
        cluster.kill(i)
        cluster.expire(i)
    cluster.settle()
    assert cluster.produce(1, "b", acks=0).nothing
    accepted = produced(cluster.produce(1, "c", acks=1))
    assert accepted is not None
    assert (accepted.error, accepted.base_offset) == (0, 2)
    assert cluster.nodes[1].log.values() == ["committed", "b", "c"]
    assert values_of(fetched(cluster.fetch(1, 0))) == ["committed"]
    assert cluster.list_offsets(1).offset == 1
    cluster.start(2)
    cluster.advance(2000)
    assert values_of(fetched(cluster.fetch(1, 0))) == ["committed", "b", "c"]


@pytest.mark.guarantee("R5", "L1")
@pytest.mark.parametrize("magic", [0, 1])
def test_produce_of_older_formats_is_refused_and_nothing_appended(magic: int) -> None:
    from broker.wire.records import NewRecord, encode_batch

    cluster = settled()
    batch = bytearray(encode_batch([NewRecord(None, b"a")], timestamps=1))
    batch[16] = magic
    result = produced(cluster.produce_raw(1, memoryview(batch)))
    assert result is not None
    assert result.error == ErrorCode.INVALID_RECORD
    assert result.error_message is not None
    assert str(magic) in result.error_message
    assert cluster.nodes[1].log.leo == 0


@pytest.mark.guarantee("R5")
def test_produce_whose_isr_shrinks_below_min_ends_timed_out() -> None:
    cluster = settled(min_isr=2)
    cluster.hold = lambda message: message.kind == "request" and message.target == 1
    slot = cluster.produce(1, "a", timeout_ms=500)
    for i in (2, 3):
        cluster.kill(i)
        cluster.expire(i)
    cluster.advance(400)
    assert produced(slot) is None
    cluster.advance(200)
    result = produced(slot)
    assert result is not None
    assert result.error == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.guarantee("R5")
def test_produce_that_the_watermark_passes_in_the_turn_that_shortens_the_isr_is_not_enough_after_append() -> None:
    cluster = settled(min_isr=2)
    cluster.hold = lambda message: message.kind == "request" and message.target == 1
    first = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    slot = cluster.produce(1, "a", **first)
    cluster.settle()
    assert [node.log.values() for node in cluster.nodes.values()] == [["a"]] * 3
    assert produced(slot) is None
    # The followers' next fetches say that they have it, and before this turn ends the controller says that they left.
    cluster.write(isr=(1,))
    cluster.hold = lambda message: False
    cluster.release()
    cluster.turn()
    result = produced(slot)
    assert result is not None
    assert (result.error, result.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1)
    assert (cluster.nodes[1].log.leo, cluster.nodes[1].hw) == (1, 1)
    assert not cluster.nodes[1].event_log.of("ack")
    # It is in the log: who tries again once the ISR is whole is told where.
    cluster.advance(1000)
    assert set(cluster.state.isr) == {1, 2, 3}
    repeated = produced(cluster.produce(1, "a", **first))
    assert repeated is not None
    assert (repeated.error, repeated.base_offset) == (0, 0)


@pytest.mark.guarantee("R5")
def test_produce_waiting_when_leadership_is_lost_is_not_leader() -> None:
    cluster = settled()
    cluster.hold = lambda message: True
    slot = cluster.produce(1, "a")
    cluster.elect(2)
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_shrink_by_lag_commits_what_waited_for_the_slow_follower() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    slot = cluster.produce(1, "a")
    cluster.advance(9000)
    assert produced(slot) is None
    cluster.advance(7000)
    result = produced(slot)
    assert result is not None
    assert result.error == 0
    assert set(cluster.state.isr) == {1, 2}
    proposal = cluster.nodes[1].event_log.of("isr_propose")[0]
    assert (proposal["kind"], proposal["isr"], proposal["reason"]) == ("shrink", [1, 2], "lag")
    assert cluster.nodes[1].event_log.of("isr_commit")[-1]["isr"] == [1, 2]


def test_paused_follower_that_resumes_rejoins_the_isr() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    cluster.produce(1, "a")
    cluster.advance(20000)
    assert set(cluster.state.isr) == {1, 2}
    cluster.resume(3)
    cluster.advance(2000)
    assert set(cluster.state.isr) == {1, 2, 3}
    expand = [line for line in cluster.nodes[1].event_log.of("isr_propose") if line["kind"] == "expand"][-1]
    assert expand["bes"]["3"] == cluster.nodes[3].broker_epoch


def test_brokers_that_return_together_join_without_waiting_for_a_poll() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    for i in (2, 3):
        cluster.kill(i)
        cluster.expire(i)
    cluster.settle()
    for i in (2, 3):
        cluster.start(i)
    cluster.settle()
    assert set(cluster.state.isr) == {1, 2, 3}


def test_idle_partition_keeps_its_isr() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.advance(60000)
    assert set(cluster.state.isr) == {1, 2, 3}
    cluster.produce(1, "b")
    cluster.advance(1000)
    assert set(cluster.state.isr) == {1, 2, 3}


def test_leader_that_was_stopped_itself_blames_no_follower() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    # The process stands still for longer than the lag time; a produce is the first thing that it sees then.
    cluster.loop.now += 25000
    cluster.produce(1, "b")
    cluster.nodes[1].up.isr_manager.shrink_late()
    cluster.settle()
    assert cluster.nodes[1].event_log.of("isr_propose") == []
    cluster.advance(20000)
    assert set(cluster.state.isr) == {1, 2, 3}
    assert cluster.nodes[1].hw == 2


def test_pending_shrink_does_not_raise_the_watermark_before_it_is_committed() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    cluster.hold = lambda message: message.kind == "altered"
    slot = cluster.produce(1, "a")
    cluster.advance(20000)
    assert set(cluster.state.isr) == {1, 2}
    assert cluster.nodes[1].hw == 0
    assert produced(slot) is None


def test_lost_alter_answer_is_asked_again_and_echoed() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    lost: list[Held] = []

    def lose_first(message: Held) -> bool:
        if message.kind == "alter" and not lost:
            lost.append(message)
            return True
        return False

    cluster.hold = lose_first
    cluster.produce(1, "a")
    cluster.advance(16000)
    assert lost
    lost[0].lose()
    cluster.held.clear()
    cluster.advance(1000)
    assert set(cluster.state.isr) == {1, 2}
    assert cluster.nodes[1].hw == 1


def test_bounced_follower_is_ineligible_until_its_new_epoch_fetches() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    cluster.produce(1, "a")
    cluster.advance(20000)
    cluster.resume(3)
    # The fetch that made the leader propose is of an incarnation that is gone by the time the controller looks.
    cluster.hold = lambda message: message.kind == "alter"
    cluster.settle()
    cluster.registered[3] += 1000
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    assert set(cluster.state.isr) == {1, 2}
    assert cluster.nodes[1].event_log.of("isr_reject")[-1]["error"] == "INELIGIBLE_REPLICA"


def test_failover_keeps_what_was_acknowledged_and_goes_on() -> None:
    cluster = settled(min_isr=2)
    first = cluster.produce(1, "a")
    cluster.settle()
    assert produced(first) is not None
    cluster.kill(1)
    cluster.expire(1)
    cluster.settle()
    assert cluster.state.leader == 2
    second = cluster.produce(2, "b")
    cluster.advance(1500)
    result = produced(second)
    assert result is not None
    assert (result.error, result.base_offset) == (0, 1)
    cluster.start(1)
    cluster.advance(2000)
    assert [node.log.values() for node in cluster.nodes.values()] == [["a", "b"]] * 3
    assert set(cluster.state.isr) == {1, 2, 3}


def test_failover_itself_takes_no_time() -> None:
    cluster = settled(min_isr=2)
    cluster.produce(1, "a")
    cluster.settle()
    cluster.kill(1)
    cluster.expire(1)
    cluster.settle()
    slot = cluster.produce(2, "b")
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == 0


def test_fetch_that_waits_for_a_paused_leader_does_not_delay_following_the_next() -> None:
    cluster = settled(min_isr=2)
    cluster.produce(1, "a")
    cluster.settle()
    cluster.nodes[1].paused = True
    # The followers' polls are answered by nobody any more.
    cluster.settle()
    cluster.expire(1)
    cluster.settle()
    slot = cluster.produce(2, "b")
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == 0
    assert cluster.nodes[3].log.values() == ["a", "b"]


def test_new_epoch_interrupts_the_long_poll() -> None:
    cluster = settled(settings={"replica.fetch.wait.max.ms": "60000"})
    cluster.produce(1, "a")
    cluster.settle()
    # The leader hears of its new epoch last: the followers' polls are out, and it does not wake them by itself.
    cluster.nodes[1].deaf = True
    cluster.elect(1)
    cluster.settle()
    cluster.nodes[1].deaf = False
    cluster.tell(1)
    cluster.advance(50)
    role = cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].leader
    assert role is not None
    assert role.leader_epoch == 1
    assert role.leos() == {1: 1, 2: 1, 3: 1}


def test_leader_without_session_slots_is_still_followed_by_long_polls() -> None:
    cluster = settled(settings={"max.incremental.fetch.session.cache.slots": "0"})
    slot = cluster.produce(1, "a")
    cluster.settle()
    assert produced(slot) is not None
    before = len(cluster.nodes[1].event_log.of("fetch_received"))
    cluster.advance(5000)
    assert len(cluster.nodes[1].event_log.of("fetch_received")) - before <= 2 * 11


def test_returning_leader_cuts_its_unreplicated_tail() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.hold = lambda message: message.source == 1 or message.target == 1
    cluster.produce(1, "lost", acks=1)
    cluster.kill(1)
    cluster.expire(1)
    cluster.hold = lambda message: False
    cluster.settle()
    cluster.produce(2, "b")
    cluster.advance(1500)
    cluster.start(1)
    cluster.advance(2000)
    assert cluster.nodes[1].log.values() == ["a", "b"]
    cut = cluster.nodes[1].event_log.of("truncate")[0]
    assert (cut["from_leo"], cut["to"], cut["reason"], cut["in_isr"]) == (2, 1, "diverging-epoch", False)


def test_leader_and_isr_for_another_registration_is_refused() -> None:
    cluster = settled()
    answer = cluster.apply(1, cluster.leader_and_isr(cluster.state, 5))
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_leader_and_isr_of_an_old_controller_is_refused() -> None:
    cluster = settled()
    request = cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch)
    request.controller_epoch = 0
    assert cluster.apply(1, request).error_code == ErrorCode.STALE_CONTROLLER_EPOCH


def test_leader_and_isr_of_known_state_changes_nothing() -> None:
    cluster = settled()
    before = cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].partition.role
    answer = cluster.apply(1, cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].partition.role is before


def test_restarted_broker_never_leads_under_its_earlier_epoch() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.kill(1)
    cluster.start(1, tell=False)
    answer = cluster.apply(1, cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    result = produced(cluster.produce(1, "b"))
    assert result is not None
    assert result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_lost_registration_ends_every_role() -> None:
    cluster = settled()
    cluster.hold = lambda message: True
    slot = cluster.produce(1, "a")
    manager = cluster.nodes[1].up
    manager.resign_all()
    manager.end_of_turn()
    result = produced(slot)
    assert result is not None
    assert result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused = fetched(cluster.fetch(1, 0))
    assert refused is not None
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_passed_session_deadline_commits_nothing_until_it_is_over() -> None:
    cluster = settled()
    cluster.hold = lambda message: message.kind == "request" and message.target == 1
    slot = cluster.produce(1, "a")
    cluster.nodes[1].up.replicas.set_session_deadline_passed(True)
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    assert produced(slot) is None
    sent_away = cluster.produce(1, "b")
    refused = produced(sent_away)
    assert refused is not None
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert sent_away.closed is not None, "its metadata would go on naming itself"
    cluster.nodes[1].up.replicas.set_session_deadline_passed(False)
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == 0


def test_leader_stands_still_from_the_very_moment_of_its_sessions_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = settled()
    cluster.hold = lambda message: message.kind == "request" and message.target == 1
    waiting = cluster.produce(1, "a")
    manager = cluster.nodes[1].up
    deadline = cluster.loop.now + 1
    monkeypatch.setattr(manager.replicas, "_session_deadline_ms", lambda: deadline)
    before = produced(cluster.produce(1, "b", acks=1))
    assert before is not None
    assert before.error == 0
    cluster.loop.now += 1
    # Nobody has told it so far: no timer has run.
    refused = produced(cluster.produce(1, "c", acks=1))
    assert refused is not None
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    assert produced(waiting) is None
    assert cluster.nodes[1].hw == 0
    monkeypatch.setattr(manager.replicas, "_session_deadline_ms", lambda: deadline + 10_000)
    manager.replicas.set_session_deadline_passed(False)
    cluster.settle()
    result = produced(waiting)
    assert result is not None
    assert result.error == 0


def test_stop_replica_with_delete_removes_the_log() -> None:
    from broker.wire.messages.stop_replica import (
        StopReplicaPartitionState,
        StopReplicaRequest,
        StopReplicaTopicState,
    )

    cluster = settled()
    node = cluster.nodes[2]
    request = StopReplicaRequest(
        9, False, 1, node.broker_epoch, [StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, -2, True)])]
    )
    assert node.up.stop_replicas(request).partition_errors[0].error_code == 0
    assert not node.store.logs()
    assert (TOPIC, 0) not in node.up.replicas.by_partition


def test_log_with_another_topic_id_that_the_partition_rests_on_is_kept_and_goes_offline() -> None:
    cluster = settled()
    cluster.produce(1, "kept")
    cluster.settle()
    request = cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch)
    request.topic_states[0].topic_id = "BBBBBBBBBBBBBBBBBBBBBQ"
    answer = cluster.apply(1, request)
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.nodes[1].log.values() == ["kept"]
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].damaged


def test_deleted_topics_log_gives_way_to_a_new_topic_of_that_name() -> None:
    cluster = settled()
    cluster.produce(1, "old")
    cluster.settle()
    request = cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch)
    request.topic_states[0].topic_id = "BBBBBBBBBBBBBBBBBBBBBQ"
    request.topic_states[0].partition_states[0].is_new = True
    cluster.apply(1, request)
    assert cluster.nodes[1].log.values() == []
    assert cluster.nodes[1].log.topic_id == "BBBBBBBBBBBBBBBBBBBBBQ"


def test_failed_write_answers_storage_error_and_serves_no_more() -> None:
    cluster = settled()
    cluster.nodes[1].log.fail_writes = True
    result = produced(cluster.produce(1, "a", acks=1))
    assert result is not None
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    refused = fetched(cluster.fetch(1, 0))
    assert refused is not None
    assert refused.error == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(("version", "error"), [(4, 6), (5, 6), (6, 56), (12, 56)])
def test_fetch_versions_that_know_no_storage_error_are_told_to_look_for_the_leader(version: int, error: int) -> None:
    cluster = settled()
    cluster.nodes[1].log.fail_writes = True
    assert produced(cluster.produce(1, "a", acks=1)) is not None
    asked = fetch.FetchRequest(partitions=[fetch.FetchPartition(TOPIC, "", 0, -1, 0, -1, -1, 100)])
    slot = cluster.ask(1, ApiKey.FETCH, version, fetch.encode_request(version, asked))
    assert slot.answer is not None
    body = memoryview(slot.answer)[4 + response_header_version(ApiKey.FETCH, version) :]
    assert [result.error for result in fetch.decode_response(version, body).results] == [error]


@pytest.mark.guarantee("R5")
@pytest.mark.parametrize(("version", "error"), [(3, 6), (4, 56)])
@pytest.mark.parametrize("offline", [False, True])
def test_produce_versions_that_know_no_storage_error_are_told_to_look_for_the_leader(
    version: int, error: int, offline: bool
) -> None:
    cluster = settled()
    cluster.nodes[1].log.fail_writes = True
    if offline:
        assert produced(cluster.produce(1, "a", acks=1)) is not None
    records = memoryview(encode_batch([NewRecord(None, b"b")], timestamps=1))
    asked = produce.ProduceRequest(None, 1, 1000, [produce.ProducePartition(TOPIC, 0, records)])
    slot = cluster.ask(1, ApiKey.PRODUCE, version, produce.encode_request(version, asked))
    assert slot.answer is not None
    assert [one.error for one in produce.decode_response(version, memoryview(slot.answer)[4:]).results] == [error]


@pytest.mark.parametrize("leader", [1, 2])
def test_role_is_not_taken_up_by_a_log_whose_last_write_as_leader_fails(leader: int) -> None:
    cluster = settled()
    node = cluster.nodes[1]
    replica = node.up.replicas.by_partition[(TOPIC, 0)]
    # Staged in the very turn in which the next role comes.
    slot = FakeSlot()
    batch = memoryview(bytearray(encode_batch([NewRecord(None, b"a")], timestamps=1)))
    part = produce.ProducePartition(TOPIC, 0, batch)
    body = produce.encode_request(9, produce.ProduceRequest(None, 1, 30000, [part]))
    cluster.dispatch(node, Request(ApiKey.PRODUCE, 9, 7, "client", memoryview(bytearray(body)), slot, True))
    assert replica.dirty
    node.log.fail_writes = True
    state = replace(cluster.state, leader=leader, leader_epoch=1, partition_epoch=1)
    answer = cluster.apply(1, cluster.leader_and_isr(state, cluster.registered[1]))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert replica.offline
    assert replica.partition.role is None
    assert not any(fetcher.follows(replica) for fetcher in node.up.fetchers.fetchers.values())
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("failure", [LogDirFailed("/data", 5, "Input/output error"), OSError(5, "Input/output error")])
def test_leadership_that_the_log_cannot_note_is_none(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = settled()
    node = cluster.nodes[2]

    def fails(epoch: int, start_offset: int) -> None:
        raise failure

    monkeypatch.setattr(node.log, "assign_epoch", fails)
    state = replace(cluster.state, leader=2, leader_epoch=1, partition_epoch=1)
    answer = cluster.apply(2, cluster.leader_and_isr(state, cluster.registered[2]))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.up.replicas.by_partition[(TOPIC, 0)].partition.role is None


def test_min_isr_raised_at_run_time_holds_for_the_next_append() -> None:
    cluster = settled()
    cluster.kill(3)
    cluster.expire(3)
    cluster.settle()
    cluster.topic_config["min.insync.replicas"] = "3"
    cluster.nodes[1].up.hosting.on_topic_config(TOPIC)
    result = produced(cluster.produce(1, "a"))
    assert result is not None
    assert result.error == ErrorCode.NOT_ENOUGH_REPLICAS


def test_high_watermark_checkpoint_survives_a_kill() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.advance(6000)
    cluster.kill(2)
    cluster.start(2, tell=False)
    assert cluster.nodes[2].hw == 1


def test_clean_shutdown_leaves_the_last_watermark() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.nodes[1].up.shutdown(clean=True)
    assert cluster.nodes[1].store.checkpointed[cluster.nodes[1].log.topic_partition] == 1


@pytest.mark.guarantee("R5")
def test_malformed_produce_closes_the_connection() -> None:
    cluster = settled()
    slot = FakeSlot()
    cluster.nodes[1].up.handle_produce(Request(0, 9, 1, "c", memoryview(bytearray(b"\x01")), slot, True))
    assert slot.closed is not None


@pytest.mark.guarantee("R4")
@pytest.mark.parametrize("api_wait_ms", [0, 500])
def test_consumer_sees_only_what_is_committed(api_wait_ms: int) -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.hold = lambda message: message.source == 3
    cluster.produce(1, "b", acks=1)
    cluster.settle()
    assert values_of(fetched(cluster.fetch(1, 0, max_wait_ms=api_wait_ms))) == ["a"]
    tail = cluster.fetch(1, 1, max_wait_ms=api_wait_ms)
    cluster.advance(api_wait_ms)
    assert values_of(fetched(tail)) == []
    visible = cluster.nodes[1].event_log.of("visible")
    assert [(line["upto"], line["hw"]) for line in visible] == [(1, 1)]
