"""What is tried again while ZooKeeper cannot be asked: soon, then ever later, and by each broker at its own time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from broker.config.settings import Settings
from broker.core.controller.cluster_state import StoreUnavailable
from broker.model.backoff import Backoff
from broker.runtime.controller.controller import Controller
from broker.runtime.controller.event_manager import Event
from broker.runtime.controller.settings import ControllerSettings
from broker.runtime.lifecycle.registration import BrokerRegistration, SessionChange
from broker.runtime.metadata.dynamic_broker_config import DynamicConfig
from broker.runtime.metadata.topic_configs import TopicConfigCache
from broker.runtime.replicas.log_dir_failure import LogFailureNotice
from tests.support.fake_loop import FakeLoop, FakeTimer

TIMES = 9


class NotingLoop(FakeLoop):
    """Notes how long each timer takes."""

    def __init__(self, delays_ms: list[float]) -> None:
        super().__init__()
        self._delays_ms = delays_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> FakeTimer:
        self._delays_ms.append(delay_ms)
        return super().call_later(delay_ms, callback)


class Store:
    """Fails as often as it is told to. Parts of a broker ask it for what each needs."""

    def __init__(self) -> None:
        self.failures = 0
        self.names = 0

    def _ask(self) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise StoreUnavailable("away")

    def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        self._ask()
        return {}

    def broker_configs(self, broker: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
        self._ask()
        return {}, {}

    def report_log_failure(self) -> None:
        self._ask()

    def register(self) -> int:
        self._ask()
        return 7

    def withdraw(self) -> None: ...

    def registered(self) -> None: ...

    def session_lost(self) -> None: ...

    def reconnected(self) -> None: ...

    def current_controller(self, watch: Callable[[], None]) -> int:
        self._ask()
        return 2


class Changes(Store):
    """Notifications fail, and nothing else."""

    def config_changes(self, watch: Callable[[], None] | None, seen: Collection[str] = ()) -> Mapping[str, str | None]:
        self._ask()
        return {}


class Notified(Store):
    """There is a new notification with each look, and the topic that it names cannot be read."""

    def config_changes(self, watch: Callable[[], None] | None, seen: Collection[str] = ()) -> Mapping[str, str | None]:
        self.names += 1
        return {**dict.fromkeys(seen), f"config_change_{self.names}": "topics/t"}


class AtOnce:
    def submit(self, name: str, task: Callable[[], None]) -> None:
        task()


class Part:
    """Something that is begun and repeats itself; `delays_ms` says when."""

    def __init__(self, kind: str, seed: int | None) -> None:
        self.delays_ms: list[float] = []
        self.loop = NotingLoop(self.delays_ms)
        self.store = {"changes": Changes, "notified": Notified}.get(kind, Store)()
        self.begin: Callable[[], None] = getattr(self, f"_{kind}")(partial(Backoff, seed=seed))

    def failing(self, times: int) -> list[float]:
        """What it waits after each of so many failures in a row; then it succeeds."""
        self.delays_ms.clear()
        self.store.failures = times
        self.begin()
        while self.loop.run_soon() or self.loop.run_due(float("inf")):
            pass
        assert self.store.failures == 0
        return list(self.delays_ms)

    def _topics(self, retries: Callable[[], Backoff]) -> Callable[[], None]:
        cache = TopicConfigCache(self.store, AtOnce(), self.loop, retries)  # type: ignore[arg-type]
        return lambda: cache.load({"t": "id"}, lambda: None)

    def _changes(self, retries: Callable[[], Backoff]) -> Callable[[], None]:
        return TopicConfigCache(self.store, AtOnce(), self.loop, retries).start  # type: ignore[arg-type]

    def _notified(self, retries: Callable[[], Backoff]) -> Callable[[], None]:
        cache = TopicConfigCache(self.store, AtOnce(), self.loop, retries)  # type: ignore[arg-type]
        cache.add_notification_listener(lambda topic, overrides: None)
        return cache.start

    def _own(self, retries: Callable[[], Backoff]) -> Callable[[], None]:
        settings = Settings.parse({"broker.id": "1", "zookeeper.connect": "z"})
        return DynamicConfig(settings, 1, self.store, AtOnce(), self.loop, retries).refresh

    def _failed_files(self, retries: Callable[[], Backoff]) -> Callable[[], None]:
        return LogFailureNotice(self.store, AtOnce(), self.loop, retries).report

    def _registration(self, retries: Callable[[], Backoff]) -> Callable[[], None]:
        made = BrokerRegistration(
            self.store,
            AtOnce(),
            self.store,
            self.loop,
            lambda: 0.0,
            lambda epoch: None,
            lambda: None,
            lambda error: None,
            retries,
            lambda seconds: self.delays_ms.append(seconds * 1000),
        )
        return lambda: made.on_session(SessionChange.RENEWED)

    def _controller(self, retries: Callable[[], Backoff]) -> Callable[[], None]:
        part = self

        settings = ControllerSettings(1, False, True, 1000.0)
        made = Controller(
            settings,
            self.store,  # type: ignore[arg-type]
            self.loop,
            lambda target: None,  # type: ignore[arg-type, return-value]
            None,
            lambda controller: None,
            retries=retries,
        )
        # The controller's thread is the loop's, and so is its timer.
        events = made._events

        def put_later(name: str, event: Event, delay_s: float = 0.2) -> Any:
            return part.loop.call_later(delay_s * 1000, lambda: events._handle(name, event))

        events.put_later = put_later  # type: ignore[method-assign]
        return lambda: events._handle("controller", made._controller_changed)


KINDS = ("topics", "changes", "notified", "own", "failed_files", "registration", "controller")


@pytest.mark.parametrize("kind", KINDS)
def test_retries_are_quick_at_first_then_ever_later_up_to_a_second(kind: str) -> None:
    waits_ms = Part(kind, seed=1).failing(TIMES)
    assert len(waits_ms) == TIMES
    for wait_ms, nominal_ms in zip(waits_ms, (50, 100, 200, 400, 800, *[1000] * (TIMES - 5)), strict=True):
        assert 0.8 * nominal_ms <= wait_ms <= 1.2 * nominal_ms, waits_ms
    assert all(earlier < later for earlier, later in pairwise(waits_ms[:5]))


@pytest.mark.parametrize("kind", KINDS)
def test_retries_begin_anew_after_a_success(kind: str) -> None:
    part = Part(kind, seed=1)
    part.failing(TIMES)
    assert part.failing(1)[0] <= 60


@pytest.mark.parametrize("kind", KINDS)
def test_retries_of_two_brokers_fall_out_of_step(kind: str) -> None:
    one, same, other = (Part(kind, seed).failing(TIMES) for seed in (1, 1, 2))
    assert one == same
    assert all(mine != theirs for mine, theirs in zip(one, other, strict=True))
    assert Part(kind, None).failing(TIMES) != Part(kind, None).failing(TIMES)


def test_events_that_fail_together_are_one_failure_of_the_controller() -> None:
    part = Part("controller", seed=1)
    part.store.failures = 5
    for _ in range(5):
        part.begin()
    assert len(part.delays_ms) == 1


def test_broker_that_stops_does_not_sit_out_the_pause_between_two_registrations() -> None:
    store, asked = Store(), threading.Event()
    store.failures = 2
    workers: list[threading.Thread] = []

    class OwnThread:
        def submit(self, name: str, task: Callable[[], None]) -> None:
            workers.append(threading.Thread(target=task, daemon=True))
            workers[0].start()

    def retries() -> Backoff:
        asked.set()
        return Backoff(600_000.0, 600_000.0)

    made = BrokerRegistration(
        store,
        OwnThread(),
        store,
        FakeLoop(),
        lambda: 0.0,
        lambda epoch: None,
        lambda: None,
        lambda error: None,
        retries,
    )
    made.on_session(SessionChange.RENEWED)
    assert asked.wait(20)
    made.shutdown()
    workers[0].join(20)
    assert not workers[0].is_alive()
