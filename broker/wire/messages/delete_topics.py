"""DeleteTopics: topics by name or id (KIP-516).

Written by tools/messages.py.
Source: DeleteTopicsRequest.json, DeleteTopicsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, nullable_string, string_array, uuid
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class DeleteTopicState(Struct):
    name: str | None = nullable_string("6+", nullable="6+")
    topic_id: str = uuid("6+")


@dataclass(slots=True)
class DeleteTopicsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = string_array("0-5", ignorable=True)
    timeout_ms: int = int32("0+")


@dataclass(slots=True)
class DeletableTopicResult(Struct):
    name: str | None = nullable_string("0+", "", nullable="6+")
    topic_id: str = uuid("6+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("5+", nullable="5+", ignorable=True)


@dataclass(slots=True)
class DeleteTopicsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")
