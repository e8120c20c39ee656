"""Which witnesses are one finding, and in which order its steps stand."""

from __future__ import annotations

from typing import Any

import pytest

from harness.report.story import MOST_STEPS, Finding, findings
from tests.support.sample_run import FAULT, OPERATIONS, RESULTS, RUN, SERIES, witness

pytestmark = pytest.mark.guarantee("V6")


def found(*witnesses: dict[str, Any], series: dict[str, Any] = SERIES, **said: Any) -> list[Finding]:
    checker = {**RESULTS["checkers"]["lost-write"], "witnesses": list(witnesses)}
    return findings(RUN, {**RESULTS, "checkers": {"lost-write": checker}, **said}, series)


def test_witnesses_of_one_record_are_one_finding_with_its_evidence_once() -> None:
    (finding,) = findings(RUN, RESULTS, SERIES)
    assert finding.title == "m2 (value 17) at offset 2 of hw-0"
    # The cause comes before what it led to.
    assert [claim.checker for claim in finding.claims] == ["leader-completeness", "lost-write"]
    assert len(finding.operations) == len(OPERATIONS)
    assert finding.holdings == (
        "n1 holds nothing there: its log ends at offset 2.",
        "n2 holds value 99 at offset 2, appended in leader epoch 1 (0.log, byte 140).",
    )
    assert finding.faults == ("kill n1",)
    assert finding.span == (1.0, 5.0)


def test_steps_stand_in_causal_order() -> None:
    (finding,) = findings(RUN, RESULTS, SERIES)
    told = [(step.kind, step.lanes) for step in finding.steps if step.kind != "isr"]
    assert told == [
        ("election", ("n1",)),
        ("send", ("clients",)),
        # Of the sample that is later than the acknowledgement, which proves that it was there.
        ("append", ("n1",)),
        ("ack", ("n1",)),
        ("copy", ("n1",)),
        ("commit", ("n1",)),
        ("fault", ("n1",)),
        ("election", ("n2",)),
        ("cut", ("n3",)),
        ("append", ("n2",)),
        ("copy", ("n2",)),
        ("healed", ("n1",)),
        ("cut", ("n1",)),
        ("copy", ("n2",)),
        ("read", ("n2",)),
    ]
    assert [step.at_s for step in finding.steps] == sorted(step.at_s for step in finding.steps)


def test_story_says_who_led_when_it_began_and_which_epoch_acknowledged() -> None:
    (finding,) = findings(RUN, RESULTS, SERIES)
    texts = [step.text for step in finding.steps]
    assert (
        texts[0] == "n1 led hw-0 when this began, in leader epoch 0; it had since 0.100 s."
        or "became leader" in texts[0]
    )
    assert any("acknowledged m2 (value 17) at offset 2 of hw-0 (leader epoch 0)" in text for text in texts)
    assert any("The in-sync set (ISR) of hw-0 became n2 and n3: n1 left." in text for text in texts)


def test_log_that_grew_while_somebody_took_over_is_said_to_hold_the_offset_and_no_more() -> None:
    """Its sample is the last of a slice of 10 ms, in which broker 2 became leader."""
    partition = {**SERIES["partitions"]["hw-0"], "leo": [[0.95, 2, 2], [2.505, 2, 3]]}
    (finding,) = found(witness("gone"), series={**SERIES, "partitions": {"hw-0": partition}})
    (grown,) = [step for step in finding.steps if step.kind in ("append", "copy")]
    assert (grown.text, grown.to) == ("The log of hw-0 on n2 reached past offset 2 by then.", None)


def test_fault_is_told_by_its_effects_and_by_what_was_seen() -> None:
    frost = {**FAULT, "fault": "frost", "effects": ["cuts-links"]}
    (finding,) = found(witness("gone"), faults=[frost])
    (began,) = [step for step in finding.steps if step.kind == "fault"]
    assert began.text == (
        "Fault 1 (frost) began: n1 lost packets to or from other nodes. Seen from outside: pid 4711 is gone."
    )
    assert began.stops


def test_leader_that_was_chosen_and_never_led_is_told() -> None:
    elected = [[0.09, 1, 0, 3, "new-topic"], [2.2, 3, 1, 3, "offline"], [2.4, 2, 1, 3, "offline"]]
    partition = {**SERIES["partitions"]["hw-0"], "elected": elected}
    (finding,) = found(witness("gone"), series={**SERIES, "partitions": {"hw-0": partition}})
    (chosen,) = [step for step in finding.steps if step.label.startswith("chosen")]
    assert chosen.at_s == 2.2
    assert chosen.text == (
        "n3, the controller, made n3 leader of hw-0, in leader epoch 1 (offline). n3 never said that it took over."
    )


def test_node_that_another_fault_still_stops_does_not_run_again() -> None:
    other = {**FAULT, "fault_id": 2, "fault": "pause", "start_ns": 3_000_000_000, "stop_ns": 4_500_000_000}
    (finding,) = found(witness("gone"), faults=[FAULT, other])
    first, second = [step for step in finding.steps if step.kind == "healed"]
    assert (first.text, first.stops) == ("Fault 1 (kill) was taken back, while another fault held n1.", True)
    assert (second.text, second.stops) == ("Fault 2 (pause) was taken back: n1 ran again.", False)


def test_append_is_not_later_than_the_copies_made_of_it() -> None:
    """The leader's sample is of a later append in the same slice of 10 ms."""
    partition = {**SERIES["partitions"]["hw-0"], "leo": [[0.95, 1, 2], [0.95, 3, 2], [1.005, 3, 3], [1.009, 1, 4]]}
    (finding,) = found(witness("gone"), series={**SERIES, "partitions": {"hw-0": partition}})
    kinds = [step.kind for step in finding.steps]
    assert kinds.index("append") < kinds.index("copy") < kinds.index("ack")


def test_fault_of_another_time_is_no_part_of_the_story() -> None:
    later = {**FAULT, "start_ns": 50_000_000_000, "stop_ns": None}
    (finding,) = found(witness("gone"), faults=[later])
    assert not [step for step in finding.steps if step.kind in ("fault", "healed")]
    assert finding.faults == ("kill n1",)


def test_fault_that_results_do_not_list_keeps_its_number() -> None:
    (finding,) = found(witness("gone"), faults=[])
    assert finding.faults == ("fault 1",)


def test_what_breaks_a_promise_comes_before_what_is_unknown() -> None:
    early = witness("unsure", kind="unknown", offset=1, from_ns=0, to_ns=1)
    late, allowed = witness("gone", offset=9), witness("allowed", kind="allowed", offset=3)
    assert [finding.kind for finding in found(early, allowed, late)] == ["invalid", "unknown", "allowed"]


def test_finding_without_a_record_stands_alone_and_has_the_faults_of_its_time() -> None:
    said: dict[str, Any] = {"partition": None, "offset": None, "value": None, "operations": [], "evidence": []}
    first, second = found(witness("one", **said), witness("two", **said))
    assert (first.title, first.claims[0].summary, second.claims[0].summary) == ("Lost write", "one", "two")
    assert [step.kind for step in first.steps] == ["fault", "healed"]


def test_without_series_a_story_has_its_operations_and_faults() -> None:
    (finding,) = found(witness("gone"), series={})
    assert [step.kind for step in finding.steps] == ["send", "ack", "fault", "healed", "read"]


def test_long_story_leaves_out_in_sync_sets_first_and_says_how_many() -> None:
    isrs = [[1 + nth / 100, [1, 2, 3] if nth % 2 else [1, 2]] for nth in range(300)]
    partition = {**SERIES["partitions"]["hw-0"], "isr": isrs}
    (finding,) = found(witness("gone"), series={**SERIES, "partitions": {"hw-0": partition}})
    assert len(finding.steps) == MOST_STEPS
    assert finding.left_out > 200
    assert {step.kind for step in finding.steps} >= {"send", "ack", "fault", "election", "cut", "read"}


def test_witness_of_an_older_run_without_indexes_is_shown_and_tells_nothing() -> None:
    (finding,) = found(witness("gone", operations=[{"f": "send", "type": "ok", "values": [17]}], evidence=[{"leo": 2}]))
    assert finding.operations == ({"f": "send", "type": "ok", "values": [17]},)
    assert finding.holdings == ("leo 2",)
