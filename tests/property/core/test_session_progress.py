"""A session's progress says of an unnamed partition what counting each of its fetches would have said."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.core.replication.follower import NEVER, SessionProgress
from broker.core.replication.leader import Leader
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("long-polls")

LAG_MS = 50.0
FOLLOWER = 2
EPOCH = 7

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("named"), st.integers(0, 3)),
        st.tuples(st.just("unnamed"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
        st.tuples(st.just("leave"), st.just(0)),
        st.tuples(st.just("new-epoch"), st.just(0)),
    ),
    max_size=40,
)


def leader() -> Leader:
    return Leader(1, (1, FOLLOWER), (1, FOLLOWER), 0, 0, 0, 0, 1, LAG_MS, 0.0)


LEFT_AFTER_A_FETCH_WITHOUT_IT: list[tuple[str, int]] = [
    ("append", 2),
    ("named", 0),
    ("append", 1),
    ("unnamed", 0),
    ("leave", 0),
    ("named", 2),
]


@examples(400)
@given(_STEPS)
@example(LEFT_AFTER_A_FETCH_WITHOUT_IT)
def test_session_progress_any_history_equals_counting_every_fetch(steps: list[tuple[str, int]]) -> None:
    eager, lazy = leader(), leader()
    session_progress = SessionProgress()
    now, epoch, at = 0.0, EPOCH, 0
    known = False  # the session has named the partition
    for step, amount in steps:
        now += 1.0
        if step == "append":
            for role in (eager, lazy):
                role.advance_leo(role.leo + amount)
        elif step == "wait":
            now += amount
        elif step == "leave":
            for role in (eager, lazy):
                role.followers[FOLLOWER].leave_isr(role.leo)
        elif step == "new-epoch":
            epoch += 1
        elif step == "named" or known:
            known = True
            # A follower names what it has written: never more than its leader has, and it can only grow.
            if step == "named":
                at = min(at + amount, eager.leo)
            eager.record_fetch(FOLLOWER, at, epoch, now)
            counted = step == "named" or session_progress.lost or epoch != lazy.followers[FOLLOWER].broker_epoch
            if counted or lazy.followers[FOLLOWER].session_progress is None:
                session_progress.lost = False
                lazy.record_fetch(FOLLOWER, at, epoch, now)
                lazy.count_by_session(FOLLOWER, session_progress)
            session_progress.fetch_ms = now
        expected, found = eager.followers[FOLLOWER], lazy.followers[FOLLOWER]
        assert found.leo == expected.leo
        for later in (0.0, LAG_MS / 2, LAG_MS, 2 * LAG_MS):
            assert found.is_caught_up(lazy.leo, now + later, LAG_MS) == expected.is_caught_up(
                eager.leo, now + later, LAG_MS
            )
        if step == "append":
            assert found.caught_up_ms == expected.caught_up_ms


def test_session_progress_that_lost_a_partition_counts_it_no_more() -> None:
    role, session_progress = leader(), SessionProgress()
    role.record_fetch(FOLLOWER, 0, EPOCH, 1.0)
    assert role.count_by_session(FOLLOWER, session_progress)
    session_progress.fetch_ms = 1.0
    role.followers[FOLLOWER].leave_isr(role.leo)
    assert session_progress.lost
    session_progress.fetch_ms = 100.0
    role.advance_leo(5)
    assert role.followers[FOLLOWER].caught_up_ms == NEVER


def test_session_progress_does_not_count_a_follower_out_of_sync() -> None:
    role = Leader(1, (1, FOLLOWER), (1,), 0, 0, 0, 0, 1, LAG_MS, 0.0)
    role.record_fetch(FOLLOWER, 0, EPOCH, 1.0)
    assert not role.count_by_session(FOLLOWER, SessionProgress())
