"""SyncGroup: the group's leader hands in the assignment, every member takes its part (KIP-345, KIP-559).

Written by tools/messages.py.
Source: SyncGroupRequest.json, SyncGroupResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, byte_string, int16, int32, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class SyncGroupRequestAssignment(Struct):
    member_id: str = string("0+")
    assignment: bytes = byte_string("0+")


@dataclass(slots=True)
class SyncGroupRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.SYNC_GROUP

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = nullable_string("3+", nullable="3+")
    protocol_type: str | None = nullable_string("5+", nullable="5+", ignorable=True)
    protocol_name: str | None = nullable_string("5+", nullable="5+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+")


@dataclass(slots=True)
class SyncGroupResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.SYNC_GROUP

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = nullable_string("5+", nullable="5+", ignorable=True)
    protocol_name: str | None = nullable_string("5+", nullable="5+", ignorable=True)
    assignment: bytes = byte_string("0+")
