"""Carries the controller's requests to the brokers: in order, one at a time per broker, until the broker is gone.

Runs on the loop's thread; the controller's thread hands over through `call_soon_threadsafe`. A request that fails is
sent again after a pause, for a broker that does not respond now may respond later, and later requests build on it.
Requests for an older registration than the channel's are dropped. A broker that does not drain its queue loses it and
is sent everything anew.
Source: kafka.controller.ControllerChannelManager, RequestSendThread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from broker.core.controller.cluster_state import Broker
from broker.core.controller.elr import ReplicaReport
from broker.model.ids import BrokerId, Epoch, TopicPartition
from broker.runtime.controller.request_batch import Outgoing
from broker.runtime.ports import Loop, Peer, Timer
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode, error_name
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from broker.wire.messages.replica_report import ReplicaReportResponse
from broker.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from broker.wire.messages.update_metadata import UpdateMetadataResponse
from broker.wire.primitives import MalformedFrame

_log = logging.getLogger("broker.controller")

RETRY_MS = 100.0
QUEUE_MAX = 1000

_UNUSABLE = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR})

PeerFactory = Callable[[Broker], Peer]


class Reports:
    """What channels report to the controller; called on the loop's thread, so a report may only be queued."""

    def stale_controller(self) -> None:
        """A broker knows a newer controller."""
        raise NotImplementedError

    def replicas_deleted(self, broker: BrokerId, deleted: list[tuple[str, int]]) -> None:
        """A broker removed these replicas, (topic id, index)."""
        raise NotImplementedError

    def replicas_kept(self, broker: BrokerId, kept: list[TopicPartition]) -> None:
        """A broker could not remove these replicas."""
        raise NotImplementedError

    def replicas_failed(self, broker: BrokerId, broker_epoch: int, failed: list[tuple[str, int]]) -> None:
        """A broker cannot use its files of these partitions, (topic id, index)."""
        raise NotImplementedError

    def replicas_usable(self, broker: BrokerId, broker_epoch: int, usable: list[tuple[str, int]]) -> None:
        """A broker follows with replicas that counted as offline, (topic id, index)."""
        raise NotImplementedError

    def replicas_reported(
        self,
        broker: BrokerId,
        broker_epoch: int,
        reports: dict[TopicPartition, ReplicaReport],
        request_epochs: dict[TopicPartition, Epoch],
    ) -> None:
        """A broker's ReplicaReport. request_epochs: the partitions' leader epochs when the request was sent."""
        raise NotImplementedError

    def epochs_refused(self, broker: BrokerId, broker_epoch: int, refused: list[tuple[str, int, int]]) -> None:
        """A broker refused LeaderAndIsr's leader epochs; refused: (topic id, partition, leader epoch sent)."""
        raise NotImplementedError

    def needs_everything(self, broker: BrokerId) -> None:
        """A broker's queue was dropped: it needs all roles and the whole metadata."""
        raise NotImplementedError


class ControllerChannels:
    """All channels of one broker's controller. Loop thread only."""

    def __init__(self, loop: Loop, connect: PeerFactory, timeout_ms: float, reports: Reports) -> None:
        self._loop = loop
        self._connect = connect
        self._timeout_ms = timeout_ms
        self._reports = reports
        self._channels: dict[BrokerId, _Channel] = {}

    def set_brokers(self, brokers: Iterable[Broker]) -> None:
        """Open a channel per registration and close those that are gone. Order with `send` is the caller's order."""
        wanted = {broker.id: broker for broker in brokers}
        for id_, channel in list(self._channels.items()):
            if wanted.get(id_) != channel.broker:
                channel.close()
                del self._channels[id_]
        for id_, broker in wanted.items():
            if id_ not in self._channels:
                peer = self._connect(broker)
                self._channels[id_] = _Channel(self._loop, broker, peer, self._timeout_ms, self._reports)

    def send(self, requests: Iterable[Outgoing]) -> None:
        """Queue each request for its broker; one for a registration that has no channel is dropped."""
        for request in requests:
            channel = self._channels.get(request.broker)
            if channel is not None and channel.broker.epoch == request.broker_epoch:
                channel.send(request)

    def close(self) -> None:
        """Forget everything that was not sent."""
        self.set_brokers(())


class _Channel:
    """One registration of one broker."""

    def __init__(self, loop: Loop, broker: Broker, peer: Peer, timeout_ms: float, reports: Reports) -> None:
        self.broker = broker
        self._loop = loop
        self._peer = peer
        self._timeout_ms = timeout_ms
        self._reports = reports
        self._queue: deque[Outgoing] = deque()
        self._in_flight: Outgoing | None = None
        self._retry: Timer | None = None
        self._closed = False
        self._tries = 0

    def send(self, request: Outgoing) -> None:
        if len(self._queue) >= QUEUE_MAX:
            _log.warning("broker %d has not taken %d requests: starting anew", self.broker.id, len(self._queue))
            self._queue.clear()
            self._reports.needs_everything(self.broker.id)
            return
        self._queue.append(request)
        self._pump()

    def close(self) -> None:
        self._closed = True
        self._queue.clear()
        if self._retry is not None:
            self._retry.cancel()
        self._peer.close()

    def _pump(self) -> None:
        if self._in_flight is None and self._retry is None and self._queue and not self._closed:
            self._in_flight = request = self._queue[0]
            self._peer.send(
                request.api_key,
                request.api_version,
                request.body,
                self._on_response,
                self._on_failure,
                self._timeout_ms,
            )

    def _on_failure(self, reason: str) -> None:
        if not self._closed:
            self._tries += 1
            if self._tries == 1:
                _log.info("%s to broker %d: %s; repeated until it is gone", self._name(), self.broker.id, reason)
            self._again()

    def _again(self) -> None:
        self._in_flight = None
        self._retry = self._loop.call_later(RETRY_MS, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._pump()

    def _on_response(self, view: memoryview) -> None:
        if self._closed or self._in_flight is None:
            return
        request = self._in_flight
        try:
            error = self._read(request, view)
        except (ValueError, MalformedFrame) as malformed:
            _log.error("broker %d sent a malformed response to %s: %s", self.broker.id, self._name(), malformed)
            self._again()
            return
        except Exception:
            # Repeating it does no harm; left in flight it would hold up all that comes after it.
            _log.exception("a response of broker %d to %s could not be taken up", self.broker.id, self._name())
            self._again()
            return
        if error == ErrorCode.STALE_BROKER_EPOCH:
            # The broker does not know its own registration yet: ZooKeeper served the controller's read before its
            # response to the broker.
            self._again()
            return
        self._in_flight = None
        self._tries = 0
        if self._queue and self._queue[0] is request:
            self._queue.popleft()
        if error == ErrorCode.STALE_CONTROLLER_EPOCH:
            self._reports.stale_controller()
        elif error != ErrorCode.NONE:
            _log.warning(
                "broker %d responded to %s with %s", self.broker.id, ApiKey(request.api_key).name, error_name(error)
            )
        self._pump()

    def _read(self, request: Outgoing, view: memoryview) -> int:
        """The response's error code; the errors of single partitions are logged, deletions are reported."""
        if request.api_key == ApiKey.UPDATE_METADATA:
            return UpdateMetadataResponse.decode(request.api_version, view).error_code
        if request.api_key == ApiKey.REPLICA_REPORT:
            return self._read_reports(request, ReplicaReportResponse.decode(request.api_version, view))
        if request.api_key == ApiKey.LEADER_AND_ISR:
            response = LeaderAndIsrResponse.decode(request.api_version, view)
            refused = [(t.topic_id, p) for t in response.topics for p in t.partition_errors if p.error_code != 0]
            failed = [(id_, p.partition_index) for id_, p in refused if p.error_code in _UNUSABLE]
            if failed:
                self._reports.replicas_failed(self.broker.id, self.broker.epoch, failed)
            if request.offline and response.error_code == ErrorCode.NONE:
                done = {(t.topic_id, p.partition_index) for t in response.topics for p in t.partition_errors}
                done.difference_update((id_, p.partition_index) for id_, p in refused)
                if usable := [replica for replica in request.offline if replica in done]:
                    self._reports.replicas_usable(self.broker.id, self.broker.epoch, usable)
            if any(p.error_code == ErrorCode.FENCED_LEADER_EPOCH for _, p in refused):
                self._read_refusals(request, {(id_, p.partition_index): p.error_code for id_, p in refused})
            for topic_id, partition in refused:
                name = error_name(partition.error_code)
                _log.info("broker %d on %s-%d: %s", self.broker.id, topic_id, partition.partition_index, name)
            return response.error_code
        stopped = StopReplicaResponse.decode(request.api_version, view)
        kept = {TopicPartition(e.topic_name, e.partition_index) for e in stopped.partition_errors if e.error_code != 0}
        if stopped.error_code == ErrorCode.NONE and request.deletes:
            # By id: a topic of that name may have been made since, whose replicas nobody has deleted.
            sent = StopReplicaRequest.decode(request.api_version, request.body)
            ids = {topic.topic_name: topic.topic_id for topic in sent.topic_states}
            deleted = [(ids[tp.topic], tp.partition) for tp in request.deletes if tp not in kept]
            self._reports.replicas_deleted(self.broker.id, deleted)
            if kept:
                self._reports.replicas_kept(self.broker.id, sorted(kept))
        return stopped.error_code

    def _read_reports(self, request: Outgoing, response: ReplicaReportResponse) -> int:
        """A replica whose files failed has nothing to report; LeaderAndIsr's response says that it failed."""
        reported = {
            TopicPartition(part.topic_name, part.partition_index): ReplicaReport(
                part.unclean,
                part.last_epoch,
                part.end_offset,
                part.log_start_offset,
                part.known_epoch,
                tuple((one.epoch, one.start_offset) for one in part.epochs),
                part.shortened,
            )
            for part in response.partitions
            if part.error_code == ErrorCode.NONE
        }
        if reported:
            self._reports.replicas_reported(self.broker.id, self.broker.epoch, reported, dict(request.request_epochs))
        return response.error_code

    def _read_refusals(self, request: Outgoing, errors: Mapping[tuple[str, int], int]) -> None:
        sent = LeaderAndIsrRequest.decode(request.api_version, request.body)
        refused = [
            (topic.topic_id, state.partition_index, state.leader_epoch)
            for topic in sent.topic_states
            for state in topic.partition_states
            if errors.get((topic.topic_id, state.partition_index)) == ErrorCode.FENCED_LEADER_EPOCH
        ]
        self._reports.epochs_refused(self.broker.id, self.broker.epoch, refused)

    def _name(self) -> str:
        return "?" if self._in_flight is None else ApiKey(self._in_flight.api_key).name
