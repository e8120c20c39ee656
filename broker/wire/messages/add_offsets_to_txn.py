"""AddOffsetsToTxn: a transaction will commit offsets of a group (KIP-98).

Written by tools/messages.py.
Source: AddOffsetsToTxnRequest.json, AddOffsetsToTxnResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import int16, int32, int64, string
from broker.wire.schema import Message


@dataclass(slots=True)
class AddOffsetsToTxnRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


@dataclass(slots=True)
class AddOffsetsToTxnResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
