"""From the controller's decisions to LeaderAndIsr, UpdateMetadata and StopReplica, one request per broker and batch.

A batch is everything that one event makes the controller send. Per broker LeaderAndIsr comes first, for it ends an
outage, and a leader learns its epoch before clients learn it from this broker; ReplicaReport follows. Where brokers
have started, UpdateMetadata comes before both, for it has their addresses, and is complete: a broker replaces its cache
by a controller's first UpdateMetadata, and sends no client a Metadata response before it. Every request names the
controller epoch and the target's broker epoch, by which late requests are refused. Pure.
Source: kafka.controller.ControllerChannelManager, AbstractControllerBrokerRequestBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.controller.cluster_state import NO_LEADER, Broker, ClusterState, LeaderAndIsr
from broker.core.controller.decisions import offline_replicas
from broker.model.ids import BrokerId, Epoch, TopicPartition
from broker.wire.api import ApiKey
from broker.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from broker.wire.messages.replica_report import ReplicaReportRequest, ReportTopic
from broker.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from broker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

LEADER_AND_ISR_VERSION = 6
UPDATE_METADATA_VERSION = 7
STOP_REPLICA_VERSION = 3
REPLICA_REPORT_VERSION = 0

INCREMENTAL, FULL = 1, 2
LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2
_BROKER_EPOCH = struct.Struct(">q")
_BROKER_EPOCH_AT = 8
"""In an UpdateMetadata of that version: behind the controller's id and epoch."""
_SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class Outgoing(NamedTuple):
    """One request for one registration of one broker.

    deletes: what a StopReplica deletes. request_epochs: of a ReplicaReport the leader epochs of its partitions, which
    have no leader. offline: of a LeaderAndIsr the replicas, (topic id, index), that count as offline and are to follow.
    """

    broker: BrokerId
    broker_epoch: int
    api_key: int
    api_version: int
    body: bytes
    deletes: tuple[TopicPartition, ...] = ()
    request_epochs: tuple[tuple[TopicPartition, Epoch], ...] = ()
    offline: tuple[tuple[str, int], ...] = ()


class _Told(NamedTuple):
    """An UpdateMetadata that was encoded for one broker."""

    partitions: AbstractSet[TopicPartition]
    whole: bool
    body: bytes


@dataclass(slots=True)
class RequestBatch:
    """Collects which brokers need which partitions, then encodes requests from the state of that moment."""

    controller: BrokerId
    epoch: Epoch
    addresses_first: bool = False
    _roles: dict[BrokerId, dict[TopicPartition, bool]] = field(default_factory=dict)
    _full: set[BrokerId] = field(default_factory=set)
    _metadata: dict[BrokerId, set[TopicPartition]] = field(default_factory=dict)
    _whole: set[BrokerId] = field(default_factory=set)
    _stops: dict[BrokerId, dict[TopicPartition, bool]] = field(default_factory=dict)
    _reports: dict[BrokerId, set[TopicPartition]] = field(default_factory=dict)

    def report(self, broker: BrokerId, topic_partition: TopicPartition) -> None:
        """Ask a broker for its log's end and epochs, after LeaderAndIsr said that nobody leads the partition.

        From then on the broker follows nobody, so its report stays right until a leader is elected.
        """
        self._reports.setdefault(broker, set()).add(topic_partition)

    def roles(self, brokers: Iterable[BrokerId], topic_partition: TopicPartition, is_new: bool = False) -> None:
        """Send the brokers who leads a partition that they replicate. is_new once stays set in this batch."""
        for broker in brokers:
            roles = self._roles.setdefault(broker, {})
            roles[topic_partition] = is_new or roles.get(topic_partition, False)

    def all_roles(self, broker: BrokerId) -> None:
        """Make this broker's LeaderAndIsr its whole list; what it does not name is not the broker's."""
        self._roles.setdefault(broker, {})
        self._full.add(broker)

    def metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()) -> None:
        """Send the brokers which brokers live, and the state of these partitions."""
        wanted = list(partitions)
        for broker in brokers:
            self._metadata.setdefault(broker, set()).update(wanted)

    def all_metadata(self, broker: BrokerId) -> None:
        """Make this broker's UpdateMetadata name all topics there are; those that it does not name are gone."""
        self._metadata.setdefault(broker, set())
        self._whole.add(broker)

    def stop_replica(self, broker: BrokerId, topic_partition: TopicPartition, delete: bool) -> None:
        """Make the broker stop following; delete: and remove the replica's files."""
        self._stops.setdefault(broker, {})[topic_partition] = delete

    def encode(self, state: ClusterState) -> list[Outgoing]:
        """Requests for brokers that are registered; a broker that is not gets everything when it registers."""
        out: list[Outgoing] = []
        told: list[_Told] = []
        for id_ in sorted(self._metadata.keys() | self._roles.keys() | self._stops.keys() | self._reports.keys()):
            broker = state.brokers.get(id_)
            if broker is None:
                continue
            roles: list[Outgoing] = []
            if id_ in self._roles:
                roles.append(self._leader_and_isr(state, broker, self._roles[id_]))
            if id_ in self._reports:
                roles.append(self._replica_report(state, broker, self._reports[id_]))
            metadata: list[Outgoing] = []
            if id_ in self._metadata:
                metadata.append(self._update_metadata(state, broker, self._metadata[id_], told))
            out += metadata + roles if self.addresses_first else roles + metadata
            if id_ in self._stops:
                out.append(self._stop_replica(state, broker, self._stops[id_]))
        return out

    def _replica_report(self, state: ClusterState, broker: Broker, partitions: AbstractSet[TopicPartition]) -> Outgoing:
        topics: dict[str, ReportTopic] = {}
        for name, partition in sorted(partitions):
            topic = state.topics.get(name)
            if topic is not None:
                topics.setdefault(name, ReportTopic(name, topic.topic_id, [])).partitions.append(partition)
        request = ReplicaReportRequest(self.controller, self.epoch, broker.epoch, list(topics.values()))
        body = request.encode(REPLICA_REPORT_VERSION)
        epochs = tuple((tp, state.states[tp].leader_epoch) for tp in sorted(partitions) if tp in state.states)
        return Outgoing(
            broker.id, broker.epoch, ApiKey.REPLICA_REPORT, REPLICA_REPORT_VERSION, body, request_epochs=epochs
        )

    def _leader_and_isr(self, state: ClusterState, broker: Broker, roles: dict[TopicPartition, bool]) -> Outgoing:
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: set[BrokerId] = set()
        offline: list[tuple[str, int]] = []
        for topic_partition, is_new in sorted(roles.items()):
            current = state.states.get(topic_partition)
            if current is None:
                continue
            leaders.add(current.leader)
            topic = state.topics[topic_partition.topic]
            if (topic_partition, broker.id) in state.offline and current.leader not in (NO_LEADER, broker.id):
                offline.append((topic.topic_id, topic_partition.partition))
            adding = topic.adding.get(topic_partition.partition, ())
            entry = topics.get(topic_partition.topic)
            if entry is None:
                entry = topics[topic.name] = LeaderAndIsrTopicState(topic.name, topic.topic_id, [])
            entry.partition_states.append(
                LeaderAndIsrPartitionState(
                    partition_index=topic_partition.partition,
                    controller_epoch=current.controller_epoch,
                    leader=current.leader,
                    leader_epoch=current.leader_epoch,
                    isr=list(current.isr),
                    partition_epoch=current.partition_epoch,
                    replicas=list(state.replicas(topic_partition)),
                    adding_replicas=list(adding),
                    removing_replicas=list(topic.removing.get(topic_partition.partition, ())),
                    # A replica that is being added, and has not caught up yet, may begin in any log dir.
                    # One that is, or was, in the ISR holds committed records: an empty log there is a loss.
                    is_new=is_new or (broker.id in adding and broker.id not in (*current.isr, *current.elr)),
                    leader_recovery_state=int(current.recovering),
                    elr_min_isr=current.elr_min_isr,
                )
            )
        request = LeaderAndIsrRequest(
            controller_id=self.controller,
            controller_epoch=self.epoch,
            broker_epoch=broker.epoch,
            type=FULL if broker.id in self._full else INCREMENTAL,
            topic_states=list(topics.values()),
            live_leaders=[_live_leader(state.brokers[id_]) for id_ in sorted(leaders) if id_ in state.brokers],
        )
        body = request.encode(LEADER_AND_ISR_VERSION)
        version = LEADER_AND_ISR_VERSION
        return Outgoing(broker.id, broker.epoch, ApiKey.LEADER_AND_ISR, version, body, offline=tuple(offline))

    def _update_metadata(
        self, state: ClusterState, broker: Broker, partitions: AbstractSet[TopicPartition], told: list[_Told]
    ) -> Outgoing:
        """told: what other brokers of the batch are sent; most are sent the same, but for their broker epoch."""
        whole = broker.id in self._whole
        body = next((one.body for one in told if one.whole is whole and one.partitions == partitions), None)
        if body is None:
            body = self._encode_metadata(state, broker, partitions, whole)
            told.append(_Told(partitions, whole, body))
        at, end = _BROKER_EPOCH_AT, _BROKER_EPOCH_AT + _BROKER_EPOCH.size
        body = body[:at] + _BROKER_EPOCH.pack(broker.epoch) + body[end:]
        return Outgoing(broker.id, broker.epoch, ApiKey.UPDATE_METADATA, UPDATE_METADATA_VERSION, body)

    def _encode_metadata(
        self, state: ClusterState, broker: Broker, partitions: AbstractSet[TopicPartition], whole: bool
    ) -> bytes:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for topic_partition in sorted(partitions):
            topic = state.topics.get(topic_partition.topic)
            current = state.states.get(topic_partition)
            if topic is None or current is None:
                continue
            entry = topics.get(topic.name)
            if entry is None:
                entry = topics[topic.name] = UpdateMetadataTopicState(topic.name, topic.topic_id, [])
            entry.partition_states.append(_metadata_state(state, topic_partition, current))
        request = UpdateMetadataRequest(
            controller_id=self.controller,
            controller_epoch=self.epoch,
            broker_epoch=broker.epoch,
            topic_states=list(topics.values()),
            live_brokers=[_live_broker(other) for _, other in sorted(state.brokers.items())],
            whole=whole,
        )
        return request.encode(UPDATE_METADATA_VERSION)

    def _stop_replica(self, state: ClusterState, broker: Broker, stops: dict[TopicPartition, bool]) -> Outgoing:
        topics: dict[str, StopReplicaTopicState] = {}
        for topic_partition, delete in sorted(stops.items()):
            name = topic_partition.topic
            topic, current = state.topics.get(name), state.states.get(topic_partition)
            entry = topics.setdefault(name, StopReplicaTopicState(name, [], "" if topic is None else topic.topic_id))
            epoch = EPOCH_DURING_DELETE if name in state.deleting else current.leader_epoch if current else -1
            entry.partition_states.append(StopReplicaPartitionState(topic_partition.partition, epoch, delete))
        request = StopReplicaRequest(
            controller_id=self.controller,
            controller_epoch=self.epoch,
            broker_epoch=broker.epoch,
            topic_states=list(topics.values()),
        )
        body = request.encode(STOP_REPLICA_VERSION)
        deletes = tuple(sorted(topic_partition for topic_partition, delete in stops.items() if delete))
        return Outgoing(broker.id, broker.epoch, ApiKey.STOP_REPLICA, STOP_REPLICA_VERSION, body, deletes)


def _metadata_state(
    state: ClusterState, topic_partition: TopicPartition, current: LeaderAndIsr
) -> UpdateMetadataPartitionState:
    replicas = state.replicas(topic_partition)
    deleting = topic_partition.topic in state.deleting
    return UpdateMetadataPartitionState(
        partition_index=topic_partition.partition,
        controller_epoch=current.controller_epoch,
        leader=LEADER_DURING_DELETE if deleting else current.leader,
        leader_epoch=current.leader_epoch,
        isr=list(current.isr),
        zk_version=current.partition_epoch,
        replicas=list(replicas),
        offline_replicas=offline_replicas(state, topic_partition),
    )


def _live_leader(broker: Broker) -> LeaderAndIsrLiveLeader:
    endpoint = broker.endpoints[0]
    return LeaderAndIsrLiveLeader(broker.id, endpoint.host, endpoint.port)


def _live_broker(broker: Broker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(e.port, e.host, e.listener, _SECURITY_PROTOCOLS.get(e.security_protocol, 0))
            for e in broker.endpoints
        ],
        rack=broker.rack,
        broker_epoch=broker.epoch,
    )
