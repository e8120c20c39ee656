"""Proposals of one turn go to the controller in one AlterPartition request; every proposal gets one answer."""

from __future__ import annotations

import contextlib

import pytest

from broker.core.replication.isr import Proposal
from broker.model.ids import TopicPartition
from broker.runtime.metadata.cache import Address, MetadataCache
from broker.runtime.ports import Peer
from broker.runtime.replicas.alter_partition_manager import VERSION, AlterPartitionManager
from broker.runtime.replicas.ports import AlterPartitionResult
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from broker.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataRequest
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import HeldPeer

ID = "B" * 21 + "A"


def cache_with_controller(controller: int) -> MetadataCache:
    cache = MetadataCache("c", "PLAINTEXT", lambda: 5, lambda topic: {}, lambda topic: None)
    tell(cache, controller, 1)
    return cache


def tell(cache: MetadataCache, controller: int, epoch: int) -> None:
    endpoints = [UpdateMetadataEndpoint(9000 + controller, "h", "PLAINTEXT", 0)]
    cache.update(
        UpdateMetadataRequest(
            controller_id=controller,
            controller_epoch=epoch,
            broker_epoch=5,
            live_brokers=[UpdateMetadataBroker(controller, endpoints, None)],
        )
    )


def proposal(*isr: int) -> Proposal:
    return Proposal("shrink", isr, 3, 7, {member: 100 + member for member in isr}, "lag")


class Sender:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.cache = cache_with_controller(1)
        self.peers: dict[Address, HeldPeer] = {}
        self.results: list[tuple[int, AlterPartitionResult]] = []
        self.sender = AlterPartitionManager(9, lambda: 55, self.cache, self.loop, self._connect, 1000)

    def _connect(self, address: Address) -> Peer:
        return self.peers.setdefault(address, HeldPeer())

    def propose(self, partition: int) -> None:
        self.sender.send(
            TopicPartition("t", partition),
            ID,
            proposal(9, 2),
            lambda result: self.results.append((partition, result)),
        )

    def sent(self, controller: int = 1) -> HeldPeer:
        self.loop.run_soon()
        return self.peers[Address("h", 9000 + controller)]


def sent_request(peer: HeldPeer, nth: int = 0) -> AlterPartitionRequest:
    assert peer.sent[nth].api_version == VERSION
    return peer.sent[nth].decode(AlterPartitionRequest)


@pytest.mark.guarantee("isr-changes")
def test_proposals_of_one_turn_go_together_and_later_ones_wait() -> None:
    world = Sender()
    world.propose(0)
    world.propose(1)
    peer = world.sent()
    world.propose(2)
    world.loop.run_soon()
    assert len(peer.sent) == 1
    request = sent_request(peer)
    assert (request.broker_id, request.broker_epoch) == (9, 55)
    assert [p.partition_index for p in request.topics[0].partitions] == [0, 1]
    assert [(m.broker_id, m.broker_epoch) for m in request.topics[0].partitions[0].new_isr_with_epochs] == [
        (9, 109),
        (2, 102),
    ]
    response = AlterPartitionResponse(
        topics=[
            ResponseTopicData(
                ID,
                [
                    ResponsePartitionData(0, 0, 9, 3, [9, 2], 0, 8, elr_min_isr=3),
                    ResponsePartitionData(1, ErrorCode.INVALID_UPDATE_VERSION),
                ],
            )
        ]
    )
    peer.sent[0].respond(response)
    assert world.results[0] == (0, AlterPartitionResult(0, (9, 2), 8, 3, 3))
    assert world.results[1][1].error == ErrorCode.INVALID_UPDATE_VERSION
    world.loop.run_soon()
    assert [p.partition_index for p in sent_request(peer, 1).topics[0].partitions] == [2]


@pytest.mark.guarantee("isr-changes")
def test_error_of_the_request_is_everyones_response() -> None:
    world = Sender()
    world.propose(0)
    world.sent().sent[0].respond(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert world.results == [(0, AlterPartitionResult(ErrorCode.NOT_CONTROLLER))]


@pytest.mark.guarantee("isr-changes")
def test_partition_missing_in_response_and_lost_response_are_unknown() -> None:
    world = Sender()
    world.propose(0)
    world.sent().sent[0].respond(AlterPartitionResponse())
    world.propose(1)
    world.sent().sent[1].on_failure("timeout")
    assert [response.error for _, response in world.results] == [ErrorCode.REQUEST_TIMED_OUT] * 2


@pytest.mark.guarantee("isr-changes")
def test_new_controller_gets_the_request_and_the_old_one_is_not_awaited() -> None:
    world = Sender()
    world.propose(0)
    old = world.sent()
    tell(world.cache, 2, 2)
    assert old.closed
    old.sent[0].on_failure("closed")
    world.propose(1)
    assert len(world.sent(2).sent) == 1


@pytest.mark.guarantee("isr-changes")
def test_without_controller_the_response_is_unknown() -> None:
    world = Sender()
    world.cache.controller_moved(None)
    world.propose(0)
    assert not world.results
    world.loop.run_soon()
    assert world.results[0][1].error == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.guarantee("isr-changes")
@pytest.mark.parametrize(
    "response", [AlterPartitionResponse(), AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER), None]
)
def test_result_that_cannot_be_taken_up_keeps_none_from_the_other_partitions(
    response: AlterPartitionResponse | None,
) -> None:
    world = Sender()

    def fail(result: AlterPartitionResult) -> None:
        raise RuntimeError("nobody foresaw this")

    world.sender.send(TopicPartition("t", 0), ID, proposal(9, 2), fail)
    world.propose(1)
    sent = world.sent().sent[0]
    # The loop and the connection outlive what a callback raises.
    with contextlib.suppress(RuntimeError):
        if response is None:
            sent.on_failure("timeout")
        else:
            sent.respond(response)
    assert [partition for partition, _ in world.results] == [1]
