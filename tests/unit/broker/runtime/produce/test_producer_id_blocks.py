"""Producer ids are handed out in the order of the blocks; nobody waits for a block as long as ZooKeeper is away."""

from __future__ import annotations

import pytest

from broker.core.controller.cluster_state import StoreUnavailable
from broker.runtime.produce.producer_id_blocks import WAIT_MS, ProducerIdBlocks
from broker.runtime.produce.producer_ids import ProducerIdHandler
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot
from tests.support.step_worker import StepWorker


class Blocks:
    def __init__(self, *blocks: tuple[int, int]) -> None:
        self.blocks = list(blocks)

    def claim_producer_ids(self) -> tuple[int, int]:
        if not self.blocks:
            raise StoreUnavailable("gone")
        return self.blocks.pop(0)


@pytest.mark.guarantee("idempotent-producers")
def test_producer_ids_follow_blocks_in_order_and_failures_are_reported() -> None:
    loop, worker = FakeLoop(), StepWorker()
    ids: list[int] = []
    failures: list[str] = []
    source = ProducerIdBlocks(Blocks((10, 11), (30, 30)), worker, loop)
    for _ in range(4):
        source.next_producer_id(ids.append, failures.append)
    for _ in range(3):
        worker.run()
        loop.run_soon()
    assert ids == [10, 11, 30]
    assert failures == ["gone"]


@pytest.mark.guarantee("idempotent-producers")
def test_nobody_waits_for_a_producer_id_for_as_long_as_zookeeper_is_away() -> None:
    loop, worker = FakeLoop(), StepWorker()
    ids: list[int] = []
    failures: list[str] = []
    source = ProducerIdBlocks(Blocks((10, 12), (30, 30)), worker, loop)
    for _ in range(3):
        source.next_producer_id(ids.append, failures.append)
        loop.advance(WAIT_MS * 0.4)
    assert len(failures) == 1
    loop.advance(WAIT_MS)
    assert (ids, len(failures)) == ([], 3)
    # The one claim that was under way is nobody's, and not lost; nor was another one begun.
    worker.run()
    loop.run_soon()
    for _ in range(4):
        source.next_producer_id(ids.append, failures.append)
    worker.run()
    loop.run_soon()
    assert ids == [10, 11, 12, 30]
    assert len(failures) == 3
    loop.advance(WAIT_MS * 2)
    assert len(failures) == 3


@pytest.mark.guarantee("idempotent-producers")
def test_producer_gets_a_retriable_error_where_no_block_can_be_claimed() -> None:
    loop, worker, slot = FakeLoop(), StepWorker(), FakeSlot()
    handler = ProducerIdHandler(ProducerIdBlocks(Blocks(), worker, loop))
    body = memoryview(bytearray(InitProducerIdRequest().encode(4)))
    handler.respond_fresh(Request(ApiKey.INIT_PRODUCER_ID, 4, 1, "", body, slot, True))
    worker.run()
    loop.run_soon()
    assert slot.response is not None
    answer = InitProducerIdResponse.decode(4, memoryview(slot.response)[5:])
    assert answer == InitProducerIdResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
