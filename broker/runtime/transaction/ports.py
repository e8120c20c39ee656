"""What the transactions' room needs of the metadata cache, as Protocols. All on the loop's thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from broker.model.ids import BrokerId
from broker.runtime.ports import Peer
from broker.wire.errors import ErrorCode
from broker.wire.messages.write_txn_markers import WritableTxnMarker

Peers = Callable[[BrokerId], Peer | None]
"""The connection to a live broker, None where its address is not known."""


class MarkerOf(NamedTuple):
    """One marker in one partition."""

    producer_id: int
    topic: str
    partition: int


class OwnLeaders(Protocol):
    """The partitions that this broker leads, as `markers.MarkerWriter` writes to them."""

    def write(self, markers: Sequence[WritableTxnMarker], done: Callable[[Mapping[MarkerOf, ErrorCode]], None]) -> None:
        """Append markers; done(outcome of each) is called once."""
        ...


class ClusterView(Protocol):
    """The partitions of the cluster and who leads them, as last heard of."""

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether the cluster has it, here or elsewhere."""
        ...

    def leader_of(self, topic: str, partition: int) -> tuple[BrokerId, int]:
        """(leader, leader epoch) as cached, (−1, −1) when unknown."""
        ...

    def live_brokers(self) -> Collection[BrokerId] | None:
        """None before the first UpdateMetadata."""
        ...

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has, 0 where it is not known."""
        ...
