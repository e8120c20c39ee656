"""What a controller's batch sends to several brokers."""

from __future__ import annotations

import pytest

from broker.core.controller.cluster_state import Broker, BrokerEndpoint, ClusterState, LeaderAndIsr, Topic
from broker.model.ids import TopicPartition
from broker.runtime.controller.request_batch import UPDATE_METADATA_VERSION, RequestBatch
from broker.wire.messages.update_metadata import UpdateMetadataRequest

pytestmark = pytest.mark.guarantee("C5")

EPOCHS = {1: 11, 2: (1 << 40) + 2, 3: 33}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _state() -> ClusterState:
    brokers = {
        id_: Broker(id_, epoch, (BrokerEndpoint("PLAINTEXT", "h", 9000 + id_, "PLAINTEXT"),))
        for id_, epoch in EPOCHS.items()
    }
    states = {T0: LeaderAndIsr(1, 5, (1, 2), 3, 7), T1: LeaderAndIsr(2, 6, (2, 3), 3, 8)}
    return ClusterState(brokers, topics={"t": Topic("t", "A" * 22, {0: (1, 2), 1: (2, 3)})}, states=states)


def _told(batch: RequestBatch) -> dict[int, UpdateMetadataRequest]:
    """By broker, which each gets one of."""
    out = batch.encode(_state())
    assert len({one.broker for one in out}) == len(out)
    return {one.broker: UpdateMetadataRequest.decode(UPDATE_METADATA_VERSION, memoryview(one.body)) for one in out}


def test_all_are_told_the_same_each_under_its_own_registration() -> None:
    batch = RequestBatch(1, 4)
    batch.metadata(EPOCHS, (T0, T1))
    told = _told(batch)
    assert {id_: request.broker_epoch for id_, request in told.items()} == EPOCHS
    for request in told.values():
        assert (request.controller_id, request.controller_epoch, request.whole) == (1, 4, False)
        assert [part.leader for topic in request.topic_states for part in topic.partition_states] == [1, 2]
        assert [broker.id for broker in request.live_brokers] == [1, 2, 3]


def test_who_needs_more_or_the_whole_is_told_that_alone() -> None:
    batch = RequestBatch(1, 4)
    batch.metadata((1, 2, 3), (T0,))
    batch.metadata((2,), (T1,))
    batch.all_metadata(3)
    told = _told(batch)
    partitions = {
        id_: [part.partition_index for topic in request.topic_states for part in topic.partition_states]
        for id_, request in told.items()
    }
    assert partitions == {1: [0], 2: [0, 1], 3: [0]}
    assert {id_: request.whole for id_, request in told.items()} == {1: False, 2: False, 3: True}
