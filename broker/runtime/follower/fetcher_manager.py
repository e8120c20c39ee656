"""Whom this broker follows, and what is cut from a follower's log.

How far to cut is decided in `core.epochs`; every cut is in the event log, and the producers' state follows the log.
Source: ReplicaFetcherManager, Partition.truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.core.replication.partition import Following
from broker.model.ids import BrokerId, Epoch, Offset
from broker.runtime.follower.replica_fetcher import Fetcher
from broker.runtime.replicas.replica import Replica

if TYPE_CHECKING:
    from broker.runtime.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)


class FollowerLogs:
    """One fetcher per leader broker, made when first needed."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager
        self.fetchers: dict[BrokerId, Fetcher] = {}

    def follow(self, replica: Replica, leader: BrokerId, leader_epoch: Epoch) -> None:
        """Fetch from leader, from the end of the replica's log."""
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            fetcher = self.fetchers[leader] = Fetcher(self._manager, leader)
        fetcher.add(replica, leader_epoch)

    def unfollow(self, replica: Replica) -> None:
        for fetcher in self.fetchers.values():
            if fetcher.follows(replica):
                # Group commit may have held it back for this one, whose flush is nobody's business now.
                self._manager.wake_fetcher(fetcher)
            fetcher.remove(replica)

    def close(self) -> None:
        """Forget all fetchers; answers in flight count no more."""
        for fetcher in self.fetchers.values():
            fetcher.close()
        self.fetchers.clear()

    def on_flushed(self, replica: Replica) -> None:
        """Group commit has a follower's log on disk: its leader may hear of it."""
        for fetcher in self.fetchers.values():
            if fetcher.follows(replica):
                self._manager.wake_fetcher(fetcher)

    def retry_all(self) -> None:
        """Addresses or live brokers have changed: nobody sits out a pause."""
        for fetcher in self.fetchers.values():
            fetcher.retry_now()

    def truncate(self, replica: Replica, offset: Offset, reason: str) -> None:
        """Cut a follower's log to offset or below. Raises LogDirFailed, CorruptLog."""
        log = replica.log
        if reason != "high-watermark" and not self._in_isr(replica) and self._undoes_compaction(replica, offset):
            # A cut to a watermark that was checkpointed early says nothing of the leader's log. A member of the ISR is
            # counted on for all that it has.
            self.start_anew(replica, log.log_start_offset, reason)
            return
        before = log.leo
        high_watermark = replica.high_watermark
        log.truncate_to(offset)
        replica.partition.truncated(log.leo)
        if log.leo != before:
            self._tell(replica, before, high_watermark, reason)
            replica.cut_producers(self._manager.loop.now_ms())

    def _undoes_compaction(self, replica: Replica, offset: Offset) -> bool:
        """Whether a cut there may leave this replica without values that its leader has, or with some that it has not.

        Values that newer ones replaced are gone where this replica cleaned, and may be where it fetched from one that
        had: after an unclean election the newer ones go now. What is below the watermark else lies in a hole of the
        leader's log: a tombstone that went there has gone with its value, which is still here.
        """
        return replica.log.lacks_values_below(offset) or (replica.compacted and offset < replica.high_watermark)

    def _in_isr(self, replica: Replica) -> bool:
        role = replica.partition.role
        return isinstance(role, Following) and self._manager.broker_id in role.isr

    def start_anew(self, replica: Replica, offset: Offset, reason: str = "out-of-range") -> None:
        """Throw a follower's log away: it has nothing that its leader's goes on from. Raises LogDirFailed."""
        before = replica.log.leo
        high_watermark = replica.high_watermark
        if before > replica.log.log_start_offset:
            # Committed records go too. The leader has them; but to the controller this replica may be an eligible one.
            self._manager.log_store.distrust(replica.topic_partition, "the log was thrown away, to be fetched anew")
            self._manager.state_changes.note_made_anew(replica.topic_partition, self._in_isr(replica))
        replica.log.truncate_fully_and_start_at(offset)
        replica.partition.started_at(offset)
        self._tell(replica, before, high_watermark, reason)
        # Also what lies below the new beginning: what its producers wrote since is in no log that is here.
        replica.producers.clear(offset)

    def _tell(self, replica: Replica, from_leo: Offset, high_watermark: Offset, reason: str) -> None:
        logger.info("%s: log cut from %d to %d (%s)", replica.name, from_leo, replica.log.leo, reason)
        event_log = self._manager.event_log
        if event_log is not None:
            event_log.emit(
                "truncate",
                p=replica.name,
                le=replica.partition.leader_epoch,
                from_leo=from_leo,
                to=replica.log.leo,
                hw=high_watermark,
                in_isr=self._in_isr(replica),
                reason=reason,
            )
