"""Groups and offsets as records of `__consumer_offsets`, both ways.

Source: GroupMetadataManager.offsetCommitValue, groupMetadataValue, readMessageKey.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.core.group.offsets import CommittedOffset, Partition
from broker.core.group.snapshot import GroupSnapshot, MemberSnapshot
from broker.wire.coordinator_records import batches
from broker.wire.coordinator_records.offsets_topic import (
    NO_TIMESTAMP,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    read_key,
)
from broker.wire.coordinator_records.versioned import UnknownRecordVersion
from broker.wire.primitives import MalformedFrame
from broker.wire.records import NewRecord


class Unreadable(Exception):
    """A record that says nothing about a group or an offset."""


class GroupRecord(NamedTuple):
    """snapshot: None in a tombstone."""

    group_id: str
    snapshot: GroupSnapshot | None


class OffsetRecord(NamedTuple):
    """value: None in a tombstone."""

    group_id: str
    partition: Partition
    value: CommittedOffset | None


def group_record(snapshot: GroupSnapshot) -> NewRecord:
    """Raises ValueError for texts of more than 32,767 bytes."""
    members = [
        MemberMetadata(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.subscription,
            member.assignment,
        )
        for member in snapshot.members
    ]
    value = GroupMetadataValue(
        snapshot.protocol_type,
        snapshot.generation,
        snapshot.protocol,
        snapshot.leader,
        snapshot.current_state_timestamp,
        members,
    )
    return batches.group_record(snapshot.group_id, value)


def group_tombstone(group_id: str) -> NewRecord:
    """The group is gone."""
    return batches.group_record(group_id, None)


def offset_record(group_id: str, partition: Partition, value: CommittedOffset) -> NewRecord:
    """Raises ValueError for texts of more than 32,767 bytes."""
    expire_ms = NO_TIMESTAMP if value.expire_timestamp_ms is None else value.expire_timestamp_ms
    stored = OffsetCommitValue(value.offset, value.leader_epoch, value.metadata, value.commit_timestamp_ms, expire_ms)
    return batches.offset_record(group_id, *partition, stored)


def offset_tombstone(group_id: str, partition: Partition) -> NewRecord:
    """Nothing is committed for the partition any more."""
    return batches.offset_record(group_id, *partition, None)


def read(key: bytes | None, value: bytes | None) -> GroupRecord | OffsetRecord:
    """Raises Unreadable."""
    if key is None:
        raise Unreadable("no key")
    try:
        of = read_key(key)
        if isinstance(of, OffsetCommitKey):
            return OffsetRecord(of.group, (of.topic, of.partition), None if value is None else read_offset(value))
        return GroupRecord(of.group, None if value is None else _snapshot(of.group, value))
    except (MalformedFrame, UnknownRecordVersion) as error:
        raise Unreadable(str(error)) from error


def read_offset(data: bytes) -> CommittedOffset:
    """Of an offset's record. Raises MalformedFrame, UnknownRecordVersion."""
    value = OffsetCommitValue.decode(data)
    expire_ms = None if value.expire_timestamp == NO_TIMESTAMP else value.expire_timestamp
    return CommittedOffset(value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, expire_ms)


def _snapshot(group_id: str, data: bytes) -> GroupSnapshot:
    value = GroupMetadataValue.decode(data)
    members = tuple(
        MemberSnapshot(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout if member.rebalance_timeout >= 0 else member.session_timeout,
            member.session_timeout,
            member.subscription,
            member.assignment,
        )
        for member in value.members
    )
    return GroupSnapshot(
        group_id,
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        members,
    )
