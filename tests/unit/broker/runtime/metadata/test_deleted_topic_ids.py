"""Topics come and go: what is kept of those that are gone stands still, and is enough for late words."""

from __future__ import annotations

import pytest

from broker.runtime.metadata import deleted_topic_ids as gone_topics
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.metadata.deleted_topic_ids import DeletedTopicIds
from broker.wire.errors import ErrorCode
from broker.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from broker.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC

KEPT = 20
DELETED = -2


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gone_topics, "KEPT", KEPT)


def topic_id(number: int) -> str:
    return f"{number:05}" + "A" * 16 + "Q"


def test_newest_ids_are_known_and_one_that_is_named_again_is_new() -> None:
    gone = DeletedTopicIds()
    for number in range(KEPT):
        gone.add(topic_id(number))
    gone.add(topic_id(0))
    gone.add(topic_id(KEPT))
    assert [number for number in range(KEPT + 1) if topic_id(number) not in gone] == [1]
    assert len(gone) == KEPT


def test_metadata_keep_the_newest_of_the_topics_that_are_gone() -> None:
    cache = MetadataCache("c", "PLAINTEXT", lambda: 5, lambda topic: {}, lambda topic: None)

    def tell(number: int, leader: int) -> None:
        state = UpdateMetadataPartitionState(0, 1, leader, 3, [1], 0, [1], [])
        topic = UpdateMetadataTopicState(f"t{number}", topic_id(number), [state])
        cache.update(UpdateMetadataRequest(1, controller_epoch=1, broker_epoch=5, topic_states=[topic]))

    for number in range(3 * KEPT):
        tell(number, 1)
        tell(number, DELETED)
    assert len(cache._gone) == KEPT
    for number in range(2 * KEPT, 3 * KEPT):
        tell(number, 1)
    assert cache.topics == {}


def test_replicas_keep_the_newest_of_the_topics_that_are_gone() -> None:
    cluster = MemoryCluster()
    cluster.settle()

    def tell(number: int) -> int:
        request = cluster.leader_and_isr(cluster.state, cluster.registered[1])
        request.controller_epoch = cluster.controller_epoch
        request.topic_states[0].topic_id = topic_id(number)
        request.topic_states[0].partition_states[0].is_new = True
        return cluster.apply(1, request).topics[0].partition_errors[0].error_code

    def delete(number: int) -> None:
        topic = StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, DELETED, True)], topic_id(number))
        request = StopReplicaRequest(9, False, cluster.controller_epoch, cluster.registered[1], [topic])
        cluster.nodes[1].up.stop_replicas(request)

    for number in range(3 * KEPT):
        assert tell(number) == ErrorCode.NONE
        delete(number)
    assert len(cluster.nodes[1].up.controller_fence.deleted_topic_ids) == KEPT
    assert {tell(number) for number in range(2 * KEPT, 3 * KEPT)} == {ErrorCode.INCONSISTENT_TOPIC_ID}
