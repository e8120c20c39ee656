"""The cluster as this broker knows it from UpdateMetadata: brokers, topics, leaders. Loop thread.

Only UpdateMetadata fills the cache, in the order in which the controller sends it; a request of an older controller
epoch is refused. The first UpdateMetadata of a controller, or to a new registration of this broker, names all topics:
it replaces the whole cache, so that a topic deleted meanwhile does not stay. Where it names a topic and not all of its
partitions, the state of one could not be read: that partition stays, for topics never lose any. An update that is
marked whole replaces the cache, too, because requests before it may never have been sent. The state of a partition that
is older than the cached one is passed over: a connection that was given up can deliver late.
Source: kafka.server.metadata.ZkMetadataCache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.admin import topic_names
from broker.core.replication.fencing import check_broker_epoch
from broker.model.ids import BrokerId, Epoch
from broker.model.repeats import Repeats
from broker.runtime.metadata.deleted_topic_ids import KEPT, DeletedTopicIds
from broker.runtime.metadata.obeyed_epoch import ObeyedEpoch
from broker.wire.errors import ErrorCode
from broker.wire.messages.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest

_log = logging.getLogger("broker.metadata")

_LEADER_DURING_DELETE = -2
_NO_LEADER = -1
NO_CONTROLLER = -1


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class KnownBroker:
    """A live broker. addresses: by listener name. epoch: of its registration, -1 where Apache Kafka is controller."""

    id: BrokerId
    addresses: Mapping[str, Address]
    rack: str | None
    epoch: int


@dataclass(slots=True)
class KnownTopic:
    """A topic's partitions by index, as the last UpdateMetadata had them."""

    name: str
    topic_id: str
    partitions: dict[int, UpdateMetadataPartitionState] = field(default_factory=dict)
    count: int = 0
    """How many partitions it has: an update may leave out one whose state nobody has written yet, or can read."""

    def take(self, index: int, state: UpdateMetadataPartitionState) -> None:
        """What is known of one of its partitions from now on."""
        self.partitions[index] = state
        self.count = max(self.count, index + 1)


class MetadataCache:
    """Satisfies `replicas.ports.TopicConfigs`; the topics' settings come from TopicConfigCache."""

    def __init__(
        self,
        cluster_id: str,
        listener: str,
        broker_epoch: Callable[[], int],
        overrides: Callable[[str], Mapping[str, str]],
        forget_overrides: Callable[[str], None],
        obeyed: ObeyedEpoch | None = None,
    ) -> None:
        """listener: whose addresses clients and brokers are given. broker_epoch: of this broker's registration.

        obeyed: shared with who takes LeaderAndIsr and StopReplica.
        """
        self._obeyed = obeyed or ObeyedEpoch()
        self.cluster_id = cluster_id
        self.listener = listener
        self.brokers: dict[BrokerId, KnownBroker] = {}
        self.topics: dict[str, KnownTopic] = {}
        self.controller_id: BrokerId = NO_CONTROLLER
        self.controller_epoch: Epoch = -1
        self.generation = 0
        """Counts updates: a result computed at an older generation is out of date."""
        self._assigned: tuple[int, frozenset[BrokerId]] = (0, frozenset())
        """Of which generation, and what `assigned_brokers` found."""
        self._updated_epoch = -1
        self._repeats = Repeats()
        self._names: dict[str, str] = {}
        """Names by topic id, of what `topics` has."""
        self._gone = DeletedTopicIds()
        self._lost: dict[str, str] = {}
        """Ids of topics, by name, that are not known any more, though no update said that they are deleted."""
        self._broker_epoch = broker_epoch
        self._overrides = overrides
        self._forget_overrides = forget_overrides
        self._listeners: list[Callable[[], None]] = []
        self._deletion_listeners: list[Callable[[str], None]] = []
        self._leader_listeners: list[Callable[[str, BrokerId], None]] = []

    @property
    def updated_epoch(self) -> int:
        """Broker epoch of this broker that the last update named; −1 before the first."""
        return self._updated_epoch

    def topic_id(self, topic: str) -> str:
        """The topic's id as of the last update, "" where it is not known. Any thread."""
        known = self.topics.get(topic)
        return "" if known is None else known.topic_id

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Called after every update, and when another broker has become controller."""
        self._listeners.append(listener)

    def add_deletion_listener(self, listener: Callable[[str], None]) -> None:
        """Called with the name of each topic that is deleted, or was and is there again as another one."""
        self._deletion_listeners.append(listener)

    def add_leader_listener(self, listener: Callable[[str, BrokerId], None]) -> None:
        """Called with topic and former leader of each partition that gets another leader, or none."""
        self._leader_listeners.append(listener)

    def update(self, request: UpdateMetadataRequest) -> ErrorCode:
        """Apply an UpdateMetadata; returns why it is refused, NONE where it is applied."""
        error = self._obeyed.check(request.controller_epoch)
        if error is ErrorCode.NONE:
            error = check_broker_epoch(request.broker_epoch, self._broker_epoch())
        if error is not ErrorCode.NONE:
            return error
        first_update = request.controller_epoch != self.controller_epoch or request.broker_epoch != self._updated_epoch
        if first_update:
            self._gone.clear()
        before: Mapping[str, KnownTopic] = {}
        if first_update and request.topic_states:
            self._lose(self.topics.values())
            before, self.topics = self.topics, {}
            self._names.clear()
        self.controller_id = request.controller_id
        self.controller_epoch = request.controller_epoch
        self._obeyed.obey(request.controller_epoch)
        self._updated_epoch = request.broker_epoch
        self.brokers = {
            broker.id: KnownBroker(
                broker.id,
                {e.listener: Address(e.host, e.port) for e in broker.endpoints},
                broker.rack,
                broker.broker_epoch,
            )
            for broker in request.live_brokers
        }
        for state in request.topic_states:
            if topic_names.refusal(state.topic_name) is not None:
                what = "metadata of a topic that cannot be: %.300r"
                self._repeats.log(_log, logging.ERROR, "topic", what, state.topic_name)
                continue
            self._update_topic(state.topic_name, state.topic_id, state.partition_states)
        for name in before.keys() & self.topics.keys():
            self._compare(before[name], self.topics[name])
        if request.whole:
            for name in self.topics.keys() - {state.topic_name for state in request.topic_states}:
                # The topic's id may come back: only a deletion rules that out, and this request may have been late.
                self._lose([self.topics[name]])
                self._drop(name)
        self._changed()
        return ErrorCode.NONE

    def _compare(self, before: KnownTopic, topic: KnownTopic) -> None:
        """Keep the partitions that the update does not name, and find what has another leader."""
        if topic.topic_id and topic.topic_id == before.topic_id:
            for index in before.partitions.keys() - topic.partitions.keys():
                topic.take(index, before.partitions[index])
        for index in before.partitions.keys() & topic.partitions.keys():
            self._compare_leaders(topic.name, before.partitions[index], topic.partitions[index])

    def _changed(self) -> None:
        self.generation += 1
        for listener in self._listeners:
            try:
                listener()
            except Exception:
                # A listener that fails keeps neither the update from being applied nor the controller from its
                # response.
                _log.exception("a listener failed on an update of the metadata")

    def _update_topic(self, name: str, topic_id: str, states: list[UpdateMetadataPartitionState]) -> None:
        if topic_id in self._gone:
            return
        topic = self.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            if topic is not None and topic.topic_id:
                if topic_id:
                    self._gone.add(topic.topic_id)
                    self._deleted(name)
                self._names.pop(topic.topic_id, None)
            if topic_id and (lost := self._lost.pop(name, topic_id)) != topic_id:
                self._gone.add(lost)
                self._deleted(name)
            topic = self.topics[name] = KnownTopic(name, topic_id)
            if topic_id:
                self._names[topic_id] = name
        for state in states:
            known = topic.partitions.get(state.partition_index)
            if state.leader == _LEADER_DURING_DELETE:
                topic.partitions.pop(state.partition_index, None)
            elif known is None or _version(state) >= _version(known):
                topic.take(state.partition_index, state)
                if known is not None:
                    self._compare_leaders(name, known, state)
        if not topic.partitions:
            if topic_id:
                self._gone.add(topic_id)
            self._drop(name)
            self._deleted(name)

    def _compare_leaders(
        self, name: str, known: UpdateMetadataPartitionState, state: UpdateMetadataPartitionState
    ) -> None:
        if known.leader not in (state.leader, _NO_LEADER):
            for listener in self._leader_listeners:
                listener(name, known.leader)

    def _lose(self, topics: Iterable[KnownTopic]) -> None:
        """They may have been deleted, of which this broker was not told: another id of the same name will show it."""
        for topic in topics:
            if topic.topic_id:
                self._lost[topic.name] = topic.topic_id
        while len(self._lost) > KEPT:
            del self._lost[next(iter(self._lost))]

    def _deleted(self, name: str) -> None:
        for listener in self._deletion_listeners:
            listener(name)

    def _drop(self, name: str) -> None:
        self._names.pop(self.topics.pop(name).topic_id, None)
        self._forget_overrides(name)

    def controller_moved(self, broker: BrokerId | None) -> None:
        """`/controller` as this broker saw it; UpdateMetadata of that controller follows."""
        found = NO_CONTROLLER if broker is None else broker
        if found != self.controller_id:
            self.controller_id = found
            self._changed()

    def name_of(self, topic_id: str) -> str | None:
        """The topic of this id; None for one that no update named, or that is deleted."""
        return self._names.get(topic_id)

    def address(self, broker: BrokerId) -> Address | None:
        """Where brokers and clients reach a live broker; None for others."""
        known = self.brokers.get(broker)
        return None if known is None else known.addresses.get(self.listener)

    def endpoint_of(self, broker: BrokerId) -> tuple[str, int, str | None] | None:
        """(host, port, rack) of a live broker that has our listener; None for others."""
        known = self.brokers.get(broker)
        address = None if known is None else known.addresses.get(self.listener)
        return None if known is None or address is None else (*address, known.rack)

    def assigned_brokers(self) -> frozenset[BrokerId]:
        """All brokers that hold a replica of some partition, live or not."""
        generation, assigned = self._assigned
        if generation != self.generation:
            assigned = frozenset(
                broker
                for topic in self.topics.values()
                for state in topic.partitions.values()
                for broker in state.replicas
            )
            self._assigned = (self.generation, assigned)
        return assigned

    def alive(self) -> list[tuple[KnownBroker, Address]]:
        """Live brokers that have our listener, by id."""
        return [
            (broker, broker.addresses[self.listener])
            for _, broker in sorted(self.brokers.items())
            if self.listener in broker.addresses
        ]

    def has_leaders(self, topic: str, partitions: int) -> bool:
        """Whether all partitions, [0, partitions), have a live leader."""
        known = self.topics.get(topic)
        return known is not None and all(
            index in known.partitions and known.partitions[index].leader in self.brokers for index in range(partitions)
        )

    # TopicConfigs

    def overrides(self, topic: str) -> Mapping[str, str]:
        """The topic's own settings, by Kafka's names; none where it has none."""
        return self._overrides(topic)

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether an update has named this partition, with a leader or without."""
        known = self.topics.get(topic)
        return known is not None and partition in known.partitions

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has, 0 where it is not known."""
        known = self.topics.get(topic)
        return 0 if known is None else known.count

    def leader_of(self, topic: str, partition: int) -> tuple[BrokerId, int]:
        """(leader, leader epoch) of the last update; leader −1 where nobody leads, (−1, −1) where it is not known."""
        known = self.topics.get(topic)
        state = known.partitions.get(partition) if known is not None else None
        return (-1, -1) if state is None else (state.leader, state.leader_epoch)

    def live_brokers(self) -> Collection[BrokerId] | None:
        """Brokers that the controller counted as live at its last update; None before the first."""
        return self.brokers.keys() if self.controller_epoch >= 0 else None


def _version(state: UpdateMetadataPartitionState) -> tuple[int, int]:
    return state.leader_epoch, state.zk_version
