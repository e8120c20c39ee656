"""Error codes for clients that are older than the code: a code that a client does not know is fatal to it.

Source: KafkaApis.maybeDownConvertStorageError; Kafka 1.0 to 2.7 for Produce.
"""

from __future__ import annotations

from typing import TypeVar

from broker.wire.errors import ErrorCode
from broker.wire.messages.fetch import FetchPartitionResult
from broker.wire.messages.produce import ProducePartitionResult

Result = TypeVar("Result", FetchPartitionResult, ProducePartitionResult)


def without_storage_errors(results: list[Result]) -> list[Result]:
    """The same with NOT_LEADER_OR_FOLLOWER for KAFKA_STORAGE_ERROR: upon that a client requests metadata again."""
    return [
        result._replace(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if result.error == ErrorCode.KAFKA_STORAGE_ERROR
        else result
        for result in results
    ]
