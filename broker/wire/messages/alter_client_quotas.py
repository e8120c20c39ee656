"""AlterClientQuotas: set or remove quotas of users, client ids and addresses (KIP-546).

Written by tools/messages.py.
Source: AlterClientQuotasRequest.json, AlterClientQuotasResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, float64, int16, int32, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class AlteredEntity(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = nullable_string("0+")


@dataclass(slots=True)
class OpData(Struct):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


@dataclass(slots=True)
class QuotaAlteration(Struct):
    entity: list[AlteredEntity] = array(AlteredEntity, "0+")
    ops: list[OpData] = array(OpData, "0+")


@dataclass(slots=True)
class AlterClientQuotasRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS

    entries: list[QuotaAlteration] = array(QuotaAlteration, "0+")
    validate_only: bool = boolean("0+")


@dataclass(slots=True)
class ResultEntity(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = nullable_string("0+")


@dataclass(slots=True)
class QuotaAlterationResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    entity: list[ResultEntity] = array(ResultEntity, "0+")


@dataclass(slots=True)
class AlterClientQuotasResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS

    throttle_time_ms: int = int32("0+")
    entries: list[QuotaAlterationResult] = array(QuotaAlterationResult, "0+")
