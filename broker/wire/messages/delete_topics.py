"""DeleteTopics: topics by name.

Written by tools/messages.py.
Source: DeleteTopicsRequest.json, DeleteTopicsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, nullable_string, string, string_array
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class DeleteTopicsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS

    topic_names: list[str] = string_array("0-5", ignorable=True)
    timeout_ms: int = int32("0+")


@dataclass(slots=True)
class DeletableTopicResult(Struct):
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("5+", nullable="5+", ignorable=True)


@dataclass(slots=True)
class DeleteTopicsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")
