"""ISR proposals on their way to the controller and back.

The rules (what to propose, what an answer means) are in `core.leader` and `core.isr`; this sends, repeats what got no
clear answer, and writes the event log before anything leaves. A proposal whose answer said "you are out of date" is
asked again slowly, so that a lost LeaderAndIsr cannot wedge the partition (KAFKA-13407).
Source: kafka.server.AlterPartitionManager; Partition.submitAlterPartition.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.core.replication.isr import AnswerEffect, Proposal
from broker.core.replication.leader import Leader
from broker.runtime.replicas.ports import AlterPartitionAnswer, AlterPartitionSender
from broker.runtime.replicas.replica import Replica
from broker.wire.errors import ErrorCode, error_name

if TYPE_CHECKING:
    from broker.runtime.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

RETRY_MS = 200.0
OUT_OF_DATE_RETRY_MS = 2000.0
REFUSED_JOIN_PAUSE_MS = 500.0
FRESH_FETCH_MS = 1000.0
# The check comes every 0.5 lag times; one that comes this late was held up by this process or machine.
_OWN_STOP_LAG_FRACTION = 0.75


class IsrChanges:
    """All proposals of this broker's leaders; at most one per partition."""

    def __init__(self, manager: ReplicaManager, sender: AlterPartitionSender) -> None:
        self._manager = manager
        self._sender = sender
        self._ticked_ms = manager.loop.now_ms()
        self.shrinks = 0
        self.expansions = 0

    def shrink_late(self) -> None:
        """`isr-expiration`, every half lag time: propose to drop whoever was not caught up within the lag time.

        After a stop of this very process nobody could fetch: the followers get one more interval to show themselves.
        A joiner that is late is waited for no more: nothing else happens to an idle partition when its time is over.
        """
        manager = self._manager
        now = manager.loop.now_ms()
        since_ms, self._ticked_ms = now - self._ticked_ms, now
        if manager.stands_still or since_ms > manager.settings.replica_lag_time_max_ms * _OWN_STOP_LAG_FRACTION:
            return
        for replica in manager.replicas.values():
            role = replica.leader
            if role is not None:
                proposal = role.propose_shrink(now)
                if proposal is not None:
                    self.submit(replica, role, proposal)
                manager.maybe_advance(replica, role)

    def submit(self, replica: Replica, role: Leader, proposal: Proposal) -> None:
        """Send a proposal that `role` has just put in flight."""
        log = self._manager.event_log
        if log is not None:
            log.emit_now(
                "isr_propose",
                p=replica.name,
                le=proposal.leader_epoch,
                pe=proposal.partition_epoch,
                kind=proposal.kind,
                isr=list(proposal.isr),
                reason=proposal.reason,
                bes={str(broker): epoch for broker, epoch in proposal.broker_epochs.items()},
            )
        self._send(replica, role, proposal, self._manager.loop.now_ms())

    def _send(self, replica: Replica, role: Leader, proposal: Proposal, submitted_ms: float) -> None:
        self._sender.send(
            replica.topic_partition,
            replica.topic_id,
            proposal,
            lambda answer: self._on_answer(replica, role, proposal, submitted_ms, answer),
        )

    def _on_answer(
        self, replica: Replica, role: Leader, proposal: Proposal, submitted_ms: float, answer: AlterPartitionAnswer
    ) -> None:
        if replica.partition.role is not role:
            return
        manager = self._manager
        effect = role.handle_alter_answer(
            proposal, answer.error, answer.isr, answer.partition_epoch, answer.leader_epoch, answer.elr_min_isr
        )
        match effect:
            case AnswerEffect.COMMITTED:
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
                manager.log_isr_commit(replica, role)
                manager.maybe_advance(replica, role)
                manager.settle_later(replica)
                self._next(replica, role, submitted_ms)
            case AnswerEffect.REVERTED:
                self._log_reject(replica, proposal, answer.error)
                role.defer_join(proposal, manager.loop.now_ms() + REFUSED_JOIN_PAUSE_MS)
                manager.maybe_advance(replica, role)
                self._next(replica, role, submitted_ms)
            case AnswerEffect.RETRY:
                if answer.error != ErrorCode.REQUEST_TIMED_OUT:
                    self._log_reject(replica, proposal, answer.error)
                self._again(replica, role, proposal, submitted_ms, RETRY_MS)
            case AnswerEffect.AWAIT:
                self._log_reject(replica, proposal, answer.error)
                self._again(replica, role, proposal, submitted_ms, OUT_OF_DATE_RETRY_MS)
            case AnswerEffect.IGNORE:
                pass

    def _next(self, replica: Replica, role: Leader, submitted_ms: float) -> None:
        """Whose fetch came while the proposal was out does not wait for its next one, which may be a long poll away."""
        now = self._manager.loop.now_ms()
        proposal = role.propose_next(now, max(submitted_ms, now - FRESH_FETCH_MS))
        if proposal is not None:
            self.submit(replica, role, proposal)

    def _again(self, replica: Replica, role: Leader, proposal: Proposal, submitted_ms: float, delay_ms: float) -> None:
        def resend() -> None:
            if replica.partition.role is role and role.isr.pending is proposal and not self._manager.stopped:
                self._send(replica, role, proposal, submitted_ms)

        self._manager.loop.call_later(delay_ms, resend)

    def _log_reject(self, replica: Replica, proposal: Proposal, error: int) -> None:
        log = self._manager.event_log
        if log is not None:
            log.emit(
                "isr_reject",
                p=replica.name,
                le=proposal.leader_epoch,
                pe=proposal.partition_epoch,
                error=error_name(error),
            )
