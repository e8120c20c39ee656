"""DeleteRecords as a function: one exchange, and the part of the response that the harness needs.

Must not know routing, retries or the history. Raises ClientError when there is no response that can be read; an error
code of the broker is a value (`error`: Kafka's name).
"""

from __future__ import annotations

from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from harness.clients.connection import Connection
from harness.clients.responses import decoded, malformed

DELETE_RECORDS_VERSION = 2


class Deleted(NamedTuple):
    """low_watermark: the least log start of the live replicas; -1 with an error. at_ns: CLOCK_MONOTONIC when the
    response had come.
    """

    error: str | None
    low_watermark: int
    at_ns: int


def delete_records(
    connection: Connection, topic: str, partition: int, before: int, *, timeout_ms: int, deadline_ns: int
) -> Deleted:
    """Delete what lies below `before`, an offset. timeout_ms: how long the leader may wait for the other replicas."""
    wanted = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, before)])]
    body = DeleteRecordsRequest(wanted, timeout_ms).encode(DELETE_RECORDS_VERSION)
    received = connection.exchange(ApiKey.DELETE_RECORDS, DELETE_RECORDS_VERSION, body, deadline_ns)
    response = decoded(
        connection, received, lambda: DeleteRecordsResponse.decode(DELETE_RECORDS_VERSION, received.body)
    )
    for group in response.topics:
        for result in group.partitions:
            if (group.name, result.partition_index) == (topic, partition):
                if result.error_code:
                    return Deleted(error_name(result.error_code), -1, received.at_ns)
                if result.low_watermark < 0:
                    raise malformed(connection, f"success with low watermark {result.low_watermark}")
                return Deleted(None, result.low_watermark, received.at_ns)
    raise malformed(connection, f"no result for {topic}-{partition}")
