"""Topic settings are read once per topic id and again when they change; a gated request waits for its topics'."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from broker.core.admin.stored import CHANGES_KEPT
from broker.core.controller.cluster_state import StoreUnavailable
from broker.runtime.metadata.topic_configs import TopicConfigCache, gate
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot
from tests.support.step_worker import StepWorker, step

ID = "B" * 21 + "A"


class Configs:
    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.changes: dict[str, str | None] = {}
        self.reads = 0
        self.fails: Exception | None = None

    def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        if self.fails is not None:
            raise self.fails
        self.reads += 1
        return {name: dict(self.configs.get(name, {})) for name in names}

    def config_changes(self, watch: Callable[[], None] | None, seen: Collection[str] = ()) -> Mapping[str, str | None]:
        return dict(self.changes)

    def configured_topics(self) -> Sequence[str]:
        return list(self.configs)


def test_settings_are_read_once_per_topic_id() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    store.configs["t"] = {"min.insync.replicas": "2"}
    done: list[str] = []
    cache.ensure({"t": "id1"}, lambda: done.append("first"))
    assert done == []
    step(loop, worker)
    assert done == ["first"]
    assert cache.overrides("t") == {"min.insync.replicas": "2"}
    cache.ensure({"t": "id1"}, lambda: done.append("known"))
    assert done == ["first", "known"]
    cache.ensure({"t": "id2"}, lambda: done.append("again"))
    assert done == ["first", "known"]
    step(loop, worker)
    assert store.reads == 2


@pytest.mark.parametrize("failure", [StoreUnavailable("down"), RuntimeError("nobody foresaw this")])
def test_settings_wait_out_zookeeper(failure: Exception) -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    store.fails = failure
    done: list[str] = []
    cache.ensure({"t": "id"}, lambda: done.append("known"))
    # The worker outlives what a task raises.
    with contextlib.suppress(RuntimeError):
        step(loop, worker)
    loop.run_soon()
    assert not done
    store.fails = None
    loop.run_due(loop.now + 1000)
    step(loop, worker)
    assert done == ["known"]


@pytest.mark.parametrize("before", [1, 0])
def test_after_more_notifications_than_are_kept_everything_is_read_again(before: int) -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    known: list[str] = []
    hosted_nowhere: list[tuple[str, Mapping[str, str]]] = []
    entities: list[str] = []
    cache.add_listener(lambda topic, config: known.append(topic))
    cache.add_notification_listener(lambda topic, config: hosted_nowhere.append((topic, config)))
    cache.add_entity_listener(entities.append)
    cache.ensure({"t": "id"}, lambda: None)
    store.changes = dict.fromkeys(f"config_change_{n:010}" for n in range(before))
    cache.start()
    step(loop, worker)
    assert (known, hosted_nowhere, entities) == ([], [], [])
    store.configs = {"t": {"a": "1"}, "elsewhere": {"unclean.leader.election.enable": "false"}}
    store.changes = {f"config_change_{n:010}": "topics/other" for n in range(before + 1, before + 1 + CHANGES_KEPT)}
    cache.start()
    step(loop, worker)
    assert known == ["t"]
    assert ("elsewhere", {"unclean.leader.election.enable": "false"}) in hosted_nowhere
    assert entities == ["brokers/<default>"]


def test_changed_settings_of_known_topics_reach_the_listeners() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    notified: list[tuple[str, Mapping[str, str]]] = []
    cache.add_listener(lambda topic, config: notified.append((topic, config)))
    cache.ensure({"t": "id"}, lambda: None)
    step(loop, worker)
    store.configs["t"] = {"a": "1"}
    store.changes = {"config_change_1": "topics/t", "config_change_2": "topics/unknown", "config_change_3": None}
    cache.start()
    step(loop, worker)
    assert notified == [("t", {"a": "1"})]


def test_gate_forgets_a_request_whose_sender_has_given_it_up() -> None:
    # What the controller said later, over a new connection, may have been carried out already.
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    cache = TopicConfigCache(store, worker, loop)
    handled: list[int] = []
    handler = gate(cache, lambda request: handled.append(request.correlation_id))
    slots = [FakeSlot(), FakeSlot()]
    topics = [LeaderAndIsrTopicState("t", ID, [])]
    for number, slot in enumerate(slots):
        body = memoryview(bytearray(LeaderAndIsrRequest(9, False, 1, 5, 0, topics, []).encode(6)))
        handler(Request(ApiKey.LEADER_AND_ISR, 6, number, "controller", body, slot, True))
    slots[0].open = False
    step(loop, worker)
    assert handled == [1]


@pytest.mark.guarantee("bounded-queues")
def test_gate_reads_once_and_keeps_one_request_where_its_sender_repeats_it_while_zookeeper_is_away() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    store.fails = StoreUnavailable("down")
    handled: list[int] = []
    handler = gate(TopicConfigCache(store, worker, loop), lambda request: handled.append(request.correlation_id))
    slots: list[FakeSlot] = []
    tasks = 0
    topics = [LeaderAndIsrTopicState("t", ID, [])]
    for number in range(100):
        for slot in slots:
            slot.open = False
        slots.append(FakeSlot())
        body = memoryview(bytearray(LeaderAndIsrRequest(9, False, 1, 5, 0, topics, []).encode(6)))
        handler(Request(ApiKey.LEADER_AND_ISR, 6, number, "controller", body, slots[-1], True))
        tasks = max(tasks, len(worker.tasks))
        step(loop, worker)
    store.fails = None
    loop.run_due(loop.now + 60_000)
    step(loop, worker)
    assert handled == [99]
    assert (store.reads, tasks) == (1, 1)
    handler(Request(ApiKey.LEADER_AND_ISR, 6, 100, "controller", body, FakeSlot(), True))
    assert handled == [99, 100], "known by now"


def test_gate_reads_no_settings_of_a_topic_that_cannot_be() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), Configs()
    handled: list[int] = []
    handler = gate(TopicConfigCache(store, worker, loop), lambda request: handled.append(request.correlation_id))
    topics = [LeaderAndIsrTopicState(name, ID, []) for name in ("..", "a/b")]
    body = memoryview(bytearray(LeaderAndIsrRequest(9, False, 1, 5, 0, topics, []).encode(6)))
    handler(Request(ApiKey.LEADER_AND_ISR, 6, 7, "controller", body, FakeSlot(), True))
    assert (handled, store.reads) == ([7], 0)
