"""ApiVersions: which APIs and versions a broker speaks (KIP-35, KIP-511).

The response header is always version 0, and a version that the broker does not know is answered with a v0 body.

Written by tools/messages.py.
Source: ApiVersionsRequest.json, ApiVersionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int16, int32, int64, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ApiVersionsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.API_VERSIONS

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


@dataclass(slots=True)
class ApiVersion(Struct):
    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


@dataclass(slots=True)
class SupportedFeatureKey(Struct):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


@dataclass(slots=True)
class FinalizedFeatureKey(Struct):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


@dataclass(slots=True)
class ApiVersionsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.API_VERSIONS

    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0, tagged="3+", ignorable=True)
    finalized_features_epoch: int = int64("3+", -1, tag=1, tagged="3+", ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2, tagged="3+", ignorable=True)
    zk_migration_ready: bool = boolean("3+", tag=3, tagged="3+", ignorable=True)
