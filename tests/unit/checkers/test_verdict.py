"""Verdicts from rows: worst first, never valid without evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.allowed import allow_unclean, reason_for
from checkers.catalogue import ALL, BY_NAME
from checkers.verdict import WITNESSES, Row, judge, worst

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
def test_judge_without_any_figure_is_unknown(spec: object) -> None:
    result = judge(spec, [], ["hw-0"])  # type: ignore[arg-type]
    assert result.verdict == "unknown"
    assert "hw-0" in result.reasons[0]


def test_judge_with_one_partition_unseen_is_unknown_and_names_it() -> None:
    result = judge(LOST, SEEN, ["hw-0", "hw-1"])
    assert result.verdict == "unknown"
    assert "hw-1" in result.reasons[0]
    assert "hw-0" not in result.reasons[0]


def test_judge_with_a_finding_is_invalid_though_evidence_is_missing_too() -> None:
    result = judge(LOST, [FOUND], ["hw-0"], holes=["a hole"])
    assert result.verdict == "invalid"
    assert result.counts["found"] == 3
    assert result.reasons[0] == "3 found: value 17 is gone"
    assert "a hole" in result.reasons


def test_judge_with_a_hole_in_its_evidence_is_unknown() -> None:
    result = judge(LOST, SEEN, ["hw-0"], holes=["no event log of n2"])
    assert (result.verdict, result.reasons) == ("unknown", ["no event log of n2"])


def test_judge_with_an_undecided_finding_is_unknown() -> None:
    result = judge(LOST, [*SEEN, replace(FOUND, kind="unknown")], ["hw-0"])
    assert result.verdict == "unknown"
    assert result.reasons == ["3 undecided: value 17 is gone"]


def test_judge_with_allowed_findings_only_is_valid_and_says_so() -> None:
    result = judge(LOST, [*SEEN, replace(FOUND, kind="allowed")], ["hw-0"], allowed=reason_for("lost-write", set()))
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


def test_allow_unclean_touches_only_its_partitions_and_checkers() -> None:
    phantom = replace(FOUND, checker="phantom-read")
    elsewhere = replace(FOUND, p="hw-1")
    assert [row.kind for row in allow_unclean([FOUND, phantom, elsewhere], {"hw-0"})] == [
        "allowed",
        "invalid",
        "invalid",
    ]
