"""A coordinator of transactions over appends that a test settles, with markers that it writes when told."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from broker.config.settings import Settings
from broker.core.transaction.metadata import TransactionMetadata
from broker.core.transaction.producer_ids import Claimed
from broker.core.transaction.states import TransactionState
from broker.model.ids import TopicPartition
from broker.runtime.transaction.coordinator import TransactionCoordinator
from broker.runtime.transaction.state import TransactionPartition
from broker.wire.coordinator_records.scan import read_batch
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import read_header
from broker.wire.records import encode_batch
from tests.support.fake_loop import FakeLoop
from tests.support.transaction_parts import STATE_0, FakeAppends, FakeCluster
from tests.support.transactional_ids import P0

TIMEOUT_MS = 60_000


class HeldMarkers:
    """Markers that are written when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[TransactionMetadata, Callable[[], None]]] = []

    def send(self, home: TransactionPartition, transaction: TransactionMetadata, done: Callable[[], None]) -> None:
        self.jobs.append((transaction, done))

    def write(self) -> None:
        """All of the oldest."""
        transaction, done = self.jobs.pop(0)
        for partition in list(transaction.partitions):
            transaction.marker_written(partition)
        done()


class Ids:
    def __init__(self) -> None:
        self.next_id = 100

    def next_producer_id(self, on_id: Callable[[int], None], on_failure: Callable[[str], None]) -> None:
        self.next_id += 1
        on_id(self.next_id)


class Coordinating:
    """Broker 1, coordinator of the only partition of `__transaction_state`."""

    def __init__(self, stored: FakeAppends | None = None) -> None:
        self.loop = FakeLoop()
        self.wall_ms = 1_000_000
        self.appends = FakeAppends()
        self.markers = HeldMarkers()
        self.cluster = FakeCluster({STATE_0: 1, P0: 2})
        settings = Settings.parse({"zookeeper.connect": "zk:2181", "transactional.id.expiration.ms": "500000"})
        self.coordinator = TransactionCoordinator(
            settings.transactions,
            None,  # type: ignore[arg-type]
            self.cluster,
            self.appends,  # type: ignore[arg-type]
            Ids(),
            self.loop,
            lambda: self.wall_ms,
        )
        self.coordinator.markers = self.markers  # type: ignore[assignment]
        self.home = TransactionPartition(0, self.coordinator._on_loaded)
        self.found: TransactionPartition | ErrorCode = self.home
        self.coordinator.partitions.find = lambda partition: self.found  # type: ignore[method-assign]
        self.coordinator.partitions.ready = lambda: iter([(0, self.home)])  # type: ignore[method-assign]
        if stored is not None and stored.stored:
            batch = memoryview(bytearray(encode_batch(stored.stored, timestamps=1)))
            self.home.take(read_batch(read_header(batch), batch))
        while not self.home.bring_up():
            pass
        self.home.loaded()

    def successor(self) -> Coordinating:
        """Another broker that loads what this one stored."""
        self.home.unload()
        return Coordinating(self.appends)

    def init(self, claim: Claimed | None = None, timeout_ms: int = TIMEOUT_MS, id_: str = "tx") -> list[object]:
        """(error, producer id, epoch), once it is there."""
        answers: list[object] = []
        self.coordinator.init_producer(id_, timeout_ms, claim, lambda *answer: answers.append(answer))
        return answers

    def started(self) -> tuple[int, int]:
        """A producer that has its id and epoch."""
        answers = self.init()
        self.appends.settle()
        (answer,) = answers
        assert isinstance(answer, tuple)
        assert answer[0] is ErrorCode.NONE
        return answer[1], answer[2]

    def add(self, producer: tuple[int, int], *partitions: TopicPartition) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        self.coordinator.add_partitions("tx", *producer, partitions, answers.append)
        return answers

    def end(self, producer: tuple[int, int], commit: bool = True) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        self.coordinator.end("tx", *producer, commit, answers.append)
        return answers

    def opened(self, *partitions: TopicPartition) -> tuple[int, int]:
        """A producer with an open transaction."""
        producer = self.started()
        self.add(producer, *(partitions or (P0,)))
        self.appends.settle()
        return producer

    def verified(self, producer: tuple[int, int], partitions: Collection[TopicPartition]) -> list[ErrorCode]:
        return list(self.coordinator.verify("tx", *producer, partitions).values())

    @property
    def label(self) -> str:
        return self.state.kafkas_name

    @property
    def state(self) -> TransactionState:
        return self.home.transactions["tx"].state


@pytest.fixture
def here() -> Coordinating:
    return Coordinating()
