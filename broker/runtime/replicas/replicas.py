"""The replicas of this broker, found by partition, by topic and by topic id, and which of them the end of a turn has to
look at.

All handlers share this registry: they look replicas up, let watermarks rise and take replicas offline through it. It
holds whether this broker may still lead, by its own clock. Knows no request and no other broker: what must happen
elsewhere when a replica goes offline is a callback of ReplicaManager, which composes all parts.
Source: kafka.server.ReplicaManager (allPartitions, HostedPartition).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.core.replication.leader import Leader
from broker.model.grouped import Grouped
from broker.model.ids import BrokerId, TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed, LogUnread
from broker.runtime.event_log import EventLog, leos_field
from broker.runtime.ports import Loop
from broker.runtime.replicas.ports import TopicConfigs
from broker.runtime.replicas.replica import Replica
from broker.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

OnOffline = Callable[[Replica, LogDirFailed | CorruptLog], None]
"""Called with a replica that has just gone offline and the failure."""


class Replicas:
    """`by_partition` is keyed by (topic, partition); a TopicPartition is such a key."""

    def __init__(
        self,
        broker_id: BrokerId,
        loop: Loop,
        event_log: EventLog | None,
        topic_configs: TopicConfigs,
        session_deadline_ms: Callable[[], float],
        on_offline: OnOffline,
    ) -> None:
        """session_deadline_ms: when, by the loop's clock, this broker's registration may be over."""
        self.broker_id = broker_id
        self.topic_configs = topic_configs
        self.by_partition: dict[tuple[str, int], Replica] = {}
        self.by_topic: Grouped[TopicPartition, Replica] = Grouped()
        self.live_brokers: set[BrokerId] | None = None
        """None before the first UpdateMetadata."""
        self.locally_fenced = False
        """As last noted: `fenced_now` looks at the clock first."""
        self.stopped = False
        """The broker shuts down, or is dead: periodic duties and repetitions end."""
        self.dirty: list[Replica] = []
        """Leaders' replicas with appends that this turn staged."""
        self.advanced: dict[int, Replica] = {}
        """Replicas whose watermark rose in this turn, by identity."""
        self.touched: dict[int, Replica] = {}
        """Replicas whose waiting appends the end of this turn looks at, by identity."""
        self._loop = loop
        self._fenced_since_ms = 0.0
        self._fenced_ms = 0.0
        self._event_log = event_log
        self._session_deadline_ms = session_deadline_ms
        self._on_offline = on_offline
        self._topics_by_id: dict[str, str] = {}
        self._of_id: Grouped[TopicPartition, Replica] = Grouped()

    # -- who is here -----------------------------------------------------------------------------------------------

    def add(self, replica: Replica) -> None:
        """Let requests find the replica, by its topic id too if its log has one."""
        topic_partition = replica.topic_partition
        self.by_partition[topic_partition] = replica
        self.by_topic.add(topic_partition.topic, topic_partition, replica)
        self.learn_topic_id(replica)

    def learn_topic_id(self, replica: Replica) -> None:
        """Fetches name topics by id: called again where a log gets its id later than it was added."""
        if replica.topic_id:
            self._topics_by_id[replica.topic_id] = replica.topic_partition.topic
            self._of_id.add(replica.topic_id, replica.topic_partition, replica)

    def remove(self, replica: Replica) -> bool:
        """Let no request find the replica any more. True when it was the last one of its topic here."""
        topic_partition = replica.topic_partition
        self.by_partition.pop(topic_partition, None)
        # Where a topic was deleted and made anew, replicas of both may be here.
        if self._of_id.remove(replica.topic_id, topic_partition):
            self._topics_by_id.pop(replica.topic_id, None)
        return self.by_topic.remove(topic_partition.topic, topic_partition)

    def topic_of_id(self, topic_id: str) -> str:
        """The name of a topic that has a replica here, "" for any other id."""
        return self._topics_by_id.get(topic_id, "")

    def unhosted_error(self, topic: str, partition: int) -> ErrorCode:
        """Why a partition without a replica here cannot be served: another broker has it, or none."""
        if self.topic_configs.has_partition(topic, partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def leads_replicated(self) -> bool:
        """Whether this broker leads a partition that another could lead."""
        roles = (replica.leader for replica in self.by_partition.values())
        return any(role is not None and len(role.replicas) > 1 for role in roles)

    # -- what may be accepted and committed ------------------------------------------------------------------------

    def fenced_now(self) -> bool:
        """Whether the session may be over now. Called wherever it counts, for a timer would notice too late."""
        if not self.locally_fenced and self._loop.now_ms() >= self._session_deadline_ms():
            self.set_session_deadline_passed(True)
        return self.locally_fenced

    def set_session_deadline_passed(self, passed: bool) -> None:
        """By the local monotonic clock the ZooKeeper session may be over: accept and commit nothing until it is not.

        Reads of what is committed go on. Safety does not rest on this: a deposed leader's ISR changes are refused and
        its followers leave it; local fencing only ends the wait earlier.
        """
        if passed == self.locally_fenced:
            return
        self.locally_fenced = passed
        if passed:
            self._fenced_since_ms = self._loop.now_ms()
        else:
            self._fenced_ms += self._loop.now_ms() - self._fenced_since_ms
        logger.warning("session deadline passed: %s", passed)
        if not passed:
            for replica in self.by_partition.values():
                role = replica.leader
                if role is not None:
                    self.maybe_advance(replica, role)

    def serving_ms(self) -> float:
        """A clock that goes as the loop's does, and stands still while this broker is locally fenced."""
        now_ms = self._fenced_since_ms if self.fenced_now() else self._loop.now_ms()
        return now_ms - self._fenced_ms

    def maybe_advance(self, replica: Replica, role: Leader) -> None:
        """Let the watermark rise if it may; waits are completed at the end of the turn."""
        if self.fenced_now() or not role.maybe_advance_high_watermark(self._loop.now_ms()):
            return
        if self._event_log is not None:
            self._event_log.emit(
                "hw",
                p=replica.event_name,
                le=role.leader_epoch,
                role="leader",
                hw=role.high_watermark,
                isr=sorted(role.isr.committed),
                maximal=sorted(role.isr.maximal),
                leos=leos_field(role.leos()),
            )
        self.advanced[id(replica)] = replica

    def settle_later(self, replica: Replica) -> None:
        """Look at this partition's waiting appends at the end of the turn."""
        self.touched[id(replica)] = replica

    def take_offline(self, replica: Replica, failure: LogDirFailed | CorruptLog) -> None:
        """This replica's files failed: it serves nothing more, and gives up its role.

        A damaged log comes back from its leader once it is out of the ISR, one that could not be read with
        `ReplicaHosting.read_again`; a failed dir needs a restart.
        """
        if replica.offline:
            return
        logger.error("%s: replica goes offline: %s", replica.name, failure)
        replica.offline = True
        # What this turn staged is not written any more, and lies in buffers that later requests will fill.
        replica.log.discard_staged()
        replica.unread = (failure, self._loop.now_ms()) if isinstance(failure, LogUnread) else None
        replica.damaged = isinstance(failure, CorruptLog) and not replica.unread
        self._on_offline(replica, failure)
