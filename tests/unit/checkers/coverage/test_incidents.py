"""Lines of the harness that no rule speaks of are reasons all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers.coverage import incidents
from checkers.coverage.missing_evidence import missing_evidence_of, not_applicable, run_reasons
from checkers.coverage.requirements import AroundFault, Seen, judge_coverage
from checkers.evidence.prepare import Prepared
from checkers.history.health import HistoryHealth
from checkers.history.run_info import NodeInfo
from checkers.results.results import sentence
from checkers.verdicts.catalogue import BY_NAME
from checkers.verdicts.verdict import SENT_TWICE, Row, judge
from tests.support.run_info import run_info

pytestmark = pytest.mark.guarantee("H8")

INFO = run_info(nodes=(NodeInfo("n1", "broker", 1, 0), NodeInfo("zk1", "zookeeper", None, 0)))
SEEN = Seen(
    acknowledged=6000,
    elections=4,
    elections_by_partition={"hw-0": 4},
    election_faults=["isolate", "kill", "pause"],
    lag_shrinks=2,
    expansions=3,
    faults=[],
    around=[AroundFault(1, True, True, True, True, True, True), AroundFault(2, True, False, True, True, True, True)],
    drain_gaps=[],
)


def mark(f: str, **fields: Any) -> dict[str, Any]:
    empty = {"kind": "harness", "phase": "main", "node": None, "error": None, "fault": None, "observation": None}
    return {**empty, "f": f, **fields}


def test_unexplained_names_the_process_that_ended_by_itself() -> None:
    said = incidents.unexplained([mark("crash", node="n2", error="ended though no fault was to end it")])
    assert said == ["the process of n2 ended though no fault was to end it (phase main)"]


def test_unexplained_names_a_fault_that_does_not_say_its_effects() -> None:
    start = {"kind": "nemesis", "fault": "bitflip", "fault_id": 3}
    said = [mark("start", **start, effects=effects) for effects in (None, [], ["damages-files"])]
    assert incidents.unexplained(said) == ["fault 3 (bitflip) does not say what its effects are"]


def test_unexplained_names_the_client_that_ended_by_itself() -> None:
    said = incidents.unexplained([mark("client-lost", error="the Java client 1: no answer to consumer.commit")])
    assert said == [
        "the process of a client ended though nothing was to end it: the Java client 1: no answer to consumer.commit"
    ]


def test_unexplained_names_what_was_not_healed() -> None:
    assert incidents.unexplained([mark("heal", error="n2 paused: no answer"), mark("heal")]) == [
        "after the faults: n2 paused: no answer"
    ]


def test_unexplained_names_a_broker_that_had_to_be_killed_and_of_logs_that_are_not_known() -> None:
    killed = mark("crash", node="n2", error="did not end within 30 s of SIGTERM and was killed", phase="drain-n1")
    assert incidents.unexplained([killed, mark("logs", node="n3", error="OSError: gone")]) == [
        "the process of n2 did not end within 30 s of SIGTERM and was killed (phase drain-n1)",
        "what n3 logged after its evidence was copied is not known: OSError: gone",
    ]
    # No rule rests on it: what was found elsewhere stays found.
    whole = [mark("evidence", node=node.name) for node in INFO.nodes]
    assert incidents.uncopied_evidence([*whole, mark("logs", node="n1", error="OSError: gone")], INFO) == {}


def test_coverage_lists_what_is_unexplained() -> None:
    seen = replace(SEEN, writes_impossible=frozenset({2}), unexplained=["the process of n2 ended"])
    assert judge_coverage(seen, scripted=False, checks={"acknowledged": 1}).missing == ["the process of n2 ended"]


def test_coverage_needs_no_write_under_a_fault_that_makes_writes_impossible_and_says_so() -> None:
    result = judge_coverage(replace(SEEN, writes_impossible=frozenset({2})), scripted=False, checks={})
    assert result.met
    assert result.lowered == {"writes_during_faults": 1}


def test_coverage_needs_a_tried_write_under_a_fault_that_makes_writes_impossible() -> None:
    idle = replace(SEEN.around[1], w_tried=False)
    seen = replace(SEEN, around=[SEEN.around[0], idle], writes_impossible=frozenset({2}))
    assert judge_coverage(seen, scripted=False, checks={}).missing == ["no write tried during fault 2"]


def test_coverage_needs_no_poll_under_a_fault_that_leaves_no_broker_and_says_so() -> None:
    deaf = replace(SEEN.around[1], w_during=True, r_during=False)
    seen = replace(SEEN, around=[SEEN.around[0], deaf])
    assert judge_coverage(seen, scripted=False, checks={}).missing == ["no answered poll during fault 2"]
    result = judge_coverage(replace(seen, reads_impossible=frozenset({2})), scripted=False, checks={})
    assert result.met
    assert result.lowered == {"polls_during_faults": 1}


def test_coverage_needs_writes_under_any_other_fault() -> None:
    assert judge_coverage(SEEN, scripted=False, checks={}).missing == ["no acknowledged write during fault 2"]


@pytest.mark.parametrize(("node", "sources"), [("n1", {"events", "segments"}), ("zk1", {"zookeeper"})])
def test_evidence_that_was_not_copied_is_missing_evidence_of_its_sources(node: str, sources: set[str]) -> None:
    marks = [mark("evidence", node=node, error="OSError: half of it")]
    marks += [mark("evidence", node=other.name) for other in INFO.nodes if other.name != node]
    assert incidents.copied(marks) == {other.name for other in INFO.nodes} - {node}
    assert set(incidents.uncopied_evidence(marks, INFO)) == sources
    health = HistoryHealth(2, 1, 0, ())
    missing_evidence = missing_evidence_of(INFO, health, Prepared(), [], marks)
    assert {source for source, texts in missing_evidence.items() if texts} == sources


@pytest.mark.parametrize(("node", "sources"), [("n1", {"events", "segments"}), ("zk1", {"zookeeper"})])
def test_evidence_of_which_nobody_says_that_it_was_copied_is_missing_evidence_of_its_sources(
    node: str, sources: set[str]
) -> None:
    marks = [mark("evidence", node=other.name) for other in INFO.nodes if other.name != node]
    assert incidents.copied(marks) == {other.name for other in INFO.nodes} - {node}
    assert incidents.uncopied_evidence(marks, INFO) == {
        source: [f"the evidence of {node} is not whole: no line says that all was copied"] for source in sources
    }


@pytest.mark.parametrize(
    ("said", "lines", "torn"), [(None, 7, 0), (7, 7, 0), (7, 8, 1), (7, 6, 0), (7, 7, 1), (7, 8, 0)]
)
def test_history_of_other_than_the_lines_that_were_written_is_not_whole(
    said: int | None, lines: int, torn: int
) -> None:
    """What is cut off at its end leaves a history that is whole by itself."""
    info = replace(INFO, lines=said)
    health = HistoryHealth(lines, 1, torn, ())
    expected = [] if said in (None, lines - torn) else [f"the history has {lines - torn} lines, and run.json says 7"]
    marks = [mark("evidence", node=node.name) for node in INFO.nodes]
    assert missing_evidence_of(info, health, Prepared(), [], marks)["history"] == expected
    assert run_reasons(info, health) == expected


def test_history_in_which_records_have_one_value_proves_nothing_against_brokers() -> None:
    """Whichever rule finds something, and whatever it says."""
    twice = [Row("duplicate", "unknown", "hw-0", 2, value=v, detail=f"value {v}", rule=SENT_TWICE) for v in (4, 5)]
    marks = [mark("evidence", node=node.name) for node in INFO.nodes]
    missing = missing_evidence_of(INFO, HistoryHealth(7, 1, 0, ()), Prepared(), twice, marks)
    assert missing == {"history": ["value 4 (and 1 more)"]}


def test_unavailable_faults_stand_in_the_sentence() -> None:
    missing = incidents.unavailable([mark("unavailable", kind="nemesis", fault="clock-step", error="no libfaketime")])
    assert missing == {"clock-step": "no libfaketime"}
    coverage = judge_coverage(replace(SEEN, around=[]), scripted=False, checks={})
    assert sentence("valid", [], [], coverage, [], missing).endswith("; not available on these nodes: clock-step.")


def test_sentence_of_a_valid_run_claims_no_record_whose_loss_was_allowed() -> None:
    coverage = judge_coverage(replace(SEEN, around=[]), scripted=False, checks={})
    row = {"acknowledged": 9, "read": 7, "lost": 0}
    assert "9 acknowledged records on 1 partition, all read back" in sentence("valid", [], [row], coverage, [])
    assert "all but 2 read back" in sentence("valid", [], [{**row, "allowed_lost": 2}], coverage, [])


def test_sentence_counts_no_elections_where_no_evidence_shows_them() -> None:
    blind = judge_coverage(replace(SEEN, elections=None), scripted=False, checks={})
    assert "elections" not in blind.figures
    assert sentence("unknown", [], [], blind, ["no log"]).endswith("through 0 faults.")


def test_judge_finding_with_missing_evidence_is_unknown_and_shown() -> None:
    spec = BY_NAME["lost-write"]
    rows = [
        Row("lost-write", "figure", "hw-0", 1, detail="acknowledged", figure=5.0),
        Row("lost-write", "figure", "hw-0", 1, detail="records_read", figure=9.0),
        Row("lost-write", "invalid", "hw-0", 1, detail="value 17 is gone"),
    ]
    result = judge(spec, rows, ["hw-0"], missing_evidence=["a line is missing"], doubted=True)
    assert result.verdict == "unknown"
    assert result.reasons == ["a line is missing", "1 found in a record that is not whole: value 17 is gone"]
    assert [row.detail for row in result.witnesses] == ["value 17 is gone"]


@pytest.mark.parametrize("checker", ["poll-skip", "nonmonotonic-poll"])
def test_positions_that_no_change_of_leader_put_at_risk_are_no_evidence(checker: str) -> None:
    spec = BY_NAME[checker]
    never, once = ([Row(checker, "figure", "hw-0", 1, detail="own_positions", figure=n)] for n in (0.0, 1.0))
    reason = not_applicable(spec, INFO, never)
    assert reason == not_applicable(spec, INFO, [])
    assert "through a change of leader" in (reason or "")
    assert judge(spec, never, INFO.partitions, not_applicable=reason).verdict == "not-applicable"
    assert not_applicable(spec, INFO, once) is None
    assert judge(spec, once, INFO.partitions).verdict == "valid"


def _asked(ends: float) -> list[Row]:
    return [Row("nonmonotonic-end", "figure", "hw-0", 1, detail="ends_judged", figure=ends)]


@pytest.mark.parametrize(
    ("scripted", "rows", "applies"),
    [(True, [], False), (True, _asked(0), False), (True, _asked(1), True), (False, [], True), (False, _asked(0), True)],
)
def test_end_that_no_fault_caused_is_not_applicable_in_a_script_alone(
    scripted: bool, rows: list[Row], applies: bool
) -> None:
    info = replace(INFO, scripted=scripted)
    assert (not_applicable(BY_NAME["nonmonotonic-end"], info, rows) is None) == applies
    assert not_applicable(BY_NAME["refused-read"], info, []) is None


def test_unexplained_names_an_observer_that_ended_before_the_run() -> None:
    assert incidents.unexplained([mark("observer", error="leadership: OSError: refused"), mark("observer")]) == [
        "not all of the run was observed: leadership: OSError: refused"
    ]


@pytest.mark.parametrize("checker", ["event-log", "hw-monotone"])
def test_event_log_of_another_system_is_judged_where_it_keeps_one(checker: str) -> None:
    other = replace(INFO, system_kind="fork")
    assert not_applicable(BY_NAME[checker], other, []) is None
    assert not_applicable(BY_NAME[checker], replace(other, event_log=False), []) == "fork keeps no event log"


def _figures(checker: str, **named: float) -> list[Row]:
    return [Row(checker, "figure", "hw-0", 1, detail=name, figure=value) for name, value in named.items()]


@pytest.mark.parametrize("checker", ["int-nonmonotonic-send", "torn-batch"])
def test_batch_rule_is_not_applicable_only_where_all_sends_had_one_record(checker: str) -> None:
    spec = BY_NAME[checker]
    alone = _figures(checker, values_sent=9, batches_sent=0, batches_read=0)
    assert not_applicable(spec, INFO, alone) == "no send had several records"
    for seen in ([], _figures(checker, values_sent=9, batches_sent=3, batches_read=0)):
        assert not_applicable(spec, INFO, seen) is None
        assert judge(spec, seen, INFO.partitions).verdict == "unknown"


def test_hole_is_not_applicable_only_where_transactions_write_to_every_partition() -> None:
    spec = BY_NAME["hole"]
    assert "markers" in (not_applicable(spec, INFO, _figures("hole", polls=9, polls_judged=0)) or "")
    assert not_applicable(spec, INFO, _figures("hole", polls=9, polls_judged=1)) is None
    assert not_applicable(spec, INFO, []) is None
