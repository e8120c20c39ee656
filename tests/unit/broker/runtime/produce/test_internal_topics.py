"""What a Kafka cluster left in the topics of its coordinators stays as it is."""

from __future__ import annotations

import pytest

from broker.core.admin import topic_names
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from tests.property.log.log_tools import batch
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC, FakeSlot


@pytest.mark.parametrize(
    ("client_id", "error"), [("client", ErrorCode.INVALID_TOPIC_EXCEPTION), ("__admin_client", ErrorCode.NONE)]
)
def test_only_the_admin_client_writes_to_a_topic_of_coordinators(
    monkeypatch: pytest.MonkeyPatch, client_id: str, error: ErrorCode
) -> None:
    """As ReplicaManager.appendToLocalLog has it."""
    monkeypatch.setattr(topic_names, "INTERNAL", frozenset({TOPIC}))
    cluster = MemoryCluster()
    cluster.settle()
    asked = produce.ProduceRequest(None, -1, 30000, [produce.ProducePartition(TOPIC, 0, batch(1))])
    body = memoryview(bytearray(produce.encode_request(9, asked)))
    slot = FakeSlot()
    cluster.dispatch(cluster.nodes[1], Request(ApiKey.PRODUCE, 9, 7, client_id, body, slot, True))
    cluster.nodes[1].up.end_of_turn()
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == error
    assert cluster.nodes[1].log.staged_end_offset == (0 if error else 1)
