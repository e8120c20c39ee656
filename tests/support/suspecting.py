"""A failure detector with the others' answers, links that say what a test makes happen, and a controller's side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from broker.core.controller.suspicion import Evidence, LinkEvent
from broker.runtime.lifecycle.failure_detector import FailureDetector, Suspect
from broker.runtime.metadata.cache import Address, MetadataCache
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.messages.peer_evidence import PeerEvidenceRequest, PeerEvidenceResponse
from broker.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataRequest
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import FakePeer, SentRequest
from tests.support.memory_node import FakeSlot

ME, TARGET = 1, 2
ANSWER_MS = 20.0
DEAD = [LinkEvent.CONNECTED, LinkEvent.CLOSED, LinkEvent.REFUSED]


class FakeLink:
    def __init__(self, on_look: Callable[[], None] = lambda: None) -> None:
        self.closed = False
        self.on_look = on_look

    def close(self) -> None:
        self.closed = True

    def look(self) -> None:
        self.on_look()


class Witness(FakePeer):
    """Answers with what `says` holds for its address, in the next turn; None fails."""

    def __init__(self, world: World, address: Address) -> None:
        super().__init__()
        self._world = world
        self._address = address

    def receive(self, request: SentRequest) -> None:
        self._world.requests.append((self._address.port, request.decode(PeerEvidenceRequest).broker_id))
        evidence = self._world.says.get(self._address.port)
        if evidence is None:
            self._world.loop.call_soon(lambda: request.on_failure("timeout"))
        else:
            response = PeerEvidenceResponse(0, evidence)
            self._world.loop.call_soon(lambda: request.respond(response))


class Sink:
    """The controller's side."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.active = True
        self.suspect: Suspect | None = Suspect(TARGET, 77)
        self.acted: list[Suspect] = []
        self.reached: list[int] = []

    def prepare_suspicion(self, broker: int, then: Callable[[Suspect | None], None]) -> None:
        suspect = self.suspect
        self._world.loop.call_soon(lambda: then(suspect))

    def act_on_suspicion(self, suspect: Suspect) -> None:
        self.acted.append(suspect)

    def reachable(self, broker: int) -> None:
        self.reached.append(broker)


class World:
    """Broker 1 of four; broker i listens on port i."""

    def __init__(self, brokers: tuple[int, ...] = (1, 2, 3, 4), controller: int = ME) -> None:
        self.loop = FakeLoop()
        self.links: dict[int, FakeLink] = {}
        self.events: dict[int, Callable[[LinkEvent], None]] = {}
        self.says: dict[int, Evidence] = {3: Evidence.GONE, 4: Evidence.GONE}
        self.requests: list[tuple[int, int]] = []
        self.cache = MetadataCache("c", "P", lambda: -1, lambda topic: {}, lambda topic: None)
        self.sink = Sink(self)
        self.sink.active = controller == ME
        self.suspicion = FailureDetector(
            ME, self.cache, self.loop, self.open, lambda address: Witness(self, address), self.sink
        )
        self.cache.add_listener(self.suspicion.on_metadata)
        self.tell(brokers, controller)

    def open(self, address: Address, on_event: Callable[[LinkEvent], None]) -> FakeLink:
        self.events[address.port] = on_event
        self.links[address.port] = FakeLink()
        return self.links[address.port]

    def tell(
        self, brokers: tuple[int, ...], controller: int = ME, epochs: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        live = [
            UpdateMetadataBroker(i, [UpdateMetadataEndpoint(i, "h", "P", 0)], broker_epoch=epochs.get(i, -1))
            for i in brokers
        ]
        error = self.cache.update(
            UpdateMetadataRequest(controller_id=controller, controller_epoch=1, live_brokers=live)
        )
        assert error == 0
        self.settle()

    def happen(self, broker: int, *events: LinkEvent) -> None:
        for event in events:
            self.events[broker](event)
        self.settle()

    def witness(self, broker: int, port: int, broker_epoch: int = 77) -> Evidence:
        """This broker's answer about another at that port under that registration."""
        slot = self.ask(broker, port, broker_epoch)
        self.wait(ANSWER_MS)
        found = said(slot)
        assert found is not None
        return found

    def ask(self, broker: int, port: int, broker_epoch: int = 77) -> FakeSlot:
        slot = FakeSlot()
        body = memoryview(bytearray(PeerEvidenceRequest(broker, "h", port, broker_epoch).encode(0)))
        self.suspicion.handle_evidence(Request(ApiKey.PEER_EVIDENCE, 0, 1, "x", body, slot, True))
        return slot

    def settle(self) -> None:
        while self.loop.run_soon():
            pass

    def wait(self, ms: float) -> None:
        until = self.loop.now + ms
        while self.loop.run_due(until):
            self.settle()
        self.loop.now = until


def said(slot: FakeSlot) -> Evidence | None:
    """None: nothing yet."""
    if slot.response is None:
        return None
    return Evidence(PeerEvidenceResponse.decode(0, memoryview(slot.response)[5:]).evidence)
