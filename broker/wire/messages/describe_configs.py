"""DescribeConfigs: settings of topics (resource type 2) and brokers (4) with their sources.

Written by tools/messages.py.
Source: DescribeConfigsRequest.json, DescribeConfigsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int8, int16, int32, nullable_string, nullable_string_array, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class DescribeConfigsResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configuration_keys: list[str] | None = nullable_string_array("0+")


@dataclass(slots=True)
class DescribeConfigsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


@dataclass(slots=True)
class DescribeConfigsSynonym(Struct):
    name: str = string("1+")
    value: str | None = nullable_string("1+")
    source: int = int8("1+")


@dataclass(slots=True)
class DescribeConfigsResourceResult(Struct):
    name: str = string("0+")
    value: str | None = nullable_string("0+")
    read_only: bool = boolean("0+")
    config_source: int = int8("1+", -1, ignorable=True)
    is_sensitive: bool = boolean("0+")
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = nullable_string("3+", ignorable=True)


@dataclass(slots=True)
class DescribeConfigsResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+")


@dataclass(slots=True)
class DescribeConfigsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS

    throttle_time_ms: int = int32("0+")
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+")
