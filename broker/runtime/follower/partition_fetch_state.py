"""How far one partition is fetched: what its leader's session holds of it, and what its last responses were.

Source: kafka.server.PartitionFetchState.
"""

from __future__ import annotations

from typing import Final

from broker.model.ids import Epoch, Offset
from broker.runtime.follower.response_processor import Fall
from broker.runtime.replicas.replica import Replica
from broker.wire.errors import ErrorCode

Position = tuple[Offset, Epoch, Epoch, Offset]
"""Fetch offset, leader epoch, last fetched epoch, log start offset."""
FetchKey = tuple[str, int]
"""(topic id, partition)."""


SOON_OVER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""A leader's errors that most often end with the LeaderAndIsr that it is about to receive."""


class PartitionFetchState:
    """One partition that is fetched from one leader, under one leader epoch.

    sent: the position that the leader's session holds, None when it has none; sent_in: number of the request that named
    it, so that responses to earlier ones are not taken for responses to it.
    """

    __slots__ = (
        "delayed_until_ms",
        "failures",
        "fell",
        "key",
        "lag",
        "last_error",
        "leader_epoch",
        "replica",
        "sent",
        "sent_in",
    )

    def __init__(self, replica: Replica, leader_epoch: Epoch) -> None:
        self.replica = replica
        self.key: FetchKey = (replica.topic_id, replica.topic_partition.partition)
        self.leader_epoch = leader_epoch
        self.sent: Position | None = None
        self.sent_in = 0
        self.delayed_until_ms = 0.0
        self.lag = 0
        """Offsets to the leader's watermark, as of the last response; at most 0 where there is no lag."""
        self.last_error = 0
        self.failures = 0
        self.fell: Fall | None = None
        """A batch of an older epoch than the one before it, which was refused once."""
