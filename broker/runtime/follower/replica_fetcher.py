"""The follower's side of replication: one fetcher per leader broker, one long poll, an incremental session.

Rules of a follower are in `core.replication.epochs` and `core.replication.partition`; this sends positions, appends
what comes, cuts where the leader's history says so, and learns the watermark. The LEO that a request states is written
to the file: it is built after the turn's log writes. A partition that comes while a long poll is out does not wait for
its end: a second request of the same session makes the leader respond to the first at once. The response to the older
of two requests says nothing of the partitions that the newer one named: the leader's session moved only when that one
came.
Source: AbstractFetcherThread, ReplicaFetcherThread, FetchSessionHandler; KIP-227, KIP-595, KIP-903.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.config.settings import Settings
from broker.core.replication.partition import Following
from broker.model.ids import BrokerId, Epoch
from broker.model.log_errors import CorruptLog, LogDirFailed, UnexpectedAppendOffset
from broker.runtime.event_log import EventLog
from broker.runtime.follower.fetch_events import log_response, log_sent
from broker.runtime.follower.out_of_range import OutOfRange
from broker.runtime.follower.partition_fetch_state import SOON_OVER, FetchKey, PartitionFetchState, Position
from broker.runtime.follower.response_processor import ResponseProcessor, StaleEpochBatch
from broker.runtime.ports import Loop, Peer, Timer
from broker.runtime.replicas.group_commit import GroupCommit
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.replicas.replication_quotas import ReplicationQuotas
from broker.runtime.replicas.truncation import ReplicaTruncation
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode, error_name
from broker.wire.messages.fetch import (
    INITIAL_SESSION_EPOCH,
    NO_SESSION_ID,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    ForgottenPartition,
    decode_response,
    encode_request,
)
from broker.wire.primitives import MalformedFrame
from broker.wire.record_batch import CorruptBatch

logger = logging.getLogger(__name__)

FETCH_VERSION = 15
_EPOCH_MAX = 2**31 - 1
_IN_FLIGHT_MAX = 2
_FIRST_RETRY_MS = 10.0
_THROTTLED_MS = 100.0
# A leader responds to a long poll when its time is over at the latest. A leader that stays silent so much longer is
# paused or cut off, and TCP would find it again late: its retransmissions come at ever longer intervals.
_SILENT_LEADER_MS = 2500.0
_ANOTHERS: Position = (-1, -1, -1, -1)
"""A position that no log has: the leader's session still holds the partition, from an earlier state of it."""
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


class ReplicaFetcher:
    """Fetches all partitions that this broker follows from one leader broker."""

    def __init__(
        self,
        leader: BrokerId,
        replicas: Replicas,
        settings: Settings,
        loop: Loop,
        event_log: EventLog | None,
        peers: Callable[[BrokerId], Peer | None],
        broker_epoch: Callable[[], int],
        quotas: ReplicationQuotas,
        group_commit: GroupCommit,
        truncation: ReplicaTruncation,
        processor: ResponseProcessor,
        wake: Callable[[ReplicaFetcher], None],
    ) -> None:
        """wake: lets a fetcher send at the end of this turn, after the log writes."""
        self.leader = leader
        self._replicas = replicas
        self._settings = settings
        self._truncates_by_epoch = settings.replica_truncation == "leader-epoch"
        self._loop = loop
        self._event_log = event_log
        self._peers = peers
        self._broker_epoch = broker_epoch
        self._quotas = quotas
        self._group_commit = group_commit
        self._processor = processor
        self._wake = wake
        self.partitions: dict[FetchKey, PartitionFetchState] = {}
        self._due: dict[FetchKey, PartitionFetchState] = {}
        """Those whose position may differ from what the leader's session holds, or that are delayed."""
        self._forget: list[FetchKey] = []
        self._session_id = NO_SESSION_ID
        self._session_epoch = INITIAL_SESSION_EPOCH
        self._session_refused = False
        self._in_flight = 0
        self._requests = 0
        self._paused_until_ms = 0.0
        self._timer: Timer | None = None
        self._generation = 0
        self._out_of_range = OutOfRange(
            leader, replicas, settings, peers, truncation, self._holds, self._resume_after_reset
        )

    # -- what to fetch ---------------------------------------------------------------------------------------------

    def add(self, replica: Replica, leader_epoch: Epoch) -> None:
        """Follow from the end of the replica's log. Responses of an earlier epoch no longer count."""
        state = PartitionFetchState(replica, leader_epoch)
        key = state.key
        old = self.partitions.get(key)
        if old is not None:
            state.sent, state.sent_in = old.sent, old.sent_in
        if key in self._forget:
            # The leader's session holds it until it is named again, or forgotten after all. Never both in one request:
            # Kafka's leaders forget last.
            self._forget.remove(key)
            state.sent = _ANOTHERS
        self.partitions[key] = self._due[key] = state
        # LeaderAndIsr has just named that broker as leader: it may be reachable again, whatever failed before.
        self.retry_now()

    def remove(self, replica: Replica) -> None:
        """Fetch this replica no more; the next request takes it out of the leader's session."""
        key = (replica.topic_id, replica.topic_partition.partition)
        state = self.partitions.pop(key, None)
        self._due.pop(key, None)
        if state is not None and state.sent is not None:
            self._forget.append(key)

    def follows(self, replica: Replica) -> bool:
        """Whether this very replica is fetched here, not one of an earlier topic of the same name."""
        state = self.partitions.get((replica.topic_id, replica.topic_partition.partition))
        return state is not None and state.replica is replica

    def retry_now(self) -> None:
        """The cluster has changed: what failed before may work now."""
        self._paused_until_ms = 0.0
        self._wake(self)

    def close(self) -> None:
        """No more requests, no more answers."""
        self._generation += 1
        self.partitions.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def delay(self, state: PartitionFetchState, ms: float) -> None:
        """Leave a partition out for a while."""
        state.delayed_until_ms = self._loop.now_ms() + ms
        self.look_at(state)

    def look_at(self, state: PartitionFetchState) -> None:
        """Its position may have changed: the next request names it if so."""
        if self.partitions.get(state.key) is state:
            self._due[state.key] = state

    def _holds(self, state: PartitionFetchState) -> bool:
        """Whether this is still how the partition is fetched."""
        return self.partitions.get(state.key) is state

    def _resume_after_reset(self, state: PartitionFetchState) -> None:
        """The log has been cut to what the leader has: fetch from there at once."""
        self.delay(state, 0.0)
        self._wake(self)

    # -- sending ---------------------------------------------------------------------------------------------------

    def maybe_send(self) -> None:
        """Send what there is to send, or set a timer for when there will be."""
        full = self._session_epoch == INITIAL_SESSION_EPOCH
        if not self.partitions or self._in_flight >= (1 if full else _IN_FLIGHT_MAX):
            return
        behind = self._group_commit.behind
        if behind and any(map(self.follows, behind.values())):
            # A fetch says what this broker has on disk: one round, one flush.
            return
        now = self._loop.now_ms()
        if now < self._paused_until_ms:
            self._wake_at(self._paused_until_ms)
            return
        forgotten = [] if full else [ForgottenPartition("", topic_id, index) for topic_id, index in self._forget]
        named: list[tuple[PartitionFetchState, FetchPartition]] = []
        delayed = 0
        next_due = float("inf")
        throttle = self._quotas.follower
        held_back = throttle is not None and throttle.exceeded(now)
        for key, state in list((self.partitions if full or held_back else self._due).items()):
            if held_back and state.lag > 0 and throttle is not None and throttle.covers(*state.replica.topic_partition):
                state.delayed_until_ms = max(state.delayed_until_ms, now + _THROTTLED_MS)
            if state.delayed_until_ms > now:
                delayed += 1
                self._due[key] = state
                next_due = min(next_due, state.delayed_until_ms)
                if state.sent is not None:
                    state.sent = None
                    if not full:
                        forgotten.append(ForgottenPartition("", *key))
                continue
            self._due.pop(key, None)
            position = self._position(state)
            if full or state.sent != position:
                state.sent, state.sent_in = position, self._requests + 1
                named.append((state, self._partition_request(state, position)))
        if next_due != float("inf"):
            self._wake_at(next_due)
        if forgotten and named:
            again = {state.key for state, _ in named}
            forgotten = [one for one in forgotten if (one.topic_id, one.partition) not in again]
        active = len(self.partitions) - delayed
        if not active and not forgotten:
            return
        if self._in_flight and not named:
            # The request in flight covers the rest; what is to be forgotten goes with the next.
            self._forget = [(one.topic_id, one.partition) for one in forgotten]
            return
        self._forget.clear()
        self._send(named, forgotten, wait=active > 0 and (not full or self._session_refused))

    def _position(self, state: PartitionFetchState) -> Position:
        log = state.replica.log
        last_fetched = log.latest_epoch if self._truncates_by_epoch else -1
        return (state.replica.replicated_leo, state.leader_epoch, last_fetched, log.log_start_offset)

    def _partition_request(self, state: PartitionFetchState, position: Position) -> FetchPartition:
        offset, leader_epoch, last_fetched, log_start = position
        topic_id, index = state.key
        max_bytes = self._settings.replica_fetch_max_bytes
        row = ("", topic_id, index, leader_epoch, offset, last_fetched, log_start, max_bytes)
        return _new(FetchPartition, row)

    def _send(
        self, named: list[tuple[PartitionFetchState, FetchPartition]], forgotten: list[ForgottenPartition], wait: bool
    ) -> None:
        """wait: let the leader hold it; a request that opens a session gets its response at once, so that the session
        can be used.
        """
        settings = self._settings
        body = encode_request(
            FETCH_VERSION,
            FetchRequest(
                settings.broker_id,
                self._broker_epoch(),
                settings.replica_fetch_wait_max_ms if wait else 0,
                settings.replica_fetch_min_bytes,
                settings.replica_fetch_response_max_bytes,
                0,
                self._session_id,
                self._session_epoch,
                [requested for _, requested in named],
                forgotten,
            ),
        )
        peer = self._peers(self.leader)
        if peer is None:
            self.fail("refused: the address of the leader is not known yet")
            return
        opening = self._session_epoch == INITIAL_SESSION_EPOCH
        if not opening:
            self._session_epoch = 1 if self._session_epoch == _EPOCH_MAX else self._session_epoch + 1
        self._in_flight += 1
        self._requests += 1
        generation, number = self._generation, self._requests
        rid: list[str] = []
        correlation_id = peer.send(
            ApiKey.FETCH,
            FETCH_VERSION,
            body,
            lambda view: self._on_response(generation, number, opening, rid[0], view),
            lambda reason: self._on_failure(generation, reason),
            min(float(settings.replica_socket_timeout_ms), settings.replica_fetch_wait_max_ms + _SILENT_LEADER_MS),
        )
        log = self._event_log
        rid.append(f"{log.incarnation}:{correlation_id}" if log is not None else "")
        if log is not None:
            log_sent(log, self.leader, rid[0], named)

    def _wake_at(self, due_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()

        def wake() -> None:
            self._timer = None
            self._wake(self)

        loop = self._loop
        self._timer = loop.call_later(max(0.0, due_ms - loop.now_ms()), wake)

    def _reset_session(self) -> None:
        """Begin anew with a full request; responses that are still out count no more."""
        self._generation += 1
        self._in_flight = 0
        self._session_id = NO_SESSION_ID
        self._session_epoch = INITIAL_SESSION_EPOCH
        self._forget.clear()
        for state in self.partitions.values():
            state.sent = None

    # -- answers ---------------------------------------------------------------------------------------------------

    def _on_failure(self, generation: int, reason: str) -> None:
        if generation == self._generation:
            self.fail(reason)

    def fail(self, reason: str) -> None:
        """Begin a new session, after a pause."""
        logger.info("fetch from broker %d failed: %s", self.leader, reason)
        self._reset_session()
        self._paused_until_ms = self._loop.now_ms() + self._settings.replica_fetch_backoff_ms
        self._wake(self)

    def _on_response(self, generation: int, number: int, opening: bool, rid: str, view: memoryview) -> None:
        if generation != self._generation:
            return
        self._in_flight -= 1
        try:
            response = decode_response(FETCH_VERSION, view)
        except MalformedFrame as error:
            self.fail(f"malformed response: {error}")
            return
        if self._event_log is not None:
            log_response(self._event_log, self.leader, rid, response.results, self.partitions)
        self._wake(self)
        if response.error:
            logger.info("fetch session with broker %d ended: %s", self.leader, error_name(response.error))
            self._reset_session()
            return
        if opening:
            self._session_id = response.session_id
            self._session_refused = response.session_id == NO_SESSION_ID
            if response.session_id != NO_SESSION_ID:
                self._session_epoch = 1
        for result in response.results:
            state = self.partitions.get((result.topic_id, result.partition))
            if state is not None and state.sent_in <= number:
                self._take(state, result, rid)
                self.look_at(state)

    def _take(self, state: PartitionFetchState, result: FetchPartitionResult, rid: str) -> None:
        """One partition's part of a response, if it is about the position that the replica has now."""
        replica = state.replica
        role = replica.partition.role
        if (
            not isinstance(role, Following)
            or role.leader != self.leader
            or role.leader_epoch != state.leader_epoch
            or replica.offline
            or state.sent is None
            or state.sent[:2] != (replica.log.staged_end_offset, state.leader_epoch)
        ):
            return
        if result.error:
            self._on_error(state, result.error)
            return
        state.last_error = state.failures = 0
        throttle = self._quotas.follower
        if throttle is not None and throttle.covers(*replica.topic_partition):
            throttle.record(len(result.records_view), self._loop.now_ms())
        try:
            self._processor.take(replica, role, result, rid, state.fell)
            state.lag = result.high_watermark - replica.log.staged_end_offset
        except (CorruptBatch, UnexpectedAppendOffset) as error:
            state.fell = error.fell if isinstance(error, StaleEpochBatch) else None
            logger.error("%s: bad batches from leader %d: %s", replica.name, self.leader, error)
            self.delay(state, self._settings.replica_fetch_backoff_ms)
        except (LogDirFailed, CorruptLog) as failure:
            self._replicas.take_offline(replica, failure)
        except Exception:
            # KIP-461: the partitions behind it in this response, and in every one to come, are fetched all the same.
            logger.exception("%s: what leader %d sent cannot be taken", replica.name, self.leader)
            self._take_back(replica)
            self.delay(state, self._settings.replica_fetch_backoff_ms)

    def _take_back(self, replica: Replica) -> None:
        """What is staged will come again: neither it nor what it says of producers counts."""
        try:
            if replica.log.staged_end_offset != replica.log.log_end_offset and not replica.offline:
                replica.log.truncate_to(replica.log.log_end_offset)
        except (LogDirFailed, CorruptLog) as failure:
            self._replicas.take_offline(replica, failure)

    def _on_error(self, state: PartitionFetchState, error: int) -> None:
        name = state.replica.name
        if error != state.last_error:
            logger.info("fetch of %s from broker %d: %s", name, self.leader, error_name(error))
            state.last_error = error
        backoff_ms = float(self._settings.replica_fetch_backoff_ms)
        if error in SOON_OVER:
            # Most often the leader has not yet received its LeaderAndIsr, which reaches no two brokers at once.
            backoff_ms = min(backoff_ms, _FIRST_RETRY_MS * 2**state.failures)
            state.failures = min(state.failures + 1, 16)
        self.delay(state, backoff_ms)
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.resolve(state)
