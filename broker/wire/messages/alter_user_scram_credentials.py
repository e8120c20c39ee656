"""AlterUserScramCredentials: set or remove users' SCRAM credentials (KIP-554).

Written by tools/messages.py.
Source: AlterUserScramCredentialsRequest.json, AlterUserScramCredentialsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, byte_string, int8, int16, int32, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ScramCredentialDeletion(Struct):
    name: str = string("0+")
    mechanism: int = int8("0+")


@dataclass(slots=True)
class ScramCredentialUpsertion(Struct):
    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
    salt: bytes = byte_string("0+")
    salted_password: bytes = byte_string("0+")


@dataclass(slots=True)
class AlterUserScramCredentialsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")


@dataclass(slots=True)
class AlterUserScramCredentialsResult(Struct):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")


@dataclass(slots=True)
class AlterUserScramCredentialsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS

    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+")
