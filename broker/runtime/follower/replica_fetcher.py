"""The follower's side of replication: one fetcher per leader broker, one long poll, an incremental session.

Follower rules live in `core.epochs` and `core.partition`; this sends positions, appends what comes, cuts where the
leader's history says so, and learns the watermark. What a request says of this broker's LEO is in the file: it is
built after the turn's log writes. A partition that comes while a long poll is out does not wait for its end: a second
request of the same session makes the leader answer the first at once. The answer to the older of two requests says
nothing of what the newer one named: the leader's session moved only when that one came.
Source: AbstractFetcherThread, ReplicaFetcherThread, FetchSessionHandler; KIP-227, KIP-595, KIP-903.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.core.replication.partition import Following
from broker.model.ids import BrokerId, Epoch, Offset
from broker.model.log_errors import CorruptLog, LogDirFailed, UnexpectedAppendOffset
from broker.runtime.follower.out_of_range import OutOfRange
from broker.runtime.follower.response_processor import Fall, FallenEpoch, FetchAnswers
from broker.runtime.ports import Timer
from broker.runtime.replicas.replica import Replica
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

if TYPE_CHECKING:
    from broker.runtime.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

FETCH_VERSION = 15
_EPOCH_MAX = 2**31 - 1
_IN_FLIGHT_MAX = 2
_FIRST_RETRY_MS = 10.0
_THROTTLED_MS = 100.0
# A leader answers a long poll when its time is over at the latest. One that stays silent so much longer is paused or
# cut off, and TCP would find it again late: its retransmissions come at ever longer intervals.
_SILENT_LEADER_MS = 2500.0
_SOON_OVER = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much
_Position = tuple[Offset, Epoch, Epoch, Offset]
"""Fetch offset, leader epoch, last fetched epoch, log start offset."""
_ANOTHERS: _Position = (-1, -1, -1, -1)
"""A position that no log has: the leader's session holds the partition still, for who followed it before."""
_Key = tuple[str, int]


class Followed:
    """One partition that is fetched.

    sent: the position that the leader's session holds, None when it has none; sent_in: number of the request that
    named it, so that answers to earlier ones are not taken for answers to it.
    """

    __slots__ = (
        "delayed_until_ms",
        "failures",
        "fell",
        "key",
        "lag",
        "last_error",
        "leader_epoch",
        "replica",
        "sent",
        "sent_in",
    )

    def __init__(self, replica: Replica, leader_epoch: Epoch) -> None:
        self.replica = replica
        self.key: _Key = (replica.topic_id, replica.topic_partition.partition)
        self.leader_epoch = leader_epoch
        self.sent: _Position | None = None
        self.sent_in = 0
        self.delayed_until_ms = 0.0
        self.lag = 0
        """Offsets to the leader's watermark, as of the last answer; at most 0 where there is none."""
        self.last_error = 0
        self.failures = 0
        self.fell: Fall | None = None
        """A batch of an older epoch than the one before it, which was refused once."""


class Fetcher:
    """Fetches all partitions that this broker follows from one leader broker."""

    def __init__(self, manager: ReplicaManager, leader: BrokerId) -> None:
        self._manager = manager
        self.leader = leader
        self.partitions: dict[_Key, Followed] = {}
        self._due: dict[_Key, Followed] = {}
        """Those whose position may differ from what the leader's session holds, or that are delayed."""
        self._forget: list[_Key] = []
        self._session_id = NO_SESSION_ID
        self._session_epoch = INITIAL_SESSION_EPOCH
        self._session_refused = False
        self._in_flight = 0
        self._requests = 0
        self._paused_until_ms = 0.0
        self._timer: Timer | None = None
        self._generation = 0
        self._out_of_range = OutOfRange(manager, self)
        self._answers = FetchAnswers(manager)

    # -- what to fetch ---------------------------------------------------------------------------------------------

    def add(self, replica: Replica, leader_epoch: Epoch) -> None:
        """Follow from the end of the replica's log. An earlier epoch's answers no longer count."""
        followed = Followed(replica, leader_epoch)
        key = followed.key
        old = self.partitions.get(key)
        if old is not None:
            followed.sent, followed.sent_in = old.sent, old.sent_in
        if key in self._forget:
            # The leader's session holds it until it is named again, or forgotten after all. Never both in one request:
            # Kafka's leaders forget last.
            self._forget.remove(key)
            followed.sent = _ANOTHERS
        self.partitions[key] = self._due[key] = followed
        # To be told to follow it is news of that broker: no need to sit out the pause after a failure.
        self.retry_now()

    def remove(self, replica: Replica) -> None:
        key = (replica.topic_id, replica.topic_partition.partition)
        followed = self.partitions.pop(key, None)
        self._due.pop(key, None)
        if followed is not None and followed.sent is not None:
            self._forget.append(key)

    def follows(self, replica: Replica) -> bool:
        followed = self.partitions.get((replica.topic_id, replica.topic_partition.partition))
        return followed is not None and followed.replica is replica

    def retry_now(self) -> None:
        """The cluster has changed: what failed before may work now."""
        self._paused_until_ms = 0.0
        self._manager.wake_fetcher(self)

    def close(self) -> None:
        """No more requests, no more answers."""
        self._generation += 1
        self.partitions.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def delay(self, followed: Followed, ms: float) -> None:
        """Leave a partition out for a while."""
        followed.delayed_until_ms = self._manager.loop.now_ms() + ms
        self.look_at(followed)

    def look_at(self, followed: Followed) -> None:
        """Its position may have changed: the next request names it if so."""
        if self.partitions.get(followed.key) is followed:
            self._due[followed.key] = followed

    # -- sending ---------------------------------------------------------------------------------------------------

    def maybe_send(self) -> None:
        """Send what there is to send, or set a timer for when there will be."""
        full = self._session_epoch == INITIAL_SESSION_EPOCH
        if not self.partitions or self._in_flight >= (1 if full else _IN_FLIGHT_MAX):
            return
        behind = self._manager.group_commit.behind
        if behind and any(map(self.follows, behind.values())):
            # A fetch says what this broker has on disk: one round, one flush.
            return
        now = self._manager.loop.now_ms()
        if now < self._paused_until_ms:
            self._wake_at(self._paused_until_ms)
            return
        forgotten = [] if full else [ForgottenPartition("", topic_id, index) for topic_id, index in self._forget]
        named: list[tuple[Followed, FetchPartition]] = []
        delayed = 0
        next_due = float("inf")
        throttle = self._manager.throttle.follower
        held_back = throttle is not None and throttle.exceeded(now)
        for key, followed in list((self.partitions if full or held_back else self._due).items()):
            if (
                held_back
                and followed.lag > 0
                and throttle is not None
                and throttle.covers(*followed.replica.topic_partition)
            ):
                followed.delayed_until_ms = max(followed.delayed_until_ms, now + _THROTTLED_MS)
            if followed.delayed_until_ms > now:
                delayed += 1
                self._due[key] = followed
                next_due = min(next_due, followed.delayed_until_ms)
                if followed.sent is not None:
                    followed.sent = None
                    if not full:
                        forgotten.append(ForgottenPartition("", *key))
                continue
            self._due.pop(key, None)
            position = self._position(followed)
            if full or followed.sent != position:
                followed.sent, followed.sent_in = position, self._requests + 1
                named.append((followed, self._ask(followed, position)))
        if next_due != float("inf"):
            self._wake_at(next_due)
        if forgotten and named:
            again = {followed.key for followed, _ in named}
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

    def _position(self, followed: Followed) -> _Position:
        log = followed.replica.log
        last_fetched = log.latest_epoch if self._manager.truncates_by_epoch else -1
        return (followed.replica.replicated_leo, followed.leader_epoch, last_fetched, log.log_start_offset)

    def _ask(self, followed: Followed, position: _Position) -> FetchPartition:
        offset, leader_epoch, last_fetched, log_start = position
        topic_id, index = followed.key
        max_bytes = self._manager.settings.replica_fetch_max_bytes
        row = ("", topic_id, index, leader_epoch, offset, last_fetched, log_start, max_bytes)
        return _new(FetchPartition, row)

    def _send(
        self, named: list[tuple[Followed, FetchPartition]], forgotten: list[ForgottenPartition], wait: bool
    ) -> None:
        """wait: let the leader hold it; a request that opens a session is answered at once, so that it can be used."""
        manager = self._manager
        settings = manager.settings
        body = encode_request(
            FETCH_VERSION,
            FetchRequest(
                settings.broker_id,
                manager.broker_epoch(),
                settings.replica_fetch_wait_max_ms if wait else 0,
                settings.replica_fetch_min_bytes,
                settings.replica_fetch_response_max_bytes,
                0,
                self._session_id,
                self._session_epoch,
                [asked for _, asked in named],
                forgotten,
            ),
        )
        peer = manager.peers(self.leader)
        if peer is None:
            self._fail("refused: the address of the leader is not known yet")
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
        log = manager.event_log
        rid.append(f"{log.incarnation}:{correlation_id}" if log is not None else "")
        if log is not None:
            log.emit(
                "fetch_sent",
                rid=rid[0],
                leader=self.leader,
                parts=[
                    [
                        followed.replica.name,
                        asked.fetch_offset,
                        asked.current_leader_epoch,
                        asked.last_fetched_epoch,
                    ]
                    for followed, asked in named
                ],
            )

    def _wake_at(self, due_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()

        def wake() -> None:
            self._timer = None
            self._manager.wake_fetcher(self)

        loop = self._manager.loop
        self._timer = loop.call_later(max(0.0, due_ms - loop.now_ms()), wake)

    def _reset_session(self) -> None:
        """Begin anew with a full request; answers that are still out count no more."""
        self._generation += 1
        self._in_flight = 0
        self._session_id = NO_SESSION_ID
        self._session_epoch = INITIAL_SESSION_EPOCH
        self._forget.clear()
        for followed in self.partitions.values():
            followed.sent = None

    # -- answers ---------------------------------------------------------------------------------------------------

    def _on_failure(self, generation: int, reason: str) -> None:
        if generation == self._generation:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        logger.info("fetch from broker %d failed: %s", self.leader, reason)
        self._reset_session()
        self._paused_until_ms = self._manager.loop.now_ms() + self._manager.settings.replica_fetch_backoff_ms
        self._manager.wake_fetcher(self)

    def _on_response(self, generation: int, number: int, opening: bool, rid: str, view: memoryview) -> None:
        if generation != self._generation:
            return
        self._in_flight -= 1
        try:
            response = decode_response(FETCH_VERSION, view)
        except MalformedFrame as error:
            self._fail(f"malformed answer: {error}")
            return
        self._log_answered(response.results, rid)
        self._manager.wake_fetcher(self)
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
            followed = self.partitions.get((result.topic_id, result.partition))
            if followed is not None and followed.sent_in <= number:
                self._take(followed, result, rid)
                self.look_at(followed)

    def _take(self, followed: Followed, result: FetchPartitionResult, rid: str) -> None:
        """One partition's answer, if it is an answer to where the replica now stands."""
        replica = followed.replica
        role = replica.partition.role
        if (
            not isinstance(role, Following)
            or role.leader != self.leader
            or role.leader_epoch != followed.leader_epoch
            or replica.offline
            or followed.sent is None
            or followed.sent[:2] != (replica.log.leo, followed.leader_epoch)
        ):
            return
        if result.error:
            self._on_error(followed, result.error)
            return
        followed.last_error = followed.failures = 0
        throttle = self._manager.throttle.follower
        if throttle is not None and throttle.covers(*replica.topic_partition):
            throttle.record(len(result.records_view), self._manager.loop.now_ms())
        try:
            self._answers.take(replica, role, result, rid, followed.fell)
            followed.lag = result.high_watermark - replica.log.leo
        except (CorruptBatch, UnexpectedAppendOffset) as error:
            followed.fell = error.fell if isinstance(error, FallenEpoch) else None
            logger.error("%s: bad batches from leader %d: %s", replica.name, self.leader, error)
            self.delay(followed, self._manager.settings.replica_fetch_backoff_ms)
        except (LogDirFailed, CorruptLog) as failure:
            self._manager.take_offline(replica, failure)

    def _on_error(self, followed: Followed, error: int) -> None:
        name = followed.replica.name
        if error != followed.last_error:
            logger.info("fetch of %s from broker %d: %s", name, self.leader, error_name(error))
            followed.last_error = error
        backoff_ms = float(self._manager.settings.replica_fetch_backoff_ms)
        if error in _SOON_OVER:
            # Most often the leader has yet to hear that it leads: LeaderAndIsr reaches no two brokers at once.
            backoff_ms = min(backoff_ms, _FIRST_RETRY_MS * 2**followed.failures)
            followed.failures = min(followed.failures + 1, 16)
        self.delay(followed, backoff_ms)
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.resolve(followed)

    def _log_answered(self, results: list[FetchPartitionResult], rid: str) -> None:
        log = self._manager.event_log
        if log is None:
            return
        parts: list[list[object]] = []
        for result in results:
            followed = self.partitions.get((result.topic_id, result.partition))
            if followed is not None:
                parts.append(
                    [
                        followed.replica.name,
                        result.error,
                        result.high_watermark,
                        len(result.records_view),
                        result.diverging_epoch,
                        result.diverging_end_offset,
                    ]
                )
        log.emit("fetch_answered", rid=rid, leader=self.leader, parts=parts)
