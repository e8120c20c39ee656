"""Errors of the program at the end of a turn: of one answer they cost one connection, of a write the broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from broker.model.ids import TopicPartition
from broker.runtime.replicas.append import AppendOrigin
from broker.runtime.replicas.replica import PendingAppend, Replica
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey, response_header_version
from broker.wire.chunks import Chunk
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch, produce
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.wire.records import NewRecord, encode_batch
from tests.support.memory_cluster import MemoryCluster, fetched, produced, values_of
from tests.support.memory_node import TOPIC, FakeSlot
from tests.support.settled_cluster import settled

TP = TopicPartition(TOPIC, 0)
ACKS = pytest.mark.parametrize("acks", [1, -1])


class BrokenSlot(FakeSlot):
    """Of a request whose response cannot be made."""

    def fulfil(self, chunks: Sequence[Chunk]) -> None:
        raise ValueError("this response cannot be made")


def batch(value: str) -> memoryview:
    return memoryview(bytearray(encode_batch([NewRecord(None, value.encode())], timestamps=1)))


def send(cluster: MemoryCluster, api: ApiKey, version: int, body: bytes, slot: FakeSlot, broker: int = 1) -> FakeSlot:
    """The request is handled, and the turn goes on."""
    flexible = response_header_version(api, version) == 1
    cluster.dispatch(
        cluster.nodes[broker], Request(api, version, 7, "client", memoryview(bytearray(body)), slot, flexible)
    )
    return slot


def send_produce(cluster: MemoryCluster, slot: FakeSlot, acks: int = -1, timeout_ms: int = 30000) -> FakeSlot:
    parts = [produce.ProducePartition(TOPIC, 0, batch("a"))]
    body = produce.encode_request(9, produce.ProduceRequest(None, acks, timeout_ms, parts))
    return send(cluster, ApiKey.PRODUCE, 9, body, slot)


def send_fetch(cluster: MemoryCluster, slot: FakeSlot, max_wait_ms: int = 1000) -> FakeSlot:
    parts = [fetch.FetchPartition(TOPIC, "", 0, -1, 0, -1, -1, 1 << 20)]
    body = fetch.encode_request(12, fetch.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, partitions=parts))
    return send(cluster, ApiKey.FETCH, 12, body, slot)


def error_of(slot: FakeSlot) -> ErrorCode:
    result = produced(slot)
    assert result is not None
    return ErrorCode(result.error)


@pytest.mark.guarantee("hostile-clients")
@ACKS
def test_answer_that_cannot_be_made_costs_its_connection_and_no_other_answer(acks: int) -> None:
    cluster = settled()
    slots = [send_produce(cluster, slot, acks) for slot in (FakeSlot(), BrokenSlot(), FakeSlot())]
    cluster.settle()
    assert (error_of(slots[0]), error_of(slots[2])) == (ErrorCode.NONE, ErrorCode.NONE)
    assert slots[1].closed
    assert cluster.nodes[1].log.values() == ["a"] * 3


@ACKS
def test_broken_caller_keeps_no_other_from_its_outcome(acks: int) -> None:
    cluster = settled()

    def breaks(_: PendingAppend) -> None:
        raise ValueError("a coordinator's state makes no sense")

    outcomes: list[PendingAppend] = []
    for done in (breaks, outcomes.append):
        cluster.nodes[1].up.appender.append_records(
            TP, batch("a"), acks, AppendOrigin.COORDINATOR, done, 30000, internal_topics=True
        )
    slot = send_produce(cluster, FakeSlot(), acks)
    cluster.settle()
    assert [append.error for append in outcomes] == [ErrorCode.NONE]
    assert error_of(slot) is ErrorCode.NONE


def test_leader_that_resigns_tells_all_who_wait() -> None:
    cluster = settled()
    cluster.hold = lambda message: True
    slots = [send_produce(cluster, slot) for slot in (BrokenSlot(), FakeSlot())]
    cluster.settle()
    cluster.nodes[1].up.resign_all()
    cluster.settle()
    assert (bool(slots[0].closed), error_of(slots[1])) == (True, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_nobody_waits_for_a_late_answer_that_cannot_be_made() -> None:
    cluster = settled()
    cluster.hold = lambda message: True
    slots = [send_produce(cluster, slot, timeout_ms=100) for slot in (BrokenSlot(), FakeSlot())]
    slots += [send_fetch(cluster, slot, max_wait_ms=100) for slot in (BrokenSlot(), FakeSlot())]
    cluster.advance(200)
    assert [bool(slot.closed) for slot in slots] == [True, False, True, False]
    assert error_of(slots[1]) is ErrorCode.REQUEST_TIMED_OUT
    assert fetched(slots[3]) is not None


@pytest.mark.guarantee("hostile-clients")
def test_fetch_that_cannot_be_answered_costs_its_connection_and_no_other_fetch() -> None:
    cluster = settled()
    slots = [send_fetch(cluster, slot) for slot in (BrokenSlot(), FakeSlot())]
    cluster.settle()
    cluster.produce(1, "a")
    cluster.settle()
    assert slots[0].closed
    assert values_of(fetched(slots[1])) == ["a"]


def test_fetch_without_an_answer_has_no_answer_later_either() -> None:
    cluster = settled()
    slot = send_fetch(cluster, BrokenSlot(), max_wait_ms=100)
    cluster.settle()
    cluster.produce(1, "a")
    cluster.settle()
    assert slot.closed
    slot.closed = None
    cluster.produce(1, "b")
    cluster.advance(200)
    assert not slot.done


def test_deletion_whose_answer_cannot_be_made_costs_its_connection_and_no_role_change() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.hold = lambda message: True
    topics = [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, -1)])]
    body = DeleteRecordsRequest(topics, 30000).encode(2)
    slots = [send(cluster, ApiKey.DELETE_RECORDS, 2, body, slot) for slot in (BrokenSlot(), FakeSlot())]
    heard: list[Replica] = []
    cluster.nodes[1].up.add_role_listener(heard.append)
    cluster.elect(2)
    cluster.settle()
    assert (bool(slots[0].closed), slots[1].response is not None) == (True, True)
    assert len(heard) == 1


def test_listener_that_breaks_keeps_no_other_from_hearing_of_a_role() -> None:
    cluster = settled()
    heard: list[Replica] = []

    def breaks(_: Replica) -> None:
        raise ValueError("a coordinator's state makes no sense")

    for listener in (breaks, heard.append):
        cluster.nodes[1].up.add_role_listener(listener)
    cluster.elect(2)
    cluster.settle()
    assert len(heard) == 1
    assert cluster.nodes[1].up.replicas.by_partition[TP].following is not None


@pytest.mark.patches
def test_fetcher_that_breaks_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = settled()
    [fetcher] = cluster.nodes[2].up.fetchers.fetchers.values()
    send_once = _breaks_once(fetcher.maybe_send)
    monkeypatch.setattr(type(fetcher), "maybe_send", send_once)
    slot = cluster.produce(1, "a")
    cluster.advance(5000)
    assert cluster.nodes[2].log.values() == ["a"]
    assert error_of(slot) is ErrorCode.NONE


def _breaks_once(bound: Callable[[], None]) -> Callable[[object], None]:
    plain = bound.__func__  # type: ignore[attr-defined]
    left = [1]

    def maybe_send(self: object) -> None:
        if left and self is bound.__self__:  # type: ignore[attr-defined]
            left.pop()
            raise ValueError("a fetcher's state makes no sense")
        plain(self)

    return maybe_send


@pytest.mark.patches
def test_write_that_breaks_ends_the_broker_before_anything_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what is in the file: a start finds out, and this process must confirm nothing more."""
    cluster = settled(replicas=1)

    def breaks() -> None:
        raise ValueError("staged batches make no sense")

    monkeypatch.setattr(cluster.nodes[1].log, "write", breaks)
    slot = send_produce(cluster, FakeSlot())
    with pytest.raises(ValueError, match="staged batches"):
        cluster.nodes[1].up.end_of_turn()
    assert not slot.done
