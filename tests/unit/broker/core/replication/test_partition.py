"""Roles and how states change them."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.replication.leader import Leader
from broker.core.replication.partition import Change, Following, Partition, PartitionState
from broker.wire.errors import ErrorCode


def state(**changes: Any) -> PartitionState:
    fields: dict[str, Any] = {
        "controller_epoch": 1,
        "leader": 1,
        "leader_epoch": 5,
        "isr": (1, 2),
        "partition_epoch": 3,
        "replicas": (1, 2),
    }
    return PartitionState(**{**fields, **changes})


def apply(partition: Partition, new: PartitionState, leo: int = 10) -> Change:
    change, error = partition.apply(new, leo, 1, 100.0, 0.0)
    assert (change is Change.REFUSED) == (error is not ErrorCode.NONE)
    return change


def test_leader_learns_the_minimum_of_eligible_replicas_with_its_isr() -> None:
    partition = Partition(1, 4)
    apply(partition, state(isr=(1,), elr_min_isr=2))
    role = partition.role
    assert isinstance(role, Leader)
    assert role.under_min_isr
    apply(partition, state(isr=(1,), partition_epoch=4, elr_min_isr=2))
    assert role.under_min_isr
    apply(partition, state(isr=(1,), partition_epoch=5))
    assert not role.under_min_isr


def test_new_leader_starts_its_epoch_at_its_end_and_keeps_its_watermark() -> None:
    partition = Partition(1, 4)
    assert apply(partition, state()) is Change.BECAME_LEADER
    role = partition.role
    assert isinstance(role, Leader)
    assert (role.epoch_start_offset, role.high_watermark, role.leader_epoch) == (10, 4, 5)


def test_deposed_leader_follows_with_the_watermark_it_had() -> None:
    partition = Partition(1, 4)
    apply(partition, state(isr=(1,)))
    assert isinstance(partition.role, Leader)
    partition.role.maybe_advance_high_watermark(0.0)
    assert apply(partition, state(leader=2, leader_epoch=6)) is Change.BECAME_FOLLOWER
    assert partition.high_watermark == 10
    assert isinstance(partition.role, Following)


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(4, 9), (5, 3), (5, 2)])
def test_old_state_is_refused(leader_epoch: int, partition_epoch: int) -> None:
    partition = Partition(1, 0)
    apply(partition, state())
    role = partition.role
    assert apply(partition, state(leader_epoch=leader_epoch, partition_epoch=partition_epoch)) is Change.REFUSED
    assert partition.role is role


def test_newer_partition_epoch_updates_the_isr_in_place() -> None:
    partition = Partition(1, 0)
    apply(partition, state())
    role = partition.role
    assert apply(partition, state(isr=(1,), partition_epoch=4)) is Change.UPDATED
    assert partition.role is role
    assert isinstance(role, Leader)
    assert role.isr.committed == {1}


def test_response_of_alter_partition_makes_an_older_state_stale() -> None:
    partition = Partition(1, 0)
    apply(partition, state())
    role = partition.role
    assert isinstance(role, Leader)
    role.record_fetch(2, 10, 50, 0.0)
    role.isr.learn(frozenset({1}), 8)
    assert apply(partition, state(partition_epoch=7)) is Change.REFUSED


def test_new_epoch_of_the_same_leader_is_a_new_following() -> None:
    partition = Partition(2, 0)
    assert apply(partition, state()) is Change.BECAME_FOLLOWER
    assert apply(partition, state(leader_epoch=6)) is Change.BECAME_FOLLOWER


def test_epoch_that_is_in_the_log_already_cannot_be_led_anew() -> None:
    assert apply(Partition(1, 0, known_epoch=5), state()) is Change.REFUSED
    assert apply(Partition(1, 0, known_epoch=5), state(leader_epoch=6)) is Change.BECAME_LEADER


def test_resigned_leader_leads_again_only_in_a_new_epoch() -> None:
    partition = Partition(1, 0)
    apply(partition, state())
    partition.resign()
    assert partition.role is None
    assert apply(partition, state(partition_epoch=9)) is Change.REFUSED
    assert apply(partition, state(leader_epoch=6)) is Change.BECAME_LEADER


def test_resigned_follower_follows_again_in_the_same_epoch() -> None:
    partition = Partition(2, 0)
    apply(partition, state())
    partition.resign()
    assert apply(partition, state()) is Change.BECAME_FOLLOWER


def test_truncation_lowers_the_watermark_into_the_log() -> None:
    partition = Partition(2, 9)
    apply(partition, state())
    partition.truncated(4)
    assert partition.high_watermark == 4
    assert partition.learn_high_watermark(20, 6)
    assert partition.high_watermark == 6
    assert not partition.learn_high_watermark(3, 6)
