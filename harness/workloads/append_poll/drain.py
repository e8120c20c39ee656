"""The drain: fresh consumers read every partition from its log's start to past the sentinel, by two readers, under each
isolation level that the workload asks for.

Decides what counts as having reached the end. Must not know faults, nodes or generators. Invariants:
`drain-complete` is only written when every offset of [start, end) was in requests to one leader, in one epoch, by one
consumer, and the sentinel lies below end; every request is an operation of the history.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from harness.clients.confluent import ConfluentError, ConfluentReader
from harness.clients.connection import ClientError, Connection
from harness.clients.fetch import fetch_one, poll_fields
from harness.clients.requests import EARLIEST, list_offset
from harness.clients.router import Cluster, Leader
from harness.operations import outcomes
from harness.operations.history import History
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll import completions

Reader = Literal["wire", "confluent"]
POLL_BYTES = 1 << 20
PAUSE_S = 0.2
AT_ONCE = 4
REQUEST_TIMEOUT_NS = 5_000_000_000

Resolve = Callable[[int], Leader | None]
"""Partition → the leader that this round reads it from, now; None while there is none. Called by one thread at a
time.
"""


class _Incomplete(Exception):
    """Why an attempt did not reach the end."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One consumer's try at one partition."""

    process: int
    consumer: str
    partition: int
    isolation: int
    leader: Leader
    node: str


class Drain:
    """Reads several partitions at once. next_process: a process number that nobody has used; called by many threads."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        next_process: Callable[[], int],
        sentinels: Mapping[int, int],
        *,
        isolations: Sequence[int] = (0,),
        sleep: Callable[[float], None] = time.sleep,
        topic_id: str = "",
    ) -> None:
        """sentinels: partition → offset of its acknowledged sentinel. isolations: 0 read_uncommitted, 1
        read_committed. topic_id: what lines name beside the topic, of one that was made anew, and is not any more.
        """
        self._cluster = cluster
        self._history = history
        self._next_process = next_process
        self._sentinels = sentinels
        self._isolations = isolations
        self._sleep = sleep
        self._topic_id = topic_id
        self._life: dict[str, str] = {"topic_id": topic_id} if topic_id else {}

    def round(self, partitions: list[int], resolve: Resolve, limit_s: float) -> int:
        """Drain the partitions with both readers within limit_s in all; returns how many of the readings did not
        complete.
        """
        end_s = time.monotonic() + limit_s
        lock = threading.Lock()

        def resolve_alone(partition: int) -> Leader | None:
            with lock:
                return resolve(partition)

        with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(partitions)), thread_name_prefix="drain") as pool:
            readings = [pool.submit(self._read_by_all, partition, resolve_alone, end_s) for partition in partitions]
            return sum(reading.result() for reading in readings)

    def _read_by_all(self, partition: int, resolve: Resolve, end_s: float) -> int:
        """How many of the readings did not complete."""
        incomplete = 0
        for isolation in self._isolations:
            first = self._read_again("wire", partition, isolation, resolve, end_s, (0, 0))
            # The second reader begins where the first found the log's start, and reads as far.
            second = self._read_again("confluent", partition, isolation, resolve, end_s, first or (0, 0))
            incomplete += (first is None) + (second is None)
        return incomplete

    def _read_again(
        self,
        reader: Reader,
        partition: int,
        isolation: int,
        resolve: Resolve,
        end_s: float,
        span: tuple[int, int],
    ) -> tuple[int, int] | None:
        """Try until one reading completes; where it began and ended, or None after end_s."""
        problem = "no time left"
        node: str | None = None
        while time.monotonic() < end_s:
            leader = resolve(partition)
            if leader is None:
                problem = outcomes.NO_LEADER
            elif partition not in self._sentinels:
                problem = "no acknowledged sentinel in this partition"
                node = self._cluster.names[leader.broker_id]
                break
            else:
                node = self._cluster.names[leader.broker_id]
                process = self._next_process()
                attempt = _Attempt(process, f"drain-{process}", partition, isolation, leader, node)
                read = self._read_wire if reader == "wire" else self._read_confluent
                try:
                    begin, end = read(attempt, span, end_s)
                    if resolve(partition) != leader:
                        raise _Incomplete("the leader changed while it was read")
                except _Incomplete as error:
                    problem = str(error)
                    if reader == "confluent" and time.monotonic() < end_s:
                        span = self._begun_anew(attempt, span)
                else:
                    self._history.harness(
                        "drain-complete",
                        topic=self._cluster.topic,
                        partition=partition,
                        reader=reader,
                        isolation=isolation,
                        leader=node,
                        start=begin,
                        end=end,
                        **self._life,
                    )
                    return begin, end
            self._sleep(PAUSE_S)
        self._history.harness(
            "drain-incomplete",
            topic=self._cluster.topic,
            partition=partition,
            reader=reader,
            isolation=isolation,
            leader=node,
            start=None,
            end=None,
            error=problem,
            **self._life,
        )
        return None

    def _begun_anew(self, attempt: _Attempt, span: tuple[int, int]) -> tuple[int, int]:
        """span, from where the log begins now: retention may have taken what the first reader still found."""
        process = self._next_process()
        attempt = replace(attempt, process=process, consumer=f"drain-{process}")
        connection = Connection(self._cluster.addresses[attempt.leader.broker_id], attempt.consumer)
        try:
            connection.connect(time.monotonic_ns() + REQUEST_TIMEOUT_NS)
            return max(span[0], self._log_start(connection, attempt)), span[1]
        except (ClientError, _Incomplete):
            return span
        finally:
            connection.close()

    def _read_wire(self, attempt: _Attempt, _span: tuple[int, int], end_s: float) -> tuple[int, int]:
        connection = Connection(self._cluster.addresses[attempt.leader.broker_id], attempt.consumer)
        try:
            try:
                connection.connect(time.monotonic_ns() + REQUEST_TIMEOUT_NS)
            except ClientError as error:
                raise _Incomplete(str(error)) from None
            start = self._log_start(connection, attempt)
            position, hw = start, 0
            goal = self._sentinels[attempt.partition] + 1
            while position < max(goal, hw):
                if time.monotonic() >= end_s:
                    raise _Incomplete(f"at {position}, before the end at {max(goal, hw)}, when the time was over")
                position, hw = self._poll_wire(connection, attempt, position)
            return start, position
        finally:
            connection.close()

    def _log_start(self, connection: Connection, attempt: _Attempt) -> int:
        fields: dict[str, object] = {"timestamp": EARLIEST, "isolation": 0, "leader_epoch": attempt.leader.epoch}
        invocation = self._invocation(attempt, "list_offsets", fields)
        index = self._history.invoke(invocation)
        try:
            listed = list_offset(
                connection,
                self._cluster.topic,
                attempt.partition,
                timestamp=EARLIEST,
                isolation=0,
                leader_epoch=attempt.leader.epoch,
                deadline_ns=time.monotonic_ns() + REQUEST_TIMEOUT_NS,
            )
        except ClientError as error:
            raise self._failed(index, invocation, error.error, error.at_ns) from None
        if listed.error is not None:
            raise self._failed(index, invocation, listed.error, listed.at_ns)
        self._history.complete(index, invocation, completions.of_list_offsets(listed, EARLIEST))
        return listed.offset

    def _poll_wire(self, connection: Connection, attempt: _Attempt, position: int) -> tuple[int, int]:
        invocation = self._poll_invocation(attempt, "wire", position, attempt.leader.epoch)
        index = self._history.invoke(invocation)
        try:
            polled = fetch_one(
                connection,
                self._cluster.topic,
                attempt.partition,
                position=position,
                leader_epoch=attempt.leader.epoch,
                isolation=attempt.isolation,
                max_wait_ms=100,
                max_bytes=POLL_BYTES,
                deadline_ns=time.monotonic_ns() + REQUEST_TIMEOUT_NS,
                topic_id=self._topic_id,
            )
        except ClientError as error:
            raise self._failed(index, invocation, error.error, error.at_ns) from None
        if polled.error is not None:
            raise self._failed(index, invocation, polled.error, polled.at_ns)
        self._history.complete(index, invocation, Completion("ok", polled.at_ns, None, poll_fields(polled)))
        return polled.next_position, polled.hw

    def _read_confluent(self, attempt: _Attempt, span: tuple[int, int], end_s: float) -> tuple[int, int]:
        position = start = span[0]
        goal = max(self._sentinels[attempt.partition] + 1, span[1])
        # Where the client is to begin; from then on its own position is recorded.
        invocation = self._poll_invocation(attempt, "confluent", position, -1, client_position=position)
        # librdkafka fetches on its own from when it is assigned, so the invocation comes first.
        index = self._history.invoke(invocation)
        bootstrap = [self._cluster.addresses[attempt.leader.broker_id]]
        reader = ConfluentReader(
            bootstrap,
            self._cluster.topic,
            attempt.partition,
            position,
            attempt.consumer,
            read_committed=attempt.isolation == 1,
        )
        try:
            while True:
                try:
                    # librdkafka waits for as many records as the call names: no more than there are.
                    batch = reader.poll(0.5, max(1, goal - position))
                except ConfluentError as error:
                    # Its texts are many; the history's names are few.
                    self._history.complete(
                        index, invocation, Completion("fail", time.monotonic_ns(), outcomes.CLIENT_ERROR)
                    )
                    raise _Incomplete(str(error)) from None
                fields: dict[str, object] = {
                    "next_position": batch.next_position,
                    "hw": batch.hw,
                    "lso": -1,
                    "log_start": -1,
                    "records": [
                        {"offset": offset, "value": value, "epoch": epoch, "intact": intact}
                        for offset, value, epoch, intact in batch.records
                    ],
                }
                self._history.complete(index, invocation, Completion("ok", batch.at_ns, None, fields))
                position = batch.next_position
                if position >= goal:
                    return start, position
                if time.monotonic() >= end_s:
                    raise _Incomplete(f"at {position}, before the end at {goal}, when the time was over")
                own = self._own_position(reader)
                invocation = self._poll_invocation(attempt, "confluent", position, -1, client_position=own)
                index = self._history.invoke(invocation)
        finally:
            reader.close()

    @staticmethod
    def _own_position(reader: ConfluentReader) -> int | None:
        try:
            return reader.own_position()
        except ConfluentError as error:
            raise _Incomplete(str(error)) from None

    def _poll_invocation(
        self,
        attempt: _Attempt,
        reader: Reader,
        position: int,
        leader_epoch: int,
        *,
        client_position: int | None = None,
    ) -> Invocation:
        fields: dict[str, object] = {
            "position": position,
            "leader_epoch": leader_epoch,
            "isolation": attempt.isolation,
            "reader": reader,
            "consumer": attempt.consumer,
            "max_bytes": POLL_BYTES,
            **({} if client_position is None else {"client_position": client_position}),
        }
        return self._invocation(attempt, "poll", fields)

    def _invocation(
        self, attempt: _Attempt, f: Literal["poll", "list_offsets"], fields: Mapping[str, object]
    ) -> Invocation:
        topic, phase = self._cluster.topic, self._history.phase
        return Invocation(attempt.process, f, phase, topic, attempt.partition, attempt.node, {**fields, **self._life})

    def _failed(self, index: int, invocation: Invocation, error: str, at_ns: int) -> _Incomplete:
        self._history.complete(index, invocation, Completion(outcomes.read_outcome(error), at_ns, error))
        return _Incomplete(f"{invocation.f} at {invocation.node}: {error}")
