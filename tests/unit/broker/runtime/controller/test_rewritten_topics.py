"""Topics whose znodes change together are read together, by a controller whose thread had other things to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.controller.cluster_state import Broker, BrokerEndpoint, Topic
from broker.core.controller.stored import TopicsRead, Watch
from broker.model.ids import TopicPartition
from broker.runtime.controller.controller import Controller
from broker.runtime.controller.settings import ControllerSettings
from tests.support.controller_events import handle_events
from tests.support.fake_loop import FakeLoop
from tests.support.memory_store import Data, MemoryStore

pytestmark = pytest.mark.guarantee("C3")

TOPICS = 1000


class CountingStore(MemoryStore):
    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.reads: list[Sequence[str]] = []

    def topics(self, names: Sequence[str], watch: Callable[[str], Watch]) -> TopicsRead:
        self.reads.append(names)
        return super().topics(names, watch)


class World:
    """A controller with 1,000 topics on broker 1, whose events are handled when told."""

    def __init__(self) -> None:
        self.data = Data()
        self.data.brokers[1] = Broker(1, 1, (BrokerEndpoint("PLAINTEXT", "h", 1, "PLAINTEXT"),))
        for index in range(TOPICS):
            id_ = f"{index:04}" + "A" * 18
            self.data.topics[f"t{index}"] = (Topic(f"t{index}", id_, {0: (1,)}), 0)
        self.store = CountingStore(self.data)
        peer = SimpleNamespace(send=lambda *request: 0, close=lambda: None)
        settings = ControllerSettings(9, False, True, 1000.0)
        self.controller = Controller(
            settings, self.store, FakeLoop(), lambda broker: cast(Any, peer), None, lambda controller: None
        )
        self.controller.registered()
        self.handle()
        self.store.reads.clear()

    def handle(self) -> None:
        """What the controller's thread does."""
        handle_events(self.controller)

    def grow(self, name: str) -> None:
        topic, version = self.data.topics[name]
        self.data.topics[name] = (replace(topic, partitions={0: (1,), 1: (1,)}), version + 1)
        self.store.fire(f"topic-{name}")


def test_thousand_topics_that_change_together_are_read_once() -> None:
    world = World()
    for index in range(TOPICS):
        world.grow(f"t{index}")
    world.handle()
    assert [len(names) for names in world.store.reads] == [TOPICS]
    assert all(TopicPartition(f"t{index}", 1) in world.data.states for index in range(TOPICS))


def test_topic_that_changes_after_the_others_were_read_is_read() -> None:
    world = World()
    for name in ("t0", "t1"):
        world.grow(name)
        world.handle()
    assert world.store.reads == [["t0"], ["t1"]]
    assert TopicPartition("t1", 1) in world.data.states
