"""Which checkers may judge a prefix: each of the catalogue is in one of two tables, and what may excuse it later."""

from __future__ import annotations

import pytest

from checkers.allowances import allowances
from checkers.verdicts.catalogue import BY_NAME
from checkers.verdicts.prefixes import CLOSED, OPEN, Doubt, may_judge, stands
from checkers.verdicts.verdict import CheckResult, Row, Verdict

pytestmark = pytest.mark.guarantee("V5")

NOTHING: frozenset[Doubt] = frozenset()


def test_every_checker_is_either_closed_or_open_and_says_why() -> None:
    assert set(CLOSED) | set(OPEN) == set(BY_NAME)
    assert not set(CLOSED) & set(OPEN)
    assert all(closed.why for closed in CLOSED.values())
    assert all(OPEN.values())


def test_a_finding_becomes_one_of_checkers_that_there_are() -> None:
    assert {name for closed in CLOSED.values() for name in closed.becomes} <= set(BY_NAME)


@pytest.mark.parametrize(
    ("allowance", "doubt"),
    [
        (allowances.UNCLEAN, "unclean"),
        (allowances.UNCLEAN_OFFSETS, "unclean"),
        (allowances.UNCLEAN_TRANSACTIONS, "unclean"),
        (allowances.RETENTION, "deletions"),
        (allowances.UNSEEN_START, "deletions"),
        (allowances.BROUGHT_BACK, "deletions"),
    ],
)
def test_what_a_configuration_may_excuse_in_the_end_is_not_looked_for_before(
    allowance: allowances.Allowance, doubt: Doubt
) -> None:
    for name in set(allowance.checkers) & set(CLOSED):
        assert may_judge(name, NOTHING)
        assert not may_judge(name, frozenset({doubt})), name


def test_checkers_of_the_drain_and_of_copied_files_judge_no_prefix() -> None:
    for name in ("lost-tail", "unseen", "final-drain", "confluent-repeat", "log-matching", "hw-monotone"):
        assert not may_judge(name, NOTHING), name


def _whole(*found: tuple[str, str, str | None], verdict: Verdict = "invalid") -> tuple[list[CheckResult], list[Row]]:
    """(checks, rows) of (checker, kind, partition): each of these checkers came to that verdict."""
    checks = [CheckResult(name, "black-box", name, verdict) for name, _, _ in found]
    return checks, [Row(name, kind, p, 1) for name, kind, p in found]


def test_a_finding_stands_by_itself_or_by_what_it_became() -> None:
    assert stands("duplicate", "t-0", *_whole(("duplicate", "invalid", "t-0")))
    assert stands("lost-write", "t-0", *_whole(("lost-write", "figure", "t-0"), ("vanished-read", "invalid", "t-0")))
    assert not stands("duplicate", "t-0", *_whole(("hole", "invalid", "t-0")))
    assert not stands("duplicate", "t-0", *_whole(("duplicate", "allowed", "t-0"), verdict="valid"))
    # Found in a record with lines missing.
    assert not stands("duplicate", "t-0", *_whole(("duplicate", "invalid", "t-0"), verdict="unknown"))
    assert stands("of-another-package", None, *_whole(("of-another-package", "invalid", None)))


def test_a_finding_stands_by_none_of_another_partition() -> None:
    elsewhere = _whole(("duplicate", "invalid", "t-1"), ("duplicate", "unknown", "t-0"), ("duplicate", "figure", "t-0"))
    assert not stands("duplicate", "t-0", *elsewhere)
    assert stands("duplicate", "t-1", *elsewhere)
    assert not stands("lost-write", "t-0", *_whole(("vanished-read", "invalid", "t-1")))
    assert not stands("duplicate", "t-0", *_whole(("duplicate", "invalid", None)))
    # Of no partition, or as runs were recorded before they named one.
    assert stands("duplicate", None, *elsewhere)
