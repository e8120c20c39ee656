"""LeaderAndIsr and StopReplica: the controller's requests become roles.

What is news and what a state makes of a replica is decided by `core.replication.fencing` and
`core.replication.partition`; this makes the log, the fetchers and those who wait follow it.
Source: ReplicaManager.becomeLeaderOrFollower, stopReplicas; KIP-380 (broker epoch), KIP-516 (topic ids).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.config.settings import Settings
from broker.core.admin import topic_names
from broker.core.replication.leader import Leader
from broker.core.replication.partition import NO_LEADER, Change, Following, PartitionState
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.model.repeats import Repeats
from broker.runtime.event_log import EventLog
from broker.runtime.ports import LogStore, Loop
from broker.runtime.replicas.controller_fence import ControllerFence
from broker.runtime.replicas.hosting import ReplicaHosting
from broker.runtime.replicas.isr_manager import log_isr_commit
from broker.runtime.replicas.ports import TopicConfigs
from broker.runtime.replicas.remade_logs import RemadeLogs
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.replicas.resignation import Fetchers, Resignation
from broker.runtime.replicas.truncation import ReplicaTruncation
from broker.wire.errors import ErrorCode
from broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from broker.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)

logger = logging.getLogger(__name__)

FULL_REQUEST = 2
NO_LEADER_EPOCH = -1
EPOCH_DURING_DELETE = -2
_TOPIC_ERRORS_FROM = 5


class RoleChanges:
    """Applies the controller's requests in the order in which they come."""

    def __init__(
        self,
        replicas: Replicas,
        settings: Settings,
        loop: Loop,
        log_store: LogStore,
        event_log: EventLog | None,
        topic_configs: TopicConfigs,
        fence: ControllerFence,
        hosting: ReplicaHosting,
        remade_logs: RemadeLogs,
        truncation: ReplicaTruncation,
        fetchers: Fetchers,
        resignation: Resignation,
        write: Callable[[Replica], None],
        on_role_change: Callable[[Replica], None],
    ) -> None:
        """write: puts a leader's staged appends in its file. on_role_change: fetches that wait here are read again."""
        self._replicas = replicas
        self._settings = settings
        self._loop = loop
        self._log_store = log_store
        self._event_log = event_log
        self._topic_configs = topic_configs
        self._fence = fence
        self._hosting = hosting
        self._remade_logs = remade_logs
        self._truncation = truncation
        self._fetchers = fetchers
        self._resignation = resignation
        self._write = write
        self._repeats = Repeats(loop.now_ms)
        self._on_role_change = on_role_change

    def apply_leader_and_isr(self, request: LeaderAndIsrRequest, api_version: int) -> LeaderAndIsrResponse:
        """Apply the state of every partition that is newer; the response has an error per partition, or one for all."""
        refused = self._fence.check(request.controller_epoch, request.broker_epoch)
        if refused is not ErrorCode.NONE:
            return LeaderAndIsrResponse(refused, [], [])
        topics: list[LeaderAndIsrTopicError] = []
        flat: list[LeaderAndIsrPartitionError] = []
        named: set[TopicPartition] = set()
        for topic in request.topic_states:
            errors: list[LeaderAndIsrPartitionError] = []
            for wire in topic.partition_states:
                topic_partition = TopicPartition(topic.topic_name, wire.partition_index)
                named.add(topic_partition)
                error = self._apply_state(topic_partition, topic.topic_id, wire)
                if api_version >= _TOPIC_ERRORS_FROM:
                    errors.append(LeaderAndIsrPartitionError("", wire.partition_index, error))
                else:
                    flat.append(LeaderAndIsrPartitionError(topic.topic_name, wire.partition_index, error))
            if api_version >= _TOPIC_ERRORS_FROM:
                topics.append(LeaderAndIsrTopicError(topic.topic_id, errors))
        if request.type == FULL_REQUEST:
            self._drop_unnamed(named)
        return LeaderAndIsrResponse(0, flat, topics)

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Give up roles; remove the log where the controller says so."""
        refused = self._fence.check(request.controller_epoch, request.broker_epoch)
        if refused is not ErrorCode.NONE:
            return StopReplicaResponse(refused, [])
        return StopReplicaResponse(
            0,
            [
                StopReplicaPartitionError(topic.topic_name, state.partition_index, self._stop(topic, state))
                for topic in request.topic_states
                for state in topic.partition_states
            ],
        )

    # -- LeaderAndIsr ----------------------------------------------------------------------------------------------

    def _apply_state(
        self, topic_partition: TopicPartition, topic_id: str, wire: LeaderAndIsrPartitionState
    ) -> ErrorCode:
        if topic_names.refusal(topic_partition.topic) is not None or topic_partition.partition < 0:
            # Its log's folder would be another partition's, or lie outside the log dirs.
            self._complain("partition", f"LeaderAndIsr for a partition that cannot be: {topic_partition!r:.300}")
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if self._replicas.broker_id not in wire.replicas:
            what = f"{topic_partition}: LeaderAndIsr for replicas {wire.replicas!r:.300}, not for this broker"
            self._complain("replicas", what)
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic_id in self._fence.deleted_topic_ids:
            logger.warning("%s: LeaderAndIsr for topic id %s, which is deleted", topic_partition, topic_id)
            return ErrorCode.INCONSISTENT_TOPIC_ID
        try:
            replica = self._replica_for(topic_partition, topic_id, wire)
            if replica.offline and not self._hosting.read_again(replica):
                fetched_anew = replica.damaged and self._dispensable(wire)
                return ErrorCode.FENCED_LEADER_EPOCH if fetched_anew else ErrorCode.KAFKA_STORAGE_ERROR
            return self._change(replica, wire)
        except (LogDirFailed, CorruptLog, OSError) as failure:
            logger.error("%s: %s", topic_partition, failure)
            found = self._replicas.by_partition.get(topic_partition)
            if found is not None and isinstance(failure, LogDirFailed | CorruptLog):
                self._replicas.take_offline(found, failure)
            elif found is not None:
                self._resignation.resign(found, ErrorCode.KAFKA_STORAGE_ERROR)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except Exception:
            # The controller repeats a request until it gets a response, and its later requests wait behind it.
            logger.exception("%s: leader epoch %d cannot be taken up", topic_partition, wire.leader_epoch)
            found = self._replicas.by_partition.get(topic_partition)
            if found is not None:
                self._resignation.resign(found, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return ErrorCode.UNKNOWN_SERVER_ERROR

    def _replica_for(self, topic_partition: TopicPartition, topic_id: str, wire: LeaderAndIsrPartitionState) -> Replica:
        """The replica, with a log made for it if there is none. One of another topic id is set aside first."""
        replica = self._replicas.by_partition.get(topic_partition)
        if replica is not None and topic_id and replica.topic_id and replica.topic_id != topic_id:
            if not wire.is_new and not self._dispensable(wire):
                # A new topic of that name would not rest on this copy: so the bytes of the id are wrong.
                raise CorruptLog(topic_partition, "partition.metadata", f"topic id {replica.topic_id}, not {topic_id}")
            logger.warning(
                "%s: the log of topic id %s is replaced by that of %s; nothing deleted it, its folder stays as -stray",
                topic_partition,
                replica.topic_id,
                topic_id,
            )
            self._fence.deleted_topic_ids.add(replica.topic_id)
            self._let_go(replica)
            self._log_store.set_aside(topic_partition)
            replica = None
        if (
            replica is not None
            and replica.damaged
            and self._dispensable(wire)
            and wire.leader_epoch > replica.partition.leader_epoch
        ):
            # Under the epoch that it followed in, the leader may be about to propose it for the log that it had.
            logger.warning("%s: the damaged log is thrown away and fetched anew", topic_partition)
            self._delete(replica)
            replica = None
        if replica is None or not replica.topic_id:
            overrides = self._topic_configs.overrides(topic_partition.topic)
            made_anew = topic_partition not in self._log_store.logs()
            try:
                log = self._log_store.create(topic_partition, topic_id, overrides, new=wire.is_new)
            except CorruptLog as damage:
                if not self._dispensable(wire):
                    raise
                logger.warning("%s: %s; cut there, the rest is fetched anew", topic_partition, damage)
                log = self._log_store.restore(topic_partition, topic_id, overrides)
            if made_anew and not wire.is_new:
                # It may have had a log that it acknowledged things with: it is marked unclean until it is in sync.
                self._remade_logs.note(topic_partition, self._replicas.broker_id in wire.isr)
            if replica is None:
                return self._hosting.adopt(log, self._log_store.high_watermarks().get(topic_partition, 0), clean=True)
            self._replicas.learn_topic_id(replica)
        return replica

    def _dispensable(self, wire: LeaderAndIsrPartitionState) -> bool:
        """Whether nothing rests on this broker's copy: another leads, and this one does not count as in sync."""
        broker = self._replicas.broker_id
        return wire.leader not in (NO_LEADER, broker) and broker not in wire.isr

    def _change(self, replica: Replica, wire: LeaderAndIsrPartitionState) -> ErrorCode:
        # What was staged belongs to the role that ends here.
        self._write(replica)
        if replica.offline:
            # That write failed: nobody follows from such a log, nor leads with it.
            return ErrorCode.KAFKA_STORAGE_ERROR
        state = PartitionState(
            wire.controller_epoch,
            wire.leader,
            wire.leader_epoch,
            tuple(wire.isr),
            wire.partition_epoch,
            tuple(wire.replicas),
            wire.elr_min_isr,
        )
        log = replica.log
        self._hosting.configure(replica)
        change, error = replica.partition.apply(
            state,
            log.log_end_offset,
            replica.min_insync_replicas,
            self._settings.replica_lag_time_max_ms,
            self._loop.now_ms(),
            replica.replicated_leo,
        )
        role = replica.partition.role
        match change:
            case Change.REFUSED:
                logger.info(
                    "%s: state of leader epoch %d, partition epoch %d is old (have %d, %d)",
                    replica.name,
                    state.leader_epoch,
                    state.partition_epoch,
                    replica.partition.leader_epoch,
                    replica.partition.current_partition_epoch,
                )
            case Change.BECAME_LEADER:
                assert isinstance(role, Leader)
                self._fetchers.unfollow(replica)
                log.assign_epoch(role.leader_epoch, log.staged_end_offset)
                # What this replica once wrote may have been damaged since, and now readers depend on it.
                log.forget_checked()
                log.producers.drop_guards()
                replica.served.clear()
                role.alive = self._replicas.live_brokers
                # The controller elected it with knowledge of its stop: from now on its log is the partition's.
                self._log_store.clear_unclean(replica.topic_partition)
                self._log_leader(replica, role)
                self._on_role_change(replica)
                self._advance(replica, role)
            case Change.BECAME_FOLLOWER:
                assert isinstance(role, Following)
                self._follow(replica, role)
            case Change.UPDATED:
                if isinstance(role, Leader):
                    log_isr_commit(self._event_log, replica, role)
                    self._advance(replica, role)
        return error

    def _advance(self, replica: Replica, role: Leader) -> None:
        self._replicas.maybe_advance(replica, role)
        self._replicas.settle_later(replica)

    def _follow(self, replica: Replica, role: Following) -> None:
        self._fetchers.unfollow(replica)
        self._log_follower(replica, role)
        self._resignation.fail_waits(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if role.leader == NO_LEADER:
            return
        if self._settings.replica_truncation != "leader-epoch":
            self._truncation.truncate(replica, replica.high_watermark, "high-watermark")
        self._fetchers.follow(replica, role.leader, role.leader_epoch)

    def _drop_unnamed(self, named: set[TopicPartition]) -> None:
        """A full request names all replicas of this broker. Logs of others stay: no request said to delete them."""
        for replica in list(self._replicas.by_partition.values()):
            if replica.topic_partition not in named and replica.partition.role is not None:
                logger.warning("%s: not in the controller's full list, role dropped", replica.name)
                self._resignation.resign(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _complain(self, kind: str, what: str) -> None:
        """No controller sends this; whoever does may go on for hours."""
        self._repeats.log(logger, logging.ERROR, kind, "%s", what)

    def _log_leader(self, replica: Replica, role: Leader) -> None:
        log = self._event_log
        logger.info("%s: leader in epoch %d from %d", replica.name, role.leader_epoch, role.epoch_start_offset)
        if log is not None:
            log.emit(
                "become_leader",
                p=replica.event_name,
                le=role.leader_epoch,
                pe=role.isr.partition_epoch,
                ce=replica.partition.controller_epoch,
                isr=sorted(role.isr.committed),
                replicas=list(role.replicas),
                leo=replica.log.log_end_offset,
                hw=role.high_watermark,
                epoch_start=role.epoch_start_offset,
            )

    def _log_follower(self, replica: Replica, role: Following) -> None:
        log = self._event_log
        logger.info("%s: follower of %d in epoch %d", replica.name, role.leader, role.leader_epoch)
        if log is not None:
            log.emit(
                "become_follower",
                p=replica.event_name,
                le=role.leader_epoch,
                pe=replica.partition.partition_epoch,
                ce=replica.partition.controller_epoch,
                leader=role.leader,
                isr=sorted(role.isr),
                replicas=list(role.replicas),
                leo=replica.log.staged_end_offset,
                hw=replica.high_watermark,
            )

    # -- StopReplica -----------------------------------------------------------------------------------------------

    def _stop(self, topic: StopReplicaTopicState, state: StopReplicaPartitionState) -> ErrorCode:
        topic_partition = TopicPartition(topic.topic_name, state.partition_index)
        replica = self._replicas.by_partition.get(topic_partition)
        topic_id = topic.topic_id or ("" if replica is None else replica.topic_id)
        if topic_id and state.delete_partition and state.leader_epoch == EPOCH_DURING_DELETE:
            self._fence.deleted_topic_ids.add(topic_id)
        if replica is not None and replica.topic_id and replica.topic_id != topic_id:
            logger.warning("%s: StopReplica for topic id %s, here it is %s", replica.name, topic_id, replica.topic_id)
            return ErrorCode.NONE
        if replica is None:
            return self._delete_unopened(topic_partition) if state.delete_partition else ErrorCode.NONE
        if state.leader_epoch not in (NO_LEADER_EPOCH, EPOCH_DURING_DELETE) and (
            state.leader_epoch < replica.partition.leader_epoch
        ):
            return ErrorCode.FENCED_LEADER_EPOCH
        try:
            if state.delete_partition:
                self._delete(replica)
            else:
                self._resignation.resign(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        except LogDirFailed as failure:
            self._replicas.take_offline(replica, failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        log = self._event_log
        if log is not None:
            log.emit("stop_replica", p=replica.event_name, delete=state.delete_partition)
        return ErrorCode.NONE

    def _delete_unopened(self, topic_partition: TopicPartition) -> ErrorCode:
        """A log that could not be opened is deleted as well."""
        try:
            self._log_store.delete(topic_partition)
        except LogDirFailed as failure:
            logger.error("%s: %s", topic_partition, failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._log_store.out_of_reach(topic_partition):
            # With the dir it would come back, and stand beside a later one of that name.
            logger.error("%s: not deleted: it may be in a log dir that is offline", topic_partition)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _delete(self, replica: Replica) -> None:
        self._let_go(replica)
        self._log_store.delete(replica.topic_partition)

    def _let_go(self, replica: Replica) -> None:
        self._resignation.resign(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._hosting.forget(replica)
