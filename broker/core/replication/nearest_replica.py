"""Which replica a consumer is to read from that says in which rack it is (KIP-392). Pure.

Source: org.apache.kafka.common.replica.RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.core.replication.leader import Leader
from broker.model.ids import BrokerId, Offset


def nearest(role: Leader, rack: str, rack_of: Callable[[BrokerId], str | None], offset: Offset) -> BrokerId | None:
    """The follower to read from, None for the leader. rack_of: None for a broker that is not live, or has no rack.

    The leader reads for its own rack, and where no follower there is in sync and holds the offset; of several followers
    the one that has most.
    """
    if not rack or rack_of(role.broker_id) == rack:
        return None
    there = [
        progress
        for broker, progress in role.followers.items()
        if broker in role.isr.committed and progress.log_start <= offset <= progress.leo and rack_of(broker) == rack
    ]
    best = max(there, key=lambda progress: (progress.leo, progress.caught_up_ms, progress.broker_id), default=None)
    return None if best is None else best.broker_id
