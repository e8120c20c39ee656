"""What a sender repeats while ZooKeeper is away piles up nowhere and is done once."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.controller.cluster_state import StoreUnavailable
from broker.runtime.controller.controller import Controller
from broker.runtime.controller.handlers import ControllerHandlers
from broker.runtime.controller.ports import ControllerStore
from broker.runtime.controller.settings import ControllerSettings
from broker.runtime.requests.abandonable_requests import AbandonableRequests
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot

pytestmark = pytest.mark.guarantee("bounded-queues")


class Sender:
    """Gives up what it has sent as it sends it again."""

    def __init__(self, handlers: ControllerHandlers) -> None:
        self._handlers = handlers
        self.slots: list[FakeSlot] = []

    def send(self, api_key: ApiKey) -> None:
        for slot in self.slots:
            slot.open = False
        self.slots.append(FakeSlot())
        if api_key == ApiKey.ALTER_PARTITION:
            body, handle = AlterPartitionRequest(1, 5, []).encode(3), self._handlers.handle_alter_partition
        else:
            body, handle = ControlledShutdownRequest(1, 5).encode(3), self._handlers.handle_controlled_shutdown
        handle(Request(api_key, 3, len(self.slots), "b", memoryview(bytearray(body)), cast(Any, self.slots[-1]), True))


class World:
    """A controller whose thread has not come to what is in its queue."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        settings = ControllerSettings(9, False, True, 1000.0)
        store = cast(ControllerStore, None)
        self.controller = Controller(settings, store, self.loop, cast(Any, None), None, lambda controller: None)
        self.decided: list[object] = []
        self.controller._term = cast(
            Any,
            SimpleNamespace(
                loaded=True,
                isr_changes=SimpleNamespace(alter_partition=self.decide(AlterPartitionResponse())),
                shutting_down_brokers=SimpleNamespace(controlled_shutdown=self.decide(ControlledShutdownResponse())),
            ),
        )
        self.sender = Sender(ControllerHandlers(self.controller))

    def decide(self, answer: object) -> Any:
        def decided(*asked: object) -> object:
            self.decided.append(asked)
            return answer

        return decided

    def drain(self) -> None:
        events = self.controller._events._events
        while not events.empty():
            _, event = events.get()
            event()
        self.loop.run_soon()


@pytest.mark.parametrize("api_key", [ApiKey.ALTER_PARTITION, ApiKey.CONTROLLED_SHUTDOWN])
def test_request_that_is_repeated_on_new_connections_is_decided_once(api_key: ApiKey) -> None:
    world = World()
    for _ in range(100):
        world.sender.send(api_key)
    world.drain()
    assert len(world.decided) == 1
    assert [slot.done for slot in world.sender.slots] == [False] * 99 + [True]


def test_request_that_nobody_waits_for_as_its_turn_comes_is_not_decided() -> None:
    world = World()
    world.sender.send(ApiKey.ALTER_PARTITION)
    world.sender.slots[0].open = False
    world.drain()
    assert world.decided == []


def test_requests_that_are_wanted_are_done_in_the_order_in_which_they_come() -> None:
    waiting, done = AbandonableRequests(), list[int]()
    takes = [waiting.put(lambda nth=nth: done.append(nth), lambda: True) for nth in range(3)]  # type: ignore[misc]
    for take in takes * 2:
        take()
    assert done == [0, 1, 2]


class Body:
    """Some megabyte."""

    def use(self) -> None:
        raise AssertionError("nobody wants it")


def test_request_that_was_given_up_is_let_go_of_when_the_next_comes() -> None:
    waiting, wanted = AbandonableRequests(), True
    body = Body()
    gone = weakref.ref(body)
    take = waiting.put(body.use, lambda: wanted)
    del body
    wanted = False
    assert gone() is not None
    waiting.put(lambda: None, lambda: True)
    assert gone() is None
    take()


def test_request_that_fails_says_so() -> None:
    def fails() -> None:
        raise StoreUnavailable("no answer")

    take = AbandonableRequests().put(fails, lambda: True)
    with pytest.raises(StoreUnavailable):
        take()
    take()
