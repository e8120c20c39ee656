"""Produce: when it is answered, with what, and what is refused before or after the append."""

from __future__ import annotations

import pytest

from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from broker.wire.records import NewRecord, encode_batch
from tests.support.kept import kept_bytes
from tests.support.memory_cluster import fetched, produced, values_of
from tests.support.memory_node import TOPIC, FakeSlot
from tests.support.settled_cluster import settled


@pytest.mark.guarantee("R5")
def test_produce_acks_all_is_acknowledged_once_every_isr_member_has_it() -> None:
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
def test_produce_acks_1_is_acknowledged_by_the_leaders_write_alone() -> None:
    cluster = settled()
    cluster.hold = lambda message: True
    result = produced(cluster.produce(1, "a", acks=1))
    assert result is not None
    assert result.error == 0
    assert cluster.nodes[1].log.values() == ["a"]
    assert cluster.nodes[1].hw == 0


@pytest.mark.guarantee("R5")
def test_produce_acks_0_has_no_response_and_a_failure_closes_the_connection() -> None:
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
    assert cluster.nodes[1].log.staged_end_offset == 0


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
        slot = cluster.request(
            1, ApiKey.PRODUCE, version, produce.encode_request(version, produce.ProduceRequest(None, 1, 1000, [part]))
        )
        assert slot.response is not None
        assert produce.decode_response(version, memoryview(slot.response)[4:]).results[0].error == error


@pytest.mark.patches
def test_many_produces_in_one_turn_cost_one_write() -> None:
    cluster = settled()
    manager = cluster.nodes[1].up
    turns = manager.end_of_turn
    manager.end_of_turn = lambda: None  # type: ignore[method-assign]
    slots = [cluster.produce(1, f"v{i}", acks=1) for i in range(5)]
    assert all(slot.response is None for slot in slots)
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
    assert cluster.nodes[1].log.staged_end_offset == 0
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
    assert cluster.nodes[1].log.staged_end_offset == 0


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
    assert (cluster.nodes[1].log.staged_end_offset, cluster.nodes[1].hw) == (1, 1)
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


def test_failed_write_returns_storage_error_and_serves_no_more() -> None:
    cluster = settled()
    cluster.nodes[1].log.fail_writes = True
    result = produced(cluster.produce(1, "a", acks=1))
    assert result is not None
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    refused = fetched(cluster.fetch(1, 0))
    assert refused is not None
    assert refused.error == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.guarantee("R5")
@pytest.mark.parametrize(("version", "error"), [(3, 6), (4, 56)])
@pytest.mark.parametrize("offline", [False, True])
def test_produce_versions_that_know_no_storage_error_get_not_leader(version: int, error: int, offline: bool) -> None:
    cluster = settled()
    cluster.nodes[1].log.fail_writes = True
    if offline:
        assert produced(cluster.produce(1, "a", acks=1)) is not None
    records = memoryview(encode_batch([NewRecord(None, b"b")], timestamps=1))
    asked = produce.ProduceRequest(None, 1, 1000, [produce.ProducePartition(TOPIC, 0, records)])
    slot = cluster.request(1, ApiKey.PRODUCE, version, produce.encode_request(version, asked))
    assert slot.response is not None
    assert [one.error for one in produce.decode_response(version, memoryview(slot.response)[4:]).results] == [error]


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


@pytest.mark.guarantee("R5")
def test_malformed_produce_closes_the_connection() -> None:
    cluster = settled()
    slot = FakeSlot()
    cluster.nodes[1].up.handle_produce(Request(0, 9, 1, "c", memoryview(bytearray(b"\x01")), slot, True))
    assert slot.closed is not None
