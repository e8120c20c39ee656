"""FindCoordinator: the broker that coordinates a group (key type 0) or a transactional id (1).

Written by tools/messages.py.
Source: FindCoordinatorRequest.json, FindCoordinatorResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int8, int16, int32, nullable_string, string, string_array
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class FindCoordinatorRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = string_array("4+")


@dataclass(slots=True)
class Coordinator(Struct):
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = nullable_string("4+", nullable="4+", ignorable=True)


@dataclass(slots=True)
class FindCoordinatorResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = nullable_string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
