"""What a follower does when its leader does not have its fetch offset: request the bounds of the leader's log, then
decide.

The decision is `core.replication.epochs.out_of_range_reset`.
Source: AbstractFetcherThread.handleOutOfRangeError.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.config.settings import Settings
from broker.core.replication import epochs
from broker.core.replication.partition import Following
from broker.model.ids import BrokerId, Offset
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.follower.partition_fetch_state import PartitionFetchState
from broker.runtime.ports import Peer
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.replicas.truncation import ReplicaTruncation
from broker.wire.api import ApiKey
from broker.wire.list_offsets_timestamps import EARLIEST, LATEST
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker.wire.primitives import MalformedFrame

logger = logging.getLogger(__name__)

LIST_OFFSETS_VERSION = 7


class OutOfRange:
    """Resolves out-of-range positions of one fetcher. After a failure the next fetch is out of range again, and begins
    this anew.
    """

    def __init__(
        self,
        leader: BrokerId,
        replicas: Replicas,
        settings: Settings,
        peers: Callable[[BrokerId], Peer | None],
        truncation: ReplicaTruncation,
        is_fetched: Callable[[PartitionFetchState], bool],
        resume: Callable[[PartitionFetchState], None],
    ) -> None:
        """is_fetched: whether a partition is still fetched in this state. resume: its log was reset, fetch again."""
        self._leader = leader
        self._replicas = replicas
        self._settings = settings
        self._peers = peers
        self._truncation = truncation
        self._is_fetched = is_fetched
        self._resume = resume

    def resolve(self, state: PartitionFetchState) -> None:
        """Request the leader's end, then its start, then reset the replica."""

        leo = state.replica.log.staged_end_offset

        def with_latest(latest: Offset) -> None:
            self._request(state, EARLIEST, lambda earliest: self._reset(state, leo, earliest, latest))

        self._request(state, LATEST, with_latest)

    def _request(self, state: PartitionFetchState, timestamp: int, then: Callable[[Offset], None]) -> None:
        peer = self._peers(self._leader)
        if peer is None:
            return
        topic, index = state.replica.topic_partition
        request = ListOffsetsRequest(
            self._settings.broker_id,
            0,
            [ListOffsetsTopic(topic, [ListOffsetsPartition(index, state.leader_epoch, timestamp)])],
        )

        def on_response(view: memoryview) -> None:
            try:
                response = ListOffsetsResponse.decode(LIST_OFFSETS_VERSION, view).topics[0].partitions[0]
            except (MalformedFrame, IndexError) as error:
                logger.warning("%s: ListOffsets response of the leader: %s", state.replica.name, error)
                return
            if response.error_code == 0:
                then(response.offset)

        peer.send(
            ApiKey.LIST_OFFSETS,
            LIST_OFFSETS_VERSION,
            request.encode(LIST_OFFSETS_VERSION),
            on_response,
            lambda reason: logger.info("%s: ListOffsets to the leader: %s", state.replica.name, reason),
            self._settings.request_timeout_ms,
        )

    def _reset(self, state: PartitionFetchState, leo: Offset, leader_log_start: Offset, leader_leo: Offset) -> None:
        """leo: of this log when the request was sent. If it is another by now, records have come since, and the replica
        may be in sync.
        """
        replica = state.replica
        role = replica.partition.role
        if (
            not self._is_fetched(state)
            or not isinstance(role, Following)
            or role.leader_epoch != state.leader_epoch
            or replica.log.staged_end_offset != leo
        ):
            return
        may_cut = replica.unclean or self._settings.replica_truncation != "leader-epoch"
        reset = epochs.out_of_range_reset(
            replica.log.log_start_offset,
            replica.log.staged_end_offset,
            leader_log_start,
            leader_leo,
            replica.high_watermark,
            self._replicas.broker_id in role.isr,
            may_cut,
        )
        try:
            if reset.truncate_to is not None:
                self._truncation.truncate(replica, reset.truncate_to, "out-of-range")
            elif reset.start_at is not None:
                self._truncation.start_anew(replica, reset.start_at)
        except (LogDirFailed, CorruptLog) as failure:
            self._replicas.take_offline(replica, failure)
            return
        if reset.truncate_to is None and reset.start_at is None:
            # The same fetch may be out of range again, so its pause holds.
            return
        self._resume(state)
