"""Fetch: sessions, positions, long polls, and what followers' fetches prove to the leader.

A follower's fetch is counted (its LEO, its catching up, its way into the ISR) before anything is read. Consumers see
nothing at or above the watermark (last stable offset for read_committed). A fetch that finds too little waits in its
session: appends wake followers, the watermark wakes consumers, a role change wakes both.
Source: ReplicaManager.fetchMessages, Partition.fetchRecords, DelayedFetch; KIP-227.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core import epochs
from broker.core.leader import Leader
from broker.core.purgatory import Watchers
from broker.runtime.fetch_read import PartitionReader
from broker.runtime.fetch_sessions import FetchSession, FetchSessions, SessionKey, SessionPartition
from broker.runtime.ports import Timer
from broker.runtime.replica import Replica, end_offset_of
from broker.runtime.request import Request, refuse, respond
from broker.wire.chunks import chunk_length
from broker.wire.errors import ErrorCode
from broker.wire.messages.fetch import (
    NO_SESSION_ID,
    FetchPartitionResult,
    FetchRequest,
    decode_request,
    encode_response,
)
from broker.wire.messages.fetch_request import TOPIC_IDS
from broker.wire.primitives import MalformedFrame

if TYPE_CHECKING:
    from broker.runtime.replica_manager import ReplicaManager


class FetchWait:
    """One fetch request from arrival to answer. full: every partition of the session is answered, changed or not."""

    __slots__ = ("asked", "done", "full", "max_bytes", "request", "session", "timer")

    def __init__(
        self, request: Request, asked: FetchRequest, session: FetchSession, full: bool, max_bytes: int
    ) -> None:
        self.request = request
        self.asked = asked
        self.session = session
        self.full = full
        self.max_bytes = max_bytes
        self.timer: Timer | None = None
        self.done = False


class FetchHandler:
    """All Fetch requests of this broker."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager
        self._reader = PartitionReader(manager)
        self._sessions = FetchSessions(
            manager.settings.max_incremental_fetch_session_cache_slots, self._on_session_closed
        )
        self._followers: Watchers[FetchSession] = Watchers()
        self._consumers: Watchers[FetchSession] = Watchers()
        self._woken: dict[int, FetchWait] = {}

    # -- arrival ---------------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> None:
        """Count it if it is a follower's, then answer it or let it wait."""
        try:
            asked = decode_request(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"Fetch: {error}")
            return
        manager = self._manager
        now = manager.loop.now_ms()
        uses_ids = request.api_version >= TOPIC_IDS
        opened = self._sessions.open(asked, uses_ids, now)
        if isinstance(opened, ErrorCode):
            respond(request, encode_response(request.api_version, [], error=opened))
            return
        if opened.wait is not None:
            # The fetcher has more to say, or gave up: its earlier request waits no longer.
            self._complete(opened.wait)
        full = asked.session_epoch <= 0
        named = self._update_session(opened, asked, uses_ids)
        max_bytes = asked.max_bytes
        if asked.replica_id < 0:
            max_bytes = min(max_bytes, manager.settings.fetch_max_bytes)
        else:
            self._log_received(request, asked, named)
            for part in opened.partitions.values():
                if not part.topic:
                    self._name(opened, part)
                self._count_follower(asked, part, now)
        wait = FetchWait(request, asked, opened, full, max_bytes)
        if asked.max_wait_ms <= 0 or not opened.partitions:
            self._answer(wait, self._read_all(wait)[0])
            return
        results, enough = self._read_all(wait)
        if enough:
            self._answer(wait, results)
            return
        opened.wait = wait
        wait.timer = manager.loop.call_later(asked.max_wait_ms, lambda: self._complete(wait))

    def _update_session(self, session: FetchSession, asked: FetchRequest, uses_ids: bool) -> list[SessionPartition]:
        """Take new and moved partitions in, forgotten ones out; those that this request names."""
        manager = self._manager
        partitions = session.partitions
        watchers = self._followers if session.follower_id >= 0 else self._consumers
        for forgotten in asked.forgotten:
            part = partitions.pop((forgotten.topic_id if uses_ids else forgotten.topic, forgotten.partition), None)
            if part is not None:
                watchers.unwatch((part.topic, part.partition), session)
        named: list[SessionPartition] = []
        for one in asked.partitions:
            key = (one.topic_id if uses_ids else one.topic, one.partition)
            part = partitions.get(key)
            if part is None:
                topic = manager.topic_of_id(one.topic_id) if uses_ids else one.topic
                part = SessionPartition(one, topic, manager.replicas.get((topic, one.partition)))
                partitions[key] = part
                watchers.watch((part.topic, part.partition), session)
            else:
                part.move(one)
            named.append(part)
        return named

    def _name(self, session: FetchSession, part: SessionPartition) -> None:
        """Look again for a topic id that was unknown: its LeaderAndIsr may have come since."""
        topic = self._manager.topic_of_id(part.topic_id)
        if topic:
            self._followers.unwatch((part.topic, part.partition), session)
            part.topic = topic
            self._followers.watch((part.topic, part.partition), session)

    def _count_follower(self, asked: FetchRequest, part: SessionPartition, now_ms: float) -> None:
        """What a follower's fetch says about its own log, if it may say it. Errors show when it is read."""
        replica = self._reader.replica_of(part)
        if replica is None or replica.offline:
            return
        role = replica.partition.role
        if not isinstance(role, Leader):
            return
        if part.leader_epoch not in (-1, role.leader_epoch):
            return
        follower = asked.replica_id
        if role.check_fetch(follower, asked.replica_epoch) is not ErrorCode.NONE:
            return
        log = replica.log
        named = not part.checked
        if named:
            if not log.log_start_offset <= part.fetch_offset <= log.written_leo:
                return
            if epochs.diverging_epoch(log.end_offset_for_epoch, part.last_fetched_epoch, part.fetch_offset):
                return
            part.checked = True
        moved = role.record_fetch(follower, part.fetch_offset, asked.replica_epoch, now_ms)
        if named and role.note_log_start(follower, part.log_start_offset):
            self._manager.delete_records.on_follower(replica, role)
        if follower not in role.isr.committed:
            proposal = role.propose_expand(follower, now_ms)
            if proposal is not None:
                self._manager.isr_changes.submit(replica, role, proposal)
        if moved:
            self._manager.maybe_advance(replica, role)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def on_append(self, replica: Replica) -> None:
        """Bytes were written as leader: this partition's followers may fetch them."""
        for session in self._followers.of(replica.topic_partition):
            self._wake(session)

    def on_high_watermark(self, replica: Replica) -> None:
        """The watermark rose: consumers may fetch more. Followers are not woken by it."""
        for session in self._consumers.of(replica.topic_partition):
            self._wake(session)

    def on_log_start(self, replica: Replica) -> None:
        """The log now begins later: followers hear of it at once, for someone waits until theirs does too."""
        for session in self._followers.of(replica.topic_partition):
            if session.wait is not None:
                self._complete(session.wait)

    def on_role_change(self, replica: Replica) -> None:
        """Whoever waits for this partition here has to hear that something else holds now."""
        topic, index = replica.topic_partition
        for session in (*self._followers.of(replica.topic_partition), *self._consumers.of(replica.topic_partition)):
            part = session.partitions.get((replica.topic_id if session.uses_topic_ids else topic, index))
            if part is not None:
                part.replica = None
                part.checked = False
            self._wake(session)

    def _wake(self, session: FetchSession) -> None:
        wait = session.wait
        if wait is not None:
            self._woken[id(wait)] = wait

    def finish_turn(self) -> None:
        """Look again at all that was woken in this turn; answer what has enough."""
        if not self._woken:
            return
        woken, self._woken = self._woken, {}
        for wait in woken.values():
            if wait.done:
                continue
            if not wait.request.open:
                self._drop(wait)
                continue
            results, enough = self._read_all(wait)
            if enough:
                self._answer(wait, results)

    def _complete(self, wait: FetchWait) -> None:
        """Time is over: answer with what there is."""
        if not wait.done:
            self._answer(wait, self._read_all(wait)[0])

    def _drop(self, wait: FetchWait) -> None:
        wait.done = True
        if wait.timer is not None:
            wait.timer.cancel()
        if wait.session.wait is wait:
            wait.session.wait = None
        if wait.session.session_id == NO_SESSION_ID:
            self._on_session_closed(wait.session)

    def _on_session_closed(self, session: FetchSession) -> None:
        watchers = self._followers if session.follower_id >= 0 else self._consumers
        for part in session.partitions.values():
            watchers.unwatch((part.topic, part.partition), session)
        if session.wait is not None:
            self._complete(session.wait)

    def _answer(self, wait: FetchWait, results: list[tuple[SessionKey, FetchPartitionResult]]) -> None:
        session = wait.session
        log = self._manager.event_log
        throttle = self._manager.throttle.leader
        for key, result in results:
            part = session.partitions.get(key)
            if part is None:
                continue
            if result.error or result.diverging_epoch >= 0:
                part.told(-1, -1)
            else:
                part.told(result.high_watermark, result.log_start_offset)
            if result.records:
                session.to_end(key)
                if throttle is not None and session.follower_id >= 0 and throttle.covers(part.topic, part.partition):
                    throttle.record(chunk_length(result.records[0]), self._manager.loop.now_ms())
                if session.follower_id >= 0 and part.replica is not None:
                    part.replica.served[session.follower_id] = part.fetch_offset
                if log is not None and session.follower_id < 0:
                    self._log_visible(part, result)
        self._drop(wait)
        version = wait.request.api_version
        body = encode_response(version, [result for _, result in results], session_id=session.session_id)
        respond(wait.request, body)

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read_all(self, wait: FetchWait) -> tuple[list[tuple[SessionKey, FetchPartitionResult]], bool]:
        """(what an answer would hold now, whether that is enough not to wait)."""
        results: list[tuple[SessionKey, FetchPartitionResult]] = []
        bytes_left = wait.max_bytes
        total = 0
        urgent = False
        read = self._reader.read
        for key, part in wait.session.partitions.items():
            result = read(wait.asked, part, wait.full, bytes_left, total == 0)
            if result is None:
                continue
            if result.records:
                length = chunk_length(result.records[0])
                total += length
                bytes_left -= length
            elif result.error or result.diverging_epoch >= 0:
                urgent = True
            results.append((key, result))
        if not urgent and 0 < total < wait.asked.min_bytes:
            urgent = any(self._more_follows(wait.session, key, result) for key, result in results)
        return results, urgent or total >= wait.asked.min_bytes

    def _more_follows(self, session: FetchSession, key: SessionKey, result: FetchPartitionResult) -> bool:
        """Whether a read stopped (a segment's end, a size limit) short of what may be read: waiting adds nothing."""
        replica = session.partitions[key].replica
        if not result.records or replica is None:
            return False
        limit = replica.log.written_leo if session.follower_id >= 0 else result.high_watermark
        return end_offset_of(result.records[0]) < limit

    # -- event log -------------------------------------------------------------------------------------------------

    def _log_received(self, request: Request, asked: FetchRequest, named: list[SessionPartition]) -> None:
        log = self._manager.event_log
        if log is not None:
            log.emit(
                "fetch_received",
                rid=f"{request.client_id.rpartition('-')[2]}:{request.correlation_id}",
                follower=asked.replica_id,
                be=asked.replica_epoch,
                parts=[
                    [f"{part.topic}-{part.partition}", part.fetch_offset, part.leader_epoch, part.last_fetched_epoch]
                    for part in named
                    if part.topic  # an id that this broker has yet to hear of: nothing is counted for it
                ],
            )

    def _log_visible(self, part: SessionPartition, result: FetchPartitionResult) -> None:
        log = self._manager.event_log
        replica = part.replica
        if log is not None and replica is not None:
            log.emit(
                "visible",
                p=replica.name,
                le=replica.partition.leader_epoch,
                kind="fetch",
                upto=end_offset_of(result.records[0]),
                hw=replica.high_watermark,
            )
