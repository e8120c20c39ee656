"""A replica's role in its partition, and how LeaderAndIsr changes it.

One replica is leader, follower or neither (just started, registration lost, no leader elected). Roles change only by a
state that is news (`fencing.check_state_change`), and a replica never leads under an epoch that it may have led before
it lost its registration. The watermark survives role changes; only a truncation lowers it.
Source: kafka.cluster.Partition.makeLeader, makeFollower; C1 and C9 of docs/guarantees.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from broker.core.replication.fencing import NO_EPOCH, check_state_change
from broker.core.replication.leader import Leader
from broker.core.replication.watermark import follower_high_watermark
from broker.wire.errors import ErrorCode

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition as LeaderAndIsr brings it. leader −1: there is none."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    elr_min_isr: int = 0
    """Eligible replicas stand beside this ISR, under this minimum; 0 for none. Kafka's controller never says."""


class Change(Enum):
    """What a state made of this replica."""

    REFUSED = auto()
    BECAME_LEADER = auto()
    BECAME_FOLLOWER = auto()
    """Also when it followed before: a new epoch means a new agreement with the leader."""
    UPDATED = auto()
    """Same epoch, newer ISR or assignment."""


class Following:
    """Follower role in one leader epoch. leader −1: nobody to follow yet."""

    __slots__ = ("isr", "leader", "leader_epoch", "replicas")

    def __init__(self, state: PartitionState) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.isr = frozenset(state.isr)
        self.replicas = state.replicas


class Partition:
    """One replica's replication state. `high_watermark` is current whatever the role."""

    __slots__ = (
        "_high_watermark",
        "broker_id",
        "controller_epoch",
        "known_epoch",
        "leader_epoch",
        "partition_epoch",
        "role",
    )

    def __init__(self, broker_id: int, high_watermark: int, known_epoch: int = NO_EPOCH) -> None:
        """high_watermark: from the checkpoint, clamped to [log start, LEO].

        known_epoch: the newest in the log, or in its file of epochs: of the last a power failure may leave no batch. A
        replica that knows an epoch has led or followed in it, so it must not lead under it again.
        """
        self.broker_id = broker_id
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.controller_epoch = NO_EPOCH
        self.known_epoch = known_epoch
        self.role: Leader | Following | None = None
        self._high_watermark = high_watermark

    @property
    def high_watermark(self) -> int:
        """A leader's own; of a follower, and of a replica without a role, what it last learned."""
        role = self.role
        return role.high_watermark if isinstance(role, Leader) else self._high_watermark

    def apply(
        self,
        state: PartitionState,
        leo: int,
        min_insync_replicas: int,
        lag_time_max_ms: float,
        now_ms: float,
        counted_leo: int | None = None,
    ) -> tuple[Change, ErrorCode]:
        """Take a controller's state if it is news.

        leo: written end of the log, where a new leader's epoch starts. counted_leo: what of it counts for the
        watermark, where that is less (group commit).
        """
        error = check_state_change(
            state.leader_epoch, state.partition_epoch, self.leader_epoch, self.current_partition_epoch
        )
        if self.role is None and state.leader == self.broker_id and state.leader_epoch <= self.known_epoch:
            # The leadership was granted before this process, or this registration, began, and the controller may not
            # know that this broker was gone in between: unlike the refusal of a state that is merely old, this one
            # makes it elect anew.
            error = ErrorCode.FENCED_LEADER_EPOCH
        if error is not ErrorCode.NONE:
            return Change.REFUSED, error
        new_epoch = state.leader_epoch > self.leader_epoch
        self.controller_epoch = state.controller_epoch
        role = self.role
        if not new_epoch and role is not None and (state.leader == self.broker_id) == isinstance(role, Leader):
            if isinstance(role, Leader):
                role.learn_state(state.replicas, state.isr, state.partition_epoch, now_ms, state.elr_min_isr)
                self.partition_epoch = state.partition_epoch
                return Change.UPDATED, ErrorCode.NONE
            if role.leader == state.leader:
                self.role = Following(state)
                self.partition_epoch = state.partition_epoch
                return Change.UPDATED, ErrorCode.NONE
        high_watermark = self.high_watermark
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        if state.leader == self.broker_id:
            self.known_epoch = max(self.known_epoch, state.leader_epoch)
            self.role = Leader(
                self.broker_id,
                state.replicas,
                state.isr,
                state.leader_epoch,
                state.partition_epoch,
                leo if counted_leo is None else counted_leo,
                high_watermark,
                min_insync_replicas,
                lag_time_max_ms,
                now_ms,
                leo,
                state.elr_min_isr,
            )
            return Change.BECAME_LEADER, ErrorCode.NONE
        self._high_watermark = high_watermark
        self.role = Following(state)
        return Change.BECAME_FOLLOWER, ErrorCode.NONE

    @property
    def current_partition_epoch(self) -> int:
        """The newest partition epoch known, AlterPartition responses included."""
        role = self.role
        return role.isr.partition_epoch if isinstance(role, Leader) else self.partition_epoch

    def resign(self) -> None:
        """Give up any role: its registration is gone. States of the same epochs count again, but not to lead."""
        self._high_watermark = self.high_watermark
        self.role = None
        self.partition_epoch = NO_EPOCH

    def learn_high_watermark(self, leader_high_watermark: int, leo: int) -> bool:
        """Take the leader's watermark from a fetch response; True when the follower's own rose."""
        new = follower_high_watermark(leader_high_watermark, leo, self._high_watermark)
        if new == self._high_watermark:
            return False
        self._high_watermark = new
        return True

    def truncated(self, leo: int) -> None:
        """The log was cut: the watermark cannot lie beyond its end."""
        assert not isinstance(self.role, Leader), "a leader never truncates"
        self._high_watermark = min(self._high_watermark, leo)

    def started_at(self, offset: int) -> None:
        """The log begins anew at offset: all before it was removed by the leader, so it was committed."""
        self._high_watermark = offset
