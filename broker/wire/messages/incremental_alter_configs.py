"""IncrementalAlterConfigs: change single overrides of topics (resource type 2) and brokers (4) (KIP-339).

Written by tools/messages.py.
Source: IncrementalAlterConfigsRequest.json, IncrementalAlterConfigsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int8, int16, int32, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class IncrementallyAlterableConfig(Struct):
    name: str = string("0+")
    config_operation: int = int8("0+")
    value: str | None = nullable_string("0+")


@dataclass(slots=True)
class IncrementallyAlteredResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[IncrementallyAlterableConfig] = array(IncrementallyAlterableConfig, "0+")


@dataclass(slots=True)
class IncrementalAlterConfigsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.INCREMENTAL_ALTER_CONFIGS

    resources: list[IncrementallyAlteredResource] = array(IncrementallyAlteredResource, "0+")
    validate_only: bool = boolean("0+")


@dataclass(slots=True)
class IncrementallyAlteredResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")


@dataclass(slots=True)
class IncrementalAlterConfigsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.INCREMENTAL_ALTER_CONFIGS

    throttle_time_ms: int = int32("0+")
    responses: list[IncrementallyAlteredResult] = array(IncrementallyAlteredResult, "0+")
