"""`__consumer_offsets`: committed offsets, and groups with their members. A key's version says which of them it is.

The usual versions of keys and values of offsets are read and written by hand: a coordinator that takes over a
partition reads millions of them before it serves a group. What is unusual, or wrong, goes to the engine.
Source: OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataKey.json, GroupMetadataValue.json;
kafka.coordinator.group.GroupMetadataManager.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from broker.wire.coordinator_records.versioned import UnknownRecordVersion, Versioned, version_of
from broker.wire.fields import array, byte_string, int32, int64, nullable_string, string
from broker.wire.schema import Struct

NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

_TWO_SHORTS: Final = struct.Struct(">hh")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_VALUE_HEAD: Final = struct.Struct(">hqih")  # version, offset, leader epoch, length of the metadata
_LONG: Final = struct.Struct(">q")
_KEY_VERSION: Final = 1
_VALUE_VERSION: Final = 3
_VALUE_VERSION_WITH_EXPIRY: Final = 1


@dataclass(slots=True)
class OffsetCommitKey(Versioned):
    """Versions 0 and 1 are the same bytes."""

    LAST: ClassVar[int] = 1
    WRITTEN: ClassVar[int] = _KEY_VERSION

    group: str = string("0+")
    topic: str = string("0+")
    partition: int = int32("0+")

    def encode(self, version: int | None = None) -> bytes:
        if version is not None:
            return Versioned.encode(self, version)
        group, topic = self.group.encode(), self.topic.encode()
        try:
            head, middle = _TWO_SHORTS.pack(_KEY_VERSION, len(group)), _SHORT.pack(len(topic))
            return b"".join((head, group, middle, topic, _INT.pack(self.partition)))
        except struct.error:
            return Versioned.encode(self)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        try:
            version, group_length = _TWO_SHORTS.unpack_from(data)
            group_end = 4 + group_length
            (topic_length,) = _SHORT.unpack_from(data, group_end)
            topic_end = group_end + 2 + topic_length
            if version == _KEY_VERSION and group_length >= 0 and topic_length >= 0:
                group, topic = str(data[4:group_end], "utf-8"), str(data[group_end + 2 : topic_end], "utf-8")
                return cls(group, topic, _INT.unpack_from(data, topic_end)[0])
        except (struct.error, UnicodeDecodeError):
            pass  # The engine says what is wrong, and where.
        return super(OffsetCommitKey, cls).decode(data)


@dataclass(slots=True)
class OffsetCommitValue(Versioned):
    """Times in ms. expire_timestamp: of v1 alone, as OffsetCommit v2-4 with a retention time of its own has it."""

    LAST: ClassVar[int] = 4
    WRITTEN: ClassVar[int] = _VALUE_VERSION
    FLEXIBLE: ClassVar[int] = 4

    offset: int = int64("0+")
    leader_epoch: int = int32("3+", NO_LEADER_EPOCH, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", NO_TIMESTAMP, ignorable=True)

    def encode(self, version: int | None = None) -> bytes:
        """v3, or v1 for one with an expiry of its own, which costs it the leader epoch."""
        if version is not None:
            return Versioned.encode(self, version)
        if self.expire_timestamp != NO_TIMESTAMP:
            return Versioned.encode(self, _VALUE_VERSION_WITH_EXPIRY)
        metadata = self.metadata.encode()
        try:
            head = _VALUE_HEAD.pack(_VALUE_VERSION, self.offset, self.leader_epoch, len(metadata))
            return b"".join((head, metadata, _LONG.pack(self.commit_timestamp)))
        except struct.error:
            return Versioned.encode(self)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        try:
            version, offset, leader_epoch, length = _VALUE_HEAD.unpack_from(data)
            if version == _VALUE_VERSION and length >= 0:
                end = _VALUE_HEAD.size + length
                (timestamp,) = _LONG.unpack_from(data, end)
                return cls(offset, leader_epoch, str(data[_VALUE_HEAD.size : end], "utf-8"), timestamp)
        except (struct.error, UnicodeDecodeError):
            pass
        return super(OffsetCommitValue, cls).decode(data)


@dataclass(slots=True)
class GroupMetadataKey(Versioned):
    """Version 2 only: 0 and 1 are those of an `OffsetCommitKey`."""

    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 2
    WRITTEN: ClassVar[int] = 2

    group: str = string("2+")


@dataclass(slots=True)
class MemberMetadata(Struct):
    """Timeouts in ms. rebalance_timeout: −1 in v0, where the session's counts. subscription: of the chosen protocol."""

    member_id: str = string("0+")
    group_instance_id: str | None = nullable_string("3+", nullable="3+", ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", -1, ignorable=True)
    session_timeout: int = int32("0+")
    subscription: bytes = byte_string("0+")
    assignment: bytes = byte_string("0+")


@dataclass(slots=True)
class GroupMetadataValue(Versioned):
    """A group at the end of a rebalance; without members it is empty, and has neither protocol nor leader."""

    LAST: ClassVar[int] = 4
    WRITTEN: ClassVar[int] = 3
    FLEXIBLE: ClassVar[int] = 4

    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = nullable_string("0+")
    leader: str | None = nullable_string("0+")
    current_state_timestamp: int = int64("2+", NO_TIMESTAMP, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")


def read_key(data: bytes | memoryview) -> OffsetCommitKey | GroupMetadataKey:
    """Raises MalformedFrame, and UnknownRecordVersion for records of groups of the protocol of KIP-848 and of others.

    Kafka's coordinator of classic groups passes over records with unknown keys.
    """
    version = version_of(data)
    if version <= OffsetCommitKey.LAST:
        return OffsetCommitKey.decode(data)
    if version == GroupMetadataKey.WRITTEN:
        return GroupMetadataKey.decode(data)
    raise UnknownRecordVersion("key of an offset or a group", version, f"0-{GroupMetadataKey.LAST}")
