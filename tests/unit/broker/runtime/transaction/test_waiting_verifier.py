"""A leader's question waits for a coordinator that is about to be able to answer; every other goes straight through."""

from __future__ import annotations

import pytest

from broker.model.ids import TopicPartition
from broker.runtime.transaction.waiting_verifier import WAIT_MAX_MS, WaitingVerifier
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from tests.support.asked_verifier import AskedVerifier
from tests.support.fake_loop import FakeLoop
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC, FakeSlot
from tests.support.transactional_ids import P0, P1, PRODUCER
from tests.support.transactions import transactional

pytestmark = pytest.mark.guarantee("C10")

NO_ANSWER = [
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
]


class Asking:
    """until: when the coordinator is not in doubt any more. unseen: the same, once somebody looks."""

    def __init__(self, loop: FakeLoop | None = None) -> None:
        self.loop = loop or FakeLoop()
        self.until = self.unseen = 0.0
        self.coordinator = AskedVerifier()
        self.verifier = WaitingVerifier(self.coordinator, self, self.loop)
        self.answers: list[tuple[str, ErrorCode]] = []

    def wait_ms(self, transactional_id: str, *, look: bool = False) -> float:
        assert transactional_id == "tx"
        if look:
            self.until = max(self.until, self.unseen)
        return self.until - self.loop.now

    def ask(self, name: str, partition: TopicPartition = P0) -> None:
        self.verifier.verify("tx", PRODUCER, 0, partition, lambda error: self.answers.append((name, error)))

    def settle_doubt(self) -> None:
        self.until = self.unseen = 0.0
        self.verifier.check()

    def advance(self, ms: float) -> None:
        until = self.loop.now + ms
        while self.loop.run_due(until):
            pass
        self.loop.now = until

    @property
    def asked(self) -> int:
        return len(self.coordinator.asked)


@pytest.fixture
def asking() -> Asking:
    return Asking()


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE, *NO_ANSWER])
def test_nothing_waits_while_nobody_is_in_doubt(asking: Asking, error: ErrorCode) -> None:
    asking.ask("a")
    assert asking.asked == 1
    asking.coordinator.answer(error)
    assert asking.answers == [("a", error)]


def test_a_question_to_a_coordinator_in_doubt_is_asked_once_that_is_over_in_order(asking: Asking) -> None:
    asking.until = asking.loop.now + 1000
    asking.ask("a")
    asking.ask("b", P1)
    asking.advance(100)
    asking.verifier.check()
    assert asking.asked == 0
    asking.settle_doubt()
    assert [question[3] for question in asking.coordinator.asked] == [P0, P1]
    asking.coordinator.answer()
    asking.coordinator.answer()
    assert asking.answers == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]


@pytest.mark.parametrize("error", NO_ANSWER)
def test_a_question_that_failed_with_its_coordinator_is_asked_again(asking: Asking, error: ErrorCode) -> None:
    """The end of the connection may be seen here before it is reported as a doubt."""
    asking.ask("a")
    asking.unseen = asking.loop.now + 1000
    asking.coordinator.answer(error)
    assert (asking.asked, asking.answers) == (1, [])
    asking.settle_doubt()
    assert asking.asked == 2
    asking.coordinator.answer()
    assert asking.answers == [("a", ErrorCode.NONE)]


def test_one_that_was_elected_and_does_not_know_it_yet_is_asked_again(asking: Asking) -> None:
    asking.until = asking.loop.now + 1000
    asking.ask("a")
    asking.settle_doubt()
    asking.coordinator.answer(ErrorCode.NOT_COORDINATOR)
    assert (asking.asked, asking.answers) == (1, [])
    asking.advance(50)
    assert asking.asked == 2
    asking.coordinator.answer()
    assert asking.answers == [("a", ErrorCode.NONE)]


def test_it_asks_half_a_second_after_the_question_whatever_is_in_doubt(asking: Asking) -> None:
    asking.until = asking.loop.now + 10_000
    asking.ask("a")
    asking.advance(WAIT_MAX_MS - 1)
    assert asking.asked == 0
    asking.advance(2)
    asking.coordinator.answer(ErrorCode.NETWORK_EXCEPTION)
    assert asking.answers == [("a", ErrorCode.NETWORK_EXCEPTION)]


def test_it_gives_up_half_a_second_after_the_question_however_often_it_was_asked(asking: Asking) -> None:
    asking.until = asking.loop.now + 1000
    asking.ask("a")
    asking.settle_doubt()
    for _ in range(100):
        asking.coordinator.answer(ErrorCode.NOT_COORDINATOR)
        if asking.answers:
            break
        asking.advance(20)
    assert asking.answers == [("a", ErrorCode.NOT_COORDINATOR)]
    assert 20 <= asking.asked <= 27


def test_a_refusal_after_a_wait_is_an_answer(asking: Asking) -> None:
    asking.until = asking.loop.now + 1000
    asking.ask("a")
    asking.settle_doubt()
    asking.coordinator.answer(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert asking.answers == [("a", ErrorCode.INVALID_PRODUCER_EPOCH)]


def test_batches_of_a_producer_that_wait_are_appended_in_order() -> None:
    cluster = MemoryCluster(replicas=1)
    cluster.settle()
    manager = cluster.nodes[1].up
    asking = Asking(cluster.loop)
    manager.gate.verifier = asking.verifier
    asking.until = asking.loop.now + 1000
    slots: list[FakeSlot] = []
    for sequence, value in enumerate("abc"):
        part = produce.ProducePartition(TOPIC, 0, transactional(value, PRODUCER, sequence))
        body = produce.encode_request(9, produce.ProduceRequest("tx", -1, 30_000, [part]))
        slots.append(cluster.request(1, ApiKey.PRODUCE, 9, body))
    log = manager.replicas.by_partition[TOPIC, 0].log
    assert (asking.asked, log.log_end_offset) == (0, 0)
    asking.settle_doubt()
    assert asking.asked == 1
    asking.coordinator.answer()
    manager.end_of_turn()
    appended = [result.base_offset for slot in slots if (result := produced(slot)) is not None]
    assert appended == [0, 1, 2]
