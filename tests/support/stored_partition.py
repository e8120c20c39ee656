"""Three brokers and their one partition: its state in the store, and what a controller's term sends of it."""

from __future__ import annotations

from broker.core.controller.cluster_state import LeaderAndIsr
from broker.core.controller.stored import StoredState
from broker.runtime.controller.request_batch import LEADER_AND_ISR_VERSION, Outgoing
from broker.wire.api import ApiKey
from broker.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster


def cluster(state: LeaderAndIsr | None = None) -> ReassignedCluster:
    """Three brokers and their partition in this state, as no controller has read it yet."""
    world = ReassignedCluster((1, 2, 3), 3)
    if state is not None:
        world.data.states[PARTITION] = StoredState(state, world.data.next_transaction())
    return world


def stored(world: ReassignedCluster) -> LeaderAndIsr:
    return world.data.states[PARTITION].state


def states_in(requests: list[Outgoing]) -> list[LeaderAndIsrPartitionState]:
    return [
        partition
        for request in requests
        if request.api_key == ApiKey.LEADER_AND_ISR
        for topic in LeaderAndIsrRequest.decode(LEADER_AND_ISR_VERSION, request.body).topic_states
        for partition in topic.partition_states
    ]
