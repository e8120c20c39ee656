"""ControlledShutdown: a broker that shuts down has the controller move its leaderships away.

Written by tools/messages.py.
Source: ControlledShutdownRequest.json, ControlledShutdownResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int64, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ControlledShutdownRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.CONTROLLED_SHUTDOWN

    broker_id: int = int32("0+")
    broker_epoch: int = int64("2+", -1, ignorable=True)


@dataclass(slots=True)
class RemainingPartition(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


@dataclass(slots=True)
class ControlledShutdownResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.CONTROLLED_SHUTDOWN

    error_code: int = int16("0+")
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition, "0+")
