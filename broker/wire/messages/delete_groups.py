"""DeleteGroups: groups without members, with their offsets (KIP-229).

Written by tools/messages.py.
Source: DeleteGroupsRequest.json, DeleteGroupsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, string, string_array
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class DeleteGroupsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS

    groups_names: list[str] = string_array("0+")


@dataclass(slots=True)
class DeletableGroupResult(Struct):
    group_id: str = string("0+")
    error_code: int = int16("0+")


@dataclass(slots=True)
class DeleteGroupsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS

    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")
