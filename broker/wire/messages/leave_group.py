"""LeaveGroup: one member leaves its group; from v3 several, static ones too (KIP-345, KIP-800).

Written by tools/messages.py.
Source: LeaveGroupRequest.json, LeaveGroupResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class MemberIdentity(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = nullable_string("3+", nullable="3+")
    reason: str | None = nullable_string("5+", nullable="5+", ignorable=True)


@dataclass(slots=True)
class LeaveGroupRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


@dataclass(slots=True)
class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = nullable_string("3+", nullable="3+")
    error_code: int = int16("3+")


@dataclass(slots=True)
class LeaveGroupResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[MemberResponse] = array(MemberResponse, "3+")
