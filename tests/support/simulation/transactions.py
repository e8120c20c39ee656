"""Transactional producers in the simulation, which commit a group's offset with their records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from broker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from broker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from broker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from broker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from broker.wire.records import NewRecord, encode_batch
from broker.wire.schema import Message
from tests.support.simulation.clients import Client

if TYPE_CHECKING:
    from tests.support.simulation.cluster import Cluster

E = ErrorCode
TOPIC: Final = "tx"
_VERSION: Final = 3
_FIND_VERSION: Final = 4
_OFFSET_FETCH_VERSION: Final = 8
_PRODUCE_VERSION: Final = 9
_TIMEOUT_MS: Final = 3000.0
_BACKOFF_MS: Final = 100.0
_TRANSACTION_TIMEOUT_MS: Final = 8000
_GROUP_KEY, _TRANSACTION_KEY = 0, 1
_LOST: Final = E.REQUEST_TIMED_OUT
_RETRIABLE: Final = frozenset(
    {
        E.CONCURRENT_TRANSACTIONS,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.NOT_LEADER_OR_FOLLOWER,
        E.REQUEST_TIMED_OUT,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.KAFKA_STORAGE_ERROR,
        E.UNSTABLE_OFFSET_COMMIT,
    }
)
_OF_ABORTS: Final = frozenset({E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE, E.OUT_OF_ORDER_SEQUENCE_NUMBER})
_FENCED: Final = frozenset({E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_ID_MAPPING})

Answer = Callable[[ErrorCode], None]
Call = Callable[[Answer], None]
Life = Generator[Call, ErrorCode, ErrorCode]


class Told:
    """What producers were told: by transaction (name, number) its end, and what was acknowledged of it."""

    def __init__(self) -> None:
        self.decided: dict[tuple[str, int], bool] = {}
        self.acknowledged: dict[tuple[str, int], set[tuple[int, str]]] = defaultdict(set)
        """(partition, value)."""
        self.offsets: set[tuple[str, int]] = set()
        """Transactions of which an offset was acknowledged."""
        self.serials: Counter[str] = Counter()
        """How many each transactional id has begun."""


class TransactionalProducer(Client):
    """One transactional id, and a group of that name whose one offset is the number of the last transaction. Others may
    have that id as well: they fence each other, time and again.
    """

    def __init__(self, cluster: Cluster, name: str, told: Told) -> None:
        super().__init__(cluster, name)
        self.told = told
        self.over = False
        """It begins no more transactions."""
        self.idle = False
        self.group_offset = -1
        self.name = name
        self._producer = (-1, -1)
        self._coordinators: dict[int, int] = {}
        self._begin()

    def _begin(self) -> None:
        """Another process with this id: what the one before has sent may still be under way."""
        self._life = self._live()
        self._go_on(self._life, None)

    def _go_on(self, life: Life, answer: ErrorCode | None) -> None:
        if life is not self._life:
            return
        rng = self.cluster.scheduler.rng
        if not self.over and answer is not None and rng.random() < 0.01:
            self.cluster.scheduler.note(f"{self.name}: is replaced")
            self.later(rng.uniform(0, 300), self._begin)
            self._life = self._live()
            return
        try:
            call = next(life) if answer is None else life.send(answer)
        except StopIteration:
            self.later(_BACKOFF_MS, self._begin)
            return
        answered = False

        def take(error: ErrorCode) -> None:
            nonlocal answered
            if not answered:
                answered = True
                delay_ms = _BACKOFF_MS if error in _RETRIABLE else rng.uniform(0, 20)
                self.later(delay_ms, lambda: self._go_on(life, error))

        call(take)

    # What it does

    def _live(self) -> Life:
        rng, told = self.cluster.scheduler.rng, self.told
        if error := (yield from self._repeat(self._init)):
            return error
        sequences: dict[int, int] = defaultdict(int)
        while True:
            self.idle = self.over
            while self.over:
                yield self._pause
            told.serials[self.name] += 1
            serial = told.serials[self.name]
            which = (self.name, serial)
            sound = True
            partitions = sorted(index for topic, index in self.leaders if topic == TOPIC)
            for partition in rng.sample(partitions, rng.randint(0, len(partitions))):
                if error := (yield from self._repeat(partial(self._add, partition))):
                    return error
                for number in range(rng.randint(0, 2)):
                    value = f"{self.name}.{serial}.{number}"
                    append = partial(self._produce, partition, sequences[partition], value)
                    error = yield from self._repeat(append)
                    if error in _OF_ABORTS:
                        sound = False
                        break
                    if error:
                        return error
                    sequences[partition] += 1
                    told.acknowledged[which].add((partition, value))
            if sound and rng.random() < 0.6:
                if error := (yield from self._repeat(self._add_offsets)):
                    return error
                error = yield from self._repeat(partial(self._commit_offset, serial))
                sound = error is E.NONE
                if sound:
                    told.offsets.add(which)
            commit = sound and rng.random() < 0.8
            error = yield from self._repeat(partial(self._end, commit))
            if error and error is not E.INVALID_TXN_STATE:
                return error
            if not error:
                told.decided[which] = commit
                self.cluster.scheduler.note(f"{self.name}: transaction {serial}, committed: {commit}")
            if not sound:
                return E.NONE  # its sequences may not fit any more
            yield self._pause

    def _repeat(self, call: Call) -> Life:
        while True:
            error = yield call
            if error not in _RETRIABLE:
                return error

    def _pause(self, answer: Answer) -> None:
        self.later(self.cluster.scheduler.rng.uniform(10, 400), lambda: self.refresh(lambda: answer(E.NONE)))

    # Requests

    def _ask(
        self, kind: int, request: Message, version: int, read: Callable[[memoryview], ErrorCode], answer: Answer
    ) -> None:
        """Of a coordinator, once it is known which broker that is."""
        broker = self._coordinators.get(kind)

        def taken(error: ErrorCode) -> None:
            if error in _RETRIABLE and error is not E.CONCURRENT_TRANSACTIONS:
                self._coordinators.pop(kind, None)
            answer(error)

        if broker is None:
            self._find(kind, answer)
            return
        self.peer(broker).send(
            request.API,
            version,
            request.encode(version),
            lambda view: taken(read(view)),
            lambda _: taken(_LOST),
            3000.0,
        )

    def _find(self, kind: int, answer: Answer) -> None:
        def told(view: memoryview) -> None:
            [found] = FindCoordinatorResponse.decode(_FIND_VERSION, view).coordinators
            if found.error_code == E.NONE:
                self._coordinators[kind] = found.node_id
            answer(_LOST)

        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[self.name])
        broker = self.cluster.scheduler.rng.choice(self.cluster.ids)
        body = request.encode(_FIND_VERSION)
        self.peer(broker).send(request.API, _FIND_VERSION, body, told, lambda _: answer(_LOST), _TIMEOUT_MS)

    def _init(self, answer: Answer) -> None:
        def read(view: memoryview) -> ErrorCode:
            response = InitProducerIdResponse.decode(4, view)
            self._producer = response.producer_id, response.producer_epoch
            return ErrorCode(response.error_code)

        self._ask(_TRANSACTION_KEY, InitProducerIdRequest(self.name, _TRANSACTION_TIMEOUT_MS), 4, read, answer)

    def _add(self, partition: int, answer: Answer) -> None:
        def read(view: memoryview) -> ErrorCode:
            [topic] = AddPartitionsToTxnResponse.decode(_VERSION, view).results_by_topic_v3_and_below
            return ErrorCode(topic.results_by_partition[0].partition_error_code)

        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [partition])],
        )
        self._ask(_TRANSACTION_KEY, request, _VERSION, read, answer)

    def _produce(self, partition: int, sequence: int, value: str, answer: Answer) -> None:
        leader, _ = self.leaders.get((TOPIC, partition), (-1, -1))
        if leader < 0:
            self.refresh(lambda: answer(_LOST))
            return
        batch = encode_batch(
            [NewRecord(None, value.encode())],
            timestamps=1,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        parts = [produce.ProducePartition(TOPIC, partition, memoryview(bytearray(batch)))]
        body = produce.encode_request(_PRODUCE_VERSION, produce.ProduceRequest(self.name, -1, int(_TIMEOUT_MS), parts))

        def told(view: memoryview) -> None:
            error = ErrorCode(produce.decode_response(_PRODUCE_VERSION, view).results[0].error)
            if error in _RETRIABLE:
                self.refresh(lambda: answer(error))
            else:
                answer(E.NONE if error is E.DUPLICATE_SEQUENCE_NUMBER else error)

        lost = lambda _: self.refresh(lambda: answer(_LOST))  # noqa: E731
        self.peer(leader).send(ApiKey.PRODUCE, _PRODUCE_VERSION, body, told, lost, _TIMEOUT_MS)

    def _add_offsets(self, answer: Answer) -> None:
        request = AddOffsetsToTxnRequest(self.name, *self._producer, self.name)
        self._ask(
            _TRANSACTION_KEY,
            request,
            _VERSION,
            lambda view: ErrorCode(AddOffsetsToTxnResponse.decode(_VERSION, view).error_code),
            answer,
        )

    def _commit_offset(self, offset: int, answer: Answer) -> None:
        def read(view: memoryview) -> ErrorCode:
            [topic] = TxnOffsetCommitResponse.decode(_VERSION, view).topics
            return ErrorCode(topic.partitions[0].error_code)

        topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, offset)])]
        request = TxnOffsetCommitRequest(self.name, self.name, *self._producer, topics=topics)
        self._ask(_GROUP_KEY, request, _VERSION, read, answer)

    def _end(self, commit: bool, answer: Answer) -> None:
        request = EndTxnRequest(self.name, *self._producer, commit)
        self._ask(
            _TRANSACTION_KEY,
            request,
            _VERSION,
            lambda view: ErrorCode(EndTxnResponse.decode(_VERSION, view).error_code),
            answer,
        )

    def fetch_offset(self) -> None:
        """Until there is a stable answer, which is in `group_offset` then."""

        def read(view: memoryview) -> ErrorCode:
            [group] = OffsetFetchResponse.decode(_OFFSET_FETCH_VERSION, view).groups
            if group.error_code:
                return ErrorCode(group.error_code)
            part = group.topics[0].partitions[0]
            if not part.error_code:
                self.group_offset = part.committed_offset
            return ErrorCode(part.error_code)

        def taken(error: ErrorCode) -> None:
            if error:
                self.later(_BACKOFF_MS, self.fetch_offset)

        groups = [OffsetFetchRequestGroup(self.name, topics=[OffsetFetchRequestTopics(TOPIC, [0])])]
        request = OffsetFetchRequest(groups=groups, require_stable=True)
        self._ask(_GROUP_KEY, request, _OFFSET_FETCH_VERSION, read, taken)
