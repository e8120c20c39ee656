"""A stopping broker's talk with the controller: what is waited for, what is counted, what ends it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from broker.config.settings import Settings
from broker.runtime.lifecycle.controlled_shutdown import ControlledShutdown
from broker.runtime.metadata.cache import Address, MetadataCache
from broker.wire.errors import ErrorCode
from broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from broker.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataRequest
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import HeldPeer, SentRequest

pytestmark = pytest.mark.guarantee("C5")

VERSION = 3
EPOCH = 7
PAUSE_MS = 5000


class ControllerPeer(HeldPeer):
    """The controller at an address; the test decides about the last request."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self.address = address

    def receive(self, request: SentRequest) -> None:
        message = request.decode(ControlledShutdownRequest)
        assert (request.api_version, message.broker_id, message.broker_epoch) == (VERSION, 1, EPOCH)
        super().receive(request)

    def fail(self, reason: str = "refused: nobody listens") -> None:
        self.sent[-1].on_failure(reason)

    def respond(self, remaining: int = 0, error: int = 0) -> None:
        parts = [RemainingPartition("t", index) for index in range(remaining)]
        self.sent[-1].respond(ControlledShutdownResponse(error_code=error, remaining_partitions=parts))


class Stopping:
    """Broker 1, told to stop."""

    def __init__(self, controller: int = 2, alive: Collection[int] = (1, 2, 3), informed: bool = True) -> None:
        self.loop = FakeLoop()
        self.started_ms = self.loop.now
        self.cache = MetadataCache("c", "PLAINTEXT", lambda: EPOCH, lambda topic: {}, lambda topic: None)
        self.peers: list[ControllerPeer] = []
        self.ended = 0
        self.session_in_doubt = False
        if informed:
            self.tell(controller, alive)
        settings = Settings.parse({"broker.id": "1", "zookeeper.connect": "zk:2181", "log.dirs": "/none"})
        self.shutdown = ControlledShutdown(
            settings, 1, lambda: EPOCH, self.cache, self.loop, self.connect, 2000, lambda: self.session_in_doubt
        )
        self.shutdown.run(self.end)

    def tell(self, controller: int, alive: Collection[int], controller_epoch: int = 1) -> None:
        self.cache.update(
            UpdateMetadataRequest(
                controller_id=controller,
                controller_epoch=controller_epoch,
                broker_epoch=EPOCH,
                topic_states=[],
                live_brokers=[
                    UpdateMetadataBroker(i, [UpdateMetadataEndpoint(9000 + i, "h", "PLAINTEXT", 0)], None)
                    for i in alive
                ],
            )
        )

    def connect(self, address: Address) -> ControllerPeer:
        self.peers.append(ControllerPeer(address))
        return self.peers[-1]

    def end(self) -> None:
        self.ended += 1

    @property
    def took_ms(self) -> float:
        return self.loop.now - self.started_ms

    def until(self, condition: Callable[[], bool]) -> None:
        """Let timers fire one by one."""
        while not condition():
            assert self.loop.run_due(float("inf")), "nothing is waited for any more"


def test_controlled_shutdown_ends_once_nothing_remains() -> None:
    stopping = Stopping()
    stopping.peers[0].respond(remaining=0)
    assert stopping.ended == 1
    assert stopping.peers[0].closed
    assert stopping.took_ms == 0
    assert not stopping.loop.run_due(float("inf")), "a timer is left behind"


def test_controlled_shutdown_is_sent_to_the_new_controller_as_soon_as_it_is_known() -> None:
    stopping = Stopping(controller=2)
    stopping.peers[0].fail()
    stopping.cache.controller_moved(3)
    assert [peer.address.port for peer in stopping.peers] == [9002, 9003]
    stopping.peers[1].respond()
    assert stopping.ended == 1
    assert stopping.took_ms == 0


def test_controlled_shutdown_does_not_count_a_controller_that_is_gone() -> None:
    stopping = Stopping(controller=2)
    for tries in range(1, 20):
        stopping.peers[-1].fail()
        stopping.until(lambda tries=tries: len(stopping.peers) > tries)  # type: ignore[misc]
    assert stopping.took_ms < PAUSE_MS
    assert stopping.ended == 0
    stopping.peers[-1].respond()
    assert stopping.ended == 1


def test_controlled_shutdown_not_controller_is_sent_again_soon() -> None:
    stopping = Stopping()
    stopping.peers[0].respond(error=ErrorCode.NOT_CONTROLLER)
    stopping.until(lambda: len(stopping.peers) == 2)
    assert stopping.took_ms < 1000


def test_controlled_shutdown_without_any_controller_is_bounded() -> None:
    stopping = Stopping(controller=2)
    stopping.cache.controller_moved(None)
    stopping.peers[0].fail()
    stopping.until(lambda: stopping.ended == 1)
    assert stopping.took_ms == 3 * PAUSE_MS
    assert len(stopping.peers) == 1, "there was nobody to ask"


def test_controlled_shutdown_refusals_are_counted_and_paused_between() -> None:
    stopping = Stopping()
    for tries in (1, 2):
        stopping.peers[-1].respond(remaining=2)
        stopping.until(lambda tries=tries: len(stopping.peers) > tries)  # type: ignore[misc]
        assert stopping.took_ms == tries * PAUSE_MS
    stopping.peers[-1].respond(remaining=2)
    assert stopping.ended == 1
    assert len(stopping.peers) == 3


def test_controlled_shutdown_is_sent_again_at_the_controllers_update_and_counts_by_time() -> None:
    stopping = Stopping()
    stopping.peers[-1].respond(remaining=2)
    for _ in range(10):
        stopping.tell(2, (1, 2, 3))
        stopping.peers[-1].respond(remaining=1)
    assert stopping.ended == 0
    assert stopping.took_ms == 0
    stopping.tell(2, (1, 2, 3))
    stopping.peers[-1].respond(remaining=0)
    assert stopping.ended == 1


def test_controlled_shutdown_of_the_last_broker_does_not_wait() -> None:
    stopping = Stopping(controller=1, alive=(1,))
    stopping.peers[0].respond(remaining=4)
    assert stopping.ended == 1
    assert stopping.took_ms == 0


@pytest.mark.parametrize("alone", [True, False])
def test_controlled_shutdown_gives_up_on_a_silent_controller_where_waiting_is_vain(alone: bool) -> None:
    stopping = Stopping(controller=1, alive=(1,) if alone else (1, 2))
    stopping.session_in_doubt = not alone
    stopping.peers[0].fail("timeout: no answer")
    assert stopping.ended == 1


def test_controlled_shutdown_before_any_controllers_update_has_nothing_to_move() -> None:
    stopping = Stopping(informed=False)
    assert stopping.ended == 1
    assert not stopping.peers


def test_controlled_shutdown_late_response_of_a_given_up_attempt_changes_nothing() -> None:
    stopping = Stopping()
    first = stopping.peers[0]
    first.fail("timeout: no answer")
    stopping.cache.controller_moved(3)
    first.respond(remaining=0)
    assert stopping.ended == 0
    stopping.peers[1].respond(remaining=0)
    assert stopping.ended == 1
