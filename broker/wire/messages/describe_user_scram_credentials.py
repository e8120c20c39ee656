"""DescribeUserScramCredentials: which users have SCRAM credentials, and how many iterations (KIP-554).

Written by tools/messages.py.
Source: DescribeUserScramCredentialsRequest.json, DescribeUserScramCredentialsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int8, int16, int32, nullable_array, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class UserName(Struct):
    name: str = string("0+")


@dataclass(slots=True)
class DescribeUserScramCredentialsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    users: list[UserName] | None = nullable_array(UserName, "0+")


@dataclass(slots=True)
class CredentialInfo(Struct):
    mechanism: int = int8("0+")
    iterations: int = int32("0+")


@dataclass(slots=True)
class DescribeUserScramCredentialsResult(Struct):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")


@dataclass(slots=True)
class DescribeUserScramCredentialsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, "0+")
