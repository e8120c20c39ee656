"""DescribeGroups: state, protocol and members of groups.

Written by tools/messages.py.
Source: DescribeGroupsRequest.json, DescribeGroupsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, byte_string, int16, int32, nullable_string, string, string_array
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class DescribeGroupsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS

    groups: list[str] = string_array("0+")
    include_authorized_operations: bool = boolean("3+")


@dataclass(slots=True)
class DescribedGroupMember(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = nullable_string("4+", nullable="4+", ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = byte_string("0+")
    member_assignment: bytes = byte_string("0+")


@dataclass(slots=True)
class DescribedGroup(Struct):
    error_code: int = int16("0+")
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", -2147483648)


@dataclass(slots=True)
class DescribeGroupsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")
