"""One Produce request for several partitions: one response, once the outcome of every partition is known."""

from __future__ import annotations

import pytest

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from broker.wire.records import NewRecord, encode_batch
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC, FakeSlot

NOWHERE = "nowhere"
TIMEOUT_MS = 5_000


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster(min_isr=2)
    cluster.settle()
    return cluster


def ask(cluster: MemoryCluster, *topics: str, acks: int = -1) -> FakeSlot:
    """A request with a batch for partition 0 of each topic; the batch's value is its place."""
    parts = [
        produce.ProducePartition(
            topic, 0, memoryview(encode_batch([NewRecord(None, str(place).encode())], timestamps=1))
        )
        for place, topic in enumerate(topics)
    ]
    return cluster.request(
        1, ApiKey.PRODUCE, 9, bytes(produce.encode_request(9, produce.ProduceRequest(None, acks, TIMEOUT_MS, parts)))
    )


def results(slot: FakeSlot) -> list[tuple[str, int, int]]:
    """(topic, error, base offset) of each, in the order of the request."""
    assert slot.response is not None
    return [
        (r.topic, r.error, r.base_offset) for r in produce.decode_response(9, memoryview(slot.response)[5:]).results
    ]


def test_response_waits_for_every_partition_and_has_each_ones_outcome(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: message.target == 1
    slot = ask(cluster, TOPIC, NOWHERE, TOPIC)
    cluster.settle()
    assert not slot.done, "one partition is refused already, the others wait for the ISR"
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert results(slot) == [(TOPIC, 0, 0), (NOWHERE, unknown, -1), (TOPIC, 0, 1)]


def test_partitions_that_wait_time_out_and_the_others_keep_their_outcome(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: message.target == 1
    slot = ask(cluster, TOPIC, NOWHERE, TOPIC)
    cluster.advance(TIMEOUT_MS)
    late = (TOPIC, ErrorCode.REQUEST_TIMED_OUT, -1)
    assert results(slot) == [late, (NOWHERE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), late]


def test_acks_0_closes_the_connection_for_the_first_that_is_refused_and_appends_the_rest(
    cluster: MemoryCluster,
) -> None:
    slot = ask(cluster, TOPIC, NOWHERE, TOPIC, acks=0)
    assert slot.closed == "Produce with acks=0 to nowhere-0 failed: UNKNOWN_TOPIC_OR_PARTITION"
    assert cluster.nodes[1].log.values() == ["0", "2"]


def test_acks_0_has_no_response(cluster: MemoryCluster) -> None:
    assert ask(cluster, TOPIC, TOPIC, acks=0).nothing
    assert cluster.nodes[1].log.values() == ["0", "1"]


@pytest.mark.parametrize("topics", [[TOPIC], [TOPIC, NOWHERE]])
def test_acks_that_do_not_exist_are_refused_for_every_partition(cluster: MemoryCluster, topics: list[str]) -> None:
    slot = ask(cluster, *topics, acks=2)
    assert results(slot) == [(topic, ErrorCode.INVALID_REQUIRED_ACKS, -1) for topic in topics]
    assert cluster.nodes[1].log.staged_end_offset == 0


def test_request_for_no_partition_has_a_response_too(cluster: MemoryCluster) -> None:
    assert results(ask(cluster)) == []
