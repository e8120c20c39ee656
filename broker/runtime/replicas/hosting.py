"""A log becomes a replica of this broker, and ceases to be one; its settings follow its topic's.

Source: ReplicaManager.getOrCreatePartition, LogManager.getOrCreateLog; Partition.updateAssignmentAndIsr.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from broker.config.settings import Settings, topic_bool, topic_int, topic_text
from broker.core.replication.fencing import NO_EPOCH
from broker.model.ids import Epoch, Offset
from broker.runtime.event_log import EventLog
from broker.runtime.ports import Log, LogStore, Loop
from broker.runtime.replicas.append_policy import AppendPolicy
from broker.runtime.replicas.group_commit import GroupCommit
from broker.runtime.replicas.ports import TopicConfigs
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.replicas.replication_quotas import ReplicationQuotas

logger = logging.getLogger(__name__)

READ_AGAIN_MS: Final = 30_000.0
"""After a log could not be read: the controller is told at once, and speaks of the replica at once."""


class ReplicaHosting:
    """Adds replicas to the registry, configures them, and takes them out."""

    def __init__(
        self,
        replicas: Replicas,
        settings: Settings,
        loop: Loop,
        log_store: LogStore,
        event_log: EventLog | None,
        topic_configs: TopicConfigs,
        quotas: ReplicationQuotas,
        group_commit: GroupCommit,
    ) -> None:
        self._replicas = replicas
        self._settings = settings
        self._loop = loop
        self._log_store = log_store
        self._event_log = event_log
        self._topic_configs = topic_configs
        self._quotas = quotas
        self._group_commit = group_commit

    def adopt(self, log: Log, high_watermark: Offset, clean: bool, known_epoch: Epoch = NO_EPOCH) -> Replica:
        """A replica for an open log, without a role. clean: it was new, or closed in good order.

        known_epoch: the newest in which it may have led before this start, where the log does not say so.

        Raises CorruptLog and LogDirFailed where the log cannot be read; the replica is in the registry all the same.
        """
        replica = Replica(self._replicas.broker_id, log, high_watermark)
        replica.partition.known_epoch = max(replica.partition.known_epoch, known_epoch)
        if self._event_log is not None:
            topic, partition = replica.topic_partition
            replica.event_name = self._event_log.partition_name(topic, partition, log.topic_id)
        self._replicas.add(replica)
        log.restore_producers()
        log.producers.expire(self._loop.now_ms(), self._settings.producer_id_expiration_ms)
        self.configure(replica)
        if self._event_log is not None:
            self._event_log.emit(
                "recovered",
                p=replica.event_name,
                log_start=log.log_start_offset,
                leo=log.staged_end_offset,
                hw=replica.high_watermark,
                clean=clean,
            )
        return replica

    def read_again(self, replica: Replica) -> bool:
        """Whether a replica that went offline because its log could not be read serves from now on: there may be a
        descriptor, or a codec. Raises as `adopt`; the replica has to go offline again then.
        """
        if replica.unread is None:
            return False
        unread, since_ms = replica.unread
        if self._loop.now_ms() - since_ms < READ_AGAIN_MS or not unread.may_be_over():
            return False
        replica.offline, replica.unread = False, None
        replica.log.restore_producers()
        replica.log.producers.expire(self._loop.now_ms(), self._settings.producer_id_expiration_ms)
        logger.warning("%s: its log can be read again", replica.name)
        return True

    def forget(self, replica: Replica) -> None:
        """The replica is no longer this broker's; what becomes of its log is the caller's business."""
        self._group_commit.forget(replica)
        if self._replicas.remove(replica):
            self._quotas.set_topic(replica.topic_partition.topic, {})

    def configure(self, replica: Replica) -> None:
        """Take a replica's settings from its topic's overrides and the broker's defaults."""
        settings = self._settings
        overrides = self._topic_configs.overrides(replica.topic_partition.topic)
        self._quotas.set_topic(replica.topic_partition.topic, overrides)
        replica.min_insync_replicas = topic_int(overrides, settings, "min.insync.replicas")
        replica.max_batch_bytes = topic_int(overrides, settings, "max.message.bytes")
        policies = topic_text(overrides, settings, "cleanup.policy")
        replica.compacted, replica.deletes_records = "compact" in policies, "delete" in policies
        replica.append_policy = AppendPolicy.of(overrides, settings)
        replica.unclean = topic_bool(overrides, settings, "unclean.leader.election.enable")
        replica.group_commit = topic_text(overrides, settings, "flush.policy") == "group-commit"
        self._group_commit.note(replica)

    def on_topic_config(self, topic: str) -> None:
        """A topic's overrides changed."""
        self._log_store.update_config(topic, self._topic_configs.overrides(topic))
        self._reconfigure(topic)

    def on_defaults(self, known: Callable[[str], bool]) -> None:
        """What topics without overrides have changed; the log store knows. known: whether a topic's were read."""
        for topic in list(self._replicas.by_topic):
            # Where nothing has been read yet its first role brings all.
            if known(topic):
                self._reconfigure(topic)

    def _reconfigure(self, topic: str) -> None:
        for replica in self._replicas.by_topic.of(topic):
            self.configure(replica)
            role = replica.leader
            if role is not None:
                role.min_insync_replicas = replica.min_insync_replicas
                self._replicas.maybe_advance(replica, role)
