"""Verdicts from rows: worst first, never valid without evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.allowances.allowances import reason_for
from checkers.coverage.requirements import CoverageResult
from checkers.results.results import durability, linearizability, sentence
from checkers.verdicts.catalogue import ALL, BY_NAME
from checkers.verdicts.spec import Spec
from checkers.verdicts.verdict import ONE_LINE, WITNESSES, CheckResult, Row, by_checker, found_unasked, judge, worst

pytestmark = pytest.mark.guarantee("V5")

LOST = BY_NAME["lost-write"]
SEEN = [
    Row("lost-write", "figure", "hw-0", 1, detail="acknowledged", figure=5.0),
    Row("lost-write", "figure", "hw-0", 1, detail="records_read", figure=9.0),
]
FOUND = Row("lost-write", "invalid", "hw-0", 3, offset=7, value=17, ops=(4,), detail="value 17 is gone")


def test_worst_invalid_beats_unknown_beats_valid() -> None:
    assert worst(["valid", "unknown", "invalid"]) == "invalid"
    assert worst(["valid", "unknown", "not-applicable"]) == "unknown"
    assert worst(["valid", "not-applicable"]) == "valid"


def test_worst_of_nothing_is_unknown() -> None:
    assert worst([]) == "unknown"
    assert worst(["not-applicable"]) == "unknown"


def test_judge_with_all_figures_and_no_finding_is_valid() -> None:
    result = judge(LOST, SEEN, ["hw-0"])
    assert (result.verdict, result.reasons) == ("valid", [])
    assert result.counts == {"acknowledged": 5, "records_read": 9, "found": 0}


@pytest.mark.parametrize("spec", [spec for spec in ALL if spec.needs], ids=lambda spec: spec.name)
def test_judge_without_any_figure_is_unknown(spec: Spec) -> None:
    result = judge(spec, [], ["hw-0"])
    assert result.verdict == "unknown"
    assert ("hw-0" in result.reasons[0]) != spec.of_run


def test_judge_of_the_whole_run_needs_each_figure_once_wherever_it_was_seen() -> None:
    spec = BY_NAME["config-not-linearizable"]
    changes = Row(spec.name, "figure", "hw-admin0", 1, detail="changes", figure=3.0)
    described = Row(spec.name, "figure", "hw-admin1", 1, detail="settings_described", figure=1.0)
    assert judge(spec, [changes, described], ["hw-0", "hw-1"]).verdict == "valid"
    lacking = judge(spec, [changes, replace(described, figure=0.0)], ["hw-0", "hw-1"])
    assert (lacking.verdict, lacking.reasons) == ("unknown", ["no setting that a topic had was described"])


def test_judge_with_one_partition_unseen_is_unknown_and_names_it() -> None:
    result = judge(LOST, SEEN, ["hw-0", "hw-1"])
    assert result.verdict == "unknown"
    assert "hw-1" in result.reasons[0]
    assert "hw-0" not in result.reasons[0]


def test_judge_with_a_finding_is_invalid_though_evidence_is_missing_too() -> None:
    result = judge(LOST, [FOUND], ["hw-0"], missing_evidence=["a hole"])
    assert result.verdict == "invalid"
    assert result.counts["found"] == 3
    assert result.reasons[0] == "3 found: value 17 is gone"
    assert "a hole" in result.reasons


def test_judge_with_a_hole_in_its_evidence_is_unknown() -> None:
    result = judge(LOST, SEEN, ["hw-0"], missing_evidence=["no event log of n2"])
    assert (result.verdict, result.reasons) == ("unknown", ["no event log of n2"])


def test_judge_with_an_undecided_finding_is_unknown() -> None:
    result = judge(LOST, [*SEEN, replace(FOUND, kind="unknown")], ["hw-0"])
    assert result.verdict == "unknown"
    assert result.reasons == ["3 undecided: value 17 is gone"]


def test_judge_with_allowed_findings_only_is_valid_and_says_so() -> None:
    reason = reason_for("lost-write", acks_one=True, retention=False, unclean=False)
    result = judge(LOST, [*SEEN, replace(FOUND, kind="allowed")], ["hw-0"], allowed=reason)
    assert result.verdict == "valid"
    assert result.allowed == "3 allowed: acks=1, and the leader changed"
    assert result.witnesses


def test_judge_not_applicable_yields_to_a_finding() -> None:
    assert judge(LOST, [], ["hw-0"], not_applicable="no such evidence").verdict == "not-applicable"
    assert judge(LOST, [FOUND], ["hw-0"], not_applicable="no such evidence").verdict == "invalid"


def test_judge_shows_at_most_ten_witnesses_and_counts_all() -> None:
    rows = [replace(FOUND, count=40, offset=offset) for offset in range(12)]
    result = judge(LOST, rows, ["hw-0"])
    assert len(result.witnesses) == WITNESSES
    assert result.counts["found"] == 40


def test_judge_adds_counts_over_partitions_and_takes_the_worst_time() -> None:
    spec = BY_NAME["staleness"]
    rows = [
        Row("staleness", "figure", p, 1, detail=name, figure=value)
        for p, name, value in (
            ("a", "worst_ms", 3.0),
            ("b", "worst_ms", 8.0),
            ("a", "polls_at_end", 2.0),
            ("b", "polls_at_end", 3.0),
        )
    ]
    result = judge(spec, rows, ["a", "b"])
    assert result.measures == {"worst_ms": 8.0}
    assert result.counts["polls_at_end"] == 5


def test_reason_names_only_what_holds_in_this_run() -> None:
    reason = reason_for("vanished-read", acks_one=True, retention=True, unclean=True)
    assert reason.startswith("retention or DeleteRecords, and")
    assert "acks=1" not in reason
    assert "unclean.leader.election.enable=true" in reason


def test_reason_of_a_leader_from_outside_the_isr_is_what_its_election_was() -> None:
    held = {"acks_one": True, "retention": True, "unclean": True}
    assert reason_for("isr-znode", **held, rules={"unclean-leader"}).startswith("unclean.leader.election.enable=true")
    longest = reason_for("isr-znode", **{**held, "unclean": False}, rules={"longest-log"})
    assert longest.startswith("no replica surely had all that was committed")
    assert reason_for("isr-znode", **held, rules={"longest-log"}) == longest


ACK = BY_NAME["ack-committed"]
EARLY = Row("ack-committed", "invalid", "hw-0", 2, detail="hw 3 for offset 7", rule=ONE_LINE)
IN_ORDER = Row("ack-committed", "invalid", "hw-0", 5, detail="its watermark was never logged")


def test_judge_keeps_what_one_line_proves_whatever_else_is_missing() -> None:
    result = judge(ACK, [IN_ORDER, EARLY], ["hw-0"], missing_evidence=["a gap"], doubted=True)
    assert result.verdict == "invalid"
    assert result.reasons[0] == "2 found: hw 3 for offset 7"
    assert result.counts["found"] == 7
    assert [row.kind for row in result.witnesses] == ["invalid", "unknown"]


def test_judge_doubts_what_follows_from_the_order_of_lines() -> None:
    alone = judge(ACK, [IN_ORDER], ["hw-0"], missing_evidence=["a gap"], doubted=True)
    assert (alone.verdict, [row.kind for row in alone.witnesses]) == ("unknown", ["unknown"])


DRAIN = BY_NAME["final-drain"]
DRAINED = [
    Row("final-drain", "figure", "hw-0", 1, detail="sentinels", figure=1.0),
    Row("final-drain", "figure", "hw-0", 1, detail="gone", figure=3.0),
]


def test_judge_of_a_drain_that_lacks_what_was_read_is_unknown() -> None:
    result = judge(DRAIN, DRAINED, ["hw-0"])
    assert result.verdict == "unknown"
    assert result.reasons[0].startswith("3 records were read once")


def test_judge_of_a_drain_that_lacks_what_an_unclean_election_took_is_valid_and_counted() -> None:
    rows = [replace(row, detail="allowed_gone") if row.detail == "gone" else row for row in DRAINED]
    assert judge(DRAIN, rows, ["hw-0"]).verdict == "valid"
    assert durability(rows, ["hw-0"])[0]["gone"] == 3


def test_record_that_is_not_known_to_be_lost_counts_as_unseen() -> None:
    """The sentence of a run that is invalid for something else would name it as lost."""
    rows = [Row("lost-write", kind, "hw-0", count) for kind, count in (("invalid", 1), ("unknown", 2), ("allowed", 4))]
    rows.append(Row("unseen", "unknown", "hw-0", 8))
    found = durability(rows, ["hw-0"])[0]
    assert (found["lost"], found["unseen"], found["allowed_lost"]) == (1, 10, 4)


def test_sentence_says_what_acks_0_does_not_confirm_and_what_never_fired() -> None:
    rows = [
        Row("lost-write", "figure", "hw-0", 1, detail=name, figure=value)
        for name, value in (("unacknowledged_sends", 50.0), ("unacknowledged_unread", 7.0))
    ]
    text = sentence("valid", [], durability(rows, ["hw-0"]), CoverageResult(True), [], not_fired=["pause"])
    assert "confirms nothing: 50, of which 7 were read by nobody" in text
    assert text.endswith("; not fired: pause.")


def test_rule_of_a_checker_that_the_catalogue_lacks_is_an_error() -> None:
    assert set(by_checker(SEEN)) == set(BY_NAME)
    assert by_checker(SEEN)["lost-write"] == SEEN
    with pytest.raises(ValueError, match=r"'lost-wirte', which is no checker of the catalogue, found: value 7"):
        by_checker([*SEEN, replace(FOUND, checker="lost-wirte", detail="value 7")])


@pytest.mark.parametrize("name", ["lost-write", "lost-tail", "unseen", "final-drain"])
def test_sentence_claims_no_reading_back_whose_checkers_the_run_does_not_name(name: str) -> None:
    text = sentence("valid", [], [], CoverageResult(True), [], left_out=["duplicate", name])
    assert "read back" not in text
    assert text.endswith(f"; not asked for: {name}, duplicate.")
    others = list(BY_NAME)
    assert sentence("valid", [], [], CoverageResult(True), [], left_out=others).endswith(
        f" and {len(others) - 5} more."
    )
    assert "read back from every replica" in sentence("valid", [], [], CoverageResult(True), [], left_out=["duplicate"])


def test_linearizability_is_unknown_where_the_run_does_not_name_some_of_it() -> None:
    checks = [CheckResult("lost-write", "black-box", "", "valid", linearizability=True)]
    assert linearizability(checks)["verdict"] == "valid"
    assert linearizability(checks, left_out=True)["verdict"] == "unknown"
    checks[0].verdict = "invalid"
    assert linearizability(checks, left_out=True)["verdict"] == "invalid"


def test_sentence_names_the_nodes_whose_files_no_rule_compared() -> None:
    text = sentence("valid", [], [], CoverageResult(True), [], uncompared=["n1", "n3"])
    assert text.endswith("; not compared, because faults damaged them: files of n1, n3.")


def test_sentence_says_why_the_load_ended_early() -> None:
    said = "ended early, by what duplicate had found at 12.3 s, operation 19"
    assert sentence("valid", [], [], CoverageResult(True), [], ended_early=said).endswith(f"; {said}.")


def test_finding_of_a_checker_that_nobody_asked_for_is_named() -> None:
    assert found_unasked(LOST, [*SEEN, FOUND]) == (
        "lost-write, which this run does not ask for, found 3: value 17 is gone"
    )
    undecided = Row("lost-write", "unknown", "hw-0", 1)
    assert found_unasked(LOST, [*SEEN, undecided]) is None
