"""What coordinators do: offset commits, transactions of one record, and loading what a partition of commits holds.

Kafka makes `__consumer_offsets` and `__transaction_state`, of 150 replicas each, for the first of these rows.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.bench import Bench
from benchmarks.clients.coordinators import PASSING, coordinators
from benchmarks.clients.lean import Latencies
from benchmarks.clients.transactional import TransactionalProducer
from benchmarks.clients.wire import Frame, Line, Wire, ask, frame
from benchmarks.measure.guard import VoidRun
from benchmarks.process import BenchmarkFailed
from benchmarks.report.metrics import Target, at_least, at_most
from benchmarks.rows.base import Found, Row
from benchmarks.rows.measured import per_request, percentiles
from benchmarks.systems import BROKERS
from benchmarks.topics import await_full
from broker.core.coordination import OFFSETS_TOPIC, partition_of
from broker.wire.errors import ErrorCode
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

GROUP = "Coordinators"
OFFSETS_PARTITIONS = 50
_COMMIT_VERSION, _FETCH_VERSION = 8, 5
_TIMEOUT_S = 120.0
_LOAD_TIMEOUT_S = 300.0
_WARM_SHARE = 0.5
"""Of the time that is measured so much goes before it."""
_BATCH = 10


@dataclass(frozen=True, slots=True)
class OffsetCommits(Row):
    """Each connection commits one offset for a group of its own, again and again, one commit in flight."""

    connections: int
    seconds: float
    group: str = GROUP
    metrics: tuple[str, ...] = ("commits_per_s", "p50_ms", "p99_ms", "cpu_ms_per_1000_requests", "client_cores")
    targets: tuple[Target, ...] = (
        at_least("commits_per_s", 2),
        at_most("p50_ms", 0.6),
        at_most("cpu_ms_per_1000_requests", 0.5),
    )
    client_threads: int = 1

    @property
    def name(self) -> str:
        return f"offset commits, {self.connections} connection{'s' if self.connections > 1 else ''}"

    @property
    def estimate_s(self) -> float:
        return 2 * (4 + self.seconds * (1 + _WARM_SHARE))

    def run(self, bench: Bench, found: Found) -> None:
        with bench.topic(1) as topic, Wire() as wire:
            groups = [f"{topic}-{n}" for n in range(self.connections)]
            homes = coordinators(bench.cluster, wire, "group", groups)
            load = _Commits()
            for group, home in zip(groups, homes, strict=True):
                load.begin(
                    wire.connect(bench.cluster.address(home)), frame(commit(group, topic, 1, 7), _COMMIT_VERSION)
                )
            wire.run_for(self.seconds * _WARM_SHARE)
            load.latencies_ns.clear()
            window, cpu_s = bench.window(), time.process_time()
            wire.run_for(self.seconds)
            used, cpu_s = window.close(), time.process_time() - cpu_s
            done = load.latencies_ns[:]
            load.stopping = True
            wire.run_until(lambda: load.in_flight == 0, "the last commits", _TIMEOUT_S)
            found.update(used.facts())
            found["commits_per_s"] = len(done) / used.seconds
            found["client_cores"] = cpu_s / used.seconds
            found.update(percentiles(latencies(done), "ms"))
            found.update(per_request(used, len(done)))


class _Commits:
    """Commits that follow each other on each of several connections."""

    def __init__(self) -> None:
        self.latencies_ns: list[int] = []
        self.in_flight = 0
        self.stopping = False
        self._right = b""

    def begin(self, line: Line, commits: Frame) -> None:
        self.in_flight += 1
        line.send(commits, partial(self._done, line, commits, time.monotonic_ns()))

    def _done(self, line: Line, commits: Frame, sent_ns: int, body: memoryview) -> None:
        self.latencies_ns.append(time.monotonic_ns() - sent_ns)
        self.in_flight -= 1
        if body != self._right:
            require_committed(body)
            self._right = bytes(body)
        if not self.stopping:
            self.begin(line, commits)


@dataclass(frozen=True, slots=True)
class Transactions(Row):
    """Transactions of one record of 100 bytes; each producer has one after the other, on connections of its own."""

    producers: int
    seconds: float
    partitions: int = 6
    group: str = GROUP
    metrics: tuple[str, ...] = ("tx_per_s", "p50_ms", "p99_ms", "cpu_ms_per_1000_tx", "client_cores")
    targets: tuple[Target, ...] = (at_least("tx_per_s", 2), at_most("p50_ms", 0.6), at_most("cpu_ms_per_1000_tx", 0.5))
    client_threads: int = 1

    @property
    def name(self) -> str:
        return f"transactions of one record, {self.producers:,} producer{'s' if self.producers > 1 else ''}"

    @property
    def estimate_s(self) -> float:
        return 2 * (4 + self.seconds * (1 + _WARM_SHARE))

    def run(self, bench: Bench, found: Found) -> None:
        with bench.topic(self.partitions) as topic, Wire() as wire:
            producers = self._producers(bench, wire, topic)
            for producer in producers:
                producer.begin()
            wire.run_for(self.seconds * _WARM_SHARE)
            for producer in producers:
                producer.latencies_ns.clear()
            window, cpu_s = bench.window(), time.process_time()
            wire.run_for(self.seconds)
            used, cpu_s = window.close(), time.process_time() - cpu_s
            done = [latency for producer in producers for latency in producer.latencies_ns]
            for producer in producers:
                producer.stopping = True
            wire.run_until(lambda: all(one.idle for one in producers), "the last transactions", _TIMEOUT_S)
            found.update(used.facts())
            found["tx_per_s"] = len(done) / used.seconds
            found["client_cores"] = cpu_s / used.seconds
            found["requests_a_tx"] = sum(one.requests for one in producers) / max(
                sum(one.transactions for one in producers), 1
            )
            found.update(percentiles(latencies(done), "ms"))
            if done:
                found["cpu_ms_per_1000_tx"] = used.broker_cpu_s * 1e6 / len(done)

    def _producers(self, bench: Bench, wire: Wire, topic: str) -> list[TransactionalProducer]:
        """Each with its producer id."""
        cluster = bench.cluster
        ids = [f"{topic}-{n}" for n in range(self.producers)]
        homes = coordinators(cluster, wire, "transaction", ids)
        producers = []
        for number, (transactional_id, home) in enumerate(zip(ids, homes, strict=True)):
            # The topic's leaders go round the brokers.
            partition = number % self.partitions
            leader = wire.connect(cluster.address(BROKERS[partition % len(BROKERS)]))
            coordinator = wire.connect(cluster.address(home))
            producers.append(TransactionalProducer(wire, coordinator, leader, transactional_id, topic, partition))
            producers[-1].open()
        wire.run_until(lambda: all(one.ready for one in producers), "producer ids", _TIMEOUT_S)
        return producers


@dataclass(frozen=True, slots=True)
class CoordinatorLoad(Row):
    """A partition of `__consumer_offsets` that holds that many commits changes its leader by a clean stop of that one.

    load_s: from when the new leader last said that it does not coordinate until it returns the last offset committed.
    """

    commits: int
    group: str = GROUP
    metrics: tuple[str, ...] = ("load_s", "commit_krecords_per_s")
    targets: tuple[Target, ...] = (at_most("load_s", 0.5),)
    connections: int = 16
    groups: int = 100

    @property
    def name(self) -> str:
        return f"load of a partition with {self.commits:,} commits, {_BATCH} a request"

    @property
    def estimate_s(self) -> float:
        return 60 + self.commits / 10_000

    def run(self, bench: Bench, found: Found) -> None:
        cluster = bench.cluster
        with bench.topic(_BATCH, await_gone=False) as topic, Wire() as wire:
            groups = _of_one_partition(topic, self.groups)
            [home] = coordinators(cluster, wire, "group", groups[:1])
            begun = time.monotonic()
            last = self._commit_all(bench, wire, topic, groups, home)
            found["commit_krecords_per_s"] = self.commits / (time.monotonic() - begun) / 1e3
            others = [broker_id for broker_id in BROKERS if broker_id != home]
            lines = [wire.connect(cluster.address(broker_id)) for broker_id in others]
            asking = frame(fetch_offset(groups[-1], topic), _FETCH_VERSION)
            cluster.brokers[home].daemon.signal(signal.SIGTERM)
            try:
                found["load_s"] = _loaded(wire, lines, asking, last)
            finally:
                # What waits for its process may not be told from what was stopped here.
                if not cluster.brokers[home].daemon.wait(_TIMEOUT_S):
                    raise VoidRun(f"broker {home} did not stop and was killed")
                cluster.brokers[home].daemon.start()
                cluster.await_serving(BROKERS)
                await_full(cluster, topic, _BATCH)
                await_full(cluster, OFFSETS_TOPIC, OFFSETS_PARTITIONS)

    def _commit_all(self, bench: Bench, wire: Wire, topic: str, groups: Sequence[str], home: int) -> int:
        """Returns the last offset, which every group has committed for every partition."""
        rounds = max(self.commits // (len(groups) * _BATCH), 1)
        left = [(group, offset) for offset in range(rounds) for group in groups]
        left.reverse()
        in_flight = 0

        def send(line: Line) -> None:
            nonlocal in_flight
            if left:
                in_flight += 1
                group, offset = left.pop()
                line.send(frame(commit(group, topic, _BATCH, offset), _COMMIT_VERSION), partial(done, line))

        def done(line: Line, body: memoryview) -> None:
            nonlocal in_flight
            in_flight -= 1
            require_committed(body)
            send(line)

        for _ in range(self.connections):
            send(wire.connect(bench.cluster.address(home)))
        wire.run_until(lambda: not left and not in_flight, f"{self.commits} commits", self.commits / 1000 + _TIMEOUT_S)
        return rounds - 1


def _loaded(wire: Wire, lines: Sequence[Line], asking: Frame, last: int) -> float:
    """Seconds of loading on the broker that comes to coordinate. Raises VoidRun where it returns another offset."""
    refused = [time.monotonic()] * len(lines)
    deadline = time.monotonic() + _LOAD_TIMEOUT_S
    while time.monotonic() < deadline:
        for number, line in enumerate(lines):
            response = OffsetFetchResponse.decode(_FETCH_VERSION, ask(wire, line, asking, _LOAD_TIMEOUT_S))
            now = time.monotonic()
            if response.error_code == ErrorCode.NOT_COORDINATOR:
                refused[number] = now
            elif response.error_code == 0:
                offset = response.topics[0].partitions[0].committed_offset
                if offset != last:
                    raise VoidRun(f"the new coordinator returned offset {offset}, {last} was committed")
                return now - refused[number]
            elif response.error_code not in PASSING:
                raise BenchmarkFailed(f"OffsetFetch: error {response.error_code}")
    raise VoidRun(f"no other broker coordinated within {_LOAD_TIMEOUT_S:g} s")


def _of_one_partition(prefix: str, count: int) -> list[str]:
    """Groups that all belong to one partition."""
    wanted = partition_of(prefix, OFFSETS_PARTITIONS)
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"{prefix}-{number}"
        if partition_of(name, OFFSETS_PARTITIONS) == wanted:
            found.append(name)
        number += 1
    return found


def commit(group: str, topic: str, partitions: int, offset: int) -> OffsetCommitRequest:
    """Of a consumer that is no member."""
    offsets = [OffsetCommitRequestPartition(partition, offset, -1, "") for partition in range(partitions)]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, offsets)])


def fetch_offset(group: str, topic: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, [0])])


def require_committed(body: memoryview) -> None:
    """Raises BenchmarkFailed where an offset was refused."""
    response = OffsetCommitResponse.decode(_COMMIT_VERSION, body)
    errors = {partition.error_code for topic in response.topics for partition in topic.partitions}
    if errors != {0}:
        raise BenchmarkFailed(f"OffsetCommit: errors {sorted(errors)}")


def latencies(taken_ns: Sequence[int]) -> Latencies:
    """Of all of them, in µs."""
    ordered = sorted(taken_ns)

    def quantile(share: float) -> float:
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] / 1e3

    if not ordered:
        return Latencies(0, -1, -1, -1, -1)
    return Latencies(len(ordered), quantile(0.5), quantile(0.99), quantile(0.999), ordered[-1] / 1e3)
