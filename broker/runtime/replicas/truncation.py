"""What is cut from a follower's log.

How far to cut is decided in `broker.core.replication.epochs`; every cut is in the event log.
Source: Partition.truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

import logging

from broker.core.replication.partition import Following
from broker.model.ids import BrokerId, Offset
from broker.runtime.event_log import EventLog
from broker.runtime.ports import LogStore, Loop
from broker.runtime.replicas.remade_logs import RemadeLogs
from broker.runtime.replicas.replica import Replica

logger = logging.getLogger(__name__)


class ReplicaTruncation:
    """Cuts logs of replicas that follow; leaders' logs are never cut."""

    def __init__(
        self,
        broker_id: BrokerId,
        loop: Loop,
        log_store: LogStore,
        event_log: EventLog | None,
        remade_logs: RemadeLogs,
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._log_store = log_store
        self._event_log = event_log
        self._remade_logs = remade_logs

    def truncate(self, replica: Replica, offset: Offset, reason: str) -> None:
        """Cut a follower's log to offset or below. Raises LogDirFailed, CorruptLog."""
        log = replica.log
        if reason != "high-watermark" and not self._in_isr(replica) and _undoes_compaction(replica, offset):
            # A cut to a watermark that was checkpointed early says nothing of the leader's log. A member of the ISR is
            # counted on for all that it has.
            self.start_anew(replica, log.log_start_offset, reason)
            return
        before = log.staged_end_offset
        high_watermark = replica.high_watermark
        try:
            log.truncate_to(offset)
        finally:
            # Also where the log was cut and its producers could not be read then.
            if log.staged_end_offset != before:
                self._log_cut(replica, before, high_watermark, reason)
            replica.partition.truncated(log.staged_end_offset)

    def start_anew(self, replica: Replica, offset: Offset, reason: str = "out-of-range") -> None:
        """Empty a follower's log: it shares nothing with its leader's. Raises LogDirFailed."""
        before = replica.log.staged_end_offset
        high_watermark = replica.high_watermark
        if before > replica.log.log_start_offset:
            # Committed records go too. The leader has them; but to the controller this replica may be an eligible one.
            self._log_store.mark_unclean(replica.topic_partition, "the log was thrown away, to be fetched anew")
            self._remade_logs.note(replica.topic_partition, self._in_isr(replica))
        replica.log.truncate_fully_and_start_at(offset)
        replica.partition.started_at(offset)
        self._log_cut(replica, before, high_watermark, reason)

    def _in_isr(self, replica: Replica) -> bool:
        role = replica.partition.role
        return isinstance(role, Following) and self._broker_id in role.isr

    def _log_cut(self, replica: Replica, from_leo: Offset, high_watermark: Offset, reason: str) -> None:
        logger.info("%s: log cut from %d to %d (%s)", replica.name, from_leo, replica.log.staged_end_offset, reason)
        if self._event_log is not None:
            self._event_log.emit(
                "truncate",
                p=replica.event_name,
                le=replica.partition.leader_epoch,
                from_leo=from_leo,
                to=replica.log.staged_end_offset,
                hw=high_watermark,
                in_isr=self._in_isr(replica),
                reason=reason,
            )


def _undoes_compaction(replica: Replica, offset: Offset) -> bool:
    """Whether a cut there may leave this replica without values that its leader has, or with some that it has not.

    Values that newer ones replaced are gone where this replica cleaned, and may be where it fetched from one that
    had: after an unclean election the newer ones go now. What is below the watermark else lies in a hole of the
    leader's log: a tombstone that went there has gone with its value, which is still here.
    """
    return replica.log.lacks_values_below(offset) or (replica.compacted and offset < replica.high_watermark)
