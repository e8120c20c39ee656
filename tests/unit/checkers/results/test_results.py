"""What results.json says of a witness that is a cycle, and of what was allowed."""

from __future__ import annotations

from typing import Any

from checkers.coverage.requirements import CoverageResult
from checkers.results.results import join_witnesses, sentence
from checkers.verdicts.verdict import CheckResult, Row

_EDGE: dict[str, Any] = {
    "from": "transaction 1",
    "to": "transaction 2",
    "edge": "wr",
    "partition": "hw-0",
    "offset": 50,
}


def _check(name: str, allowed: str | None = None, *witnesses: Row) -> CheckResult:
    return CheckResult(name, "black-box", name, "valid", allowed=allowed, witnesses=list(witnesses))


def _told(*checks: CheckResult) -> str:
    return sentence("valid", checks, [], CoverageResult(met=True, missing=[], figures={}, lowered={}), [])


def test_cycle_stands_in_its_witness_and_polls_keep_the_records_around_it() -> None:
    row = Row("g1c", "invalid", "hw-0", 1, ops=(7,), cycle=(_EDGE,))
    check = _check("g1c", None, row)
    poll = {"index": 8, "invoke": 7, "records": [{"offset": at, "value": at} for at in range(100)]}
    join_witnesses(check, [], {7: [poll]}, {})
    (joined,) = check.joined
    assert joined["cycle"] == [_EDGE]
    assert [record["offset"] for record in joined["operations"][0]["records"]] == list(range(47, 54))
    assert joined["operations"][0]["records_left_out"] == 93


def test_witness_that_is_no_cycle_has_none() -> None:
    check = _check("duplicate", None, Row("duplicate", "invalid", "hw-0", 1))
    join_witnesses(check, [], {}, {})
    assert "cycle" not in check.joined[0]


def test_checkers_with_one_reason_stand_together_in_the_sentence() -> None:
    told = _told(
        _check("g0", "3 allowed: why"), _check("lost-write", "1 allowed: acks=1"), _check("g2", "4 allowed: why")
    )
    assert told.endswith("; allowed: g0 3, g2 4: why; lost-write: 1 allowed: acks=1.")
