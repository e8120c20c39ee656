"""What a leader knows of one follower.

`leo` is the offset of the follower's last accepted fetch: all below it is on the follower. `caught_up_ms` is the
largest time t of which it can be said that the follower then had all that the leader had. A new broker epoch is a new
follower: nothing that was known of the old incarnation holds.
Source: kafka.cluster.Replica.updateFetchStateOrThrow, resetReplicaState; KIP-903.
"""

from __future__ import annotations

from broker.core.replication.fencing import NO_EPOCH
from broker.core.replication.watermark import UNKNOWN_OFFSET

NEVER = float("-inf")


class SessionProgress:
    """What a follower's fetches say of the partitions of its session that they do not name. Source: KIP-227.

    Every fetch of a session says of all its partitions: still at the offset last named. To count that for each of them
    at each fetch would cost as much as there are partitions, so it is counted when it can make a difference: before
    the leader's LEO moves, and before the partition is named again.
    fetch_ms: when the session's latest fetch came. lost: some partition is no longer counted by this session, so the
    next fetch must be counted for each partition by itself.
    """

    __slots__ = ("fetch_ms", "lost")

    def __init__(self) -> None:
        self.fetch_ms = NEVER
        self.lost = False


class FollowerProgress:
    """One follower as its leader sees it, within one leader epoch.

    log_start: where its log begins, as it says. session_progress: counts the fetches that do not name this partition;
    None while each fetch is counted here.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "caught_up_ms",
        "fetch_ms",
        "leader_leo_at_fetch",
        "leo",
        "log_start",
        "session_progress",
    )

    def __init__(self, broker_id: int, in_isr: bool, now_ms: float) -> None:
        """A member of the ISR has until now + lag time to come and fetch; another counts as never caught up."""
        self.broker_id = broker_id
        self.leo = UNKNOWN_OFFSET
        self.log_start = UNKNOWN_OFFSET
        self.broker_epoch = NO_EPOCH
        self.fetch_ms = NEVER
        self.leader_leo_at_fetch = UNKNOWN_OFFSET
        self.caught_up_ms = now_ms if in_isr else NEVER
        self.session_progress: SessionProgress | None = None

    def record_fetch(self, offset: int, broker_epoch: int, leader_leo: int, now_ms: float) -> bool:
        """Take a fetch at `offset` for what it proves; True when leo changed. leader_leo: before this turn's appends.

        Reaching the LEO of the *previous* fetch's time proves that the follower was caught up then: without that a
        steady trickle of appends would let no follower ever look caught up.
        """
        if broker_epoch != self.broker_epoch:
            if self.broker_epoch != NO_EPOCH:
                self._void()
            self.broker_epoch = broker_epoch
        else:
            self.settle(leader_leo)
        changed = offset != self.leo
        self._count(offset, leader_leo, now_ms)
        return changed

    def settle(self, leader_leo: int) -> None:
        """Count the fetches since the last one counted; leader_leo: what it was at all of them."""
        session_progress = self.session_progress
        if session_progress is not None and session_progress.fetch_ms > self.fetch_ms:
            self._count(self.leo, leader_leo, session_progress.fetch_ms)

    def _count(self, offset: int, leader_leo: int, now_ms: float) -> None:
        if offset >= leader_leo:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_leo_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetch_ms)
        self.fetch_ms = now_ms
        self.leader_leo_at_fetch = max(leader_leo, self.leader_leo_at_fetch)
        self.leo = offset

    def is_caught_up(self, leader_leo: int, now_ms: float, lag_time_max_ms: float) -> bool:
        """Has all, or had all within the lag time."""
        return self.leo >= leader_leo or now_ms - self.caught_up_ms <= lag_time_max_ms

    def leave_isr(self, leader_leo: int) -> None:
        """It must be seen to catch up again before the watermark waits for it. leader_leo: as for `settle`, so that
        the next fetch is measured by the session's last one, not by the last that was counted here.
        """
        self.settle(leader_leo)
        self.caught_up_ms = NEVER
        self._leave_session()

    def _leave_session(self) -> None:
        if self.session_progress is not None:
            self.session_progress.lost = True
            self.session_progress = None

    def _void(self) -> None:
        self.leo = UNKNOWN_OFFSET
        self.log_start = UNKNOWN_OFFSET
        self.fetch_ms = NEVER
        self.leader_leo_at_fetch = UNKNOWN_OFFSET
        self.caught_up_ms = NEVER
        self._leave_session()
