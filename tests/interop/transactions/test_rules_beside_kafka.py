"""Transactions beside Apache Kafka's own broker: the same random requests, the same answers, offsets and states.

Requests go to a broker of each over the wire. Producer ids are paired as both give them out. An answer upon which
clients ask again is asked for again, for markers take their time. What is known to differ is not asked: batches of an
epoch that no producer has, verification of partitions that do not exist.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from broker.core.coordination import OFFSETS_TOPIC
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.headers import decode_response_header, encode_request_header
from broker.wire.isolation import READ_COMMITTED
from broker.wire.messages import add_partitions_to_txn as apt
from broker.wire.messages import create_topics, describe_producers, fetch, list_offsets, produce, txn_offset_commit
from broker.wire.messages import write_txn_markers as wtm
from broker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from broker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from broker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.records import NewRecord, encode_batch
from broker.wire.schema import Message
from tests.support.brokers import running_cluster, wait_until
from tests.support.group_members import fresh
from tests.support.kafka_brokers import kafka_brokers
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.guarantee("transactions")
STEPS = 60
PARTITIONS = 3
TIMEOUT_MS = 60_000
SETTLED_S = 2.0
LATE_S = 30.0
ONE_PARTITION = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "zookeeper.session.timeout.ms": "18000",
}
AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
M = TypeVar("M", bound=Message)
Answer = tuple[object, ...]
"""An error code, and what else was said."""
Producer = tuple[int, int]
"""(number of a producer id, epoch)."""


class Side:
    """A broker, one connection to it, and the producer ids that it gave out."""

    def __init__(self, port: int) -> None:
        self._client = RawClient(port)
        self._ids: list[int] = []

    def exchange(self, api: ApiKey, version: int, body: bytes) -> memoryview:
        frame = encode_request_header(api, version, 1, "client") + body
        self._client.send(struct.pack(">i", len(frame)) + frame)
        answer = memoryview(self._client.receive())
        return answer[decode_response_header(api, version, answer).body_start :]

    def ask(self, request: Message, version: int, response: type[M]) -> M:
        return response.decode(version, self.exchange(request.API, version, request.encode(version)))

    def id_of(self, number: int) -> int:
        """One that nobody has where the number was never given out."""
        return self._ids[number] if 0 <= number < len(self._ids) else -1 if number == -1 else 10**12 + number

    def number_of(self, producer_id: int) -> int:
        if producer_id >= 0 and producer_id not in self._ids:
            self._ids.append(producer_id)
        return -1 if producer_id < 0 else self._ids.index(producer_id)

    def close(self) -> None:
        self._client.close()


class Beside:
    """Two transactional ids and a topic on both sides."""

    def __init__(self, rng: random.Random, sides: tuple[Side, Side]) -> None:
        self.rng = rng
        self.sides = sides
        self.topic, self.group = fresh("t"), fresh("g")
        self.now: dict[str, Producer] = {}
        """The newest producer of each transactional id."""
        self.sequences: dict[tuple[Producer, int], int] = {}
        self.sent: list[tuple[Producer, int, int, int]] = []
        """(producer, partition, sequence, count) of batches that are in the log."""
        self.compared = 0
        self.timestamp = int(time.time() * 1000)
        for side in sides:
            self._make_topic(side)
        for name in (fresh("x"), fresh("y")):
            self.init(name, 1, (-1, -1), TIMEOUT_MS)

    def _make_topic(self, side: Side) -> None:
        wanted = create_topics.CreatableTopic(self.topic, PARTITIONS, 1, [], [])
        side.ask(create_topics.CreateTopicsRequest([wanted], 10_000), 5, create_topics.CreateTopicsResponse)
        wait_until(
            lambda: all(self._offset(side, index, 0, -1)[0] == 0 for index in range(PARTITIONS)), "the topic is there"
        )

    def compare(self, what: str, step: Callable[[Side], Answer]) -> Answer:
        steps = [partial(step, side) for side in self.sides]
        theirs, ours = (_settled(each, SETTLED_S) for each in steps)
        if theirs != ours:
            # Markers of one side may take longer than those of the other.
            theirs, ours = (
                _settled(each, LATE_S) if answer[0] in AGAIN else answer
                for each, answer in zip(steps, (theirs, ours), strict=True)
            )
        assert theirs == ours, f"{what}: Kafka says {theirs}, we say {ours}"
        self.compared += 1
        return ours

    # -- requests --------------------------------------------------------------------------------------------------

    def any_name(self) -> str:
        return self.rng.choice(list(self.now))

    def any_producer(self, name: str) -> Producer:
        """Mostly the id's own; else one of before, another's, or one that nobody has."""
        number, epoch = self.now[name]
        kind = self.rng.random()
        if kind < 0.8:
            return number, epoch
        if kind < 0.9:
            return number, max(0, epoch - 1)
        return self.rng.choice((*self.now.values(), (97, 0)))

    def any_init(self) -> None:
        name, version = self.any_name(), self.rng.randrange(5)
        claim: Producer = (-1, -1)
        if version >= 3 and self.rng.random() < 0.6:
            claim = self.any_producer(name)
            if self.rng.random() < 0.1:
                claim = self.rng.choice(((-1, claim[1]), (claim[0], -1)))
        timeout_ms = self.rng.choice((TIMEOUT_MS, TIMEOUT_MS, TIMEOUT_MS, 0, -1, 900_001))
        self.init(name, version, claim, timeout_ms)

    def init(self, name: str, version: int, claim: Producer, timeout_ms: int) -> None:
        def step(side: Side) -> Answer:
            request = InitProducerIdRequest(name, timeout_ms, side.id_of(claim[0]), claim[1])
            found = side.ask(request, version, InitProducerIdResponse)
            return found.error_code, side.number_of(found.producer_id), found.producer_epoch

        error, number, epoch = self.compare(f"InitProducerId {version} of {claim}, {timeout_ms} ms", step)
        if not error:
            assert isinstance(number, int)
            assert isinstance(epoch, int)
            self.now[name] = (number, epoch)

    def add(self) -> None:
        name, version = self.any_name(), self.rng.randrange(5)
        number, epoch = self.any_producer(name)
        topics = {self.topic: self.rng.sample(range(PARTITIONS), self.rng.randint(1, PARTITIONS))}
        if version < 4:
            topics.update(self.rng.choice(({}, {}, {}, {OFFSETS_TOPIC: [0]}, {"no-topic": [0]}, {self.topic: [0, 9]})))
        asked = self.rng.choice((name, name, name, name, "", "nobody"))

        def step(side: Side) -> Answer:
            listed = [apt.AddPartitionsToTxnTopic(topic, partitions) for topic, partitions in topics.items()]
            producer_id = side.id_of(number)
            verification = apt.AddPartitionsToTxnTransaction(asked, producer_id, epoch, True, listed)
            request = (
                apt.AddPartitionsToTxnRequest([verification])
                if version >= 4
                else apt.AddPartitionsToTxnRequest([], asked, producer_id, epoch, listed)
            )
            found = side.ask(request, version, apt.AddPartitionsToTxnResponse)
            results = found.results_by_topic_v3_and_below
            if version >= 4:
                results = found.results_by_transaction[0].topic_results
            codes = sorted(
                (t.name, p.partition_index, p.partition_error_code) for t in results for p in t.results_by_partition
            )
            return max(code for _, _, code in codes), codes

        self.compare(f"AddPartitionsToTxn {version} of {(number, epoch)} for {asked!r}, {topics}", step)

    def add_offsets(self) -> None:
        name, version = self.any_name(), self.rng.randrange(4)
        number, epoch = self.any_producer(name)

        def step(side: Side) -> Answer:
            request = AddOffsetsToTxnRequest(name, side.id_of(number), epoch, self.group)
            return (side.ask(request, version, AddOffsetsToTxnResponse).error_code,)

        self.compare(f"AddOffsetsToTxn {version} of {(number, epoch)}", step)

    def commit_offsets(self) -> None:
        name, version = self.any_name(), self.rng.randrange(4)
        number, epoch = self.any_producer(name)
        group = self.rng.choice((self.group, self.group, self.group, ""))
        topic = self.rng.choice((self.topic, self.topic, self.topic, "no-topic"))
        generation = self.rng.choice((-1, -1, 3)) if version >= 3 else -1

        def step(side: Side) -> Answer:
            offset = txn_offset_commit.TxnOffsetCommitRequestPartition(0, 5, -1, "")
            topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(topic, [offset])]
            request = txn_offset_commit.TxnOffsetCommitRequest(
                name, group, side.id_of(number), epoch, generation, topics=topics
            )
            found = side.ask(request, version, txn_offset_commit.TxnOffsetCommitResponse)
            return (found.topics[0].partitions[0].error_code,)

        self.compare(f"TxnOffsetCommit {version} of {(number, epoch)}: {group!r}, {topic}, {generation}", step)

    def produce(self) -> None:
        name, index, count = self.any_name(), self.rng.randrange(PARTITIONS), self.rng.choice((1, 1, 2, 5))
        producer = self.any_producer(name)
        sequence = self.sequences.get((producer, index), 0)
        kind = self.rng.random()
        if kind < 0.1 and self.sent:
            producer, index, sequence, count = self.rng.choice(self.sent[-12:])
        elif kind < 0.2:
            sequence = max(0, sequence + self.rng.choice((-1, 1, 3)))
        transactional_id = self.rng.choice((*(name,) * 12, None, "nobody"))

        def step(side: Side) -> Answer:
            batch = encode_batch(
                [NewRecord(b"k", b"v")] * count,
                timestamps=self.timestamp,
                producer_id=side.id_of(producer[0]),
                producer_epoch=producer[1],
                base_sequence=sequence,
                transactional=True,
            )
            part = produce.ProducePartition(self.topic, index, memoryview(bytearray(batch)))
            body = produce.encode_request(9, produce.ProduceRequest(transactional_id, -1, 30_000, [part]))
            (found,) = produce.decode_response(9, side.exchange(ApiKey.PRODUCE, 9, body)).results
            return found.error, found.base_offset

        what = f"Produce of {producer} for {transactional_id!r}: {count} from {sequence} in partition {index}"
        if not self.compare(what, step)[0]:
            self.sent.append((producer, index, sequence, count))
            self.sequences[producer, index] = sequence + count

    def end(self) -> None:
        name, version = self.any_name(), self.rng.randrange(4)
        number, epoch = self.any_producer(name)
        committed = self.rng.random() < 0.5
        asked = self.rng.choice((name, name, name, name, "", "nobody"))

        def step(side: Side) -> Answer:
            request = EndTxnRequest(asked, side.id_of(number), epoch, committed)
            return (side.ask(request, version, EndTxnResponse).error_code,)

        self.compare(f"EndTxn {version} of {(number, epoch)} for {asked!r}, committed {committed}", step)

    def mark(self) -> None:
        """A marker that no coordinator sends: of an older epoch, a later coordinator, for no partition."""
        number, epoch = self.any_producer(self.any_name())
        index, coordinator_epoch = self.rng.choice((0, 1, 2, 9)), self.rng.choice((0,) * 8 + (-1, 1))
        committed = self.rng.random() < 0.5

        def step(side: Side) -> Answer:
            topics = [wtm.WritableTxnMarkerTopic(self.topic, [index])]
            marker = wtm.WritableTxnMarker(side.id_of(number), epoch, committed, topics, coordinator_epoch)
            found = side.ask(wtm.WriteTxnMarkersRequest([marker]), 1, wtm.WriteTxnMarkersResponse)
            return (found.markers[0].topics[0].partitions[0].error_code,)

        self.compare(f"WriteTxnMarkers of {(number, epoch)}, {coordinator_epoch}, committed {committed}", step)

    # -- what comes of them ----------------------------------------------------------------------------------------

    def look(self) -> None:
        self.compare("DescribeTransactions", self._transactions)
        for index in range(PARTITIONS):
            self.compare(f"what partition {index} shows", lambda side, index=index: self._shown(side, index))  # type: ignore[misc]

    def _transactions(self, side: Side) -> Answer:
        request = DescribeTransactionsRequest(list(self.now))
        found = side.ask(request, 0, DescribeTransactionsResponse).transaction_states
        if any(one.transaction_state.startswith("Prepare") for one in found):
            return (ErrorCode.CONCURRENT_TRANSACTIONS,)
        return ErrorCode.NONE, [
            (
                one.error_code,
                one.transaction_state,
                one.transaction_timeout_ms,
                one.transaction_start_time_ms >= 0,
                (side.number_of(one.producer_id), one.producer_epoch),
                sorted((topic.topic, sorted(topic.partitions)) for topic in one.topics),
            )
            for one in sorted(found, key=lambda one: one.transactional_id)
        ]

    def _shown(self, side: Side, index: int) -> Answer:
        shown: list[object] = []
        for isolation in (0, READ_COMMITTED):
            part = fetch.FetchPartition(self.topic, partition=index, fetch_offset=0)
            asked = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=isolation, partitions=[part])
            body = side.exchange(ApiKey.FETCH, 12, fetch.encode_request(12, asked))
            (found,) = fetch.decode_response(12, body).results
            # Kafka tells of those up to the next entry of its offset index, be they behind all that it sends.
            sent = [one for one in found.aborted or () if one.first_offset < found.last_stable_offset]
            aborted = sorted((side.number_of(one.producer_id), one.first_offset) for one in sent)
            shown.append((found.error, found.high_watermark, found.last_stable_offset, aborted))
            shown += [self._offset(side, index, isolation, timestamp) for timestamp in (-1, -2, self.timestamp)]
        request = describe_producers.DescribeProducersRequest([describe_producers.TopicRequest(self.topic, [index])])
        (topic,) = side.ask(request, 0, describe_producers.DescribeProducersResponse).topics
        producers = [
            (
                side.number_of(one.producer_id),
                one.producer_epoch,
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in topic.partitions[0].active_producers
        ]
        return ErrorCode.NONE, shown, sorted(producers)

    def _offset(self, side: Side, index: int, isolation: int, timestamp: int) -> Answer:
        topics = [list_offsets.ListOffsetsTopic(self.topic, [list_offsets.ListOffsetsPartition(index, -1, timestamp)])]
        request = list_offsets.ListOffsetsRequest(-1, isolation, topics)
        found = side.ask(request, 7, list_offsets.ListOffsetsResponse).topics[0].partitions[0]
        return found.error_code, found.offset, found.leader_epoch

    def step(self) -> None:
        actions = (
            (self.any_init, 3.0),
            (self.add, 8.0),
            (self.add_offsets, 2.0),
            (self.commit_offsets, 3.0),
            (self.produce, 14.0),
            (self.end, 5.0),
            (self.mark, 0.5),
        )
        self.rng.choices([each for each, _ in actions], [weight for _, weight in actions])[0]()
        self.look()


def _settled(step: Callable[[], Answer], limit_s: float) -> Answer:
    """An answer upon which nobody asks again, or the last one where that does not come."""
    deadline = time.monotonic() + limit_s
    while (answer := step())[0] in AGAIN and time.monotonic() < deadline:
        time.sleep(0.01)
    return answer


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Kafka's and ours, whose coordinators serve."""
    with (
        kafka_brokers(Path(tmp_path_factory.mktemp("kafka")), 1) as (_, (kafka,)),
        running_cluster(Path(tmp_path_factory.mktemp("ours")), 1, ONE_PARTITION) as ours,
    ):
        both = Side(kafka.port), Side(ours.running[1].port)
        for side in both:
            wait_until(lambda side=side: _serves(side), "both coordinators", 60)  # type: ignore[misc]
        yield both
        for side in both:
            side.close()


def _serves(side: Side) -> bool:
    for key_type in (0, 1):
        where = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["warm"])
        (found,) = side.ask(where, 4, FindCoordinatorResponse).coordinators
        if found.error_code:
            return False
    return not side.ask(InitProducerIdRequest("warm", TIMEOUT_MS), 1, InitProducerIdResponse).error_code


@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(3, 30), marks=pytest.mark.nightly)], ids=["few", "many"]
)
@pytest.mark.timeout(900)
def test_random_requests_get_the_answers_that_kafka_gives(sides: tuple[Side, Side], seeds: range) -> None:
    appended = 0
    for seed in seeds:
        beside = Beside(random.Random(seed), sides)
        try:
            for _ in range(STEPS):
                beside.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, after {beside.compared} answers: {error}") from error
        appended += len(beside.sent)
    assert appended > len(seeds)
