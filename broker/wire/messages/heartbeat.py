"""Heartbeat: a member of a group is alive; the response says when it has to join again.

Written by tools/messages.py.
Source: HeartbeatRequest.json, HeartbeatResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import int16, int32, nullable_string, string
from broker.wire.schema import Message


@dataclass(slots=True)
class HeartbeatRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.HEARTBEAT

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = nullable_string("3+", nullable="3+")


@dataclass(slots=True)
class HeartbeatResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.HEARTBEAT

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
