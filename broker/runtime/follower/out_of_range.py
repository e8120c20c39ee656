"""What a follower does when its leader does not have its fetch offset: ask where the leader's log is, then decide.

The decision is `core.epochs.out_of_range_reset`.
Source: AbstractFetcherThread.handleOutOfRangeError.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.core.replication import epochs
from broker.core.replication.partition import Following
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.fetch.offset_requests import EARLIEST, LATEST
from broker.wire.api import ApiKey
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker.wire.primitives import MalformedFrame

if TYPE_CHECKING:
    from broker.runtime.follower.replica_fetcher import Fetcher, Followed
    from broker.runtime.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

LIST_OFFSETS_VERSION = 7


class OutOfRange:
    """Resolves out-of-range positions of one fetcher. Failures are left to the next fetch, which will ask again."""

    def __init__(self, manager: ReplicaManager, fetcher: Fetcher) -> None:
        self._manager = manager
        self._fetcher = fetcher

    def resolve(self, followed: Followed) -> None:
        """Ask for the leader's end, then its start, then reset the replica."""

        leo = followed.replica.log.leo

        def with_latest(latest: Offset) -> None:
            self._ask(followed, EARLIEST, lambda earliest: self._reset(followed, leo, earliest, latest))

        self._ask(followed, LATEST, with_latest)

    def _ask(self, followed: Followed, timestamp: int, then: Callable[[Offset], None]) -> None:
        manager = self._manager
        peer = manager.peers(self._fetcher.leader)
        if peer is None:
            return
        topic, index = followed.replica.topic_partition
        request = ListOffsetsRequest(
            manager.settings.broker_id,
            0,
            [ListOffsetsTopic(topic, [ListOffsetsPartition(index, followed.leader_epoch, timestamp)])],
        )

        def on_response(view: memoryview) -> None:
            try:
                answer = ListOffsetsResponse.decode(LIST_OFFSETS_VERSION, view).topics[0].partitions[0]
            except (MalformedFrame, IndexError) as error:
                logger.warning("%s: ListOffsets answer of the leader: %s", followed.replica.name, error)
                return
            if answer.error_code == 0:
                then(answer.offset)

        peer.send(
            ApiKey.LIST_OFFSETS,
            LIST_OFFSETS_VERSION,
            request.encode(LIST_OFFSETS_VERSION),
            on_response,
            lambda reason: logger.info("%s: ListOffsets to the leader: %s", followed.replica.name, reason),
            manager.settings.request_timeout_ms,
        )

    def _reset(self, followed: Followed, leo: Offset, leader_log_start: Offset, leader_leo: Offset) -> None:
        """leo: of this log when it was asked. It has followed since if it has another, and may be in sync."""
        replica = followed.replica
        role = replica.partition.role
        if (
            self._fetcher.partitions.get(followed.key) is not followed
            or not isinstance(role, Following)
            or role.leader_epoch != followed.leader_epoch
            or replica.log.leo != leo
        ):
            return
        manager = self._manager
        may_cut = replica.unclean or not manager.truncates_by_epoch
        reset = epochs.out_of_range_reset(
            replica.log.log_start_offset,
            replica.log.leo,
            leader_log_start,
            leader_leo,
            replica.high_watermark,
            manager.broker_id in role.isr,
            may_cut,
        )
        try:
            if reset.truncate_to is not None:
                manager.follower_logs.truncate(replica, reset.truncate_to, "out-of-range")
            elif reset.start_at is not None:
                manager.follower_logs.start_anew(replica, reset.start_at)
        except (LogDirFailed, CorruptLog) as failure:
            manager.take_offline(replica, failure)
            return
        if reset.truncate_to is None and reset.start_at is None:
            # The same fetch may be out of range again, so its pause holds.
            return
        self._fetcher.delay(followed, 0.0)
        manager.wake_fetcher(self._fetcher)
