"""LeaveGroup: many members in one request, pending ids, and requests of theirs that wait."""

from __future__ import annotations

import pytest

from broker.wire.errors import ErrorCode
from tests.support.groups import DELAY_MS, DrivenGroup, joining

pytestmark = pytest.mark.guarantee("group-rules")


def test_each_member_of_a_request_has_its_own_error() -> None:
    group = DrivenGroup()
    first, second, third = group.stable(joining(), joining(), joining())
    assert group.leave((first, None), ("made up", None), (second, None), (first, None)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert group.state == "PreparingRebalance"
    again = group.join(joining(third))
    assert [member.member_id for member in group.joined(again).members] == [third]


def test_rebalance_ends_when_those_that_did_not_join_again_leave() -> None:
    group = DrivenGroup()
    first, second = group.stable(joining(), joining())
    waiter = group.join(joining(first))
    assert group.waits(waiter)
    group.leave((second, None))
    assert group.joined(waiter).generation == 2


def test_rebalance_ends_when_a_pending_id_leaves() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    pending = group.joined(group.join(joining(requires_known_member_id=True))).member_id
    waiter = group.join(joining(member))
    assert group.waits(waiter)
    assert group.leave((pending, None)) == [ErrorCode.NONE]
    assert group.joined(waiter).generation == 2


def test_pending_id_that_leaves_disturbs_nobody() -> None:
    group = DrivenGroup()
    group.stable(joining())
    pending = group.joined(group.join(joining(requires_known_member_id=True))).member_id
    group.leave((pending, None))
    assert group.state == "Stable"


def test_member_that_leaves_while_its_join_waits_is_answered() -> None:
    group = DrivenGroup()
    pending = group.joined(group.join(joining(requires_known_member_id=True))).member_id
    waiter = group.join(joining(pending))
    group.leave((pending, None))
    assert group.joined(waiter).error is ErrorCode.UNKNOWN_MEMBER_ID
    group.pass_ms(DELAY_MS)
    assert group.state == "Empty"


def test_member_that_leaves_while_its_sync_waits_is_answered() -> None:
    group = DrivenGroup()
    waiters = [group.join(joining()), group.join(joining())]
    group.pass_ms(2 * DELAY_MS)
    _, follower = (group.joined(waiter).member_id for waiter in waiters)
    sync = group.sync(follower, 1)
    group.leave((follower, None))
    assert group.synced(sync).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_of_an_empty_group_changes_nothing() -> None:
    group = DrivenGroup()
    assert group.leave(("anybody", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.state == "Empty"
    assert not group.stores
