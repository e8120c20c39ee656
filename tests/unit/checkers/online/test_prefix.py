"""What of the families' rows is a verdict so far."""

from __future__ import annotations

from checkers.online.prefix import Found, found_by
from checkers.verdicts.verdict import Row


def _row(checker: str, kind: str, *, p: str = "hw-0", count: int = 1, to_ns: int | None = 5, op: int = 1) -> Row:
    return Row(checker, kind, p, count, ops=(op,), to_ns=to_ns, detail=f"{checker} by {op}")


def test_found_by_names_the_finding_that_was_complete_first_and_counts_all() -> None:
    rows = [
        _row("duplicate", "invalid", count=3, to_ns=9, op=4),
        _row("duplicate", "invalid", count=3, to_ns=7, op=3),
        _row("duplicate", "invalid", p="hw-1", count=2, to_ns=8, op=5),
        _row("hole", "invalid", to_ns=6, op=2),
    ]
    assert found_by(["duplicate", "hole"], rows) == (
        Found("hole", 1, "hole by 2", "hw-0", (2,), 6),
        Found("duplicate", 5, "duplicate by 3", "hw-0", (3,), 7),
    )


def test_found_by_passes_over_what_is_unknown_allowed_or_of_a_checker_that_may_not_judge() -> None:
    rows = [_row("duplicate", "unknown"), _row("hole", "allowed"), _row("lost-write", "invalid")]
    assert found_by(["duplicate", "hole"], rows) == ()


def test_found_by_puts_a_finding_without_a_time_last() -> None:
    rows = [_row("hole", "invalid", to_ns=None, op=1), _row("hole", "invalid", to_ns=8, op=2)]
    assert found_by(["hole"], rows)[0].operations == (2,)
