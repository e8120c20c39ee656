"""The controller's thread by itself: what is to come later needs no other thread, and its end is the broker's."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from broker.core.controller.cluster_state import StoreUnavailable
from broker.model.backoff import Backoff
from broker.runtime.controller.controller import Controller
from broker.runtime.controller.ports import ControllerStore
from broker.runtime.controller.settings import ControllerSettings
from tests.support.fake_loop import FakeLoop
from tests.support.thread_limit import refuse_threads
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("no-thread")

WAIT_S = 20.0


class ThreadsOwnLoop(FakeLoop):
    """What another thread hands over is done there at once."""

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        callback()


class Store:
    """Broker 2 is controller, as soon as anybody can be asked."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def current_controller(self, watch: Callable[[], None]) -> int:
        if self.failures > 0:
            self.failures -= 1
            raise StoreUnavailable("away")
        return 2


class BrokenBackoff(Backoff):
    def next_ms(self) -> float:
        raise MemoryError("no room")


class World:
    def __init__(self, failures: int, retries: Callable[[], Backoff]) -> None:
        self.controllers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.broken: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.controller = Controller(
            ControllerSettings(1, False, True, 1000.0),
            cast(ControllerStore, Store(failures)),
            ThreadsOwnLoop(),
            cast(Any, None),
            None,
            self.controllers.put,
            retries=retries,
            on_broken=self.broken.put,
        )


@pytest.fixture
def worlds() -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(failures: int = 0, retries: Callable[[], Backoff] = lambda: Backoff(1.0, 5.0)) -> World:
        made.append(World(failures, retries))
        return made[-1]

    yield make
    for world in made:
        world.controller.shutdown(WAIT_S)
        assert not world.controller._events._thread.is_alive()


def test_controller_that_no_thread_can_be_started_for_any_more_tries_again_all_the_same(
    worlds: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds(failures=3)
    world.controller.start()
    refuse_threads(monkeypatch)
    world.controller.registered()
    assert world.controllers.get(timeout=WAIT_S) == 2
    assert world.broken.empty()


def test_error_that_ends_the_controllers_thread_is_reported_once(worlds: Callable[..., World]) -> None:
    world = worlds(failures=1, retries=BrokenBackoff)
    world.controller.start()
    world.controller.registered()
    assert "no room" in str(world.broken.get(timeout=WAIT_S))
    world.controller.join(WAIT_S)
    assert world.broken.empty()


def test_delayed_events_come_in_the_order_of_their_times_and_past_a_queue_that_is_never_empty(
    worlds: Callable[..., World],
) -> None:
    world, order, done = worlds(), [], threading.Event()

    def busy() -> None:
        if not done.is_set():
            world.controller._events.put("busy", busy)

    def begin() -> None:
        world.controller._events.put_later("second", lambda: order.append("second"), 0.02)
        world.controller._events.put_later("last", done.set, 0.03)
        world.controller._events.put_later("first", lambda: order.append("first"), 0.01)
        world.controller._events.put_later("never", lambda: order.append("never"), 0.015).cancel()
        busy()

    world.controller._events.put("begin", begin)
    world.controller.start()
    assert done.wait(WAIT_S)
    assert order == ["first", "second"]


def test_event_that_is_as_good_as_never_ends_nobodys_thread(worlds: Callable[..., World]) -> None:
    """`leader.imbalance.check.interval.seconds` is any long: more than the system can wait for."""
    world, done = worlds(), threading.Event()
    events = world.controller._events

    def later() -> None:
        events.put_later("never", done.set, 9.2e18)

    events.put("never", later)
    world.controller.start()
    eventually(lambda: world.controller._events._delayed.next_ms() is not None, "the delayed event")
    for _ in range(2):
        world.controller._events.put("next", done.set)
        assert done.wait(WAIT_S)
        done.clear()
    assert world.broken.empty()
