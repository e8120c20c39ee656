"""Brokers' whole replication runtime in one process: real managers and codecs; log, network, clock and controller fake.

Nothing happens by itself: `turn()` lets every broker handle what has arrived and end its turn, `advance(ms)` moves the
clock. Links can hold requests or answers, brokers can be paused, killed (memory gone, log kept) and started again.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from broker.config import Settings
from broker.core.elr import ReplicaReport, after_write, choose
from broker.core.isr import Proposal
from broker.core.partition import NO_LEADER, PartitionState
from broker.runtime.event_log import EventLog
from broker.runtime.ports import (
    AppendInfo,
    Chunk,
    LogDirFailed,
    OffsetOutOfRange,
    TopicPartition,
    UnexpectedAppendOffset,
)
from broker.runtime.replica import chunk_view
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.replication_ports import AlterPartitionAnswer
from broker.runtime.request import Request
from broker.wire.api import ApiKey, response_header_version
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch, produce
from broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker.wire.record_batch import BatchHeader, read_header, stamp
from broker.wire.records import NewRecord, decode_records, encode_batch

TOPIC = "t"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class FakeLoop:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._soon: deque[Callable[[], None]] = deque()
        self._sequence = 0

    def now_ms(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    call_soon_threadsafe = call_soon

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(callback)
        self._sequence += 1
        heapq.heappush(self._timers, (self.now + delay_ms, self._sequence, timer))
        return timer

    def run_soon(self) -> bool:
        """What was asked for soon; True when there was anything."""
        ran = False
        for _ in range(len(self._soon)):
            self._soon.popleft()()
            ran = True
        return ran

    def run_due(self, until: float) -> bool:
        """Fire the next timer due by `until`."""
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if not timer.cancelled:
                timer.cancelled = True
                timer.callback()
                return True
        return False


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class MemoryLog:
    """A log as a list of batches; as plain as can be."""

    def __init__(self, topic_partition: TopicPartition, topic_id: str) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.start = 0
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.staged: list[tuple[int, int, int, memoryview]] = []
        self.epochs: list[tuple[int, int]] = []
        self.writes = 0
        self.fail_writes = False
        self.distrusted = 0
        self.flushed = 0
        self.flush_messages = 2**63 - 1
        self.lacks_values = False
        self.commits: list[tuple[int, Callable[[], None]]] = []
        """Flushes under way: (end of what they make durable, whom to tell)."""

    @property
    def log_start_offset(self) -> int:
        return self.start

    @property
    def written_leo(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else self.start

    @property
    def leo(self) -> int:
        return self.staged[-1][1] + 1 if self.staged else self.written_leo

    @property
    def dirty(self) -> bool:
        return bool(self.staged)

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    @property
    def recovery_point(self) -> int:
        return self.flushed

    def commit(self, then: Callable[[], None]) -> None:
        if not self.commits:
            self.commits.append((self.written_leo, then))

    def finish_commits(self) -> bool:
        """The disk is done with what was asked; True when there was anything."""
        commits, self.commits = self.commits, []
        for target, then in commits:
            self.flushed = max(self.flushed, min(target, self.written_leo))
            then()
        return bool(commits)

    def lose_power(self) -> None:
        """All that was never flushed is gone."""
        self.staged.clear()
        self.commits.clear()
        self.batches = [batch for batch in self.batches if batch[1] < self.flushed]
        self.epochs = [entry for entry in self.epochs if entry[1] < self.written_leo]

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch > self.latest_epoch:
            self.epochs = [entry for entry in self.epochs if entry[1] < start_offset] + [(epoch, start_offset)]

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch < 0 or not self.epochs:
            return -1, -1
        if epoch == self.latest_epoch:
            return epoch, self.written_leo
        higher = [start for own, start in self.epochs if own > epoch]
        lower = [own for own, _ in self.epochs if own <= epoch]
        if not higher:
            return -1, -1
        return (lower[-1] if lower else epoch), higher[0]

    def epoch_at(self, offset: int) -> int:
        return max((epoch for epoch, start in self.epochs if start <= offset), default=-1)

    def append_as_leader(self, batches: memoryview, epoch: int, header: BatchHeader | None = None) -> AppendInfo:
        header = read_header(batches, 0)
        base = self.leo
        stamp(batches, 0, base, epoch)
        self.assign_epoch(epoch, base)
        last = base + header.last_offset_delta
        self.staged.append((base, last, epoch, batches))
        return AppendInfo(base, last, header.max_timestamp, len(batches), 1)

    def append_as_follower(self, batches: memoryview, headers: Sequence[BatchHeader] | None = None) -> AppendInfo:
        first, position = self.leo, 0
        last = count = 0
        while position < len(batches):
            header = read_header(batches, position)
            if header.base_offset != self.leo:
                raise UnexpectedAppendOffset(self.topic_partition, header.base_offset, self.leo)
            self.assign_epoch(header.partition_leader_epoch, header.base_offset)
            view = batches[position : position + header.size]
            last = header.last_offset
            self.staged.append((header.base_offset, last, header.partition_leader_epoch, view))
            position += header.size
            count += 1
        return AppendInfo(first, last, -1, len(batches), count)

    def write(self) -> None:
        if self.fail_writes:
            self.staged.clear()
            raise LogDirFailed("/data", 5, "Input/output error")
        if self.staged:
            self.writes += 1
        self.batches += [(base, last, epoch, bytes(view)) for base, last, epoch, view in self.staged]
        self.staged.clear()
        if self.written_leo - self.flushed >= self.flush_messages:
            self.flushed = self.written_leo

    def read(self, offset: int, max_bytes: int, limit_offset: int, min_one_batch: bool) -> Chunk:
        if not self.start <= offset <= self.leo:
            raise OffsetOutOfRange(self.topic_partition, offset, self.start, self.leo)
        found = b""
        for _base, last, _, data in self.batches:
            if last < offset or last >= limit_offset:
                continue
            if len(found) + len(data) > max_bytes and not (min_one_batch and not found):
                break
            found += data
        return found

    def maybe_raise_log_start(self, offset: int) -> bool:
        if offset <= self.start:
            return False
        assert offset <= self.leo
        self.start = offset
        return True

    def distrust(self) -> None:
        self.distrusted += 1

    def truncate_to(self, offset: int) -> None:
        self.staged.clear()
        # A flush that was under way no longer vouches for what comes behind the cut.
        self.commits = [(min(target, offset), then) for target, then in self.commits]
        self.flushed = min(self.flushed, offset)
        self.batches = [batch for batch in self.batches if batch[1] < offset]
        self.epochs = [entry for entry in self.epochs if entry[1] < min(offset, self.written_leo)]

    def lacks_values_below(self, offset: int) -> bool:
        return self.lacks_values

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.staged.clear()
        self.batches.clear()
        self.epochs.clear()
        self.start = self.flushed = offset
        self.commits = [(offset, then) for _, then in self.commits]

    def newest_timestamp(self) -> int:
        return max((read_header(memoryview(data)).max_timestamp for _, _, _, data in self.batches), default=-1)

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> tuple[int, int, int] | None:
        for base, _, epoch, data in self.batches:
            if base < limit_offset and read_header(memoryview(data)).base_timestamp >= timestamp:
                return read_header(memoryview(data)).base_timestamp, base, epoch
        return None

    def flush(self) -> None: ...

    def values(self) -> list[str]:
        """The records' values, in order."""
        found = []
        for _, _, _, data in self.batches:
            for record in decode_records(memoryview(data)):
                assert record.value is not None
                found.append(record.value.decode())
        return found


class MemoryStore:
    """What survives kill -9: logs and the checkpointed watermarks."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, MemoryLog] = {}
        self.checkpointed: dict[TopicPartition, int] = {}
        self.unclean: dict[TopicPartition, str] = {}

    def out_of_reach(self, topic_partition: TopicPartition) -> bool:
        return False

    def distrust(self, topic_partition: TopicPartition, reason: str) -> None:
        self.unclean[topic_partition] = reason

    def trust_again(self, topic_partition: TopicPartition) -> None:
        self.unclean.pop(topic_partition, None)

    def logs(self) -> Mapping[TopicPartition, MemoryLog]:
        return self._logs

    def create(
        self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str], *, new: bool = True
    ) -> MemoryLog:
        if topic_partition not in self._logs:
            self._logs[topic_partition] = MemoryLog(topic_partition, topic_id)
        return self._logs[topic_partition]

    def restore(self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str]) -> MemoryLog:
        raise AssertionError("no log of this store is ever offline")

    def delete(self, topic_partition: TopicPartition) -> None:
        self._logs.pop(topic_partition, None)
        self.checkpointed.pop(topic_partition, None)

    def update_config(self, topic: str, config: Mapping[str, str]) -> None: ...

    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        return dict(self.checkpointed)

    def checkpoint_high_watermarks(self, values: Mapping[TopicPartition, int]) -> None:
        self.checkpointed = dict(values)

    def checkpoint_recovery_points(self) -> None: ...

    def checkpoint_log_start_offsets(self) -> None: ...

    def close(self, clean: bool) -> None: ...


class FakeSlot:
    """Keeps the answer."""

    def __init__(self, on_answer: Callable[[bytes], None] | None = None) -> None:
        self.answer: bytes | None = None
        self.nothing = False
        self.closed: str | None = None
        self.open = True
        self._on_answer = on_answer

    @property
    def done(self) -> bool:
        return self.answer is not None or self.nothing or self.closed is not None

    def fulfil(self, chunks: Sequence[Chunk]) -> None:
        assert not self.done, "answered twice"
        data = b""
        for chunk in chunks:
            data += bytes(chunk_view(chunk))
        self.answer = data
        if self._on_answer is not None:
            self._on_answer(data)

    def fulfil_nothing(self) -> None:
        assert not self.done
        self.nothing = True

    def close_connection(self, reason: str, answer: Sequence[Chunk] = ()) -> None:
        assert not self.done
        if answer:
            self.fulfil(answer)
        self.closed = reason


class RecordingEventLog(EventLog):
    """The event log without a file."""

    __slots__ = ("events", "flushed")

    def __init__(self, broker_id: int, incarnation: str) -> None:
        super().__init__("/dev/null", broker_id, incarnation, lambda: 0, lambda: 0)
        self.events: list[dict[str, Any]] = []
        self.flushed = 0

    def flush(self) -> None:
        self.events += [json.loads(line) for line in self._lines]
        self._lines.clear()
        self.flushed = len(self.events)

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.events if line["e"] == event]


@dataclass
class Node:
    """One broker. `manager` is None while it is dead."""

    broker_id: int
    loop: FakeLoop
    store: MemoryStore = field(default_factory=MemoryStore)
    manager: ReplicaManager | None = None
    events: list[RecordingEventLog] = field(default_factory=list)
    paused: bool = False
    deaf: bool = False
    min_isr: int | None = None
    """Where it has heard of another one than the controller."""
    broker_epoch: int = -1
    incarnation: int = 0
    inbox: deque[Callable[[], object]] = field(default_factory=deque)
    connected: list[Callable[[], None]] = field(default_factory=list)
    """Tell those who wait for an answer of this broker that their connection is gone."""

    @property
    def log(self) -> MemoryLog:
        return self.store.logs()[TopicPartition(TOPIC, 0)]

    @property
    def up(self) -> ReplicaManager:
        assert self.manager is not None, f"broker {self.broker_id} is down"
        return self.manager

    @property
    def hw(self) -> int:
        return self.up.replicas[(TOPIC, 0)].high_watermark

    @property
    def event_log(self) -> RecordingEventLog:
        return self.events[-1]


@dataclass
class Held:
    """A message on a link, in flight or held. size: bytes of an answer to a fetch."""

    source: int
    target: int
    kind: str
    deliver: Callable[[], None]
    lose: Callable[[], None]
    size: int = 0


class FakePeer:
    """Sends through the cluster's links."""

    def __init__(self, cluster: MemoryCluster, source: Node, target: int) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target
        self._correlation = 0
        self._incarnation = source.incarnation

    def send(
        self,
        api_key: int,
        api_version: int,
        body: bytes,
        on_response: Callable[[memoryview], None],
        on_failure: Callable[[str], None],
        timeout_ms: float,
    ) -> int:
        self._correlation += 1
        cluster, source, target = self._cluster, self._source, self._target
        client_id = f"broker-{source.broker_id}-fetcher-{source.event_log.incarnation}"
        correlation = self._correlation
        life = source.incarnation

        finished: list[bool] = []

        def answered(data: bytes) -> None:
            view = memoryview(data)[4 + response_header_version(api_key, api_version) :]

            def arrive() -> None:
                if not finished and source.incarnation == life and source.manager is not None:
                    finished.append(True)
                    on_response(view)

            cluster.links.append(Held(target, source.broker_id, "answer", arrive, failed, len(data)))

        def arrive() -> None:
            node = cluster.nodes[target]
            if node.manager is None:
                failed()
                return
            slot = FakeSlot(answered)
            request = Request(
                api_key,
                api_version,
                correlation,
                client_id,
                memoryview(bytearray(body)),
                slot,
                response_header_version(api_key, api_version) == 1,
            )
            cluster.dispatch(node, request)

        def failed() -> None:
            if not finished and source.incarnation == life and source.manager is not None:
                finished.append(True)
                source.inbox.append(lambda: on_failure("reset: connection closed"))

        cluster.nodes[target].connected.append(failed)
        cluster.links.append(Held(source.broker_id, target, "request", arrive, failed))
        return correlation

    def close(self) -> None: ...


class DirectSender:
    """AlterPartition to the cluster's controller, as a message on a link to broker 0."""

    def __init__(self, cluster: MemoryCluster, node: Node) -> None:
        self._cluster = cluster
        self._node = node

    def send(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        proposal: Proposal,
        on_answer: Callable[[AlterPartitionAnswer], None],
    ) -> None:
        cluster, node = self._cluster, self._node
        life = node.incarnation

        def reply(answer: AlterPartitionAnswer) -> None:
            if node.incarnation == life and node.manager is not None:
                node.inbox.append(lambda: on_answer(answer))

        def lost() -> None:
            reply(AlterPartitionAnswer(ErrorCode.REQUEST_TIMED_OUT))

        def arrive() -> None:
            answer = cluster.alter(node.broker_id, proposal)
            cluster.links.append(Held(0, node.broker_id, "altered", lambda: reply(answer), lost))

        cluster.links.append(Held(node.broker_id, 0, "alter", arrive, lost))


class Topics:
    """A broker's metadata cache with one topic."""

    def __init__(self, cluster: MemoryCluster, node: Node) -> None:
        self._cluster = cluster
        self._node = node

    def overrides(self, topic: str) -> Mapping[str, str]:
        config, own = self._cluster.topic_config, self._node.min_isr
        return config if own is None else {**config, "min.insync.replicas": str(own)}

    def has_partition(self, topic: str, partition: int) -> bool:
        return topic == TOPIC and partition == 0

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        return self._cluster.state.leader, self._cluster.state.leader_epoch

    def live_brokers(self) -> Collection[int] | None:
        return None


class ProducerIds:
    def __init__(self) -> None:
        self.next_id = 1000

    def next_producer_id(self, on_id: Callable[[int], None], on_failure: Callable[[str], None]) -> None:
        self.next_id += 1
        on_id(self.next_id)


class MemoryCluster:
    """`state` is the controller's record of the one partition."""

    def __init__(
        self,
        replicas: int = 3,
        min_isr: int = 1,
        settings: Mapping[str, str] | None = None,
        leader: int = 1,
        start: bool = True,
    ) -> None:
        self.loop = FakeLoop()
        self.wall_ms = 1_700_000_000_000
        self.ids = tuple(range(1, replicas + 1))
        self.topic_config: dict[str, str] = {"min.insync.replicas": str(min_isr)}
        self._settings = {"replica.lag.time.max.ms": "10000", **(settings or {})}
        self.nodes = {i: Node(i, self.loop) for i in self.ids}
        self.links: deque[Held] = deque()
        self.held: list[Held] = []
        self.hold: Callable[[Held], bool] = lambda message: False
        self.registered: dict[int, int] = {}
        self._next_epoch = 100
        self.stalled_disks: set[int] = set()
        """Brokers whose flushes do not end."""
        self.controller_epoch = 1
        self.producer_ids = ProducerIds()
        self.state = PartitionState(1, leader, 0, self.ids, 0, self.ids)
        self.elr: tuple[int, ...] = ()
        """Eligible replicas beside the ISR, under the minimum that is in `state`."""
        if start:
            for i in self.ids:
                self.start(i, tell=False)
            self.tell_all()

    # -- brokers ---------------------------------------------------------------------------------------------------

    def start(self, i: int, tell: bool = True) -> None:
        """Register anew and start the runtime over what is on disk."""
        node = self.nodes[i]
        assert node.manager is None
        node.incarnation += 1
        node.inbox.clear()
        self.register(i)
        node.events.append(RecordingEventLog(i, f"{i:02x}{node.incarnation:02x}"))
        settings = Settings.parse(
            {
                "broker.id": str(i),
                "zookeeper.connect": "localhost:2181",
                "log.dirs": "/none",
                **self._settings,
            }
        )
        peers: dict[int, FakePeer] = {}
        node.manager = ReplicaManager(
            settings,
            node.loop,
            node.store,
            node.event_log,
            DirectSender(self, node),
            lambda target: peers.setdefault(target, FakePeer(self, node, target)),
            Topics(self, node),
            self.producer_ids,
            lambda: node.broker_epoch,
            wall_ms=lambda: self.wall_ms,
        )
        node.manager.startup()
        node.manager.end_of_turn()
        if tell:
            self.elect_if_leaderless()
            self.tell(i)

    def register(self, i: int) -> None:
        """A new registration of broker i, with an epoch of its own."""
        self.nodes[i].broker_epoch = self.registered[i] = self._next_epoch
        self._next_epoch += 1

    def kill(self, i: int) -> None:
        """kill -9: nothing of the process is left but what it wrote."""
        node = self.nodes[i]
        if node.manager is not None:
            node.manager.stopped = True
        node.manager = None
        node.paused = False
        node.incarnation += 1
        for log in _in_memory(node):
            log.commits.clear()
        gone = [message for message in [*self.links, *self.held] if i in (message.source, message.target)]
        self.links = deque(message for message in self.links if message not in gone)
        self.held = [message for message in self.held if message not in gone]
        for reset in node.connected:
            reset()
        node.connected.clear()

    def lose_power(self, i: int) -> None:
        """Kill, and all that was not flushed is gone."""
        self.kill(i)
        for log in self.nodes[i].store.logs().values():
            log.lose_power()

    # -- controller ------------------------------------------------------------------------------------------------

    def expire(self, i: int) -> None:
        """The controller learns that broker i's session is over."""
        self.registered.pop(i, None)
        state = self.state
        isr = tuple(b for b in state.isr if b != i) or state.isr
        if state.leader == i:
            live = [b for b in state.replicas if b in isr and b in self.registered]
            self.write(leader=live[0] if live else NO_LEADER, leader_epoch=state.leader_epoch + 1, isr=isr)
            self.elect_if_leaderless()
        elif isr != state.isr:
            self.write(isr=isr)

    def elect(self, leader: int) -> None:
        """Make `leader` lead in a new epoch."""
        self.write(leader=leader, leader_epoch=self.state.leader_epoch + 1)

    def elect_if_leaderless(self) -> None:
        """By what the registered replicas say of their stops, as the controller does."""
        state = self.state
        if state.leader == NO_LEADER:
            choice = choose(state.isr, self.elr, state.replicas, self.registered.keys(), self.report)
            if choice is not None:
                self.write(
                    leader=choice.leader, leader_epoch=state.leader_epoch + 1, isr=choice.isr, lossy=choice.lossy
                )

    def broker_hears(self, i: int, min_isr: int) -> None:
        """Of another min.insync.replicas than it had."""
        self.nodes[i].min_isr = min_isr
        self.nodes[i].up.on_topic_config(TOPIC)

    def controller_hears(self, min_isr: int) -> None:
        """The same; an ISR that meets a smaller one voids eligibility, under a new leader epoch."""
        for node in self.nodes.values():
            node.min_isr = self._min_isr if node.min_isr is None else node.min_isr
        self.topic_config["min.insync.replicas"] = str(min_isr)
        if self.elr and len(self.state.isr) >= self._min_isr:
            self.write(leader_epoch=self.state.leader_epoch + 1)

    @property
    def _min_isr(self) -> int:
        return min(int(self.topic_config["min.insync.replicas"]), len(self.state.replicas))

    def report(self, i: int) -> ReplicaReport | None:
        """A broker's word on its replica; only `lose_tail` and a log made anew make a stop unclean here."""
        topic_partition = TopicPartition(TOPIC, 0)
        store = self.nodes[i].store
        log = store.logs().get(topic_partition)
        if log is None:
            return ReplicaReport(unclean=True)
        epoch = log.epoch_at(log.written_leo - 1) if log.written_leo > log.log_start_offset else -1
        return ReplicaReport(topic_partition in store.unclean, epoch, log.written_leo)

    def lose_tail(self, i: int, records: int) -> None:
        """Power failure of a dead broker: its log keeps so many records, and it knows that some may be missing."""
        self.nodes[i].log.truncate_to(records)
        self.nodes[i].store.distrust(TopicPartition(TOPIC, 0), "power failure")

    def _new_isr(self, isr: tuple[int, ...], lossy: bool = False) -> None:
        """Who is eligible beside it, and who is mended by being in it."""
        state = self.state
        self.elr = () if lossy else after_write(state.isr, self.elr, isr, state.replicas, self._min_isr)
        self.state = replace(state, elr_min_isr=self._min_isr if self.elr else 0)

    def _trust_members(self) -> None:
        if self.state.leader != NO_LEADER:
            for member in self.state.isr:
                node = self.nodes[member]
                if node.manager is not None and TopicPartition(TOPIC, 0) in node.store.unclean:
                    node.store.trust_again(TopicPartition(TOPIC, 0))

    def write(self, *, lossy: bool = False, **changes: Any) -> None:
        self._new_isr(changes.get("isr", self.state.isr), lossy)
        self.state = replace(self.state, partition_epoch=self.state.partition_epoch + 1, **changes)
        self._trust_members()
        self.tell_all()

    def tell_all(self) -> None:
        for i in self.ids:
            self.tell(i)

    def tell(self, i: int) -> None:
        """LeaderAndIsr of the present state; waits in the broker's inbox while it is paused."""
        node = self.nodes[i]
        if node.manager is None or node.deaf or i not in self.registered:
            return
        is_new = node.incarnation == 1 and self.state.leader_epoch == 0
        request = self.leader_and_isr(self.state, self.registered[i], is_new)
        node.inbox.append(lambda: self.apply(i, request))

    def apply(self, i: int, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        return self.nodes[i].up.apply_leader_and_isr(request, 6)

    def leader_and_isr(self, state: PartitionState, broker_epoch: int, is_new: bool = False) -> LeaderAndIsrRequest:
        wire = LeaderAndIsrPartitionState(
            0,
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            list(state.isr),
            state.partition_epoch,
            list(state.replicas),
            is_new=is_new,
            elr_min_isr=state.elr_min_isr,
        )
        return LeaderAndIsrRequest(
            9, False, self.controller_epoch, broker_epoch, 0, [LeaderAndIsrTopicState(TOPIC, TOPIC_ID, [wire])], []
        )

    def alter(self, sender: int, proposal: Proposal) -> AlterPartitionAnswer:
        """Compare and set, as the controller does."""
        state = self.state
        if proposal.leader_epoch != state.leader_epoch or sender != state.leader:
            return AlterPartitionAnswer(ErrorCode.FENCED_LEADER_EPOCH)
        if set(proposal.isr) == set(state.isr):
            return AlterPartitionAnswer(0, state.isr, state.partition_epoch, state.leader_epoch, state.elr_min_isr)
        if proposal.partition_epoch != state.partition_epoch:
            return AlterPartitionAnswer(ErrorCode.INVALID_UPDATE_VERSION)
        for broker, epoch in proposal.broker_epochs.items():
            if epoch not in (-1, self.registered.get(broker)):
                return AlterPartitionAnswer(ErrorCode.INELIGIBLE_REPLICA)
        self._new_isr(proposal.isr)
        self.state = state = replace(self.state, isr=proposal.isr, partition_epoch=state.partition_epoch + 1)
        self._trust_members()
        return AlterPartitionAnswer(0, state.isr, state.partition_epoch, state.leader_epoch, state.elr_min_isr)

    # -- time and messages -----------------------------------------------------------------------------------------

    def dispatch(self, node: Node, request: Request) -> None:
        manager = node.up
        handlers = {
            ApiKey.PRODUCE: manager.handle_produce,
            ApiKey.FETCH: manager.handle_fetch,
            ApiKey.LIST_OFFSETS: manager.handle_list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: manager.handle_offset_for_leader_epoch,
            ApiKey.INIT_PRODUCER_ID: manager.handle_init_producer_id,
            ApiKey.DELETE_RECORDS: manager.handle_delete_records,
        }
        handlers[ApiKey(request.api_key)](request)

    def turn(self) -> bool:
        """One turn of every broker that is neither dead nor paused; True when anything happened."""
        busy = False
        for _ in range(len(self.links)):
            message = self.links.popleft()
            if self.hold(message) or (message.target in self.nodes and self.nodes[message.target].paused):
                self.held.append(message)
                continue
            message.deliver()
            busy = True
        for node in self.nodes.values():
            if node.manager is None or node.paused:
                continue
            while node.inbox:
                node.inbox.popleft()()
                busy = True
            busy |= self._disk_is_done(node)
            node.manager.end_of_turn()
            busy |= any(log.commits for log in _in_memory(node)) and node.broker_id not in self.stalled_disks
        return busy or any(not self.nodes[m.target].paused for m in self.links if m.target in self.nodes)

    def _disk_is_done(self, node: Node) -> bool:
        """Flushes that were asked for in an earlier turn end, unless the disk is stalled."""
        if node.broker_id in self.stalled_disks:
            return False
        return any(log.finish_commits() for log in _in_memory(node))

    def settle(self, turns: int = 200) -> None:
        """Turn until nothing moves any more without time."""
        for _ in range(turns):
            if not self.turn():
                return
        raise AssertionError(f"still busy after {turns} turns")

    def release(self, which: Callable[[Held], bool] = lambda message: True) -> None:
        """Put held messages back on their links."""
        back = [message for message in self.held if which(message)]
        self.held = [message for message in self.held if message not in back]
        self.links.extendleft(reversed(back))

    def lose(self) -> None:
        """Held messages never arrive; whoever waits for an answer sees its connection reset."""
        held, self.held = self.held, []
        for message in held:
            message.lose()

    def resume(self, i: int) -> None:
        self.nodes[i].paused = False
        self.release(lambda message: message.target == i)

    def advance(self, ms: float) -> None:
        """Let time pass, turning after every timer."""
        until = self.loop.now + ms
        self.settle()
        while self.loop.run_due(until):
            self.settle()
        self.loop.now = until
        self.settle()

    # -- clients ---------------------------------------------------------------------------------------------------

    def produce(self, i: int, *values: str, acks: int = -1, timeout_ms: int = 30000, **batch: int) -> FakeSlot:
        """One batch to broker i; the answer is in the slot once it comes."""
        records = memoryview(
            bytearray(encode_batch([NewRecord(None, value.encode()) for value in values], timestamps=1, **batch))  # type: ignore[arg-type]
        )
        return self.produce_raw(i, records, acks, timeout_ms)

    def produce_raw(self, i: int, records: memoryview, acks: int = -1, timeout_ms: int = 30000) -> FakeSlot:
        body = produce.encode_request(
            9, produce.ProduceRequest(None, acks, timeout_ms, [produce.ProducePartition(TOPIC, 0, records)])
        )
        return self.ask(i, ApiKey.PRODUCE, 9, body)

    def ask(self, i: int, api: ApiKey, version: int, body: bytes) -> FakeSlot:
        slot = FakeSlot()
        node = self.nodes[i]
        self.dispatch(
            node,
            Request(
                api,
                version,
                7,
                "client",
                memoryview(bytearray(body)),
                slot,
                response_header_version(api, version) == 1,
            ),
        )
        node.up.end_of_turn()
        return slot

    def fetch(
        self,
        i: int,
        offset: int,
        *,
        epoch: int = -1,
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        min_bytes: int = 1,
    ) -> FakeSlot:
        body = fetch.encode_request(
            12,
            fetch.FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                partitions=[fetch.FetchPartition(TOPIC, "", 0, epoch, offset, -1, -1, max_bytes)],
            ),
        )
        return self.ask(i, ApiKey.FETCH, 12, body)

    def list_offsets(
        self, i: int, timestamp: int = -1, replica_id: int = -1, version: int = 7, epoch: int = -1
    ) -> ListOffsetsPartitionResponse:
        body = ListOffsetsRequest(
            replica_id, 0, [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, epoch, timestamp)])]
        ).encode(version)
        slot = self.ask(i, ApiKey.LIST_OFFSETS, version, body)
        assert slot.answer is not None
        header = 4 + response_header_version(ApiKey.LIST_OFFSETS, version)
        return ListOffsetsResponse.decode(version, slot.answer[header:]).topics[0].partitions[0]


def _in_memory(node: Node) -> list[MemoryLog]:
    """Its logs whose disk is fake; a test may put real ones in the store."""
    return [log for log in node.store.logs().values() if isinstance(log, MemoryLog)]


def produced(slot: FakeSlot) -> produce.ProducePartitionResult | None:
    """The result of a `produce`, None while it waits."""
    if slot.answer is None:
        return None
    return produce.decode_response(9, memoryview(slot.answer)[5:]).results[0]


def fetched(slot: FakeSlot) -> fetch.FetchPartitionResult | None:
    """The result of a `fetch`, None while it waits."""
    if slot.answer is None:
        return None
    return fetch.decode_response(12, memoryview(slot.answer)[5:]).results[0]


def values_of(result: fetch.FetchPartitionResult | None) -> list[str]:
    """Record values in a fetch result."""
    assert result is not None
    view = result.records_view
    found: list[str] = []
    position = 0
    while position < len(view):
        header = read_header(view, position)
        for record in decode_records(view[position : position + header.size]):
            assert record.value is not None
            found.append(record.value.decode())
        position += header.size
    return found
