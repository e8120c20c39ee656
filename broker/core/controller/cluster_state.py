"""What a controller knows of its cluster: live brokers, topics, partition states. Values and look-ups, no decisions.

One `ClusterState` belongs to one controller term; only the controller's thread touches it. It must not know where the
facts come from (ZooKeeper) or go to (brokers). Invariants: a partition state's ISR is a non-empty subset of its
assignment; leader is an ISR member or NO_LEADER.
Source: kafka.controller.ControllerContext, org.apache.kafka.metadata.LeaderAndIsr.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

from broker.core.controller.elr import CLEAN, ReplicaReport, Reports, after_write
from broker.core.replication.watermark import effective_min_isr
from broker.model.ids import BrokerId, Epoch, TopicPartition

NO_LEADER = -1
INITIAL_LEADER_EPOCH = 0
NO_BROKER_EPOCH = -1


class ControllerMoved(Exception):
    """Another controller took over: every write of this term fails from now on."""


class StoreUnavailable(Exception):
    """ZooKeeper could not be reached in the time allowed; whether a pending write happened is unknown.

    told: what a client is told that had asked for it.
    """

    told: ClassVar[str] = "ZooKeeper cannot be reached."


class WriteUnknown(StoreUnavailable):
    """The response to a write was lost, and somebody else has written there since: it may have been carried out, and
    overwritten.
    """

    told = (
        "ZooKeeper's response to the write was lost, and somebody else has written there since: the change may have"
        " been made, and overwritten."
    )


class StoreContended(StoreUnavailable):
    """Whatever was read to be changed had changed before it was written, again and again; nothing was written."""

    told = "Others changed the same at once, again and again; nothing was written."


class BrokerEndpoint(NamedTuple):
    """An advertised listener. security_protocol: Kafka's name, `PLAINTEXT`."""

    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker. epoch: czxid of its registration, one per incarnation.

    reports: it serves ReplicaReport, and as a leader keeps to the minimum of an ELR. Of a broker that does not (Apache
    Kafka's) every stop counts as clean, as it does there.
    """

    id: BrokerId
    epoch: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    reports: bool = False


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """A partition's state. partition_epoch: the znode's version. isr: in assignment order where written here."""

    leader: BrokerId
    leader_epoch: Epoch
    isr: tuple[BrokerId, ...]
    controller_epoch: Epoch
    partition_epoch: int
    recovering: bool = False
    """Set by an unclean election until the leader has recovered (KIP-704)."""
    elr: tuple[BrokerId, ...] = ()
    """Outside the ISR, yet holding all that is committed (`broker.core.controller.elr`); `ClusterState.completed`
    keeps it.
    """
    elr_min_isr: int = 0
    """The min.insync.replicas that `elr` was made under: as long as it stands the leader commits nothing with a smaller
    ISR. 0 without an ELR.
    """
    isr_epochs: Mapping[BrokerId, int] = field(default_factory=dict)
    """Under which registration a member was admitted to the ISR, or elected on its report; none: it is not known."""
    lossy: bool = False
    """This state was decided without any replica that surely holds all that is committed, so the ELR before it is void.
    Never stored.
    """

    def changed(self, leader: BrokerId, isr: tuple[BrokerId, ...]) -> LeaderAndIsr:
        """The same partition under the next leader epoch; controller and partition epoch are the writer's to stamp."""
        assert isr
        assert leader == NO_LEADER or leader in isr
        return replace(
            self, leader=leader, isr=isr, leader_epoch=self.leader_epoch + 1, lossy=False, elr=(), elr_min_isr=0
        )


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's assignment. topic_id: Kafka's base64 text. partitions: index → replicas, preferred leader first.

    adding, removing: of partitions that are being reassigned; `reassignment.Assignment` says what they mean.
    """

    name: str
    topic_id: str
    partitions: Mapping[int, tuple[BrokerId, ...]]
    adding: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterState:
    """A controller's mutable picture of the cluster."""

    brokers: dict[BrokerId, Broker] = field(default_factory=dict)
    shutting_down: set[BrokerId] = field(default_factory=set)
    topics: dict[str, Topic] = field(default_factory=dict)
    states: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    unreadable: set[TopicPartition] = field(default_factory=set)
    """Partitions whose stored state cannot be decoded: not in `states`, yet not new; nothing is decided for them."""
    deleting: set[str] = field(default_factory=set)
    offline: set[tuple[TopicPartition, BrokerId]] = field(default_factory=set)
    """Replicas of live brokers whose files failed, as these brokers said."""
    unclean: dict[str, bool] = field(default_factory=dict)
    """Topics whose `unclean.leader.election.enable` differs from the broker's default."""
    unclean_default: bool = False
    min_isr: dict[str, int] = field(default_factory=dict)
    """Topics whose `min.insync.replicas` differs from the broker's default."""
    min_isr_default: int = 1
    reports: dict[tuple[TopicPartition, BrokerId], ReplicaReport] = field(default_factory=dict)
    """The reports of registered brokers on their replicas; void with the registration."""
    suspected: set[BrokerId] = field(default_factory=set)
    """Registered brokers whose processes are gone as all evidence says (`broker.core.controller.suspicion`)."""

    def live(self) -> frozenset[BrokerId]:
        """Brokers that may lead or join an ISR: registered, not shutting down, not suspected."""
        return frozenset(self.brokers) - self.shutting_down - self.suspected

    def is_registered(self, broker: BrokerId, epoch: int) -> bool:
        """Under just this broker epoch."""
        known = self.brokers.get(broker)
        return known is not None and known.epoch == epoch

    def still_registered(self, epochs: Mapping[BrokerId, int]) -> set[BrokerId]:
        """Those that are registered under just this broker epoch."""
        return {broker for broker, epoch in epochs.items() if self.is_registered(broker, epoch)}

    def forget_broker(self, broker: BrokerId) -> None:
        """Forget a broker whose registration is over, with all that was known under that registration."""
        self.brokers.pop(broker, None)
        self.shutting_down.discard(broker)
        self.suspected.discard(broker)
        self.offline = {(tp, other) for tp, other in self.offline if other != broker}
        self.reports = {key: report for key, report in self.reports.items() if key[1] != broker}

    def take_reports(
        self,
        broker: BrokerId,
        reports: Mapping[TopicPartition, ReplicaReport],
        request_epochs: Mapping[TopicPartition, Epoch],
    ) -> None:
        """Keep a broker's reports on its logs. Not where somebody leads: at the next election they were out of date.

        request_epochs: the leader epochs of the states when the reports were requested. Where a state has another by
        now somebody may have led since, and the report is dropped.
        """
        for topic_partition, report in reports.items():
            current = self.states.get(topic_partition)
            if (
                current is not None
                and current.leader == NO_LEADER
                and current.leader_epoch == request_epochs.get(topic_partition)
            ):
                self.reports[topic_partition, broker] = report

    def forget_reports(self, topic_partition: TopicPartition) -> None:
        """Somebody leads: from now on the replicas' reports are out of date."""
        for broker in self.replicas(topic_partition):
            self.reports.pop((topic_partition, broker), None)

    def report_of(self, topic_partition: TopicPartition) -> Reports:
        """What live brokers say of their replicas of this partition; None until they do."""

        def report(broker: BrokerId) -> ReplicaReport | None:
            known = self.brokers.get(broker)
            if known is None:
                return None
            return self.reports.get((topic_partition, broker)) if known.reports else CLEAN

        return report

    def min_isr_of(self, topic_partition: TopicPartition, replicas: tuple[BrokerId, ...] | None = None) -> int:
        """min.insync.replicas, clamped to the number of replicas. replicas: where they change."""
        wanted = self.min_isr.get(topic_partition.topic, self.min_isr_default)
        return effective_min_isr(wanted, len(self.replicas(topic_partition) if replicas is None else replicas))

    def completed(
        self,
        topic_partition: TopicPartition,
        before: LeaderAndIsr | None,
        after: LeaderAndIsr,
        replicas: tuple[BrokerId, ...] | None = None,
    ) -> LeaderAndIsr:
        """`after` with all that goes with it: what is to be written. replicas: where they change as well.

        There is no ELR beside a leader that does not keep to its minimum: the controller cannot know when such a leader
        commits. A member keeps the registration under which it was admitted, as long as it stays in the ISR or ELR.
        """
        epochs = {broker: after.isr_epochs.get(broker, self._epoch_of(broker)) for broker in after.isr}
        leader = self.brokers.get(after.leader)
        if before is None or after.lossy or (leader is not None and not leader.reports):
            return replace(after, isr_epochs=epochs, elr=(), elr_min_isr=0, lossy=False)
        assigned = self.replicas(topic_partition) if replicas is None else replicas
        min_isr = self.min_isr_of(topic_partition, assigned)
        elr = after_write(before.isr, before.elr, after.isr, assigned, min_isr)
        return replace(after, isr_epochs=epochs, elr=elr, elr_min_isr=min_isr if elr else 0)

    def _epoch_of(self, broker: BrokerId) -> int:
        """NO_BROKER_EPOCH where the broker is not registered: when it registers, it is another incarnation."""
        known = self.brokers.get(broker)
        return NO_BROKER_EPOCH if known is None else known.epoch

    def live_for(self, topic_partition: TopicPartition) -> frozenset[BrokerId]:
        """Of these, those whose replica of this partition is not offline."""
        live = self.live()
        if not self.offline:
            return live
        return frozenset(broker for broker in live if (topic_partition, broker) not in self.offline)

    def replicas(self, topic_partition: TopicPartition) -> tuple[BrokerId, ...]:
        """Assigned replicas in order; empty when the partition is not assigned."""
        topic = self.topics.get(topic_partition.topic)
        return topic.partitions.get(topic_partition.partition, ()) if topic is not None else ()

    def partitions(self) -> Iterator[tuple[TopicPartition, tuple[BrokerId, ...]]]:
        """All assigned partitions, in the order of topic creation here and partition index."""
        for name, topic in self.topics.items():
            for partition, replicas in topic.partitions.items():
                yield TopicPartition(name, partition), replicas

    def partitions_of(self, broker_ids: Iterable[BrokerId]) -> list[TopicPartition]:
        """Partitions with a replica on one of the brokers."""
        wanted = frozenset(broker_ids)
        return [tp for tp, replicas in self.partitions() if not wanted.isdisjoint(replicas)]

    def unclean_allowed(self, topic: str) -> bool:
        """unclean.leader.election.enable of a topic, the cluster's where it has none of its own."""
        return self.unclean.get(topic, self.unclean_default)

    def may_lose(self, topic_partition: TopicPartition) -> bool:
        """Whether this partition's next election may be unclean."""
        return self.unclean_allowed(topic_partition.topic) and not self.member_is_suspected(topic_partition)

    def member_is_suspected(self, topic_partition: TopicPartition) -> bool:
        """Whether a replica that had all that is committed is registered and only suspected: the end of its session
        decides.
        """
        current = self.states.get(topic_partition)
        return current is not None and any(
            broker in self.suspected and (topic_partition, broker) not in self.offline
            for broker in (*current.isr, *current.elr)
        )

    def forget_topic(self, topic: str) -> None:
        """Drop a topic with its states and settings."""
        self.topics.pop(topic, None)
        self.unclean.pop(topic, None)
        self.min_isr.pop(topic, None)
        self.reports = {key: report for key, report in self.reports.items() if key[0].topic != topic}
        self.deleting.discard(topic)
        self.unreadable = {tp for tp in self.unreadable if tp.topic != topic}
        self.offline = {(tp, broker) for tp, broker in self.offline if tp.topic != topic}
        for topic_partition in [tp for tp in self.states if tp.topic == topic]:
            del self.states[topic_partition]
