"""DescribeClientQuotas: quotas of users, client ids and addresses (KIP-546).

Written by tools/messages.py.
Source: DescribeClientQuotasRequest.json, DescribeClientQuotasResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, float64, int8, int16, int32, nullable_array, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ComponentData(Struct):
    entity_type: str = string("0+")
    match_type: int = int8("0+")
    match: str | None = nullable_string("0+")


@dataclass(slots=True)
class DescribeClientQuotasRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS

    components: list[ComponentData] = array(ComponentData, "0+")
    strict: bool = boolean("0+")


@dataclass(slots=True)
class EntityData(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = nullable_string("0+")


@dataclass(slots=True)
class ValueData(Struct):
    key: str = string("0+")
    value: float = float64("0+")


@dataclass(slots=True)
class EntryData(Struct):
    entity: list[EntityData] = array(EntityData, "0+")
    values: list[ValueData] = array(ValueData, "0+")


@dataclass(slots=True)
class DescribeClientQuotasResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    entries: list[EntryData] | None = nullable_array(EntryData, "0+")
