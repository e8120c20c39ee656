"""From a lost connection to a deed: what is asked of whom, and what ends an inquiry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest

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

pytestmark = pytest.mark.guarantee("C10")

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


def test_dead_process_is_acted_on_once_when_all_others_agree() -> None:
    world = World()
    world.happen(TARGET, *DEAD)
    assert world.requests == [(3, TARGET), (4, TARGET)]
    assert world.sink.acted == [Suspect(TARGET, 77)]
    world.happen(TARGET, LinkEvent.REFUSED, LinkEvent.REFUSED)
    world.wait(5000)
    assert world.sink.acted == [Suspect(TARGET, 77)], "once per registration"


def test_second_registration_can_be_suspected_anew() -> None:
    world = World()
    world.happen(TARGET, *DEAD)
    world.sink.suspect = Suspect(TARGET, 78)
    world.happen(TARGET, *DEAD)
    assert world.sink.acted == [Suspect(TARGET, 77), Suspect(TARGET, 78)]


@pytest.mark.parametrize("answer", [Evidence.THERE, Evidence.UNKNOWN])
def test_one_that_does_not_agree_holds_the_suspicion_up_until_it_does(answer: Evidence) -> None:
    world = World()
    world.says[4] = answer
    world.happen(TARGET, *DEAD)
    world.wait(1000)
    assert world.sink.acted == []
    quick = len(world.requests)
    assert 20 < quick / 2 < 60
    world.wait(10_000)
    assert (len(world.requests) - quick) / 2 < 30, "asked again, ever more slowly"
    world.says[4] = Evidence.GONE
    world.wait(600)
    assert world.sink.acted == [Suspect(TARGET, 77)]


def test_inquiry_ends_when_the_broker_responds_again() -> None:
    world = World()
    world.says[4] = Evidence.THERE
    world.happen(TARGET, *DEAD)
    world.happen(TARGET, LinkEvent.CONNECTED)
    sent = len(world.requests)
    world.says[4] = Evidence.GONE
    world.wait(3000)
    assert len(world.requests) == sent
    assert world.sink.acted == []
    assert TARGET in world.sink.reached


def test_broker_that_misses_most_of_the_others_suspects_nobody() -> None:
    world = World()
    world.says.clear()
    for broker in (2, 3, 4):
        world.happen(broker, *DEAD)
    world.wait(3000)
    assert world.sink.acted == []


def test_broker_of_two_suspects_nobody() -> None:
    world = World(brokers=(1, 2))
    world.happen(TARGET, *DEAD)
    world.wait(3000)
    assert world.sink.acted == []


def test_broker_that_is_not_controller_suspects_the_controller_only() -> None:
    world = World(controller=3)
    world.happen(TARGET, *DEAD)
    assert world.requests == []
    world.says = {2: Evidence.GONE, 4: Evidence.GONE}
    world.sink.suspect = Suspect(3, 5, controller_version=9)
    world.happen(3, *DEAD)
    assert world.sink.acted == [Suspect(3, 5, controller_version=9)]


def test_new_controller_looks_at_those_that_were_gone_before() -> None:
    world = World(controller=3)
    world.happen(TARGET, *DEAD)
    world.sink.active = True
    world.tell((1, 2, 3, 4), ME)
    assert world.sink.acted == [Suspect(TARGET, 77)]


def test_registration_that_is_gone_ends_the_inquiry() -> None:
    world = World()
    world.says[4] = Evidence.THERE
    world.happen(TARGET, *DEAD)
    world.tell((1, 3, 4))
    assert world.links[TARGET].closed
    world.says[4] = Evidence.GONE
    world.wait(3000)
    assert world.sink.acted == []


@pytest.mark.parametrize(
    ("events", "evidence"),
    [
        ([], Evidence.UNKNOWN),
        ([LinkEvent.CONNECTED], Evidence.THERE),
        (DEAD, Evidence.GONE),
        ([LinkEvent.REFUSED], Evidence.GONE),
        ([LinkEvent.CONNECTED, LinkEvent.CLOSED, LinkEvent.UNREACHABLE], Evidence.UNKNOWN),
    ],
)
def test_witness_says_what_its_own_link_has_shown(events: list[LinkEvent], evidence: Evidence) -> None:
    world = World(controller=4)
    world.happen(TARGET, *events)
    assert world.witness(TARGET, TARGET) == evidence


def test_witness_that_has_not_seen_it_yet_answers_as_soon_as_it_has() -> None:
    world = World(controller=4)
    world.happen(TARGET, LinkEvent.CONNECTED)
    slot = world.ask(TARGET, TARGET)
    world.happen(TARGET, LinkEvent.CLOSED)
    world.wait(ANSWER_MS - 1)
    assert said(slot) is None
    world.happen(TARGET, LinkEvent.REFUSED)
    assert said(slot) is Evidence.GONE


def test_witness_looks_at_its_link_before_it_answers() -> None:
    world = World(controller=4)
    world.happen(TARGET, LinkEvent.CONNECTED)
    world.links[TARGET].on_look = lambda: world.happen(TARGET, LinkEvent.CLOSED, LinkEvent.REFUSED)
    assert said(world.ask(TARGET, TARGET)) is Evidence.GONE


def test_witness_is_waited_for_until_the_next_round() -> None:
    world = World(controller=4)
    world.happen(TARGET, LinkEvent.CONNECTED)
    slot = world.ask(TARGET, TARGET)
    world.wait(ANSWER_MS - 1)
    assert said(slot) is None
    world.wait(1)
    assert said(slot) is Evidence.THERE


@pytest.mark.parametrize("brokers", [(1, 3, 4), (1, 2, 3, 4)])
def test_witness_answers_at_once_about_a_registration_that_is_gone(brokers: tuple[int, ...]) -> None:
    world = World(controller=4)
    world.happen(TARGET, LinkEvent.CONNECTED)
    slot = world.ask(TARGET, TARGET)
    world.tell(brokers, 4, {TARGET: 78})
    assert said(slot) is Evidence.UNKNOWN
    assert said(world.ask(TARGET, TARGET)) is Evidence.UNKNOWN


def test_witness_knows_nothing_of_another_address_or_broker() -> None:
    world = World(controller=4)
    world.happen(TARGET, *DEAD)
    assert world.witness(TARGET, 99) == Evidence.UNKNOWN
    assert world.witness(9, 9) == Evidence.UNKNOWN


def test_broker_that_responds_is_reported_also_before_the_term_has_begun() -> None:
    world = World(controller=3)
    world.happen(TARGET, LinkEvent.CONNECTED)
    assert not world.sink.active
    assert world.sink.reached == [TARGET]


def test_what_a_link_has_shown_of_one_registration_does_not_count_against_the_next() -> None:
    world = World()
    world.says[4] = Evidence.THERE
    world.happen(TARGET, *DEAD)
    world.sink.suspect = Suspect(TARGET, 78)
    world.says[4] = Evidence.GONE
    world.happen(TARGET, LinkEvent.REFUSED)
    world.wait(3000)
    assert world.sink.acted == []
    world.happen(TARGET, *DEAD)
    assert world.sink.acted == [Suspect(TARGET, 78)]


def test_new_controller_does_not_suspect_a_broker_that_has_just_registered_on_what_was_before() -> None:
    world = World(controller=3)
    world.tell((1, 2, 3, 4), 3, {TARGET: 77})
    world.happen(TARGET, *DEAD)
    world.sink.suspect = Suspect(TARGET, 78)
    world.sink.active = True
    world.suspicion.on_metadata()
    world.wait(3000)
    assert world.sink.acted == [], "of its new registration nobody has told us yet"
    world.tell((1, 2, 3, 4), ME, {TARGET: 78})
    world.wait(3000)
    assert world.sink.acted == [], "its new link has not connected yet"
    assert world.witness(TARGET, TARGET, 78) == Evidence.UNKNOWN
    world.happen(TARGET, *DEAD)
    assert world.sink.acted == [Suspect(TARGET, 78)]


def test_broker_that_is_named_again_under_the_same_registration_keeps_its_link() -> None:
    world = World(controller=3)
    world.tell((1, 2, 3, 4), 3, {TARGET: 77})
    link = world.links[TARGET]
    world.happen(TARGET, *DEAD)
    world.sink.active = True
    world.tell((1, 2, 3, 4), ME, {TARGET: 77})
    assert not link.closed
    assert world.sink.acted == [Suspect(TARGET, 77)]


def test_witness_says_nothing_of_a_registration_that_it_does_not_know() -> None:
    world = World(controller=3)
    world.tell((1, 2, 3, 4), 3, {TARGET: 77})
    world.happen(TARGET, *DEAD)
    assert world.witness(TARGET, TARGET, 77) == Evidence.GONE
    assert world.witness(TARGET, TARGET, 78) == Evidence.UNKNOWN


def test_a_broker_whose_connection_ended_is_doubted_for_a_second() -> None:
    world = World()
    world.happen(TARGET, LinkEvent.CONNECTED)
    assert world.suspicion.doubted() == {}
    world.happen(TARGET, LinkEvent.CLOSED)
    until_ms = world.loop.now + 1000
    assert world.suspicion.doubted() == {TARGET: until_ms}
    world.loop.advance(10)
    world.happen(TARGET, LinkEvent.REFUSED)
    assert world.suspicion.doubted() == {TARGET: until_ms}
    world.loop.advance(990)
    assert world.suspicion.doubted() == {}


def test_a_doubt_ends_when_the_broker_is_reached_again() -> None:
    world = World()
    ended: list[int] = []
    world.suspicion.add_doubt_listener(lambda: ended.append(1))
    world.happen(TARGET, LinkEvent.CONNECTED)
    world.happen(TARGET, LinkEvent.CLOSED)
    assert not ended
    world.happen(TARGET, LinkEvent.CONNECTED)
    assert ended
    assert world.suspicion.doubted() == {}


def test_a_broker_that_was_never_reached_is_not_doubted() -> None:
    world = World()
    world.happen(TARGET, LinkEvent.REFUSED)
    assert world.suspicion.doubted() == {}


def test_who_asks_for_doubts_looks_at_the_connections_first() -> None:
    """The kernel may know of an end that the loop has yet to come to."""
    world = World()
    world.happen(TARGET, LinkEvent.CONNECTED)
    world.links[TARGET].on_look = lambda: world.events[TARGET](LinkEvent.CLOSED)
    assert list(world.suspicion.doubted()) == [TARGET]


def test_a_doubt_that_only_a_look_would_show_is_not_known() -> None:
    world = World()
    world.happen(TARGET, LinkEvent.CONNECTED)
    world.links[TARGET].on_look = lambda: world.events[TARGET](LinkEvent.CLOSED)
    assert world.suspicion.known_doubts() == {}
    world.happen(TARGET, LinkEvent.CLOSED)
    assert list(world.suspicion.known_doubts()) == [TARGET]


def test_a_broker_is_gone_while_it_refuses_connections_after_it_had_one() -> None:
    world = World()
    world.happen(TARGET, LinkEvent.REFUSED)
    assert world.suspicion.gone() == frozenset(), "it may not have begun"
    world.happen(TARGET, LinkEvent.CONNECTED)
    world.happen(TARGET, LinkEvent.CLOSED)
    assert world.suspicion.gone() == frozenset()
    world.happen(TARGET, LinkEvent.REFUSED)
    assert world.suspicion.gone() == {TARGET}
    world.happen(TARGET, LinkEvent.CONNECTED)
    assert world.suspicion.gone() == frozenset()
