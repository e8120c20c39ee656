"""AlterConfigs: replace all overrides of topics (resource type 2) and brokers (4).

Written by tools/messages.py.
Source: AlterConfigsRequest.json, AlterConfigsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int8, int16, int32, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class AlterableConfig(Struct):
    name: str = string("0+")
    value: str | None = nullable_string("0+")


@dataclass(slots=True)
class AlterConfigsResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+")


@dataclass(slots=True)
class AlterConfigsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS

    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")


@dataclass(slots=True)
class AlterConfigsResourceResponse(Struct):
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")


@dataclass(slots=True)
class AlterConfigsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS

    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")
