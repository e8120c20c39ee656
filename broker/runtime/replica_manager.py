"""All replicas of this broker, and the turn's order of duties.

Handlers stage appends and count fetches; `end_of_turn`, a before-send hook of the loop, then writes every dirty log
once, moves LEOs and watermarks, completes what waited for them, lets the fetchers send, and hands the event log's
lines to the kernel. Only after that does the net send: whatever is answered is in the files, and in the event log.
Roles change in `state_changes`. The rules are in `broker.core`; nothing here decides who is in sync or committed.
Source: kafka.server.ReplicaManager.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection

from broker.config.settings import Settings, topic_bool, topic_int, topic_text
from broker.core.replication.leader import Leader
from broker.model.grouped import Grouped
from broker.model.ids import BrokerId, Offset, TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed, ProducersUnread
from broker.runtime.event_log import EventLog, leos_field
from broker.runtime.fetch.handler import FetchHandler
from broker.runtime.fetch.offset_requests import OffsetsHandler
from broker.runtime.follower.fetcher_manager import FollowerLogs
from broker.runtime.follower.replica_fetcher import Fetcher
from broker.runtime.ports import Log, LogStore, Loop, Peer, Timer
from broker.runtime.produce.handler import ProduceHandler
from broker.runtime.produce.producer_ids import ProducerIdHandler
from broker.runtime.replicas.append_policy import AppendPolicy
from broker.runtime.replicas.delete_records import DeleteRecordsHandler
from broker.runtime.replicas.group_commit import GroupCommit
from broker.runtime.replicas.isr_manager import IsrChanges
from broker.runtime.replicas.ports import AlterPartitionSender, ProducerIdSource, TopicConfigs
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replication_quotas import ReplicationThrottle
from broker.runtime.replicas.role_changes import StateChanges
from broker.runtime.requests.request import Request
from broker.wire.errors import ErrorCode
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from broker.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

logger = logging.getLogger(__name__)

_GONE_CLIENTS_MS = 10_000.0

Peers = Callable[[BrokerId], Peer | None]
"""The fetch connection to a broker, made on first use with this broker's fetcher client id; None: address unknown."""


class ReplicaManager:
    """Composition root of replication. `replicas` is keyed by (topic, partition)."""

    def __init__(
        self,
        settings: Settings,
        loop: Loop,
        log_store: LogStore,
        event_log: EventLog | None,
        alter_partition: AlterPartitionSender,
        peers: Peers,
        topic_configs: TopicConfigs,
        producer_ids: ProducerIdSource,
        broker_epoch: Callable[[], int],
        on_log_failure: Callable[[LogDirFailed | CorruptLog], None] = lambda failure: None,
        session_deadline_ms: Callable[[], float] = lambda: math.inf,
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        """broker_epoch: czxid of this broker's registration. on_log_failure: a replica went offline for it.

        session_deadline_ms: when, by the loop's clock, that registration may be over. wall_ms: ms since 1970, for
        timestamps of records and nothing else.
        """
        self.settings = settings
        self.broker_id = settings.broker_id
        self.loop = loop
        self.log_store = log_store
        self.event_log = event_log
        self.peers = peers
        self.topic_configs = topic_configs
        self.broker_epoch = broker_epoch
        self.wall_ms = wall_ms
        self.truncates_by_epoch = settings.replica_truncation == "leader-epoch"
        self.replicas: dict[tuple[str, int], Replica] = {}
        self.live_brokers: set[BrokerId] | None = None
        self.frozen = False
        """The session's deadline has passed on this broker's own clock: it leads no more until it hears otherwise."""
        self.stopped = False
        self.dirty: list[Replica] = []
        self._advanced: dict[int, Replica] = {}
        self._touched: dict[int, Replica] = {}
        self._wakes: dict[int, Fetcher] = {}
        self._of_topic: Grouped[TopicPartition, Replica] = Grouped()
        self._topics_by_id: dict[str, str] = {}
        self._of_id: Grouped[TopicPartition, Replica] = Grouped()
        self._timers: dict[str, Timer] = {}
        self._on_log_failure = on_log_failure
        self._session_deadline_ms = session_deadline_ms
        self.group_commit = GroupCommit(self)
        self.throttle = ReplicationThrottle(
            self.broker_id, settings.replication_quota_window_num, settings.replication_quota_window_size_seconds * 1000
        )
        self.isr_changes = IsrChanges(self, alter_partition)
        self.produce = ProduceHandler(self)
        self.fetch = FetchHandler(self)
        self.offsets = OffsetsHandler(self)
        self.delete_records = DeleteRecordsHandler(self)
        self.producer_ids = ProducerIdHandler(producer_ids)
        self.follower_logs = FollowerLogs(self)
        self.state_changes = StateChanges(self)

    # -- life ------------------------------------------------------------------------------------------------------

    def startup(self) -> None:
        """Take over the logs that are there, without any role, and start the periodic duties."""
        high_watermarks = self.log_store.high_watermarks()
        reports = {report.topic_partition: report.clean for report in getattr(self.log_store, "reports", ())}
        for topic_partition, log in self.log_store.logs().items():
            try:
                self.adopt(log, high_watermarks.get(topic_partition, 0), reports.get(topic_partition, False))
            except (CorruptLog, LogDirFailed) as failure:
                self.take_offline(self.replicas[topic_partition], failure)
        settings = self.settings
        self._every("isr-expiration", settings.replica_lag_time_max_ms / 2, self.isr_changes.shrink_late)
        self._every(
            "high-watermark-checkpoint",
            settings.replica_high_watermark_checkpoint_interval_ms,
            self.checkpoint_high_watermarks,
        )
        self._every(
            "recovery-point-checkpoint",
            settings.log_flush_offset_checkpoint_interval_ms,
            self.log_store.checkpoint_recovery_points,
        )
        self._every(
            "log-start-checkpoint",
            settings.log_flush_start_offset_checkpoint_interval_ms,
            self.log_store.checkpoint_log_start_offsets,
        )
        self._every("producer-expiry", settings.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._every("gone-clients", _GONE_CLIENTS_MS, self._drop_gone)

    def shutdown(self, clean: bool) -> None:
        """Give up all roles and waits, write the last checkpoints if clean. The log store stays open for its owner."""
        self.end_of_turn()
        self.stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if clean:
            for replica in self.replicas.values():
                if not replica.offline:
                    try:
                        replica.snapshot_producers(self.loop.now_ms())
                    except LogDirFailed as failure:
                        self.take_offline(replica, failure)
            self.checkpoint_high_watermarks()
        self.resign_all()
        self.end_of_turn()

    def adopt(self, log: Log, high_watermark: Offset, clean: bool) -> Replica:
        """A replica for an open log, without a role. clean: it was new, or closed in good order.

        Raises CorruptLog and LogDirFailed where the log cannot be read; the replica is among `replicas` all the same.
        """
        replica = Replica(self.broker_id, log, high_watermark)
        replica.watch_rolls(self.loop.now_ms)
        self.replicas[log.topic_partition] = replica
        self._of_topic.add(log.topic_partition.topic, log.topic_partition, replica)
        self.learn_topic_id(replica)
        now_ms = self.loop.now_ms()
        replica.restore_producers(now_ms)
        replica.producers.expire(now_ms, self.settings.producer_id_expiration_ms)
        self.configure(replica)
        if self.event_log is not None:
            self.event_log.emit(
                "recovered",
                p=replica.name,
                log_start=log.log_start_offset,
                leo=log.leo,
                hw=replica.high_watermark,
                clean=clean,
            )
        return replica

    def learn_topic_id(self, replica: Replica) -> None:
        """Fetches name topics by id."""
        if replica.topic_id:
            self._topics_by_id[replica.topic_id] = replica.topic_partition.topic
            self._of_id.add(replica.topic_id, replica.topic_partition, replica)

    def forget(self, replica: Replica) -> None:
        """It is no longer this broker's; its log is the caller's business."""
        self.replicas.pop(replica.topic_partition, None)
        self.group_commit.forget(replica)
        topic, topic_id = replica.topic_partition.topic, replica.topic_id
        # Where a topic was deleted and made anew, replicas of both may be here.
        if self._of_id.remove(topic_id, replica.topic_partition):
            self._topics_by_id.pop(topic_id, None)
        if self._of_topic.remove(topic, replica.topic_partition):
            self.throttle.set_topic(topic, {})

    # -- requests --------------------------------------------------------------------------------------------------

    def handle_produce(self, request: Request) -> None:
        self.produce.handle(request)

    def handle_fetch(self, request: Request) -> None:
        self.fetch.handle(request)

    def handle_list_offsets(self, request: Request) -> None:
        self.offsets.handle_list_offsets(request)

    def handle_offset_for_leader_epoch(self, request: Request) -> None:
        self.offsets.handle_offset_for_leader_epoch(request)

    def handle_delete_records(self, request: Request) -> None:
        self.delete_records.handle(request)

    def handle_init_producer_id(self, request: Request) -> None:
        self.producer_ids.handle(request)

    def apply_leader_and_isr(self, request: LeaderAndIsrRequest, api_version: int) -> LeaderAndIsrResponse:
        return self.state_changes.apply_leader_and_isr(request, api_version)

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        return self.state_changes.stop_replicas(request)

    def unhosted_error(self, topic: str, partition: int) -> ErrorCode:
        """Why a partition that is not here cannot be served: someone else has it, or nobody."""
        if self.topic_configs.has_partition(topic, partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def topic_of_id(self, topic_id: str) -> str:
        """The name of a topic that has a replica here, "" for any other id."""
        return self._topics_by_id.get(topic_id, "")

    # -- what the rest of the broker tells -------------------------------------------------------------------------

    def on_live_brokers(self, brokers: Collection[BrokerId]) -> None:
        """UpdateMetadata's brokers: only they may join an ISR. Fetchers that waited for an address try again."""
        self.live_brokers = set(brokers)
        for replica in self.replicas.values():
            role = replica.leader
            if role is not None:
                role.alive = self.live_brokers
                # A joiner that died is not waited for any more, nor is a replica that should delete records.
                self.maybe_advance(replica, role)
                self.delete_records.on_follower(replica, role)
        self.follower_logs.retry_all()

    def on_topic_config(self, topic: str) -> None:
        """A topic's overrides changed."""
        self.log_store.update_config(topic, self.topic_configs.overrides(topic))
        self._reconfigure(topic)

    def on_defaults(self, known: Callable[[str], bool]) -> None:
        """What topics without overrides have changed; the log store knows. known: whether a topic's were read."""
        for topic in list(self._of_topic):
            # Where nothing has been read yet its first role brings all.
            if known(topic):
                self._reconfigure(topic)

    def _reconfigure(self, topic: str) -> None:
        for replica in self._of_topic.of(topic):
            self.configure(replica)
            role = replica.leader
            if role is not None:
                role.min_insync_replicas = replica.min_insync_replicas
                self.maybe_advance(replica, role)

    def configure(self, replica: Replica) -> None:
        """Take a replica's settings from its topic's overrides and the broker's defaults."""
        overrides = self.topic_configs.overrides(replica.topic_partition.topic)
        self.throttle.set_topic(replica.topic_partition.topic, overrides)
        replica.min_insync_replicas = topic_int(overrides, self.settings, "min.insync.replicas")
        replica.max_batch_bytes = topic_int(overrides, self.settings, "max.message.bytes")
        policies = topic_text(overrides, self.settings, "cleanup.policy")
        replica.compacted, replica.deletes_records = "compact" in policies, "delete" in policies
        replica.append_policy = AppendPolicy.of(overrides, self.settings)
        replica.unclean = topic_bool(overrides, self.settings, "unclean.leader.election.enable")
        replica.group_commit = topic_text(overrides, self.settings, "flush.policy") == "group-commit"
        self.group_commit.note(replica)

    @property
    def stands_still(self) -> bool:
        """Whether the session may be over now. Asked where it counts, for a timer would notice too late."""
        if not self.frozen and self.loop.now_ms() >= self._session_deadline_ms():
            self.set_session_deadline_passed(True)
        return self.frozen

    def set_session_deadline_passed(self, passed: bool) -> None:
        """By the local monotonic clock the ZooKeeper session may be over: accept and commit nothing until it is not.

        Reads of what is committed go on. Safety does not rest on this: a deposed leader's ISR changes are refused and
        its followers leave it; it only ends the wait earlier.
        """
        if passed == self.frozen:
            return
        self.frozen = passed
        logger.warning("session deadline passed: %s", passed)
        if not passed:
            for replica in self.replicas.values():
                role = replica.leader
                if role is not None:
                    self.maybe_advance(replica, role)

    def leads_replicated(self) -> bool:
        """Whether this broker leads a partition that another could lead."""
        return any(role is not None and len(role.replicas) > 1 for role in (r.leader for r in self.replicas.values()))

    def resign_all(self) -> None:
        """The registration is gone: every role was granted to it, so none holds. LeaderAndIsr will grant new ones."""
        for replica in self.replicas.values():
            self.state_changes.drop_role(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.follower_logs.close()

    # -- the turn --------------------------------------------------------------------------------------------------

    def end_of_turn(self) -> None:
        """Write, advance, complete, fetch, log: see the module's docstring."""
        if self.dirty:
            dirty, self.dirty = self.dirty, []
            for replica in dirty:
                self.write(replica)
        self.group_commit.finish_turn()
        if self._advanced:
            advanced, self._advanced = self._advanced, {}
            for replica in advanced.values():
                self.fetch.on_high_watermark(replica)
            self._touched.update(advanced)
        if self._touched:
            touched, self._touched = self._touched, {}
            for replica in touched.values():
                role = replica.partition.role
                if isinstance(role, Leader):
                    self.produce.on_committed(replica, role)
        self.produce.finish_turn()
        self.fetch.finish_turn()
        if self._wakes:
            wakes, self._wakes = self._wakes, {}
            for fetcher in wakes.values():
                fetcher.maybe_send()
        if self.event_log is not None:
            self.event_log.flush()

    def write(self, replica: Replica) -> None:
        """Put a leader's staged appends in its file, and let them count."""
        if not replica.dirty:
            return
        replica.dirty = False
        if replica.offline:
            return
        log = replica.log
        base = log.written_leo
        try:
            log.write()
        except (LogDirFailed, CorruptLog) as failure:
            # Damaged: the flush that a roll begins looks at the segments before it, too.
            self.take_offline(replica, failure)
            return
        role = replica.partition.role
        assert isinstance(role, Leader), "only a leader's appends are staged over a turn"
        if self.event_log is not None:
            self.event_log.emit(
                "append", p=replica.name, le=role.leader_epoch, role="leader", base=base, last=log.written_leo - 1
            )
        if replica.group_commit:
            self.group_commit.note(replica)
        # With group commit this is what was flushed before, and all of it where `flush.messages` made the write flush.
        role.advance_leo(max(role.leo, replica.replicated_leo))
        self.maybe_advance(replica, role)
        self.fetch.on_append(replica)

    def maybe_advance(self, replica: Replica, role: Leader) -> None:
        """Let the watermark rise if it may; waits are completed at the end of the turn."""
        if self.stands_still or not role.maybe_advance_high_watermark(self.loop.now_ms()):
            return
        if self.event_log is not None:
            self.event_log.emit(
                "hw",
                p=replica.name,
                le=role.leader_epoch,
                role="leader",
                hw=role.high_watermark,
                isr=sorted(role.isr.committed),
                maximal=sorted(role.isr.maximal),
                leos=leos_field(role.leos()),
            )
        self._advanced[id(replica)] = replica

    def settle_later(self, replica: Replica) -> None:
        """Look at this partition's waiting appends at the end of the turn."""
        self._touched[id(replica)] = replica

    def wake_fetcher(self, fetcher: Fetcher) -> None:
        """Let it send at the end of this turn, after the log writes."""
        self._wakes[id(fetcher)] = fetcher

    def log_isr_commit(self, replica: Replica, role: Leader) -> None:
        if self.event_log is not None:
            self.event_log.emit(
                "isr_commit",
                p=replica.name,
                le=role.leader_epoch,
                pe=role.isr.partition_epoch,
                isr=sorted(role.isr.committed),
            )

    # -- failures and periodic duties ------------------------------------------------------------------------------

    def take_offline(self, replica: Replica, failure: LogDirFailed | CorruptLog) -> None:
        """This replica's files failed: it serves nothing more.

        A damaged log comes back from its leader once it is out of the ISR; a failed dir needs a restart, and so does a
        log whose producers could not be read.
        """
        if replica.offline:
            return
        logger.error("%s: replica goes offline: %s", replica.name, failure)
        replica.offline = True
        # What this turn staged is not written any more, and lies in buffers that later requests will fill.
        replica.log.discard_staged()
        replica.damaged = isinstance(failure, CorruptLog) and not isinstance(failure, ProducersUnread)
        self.group_commit.forget(replica)
        self.state_changes.drop_role(replica, ErrorCode.KAFKA_STORAGE_ERROR)
        self._on_log_failure(failure)

    def on_log_dir_failed(self, failure: LogDirFailed) -> None:
        """Every replica in that dir goes offline."""
        for replica in list(self.replicas.values()):
            if getattr(replica.log, "directory", None) == failure.log_dir:
                self.take_offline(replica, failure)

    def checkpoint_high_watermarks(self) -> None:
        """Hand the watermarks of all sound replicas to the log store."""
        self.log_store.checkpoint_high_watermarks(
            {r.topic_partition: r.high_watermark for r in self.replicas.values() if not r.offline}
        )

    def _drop_gone(self) -> None:
        self.fetch.drop_gone()
        self.produce.drop_gone()

    def _expire_producers(self) -> None:
        now = self.loop.now_ms()
        for replica in self.replicas.values():
            replica.producers.expire(now, self.settings.producer_id_expiration_ms)

    def _every(self, name: str, interval_ms: float, duty: Callable[[], None]) -> None:
        def run() -> None:
            if self.stopped:
                return
            self._timers[name] = self.loop.call_later(interval_ms, run)
            duty()

        self._timers[name] = self.loop.call_later(interval_ms, run)
