"""ISR proposals on their way to the controller and back.

The rules (what to propose, what a response means) are in `core.replication.leader` and `isr`; this sends, repeats
proposals whose outcome is unknown, and writes the event log before anything leaves. A proposal that was refused as out
of date is repeated slowly, so that a lost LeaderAndIsr cannot wedge the partition (KAFKA-13407).
Source: kafka.server.AlterPartitionManager; Partition.submitAlterPartition.
"""

from __future__ import annotations

import logging

from broker.core.replication.isr import Proposal, ResponseEffect
from broker.core.replication.leader import Leader
from broker.runtime.event_log import EventLog
from broker.runtime.ports import Loop
from broker.runtime.replicas.ports import AlterPartitionResult, AlterPartitionSender
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.wire.errors import ErrorCode, error_name

logger = logging.getLogger(__name__)

RETRY_MS = 200.0
OUT_OF_DATE_RETRY_MS = 2000.0
REFUSED_JOIN_PAUSE_MS = 500.0
FRESH_FETCH_MS = 1000.0
# The check comes every 0.5 lag times; one that comes this late was held up by this process or machine.
_OWN_STOP_LAG_FRACTION = 0.75


class IsrManager:
    """All proposals of this broker's leaders; at most one per partition."""

    def __init__(
        self,
        replicas: Replicas,
        loop: Loop,
        event_log: EventLog | None,
        sender: AlterPartitionSender,
        lag_time_max_ms: float,
    ) -> None:
        self._replicas = replicas
        self._loop = loop
        self._event_log = event_log
        self._sender = sender
        self._lag_time_max_ms = lag_time_max_ms
        self._ticked_ms = loop.now_ms()
        self.shrinks = 0
        self.expansions = 0

    def shrink_late(self) -> None:
        """`isr-expiration`, every half lag time: propose to drop whoever was not caught up within the lag time.

        After a stop of this very process nobody could fetch: the followers get one more interval to show themselves.
        A joiner that is late is waited for no more: nothing else happens to an idle partition when its time is over.
        """
        now = self._loop.now_ms()
        since_ms, self._ticked_ms = now - self._ticked_ms, now
        if self._replicas.fenced_now() or since_ms > self._lag_time_max_ms * _OWN_STOP_LAG_FRACTION:
            return
        for replica in self._replicas.by_partition.values():
            role = replica.leader
            if role is not None:
                proposal = role.propose_shrink(now)
                if proposal is not None:
                    self.submit(replica, role, proposal)
                self._replicas.maybe_advance(replica, role)

    def submit(self, replica: Replica, role: Leader, proposal: Proposal) -> None:
        """Send a proposal that `role` has just put in flight."""
        log = self._event_log
        if log is not None:
            log.emit_now(
                "isr_propose",
                p=replica.event_name,
                le=proposal.leader_epoch,
                pe=proposal.partition_epoch,
                kind=proposal.kind,
                isr=list(proposal.isr),
                reason=proposal.reason,
                bes={str(broker): epoch for broker, epoch in proposal.broker_epochs.items()},
            )
        self._send(replica, role, proposal, self._loop.now_ms())

    def _send(self, replica: Replica, role: Leader, proposal: Proposal, submitted_ms: float) -> None:
        self._sender.send(
            replica.topic_partition,
            replica.topic_id,
            proposal,
            lambda result: self._on_result(replica, role, proposal, submitted_ms, result),
        )

    def _on_result(
        self, replica: Replica, role: Leader, proposal: Proposal, submitted_ms: float, result: AlterPartitionResult
    ) -> None:
        if replica.partition.role is not role:
            return
        replicas = self._replicas
        effect = role.handle_alter_response(
            proposal, result.error, result.isr, result.partition_epoch, result.leader_epoch, result.elr_min_isr
        )
        match effect:
            case ResponseEffect.COMMITTED:
                if proposal.kind == "shrink":
                    self.shrinks += 1
                else:
                    self.expansions += 1
                logger.info(
                    "%s: ISR is now %s (%s: %s)",
                    replica.name,
                    sorted(role.isr.committed),
                    proposal.kind,
                    proposal.reason,
                )
                log_isr_commit(self._event_log, replica, role)
                replicas.maybe_advance(replica, role)
                replicas.settle_later(replica)
                self._next(replica, role, submitted_ms)
            case ResponseEffect.REVERTED:
                self._log_reject(replica, proposal, result.error)
                role.defer_join(proposal, self._loop.now_ms() + REFUSED_JOIN_PAUSE_MS)
                replicas.maybe_advance(replica, role)
                self._next(replica, role, submitted_ms)
            case ResponseEffect.RETRY:
                if result.error != ErrorCode.REQUEST_TIMED_OUT:
                    self._log_reject(replica, proposal, result.error)
                self._again(replica, role, proposal, submitted_ms, RETRY_MS)
            case ResponseEffect.AWAIT:
                self._log_reject(replica, proposal, result.error)
                self._again(replica, role, proposal, submitted_ms, OUT_OF_DATE_RETRY_MS)
            case ResponseEffect.IGNORE:
                pass

    def _next(self, replica: Replica, role: Leader, submitted_ms: float) -> None:
        """A follower that fetched while the proposal was in flight may join at once: its next fetch may be a long poll
        away.
        """
        now = self._loop.now_ms()
        proposal = role.propose_next(now, max(submitted_ms, now - FRESH_FETCH_MS))
        if proposal is not None:
            self.submit(replica, role, proposal)

    def _again(self, replica: Replica, role: Leader, proposal: Proposal, submitted_ms: float, delay_ms: float) -> None:
        def resend() -> None:
            if replica.partition.role is role and role.isr.pending is proposal and not self._replicas.stopped:
                self._send(replica, role, proposal, submitted_ms)

        self._loop.call_later(delay_ms, resend)

    def _log_reject(self, replica: Replica, proposal: Proposal, error: int) -> None:
        log = self._event_log
        if log is not None:
            log.emit(
                "isr_reject",
                p=replica.event_name,
                le=proposal.leader_epoch,
                pe=proposal.partition_epoch,
                error=error_name(error),
            )


def log_isr_commit(event_log: EventLog | None, replica: Replica, role: Leader) -> None:
    """Write to the event log that a leader counts with another ISR from here on."""
    if event_log is not None:
        event_log.emit(
            "isr_commit",
            p=replica.event_name,
            le=role.leader_epoch,
            pe=role.isr.partition_epoch,
            isr=sorted(role.isr.committed),
        )
