"""Fetch sessions: what a fetcher wants, remembered, so that a request names only what changed.

A session belongs to one client or broker. Every fetch has one: a fetch outside any session gets a session that is
dropped with its response. Epochs of a session count its requests; one that is out of step is refused (70, 71), and the
fetcher starts over with a full request.
Source: KIP-227; kafka.server.FetchSession.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from broker.core.replication.follower import SessionProgress
from broker.model.ids import Epoch, Offset
from broker.runtime.replicas.replica import Replica
from broker.runtime.requests.request import Request
from broker.wire.errors import ErrorCode
from broker.wire.messages.fetch import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_SESSION_ID,
    FetchPartition,
    FetchRequest,
)

EVICTION_IDLE_MS = 120_000.0
_EPOCH_MAX = 2**31 - 1
_ID_MAX = 2**31 - 1

SessionKey = tuple[str, int]
"""(topic name, or topic id where the version has ids; partition)."""


class SessionPartition:
    """One partition of a session: the position that its fetcher requests, and what was last sent to it."""

    __slots__ = (
        "at_end",
        "checked",
        "error_sent",
        "fetch_offset",
        "hw_sent",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "log_start_sent",
        "max_bytes",
        "partition",
        "replica",
        "topic",
        "topic_id",
    )

    def __init__(self, requested: FetchPartition, topic: str, replica: Replica | None) -> None:
        """topic: the name, "" when the id is unknown here."""
        self.topic = topic
        self.topic_id = requested.topic_id
        self.partition = requested.partition
        self.replica = replica
        self.hw_sent: Offset = -1
        self.log_start_sent: Offset = -1
        self.error_sent = 0
        self.at_end = False
        """When it was last read, nothing lay between the position and what may be read."""
        self.move(requested)

    def move(self, requested: FetchPartition) -> None:
        """A new position: it has to be checked for divergence again."""
        self.fetch_offset: Offset = requested.fetch_offset
        self.leader_epoch: Epoch = requested.current_leader_epoch
        self.last_fetched_epoch: Epoch = requested.last_fetched_epoch
        self.max_bytes = requested.max_bytes
        self.log_start_offset: Offset = requested.log_start_offset
        self.checked = False

    def note_sent(self, hw: Offset, log_start: Offset, error: int = 0) -> None:
        """What the latest response says; −1: the next response says it again, though nothing changed."""
        self.hw_sent = hw
        self.log_start_sent = log_start
        self.error_sent = error


NamedPartitions = list[tuple[SessionKey, SessionPartition]]
"""The partitions that one request names."""


class FetchSession:
    """`session_id` 0: only for one request. follower_id −1: a consumer's.

    changed: partitions of which a response may have something to say, in the order in which they get their turn.
    attended: those for which each fetch of the follower is counted; session_progress counts for the others.
    unnamed: those whose topic id is not known here.
    """

    __slots__ = (
        "attended",
        "changed",
        "epoch",
        "follower_id",
        "partitions",
        "replica_epoch",
        "scanned_ms",
        "session_id",
        "session_progress",
        "unnamed",
        "used_ms",
        "uses_topic_ids",
        "wait",
    )

    def __init__(self, session_id: int, follower_id: int, uses_topic_ids: bool, now_ms: float) -> None:
        self.session_id = session_id
        self.follower_id = follower_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.used_ms = now_ms
        self.partitions: dict[SessionKey, SessionPartition] = {}
        self.changed: dict[SessionKey, SessionPartition] = {}
        self.attended: dict[SessionKey, SessionPartition] = {}
        self.unnamed: dict[SessionKey, SessionPartition] = {}
        self.session_progress = SessionProgress()
        self.replica_epoch: Epoch = -1
        self.scanned_ms = now_ms
        self.wait: FetchWait | None = None

    def forget(self, key: SessionKey) -> SessionPartition | None:
        """Take a partition out; None when it is not in."""
        self.changed.pop(key, None)
        self.attended.pop(key, None)
        self.unnamed.pop(key, None)
        return self.partitions.pop(key, None)

    def to_end(self, key: SessionKey) -> None:
        """A partition that was sent data goes last, so that a size limit starves none."""
        part = self.partitions.pop(key)
        self.partitions[key] = part
        self.changed.pop(key, None)
        self.changed[key] = part


class FetchWait:
    """One fetch request from arrival to response.

    full: the response has every partition, changed or not. any_replica: followers too read for it. rack: in which the
    consumer wants to read, "" where leaders read for all.
    """

    __slots__ = ("any_replica", "armed", "body", "done", "full", "max_bytes", "rack", "request", "session")

    def __init__(
        self,
        request: Request,
        body: FetchRequest,
        session: FetchSession,
        full: bool,
        max_bytes: int,
        any_replica: bool = False,
        rack: str = "",
    ) -> None:
        self.request = request
        self.body = body
        self.session = session
        self.full = full
        self.max_bytes = max_bytes
        self.any_replica = any_replica
        self.rack = rack
        self.armed = False
        self.done = False


class FetchSessions:
    """All lasting sessions of this broker, at most `slots`. Followers' sessions may push out consumers'.

    Ids are drawn at random: a fetcher that still counts on a session of this broker's earlier life must not meet
    another's by chance.
    """

    def __init__(self, slots: int, on_close: Callable[[FetchSession], None]) -> None:
        self._slots = slots
        self._on_close = on_close
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def open(self, request: FetchRequest, uses_topic_ids: bool, now_ms: float) -> FetchSession | ErrorCode:
        """The session that this request belongs to; a full request's has no partitions yet. Or the error."""
        session_epoch = request.session_epoch
        if session_epoch in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
            self.close(request.session_id)
            if request.replica_id >= 0:
                # A follower has one fetcher per leader: what it held before is gone.
                for old in [s.session_id for s in self._sessions.values() if s.follower_id == request.replica_id]:
                    self.close(old)
            session_id = NO_SESSION_ID
            if session_epoch == INITIAL_SESSION_EPOCH:
                session_id = self._take_slot(request.replica_id >= 0, now_ms)
            session = FetchSession(session_id, request.replica_id, uses_topic_ids, now_ms)
            if session_id != NO_SESSION_ID:
                self._sessions[session_id] = session
            return session
        found = self._sessions.get(request.session_id)
        if found is None or found.follower_id != request.replica_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if found.epoch != session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if found.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        found.epoch = 1 if session_epoch == _EPOCH_MAX else session_epoch + 1
        found.used_ms = now_ms
        return found

    def close(self, session_id: int) -> None:
        """Forget a session; harmless for one that is not there."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._on_close(session)

    def _take_slot(self, follower: bool, now_ms: float) -> int:
        if len(self._sessions) >= self._slots:
            # Least recently used first; a consumer's that is busy gives way to a follower only.
            victims = [s for s in self._sessions.values() if s.follower_id < 0]
            oldest = min(victims, key=lambda session: session.used_ms, default=None)
            if oldest is None or not (follower or now_ms - oldest.used_ms > EVICTION_IDLE_MS):
                return NO_SESSION_ID
            self.close(oldest.session_id)
        while True:
            drawn = random.randrange(1, _ID_MAX)
            if drawn not in self._sessions:
                return drawn
