"""Groups that are deleted, and groups whose coordinator moves away."""

from __future__ import annotations

import pytest

from broker.wire.errors import ErrorCode
from tests.support.groups import DELAY_MS, DrivenGroup, joining

pytestmark = pytest.mark.guarantee("group-rules")


def unload(group: DrivenGroup) -> None:
    group.took(group.group.unload(ErrorCode.NOT_COORDINATOR, group.now))


def test_all_that_wait_are_told_that_the_coordinator_moved() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    joins = [group.join(joining()), group.join(joining(member))]
    assert group.joined(joins[0]).generation == 2
    sync = group.sync(member, 2)
    group.sync(group.joined(joins[0]).member_id, 2)
    unload(group)
    assert group.synced(sync).error is ErrorCode.NOT_COORDINATOR
    assert not group.asked
    assert group.state == "Dead"
    assert group.group.next_deadline_ms is None


def test_joins_that_wait_are_told_that_the_coordinator_moved() -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    unload(group)
    assert group.joined(waiter).error is ErrorCode.NOT_COORDINATOR
    assert group.group.next_deadline_ms is None


def test_static_member_whose_return_is_being_written_is_told_that_the_coordinator_moved() -> None:
    group = DrivenGroup()
    group.stable(joining(instance="i"))
    waiter = group.join(joining(instance="i"))
    unload(group)
    assert group.joined(waiter).error is ErrorCode.NOT_COORDINATOR
    group.write()


def test_dead_group_sends_all_to_look_for_the_coordinator_again() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    unload(group)
    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.joined(group.join(joining())).error is gone
    assert group.joined(group.join(joining(member))).error is gone
    assert group.synced(group.sync(member, 1)).error is gone
    assert group.heartbeat(member, 1) is gone
    assert group.commit(member, 1) is gone
    assert group.group.check_transactional_commit(member, 1, None) is gone
    assert group.leave((member, None)) == []
    assert group.joined(group.join(joining())).member_id == ""


def test_write_that_ends_after_the_group_is_forgotten() -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    group.pass_ms(DELAY_MS)
    leader = group.joined(waiter).member_id
    group.sync(leader, 1, {})
    unload(group)
    group.write()
    assert group.state == "Dead"


def test_only_an_empty_group_can_be_deleted() -> None:
    group = DrivenGroup()
    assert group.group.is_unused
    waiter = group.join(joining())
    assert group.group.delete() is ErrorCode.NON_EMPTY_GROUP
    group.pass_ms(DELAY_MS)
    [member] = group.settle([waiter])
    assert group.group.delete() is ErrorCode.NON_EMPTY_GROUP
    group.leave((member, None))
    assert group.group.is_empty
    assert not group.group.is_unused
    assert group.group.delete() is ErrorCode.NONE
    assert group.state == "Dead"
    assert not group.group.is_empty
    assert group.group.delete() is ErrorCode.GROUP_ID_NOT_FOUND


def test_group_that_has_given_out_an_id_is_in_use_until_the_id_expires() -> None:
    group = DrivenGroup()
    group.join(joining(requires_known_member_id=True))
    assert not group.group.is_unused
    group.pass_ms(10_000)
    assert group.group.is_unused
