"""Producers, consumers and an administrator, as plain as can be: what they are told goes to the observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode, error_name
from broker.wire.messages import fetch, produce
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.messages.metadata import MetadataRequest, MetadataResponse
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, decode_records, encode_batch
from broker.wire.schema import Message
from tests.support.simulation.fibers import Process
from tests.support.simulation.loop import SimulatedLoop
from tests.support.simulation.peer import SimulatedPeer

if TYPE_CHECKING:
    from tests.support.simulation.cluster import Cluster

_PRODUCE_VERSION = 9
_FETCH_VERSION = 13
_METADATA_VERSION = 12
_TIMEOUT_MS = 3000.0
_BACKOFF_MS = 150.0
_WAIT_MS = 400
_TRIES = 60
_KEEPS = 0.4
_NEVER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)
_INIT_VERSION = 4


class Client:
    """Connections of its own to all brokers, and what they say of the cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.process = Process(cluster.scheduler, name)
        self.loop = SimulatedLoop(self.process)
        self.loop.run()
        self.leaders: dict[tuple[str, int], tuple[int, int]] = {}
        """(leader, leader epoch) by topic and partition."""
        self.ids: dict[str, str] = {}
        self._newest: dict[tuple[str, int], tuple[int, int]] = {}
        """Leaders of the newest epoch that was heard of, by topic id and partition."""
        self.controller = -1
        self._peers: dict[int, SimulatedPeer] = {}

    def peer(self, broker: int) -> SimulatedPeer:
        if broker not in self._peers:
            self._peers[broker] = self.cluster.connect(self.loop, f"b{broker}", self.process.name)
        return self._peers[broker]

    def later(self, ms: float, call: Callable[[], None]) -> None:
        self.process.call(ms, call)

    def refresh(self, then: Callable[[], None] = lambda: None) -> None:
        """Ask some broker what there is; `then` is called whether or not it says."""
        rng = self.cluster.scheduler.rng
        broker = rng.choice(self.cluster.ids)

        def told(view: memoryview) -> None:
            self._learn(MetadataResponse.decode(_METADATA_VERSION, view))
            then()

        self.peer(broker).send(
            ApiKey.METADATA,
            _METADATA_VERSION,
            MetadataRequest(topics=None, allow_auto_topic_creation=False).encode(_METADATA_VERSION),
            told,
            lambda _: self.later(_BACKOFF_MS, then),
            _TIMEOUT_MS,
        )

    def _learn(self, response: MetadataResponse) -> None:
        """A broker that was away tells of leaders long deposed: as Kafka's clients, never back to an older epoch."""
        self.controller = response.controller_id
        self.ids = {topic.name or "": topic.topic_id for topic in response.topics if topic.error_code == 0}
        self.leaders = {}
        for topic in response.topics:
            for part in topic.partitions:
                told = (part.leader_id, part.leader_epoch)
                known = self._newest.setdefault((topic.topic_id, part.partition_index), told)
                newest = self._newest[topic.topic_id, part.partition_index] = known if known[1] > told[1] else told
                self.leaders[topic.name or "", part.partition_index] = newest


class Producer(Client):
    """Batches of one record, each tried once; its outcome may stay unknown."""

    sent = 0

    def send(self, topic: str, partition: int, acks: int) -> None:
        if self.leaders.get((topic, partition), (-1, -1))[0] < 0:
            self.refresh()
            return
        value = self.next_value()
        batch = encode_batch([NewRecord(None, value.encode())], timestamps=1)
        self.attempt(topic, partition, acks, value, batch, lambda error: self.refresh() if error else None)

    def next_value(self) -> str:
        self.sent += 1
        return f"{self.process.name}.{self.sent}"

    def attempt(
        self, topic: str, partition: int, acks: int, value: str, batch: bytes, then: Callable[[int], None]
    ) -> None:
        """One request; then(error code) follows, −1 where there was no response."""
        leader, _ = self.leaders[topic, partition]
        body = produce.encode_request(
            _PRODUCE_VERSION,
            produce.ProduceRequest(
                None, acks, int(_TIMEOUT_MS), [produce.ProducePartition(topic, partition, memoryview(batch))]
            ),
        )

        def told(view: memoryview) -> None:
            result = produce.decode_response(_PRODUCE_VERSION, view).results[0]
            outcome = result.base_offset if result.error == 0 else error_name(result.error)
            self.cluster.scheduler.note(f"{value}: acks={acks} to {topic}-{partition} at b{leader}: {outcome}")
            if result.error == ErrorCode.NONE and acks == -1:
                self.cluster.observer.on_acknowledged(topic, partition, result.base_offset, value)
            then(result.error)

        self.peer(leader).send(ApiKey.PRODUCE, _PRODUCE_VERSION, body, told, lambda _: then(-1), _TIMEOUT_MS)


class IdempotentProducer(Producer):
    """One batch at a time for each partition, sent again until it is acknowledged: it must be there once."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        self._producer_id = -1
        self._sequences: dict[tuple[str, int], int] = {}
        self._ids: dict[str, str] = {}
        """By topic the id of the one for which the sequences count."""
        self._busy: set[tuple[str, int]] = set()

    def send(self, topic: str, partition: int, acks: int) -> None:
        key = (topic, partition)
        if self._producer_id < 0:
            self._ask_for_id()
        elif topic not in self.ids:
            self.refresh()
        elif key not in self._busy and self._ids.setdefault(topic, self.ids[topic]) == self.ids[topic]:
            self._busy.add(key)
            value = self.next_value()
            batch = encode_batch(
                [NewRecord(None, value.encode())],
                timestamps=1,
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=self._sequences.setdefault(key, 0),
            )
            self._try(key, value, batch, _TRIES)

    def _ask_for_id(self) -> None:
        def told(view: memoryview) -> None:
            response = InitProducerIdResponse.decode(_INIT_VERSION, view)
            if response.error_code == ErrorCode.NONE and self._producer_id < 0:
                self._producer_id = response.producer_id

        body = InitProducerIdRequest(None, 1000).encode(_INIT_VERSION)
        broker = self.cluster.scheduler.rng.choice(self.cluster.ids)
        self.peer(broker).send(ApiKey.INIT_PRODUCER_ID, _INIT_VERSION, body, told, lambda _: None, _TIMEOUT_MS)
        self.refresh()

    def _try(self, key: tuple[str, int], value: str, batch: bytes, left: int) -> None:
        topic, partition = key

        def told(error: int) -> None:
            if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._sequences[key] += 1
                self._busy.discard(key)
                return
            if error in _NEVER and not self.cluster.observer.is_ending(topic, self._ids[topic]):
                self.cluster.observer.fail(f"{topic}-{partition}: {value}, the next in order, got {error_name(error)}")
            if left:
                self.later(_BACKOFF_MS, lambda: self.refresh(again))

        def again() -> None:
            # Of a topic that was made anew there is nothing to go on with.
            if self.ids.get(topic) in (None, self._ids[topic]):
                self._try(key, value, batch, left - 1)

        if self.leaders.get(key, (-1, -1))[0] < 0:
            told(-1)
        else:
            self.attempt(topic, partition, -1, value, batch, told)


class Consumer(Client):
    """Reads one partition from its first offset on, whichever topic has the name."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        super().__init__(cluster, f"r-{topic}-{partition}")
        self._topic = topic
        self._partition = partition
        self._id = ""
        self.position = 0
        self.refresh(self._next)

    def _again(self) -> None:
        """With what it knows, or with what some broker says."""
        keeps = self.cluster.scheduler.rng.random() < _KEEPS
        self.later(_BACKOFF_MS, self._next if keeps else lambda: self.refresh(self._next))

    def _next(self) -> None:
        leader, epoch = self.leaders.get((self._topic, self._partition), (-1, -1))
        topic_id = self.ids.get(self._topic, "")
        if leader < 0 or not topic_id:
            self._again()
            return
        if topic_id != self._id:
            self._id, self.position = topic_id, 0
        position = self.position
        part = fetch.FetchPartition(self._topic, topic_id, self._partition, epoch, position, -1, -1, 1 << 16)
        body = fetch.encode_request(_FETCH_VERSION, fetch.FetchRequest(max_wait_ms=_WAIT_MS, partitions=[part]))
        self.peer(leader).send(
            ApiKey.FETCH,
            _FETCH_VERSION,
            body,
            lambda view: self._told(topic_id, position, leader, epoch, view),
            lambda _: self._again(),
            _TIMEOUT_MS,
        )

    def _told(self, topic_id: str, position: int, leader: int, epoch: int, view: memoryview) -> None:
        response = fetch.decode_response(_FETCH_VERSION, view)
        if response.error or not response.results or response.results[0].error:
            error = response.error or (response.results[0].error if response.results else 0)
            if error == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.cluster.observer.fail(
                    f"{self._topic}~{topic_id}-{self._partition}: {position} was shown, and is out of range at "
                    f"b{leader}, epoch {epoch}"
                )
            self._again()
            return
        result = response.results[0]
        name = f"{self._topic}~{topic_id}-{self._partition}"
        self.cluster.observer.on_served(name, leader, epoch, result.high_watermark)
        records, at = result.records_view, 0
        while at < len(records):
            header = read_header(records, at)
            for index, record in enumerate(decode_records(records[at : at + header.size])):
                offset = header.base_offset + index
                if offset >= self.position:
                    assert record.value is not None
                    self.cluster.observer.on_shown(name, offset, record.value.decode(), result.high_watermark)
                    self.position = offset + 1
            at += header.size
        self._next()


class Administrator(Client):
    """One request each, to whom it takes for the controller; an answer is noted, and no more."""

    waiting = 0
    """Requests without an answer: what they ask for may still happen."""

    def ask(self, request: Message, version: int, answer: type[Message]) -> None:
        self.waiting += 1

        def done(text: str) -> None:
            self.waiting -= 1
            self.cluster.scheduler.note(f"admin: {text}")

        def send() -> None:
            if self.controller < 0:
                done("knows no controller")
                return
            self.peer(self.controller).send(
                request.API,
                version,
                request.encode(version),
                lambda view: done(str(answer.decode(version, view))[:400]),
                lambda reason: done(f"{type(request).__name__}: {reason}"),
                _TIMEOUT_MS * 2,
            )

        self.refresh(send)
