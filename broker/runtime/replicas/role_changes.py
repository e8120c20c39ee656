"""LeaderAndIsr and StopReplica: the controller's word becomes roles.

What is news and what a state makes of a replica is decided in `core.fencing` and `core.partition`; this makes the log,
the fetchers and those who wait follow it.
Source: ReplicaManager.becomeLeaderOrFollower, stopReplicas; KIP-380 (broker epoch), KIP-516 (topic ids).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.core.replication.fencing import check_broker_epoch, check_controller_epoch
from broker.core.replication.leader import Leader
from broker.core.replication.partition import NO_LEADER, Change, Following, PartitionState
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.metadata.deleted_topic_ids import GoneTopics
from broker.runtime.replicas.replica import Replica
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

if TYPE_CHECKING:
    from broker.runtime.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

FULL_REQUEST = 2
NO_LEADER_EPOCH = -1
EPOCH_DURING_DELETE = -2
_TOPIC_ERRORS_FROM = 5


class StateChanges:
    """Applies the controller's requests in the order in which they come."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager
        self._controller_epoch = -1
        self._gone = GoneTopics()
        self.made_outside: dict[TopicPartition, int] = {}
        """Logs that were made anew and marked while this broker was not in the ISR, and under which registration."""

    def apply_leader_and_isr(self, request: LeaderAndIsrRequest, api_version: int) -> LeaderAndIsrResponse:
        """Every partition that is news; the answer has an error per partition, or one for all."""
        refused = self.refusal(request.controller_epoch, request.broker_epoch)
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
        refused = self.refusal(request.controller_epoch, request.broker_epoch)
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

    def note_made_anew(self, topic_partition: TopicPartition, in_isr: bool) -> None:
        """A log that is distrusted begins anew: trusted again once it is let into the ISR from outside."""
        self.made_outside.pop(topic_partition, None)
        if not in_isr:
            self.made_outside[topic_partition] = self._manager.broker_epoch()

    def drop_role(self, replica: Replica, error: ErrorCode) -> None:
        """No role any more: appends that wait get the error, fetches that wait look again."""
        manager = self._manager
        manager.write(replica)
        manager.follower_logs.unfollow(replica)
        replica.partition.resign()
        manager.produce.fail_waits(replica, error)
        manager.delete_records.fail_waits(replica, error)
        manager.fetch.on_role_change(replica)

    def refusal(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Whether a controller's request is an old controller's, or for another registration; NONE: remembers it."""
        error = check_controller_epoch(controller_epoch, self._controller_epoch)
        if error is not ErrorCode.NONE:
            logger.warning("request of controller epoch %d refused: %s", controller_epoch, error.name)
            return error
        registered = self._manager.broker_epoch()
        error = check_broker_epoch(broker_epoch, registered)
        if error is not ErrorCode.NONE:
            logger.warning("request for broker epoch %d refused: this broker's is %d", broker_epoch, registered)
            return error
        if controller_epoch > self._controller_epoch:
            self._gone.clear()
        self._controller_epoch = controller_epoch
        return ErrorCode.NONE

    # -- LeaderAndIsr ----------------------------------------------------------------------------------------------

    def _apply_state(
        self, topic_partition: TopicPartition, topic_id: str, wire: LeaderAndIsrPartitionState
    ) -> ErrorCode:
        manager = self._manager
        if manager.broker_id not in wire.replicas:
            logger.error("%s: LeaderAndIsr for replicas %s, not for this broker", topic_partition, wire.replicas)
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic_id in self._gone:
            logger.warning("%s: LeaderAndIsr for topic id %s, which is deleted", topic_partition, topic_id)
            return ErrorCode.INCONSISTENT_TOPIC_ID
        try:
            replica = self._replica_for(topic_partition, topic_id, wire)
            if replica.offline:
                fetched_anew = replica.damaged and self._dispensable(wire)
                return ErrorCode.FENCED_LEADER_EPOCH if fetched_anew else ErrorCode.KAFKA_STORAGE_ERROR
            return self._change(replica, wire)
        except (LogDirFailed, CorruptLog, OSError) as failure:
            logger.error("%s: %s", topic_partition, failure)
            found = manager.replicas.get(topic_partition)
            if found is not None and isinstance(failure, LogDirFailed | CorruptLog):
                manager.take_offline(found, failure)
            elif found is not None:
                self.drop_role(found, ErrorCode.KAFKA_STORAGE_ERROR)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except Exception:
            # The controller repeats a request until it is answered, and all that it says later waits behind it.
            logger.exception("%s: leader epoch %d cannot be taken up", topic_partition, wire.leader_epoch)
            found = manager.replicas.get(topic_partition)
            if found is not None:
                self.drop_role(found, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return ErrorCode.UNKNOWN_SERVER_ERROR

    def _replica_for(self, topic_partition: TopicPartition, topic_id: str, wire: LeaderAndIsrPartitionState) -> Replica:
        """The replica, with a log made for it if there is none. One of another topic id is set aside first."""
        manager = self._manager
        replica = manager.replicas.get(topic_partition)
        if replica is not None and topic_id and replica.topic_id and replica.topic_id != topic_id:
            if not wire.is_new and not self._dispensable(wire):
                # A new topic of that name would not rest on this copy: these are the bytes of its id that are wrong.
                raise CorruptLog(topic_partition, "partition.metadata", f"topic id {replica.topic_id}, not {topic_id}")
            logger.warning(
                "%s: log of topic id %s gives way to that of %s; nobody said to delete it, its folder stays as -stray",
                topic_partition,
                replica.topic_id,
                topic_id,
            )
            self._gone.add(replica.topic_id)
            self._let_go(replica)
            manager.log_store.set_aside(topic_partition)
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
            overrides = manager.topic_configs.overrides(topic_partition.topic)
            made_anew = topic_partition not in manager.log_store.logs()
            try:
                log = manager.log_store.create(topic_partition, topic_id, overrides, new=wire.is_new)
            except CorruptLog as damage:
                if not self._dispensable(wire):
                    raise
                logger.warning("%s: %s; cut there, the rest is fetched anew", topic_partition, damage)
                log = manager.log_store.restore(topic_partition, topic_id, overrides)
            if made_anew and not wire.is_new:
                # It may have had a log that it acknowledged things with: it is distrusted until it is in sync.
                self.note_made_anew(topic_partition, manager.broker_id in wire.isr)
            if replica is None:
                return manager.adopt(log, manager.log_store.high_watermarks().get(topic_partition, 0), clean=True)
            manager.learn_topic_id(replica)
        return replica

    def _dispensable(self, wire: LeaderAndIsrPartitionState) -> bool:
        """Whether nothing rests on this broker's copy: another leads, and this one does not count as in sync."""
        broker = self._manager.broker_id
        return wire.leader not in (NO_LEADER, broker) and broker not in wire.isr

    def _change(self, replica: Replica, wire: LeaderAndIsrPartitionState) -> ErrorCode:
        manager = self._manager
        # What was staged belongs to the role that ends here.
        manager.write(replica)
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
        manager.configure(replica)
        change, error = replica.partition.apply(
            state,
            log.written_leo,
            replica.min_insync_replicas,
            manager.settings.replica_lag_time_max_ms,
            manager.loop.now_ms(),
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
                manager.follower_logs.unfollow(replica)
                log.assign_epoch(role.leader_epoch, log.leo)
                # What this replica once wrote may have been damaged since, and now readers depend on it.
                log.distrust()
                replica.served.clear()
                role.alive = manager.live_brokers
                # Who elected it knew of its stop: from now on its log is the partition's.
                manager.log_store.trust_again(replica.topic_partition)
                self._log_leader(replica, role)
                manager.fetch.on_role_change(replica)
                self._advance(replica, role)
            case Change.BECAME_FOLLOWER:
                assert isinstance(role, Following)
                self._follow(replica, role)
            case Change.UPDATED:
                if isinstance(role, Leader):
                    manager.log_isr_commit(replica, role)
                    self._advance(replica, role)
        return error

    def _advance(self, replica: Replica, role: Leader) -> None:
        self._manager.maybe_advance(replica, role)
        self._manager.settle_later(replica)

    def _follow(self, replica: Replica, role: Following) -> None:
        manager = self._manager
        manager.follower_logs.unfollow(replica)
        self._log_follower(replica, role)
        manager.produce.fail_waits(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        manager.delete_records.fail_waits(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        manager.fetch.on_role_change(replica)
        if role.leader == NO_LEADER:
            return
        if not manager.truncates_by_epoch:
            manager.follower_logs.truncate(replica, replica.high_watermark, "high-watermark")
        manager.follower_logs.follow(replica, role.leader, role.leader_epoch)

    def _drop_unnamed(self, named: set[TopicPartition]) -> None:
        """A full request names all that is this broker's. Logs stay: nobody said to delete them."""
        for replica in list(self._manager.replicas.values()):
            if replica.topic_partition not in named and replica.partition.role is not None:
                logger.warning("%s: not in the controller's full list, role dropped", replica.name)
                self.drop_role(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _log_leader(self, replica: Replica, role: Leader) -> None:
        log = self._manager.event_log
        logger.info("%s: leader in epoch %d from %d", replica.name, role.leader_epoch, role.epoch_start_offset)
        if log is not None:
            log.emit(
                "become_leader",
                p=replica.name,
                le=role.leader_epoch,
                pe=role.isr.partition_epoch,
                ce=replica.partition.controller_epoch,
                isr=sorted(role.isr.committed),
                replicas=list(role.replicas),
                leo=replica.log.written_leo,
                hw=role.high_watermark,
                epoch_start=role.epoch_start_offset,
            )

    def _log_follower(self, replica: Replica, role: Following) -> None:
        log = self._manager.event_log
        logger.info("%s: follower of %d in epoch %d", replica.name, role.leader, role.leader_epoch)
        if log is not None:
            log.emit(
                "become_follower",
                p=replica.name,
                le=role.leader_epoch,
                pe=replica.partition.partition_epoch,
                ce=replica.partition.controller_epoch,
                leader=role.leader,
                isr=sorted(role.isr),
                replicas=list(role.replicas),
                leo=replica.log.leo,
                hw=replica.high_watermark,
            )

    # -- StopReplica -----------------------------------------------------------------------------------------------

    def _stop(self, topic: StopReplicaTopicState, state: StopReplicaPartitionState) -> ErrorCode:
        topic_partition = TopicPartition(topic.topic_name, state.partition_index)
        replica = self._manager.replicas.get(topic_partition)
        topic_id = topic.topic_id or ("" if replica is None else replica.topic_id)
        if topic_id and state.delete_partition and state.leader_epoch == EPOCH_DURING_DELETE:
            self._gone.add(topic_id)
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
                self.drop_role(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        except LogDirFailed as failure:
            self._manager.take_offline(replica, failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        log = self._manager.event_log
        if log is not None:
            log.emit("stop_replica", p=replica.name, delete=state.delete_partition)
        return ErrorCode.NONE

    def _delete_unopened(self, topic_partition: TopicPartition) -> ErrorCode:
        """A log that could not be opened is deleted as well."""
        try:
            self._manager.log_store.delete(topic_partition)
        except LogDirFailed as failure:
            logger.error("%s: %s", topic_partition, failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._manager.log_store.out_of_reach(topic_partition):
            # With the dir it would come back, and stand beside a later one of that name.
            logger.error("%s: not deleted: it may be in a log dir that is offline", topic_partition)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _delete(self, replica: Replica) -> None:
        self._let_go(replica)
        self._manager.log_store.delete(replica.topic_partition)

    def _let_go(self, replica: Replica) -> None:
        self.drop_role(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._manager.forget(replica)
