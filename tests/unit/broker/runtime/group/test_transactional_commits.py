"""TxnOffsetCommit: who may commit offsets within a transaction, and what a client is told where it may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.coordination import OFFSETS_TOPIC
from broker.runtime.replicas.append import ACKS_ALL, AppendOrigin
from broker.runtime.replicas.replica import PendingAppend
from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.errors import ErrorCode
from broker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from broker.wire.records import encode_batch
from tests.support.group_world import PARTITIONS, TOPIC, GroupWorld, answer
from tests.support.memory_node import FakeSlot
from tests.support.metadata_updates import NEW_ID, partition, update

PRODUCER = 7


class Verifier:
    """Answers at once, or when `answer` is called; `asked`: (transactional id, producer id, epoch, partition)."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.waits = False
        self._waiting: list[Callable[[ErrorCode], None]] = []
        self.asked: list[tuple[str, int, int, tuple[str, int]]] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
        then: Callable[[ErrorCode], None],
    ) -> None:
        self.asked.append((transactional_id, producer_id, producer_epoch, partition))
        if self.waits:
            self._waiting.append(then)
        else:
            then(self.error)

    def answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(self.error)


@pytest.fixture
def verifier() -> Verifier:
    return Verifier()


@pytest.fixture
def world(verifier: Verifier) -> GroupWorld:
    world = GroupWorld(verifier=verifier)
    world.lead()
    return world


def send(world: GroupWorld, offset: int, version: int = 3, epoch: int = 0, producer: int = PRODUCER) -> FakeSlot:
    topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, offset, -1, "")])]
    return world.send(TxnOffsetCommitRequest("tx", "g", producer, epoch, topics=topics), version)


def error(slot: FakeSlot, version: int = 3) -> ErrorCode:
    return ErrorCode(answer(slot, version, TxnOffsetCommitResponse).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", range(5))
def test_offset_counts_once_the_marker_is_committed(world: GroupWorld, verifier: Verifier, version: int) -> None:
    assert error(send(world, 5, version, epoch=2), version) is ErrorCode.NONE
    assert verifier.asked == [("tx", PRODUCER, 2, (OFFSETS_TOPIC, 0))]
    assert world.committed() == (-1, ErrorCode.NONE)
    assert world.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    world.coordinator.end_transaction(0, PRODUCER, True)
    assert world.committed(stable=True) == (5, ErrorCode.NONE)


@pytest.mark.parametrize("version", range(5))
def test_transaction_that_does_not_have_the_group_may_be_aborted(
    world: GroupWorld, verifier: Verifier, version: int
) -> None:
    """A Java producer of the newest version aborts upon TRANSACTION_ABORTABLE, and gives up upon another error."""
    verifier.error = ErrorCode.TRANSACTION_ABORTABLE
    told = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert error(send(world, 5, version), version) is told
    assert world.records == []
    assert world.coordinator.find("g") is None, "no trace of a group that nobody may use"


@pytest.mark.parametrize("made_anew", [True, False])
def test_offset_of_a_topic_that_was_deleted_while_the_coordinator_was_asked_is_not_taken(
    world: GroupWorld, verifier: Verifier, made_anew: bool
) -> None:
    verifier.waits = True
    slot = send(world, 5)
    world.cache.update(update({TOPIC: [partition(-2, [1], index=i, epoch=9) for i in range(PARTITIONS)]}))
    if made_anew:
        world.cache.update(update({TOPIC: [partition(1, [1])]}, topic_id=NEW_ID))
    verifier.answer()
    world.settle()
    assert error(slot) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.coordinator.end_transaction(0, PRODUCER, True)
    assert world.committed(stable=True) == (-1, ErrorCode.NONE)
    assert world.records == []
    assert world.coordinator.find("g") is None


@pytest.mark.parametrize("version", range(5))
def test_old_producer_is_not_told_of_a_load(world: GroupWorld, verifier: Verifier, version: int) -> None:
    """KafkaApis.handleTxnOffsetCommitRequest, KAFKA-7296."""
    verifier.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    told = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error(send(world, 5, version), version) is told


def write_marker(world: GroupWorld) -> None:
    """In the middle of a turn, as a leader writes it."""
    records = [marker(EndOfTransaction(committed=True, coordinator_epoch=0))]
    batch = encode_batch(
        records, timestamps=1, producer_id=PRODUCER, producer_epoch=0, transactional=True, control=True
    )

    def done(append: PendingAppend) -> None:
        assert append.error is ErrorCode.NONE
        world.coordinator.end_transaction(0, PRODUCER, True)

    world.appender.append_records(
        (OFFSETS_TOPIC, 0), memoryview(bytearray(batch)), ACKS_ALL, AppendOrigin.COORDINATOR, done, 1000
    )


def test_offset_that_comes_behind_a_marker_of_the_same_turn_is_of_the_next_transaction(world: GroupWorld) -> None:
    """Only where transactions are not verified; else it is refused."""
    topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, 5, -1, "")])]
    slot = world.send_unsettled(TxnOffsetCommitRequest("tx", "g", PRODUCER, 0, topics=topics), 3)
    write_marker(world)
    world.settle()
    assert error(slot) is ErrorCode.NONE
    assert world.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    write_marker(world)
    world.settle()
    assert world.committed(stable=True) == (5, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("producer", "epoch", "told"),
    [
        (-1, -1, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (-1, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (PRODUCER, -1, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_offset_of_no_producer_is_not_taken_where_transactions_are_not_verified(
    producer: int, epoch: int, told: ErrorCode
) -> None:
    """No marker could end such a transaction: the offset would stay unstable, and the partition's readers stop."""
    world = GroupWorld()
    world.lead()
    assert error(send(world, 5, epoch=epoch, producer=producer)) is told
    assert world.records == []
    assert world.committed(stable=True) == (-1, ErrorCode.NONE)
    assert world.coordinator.find("g") is None


@pytest.mark.patches
def test_commit_that_breaks_once_its_transaction_is_verified_closes_its_connection(
    world: GroupWorld, verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no answer, and whoever waits for one would do so until its time is over."""
    verifier.waits = True
    slot = send(world, 5)

    def breaks(_: str) -> None:
        raise ValueError("a group makes no sense")

    monkeypatch.setattr(world.coordinator, "find_or_make", breaks)
    with pytest.raises(ValueError, match="makes no sense"):
        verifier.answer()
    assert slot.closed
