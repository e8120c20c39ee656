"""What a follower's fetch proves: its LEO, its catching up, its way into the ISR.

A fetch is counted for the partitions that it names, and for those that its session's progress does not count.
Source: Partition.updateFollowerFetchState, maybeExpandIsr; KIP-227.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.replication import epochs
from broker.core.replication.leader import Leader
from broker.model.ids import Epoch
from broker.runtime.fetch.partition_reader import PartitionReader
from broker.runtime.fetch.sessions import FetchSession, NamedPartitions, SessionKey, SessionPartition
from broker.runtime.replicas.delete_records import DeleteRecordsHandler
from broker.runtime.replicas.isr_manager import IsrManager
from broker.runtime.replicas.replicas import Replicas
from broker.wire.errors import ErrorCode
from broker.wire.messages.fetch import NO_SESSION_ID


class FollowerProgress:
    """Counts followers' fetches before anything is read for them."""

    def __init__(
        self,
        replicas: Replicas,
        isr_manager: IsrManager,
        delete_records: DeleteRecordsHandler,
        reader: PartitionReader,
    ) -> None:
        self._replicas = replicas
        self._isr_manager = isr_manager
        self._delete_records = delete_records
        self._reader = reader

    def count(self, session: FetchSession, named: NamedPartitions, replica_epoch: Epoch, now_ms: float) -> None:
        """Take one fetch of a session for what it proves. Errors show when the partitions are read."""
        session_progress = session.session_progress
        parts: Iterable[tuple[SessionKey, SessionPartition]]
        if session_progress.lost or replica_epoch != session.replica_epoch:
            session_progress.lost = False
            session.replica_epoch = replica_epoch
            parts = list(session.partitions.items())
        elif session.attended:
            parts = list({**session.attended, **dict(named)}.items())
        else:
            parts = named
        for key, part in parts:
            if self._count_follower(session, part, now_ms):
                session.attended.pop(key, None)
            else:
                session.attended[key] = part
        session_progress.fetch_ms = now_ms

    def leave(self, session: FetchSession, part: SessionPartition) -> None:
        """From now on the session's fetches say nothing of this partition."""
        role = part.replica.leader if part.replica is not None else None
        if role is not None and session.follower_id in role.followers:
            role.count_by_session(session.follower_id, None)

    def _count_follower(self, session: FetchSession, part: SessionPartition, now_ms: float) -> bool:
        """True when the session's progress counts this partition from now on."""
        replica = self._reader.replica_of(part)
        if replica is None or replica.offline:
            return False
        role = replica.partition.role
        if not isinstance(role, Leader):
            return False
        if part.leader_epoch not in (-1, role.leader_epoch):
            return False
        follower, replica_epoch = session.follower_id, session.replica_epoch
        if role.check_fetch(follower, replica_epoch) is not ErrorCode.NONE:
            return False
        named = not part.checked
        if named:
            log = replica.log
            if not log.log_start_offset <= part.fetch_offset <= log.log_end_offset:
                return False
            if epochs.diverging_epoch(log.end_offset_for_epoch, part.last_fetched_epoch, part.fetch_offset):
                return False
            part.checked = True
        moved = role.record_fetch(follower, part.fetch_offset, replica_epoch, now_ms)
        if named and role.note_log_start(follower, part.log_start_offset):
            self._delete_records.on_follower(replica, role)
        if follower not in role.isr.committed:
            proposal = role.propose_expand(follower, now_ms)
            if proposal is not None:
                self._isr_manager.submit(replica, role, proposal)
        if moved:
            self._replicas.maybe_advance(replica, role)
        return session.session_id != NO_SESSION_ID and role.count_by_session(follower, session.session_progress)
