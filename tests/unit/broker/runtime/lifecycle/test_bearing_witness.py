"""What a broker that is asked says of another one, and when."""

from __future__ import annotations

import pytest

from broker.core.controller.suspicion import Evidence, LinkEvent
from tests.support.suspecting import ANSWER_MS, DEAD, TARGET, World, said

pytestmark = pytest.mark.guarantee("C10")


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


def test_witness_says_nothing_of_a_registration_that_it_does_not_know() -> None:
    world = World(controller=3)
    world.tell((1, 2, 3, 4), 3, {TARGET: 77})
    world.happen(TARGET, *DEAD)
    assert world.witness(TARGET, TARGET, 77) == Evidence.GONE
    assert world.witness(TARGET, TARGET, 78) == Evidence.UNKNOWN
