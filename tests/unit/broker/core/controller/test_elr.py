"""Eligible leader replicas, by example: who is one, and who is elected on what report."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.core.controller import elr
from broker.core.controller.elr import CLEAN, Choice, ReplicaReport

pytestmark = pytest.mark.guarantee("R12")

REPLICAS = (1, 2, 3)


def report(end: int, *epochs: tuple[int, int], start: int = 0, shortened: bool = True) -> ReplicaReport:
    """Of a log that was lost in part and says its epochs."""
    return ReplicaReport(True, epochs[-1][0], end, start, epochs=epochs, shortened=shortened)


def lost(last_epoch: int, end: int, start: int = 0) -> ReplicaReport:
    return ReplicaReport(True, last_epoch, end, start)


def emptied(end: int) -> ReplicaReport:
    return lost(-1, end, end)


def choose(
    isr: tuple[int, ...], eligible: tuple[int, ...], spoken: Mapping[int, ReplicaReport], live: set[int] | None = None
) -> Choice | None:
    return elr.choose(isr, eligible, REPLICAS, set(spoken) if live is None else live, spoken.get)


@pytest.mark.parametrize(
    ("isr", "eligible", "after", "min_isr", "expected"),
    [
        ((1, 2, 3), (), (1, 2), 2, ()),
        ((1, 2), (), (1,), 2, (2,)),
        ((1, 2, 3), (), (1,), 2, (2, 3)),
        ((1,), (2,), (1, 3), 2, ()),
        ((1,), (2, 3), (1,), 2, (2, 3)),
        ((1,), (2, 3), (2,), 2, (1, 3)),
        ((1, 2, 3), (), (1, 2), 3, (3,)),
        ((1, 2), (), (1,), 1, ()),
        # The minimum was lowered from 3 to 2 while {1, 2} led on: 3 may lack what these two committed.
        ((1, 2), (3,), (1,), 2, (2,)),
    ],
)
def test_who_leaves_an_isr_that_is_below_its_minimum_is_eligible(
    isr: tuple[int, ...], eligible: tuple[int, ...], after: tuple[int, ...], min_isr: int, expected: tuple[int, ...]
) -> None:
    assert elr.after_write(isr, eligible, after, REPLICAS, min_isr) == expected


def test_replica_that_is_assigned_no_more_is_not_eligible() -> None:
    assert elr.after_write((1, 2), (3,), (1,), (1, 2), 2) == (2,)


def test_clean_isr_members_are_the_new_isr_and_the_first_of_them_leads() -> None:
    assert choose((1, 2, 3), (), {3: CLEAN, 2: CLEAN, 1: lost(0, 0)}) == Choice(2, (2, 3))


def test_clean_isr_member_is_not_kept_waiting_by_another_that_has_not_reported() -> None:
    assert choose((1, 2), (), {2: CLEAN}, live={1, 2}) == Choice(2, (2,))


def test_unclean_isr_member_does_not_win_over_an_eligible_replica() -> None:
    assert choose((1,), (2, 3), {1: lost(0, 0), 3: CLEAN}) == Choice(3, (3,))


def test_unclean_election_takes_the_longest_log_alive_and_waits_until_all_have_reported() -> None:
    reports = {1: ReplicaReport(False, 4, 3), 2: lost(5, 1000)}
    assert elr.longest_alive((3,), (), REPLICAS, {1, 2}, reports.get) == 2
    assert elr.longest_alive((3,), (), REPLICAS, {1, 2, 3}, reports.get) is None
    assert elr.longest_alive((3,), (), REPLICAS, set(), reports.get) is None
    assert elr.longest_alive((3,), (), (2, 1, 3), {1, 2}, elr.trust_all) == 2


def test_eligible_replica_waits_for_the_report_of_a_live_isr_member() -> None:
    assert choose((1,), (2,), {2: CLEAN}, live={1, 2}) is None
    assert choose((1,), (2,), {2: CLEAN}, live={2}) == Choice(2, (2,))


def test_nobody_is_elected_while_a_replica_that_may_hold_more_is_away() -> None:
    assert choose((1,), (2, 3), {1: lost(5, 9)}) is None
    assert choose((1, 2), (), {1: lost(5, 9), 2: lost(5, 8)}) is None
    assert choose((1, 2), (), {1: lost(5, 9), 2: lost(5, 8), 3: CLEAN}, live={1, 2}) is None


@pytest.mark.parametrize(
    ("reports", "leader"),
    [
        ({1: lost(5, 9), 2: lost(5, 12), 3: CLEAN}, 2),
        ({1: lost(5, 9), 2: lost(4, 12), 3: CLEAN}, 1),
        ({1: lost(-1, 0), 2: lost(-1, 0), 3: ReplicaReport(False, 3, 7)}, 3),
        ({1: lost(5, 9), 2: lost(5, 9), 3: ReplicaReport(False, 5, 9)}, 1),
    ],
)
def test_longest_log_of_all_leads_when_nobody_surely_has_everything(
    reports: dict[int, ReplicaReport], leader: int
) -> None:
    assert choose((1, 2), (), reports) == Choice(leader, (leader,), lossy=True)


def test_emptied_log_does_not_lose_to_a_stale_one_that_ends_before_it_begins() -> None:
    stale = lost(5, 480)
    assert choose((1, 2), (), {1: emptied(500), 2: emptied(500), 3: stale}) == Choice(1, (1,), lossy=True)
    assert choose((3,), (2,), {1: stale, 2: emptied(500), 3: stale}) == Choice(2, (2,), lossy=True)
    assert elr.longest_alive((2,), (), REPLICAS, {2, 3}, {2: emptied(500), 3: stale}.get) == 2
    assert elr.longest_alive((1,), (2,), REPLICAS, {2, 3}, {2: emptied(500), 3: stale}.get) == 2


def test_longer_log_leads_also_where_the_isrs_are_empty() -> None:
    """What is beyond the start may be what only this one still has."""
    assert choose((1, 2), (), {1: emptied(500), 2: emptied(500), 3: lost(5, 501)}) == Choice(3, (3,), lossy=True)


def test_start_of_a_log_that_an_unclean_election_left_behind_says_nothing() -> None:
    """3 was elected at 480 while 1 was away; what it has written since is all that counts."""
    assert choose((3,), (), {1: emptied(500), 2: lost(5, 480), 3: lost(7, 490)}) == Choice(3, (3,), lossy=True)


def test_report_that_contradicts_itself_does_not_leave_nobody_to_choose() -> None:
    assert choose((1,), (), {b: lost(-1, 3, 9) for b in REPLICAS}) == Choice(1, (1,), lossy=True)


OLD, TAIL = ((4, 0), (5, 90)), ((4, 0), (5, 90), (6, 100))
"""Epoch 5 leads to 101 and on; 6 was led by one who had 100 of it, and committed nothing; 7 left no record."""


def test_log_that_has_another_record_where_a_member_has_one_is_not_the_longest() -> None:
    reports = {1: report(101, *OLD), 2: report(102, *TAIL), 3: report(101, *OLD)}
    assert choose((1, 3), (), reports) == Choice(1, (1,), lossy=True)
    assert choose((3,), (1,), reports) == Choice(3, (3,), lossy=True)
    assert elr.longest_alive((3,), (), REPLICAS, {2, 3}, reports.get) == 3


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(
            report(100, *OLD), id="it ends where they part: what follows may have been committed, as it may not"
        ),
        pytest.param(
            report(101, *OLD, shortened=False), id="an older copy: it may differ from what was committed itself"
        ),
        pytest.param(report(101, (5, 0), start=101), id="it has no record left of those that they could differ in"),
        pytest.param(lost(5, 101), id="it does not say its epochs"),
    ],
)
def test_member_that_proves_nothing_leaves_the_longest_log(member: ReplicaReport) -> None:
    assert choose((1,), (), {1: member, 2: report(102, *TAIL), 3: report(90, (4, 0))}) == Choice(2, (2,), lossy=True)


def test_members_that_differ_are_judged_by_the_longest_log_as_before() -> None:
    """Both had what was committed; where they differ nothing was."""
    assert choose((1, 2), (), {1: report(101, *OLD), 2: report(101, *TAIL), 3: lost(4, 9)}) == Choice(
        2, (2,), lossy=True
    )


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (report(101, *OLD), report(101, *OLD), False),
        (report(101, *OLD), report(95, *OLD), False),
        (report(101, *OLD), report(101, *TAIL), True),
        (report(101, *OLD), report(100, (4, 0)), True),
        (report(90, *OLD), report(100, (4, 0)), False),
        # Only the newest epochs are told: what was before the first of them is not known.
        (report(101, (5, 95)), report(101, (4, 0), (5, 90)), False),
        (report(101, (5, 95)), report(96, (4, 0)), True),
        (report(101, (5, 90), start=99), report(101, *OLD), False),
        (report(101, (5, 90), start=99), report(99, *TAIL), False),
        # An epoch that was begun and has no record yet.
        (report(101, *OLD, (8, 101)), report(102, *OLD), False),
    ],
)
def test_logs_differ_where_the_same_offset_has_another_epoch(
    one: ReplicaReport, other: ReplicaReport, differ: bool
) -> None:
    assert one.differs_from(other) is differ
    assert other.differs_from(one) is differ


def test_sole_replica_of_a_partition_leads_again_whatever_it_lost() -> None:
    assert elr.choose((1,), (), (1,), {1}, {1: lost(0, 3)}.get) == Choice(1, (1,), lossy=True)


def test_awaited_are_those_that_are_away_or_silent() -> None:
    assert elr.awaited(REPLICAS, {1, 2}, {1: CLEAN}.get) == (2, 3)
