"""When a broker was, or may have been, stopped or cut off."""

from __future__ import annotations

import pytest

from checkers.history.faults import FOR_EVER_NS, Fault, interruptions
from tests.support.known_faults import effects_of

pytestmark = pytest.mark.guarantee("R9")


def fault(kind: str, stop_ns: int | None = 90, began_ns: int | None = 40) -> Fault:
    return Fault(1, kind, ("n1",), 50, stop_ns, True, "", began_ns=began_ns, effects=effects_of(kind))


@pytest.mark.parametrize("kind", ["kill", "stop", "pause", "isolate", "halves", "one-way", "cut-zookeeper"])
def test_broker_is_interrupted_from_the_first_attempt_until_its_end_was_seen(kind: str) -> None:
    assert interruptions([fault(kind)]) == [(40, 90)]


def test_fault_that_nobody_took_back_goes_on_and_an_older_line_begins_where_it_was_seen() -> None:
    assert interruptions([fault("kill", None), fault("kill", began_ns=None)]) == [(40, FOR_EVER_NS), (50, 90)]


@pytest.mark.parametrize("kind", ["clock-step", "clock-drift", "clock-strobe"])
def test_wrong_clock_interrupts_nobody(kind: str) -> None:
    assert interruptions([fault(kind)]) == []


def test_effect_that_is_not_known_may_be_an_interruption() -> None:
    strange = Fault(1, "strange", ("n1",), 50, 90, True, "", effects=frozenset({"warms-the-room"}))
    assert interruptions([strange]) == [(50, 90)]
