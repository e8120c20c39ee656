"""When a node's process may have ended, or begun, by the faults of a run."""

from __future__ import annotations

import pytest

from checkers.history.faults import Fault
from checkers.history.processes import ends_of
from tests.support.known_faults import effects_of

pytestmark = pytest.mark.guarantee("V2")


def fault(kind: str, stop_ns: int | None = 90, began_ns: int | None = 40, stop_began_ns: int | None = 80) -> Fault:
    return Fault(
        1,
        kind,
        ("n1", "n2"),
        50,
        stop_ns,
        True,
        "",
        began_ns=began_ns,
        stop_began_ns=stop_began_ns,
        effects=effects_of(kind),
    )


@pytest.mark.parametrize("kind", ["kill", "stop", "pause", "bitflip"])
def test_process_may_end_or_begin_while_a_fault_is_applied_and_while_it_is_taken_back(kind: str) -> None:
    assert ends_of([fault(kind)]) == [("n1", 40, 50), ("n2", 40, 50), ("n1", 80, 90), ("n2", 80, 90)]


def test_fault_that_nobody_took_back_has_one_span_and_an_older_line_one_without_length() -> None:
    assert ends_of([fault("stop", None)]) == [("n1", 40, 50), ("n2", 40, 50)]
    older = ends_of([fault("stop", began_ns=None, stop_began_ns=None)])
    assert older == [("n1", 50, 50), ("n2", 50, 50), ("n1", 90, 90), ("n2", 90, 90)]


@pytest.mark.parametrize("kind", ["isolate", "clock-step"])
def test_process_outlives_what_neither_stops_it_nor_changes_its_files(kind: str) -> None:
    assert ends_of([fault(kind)]) == []


@pytest.mark.parametrize("effects", [frozenset(), frozenset({"warms-the-room"})])
def test_fault_of_which_nobody_knows_what_it_does_may_end_a_process(effects: frozenset[str]) -> None:
    strange = Fault(1, "strange", ("n1",), 50, None, True, "", began_ns=40, effects=effects)
    assert ends_of([strange]) == [("n1", 40, 50)]
