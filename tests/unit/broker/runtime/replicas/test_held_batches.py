"""What waits for a coordinator's word together: an error of one keeps none of the others from going on."""

from __future__ import annotations

import pytest

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from tests.support.asked_verifier import AskedVerifier
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC, FakeSlot
from tests.support.transactions import transactional

PRODUCER = 7


def send(cluster: MemoryCluster, sequence: int) -> FakeSlot:
    parts = [produce.ProducePartition(TOPIC, 0, transactional(str(sequence), PRODUCER, sequence))]
    body = produce.encode_request(9, produce.ProduceRequest("tx", -1, 30000, parts))
    return cluster.request(1, ApiKey.PRODUCE, 9, body)


@pytest.mark.guarantee("hostile-clients")
@pytest.mark.patches
def test_batch_that_breaks_costs_its_connection_and_keeps_no_other_from_being_appended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = MemoryCluster(replicas=1)
    cluster.settle()
    manager = cluster.nodes[1].up
    verifier = manager.gate.verifier = AskedVerifier()
    slots = [send(cluster, 0)]
    append, left = manager.appender.append, [True]

    def breaks_once(*arguments: object) -> None:
        if left:
            left.pop()
            raise ValueError("this batch makes no sense")
        append(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(manager.appender, "append", breaks_once)
    slots.append(send(cluster, 0))
    verifier.answer()
    manager.end_of_turn()
    assert slots[0].closed
    result = produced(slots[1])
    assert result is not None
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)


def test_coordinator_that_breaks_keeps_no_other_from_its_answer() -> None:
    cluster = MemoryCluster(replicas=1)
    cluster.settle()
    manager = cluster.nodes[1].up
    verifier = manager.gate.verifier = AskedVerifier()

    def breaks(_: ErrorCode) -> None:
        raise ValueError("a group makes no sense")

    told: list[ErrorCode] = []
    for then in (breaks, told.append):
        manager.gate.verify("tx", PRODUCER, 0, (TOPIC, 0), then)
    verifier.answer()
    assert told == [ErrorCode.NONE]
