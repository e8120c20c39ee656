"""Fetch: sessions, positions, long polls.

A follower's fetch is counted (its LEO, its catching up, its way into the ISR) before anything is read; for partitions
that it does not name the session's presence speaks. Consumers see nothing at or above the watermark (last stable
offset for read_committed). What may wait is read at the end of the turn, after the log writes, and waits in its session
when it finds too little: appends wake followers, the watermark wakes consumers, a role change wakes both. A session's
answer looks at the partitions that were named or that something happened to, and at all of them once a second, so
that idle partitions cost nothing.
Source: ReplicaManager.fetchMessages, Partition.fetchRecords, DelayedFetch; KIP-227.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.core.replication import epochs
from broker.core.replication.leader import Leader
from broker.core.replication.purgatory import Watchers
from broker.model.ids import Epoch, Offset
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.fetch.partition_reader import PartitionReader
from broker.runtime.fetch.sessions import FetchSession, FetchSessions, SessionKey, SessionPartition
from broker.runtime.replicas.replica import Replica, end_offset_of
from broker.runtime.requests.deadlines import Deadlines
from broker.runtime.requests.old_clients import without_storage_errors
from broker.runtime.requests.request import Request, refuse, respond
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
from broker.wire.record_batch import CorruptBatch

if TYPE_CHECKING:
    from broker.runtime.replica_manager import ReplicaManager


_SCAN_MS = 1000.0
_STORAGE_ERROR_FROM = 6
_Named = list[tuple[SessionKey, SessionPartition]]


class FetchWait:
    """One fetch request from arrival to answer. full: every partition of the session is answered, changed or not."""

    __slots__ = ("armed", "asked", "done", "full", "max_bytes", "request", "session")

    def __init__(
        self, request: Request, asked: FetchRequest, session: FetchSession, full: bool, max_bytes: int
    ) -> None:
        self.request = request
        self.asked = asked
        self.session = session
        self.full = full
        self.max_bytes = max_bytes
        self.armed = False
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
        self._deadlines: Deadlines[FetchWait] = Deadlines(manager.loop, self._complete)

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
        if opened.unnamed:
            self._name_unknown(opened)
        named = self._update_session(opened, asked, uses_ids)
        max_bytes = asked.max_bytes
        if asked.replica_id < 0:
            max_bytes = min(max_bytes, manager.settings.fetch_max_bytes)
        else:
            self._log_received(request, asked, named)
            self._count_followers(opened, named, asked.replica_epoch, now)
        if now - opened.scanned_ms >= _SCAN_MS:
            # Whatever may change without anyone being told, as the log start by retention, is found here.
            opened.scanned_ms = now
            opened.changed = {**opened.changed, **opened.partitions}
        wait = FetchWait(request, asked, opened, full, max_bytes)
        if asked.max_wait_ms <= 0 or not opened.partitions:
            self._answer(wait, self._read_all(wait)[0])
            return
        opened.wait = wait
        self._woken[id(wait)] = wait

    def _update_session(self, session: FetchSession, asked: FetchRequest, uses_ids: bool) -> _Named:
        """Take new and moved partitions in, forgotten ones out; those that this request names."""
        manager = self._manager
        partitions = session.partitions
        watchers = self._followers if session.follower_id >= 0 else self._consumers
        for forgotten in asked.forgotten:
            part = session.forget((forgotten.topic_id if uses_ids else forgotten.topic, forgotten.partition))
            if part is not None:
                self._leave(session, part)
                watchers.unwatch((part.topic, part.partition), session)
        named: _Named = []
        for one in asked.partitions:
            key = (one.topic_id if uses_ids else one.topic, one.partition)
            part = partitions.get(key)
            if part is None:
                topic = manager.topic_of_id(one.topic_id) if uses_ids else one.topic
                replica = manager.replicas.get((topic, one.partition))
                if uses_ids and replica is not None and replica.topic_id != one.topic_id:
                    replica = None  # another topic's, which was deleted or made anew
                part = SessionPartition(one, topic, replica)
                partitions[key] = part
                if not topic:
                    session.unnamed[key] = part
                watchers.watch((part.topic, part.partition), session)
            else:
                part.move(one)
                if session.follower_id >= 0:
                    # It may have had two requests out, and drops from the second answer what the first one moves: what
                    # this leader told then was told to nobody.
                    part.told(-1, -1)
            session.changed[key] = part
            named.append((key, part))
        return named

    def _name_unknown(self, session: FetchSession) -> None:
        """Look again for topic ids that were unknown: their LeaderAndIsr may have come since.

        Who fetches does not name them again: it goes by the answers. Source: FetchSession.maybeResolveUnknownName.
        """
        watchers = self._followers if session.follower_id >= 0 else self._consumers
        for key, part in list(session.unnamed.items()):
            topic = self._manager.topic_of_id(part.topic_id)
            if topic:
                del session.unnamed[key]
                watchers.unwatch(("", part.partition), session)
                part.topic = topic
                watchers.watch((topic, part.partition), session)
                session.changed[key] = part

    def _count_followers(self, session: FetchSession, named: _Named, replica_epoch: Epoch, now_ms: float) -> None:
        """Take one fetch of a session for what it proves. Errors show when the partitions are read."""
        presence = session.presence
        parts: Iterable[tuple[SessionKey, SessionPartition]]
        if presence.lost or replica_epoch != session.replica_epoch:
            presence.lost = False
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
        presence.fetch_ms = now_ms

    def _leave(self, session: FetchSession, part: SessionPartition) -> None:
        """The session's fetches say nothing of this partition any more."""
        role = part.replica.leader if part.replica is not None else None
        if role is not None and session.follower_id in role.followers:
            role.let_speak(session.follower_id, None)

    def _count_follower(self, session: FetchSession, part: SessionPartition, now_ms: float) -> bool:
        """True when the session's presence speaks for this partition from now on."""
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
            if not log.log_start_offset <= part.fetch_offset <= log.written_leo:
                return False
            if epochs.diverging_epoch(log.end_offset_for_epoch, part.last_fetched_epoch, part.fetch_offset):
                return False
            part.checked = True
        moved = role.record_fetch(follower, part.fetch_offset, replica_epoch, now_ms)
        if named and role.note_log_start(follower, part.log_start_offset):
            self._manager.delete_records.on_follower(replica, role)
        if follower not in role.isr.committed:
            proposal = role.propose_expand(follower, now_ms)
            if proposal is not None:
                self._manager.isr_changes.submit(replica, role, proposal)
        if moved:
            self._manager.maybe_advance(replica, role)
        return session.session_id != NO_SESSION_ID and role.let_speak(follower, session.presence)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def on_append(self, replica: Replica) -> None:
        """Bytes were written as leader: this partition's followers may fetch them."""
        for session in self._followers.of(replica.topic_partition):
            _note(session, replica)
            self._wake(session)

    def on_high_watermark(self, replica: Replica) -> None:
        """The watermark rose: consumers may fetch more. Followers are not woken by it, they hear of it in time."""
        for session in self._followers.of(replica.topic_partition):
            _note(session, replica)
        for session in self._consumers.of(replica.topic_partition):
            _note(session, replica)
            self._wake(session)

    def on_log_start(self, replica: Replica) -> None:
        """The log now begins later: followers hear of it at once, for someone waits until theirs does too."""
        for session in self._followers.of(replica.topic_partition):
            _note(session, replica)
            if session.wait is not None:
                self._complete(session.wait)

    def on_role_change(self, replica: Replica) -> None:
        """Whoever waits for this partition here has to hear that something else holds now."""
        for session in (*self._followers.of(replica.topic_partition), *self._consumers.of(replica.topic_partition)):
            key = _key(session, replica)
            part = session.partitions.get(key)
            if part is not None:
                part.replica = None
                part.checked = False
                session.changed[key] = part
                if session.follower_id >= 0:
                    session.attended[key] = part
            self._wake(session)

    def _wake(self, session: FetchSession) -> None:
        wait = session.wait
        if wait is not None:
            self._woken[id(wait)] = wait

    def finish_turn(self) -> None:
        """Look at all that came or was woken in this turn; answer what has enough, let the rest wait."""
        if not self._woken:
            return
        woken, self._woken = self._woken, {}
        for wait in woken.values():
            if wait.done:
                continue
            if not wait.request.open:
                self._drop(wait)
                continue
            if not self._nothing_new(wait):
                results, enough = self._read_all(wait)
                if enough:
                    self._answer(wait, results)
                    continue
            if not wait.armed:
                wait.armed = True
                self._deadlines.add(wait, wait.asked.max_wait_ms)

    def _nothing_new(self, wait: FetchWait) -> bool:
        """A follower's fetch, just counted, of which every partition stands at the leader's end: no need to read."""
        session = wait.session
        if wait.full or session.attended or session.follower_id < 0 or wait.asked.min_bytes < 1:
            return False
        for part in session.changed.values():
            replica = part.replica
            if replica is None or replica.offline or part.fetch_offset != replica.log.written_leo:
                return False
        return True

    def _complete(self, wait: FetchWait) -> None:
        """Time is over: answer with what there is."""
        if not wait.done:
            self._answer(wait, self._read_all(wait)[0])

    def drop_gone(self) -> None:
        """Forget the long polls of clients that are gone: their time may be days."""
        for wait in self._deadlines.items():
            if not wait.request.open:
                self._drop(wait)

    def _drop(self, wait: FetchWait) -> None:
        wait.done = True
        if wait.armed:
            self._deadlines.remove(wait, wait.asked.max_wait_ms)
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
        for place, (key, result) in enumerate(results):
            part = session.partitions.get(key)
            if part is None:
                continue
            if log is not None and session.follower_id < 0 and result.records and not self._log_visible(part, result):
                result = self._reader.error(part, ErrorCode.KAFKA_STORAGE_ERROR)
                results[place] = (key, result)
            if result.error or result.diverging_epoch >= 0:
                part.told(-1, -1, result.error)
            else:
                part.told(result.high_watermark, result.log_start_offset)
            if result.records:
                session.to_end(key)
                if throttle is not None and session.follower_id >= 0 and throttle.covers(part.topic, part.partition):
                    throttle.record(chunk_length(result.records[0]), self._manager.loop.now_ms())
                if session.follower_id >= 0 and part.replica is not None:
                    part.replica.served[session.follower_id] = part.fetch_offset
        self._drop(wait)
        version = wait.request.api_version
        answers = [result for _, result in results]
        if version < _STORAGE_ERROR_FROM:
            answers = without_storage_errors(answers)
        respond(wait.request, encode_response(version, answers, session_id=session.session_id))

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read_all(self, wait: FetchWait) -> tuple[list[tuple[SessionKey, FetchPartitionResult]], bool]:
        """(what an answer would hold now, whether that is enough not to wait)."""
        results: list[tuple[SessionKey, FetchPartitionResult]] = []
        bytes_left = wait.max_bytes
        total = 0
        urgent = False
        read = self._reader.read
        session = wait.session
        for key, part in list((session.partitions if wait.full else session.changed).items()):
            result = read(wait.asked, part, wait.full, bytes_left, total == 0)
            if result is None:
                if part.at_end:
                    session.changed.pop(key, None)
                continue
            if result.records:
                length = chunk_length(result.records[0])
                total += length
                bytes_left -= length
            elif result.error:
                # A follower that has heard it, and names the partition no more, would have nothing but round trips.
                urgent = urgent or session.follower_id < 0 or result.error != part.error_sent
            elif result.diverging_epoch >= 0:
                urgent = True
            results.append((key, result))
        if not urgent and 0 < total < wait.asked.min_bytes:
            urgent = self._more_follows(session, results)
        return results, urgent or total >= wait.asked.min_bytes

    def _more_follows(self, session: FetchSession, results: list[tuple[SessionKey, FetchPartitionResult]]) -> bool:
        """Whether a read stopped (a segment's end, a size limit) short of what may be read: waiting adds nothing.

        A read of bytes that are none any more becomes an error among the results, for which nobody waits either.
        """
        for place, (key, result) in enumerate(results):
            part = session.partitions[key]
            replica = part.replica
            if not result.records or replica is None:
                continue
            limit = replica.log.written_leo if session.follower_id >= 0 else result.high_watermark
            end = self._end_of(replica, result)
            if end is None:
                results[place] = (key, self._reader.error(part, ErrorCode.KAFKA_STORAGE_ERROR))
                return True
            if end < limit:
                return True
        return False

    def _end_of(self, replica: Replica, result: FetchPartitionResult) -> Offset | None:
        """Where what was read ends. None, and the replica offline, where its bytes were damaged since."""
        failure: CorruptLog | LogDirFailed
        try:
            end = end_offset_of(result.records[0])
            if end > replica.log.written_leo:
                raise CorruptBatch(0, f"what follows ends at offset {end}, the log at {replica.log.written_leo}")
            return end
        except CorruptBatch as damage:
            failure = CorruptLog(replica.topic_partition, "a read", str(damage))
        except OSError as error:
            failure = replica.log.read_failed(error)
        self._manager.take_offline(replica, failure)
        return None

    # -- event log -------------------------------------------------------------------------------------------------

    def _log_received(self, request: Request, asked: FetchRequest, named: _Named) -> None:
        log = self._manager.event_log
        if log is not None:
            log.emit(
                "fetch_received",
                rid=f"{request.client_id.rpartition('-')[2]}:{request.correlation_id}",
                follower=asked.replica_id,
                be=asked.replica_epoch,
                parts=[
                    [f"{part.topic}-{part.partition}", part.fetch_offset, part.leader_epoch, part.last_fetched_epoch]
                    for _, part in named
                    if part.topic  # an id that this broker has yet to hear of: nothing is counted for it
                ],
            )

    def _log_visible(self, part: SessionPartition, result: FetchPartitionResult) -> bool:
        """False where the answer's bytes are damaged."""
        log = self._manager.event_log
        replica = part.replica
        if log is None or replica is None:
            return True
        upto = self._end_of(replica, result)
        if upto is None:
            return False
        log.emit(
            "visible",
            p=replica.name,
            le=replica.partition.leader_epoch,
            kind="fetch",
            upto=upto,
            hw=replica.high_watermark,
        )
        return True


def _key(session: FetchSession, replica: Replica) -> SessionKey:
    topic, index = replica.topic_partition
    return (replica.topic_id if session.uses_topic_ids else topic, index)


def _note(session: FetchSession, replica: Replica) -> None:
    """Something happened to a partition: the session's next answer looks at it."""
    key = _key(session, replica)
    if key not in session.changed and (part := session.partitions.get(key)) is not None:
        session.changed[key] = part
