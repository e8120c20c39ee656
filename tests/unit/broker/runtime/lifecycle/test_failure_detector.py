"""From a lost connection to a deed: what is asked of whom, and what ends an inquiry."""

from __future__ import annotations

import pytest

from broker.core.controller.suspicion import Evidence, LinkEvent
from broker.runtime.lifecycle.failure_detector import Suspect
from tests.support.suspecting import DEAD, ME, TARGET, World

pytestmark = pytest.mark.guarantee("C10")


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
