"""What replication needs of the controller channel, of ZooKeeper and of the metadata cache, as Protocols.

All callbacks run on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from broker.core.replication.isr import Proposal
from broker.model.ids import BrokerId, TopicPartition
from broker.wire.errors import ErrorCode


class AlterPartitionResult(NamedTuple):
    """The controller's response to one proposal.

    error: the partition's code, or the request's where that is set; REQUEST_TIMED_OUT (7) where no response came or no
    controller is known. The rest is the controller's echo, meaningful where error is 0.
    """

    error: int
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    leader_epoch: int = -1
    elr_min_isr: int = 0
    """Under which minimum replicas are eligible beside this ISR, 0 for none."""


class AlterPartitionSender(Protocol):
    """Carries ISR proposals to the controller; may batch; never repeats one on its own."""

    def send(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        proposal: Proposal,
        on_result: Callable[[AlterPartitionResult], None],
    ) -> None:
        """on_result is called exactly once, in a later turn or this one's end; never from within this call."""
        ...


class ProducerIdSource(Protocol):
    """Cluster-wide unique producer ids, from blocks claimed in ZooKeeper."""

    def next_producer_id(self, on_id: Callable[[int], None], on_failure: Callable[[str], None]) -> None:
        """Exactly one callback follows; on_id may be called at once while a block lasts."""
        ...


class TransactionVerifier(Protocol):
    """Asks coordinators whether partitions are in open transactions; may batch."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        on_result: Callable[[ErrorCode], None],
    ) -> None:
        """on_result is called exactly once, with NONE where the partition is in; perhaps from within this call.

        TRANSACTION_ABORTABLE where it is not, which older clients know as INVALID_TXN_STATE. Other errors as a producer
        knows them: INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, and those upon which it may ask again.
        """
        ...


class TopicConfigs(Protocol):
    """What the metadata cache knows of topics."""

    def overrides(self, topic: str) -> Mapping[str, str]:
        """Topic-level settings, Kafka's names; empty when there are none."""
        ...

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether the cluster has it, here or elsewhere: tells "not mine" from "unknown"."""
        ...

    def leader_of(self, topic: str, partition: int) -> tuple[BrokerId, int]:
        """(leader, leader epoch) as cached, (−1, −1) when unknown."""
        ...

    def name_of(self, topic_id: str) -> str | None:
        """The topic of this id, hosted here or not; None where it is not known."""
        ...

    def endpoint_of(self, broker: BrokerId) -> tuple[str, int, str | None] | None:
        """(host, port, rack) of a live broker, as clients are given them; None for others."""
        ...

    def live_brokers(self) -> Collection[BrokerId] | None:
        """None before the first UpdateMetadata."""
        ...
