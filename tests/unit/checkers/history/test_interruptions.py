"""When a broker was, or may have been, stopped or cut off."""

from __future__ import annotations

import pytest

from checkers.history.faults import FOR_EVER_NS, Fault, Interruption, interruptions
from tests.support.known_faults import effects_of

pytestmark = pytest.mark.guarantee("R9")


def fault(kind: str, stop_ns: int | None = 90, began_ns: int | None = 40) -> Fault:
    return Fault(1, kind, ("n1",), 50, stop_ns, True, "", began_ns=began_ns, effects=effects_of(kind))


N1 = frozenset({"n1"})


@pytest.mark.parametrize("kind", ["kill", "stop", "pause"])
def test_broker_is_interrupted_from_the_first_attempt_until_its_end_was_seen(kind: str) -> None:
    assert interruptions([fault(kind)]) == [Interruption(40, 90, N1)]


@pytest.mark.parametrize("kind", ["isolate", "halves", "one-way", "cut-zookeeper"])
def test_cut_is_one_of_all_brokers(kind: str) -> None:
    assert interruptions([fault(kind)]) == [Interruption(40, 90, None)]


def test_fault_that_nobody_took_back_goes_on_and_an_older_line_begins_where_it_was_seen() -> None:
    found = interruptions([fault("kill", None), fault("kill", began_ns=None)])
    assert found == [Interruption(40, FOR_EVER_NS, N1), Interruption(50, 90, N1)]


@pytest.mark.parametrize("kind", ["bitflip", "truncate-file", "remove-file"])
def test_broker_forgets_what_it_wrote_where_files_were_changed(kind: str) -> None:
    assert interruptions([fault(kind)]) == [Interruption(40, 90, N1, forgets=True)]


@pytest.mark.parametrize("kind", ["clock-step", "clock-drift", "clock-strobe"])
def test_wrong_clock_interrupts_nobody(kind: str) -> None:
    assert interruptions([fault(kind)]) == []


def test_effect_that_is_not_known_may_be_an_interruption_of_anybody() -> None:
    strange = Fault(1, "strange", ("n1",), 50, 90, True, "", effects=frozenset({"warms-the-room"}))
    assert interruptions([strange]) == [Interruption(50, 90, None, forgets=True)]
