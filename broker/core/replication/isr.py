"""The in-sync set of a partition as its leader holds it: what is committed, and the one change that is under way.

`committed` is the ISR that the controller confirmed last, at `partition_epoch`. At most one proposal is in flight. A
pending expansion counts at once (`maximal`): the controller may have committed it already. A pending shrink counts only
once committed. A response counts only for the very proposal that is in flight; every other is stale.
Source: KIP-497, KIP-903; kafka.cluster.Partition (PendingExpandIsr, PendingShrinkIsr, handleAlterPartitionError).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from broker.wire.errors import ErrorCode

INELIGIBLE_RESPONSES_TO_GIVE_UP = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """One ISR change as the leader proposes it to the controller. `isr` is in assignment order; broker_epochs: −1 where
    unknown.
    """

    kind: Literal["shrink", "expand"]
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    broker_epochs: Mapping[int, int]
    reason: str


class ResponseEffect(Enum):
    """What the leader does after a response to its proposal."""

    IGNORE = auto()
    """The proposal no longer stands."""
    COMMITTED = auto()
    """The controller's set is now the committed one; the watermark may move."""
    REVERTED = auto()
    """Refused for certain: the set is what it was."""
    RETRY = auto()
    """It is not known what the controller did: send the same proposal again."""
    AWAIT = auto()
    """The controller knows a newer state: its LeaderAndIsr will say which."""


# The controller read the current version and did not apply the change.
_NOT_APPLIED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# Ours is old; the news is on its way.
_OUT_OF_DATE = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class IsrState:
    """Committed set, partition epoch, pending proposal."""

    __slots__ = ("_outcome_unknown", "_refusals", "committed", "maximal", "partition_epoch", "pending")

    def __init__(self, committed: frozenset[int], partition_epoch: int) -> None:
        self.committed = committed
        self.maximal = committed
        self.partition_epoch = partition_epoch
        self.pending: Proposal | None = None
        self._outcome_unknown = False
        self._refusals = 0

    def propose(self, proposal: Proposal) -> None:
        """Put a change in flight."""
        assert self.pending is None, "one AlterPartition in flight per partition"
        assert proposal.partition_epoch == self.partition_epoch
        assert proposal.isr, "the ISR never becomes empty"
        self.pending = proposal
        self._outcome_unknown = False
        self._refusals = 0
        if proposal.kind == "expand":
            self.maximal = self.committed | set(proposal.isr)

    def learn(self, committed: frozenset[int], partition_epoch: int) -> None:
        """Take LeaderAndIsr's newer state. A pending proposal ends: its version check can no longer succeed."""
        assert partition_epoch > self.partition_epoch
        self._settle(committed, partition_epoch)

    def handle_response(
        self, proposal: Proposal, error: int, isr: frozenset[int], partition_epoch: int, leader_epoch: int
    ) -> ResponseEffect:
        """error: the partition's error code; isr, partition_epoch, leader_epoch: the echo where it is NONE.

        A refusal after an attempt of unknown outcome does not settle the proposal at once: the earlier attempt may
        still be on its way to the controller, and forgetting the joiner then could raise the watermark past it.
        """
        if self.pending is not proposal:
            return ResponseEffect.IGNORE
        if error == ErrorCode.NONE:
            if leader_epoch != proposal.leader_epoch or partition_epoch < self.partition_epoch:
                return ResponseEffect.IGNORE
            self._settle(isr, partition_epoch)
            return ResponseEffect.COMMITTED
        if error in _NOT_APPLIED:
            self._refusals += 1
            if self._outcome_unknown and self._refusals < INELIGIBLE_RESPONSES_TO_GIVE_UP:
                return ResponseEffect.RETRY
            self._settle(self.committed, self.partition_epoch)
            return ResponseEffect.REVERTED
        if error in _OUT_OF_DATE:
            return ResponseEffect.AWAIT
        self._outcome_unknown = True
        self._refusals = 0
        return ResponseEffect.RETRY

    def _settle(self, committed: frozenset[int], partition_epoch: int) -> None:
        self.committed = committed
        self.maximal = committed
        self.partition_epoch = partition_epoch
        self.pending = None
