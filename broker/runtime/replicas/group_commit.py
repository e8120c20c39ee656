"""Group commit: what counts as replicated is on disk, and one fsync serves all that was written before it began.

For topics with `flush.policy=group-commit` a leader's own part of the watermark, and the offset that a follower
fetches from, is the flushed end of the log. Flushes run on threads of the log dir; while one is under way more is
written, and the next one takes all of that. A flush that fails takes the dir offline: it is never repeated.
Must not know what is in sync or committed: it tells the leader role how far its log is on disk.
Source: none in Kafka; docs/adr (group commit).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.core.replication.leader import Leader
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.event_log import EventLog
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas


class GroupCommit:
    """`behind`: replicas of such topics whose log is not all on disk, by identity."""

    def __init__(
        self, replicas: Replicas, event_log: EventLog | None, on_follower_flushed: Callable[[Replica], None]
    ) -> None:
        """on_follower_flushed: a log that does not lead is on disk, or nothing waits for that any more."""
        self._replicas = replicas
        self._event_log = event_log
        self._on_follower_flushed = on_follower_flushed
        self._due: list[Replica] = []
        self._held: set[int] = set()
        self.behind: dict[int, Replica] = {}

    def note(self, replica: Replica) -> None:
        """Its log was written, or it has a new role or setting: whatever is not on disk is flushed in this turn."""
        if not replica.group_commit:
            if self.behind.pop(id(replica), None) is not None:
                # Nothing waits for its flush any more, fetches among it.
                self._on_follower_flushed(replica)
        elif not replica.offline and replica.log.recovery_point < replica.log.log_end_offset:
            self.behind[id(replica)] = replica
            self._due.append(replica)

    def forget(self, replica: Replica) -> None:
        """It is offline or gone."""
        self.behind.pop(id(replica), None)
        self._held.discard(id(replica))

    def hold(self, replica: Replica) -> None:
        """Begin no flush of its log until `release`: another log is about to take its place."""
        self._held.add(id(replica))

    def release(self, replica: Replica) -> None:
        """Undo `hold`; what came meanwhile is flushed in this turn."""
        if id(replica) in self._held:
            self._held.discard(id(replica))
            self.note(replica)

    def finish_turn(self) -> None:
        """After the turn's writes: begin the flushes that are due, one per log at a time."""
        if not self._due:
            return
        due, self._due = self._due, []
        for replica in due:
            if id(replica) in self.behind and id(replica) not in self._held:
                try:
                    replica.log.commit(partial(self._flushed, replica))
                except (LogDirFailed, CorruptLog) as failure:
                    self._replicas.take_offline(replica, failure)

    def _flushed(self, replica: Replica) -> None:
        if replica.offline or self._replicas.by_partition.get(replica.topic_partition) is not replica:
            self.forget(replica)
            return
        flushed = replica.log.recovery_point
        if self._event_log is not None:
            self._event_log.emit("flush", p=replica.event_name, upto=flushed)
        if flushed >= replica.log.log_end_offset:
            self.behind.pop(id(replica), None)
        else:
            self.note(replica)
        role = replica.partition.role
        if isinstance(role, Leader):
            role.advance_leo(max(role.leo, replica.replicated_leo))
            self._replicas.maybe_advance(replica, role)
        else:
            self._on_follower_flushed(replica)
