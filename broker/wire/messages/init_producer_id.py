"""InitProducerId: a producer id and epoch for idempotent or transactional writes (KIP-98, KIP-360).

Written by tools/messages.py.
Source: InitProducerIdRequest.json, InitProducerIdResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import int16, int32, int64, nullable_string
from broker.wire.schema import Message


@dataclass(slots=True)
class InitProducerIdRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID

    transactional_id: str | None = nullable_string("0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", -1)
    producer_epoch: int = int16("3+", -1)


@dataclass(slots=True)
class InitProducerIdResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID

    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", -1)
    producer_epoch: int = int16("0+")
