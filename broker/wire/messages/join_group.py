"""JoinGroup: a member joins a group's next generation (KIP-62, KIP-345, KIP-394, KIP-559, KIP-800, KIP-814).

Written by tools/messages.py.
Source: JoinGroupRequest.json, JoinGroupResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, byte_string, int16, int32, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class JoinGroupRequestProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = byte_string("0+")


@dataclass(slots=True)
class JoinGroupRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.JOIN_GROUP

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", -1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = nullable_string("5+", nullable="5+")
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = nullable_string("8+", nullable="8+", ignorable=True)


@dataclass(slots=True)
class JoinGroupResponseMember(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = nullable_string("5+", nullable="5+", ignorable=True)
    metadata: bytes = byte_string("0+")


@dataclass(slots=True)
class JoinGroupResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.JOIN_GROUP

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", -1)
    protocol_type: str | None = nullable_string("7+", nullable="7+", ignorable=True)
    protocol_name: str | None = nullable_string("0+", "", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")
