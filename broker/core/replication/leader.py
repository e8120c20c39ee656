"""A partition's leader role: who has what, how far it is committed, who is in sync.

Lives for one leader epoch. Knows offsets, times and broker ids, not bytes. Its invariants:
- high_watermark never falls, and is ≤ the LEO of every member of the maximal ISR at the moment it rises;
- it stands while the committed ISR is short of min.insync.replicas (KAFKA-15583), or of the minimum under which the
  controller holds replicas eligible beside that very ISR: they need not have what is committed from then on;
- a follower joins only with LEO ≥ high_watermark and ≥ the start of this epoch (KAFKA-7128): what lies between the
  two may be committed already, under an earlier leader;
- nothing is believed of a follower but what its fetches in this epoch, under one broker epoch, have proved.
Source: kafka.cluster.Partition; KIP-497, KIP-841, KIP-903.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from broker.core.replication.fencing import NO_EPOCH, check_follower_broker_epoch
from broker.core.replication.follower import NEVER, FollowerProgress, SessionProgress
from broker.core.replication.isr import IsrState, Proposal, ResponseEffect
from broker.core.replication.watermark import effective_min_isr
from broker.wire.errors import ErrorCode


class Leader:
    """Leader role of one partition on this broker, in one leader epoch.

    leo: next offset that this broker has written (flushed, under group commit): its own part of the watermark.
    alive: brokers with a live session as this broker's metadata has it, None where unknown; only *joining* and
    waiting for joiners depend on it, never what is required for commit.
    """

    __slots__ = (
        "alive",
        "broker_id",
        "elr_min_isr",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "isr",
        "lag_time_max_ms",
        "leader_epoch",
        "leo",
        "min_insync_replicas",
        "refused",
        "replicas",
    )

    def __init__(
        self,
        broker_id: int,
        replicas: Sequence[int],
        isr: Collection[int],
        leader_epoch: int,
        partition_epoch: int,
        leo: int,
        high_watermark: int,
        min_insync_replicas: int,
        lag_time_max_ms: float,
        now_ms: float,
        log_end_offset: int | None = None,
        elr_min_isr: int = 0,
    ) -> None:
        """leo: as the attribute says. log_end_offset: where this epoch's batches begin; leo unless group commit.

        elr_min_isr: came with this ISR; it stands until the next ISR comes, whatever min_insync_replicas becomes.
        """
        epoch_start = leo if log_end_offset is None else log_end_offset
        assert high_watermark <= epoch_start
        assert leo <= epoch_start
        self.broker_id = broker_id
        self.replicas = tuple(replicas)
        self.leader_epoch = leader_epoch
        self.isr = IsrState(frozenset(isr), partition_epoch)
        self.leo = leo
        self.epoch_start_offset = epoch_start
        self.high_watermark = high_watermark
        self.min_insync_replicas = min_insync_replicas
        self.elr_min_isr = elr_min_isr
        self.lag_time_max_ms = lag_time_max_ms
        self.alive: Collection[int] | None = None
        self.refused: dict[int, tuple[int, float]] = {}
        """Joiners that the controller refused: broker → (broker epoch, ms before which they are not proposed again).

        The watermark does not wait for them either until they have fetched after that.
        """
        self.followers = {
            broker: FollowerProgress(broker, broker in self.isr.committed, now_ms)
            for broker in self.replicas
            if broker != broker_id
        }

    @property
    def min_isr(self) -> int:
        """How many in-sync replicas an acks=all append and a rise of the watermark need."""
        return max(effective_min_isr(self.min_insync_replicas, len(self.replicas)), self.elr_min_isr)

    @property
    def under_min_isr(self) -> bool:
        """Whether the ISR is too small for the watermark to rise; min.insync.replicas means at most all replicas."""
        in_sync = len(self.isr.committed)
        return in_sync < self.elr_min_isr or (in_sync < self.min_insync_replicas and in_sync < len(self.replicas))

    @property
    def offsets_available(self) -> bool:
        """Whether the watermark has reached this epoch's start: before that, an end offset given to a client could be
        too low.
        """
        return self.high_watermark >= self.epoch_start_offset

    def check_append(self, acks: int) -> ErrorCode:
        """acks=all is refused before the append while the ISR is short; acks 0 and 1 go on."""
        if acks == -1 and self.under_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def check_committed(self, required_offset: int) -> ErrorCode | None:
        """For a waiting acks=all append that ends at required_offset (exclusive): None while it must wait."""
        if self.high_watermark < required_offset:
            return None
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if self.under_min_isr else ErrorCode.NONE

    def check_fetch(self, follower_id: int, broker_epoch: int) -> ErrorCode:
        """Whether a fetch that claims to come from follower_id may be served and counted."""
        progress = self.followers.get(follower_id)
        if progress is None:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return check_follower_broker_epoch(broker_epoch, progress.broker_epoch)

    def record_fetch(self, follower_id: int, offset: int, broker_epoch: int, now_ms: float) -> bool:
        """Count a checked fetch that does not diverge; True when the follower's LEO changed."""
        return self.followers[follower_id].record_fetch(offset, broker_epoch, self.leo, now_ms)

    def note_log_start(self, follower_id: int, log_start: int) -> bool:
        """Take what a counted fetch says of where the follower's log begins; True when that is news."""
        progress = self.followers[follower_id]
        if progress.log_start == log_start:
            return False
        progress.log_start = log_start
        return True

    def low_watermark(self, log_start: int) -> int:
        """Smallest log start offset among the live replicas: no record below it is on any of them. log_start: own.

        −1 while a live follower has not sent its own. Source: Partition.lowWatermarkIfLeader; KIP-107.
        """
        alive = self.alive
        for broker, progress in self.followers.items():
            if progress.log_start < log_start and (alive is None or broker in alive):
                log_start = progress.log_start
        return log_start

    def count_by_session(self, follower_id: int, session_progress: SessionProgress | None) -> bool:
        """From the fetch just counted on, count a follower in sync by its session's progress; None: fetch by fetch.

        False where each fetch must be counted by itself: a follower that may join the ISR is looked at every time.
        """
        progress = self.followers[follower_id]
        if progress.session_progress is not session_progress:
            progress.settle(self.leo)
            progress.session_progress = None
            if session_progress is not None and follower_id in self.isr.committed:
                progress.session_progress = session_progress
        return progress.session_progress is not None

    def advance_leo(self, leo: int) -> None:
        """This broker has written up to leo."""
        assert leo >= self.leo
        if leo != self.leo:
            for progress in self.followers.values():
                progress.settle(self.leo)
            self.leo = leo

    def maybe_advance_high_watermark(self, now_ms: float) -> bool:
        """Raise the watermark to the smallest LEO that counts; True when it rose.

        Beside the maximal ISR it waits for replicas that are caught up and on their way in; else under steady load a
        joiner could chase the leader's end for ever. One that the controller has refused is not on its way in until it
        has fetched after the pause. A joiner falls behind by the passing of time alone: the caller has to call again.
        """
        if self.under_min_isr:
            return False
        lowest = self.leo
        maximal = self.isr.maximal
        for broker, progress in self.followers.items():
            if progress.leo < lowest and (
                broker in maximal
                or (
                    progress.is_caught_up(self.leo, now_ms, self.lag_time_max_ms)
                    and self._may_join(progress, progress.fetch_ms)
                )
            ):
                lowest = progress.leo
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True

    def leos(self) -> dict[int, int]:
        """LEO by broker as known here, itself included."""
        known = {broker: progress.leo for broker, progress in self.followers.items()}
        known[self.broker_id] = self.leo
        return known

    def propose_shrink(self, now_ms: float) -> Proposal | None:
        """The ISR without those that were not caught up within the lag time; None when all are, or one is in flight, or
        where the ISR does not name this leader, as by a state that no controller makes: it might become empty.
        """
        if self.isr.pending is not None or self.broker_id not in self.isr.committed:
            return None
        late = {
            broker
            for broker in self.isr.committed
            if broker != self.broker_id
            and (
                (progress := self.followers.get(broker)) is None
                or not progress.is_caught_up(self.leo, now_ms, self.lag_time_max_ms)
            )
        }
        if not late:
            return None
        return self._propose("shrink", self.isr.committed - late, "lag")

    def propose_expand(self, follower_id: int, now_ms: float) -> Proposal | None:
        """The ISR with follower_id, if its last fetch shows that it has all that is or may be committed."""
        if self.isr.pending is not None or follower_id in self.isr.committed:
            return None
        progress = self.followers[follower_id]
        if progress.leo < self.high_watermark or progress.leo < self.epoch_start_offset:
            return None
        if not self._may_join(progress, now_ms):
            return None
        return self._propose("expand", self.isr.committed | {follower_id}, "caught-up")

    def propose_next(self, now_ms: float, fetched_since_ms: float) -> Proposal | None:
        """After a proposal is settled: an expansion by one whose fetch met it; None when there is none that may join.

        fetched_since_ms: an older fetch proves what a follower has, but not that it is still there.
        """
        for broker, progress in self.followers.items():
            if progress.fetch_ms >= fetched_since_ms:
                proposal = self.propose_expand(broker, now_ms)
                if proposal is not None:
                    return proposal
        return None

    def handle_alter_response(
        self,
        proposal: Proposal,
        error: int,
        isr: Collection[int],
        partition_epoch: int,
        leader_epoch: int,
        elr_min_isr: int = 0,
    ) -> ResponseEffect:
        """The controller's response to a proposal; after COMMITTED the watermark may rise."""
        before = self.isr.committed
        effect = self.isr.handle_response(proposal, error, frozenset(isr), partition_epoch, leader_epoch)
        if effect is ResponseEffect.COMMITTED:
            self.elr_min_isr = elr_min_isr
            self._void_removed(before)
        return effect

    def defer_join(self, proposal: Proposal, until_ms: float) -> None:
        """After a refusal: do not propose the same joiners before until_ms. Their next incarnations are others."""
        for broker in proposal.isr:
            if broker not in self.isr.committed:
                self.refused[broker] = (proposal.broker_epochs.get(broker, NO_EPOCH), until_ms)

    def learn_state(
        self, replicas: Sequence[int], isr: Collection[int], partition_epoch: int, now_ms: float, elr_min_isr: int = 0
    ) -> None:
        """LeaderAndIsr in the same leader epoch with a larger partition epoch."""
        before = self.isr.committed
        self.replicas = tuple(replicas)
        self.isr.learn(frozenset(isr), partition_epoch)
        self.elr_min_isr = elr_min_isr
        for broker in list(self.followers):
            if broker not in self.replicas:
                del self.followers[broker]
        for broker in self.replicas:
            if broker != self.broker_id and broker not in self.followers:
                self.followers[broker] = FollowerProgress(broker, broker in self.isr.committed, now_ms)
        self._void_removed(before)

    def _void_removed(self, before: frozenset[int]) -> None:
        for broker in before - self.isr.committed:
            progress = self.followers.get(broker)
            if progress is not None:
                progress.leave_isr(self.leo)

    def _may_join(self, progress: FollowerProgress, at_ms: float) -> bool:
        """at_ms: now, or when it was last heard of."""
        refused_epoch, until_ms = self.refused.get(progress.broker_id, (NO_EPOCH, NEVER))
        return (
            progress.broker_epoch != NO_EPOCH
            and (self.alive is None or progress.broker_id in self.alive)
            and (refused_epoch != progress.broker_epoch or until_ms <= at_ms)
        )

    def _propose(self, kind: str, isr: Collection[int], reason: str) -> Proposal:
        members = set(isr)
        epochs = {broker: progress.broker_epoch for broker, progress in self.followers.items() if broker in members}
        proposal = Proposal(
            "shrink" if kind == "shrink" else "expand",
            tuple(broker for broker in self.replicas if broker in members),
            self.leader_epoch,
            self.isr.partition_epoch,
            epochs,
            reason,
        )
        self.isr.propose(proposal)
        return proposal
