"""What members of a group with the protocol type `consumer` tell each other: subscriptions and assignments.

A coordinator hands these bytes on unread, but looks into subscriptions to see which topics a group reads.
Newer versions have their additions behind what is known here, so they are read as the newest known one.
Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json; ConsumerProtocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Self

from broker.wire.coordinator_records.versioned import VERSION_SIZE, Versioned, version_of
from broker.wire.fields import array, int32, int32_array, nullable_byte_string, nullable_string, string, string_array
from broker.wire.primitives import Reader
from broker.wire.schema import Struct, struct_codec

PROTOCOL_TYPE: Final = "consumer"


class _Embedded(Versioned):
    __slots__ = ()
    LAST: ClassVar[int] = 3
    WRITTEN: ClassVar[int] = 3

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        """Raises MalformedFrame; there is no version that cannot be read."""
        version = readable_version(data)
        value: Self = struct_codec(cls, version, False).read(Reader(data, VERSION_SIZE))
        return value


def readable_version(data: bytes | memoryview) -> int:
    """The version by which these bytes are read. Raises MalformedFrame."""
    return min(max(version_of(data), _Embedded.FIRST), _Embedded.LAST)


@dataclass(slots=True)
class OwnedPartitions(Struct):
    """Partitions of one topic, owned in a subscription, given in an assignment."""

    topic: str = string("0+")
    partitions: list[int] = int32_array("0+")


@dataclass(slots=True)
class ConsumerProtocolSubscription(_Embedded):
    """What a member asks for, and what it still owns. generation_id: in which it was given that."""

    topics: list[str] = string_array("0+")
    user_data: bytes | None = nullable_byte_string("0+")
    owned_partitions: list[OwnedPartitions] = array(OwnedPartitions, "1+", ignorable=True)
    generation_id: int = int32("2+", -1, ignorable=True)
    rack_id: str | None = nullable_string("3+", nullable="3+", ignorable=True)


@dataclass(slots=True)
class ConsumerProtocolAssignment(_Embedded):
    """What the group's leader gives a member."""

    assigned_partitions: list[OwnedPartitions] = array(OwnedPartitions, "0+")
    user_data: bytes | None = nullable_byte_string("0+")
