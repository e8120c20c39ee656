"""Fetch: sessions, positions, long polls.

A follower's fetch is counted (its LEO, its catching up, its way into the ISR) before anything is read; for partitions
that it does not name the session's progress counts. Consumers see nothing at or above the watermark (last stable offset
for read_committed). What may wait is read at the end of the turn, after the log writes, and waits in its session when
it finds too little: appends wake followers, the watermark wakes consumers, a role change wakes both. A session's
response reads the partitions that were named or that changed, and all of them once a second, so that idle partitions
cost nothing. A consumer's long poll ends early where the response to a later request of its connection is there: a
client that looks for a coordinator behind its own poll does not wait that poll out.
Source: ReplicaManager.fetchMessages, Partition.fetchRecords, DelayedFetch; KIP-227.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from broker.config.settings import Settings
from broker.config.table import RACK_AWARE
from broker.core.replication.purgatory import Watchers
from broker.runtime.event_log import EventLog
from broker.runtime.fetch.follower_progress import FollowerProgress
from broker.runtime.fetch.partition_reader import PartitionReader
from broker.runtime.fetch.response_reader import ResponseReader
from broker.runtime.fetch.sessions import (
    FetchSession,
    FetchSessions,
    FetchWait,
    NamedPartitions,
    SessionKey,
    SessionPartition,
)
from broker.runtime.ports import Loop
from broker.runtime.replicas.delete_records import DeleteRecordsHandler
from broker.runtime.replicas.isr_manager import IsrManager
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.replicas.replication_quotas import ReplicationQuotas
from broker.runtime.requests.deadlines import Deadlines
from broker.runtime.requests.old_clients import without_storage_errors
from broker.runtime.requests.request import Request, give_up, refuse, respond
from broker.wire.chunks import chunk_length
from broker.wire.errors import ErrorCode
from broker.wire.messages.fetch import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_CONSUMER_ID,
    NO_SESSION_ID,
    FetchPartitionResult,
    FetchRequest,
    NodeEndpoint,
    decode_request,
    encode_response,
)
from broker.wire.messages.fetch_request import TOPIC_IDS
from broker.wire.messages.fetch_response import NODE_ENDPOINTS
from broker.wire.primitives import MalformedFrame

logger = logging.getLogger(__name__)

_SCAN_MS = 1000.0
_STORAGE_ERROR_FROM = 6


class FetchHandler:
    """All Fetch requests of this broker."""

    def __init__(
        self,
        replicas: Replicas,
        settings: Settings,
        loop: Loop,
        event_log: EventLog | None,
        quotas: ReplicationQuotas,
        isr_manager: IsrManager,
        delete_records: DeleteRecordsHandler,
    ) -> None:
        self._replicas = replicas
        self._loop = loop
        self._event_log = event_log
        self._quotas = quotas
        self._consumer_bytes_max = settings.fetch_max_bytes
        self._by_rack = settings.replica_selector_class == RACK_AWARE
        self._partitions = PartitionReader(replicas, loop, quotas)
        self._reader = ResponseReader(replicas, event_log, self._partitions)
        self._progress = FollowerProgress(replicas, isr_manager, delete_records, self._partitions)
        self._sessions = FetchSessions(settings.max_incremental_fetch_session_cache_slots, self._on_session_closed)
        self._followers: Watchers[FetchSession] = Watchers()
        self._consumers: Watchers[FetchSession] = Watchers()
        self._woken: dict[int, FetchWait] = {}
        self._deadlines: Deadlines[FetchWait] = Deadlines(loop, self._complete)

    # -- arrival ---------------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> None:
        """Count it if it is a follower's, then respond or let it wait."""
        try:
            body = decode_request(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"Fetch: {error}")
            return
        now = self._loop.now_ms()
        uses_ids = request.api_version >= TOPIC_IDS
        opened = self._sessions.open(body, uses_ids, now)
        if isinstance(opened, ErrorCode):
            respond(request, encode_response(request.api_version, [], error=opened))
            return
        if opened.wait is not None:
            # The fetcher has more to say, or gave up: its earlier request waits no longer.
            self._complete(opened.wait)
        full = body.session_epoch <= 0
        if opened.unnamed:
            self._name_unknown(opened)
        named = self._update_session(opened, body, uses_ids)
        max_bytes = body.max_bytes
        if body.replica_id < 0:
            max_bytes = min(max_bytes, self._consumer_bytes_max)
        else:
            self._log_received(request, body, named)
            self._progress.count(opened, named, body.replica_epoch, now)
        if now - opened.scanned_ms >= _SCAN_MS:
            # Changes without an event of their own, as of the log start by retention, are found here.
            opened.scanned_ms = now
            opened.changed = {**opened.changed, **opened.partitions}
        rack = body.rack_id if self._by_rack and body.replica_id == CONSUMER_REPLICA_ID else ""
        any_replica = bool(rack) or body.replica_id == DEBUGGING_CONSUMER_ID
        wait = FetchWait(request, body, opened, full, max_bytes, any_replica, rack)
        if body.max_wait_ms <= 0 or not opened.partitions:
            self._respond(wait, self._reader.read(wait)[0])
            return
        opened.wait = wait
        self._woken[id(wait)] = wait
        if opened.follower_id < 0:
            request.slot.when_overtaken(partial(self._complete, wait))

    def _update_session(self, session: FetchSession, body: FetchRequest, uses_ids: bool) -> NamedPartitions:
        """Take new and moved partitions in, forgotten ones out; those that this request names."""
        replicas = self._replicas
        partitions = session.partitions
        watchers = self._followers if session.follower_id >= 0 else self._consumers
        for forgotten in body.forgotten:
            part = session.forget((forgotten.topic_id if uses_ids else forgotten.topic, forgotten.partition))
            if part is not None:
                self._progress.leave(session, part)
                watchers.unwatch((part.topic, part.partition), session)
        named: NamedPartitions = []
        for one in body.partitions:
            key = (one.topic_id if uses_ids else one.topic, one.partition)
            part = partitions.get(key)
            if part is None:
                topic = self._name_of(session, one.topic_id) if uses_ids else one.topic
                replica = replicas.by_partition.get((topic, one.partition))
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
                    # It may have had two requests out, and drops from the second response what the first one moves:
                    # what this leader sent in the second has reached nobody.
                    part.note_sent(-1, -1)
            session.changed[key] = part
            named.append((key, part))
        return named

    def _name_of(self, session: FetchSession, topic_id: str) -> str:
        """ "" where no topic has this id. Consumers learn of topics of other brokers that these lead elsewhere."""
        topic = self._replicas.topic_of_id(topic_id)
        if not topic and session.follower_id < 0:
            topic = self._replicas.topic_configs.name_of(topic_id) or ""
        return topic

    def _name_unknown(self, session: FetchSession) -> None:
        """Look again for topic ids that were unknown: their LeaderAndIsr may have come since.

        The fetcher does not name them again: it goes by the responses. Source: FetchSession.maybeResolveUnknownName.
        """
        watchers = self._followers if session.follower_id >= 0 else self._consumers
        for key, part in list(session.unnamed.items()):
            topic = self._name_of(session, part.topic_id)
            if topic:
                del session.unnamed[key]
                watchers.unwatch(("", part.partition), session)
                part.topic = topic
                watchers.watch((topic, part.partition), session)
                session.changed[key] = part

    # -- waiting ---------------------------------------------------------------------------------------------------

    def on_append(self, replica: Replica) -> None:
        """Bytes were written as leader: this partition's followers may fetch them."""
        for session in self._followers.of(replica.topic_partition):
            _note(session, replica)
            self._wake(session)

    def on_high_watermark(self, replica: Replica) -> None:
        """The watermark rose: consumers may fetch more. Followers are not woken by it: their next response has it."""
        for session in self._followers.of(replica.topic_partition):
            _note(session, replica)
        for session in self._consumers.of(replica.topic_partition):
            _note(session, replica)
            self._wake(session)

    def on_log_start(self, replica: Replica) -> None:
        """The log now begins later: followers get a response at once, because a DeleteRecords request may wait until
        their logs begin there too. Consumers learn it by their next response.
        """
        for session in self._consumers.of(replica.topic_partition):
            _note(session, replica)
        for session in self._followers.of(replica.topic_partition):
            _note(session, replica)
            if session.wait is not None:
                self._complete(session.wait)

    def on_role_change(self, replica: Replica) -> None:
        """The role has changed: fetches that wait for this partition get a response."""
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
        """Look at all that came or was woken in this turn; respond where there is enough, let the rest wait."""
        if not self._woken:
            return
        woken, self._woken = self._woken, {}
        for wait in woken.values():
            try:
                self._look_at(wait)
            except Exception:
                self._give_up(wait)

    def _look_at(self, wait: FetchWait) -> None:
        if wait.done:
            return
        if not wait.request.open:
            wait.request.slot.when_overtaken(None)
            self._drop(wait)
            return
        if not self._nothing_new(wait):
            results, enough = self._reader.read(wait)
            if enough:
                self._respond(wait, results)
                return
        if not wait.armed:
            wait.armed = True
            self._deadlines.add(wait, wait.body.max_wait_ms)

    def _give_up(self, wait: FetchWait) -> None:
        """An error of the program: it concerns this fetch, whose sender begins anew. Called where it is handled."""
        logger.exception("fetch of %r from %s failed", wait.request.client_id, wait.request.context.client_address)
        if not wait.done:
            self._drop(wait)
        give_up(wait.request.slot)

    def _nothing_new(self, wait: FetchWait) -> bool:
        """A follower's fetch, just counted, of which every partition stands at the leader's end: no need to read."""
        session = wait.session
        if wait.full or session.attended or session.follower_id < 0 or wait.body.min_bytes < 1:
            return False
        for part in session.changed.values():
            replica = part.replica
            if replica is None or replica.offline or part.fetch_offset != replica.log.log_end_offset:
                return False
        return True

    def _complete(self, wait: FetchWait) -> None:
        """Time is over, or a response behind this one is there: respond with what there is."""
        if not wait.done:
            try:
                self._respond(wait, self._reader.read(wait)[0])
            except Exception:
                self._give_up(wait)

    def drop_gone(self) -> None:
        """Forget the long polls of clients that are gone: their time may be days."""
        for wait in self._deadlines.items():
            if not wait.request.open:
                wait.request.slot.when_overtaken(None)
                self._drop(wait)

    def _drop(self, wait: FetchWait) -> None:
        wait.done = True
        if wait.armed:
            self._deadlines.remove(wait, wait.body.max_wait_ms)
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

    def _respond(self, wait: FetchWait, results: list[tuple[SessionKey, FetchPartitionResult]]) -> None:
        session = wait.session
        log = self._event_log
        throttle = self._quotas.leader
        for place, (key, result) in enumerate(results):
            part = session.partitions.get(key)
            if part is None:
                continue
            if (
                log is not None
                and session.follower_id < 0
                and result.records
                and not self._reader.log_visible(part, result)
            ):
                result = self._partitions.error(part, ErrorCode.KAFKA_STORAGE_ERROR)
                results[place] = (key, result)
            if result.error or result.diverging_epoch >= 0:
                part.note_sent(-1, -1, result.error)
            else:
                part.note_sent(result.high_watermark, result.log_start_offset)
            if result.records:
                session.to_end(key)
                if throttle is not None and session.follower_id >= 0 and throttle.covers(part.topic, part.partition):
                    throttle.record(chunk_length(result.records[0]), self._loop.now_ms())
                if session.follower_id >= 0 and part.replica is not None:
                    part.replica.served[session.follower_id] = part.fetch_offset
        self._drop(wait)
        version = wait.request.api_version
        parts = [result for _, result in results]
        if version < _STORAGE_ERROR_FROM:
            parts = without_storage_errors(parts)
        endpoints = self._endpoints_of(parts) if version >= NODE_ENDPOINTS else ()
        respond(wait.request, encode_response(version, parts, session_id=session.session_id, endpoints=endpoints))

    def _endpoints_of(self, parts: Sequence[FetchPartitionResult]) -> Sequence[NodeEndpoint]:
        """Where the leaders are which errors name (KIP-951)."""
        leaders = {part.current_leader_id for part in parts if part.error and part.current_leader_id >= 0}
        found = [(leader, self._replicas.topic_configs.endpoint_of(leader)) for leader in sorted(leaders)]
        return [NodeEndpoint(leader, *endpoint) for leader, endpoint in found if endpoint is not None]

    # -- event log -------------------------------------------------------------------------------------------------

    def _log_received(self, request: Request, body: FetchRequest, named: NamedPartitions) -> None:
        log = self._event_log
        if log is not None:
            log.emit(
                "fetch_received",
                rid=f"{request.client_id.rpartition('-')[2]}:{request.correlation_id}",
                follower=body.replica_id,
                be=body.replica_epoch,
                parts=[
                    [
                        log.partition_name(part.topic, part.partition, part.topic_id),
                        part.fetch_offset,
                        part.leader_epoch,
                        part.last_fetched_epoch,
                    ]
                    for _, part in named
                    if part.topic  # an id that this broker does not know yet: nothing is counted for it
                ],
            )


def _key(session: FetchSession, replica: Replica) -> SessionKey:
    topic, index = replica.topic_partition
    return (replica.topic_id if session.uses_topic_ids else topic, index)


def _note(session: FetchSession, replica: Replica) -> None:
    """A partition has changed: the session's next response reads it."""
    key = _key(session, replica)
    if key not in session.changed and (part := session.partitions.get(key)) is not None:
        session.changed[key] = part
