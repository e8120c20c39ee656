"""ListGroups: the groups that a broker coordinates; v4 by state, v5 by type (KIP-518, KIP-848).

Written by tools/messages.py.
Source: ListGroupsRequest.json, ListGroupsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, string, string_array
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ListGroupsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.LIST_GROUPS

    states_filter: list[str] = string_array("4+")
    types_filter: list[str] = string_array("5+")


@dataclass(slots=True)
class ListedGroup(Struct):
    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


@dataclass(slots=True)
class ListGroupsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.LIST_GROUPS

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")
