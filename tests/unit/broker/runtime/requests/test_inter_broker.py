"""What only brokers send: on their listener, and by option from addresses of registered brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from broker.runtime.requests.context import RequestContext
from broker.runtime.requests.inter_broker import READ_EVERY_MS, InterBrokerGate
from broker.runtime.requests.request import Request, respond
from broker.wire.api import BETWEEN_BROKERS, ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot

OWN = "REPLICATION"
BODY = UpdateMetadataRequest(controller_id=1, controller_epoch=1, broker_epoch=5).encode(8)


class Gated:
    """A gate before a handler, and readings of addresses that end when told."""

    def __init__(self, by_address: bool = True) -> None:
        self.loop = FakeLoop()
        self.handled: list[str] = []
        self.bodies: list[bytes] = []
        self.readings: list[Callable[[Collection[str] | None], None]] = []
        gate = InterBrokerGate(OWN, self.loop.now_ms, self.readings.append if by_address else None)
        self._handle = gate.before(ApiKey.UPDATE_METADATA, self._served)

    def _served(self, request: Request) -> None:
        self.handled.append(request.context.client_address)
        self.bodies.append(bytes(request.body))
        respond(request, b"served")

    def send(self, address: str, listener: str = OWN, body: bytes = BODY) -> FakeSlot:
        slot, view = FakeSlot(), memoryview(bytearray(body))
        context = RequestContext(listener, address)
        self._handle(Request(ApiKey.UPDATE_METADATA, 8, 1, "c", view, slot, True, context))
        view[:] = bytes(len(view))  # the connection's again
        return slot


def test_apis_of_clients_are_not_gated() -> None:
    def handler(request: Request) -> None: ...

    gate = InterBrokerGate(OWN, lambda: 0.0, lambda then: None)
    assert gate.before(ApiKey.FETCH, handler) is handler
    assert not BETWEEN_BROKERS & {ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS}


def test_other_listeners_are_for_clients() -> None:
    gated = Gated(by_address=False)
    slot = gated.send("10.0.0.1:5", listener="CLIENTS")
    assert slot.response is not None
    code = UpdateMetadataResponse.decode(8, slot.response[5:]).error_code
    assert (code, gated.handled) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    gated.send("10.0.0.1:5")
    gated.send("", listener="")
    assert gated.handled == ["10.0.0.1:5", ""], "what comes by the brokers' listener, and from this broker itself"


def test_request_waits_until_the_addresses_are_read_and_then_counts() -> None:
    gated = Gated()
    slots = [gated.send("10.0.0.1:5"), gated.send("10.0.0.1:5"), gated.send("10.0.0.9:6")]
    assert (gated.handled, len(gated.readings)) == ([], 1)
    gated.readings[0]({"10.0.0.1", "10.0.0.2"})
    assert gated.handled == ["10.0.0.1:5"] * 2
    assert gated.bodies == [BODY] * 2
    assert [slot.closed is None for slot in slots] == [True, True, False]
    gated.send("10.0.0.2:7")
    assert gated.handled[-1] == "10.0.0.2:7", "without another reading"
    assert len(gated.readings) == 1


def test_strangers_have_the_addresses_read_once_a_second_at_most() -> None:
    gated = Gated()
    gated.send("10.0.0.9:6")
    gated.readings[0]({"10.0.0.1"})
    assert [gated.send("10.0.0.9:6").closed for _ in range(100)] != [None] * 100
    assert len(gated.readings) == 1
    gated.loop.advance(READ_EVERY_MS)
    slot = gated.send("10.0.0.3:6")
    gated.readings[1]({"10.0.0.1", "10.0.0.3"})
    assert (gated.handled, slot.closed) == (["10.0.0.3:6"], None)


def test_unread_addresses_leave_those_of_before() -> None:
    gated = Gated()
    gated.send("10.0.0.1:5")
    gated.readings[0]({"10.0.0.1"})
    gated.loop.advance(READ_EVERY_MS)
    slot = gated.send("10.0.0.2:5")
    gated.readings[1](None)
    assert slot.closed is not None
    gated.send("10.0.0.1:5")
    assert gated.handled == ["10.0.0.1:5"] * 2


@pytest.mark.parametrize(
    ("registered", "sender", "taken"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1:5", True),
        ("fe80::1%eth0", "fe80::1:5", True),
        ("127.0.1.1", "127.0.0.1:5", True),
        ("10.0.0.1", "127.0.0.1:5", False),
        ("::1", "127.0.0.1:5", True),
    ],
)
def test_forms_of_one_address(registered: str, sender: str, taken: bool) -> None:
    gated = Gated()
    gated.send(sender)
    gated.readings[0]({registered})
    assert bool(gated.handled) == taken


def test_what_waits_is_bounded_and_forgotten_with_its_connection() -> None:
    gated = Gated()
    body = bytes(1 << 20)
    slots = [gated.send("10.0.0.1:5", body=body) for _ in range(80)]
    assert sum(slot.closed is not None for slot in slots) == 80 - 64
    slots[0].open = False
    gated.readings[0]({"10.0.0.1"})
    assert len(gated.handled) == 63
