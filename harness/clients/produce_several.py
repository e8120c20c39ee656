"""One Produce request with a batch for each of several partitions of a topic, as a real client's sender makes it.

Must not know routing, retries or the history.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.wire.api import ApiKey
from broker.wire.messages import produce
from harness.clients.connection import Connection
from harness.clients.requests import PRODUCE_VERSION, Produced, produced
from harness.clients.responses import decoded


def produce_several(
    connection: Connection,
    topic: str,
    batches: Mapping[int, bytes],
    *,
    acks: int,
    timeout_ms: int,
    deadline_ns: int,
) -> Mapping[int, Produced]:
    """How each came out, by partition. batches: partition → its batch, in the order in which the request has them.

    timeout_ms: how long the broker may wait for the ISR. Raises ClientError when there is no response that can be read,
    of any of them.
    """
    request = produce.ProduceRequest(
        None,
        acks,
        timeout_ms,
        [produce.ProducePartition(topic, partition, memoryview(batch)) for partition, batch in batches.items()],
    )
    body = produce.encode_request(PRODUCE_VERSION, request)
    if acks == 0:
        at_ns = connection.send_only(ApiKey.PRODUCE, PRODUCE_VERSION, body, deadline_ns)
        return {partition: Produced(None, -1, at_ns) for partition in batches}
    received = connection.exchange(ApiKey.PRODUCE, PRODUCE_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: produce.decode_response(PRODUCE_VERSION, received.body))
    return {partition: produced(connection, response, topic, partition, received.at_ns) for partition in batches}
