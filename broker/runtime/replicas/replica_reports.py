"""This broker's reports to the controller on what its last stop cost its replicas. Loop thread.

The log store knows which logs may have lost bytes (`broker.log.files.unclean_shutdown`); this reports them, and clears
the mark of a replica that came into the ISR under this registration: it then has every committed record. That the ISR
names it is not enough, for the controller may not know of the stop yet. A partition without a log here is reported as
one that lost everything, for this broker may have had it.
Source: R12 of docs/guarantees.md; docs/adr/0010.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.core.controller import election
from broker.model.ids import TopicPartition
from broker.model.log_errors import LogDirFailed
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.ports import LogStore
from broker.runtime.replicas.controller_fence import ControllerFence
from broker.runtime.replicas.remade_logs import RemadeLogs
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.replica_report import (
    ReplicaReportRequest,
    ReplicaReportResponse,
    ReportedEpoch,
    ReportedPartition,
)

_EPOCHS = 25
"""How many of a log's newest epochs a report holds: logs that differ do so within the last few leaderships."""
EPOCH_MAX = 2**31 - 1
"""The largest epoch that the response can hold; a damaged checkpoint may have a larger one."""

_log = logging.getLogger("broker")


class ReplicaReports:
    """`handle` requests; `on_metadata` after every UpdateMetadata."""

    def __init__(
        self,
        replicas: Replicas,
        log_store: LogStore,
        cache: MetadataCache,
        remade_logs: RemadeLogs,
        broker_epoch: Callable[[], int],
        fence: ControllerFence,
    ) -> None:
        """broker_epoch: of this broker's registration."""
        self._replicas = replicas
        self._log_store = log_store
        self._cache = cache
        self._remade_logs = remade_logs
        self._broker_epoch = broker_epoch
        self._fence = fence
        self._updated_epoch = cache.updated_epoch
        self._outside: set[TopicPartition] = set()
        """Marked partitions whose role came, or whose log was made, under this registration without this broker in
        their ISR.
        """

    def handle(self, request: Request) -> None:
        """Respond at once; a frame that is no ReplicaReport closes the connection."""
        body = decode_or_refuse(request, ReplicaReportRequest)
        if body is None:
            return
        respond(request, self.report(body).encode(request.api_version))

    def report(self, request: ReplicaReportRequest) -> ReplicaReportResponse:
        """What is known of each requested log, or one error for all where controller or broker epoch is stale."""
        refused = self._fence.check(request.controller_epoch, request.broker_epoch)
        if refused is not ErrorCode.NONE:
            return ReplicaReportResponse(refused)
        return ReplicaReportResponse(
            partitions=[
                self._report(TopicPartition(topic.topic_name, partition), topic.topic_id)
                for topic in request.topics
                for partition in topic.partitions
            ]
        )

    def _report(self, topic_partition: TopicPartition, topic_id: str) -> ReportedPartition:
        log_store = self._log_store
        reported = ReportedPartition(*topic_partition)
        replica = self._replicas.by_partition.get(topic_partition)
        if replica is None:
            reported.unclean = True
            if log_store.out_of_reach(topic_partition):
                reported.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        elif replica.offline:
            reported.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        elif topic_id and replica.topic_id and replica.topic_id != topic_id:
            reported.unclean = True
        else:
            log = replica.log
            reported.unclean = topic_partition in log_store.unclean
            reported.end_offset = log.log_end_offset
            reported.log_start_offset = log.log_start_offset
            if log.log_end_offset > log.log_start_offset:
                reported.last_epoch = min(log.epoch_at(log.log_end_offset - 1), EPOCH_MAX)
            reported.known_epoch = min(replica.partition.known_epoch, EPOCH_MAX)
            reported.epochs = [ReportedEpoch(min(epoch, EPOCH_MAX), start) for epoch, start in log.history[-_EPOCHS:]]
            reported.shortened = log_store.is_shortened(topic_partition)
            if reported.known_epoch > election.OUTDONE_MAX:
                _log.error(
                    "%s: leader epoch %d in its log must be damage: it leads nothing",
                    topic_partition,
                    reported.known_epoch,
                )
        return reported

    def on_metadata(self) -> None:
        """Clear the marks of replicas that were outside of the ISR and are in it now: they were admitted under this
        registration.

        One that is elected is trusted as it begins to lead (`role_changes`).
        """
        store = self._log_store
        self._outside &= store.unclean.keys()
        if self._cache.updated_epoch != self._updated_epoch:
            self._updated_epoch = self._cache.updated_epoch
            self._outside.clear()
        if self._updated_epoch != self._broker_epoch():
            return
        made = self._remade_logs.outside
        for topic_partition, epoch in list(made.items()):
            if topic_partition not in store.unclean or epoch < self._updated_epoch:
                del made[topic_partition]
            elif epoch == self._updated_epoch:
                self._outside.add(topic_partition)
        for topic_partition in list(store.unclean):
            topic = self._cache.topics.get(topic_partition.topic)
            state = None if topic is None else topic.partitions.get(topic_partition.partition)
            replica = self._replicas.by_partition.get(topic_partition)
            if state is None or (replica is not None and state.leader_epoch < replica.partition.leader_epoch):
                continue
            if self._replicas.broker_id not in state.isr:
                self._outside.add(topic_partition)
            elif state.leader >= 0 and topic_partition in self._outside:
                self._outside.discard(topic_partition)
                made.pop(topic_partition, None)
                _log.info("%s: in sync again after an unclean stop", topic_partition)
                try:
                    store.clear_unclean(topic_partition)
                except LogDirFailed as failure:
                    _log.error("%s: %s", topic_partition, failure)
