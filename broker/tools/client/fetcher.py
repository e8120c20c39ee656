"""Reads partitions from their leaders, each from a position that moves on; finds new leaders, and new positions where
a log has none at the old one.

One request at a time to each leader, without a fetch session. Not thread-safe.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.tools.client.admin import TopicPartition
from broker.tools.client.cluster import Cluster
from broker.tools.client.committed_reads import Shown, visible
from broker.tools.client.connection import Connection
from broker.tools.client.errors import RETRIABLE, BrokerError, ToolError, Unreachable
from broker.tools.client.offsets import leaders, list_offsets
from broker.tools.client.properties import Properties
from broker.tools.client.waits import readable
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode, error_name
from broker.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
from broker.wire.list_offsets_timestamps import EARLIEST, LATEST
from broker.wire.messages import fetch
from broker.wire.primitives import MalformedFrame
from broker.wire.record_batch import CorruptBatch

_NAMES_UP_TO: Final = 12
"""Later versions of Fetch speak of topic ids."""
_RESET: Final = {"earliest": EARLIEST, "latest": LATEST}
_ISOLATION: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


class FetchSettings(NamedTuple):
    """Bytes, and times in seconds. reset: a time for ListOffsets, None to fail where there is no position."""

    isolation: int
    reset: int | None
    max_wait: float
    min_bytes: int
    max_bytes: int
    partition_bytes: int
    check_crcs: bool
    request_timeout: float
    backoff: float


class Chunk(NamedTuple):
    """Records of one partition in order; start: the position before, next_offset: where it goes on behind them."""

    where: TopicPartition
    start: int
    records: list[Shown]
    next_offset: int


class _Request(NamedTuple):
    connection: Connection
    version: int
    deadline: float
    partitions: list[TopicPartition]


def fetch_settings(properties: Properties) -> FetchSettings:
    """By Kafka's names and defaults. Raises ToolError."""
    reset = properties.text("auto.offset.reset", "latest", ("latest", "earliest", "none"))
    isolation = properties.text("isolation.level", "read_uncommitted", _ISOLATION)
    return FetchSettings(
        _ISOLATION[isolation],
        _RESET.get(reset),
        properties.number("fetch.max.wait.ms", 500) / 1000,
        properties.number("fetch.min.bytes", 1),
        properties.number("fetch.max.bytes", 52_428_800, 1),
        properties.number("max.partition.fetch.bytes", 1_048_576, 1),
        properties.flag("check.crcs", True),
        properties.number("request.timeout.ms", 30_000, 1) / 1000,
        properties.number("retry.backoff.ms", 100) / 1000,
    )


class Fetcher:
    """`assign` first. positions: next offset of each partition that was given one or got one by the reset. begun: the
    position at which the first records of a partition were found since then, whether or not `poll` has returned them.
    """

    def __init__(self, cluster: Cluster, settings: FetchSettings) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.begun: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self._settings = settings
        self._without: set[TopicPartition] = set()
        self._leaders: dict[TopicPartition, int] = {}
        self._connections: dict[int, Connection] = {}
        self._requests: dict[int, _Request] = {}
        self._stale = True
        self._turn = 0
        self._look_up_at = 0.0
        self._warned: set[str] = set()

    def close(self) -> None:
        """Close its connections; responses on their way are lost."""
        for connection in self._connections.values():
            connection.close()

    def assign(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Read these partitions and no others. None: where auto.offset.reset says."""
        self.begun = {}
        self.positions = {where: offset for where, offset in positions.items() if offset is not None}
        self._without = {where for where, offset in positions.items() if offset is None}
        self._stale = True

    def poll(self, timeout: float) -> list[Chunk]:
        """What has come, after waiting for something for up to timeout seconds. Raises ToolError."""
        end = time.monotonic() + timeout
        while True:
            self._look_up()
            self._send()
            chunks = self._receive()
            left = end - time.monotonic()
            if chunks or left <= 0:
                return chunks
            if self._stale:
                left = min(left, max(self._look_up_at - time.monotonic(), 0.01))
            if self._requests:
                readable([one.connection.fileno() for one in self._requests.values()], left)
            else:
                time.sleep(min(left, 0.1))

    def _look_up(self) -> None:
        """Positions for partitions without, and leaders where some are not known."""
        now = time.monotonic()
        if now < self._look_up_at or not (self._stale or self._without):
            return
        self._look_up_at = now + self._settings.backoff
        try:
            if self._without:
                self._reset()
            topics = {topic for topic, _ in self.positions}
            found = leaders(self._cluster, topics, now + self._settings.request_timeout, self._pass_over)
        except (Unreachable, BrokerError) as error:
            if isinstance(error, BrokerError) and error.code not in RETRIABLE:
                raise
            self._warn(str(error))
            return
        self._leaders = {where: leader.broker_id for where, leader in found.items() if leader.broker_id >= 0}
        self._stale = any(where not in self._leaders for where in self.positions)

    def _pass_over(self, topic: str, error: BrokerError) -> None:
        """A topic that is deleted keeps no other from being read. Raises what will not pass."""
        if error.code not in RETRIABLE:
            raise error
        self._warn(f"topic {topic}: {error}")

    def _reset(self) -> None:
        if self._settings.reset is None:
            topic, partition = min(self._without)
            raise ToolError(f"Undefined offset with no reset policy for partitions: [{topic}-{partition}]")
        wanted = dict.fromkeys(self._without, self._settings.reset)
        for where, listed in list_offsets(self._cluster, wanted, self._settings.isolation).items():
            self.positions[where] = listed.offset
            self._without.discard(where)

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            print(f"WARN {text}", file=sys.stderr)

    def _send(self) -> None:
        by_broker: dict[int, list[TopicPartition]] = {}
        self._turn += 1
        for where in in_turn(self.positions, self._turn):
            broker_id = self._leaders.get(where)
            if broker_id is not None and broker_id not in self._requests:
                by_broker.setdefault(broker_id, []).append(where)
        for broker_id, partitions in by_broker.items():
            deadline = time.monotonic() + self._settings.request_timeout
            try:
                connection = self._connection(broker_id, deadline)
                version = connection.version(ApiKey.FETCH, _NAMES_UP_TO)
                connection.send(ApiKey.FETCH, version, self._request(version, partitions), deadline)
            except Unreachable as error:
                self._lost(error)
                continue
            self._requests[broker_id] = _Request(connection, version, deadline, partitions)

    def _connection(self, broker_id: int, deadline: float) -> Connection:
        known = self._connections.get(broker_id)
        if known is None or not known.is_open:
            known = self._connections[broker_id] = self._cluster.connect(broker_id, deadline, "fetch")
        return known

    def _request(self, version: int, partitions: Iterable[TopicPartition]) -> bytes:
        settings = self._settings
        return fetch.encode_request(
            version,
            fetch.FetchRequest(
                max_wait_ms=int(settings.max_wait * 1000),
                min_bytes=settings.min_bytes,
                max_bytes=settings.max_bytes,
                isolation_level=settings.isolation,
                partitions=[
                    fetch.FetchPartition(
                        topic=topic,
                        partition=partition,
                        fetch_offset=self.positions[topic, partition],
                        max_bytes=settings.partition_bytes,
                    )
                    for topic, partition in partitions
                ],
            ),
        )

    def _lost(self, error: Exception) -> None:
        self._stale = True
        self._look_up_at = time.monotonic() + self._settings.backoff
        self._warn(str(error))

    def _receive(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        for broker_id, request in list(self._requests.items()):
            try:
                body = request.connection.poll()
                if body is None and time.monotonic() < request.deadline:
                    continue
                if body is None:
                    raise Unreachable(f"{request.connection.address}: no response to FETCH in time")
                response = fetch.decode_response(request.version, body)
            except (Unreachable, MalformedFrame) as error:
                request.connection.close()
                del self._requests[broker_id]
                self._lost(error)
                continue
            del self._requests[broker_id]
            if response.error:
                self._lost(BrokerError(response.error))
            for result in response.results:
                chunk = self._take(result)
                if chunk is not None:
                    chunks.append(chunk)
        return chunks

    def _take(self, result: fetch.FetchPartitionResult) -> Chunk | None:
        where = (result.topic, result.partition)
        position = self.positions.get(where)
        if position is None:
            return None
        if result.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._warn(
                f"Fetch position {position} is out of range for partition {where[0]}-{where[1]}, resetting offset"
            )
            del self.positions[where]
            self._without.add(where)
            return None
        if result.error:
            if result.error not in RETRIABLE:
                raise BrokerError(result.error)
            self._lost(ToolError(f"fetch of {where[0]}-{where[1]}: {error_name(result.error)}"))
            return None
        aborted = (result.aborted or ()) if self._settings.isolation == READ_COMMITTED else None
        try:
            found = visible(result.records_view, position, aborted, check_crcs=self._settings.check_crcs)
        except CorruptBatch as error:
            raise ToolError(f"{where[0]}-{where[1]} from offset {position} on: {error.reason}") from None
        if found.next_offset == position:
            return None
        # First: a signal may come at any moment.
        self.begun.setdefault(where, position)
        self.positions[where] = found.next_offset
        return Chunk(where, position, found.records, found.next_offset)


def in_turn(partitions: Iterable[TopicPartition], turn: int) -> list[TopicPartition]:
    """Topic by topic, with another topic and another partition first in each turn.

    A response that is full holds the first partitions of its request alone.
    """
    wanted = list(partitions)
    topics = {topic: index for index, topic in enumerate(sorted({topic for topic, _ in wanted}))}
    most = max((partition for _, partition in wanted), default=0) + 1
    return sorted(wanted, key=lambda one: ((topics[one[0]] - turn) % len(topics), (one[1] - turn) % most))
