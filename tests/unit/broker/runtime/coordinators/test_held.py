"""A request to a coordinator that is about to be able to serve waits; every other is handled at once."""

from __future__ import annotations

import pytest

from broker.runtime.coordinators.held import HELD, LOAD_MAX_MS, HeldRequests, keys_of
from broker.runtime.requests.request import Request, respond
from broker.wire.api import ApiKey
from broker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from broker.wire.messages.end_txn import EndTxnRequest
from broker.wire.messages.heartbeat import HeartbeatRequest
from broker.wire.messages.init_producer_id import InitProducerIdRequest
from broker.wire.messages.join_group import JoinGroupRequest
from broker.wire.messages.leave_group import LeaveGroupRequest
from broker.wire.messages.offset_commit import OffsetCommitRequest
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from broker.wire.messages.sync_group import SyncGroupRequest
from broker.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot

pytestmark = pytest.mark.guarantee("C10")

DOUBT_MS = 1000.0
HEARTBEAT = 4


class Coordinator:
    """Group "a" belongs to partition 0, every other one to 1; by the metadata broker 2 leads both."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.since: dict[int, float] = {}
        self.until: dict[int, float] = {}
        self.unseen: dict[int, float] = {}
        """Doubts that a look at the connections shows."""
        self.leader = 2
        self.handled: list[bytes] = []
        self.wanted: set[int] = set()
        self.held = HeldRequests(self, lambda key: 0 if key == "a" else 1, lambda _: self.leader, self, self.loop)
        self.handle = self.held.before(self._handle)

    def loading_since(self) -> dict[int, float]:
        return self.since

    def want(self, partition: int) -> None:
        self.wanted.add(partition)

    def known_doubts(self) -> dict[int, float]:
        return {id_: until for id_, until in self.until.items() if until > self.loop.now}

    def doubted(self) -> dict[int, float]:
        self.until |= self.unseen
        return self.known_doubts()

    def _handle(self, request: Request) -> None:
        self.handled.append(bytes(request.body))
        respond(request, b"")

    def ask(self, body: bytes, slot: FakeSlot | None = None) -> None:
        received = memoryview(bytearray(body))
        self.handle(Request(ApiKey.HEARTBEAT, HEARTBEAT, 1, "", received, slot or FakeSlot(), True))
        # What was received is used for the next request once the handler has returned.
        received[:] = bytes(len(received))


def heartbeat(group: str) -> bytes:
    return bytes(HeartbeatRequest(group_id=group, generation_id=1, member_id="m").encode(HEARTBEAT))


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_nothing_waits_where_nothing_is_loaded_and_nobody_in_doubt(coordinator: Coordinator) -> None:
    coordinator.ask(b"not even read")
    assert coordinator.handled == [b"not even read"]


def test_a_request_waits_for_the_load_of_its_own_partition(coordinator: Coordinator) -> None:
    coordinator.since = {0: coordinator.loop.now}
    coordinator.ask(heartbeat("b"))
    assert coordinator.wanted == set()
    coordinator.ask(heartbeat("a"))
    assert coordinator.wanted == {0}, "it is loaded before others"
    coordinator.held.check()
    assert coordinator.handled == [heartbeat("b")]
    coordinator.since = {}
    coordinator.held.check()
    assert coordinator.handled == [heartbeat("b"), heartbeat("a")]


def test_what_waited_for_the_election_asks_for_its_partition_once_that_is_loaded_here(coordinator: Coordinator) -> None:
    coordinator.until = {2: coordinator.loop.now + DOUBT_MS}
    coordinator.ask(heartbeat("a"))
    assert coordinator.wanted == set()
    coordinator.since = {0: coordinator.loop.now, 1: coordinator.loop.now}
    coordinator.leader = 1
    coordinator.held.check()
    assert (coordinator.wanted, coordinator.handled) == ({0}, [])


def test_what_waits_is_handled_in_the_order_in_which_it_came(coordinator: Coordinator) -> None:
    coordinator.since = {1: coordinator.loop.now}
    for group in ("b", "c", "d"):
        coordinator.ask(heartbeat(group))
    coordinator.since = {}
    coordinator.held.check()
    assert coordinator.handled == [heartbeat("b"), heartbeat("c"), heartbeat("d")]


def test_a_request_does_not_overtake_one_about_the_same_key(coordinator: Coordinator) -> None:
    """A client may have several commits under way. Between the end of a load and the look at what waits lies a turn."""
    first = HeartbeatRequest(group_id="a", generation_id=1, member_id="m").encode(HEARTBEAT)
    second = HeartbeatRequest(group_id="a", generation_id=2, member_id="m").encode(HEARTBEAT)
    coordinator.since = {0: coordinator.loop.now}
    coordinator.ask(first)
    coordinator.since = {}
    coordinator.ask(second)
    assert coordinator.handled == [first, second]
    coordinator.held.check()
    assert coordinator.handled == [first, second]


def test_a_load_is_waited_for_half_a_second_from_its_beginning(coordinator: Coordinator) -> None:
    coordinator.since = {0: coordinator.loop.now}
    coordinator.loop.advance(LOAD_MAX_MS - 100)
    coordinator.ask(heartbeat("a"))
    coordinator.loop.advance(99)
    assert coordinator.handled == []
    coordinator.loop.advance(1)
    assert coordinator.handled == [heartbeat("a")]
    coordinator.ask(heartbeat("a"))
    assert len(coordinator.handled) == 2


def test_a_request_waits_for_the_election_after_its_coordinator(coordinator: Coordinator) -> None:
    coordinator.until = {2: coordinator.loop.now + DOUBT_MS}
    coordinator.ask(heartbeat("a"))
    assert coordinator.handled == []
    # This broker leads from here on, and loads.
    coordinator.leader, coordinator.since = 1, {0: coordinator.loop.now}
    coordinator.held.check()
    assert coordinator.handled == []
    coordinator.since = {}
    coordinator.held.check()
    assert coordinator.handled == [heartbeat("a")]


def test_a_request_does_not_wait_for_others_than_its_coordinator(coordinator: Coordinator) -> None:
    coordinator.until = {3: coordinator.loop.now + DOUBT_MS}
    coordinator.ask(heartbeat("a"))
    assert coordinator.handled == [heartbeat("a")]


def test_a_request_waits_no_longer_than_the_doubt(coordinator: Coordinator) -> None:
    coordinator.until = {2: coordinator.loop.now + DOUBT_MS}
    coordinator.ask(heartbeat("a"))
    coordinator.loop.advance(DOUBT_MS)
    assert coordinator.handled == [heartbeat("a")]


def test_a_request_whose_connection_is_gone_is_not_handled(coordinator: Coordinator) -> None:
    """Its client may have sent another one over a new connection, which must not be overtaken."""
    coordinator.since = {0: coordinator.loop.now}
    slot = FakeSlot()
    coordinator.ask(heartbeat("a"), slot)
    slot.open = False
    coordinator.since = {}
    coordinator.held.check()
    assert coordinator.handled == []


@pytest.mark.parametrize("late", [True, False])
def test_a_request_that_its_handler_fails_on_ends_its_connection_as_one_that_did_not_wait(
    coordinator: Coordinator, late: bool
) -> None:
    """What the client has sent behind it would wait for a response that never comes."""

    def fails(_: Request) -> None:
        raise ZeroDivisionError

    coordinator.handle = coordinator.held.before(fails)
    coordinator.since = {0: coordinator.loop.now}
    slot = FakeSlot()
    coordinator.ask(heartbeat("a"), slot)
    assert not slot.done
    if late:
        coordinator.loop.advance(LOAD_MAX_MS)
    else:
        coordinator.since = {}
        coordinator.held.check()
    assert slot.closed is not None


def test_bytes_that_cannot_be_read_are_left_to_the_handler(coordinator: Coordinator) -> None:
    coordinator.since = {0: coordinator.loop.now}
    coordinator.ask(b"\xff")
    assert coordinator.handled == [b"\xff"]


REQUESTS = [
    (ApiKey.JOIN_GROUP, 5, JoinGroupRequest(group_id="k").encode(5)),
    (ApiKey.SYNC_GROUP, 4, SyncGroupRequest(group_id="k").encode(4)),
    (ApiKey.HEARTBEAT, 4, HeartbeatRequest(group_id="k").encode(4)),
    (ApiKey.LEAVE_GROUP, 4, LeaveGroupRequest(group_id="k").encode(4)),
    (ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id="k").encode(8)),
    (ApiKey.TXN_OFFSET_COMMIT, 3, TxnOffsetCommitRequest(transactional_id="t", group_id="k").encode(3)),
    (ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id="k").encode(7)),
    (ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("k", None)]).encode(8)),
    (ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id="k").encode(4)),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 3, AddPartitionsToTxnRequest(v3_and_below_transactional_id="k").encode(3)),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        4,
        AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction("k", 1, 0, True, [])]).encode(4),
    ),
    (ApiKey.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest(transactional_id="k", group_id="g").encode(3)),
    (ApiKey.END_TXN, 3, EndTxnRequest(transactional_id="k").encode(3)),
]


@pytest.mark.parametrize(("api", "version", "body"), REQUESTS, ids=[f"{api.name}-{v}" for api, v, _ in REQUESTS])
def test_the_key_of_each_request_is_found(api: ApiKey, version: int, body: bytes) -> None:
    request = Request(api, version, 1, "", memoryview(bytearray(body)), FakeSlot(), True)
    assert keys_of(request) == ["k"]


def test_a_producer_without_transactions_has_no_coordinator() -> None:
    body = memoryview(bytearray(InitProducerIdRequest(transactional_id=None).encode(4)))
    assert keys_of(Request(ApiKey.INIT_PRODUCER_ID, 4, 1, "", body, FakeSlot(), True)) == []


def test_all_that_waits_is_tried_above() -> None:
    assert {api for api, _, _ in REQUESTS} == HELD


def test_it_says_how_long_a_key_may_have_to_wait(coordinator: Coordinator) -> None:
    """0 where nothing is to be waited for."""
    held = coordinator.held
    assert held.wait_ms("a") == 0
    coordinator.since[0] = coordinator.loop.now - 100
    assert (held.wait_ms("a"), held.wait_ms("b")) == (LOAD_MAX_MS - 100, 0)
    coordinator.since.clear()
    coordinator.until[2] = coordinator.loop.now + 7
    assert held.wait_ms("a") == 7
    coordinator.leader = 3
    assert held.wait_ms("a") == 0


def test_it_looks_at_the_connections_when_told_to(coordinator: Coordinator) -> None:
    """One that fails a request may not have been reported yet."""
    coordinator.unseen[2] = coordinator.loop.now + DOUBT_MS
    assert coordinator.held.wait_ms("a") == 0
    assert coordinator.held.wait_ms("a", look=True) == DOUBT_MS
