"""Give a partition other replicas: one AlterPartitionReassignments to one broker.

Must not know who controls, retries or the history. Raises ClientError when there is no response that can be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from harness.clients.connection import Connection
from harness.clients.responses import decoded, malformed

VERSION = 0


def reassign(
    connection: Connection, topic: str, partition: int, replicas: Sequence[int], *, timeout_ms: int, deadline_ns: int
) -> str | None:
    """Kafka's name of the error, or None: the reassignment has begun. replicas: broker ids, preferred leader first."""
    wanted = ReassignableTopic(topic, [ReassignablePartition(partition, list(replicas))])
    body = AlterPartitionReassignmentsRequest(timeout_ms, [wanted]).encode(VERSION)
    received = connection.exchange(ApiKey.ALTER_PARTITION_REASSIGNMENTS, VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: AlterPartitionReassignmentsResponse.decode(VERSION, received.body))
    if response.error_code:
        return error_name(response.error_code)
    for group in response.responses:
        for result in group.partitions:
            if (group.name, result.partition_index) == (topic, partition):
                return error_name(result.error_code) if result.error_code else None
    raise malformed(connection, f"no result for {topic}-{partition}")
