"""EndTxn: commit or abort a transaction (KIP-98).

Written by tools/messages.py.
Source: EndTxnRequest.json, EndTxnResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import boolean, int16, int32, int64, string
from broker.wire.schema import Message


@dataclass(slots=True)
class EndTxnRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.END_TXN

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


@dataclass(slots=True)
class EndTxnResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.END_TXN

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
