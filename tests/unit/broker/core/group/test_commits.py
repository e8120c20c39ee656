"""Who may commit offsets, whose heartbeats count."""

from __future__ import annotations

import pytest

from broker.wire.errors import ErrorCode
from tests.support.groups import DELAY_MS, DrivenGroup, joining

pytestmark = pytest.mark.guarantee("group-rules")


def transactional(group: DrivenGroup, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
    return group.group.check_transactional_commit(member_id, generation, instance)


def test_without_members_anybody_commits_who_names_no_generation() -> None:
    group = DrivenGroup()
    assert group.commit("", -1) is ErrorCode.NONE
    assert group.commit("anybody", -1) is ErrorCode.NONE
    assert group.commit("", -1, instance="i") is ErrorCode.NONE
    assert group.commit("anybody", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert transactional(group, "", -1) is ErrorCode.NONE
    assert transactional(group, "anybody", 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_alone_commit_where_there_are_members() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    assert group.commit(member, 1) is ErrorCode.NONE
    assert group.commit("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit("anybody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert group.commit(member, 2) is ErrorCode.ILLEGAL_GENERATION
    assert group.commit(member, -1) is ErrorCode.ILLEGAL_GENERATION


def test_transactions_that_name_no_member_commit_always() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    assert transactional(group, "", -1) is ErrorCode.NONE
    assert transactional(group, member, 1) is ErrorCode.NONE
    assert transactional(group, member, 2) is ErrorCode.ILLEGAL_GENERATION
    assert transactional(group, "anybody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert transactional(group, "", -1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_commit_what_they_have_read_while_a_rebalance_waits() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    group.join(joining())
    assert group.state == "PreparingRebalance"
    assert group.commit(member, 1) is ErrorCode.NONE
    assert transactional(group, member, 1) is ErrorCode.NONE


def test_members_of_a_generation_that_begins_have_nothing_to_commit() -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    group.pass_ms(DELAY_MS)
    member = group.joined(waiter).member_id
    assert group.commit(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert transactional(group, member, 1) is ErrorCode.NONE
    assert group.commit(member, 0) is ErrorCode.ILLEGAL_GENERATION


def test_heartbeat_of_another_generation_is_refused() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    assert group.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert group.heartbeat("anybody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(member, 1) is ErrorCode.NONE


def test_heartbeat_while_a_generation_begins_is_fine() -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    group.pass_ms(DELAY_MS)
    assert group.heartbeat(group.joined(waiter).member_id, 1) is ErrorCode.NONE


def test_refused_commit_and_heartbeat_do_not_prolong_a_session() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    group.pass_ms(9_999)
    assert group.commit(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert group.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    group.pass_ms(1)
    assert group.state == "Empty"
