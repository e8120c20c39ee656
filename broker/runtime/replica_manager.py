"""All replicas of this broker, and the turn's order of duties.

Handlers stage appends and count fetches; `end_of_turn`, a before-send hook of the loop, then writes every dirty log
once, moves LEOs and watermarks, completes what waited for them, lets the fetchers send, and hands the event log's lines
to the kernel. Only after that does the net send: whatever a response rests on is in the files, and in the event log.
Roles change in `replicas.role_changes`. The rules are in `broker.core`; nothing here decides who is in sync or what is
committed.
Source: kafka.server.ReplicaManager.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection

from broker.config.settings import Settings
from broker.core.replication.fencing import NO_EPOCH
from broker.core.replication.leader import Leader
from broker.model.ids import BrokerId
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.event_log import EventLog
from broker.runtime.fetch.handler import FetchHandler
from broker.runtime.fetch.offset_requests import OffsetsHandler
from broker.runtime.follower.fetcher_manager import Peers, ReplicaFetcherManager
from broker.runtime.follower.response_processor import ResponseProcessor
from broker.runtime.metadata.obeyed_epoch import ObeyedEpoch
from broker.runtime.ports import LogStore, Loop, Timer
from broker.runtime.produce.describe_producers import DescribeProducersHandler
from broker.runtime.produce.handler import ProduceHandler
from broker.runtime.produce.producer_ids import ProducerIdHandler
from broker.runtime.replicas.append import Appender
from broker.runtime.replicas.controller_fence import ControllerFence
from broker.runtime.replicas.delete_records import DeleteRecordsHandler
from broker.runtime.replicas.group_commit import GroupCommit
from broker.runtime.replicas.hosting import ReplicaHosting
from broker.runtime.replicas.isr_manager import IsrManager
from broker.runtime.replicas.ports import AlterPartitionSender, ProducerIdSource, TopicConfigs
from broker.runtime.replicas.remade_logs import RemadeLogs
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.replicas.replication_quotas import ReplicationQuotas
from broker.runtime.replicas.resignation import Resignation
from broker.runtime.replicas.role_changes import RoleChanges
from broker.runtime.replicas.transaction_gate import TransactionGate
from broker.runtime.replicas.truncation import ReplicaTruncation
from broker.runtime.requests.request import Request
from broker.wire.errors import ErrorCode
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from broker.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

logger = logging.getLogger(__name__)

_GONE_CLIENTS_MS = 10_000.0


def _begin_a_turn() -> None:
    """Does nothing: the loop only has to wake up, and end a turn."""


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
        obeyed: ObeyedEpoch | None = None,
    ) -> None:
        """broker_epoch: czxid of this broker's registration. on_log_failure: a replica went offline for it.

        session_deadline_ms: when, by the loop's clock, that registration may be over. wall_ms: ms since 1970, for
        timestamps of records and nothing else. obeyed: shared with who takes UpdateMetadata.
        """
        self.settings = settings
        self._loop = loop
        self._log_store = log_store
        self._event_log = event_log
        self._timers: dict[str, Timer] = {}
        self._role_listeners: list[Callable[[Replica], None]] = []
        self._on_log_failure = on_log_failure
        broker_id = settings.broker_id
        self.replicas = Replicas(
            broker_id, loop, event_log, topic_configs, session_deadline_ms, self._on_replica_offline
        )
        window_ms = settings.replication_quota_window_size_seconds * 1000
        self.quotas = ReplicationQuotas(broker_id, settings.replication_quota_window_num, window_ms)
        self.group_commit = GroupCommit(self.replicas, event_log, self._on_follower_flushed)
        self.hosting = ReplicaHosting(
            self.replicas, settings, loop, log_store, event_log, topic_configs, self.quotas, self.group_commit
        )
        self.isr_manager = IsrManager(self.replicas, loop, event_log, alter_partition, settings.replica_lag_time_max_ms)
        self.appender = Appender(self.replicas, loop, event_log, wall_ms)
        self.delete_records = DeleteRecordsHandler(self.replicas, loop, log_store, self.on_log_start)
        self.appender.verifies_transactions = settings.transactions.verification
        self.gate = TransactionGate(self.replicas, loop, settings.transactions.verification)
        self.produce = ProduceHandler(self.replicas, self.appender, self.gate)
        self.fetch = FetchHandler(
            self.replicas, settings, loop, event_log, self.quotas, self.isr_manager, self.delete_records
        )
        self.offsets = OffsetsHandler(self.replicas, event_log)
        self.producer_ids = ProducerIdHandler(producer_ids)
        self.describe_producers = DescribeProducersHandler(self.replicas, loop, wall_ms)
        self.remade_logs = RemadeLogs(broker_epoch)
        truncation = ReplicaTruncation(broker_id, loop, log_store, event_log, self.remade_logs)
        self.fetchers = ReplicaFetcherManager(
            self.replicas,
            settings,
            loop,
            event_log,
            peers,
            broker_epoch,
            self.quotas,
            self.group_commit,
            truncation,
            ResponseProcessor(
                loop,
                event_log,
                truncation,
                self.group_commit,
                self.delete_records,
                settings.replica_truncation == "leader-epoch",
                self.fetch.on_high_watermark,
            ),
        )
        self.controller_fence = ControllerFence(broker_epoch, loop.now_ms, obeyed)
        self._resignation = Resignation(
            self.appender, self.delete_records, self.fetchers, self.write, self._on_role_change
        )
        self.role_changes = RoleChanges(
            self.replicas,
            settings,
            loop,
            log_store,
            event_log,
            topic_configs,
            self.controller_fence,
            self.hosting,
            self.remade_logs,
            truncation,
            self.fetchers,
            self._resignation,
            self.write,
            self._on_role_change,
        )

    # -- life ------------------------------------------------------------------------------------------------------

    def startup(self) -> None:
        """Take over the logs that are there, without any role, and start the periodic duties."""
        high_watermarks = self._log_store.high_watermarks()
        reports = {report.topic_partition: report for report in getattr(self._log_store, "reports", ())}
        for topic_partition, log in self._log_store.logs().items():
            report = reports.get(topic_partition)
            clean, known_epoch = (report.clean, report.known_epoch) if report is not None else (False, NO_EPOCH)
            try:
                self.hosting.adopt(log, high_watermarks.get(topic_partition, 0), clean, known_epoch)
            except (CorruptLog, LogDirFailed) as failure:
                self.replicas.take_offline(self.replicas.by_partition[topic_partition], failure)
        settings = self.settings
        self._every("isr-expiration", settings.replica_lag_time_max_ms / 2, self.isr_manager.shrink_late)
        self._every(
            "high-watermark-checkpoint",
            settings.replica_high_watermark_checkpoint_interval_ms,
            self.checkpoint_high_watermarks,
        )
        self._every(
            "recovery-point-checkpoint",
            settings.log_flush_offset_checkpoint_interval_ms,
            self._log_store.checkpoint_recovery_points,
        )
        self._every(
            "log-start-checkpoint",
            settings.log_flush_start_offset_checkpoint_interval_ms,
            self._log_store.checkpoint_log_start_offsets,
        )
        self._every("producer-expiry", settings.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._every("gone-clients", _GONE_CLIENTS_MS, self._drop_gone)

    def shutdown(self, clean: bool) -> None:
        """Give up all roles and waits, write the last checkpoints if clean. The log store stays open for its owner."""
        self.end_of_turn()
        self.replicas.stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if clean:
            for replica in self.replicas.by_partition.values():
                if not replica.offline:
                    try:
                        replica.log.snapshot_producers()
                    except LogDirFailed as failure:
                        self.replicas.take_offline(replica, failure)
            self.checkpoint_high_watermarks()
        self.resign_all()
        self.end_of_turn()

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

    def handle_describe_producers(self, request: Request) -> None:
        self.describe_producers.handle(request)

    def apply_leader_and_isr(self, request: LeaderAndIsrRequest, api_version: int) -> LeaderAndIsrResponse:
        return self.role_changes.apply_leader_and_isr(request, api_version)

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        return self.role_changes.stop_replicas(request)

    # -- what the rest of the broker tells -------------------------------------------------------------------------

    def on_live_brokers(self, brokers: Collection[BrokerId]) -> None:
        """UpdateMetadata's brokers: only they may join an ISR. Fetchers that waited for an address try again."""
        live = self.replicas.live_brokers = set(brokers)
        for replica in self.replicas.by_partition.values():
            role = replica.leader
            if role is not None:
                role.alive = live
                # A joiner that died is not waited for any more, nor is a replica that should delete records.
                self.replicas.maybe_advance(replica, role)
                self.delete_records.on_follower(replica, role)
        self.fetchers.retry_all()

    def resign_all(self) -> None:
        """The registration is gone: every role was granted to it, so none holds. LeaderAndIsr will grant new ones."""
        for replica in self.replicas.by_partition.values():
            self._resignation.resign(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.fetchers.close()

    # -- the turn --------------------------------------------------------------------------------------------------

    def end_of_turn(self) -> None:
        """Write, advance, complete, fetch, log: see the module's docstring.

        Whoever is answered, or sends, contains errors of the program in that: they concern one connection, one fetcher.
        What a write or a flush raises beyond what `write` handles ends the broker: nobody knows what is in the file.
        """
        replicas = self.replicas
        self.appender.close_turn()
        if replicas.dirty:
            dirty, replicas.dirty = replicas.dirty, []
            for replica in dirty:
                self.write(replica)
        self.group_commit.finish_turn()
        if replicas.advanced:
            advanced, replicas.advanced = replicas.advanced, {}
            for replica in advanced.values():
                self.fetch.on_high_watermark(replica)
            replicas.touched.update(advanced)
        if replicas.touched:
            touched, replicas.touched = replicas.touched, {}
            for replica in touched.values():
                role = replica.partition.role
                if isinstance(role, Leader):
                    self.appender.on_committed(replica, role)
        self.appender.finish_turn()
        self.fetch.finish_turn()
        self.fetchers.finish_turn()
        if self._event_log is not None:
            self._event_log.flush()
        if replicas.dirty or self.appender.staged:
            # A `done` that was called just now has appended: no event may come that begins the turn which writes it.
            self._loop.call_soon(_begin_a_turn)

    def write(self, replica: Replica) -> None:
        """Put a leader's staged appends in its file, and let them count."""
        if not replica.dirty:
            return
        replica.dirty = False
        if replica.offline:
            return
        log = replica.log
        base = log.log_end_offset
        try:
            log.write()
        except (LogDirFailed, CorruptLog) as failure:
            # Damaged: the flush that a roll begins looks at the segments before it, too.
            self.replicas.take_offline(replica, failure)
            return
        role = replica.partition.role
        assert isinstance(role, Leader), "only a leader's appends are staged over a turn"
        if self._event_log is not None:
            self._event_log.emit(
                "append",
                p=replica.event_name,
                le=role.leader_epoch,
                role="leader",
                base=base,
                last=log.log_end_offset - 1,
            )
        if replica.group_commit:
            self.group_commit.note(replica)
        # With group commit this is what was flushed before, and all of it where `flush.messages` made the write flush.
        role.advance_leo(max(role.leo, replica.replicated_leo))
        self.replicas.maybe_advance(replica, role)
        self.fetch.on_append(replica)

    def add_role_listener(self, listener: Callable[[Replica], None]) -> None:
        """Called with each replica whose role has changed, once the role is what it is to be."""
        self._role_listeners.append(listener)

    def _on_role_change(self, replica: Replica) -> None:
        self.fetch.on_role_change(replica)
        for listener in self._role_listeners:
            try:
                listener(replica)
            except Exception:
                # The role is what it is: neither the others nor the end of a turn may break off for one of them.
                logger.exception("%s: a listener to its role failed", replica.name)

    # -- failures and periodic duties ------------------------------------------------------------------------------

    def _on_replica_offline(self, replica: Replica, failure: LogDirFailed | CorruptLog) -> None:
        self.group_commit.forget(replica)
        self._resignation.resign(replica, ErrorCode.KAFKA_STORAGE_ERROR)
        self._on_log_failure(failure)

    def _on_follower_flushed(self, replica: Replica) -> None:
        self.fetchers.on_flushed(replica)

    def on_log_start(self, replica: Replica) -> None:
        """Its log begins later than before: by retention, on request, or because its leader's does."""
        self.fetch.on_log_start(replica)

    def on_log_dir_failed(self, failure: LogDirFailed) -> None:
        """Every replica in that dir goes offline."""
        for replica in list(self.replicas.by_partition.values()):
            if getattr(replica.log, "directory", None) == failure.log_dir:
                self.replicas.take_offline(replica, failure)

    def checkpoint_high_watermarks(self) -> None:
        """Hand the watermarks of all sound replicas to the log store."""
        sound = [replica for replica in self.replicas.by_partition.values() if not replica.offline]
        for replica in sound:
            # Nobody may read from a follower, and its transactions end all the same.
            replica.log.producers.transactions.forget_replicated(replica.high_watermark)
        self._log_store.checkpoint_high_watermarks({r.topic_partition: r.high_watermark for r in sound})

    def _drop_gone(self) -> None:
        self.fetch.drop_gone()
        self.appender.drop_gone()

    def _expire_producers(self) -> None:
        now = self._loop.now_ms()
        for replica in self.replicas.by_partition.values():
            replica.log.producers.expire(now, self.settings.producer_id_expiration_ms)

    def _every(self, name: str, interval_ms: float, duty: Callable[[], None]) -> None:
        def run() -> None:
            if self.replicas.stopped:
                return
            self._timers[name] = self._loop.call_later(interval_ms, run)
            duty()

        self._timers[name] = self._loop.call_later(interval_ms, run)
