"""TxnOffsetCommit: who may commit offsets within a transaction, and what a client is told where it may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.coordination import OFFSETS_TOPIC
from broker.wire.errors import ErrorCode
from broker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.support.group_world import TOPIC, GroupWorld, answer
from tests.support.memory_node import FakeSlot

PRODUCER = 7


class Verifier:
    """Answers at once; `asked`: (transactional id, producer id, epoch, partition)."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
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
        then(self.error)


@pytest.fixture
def verifier() -> Verifier:
    return Verifier()


@pytest.fixture
def world(verifier: Verifier) -> GroupWorld:
    world = GroupWorld(verifier=verifier)
    world.lead()
    return world


def send(world: GroupWorld, offset: int, version: int = 3, epoch: int = 0) -> FakeSlot:
    topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, offset, -1, "")])]
    return world.send(TxnOffsetCommitRequest("tx", "g", PRODUCER, epoch, topics=topics), version)


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
