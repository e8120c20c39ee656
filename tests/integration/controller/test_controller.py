"""One controller at a time on a real ZooKeeper: elections, failover, fencing, terms whose load breaks off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.controller.cluster_state import ControllerMoved, LeaderAndIsr, StoreUnavailable
from broker.core.controller.stored import AssignmentWrite, StatesRead, StateWrite
from broker.model.ids import TopicPartition
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from broker.zk import codecs, paths, topic_codecs
from broker.zk.client import ZkClient
from tests.support.wait import eventually

if TYPE_CHECKING:
    from .conftest import Cluster
from tests.integration.controller.requests import alter, ask

pytestmark = pytest.mark.guarantee("C3", "C9")


@pytest.mark.guarantee("C2")
def test_exactly_one_of_three_candidates_wins(cluster: Cluster) -> None:
    nodes = [cluster.node(id_) for id_ in (1, 2, 3)]
    threads = [threading.Thread(target=node.start) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    active = cluster.active()
    eventually(lambda: all(node.known_controllers[-1:] == [active.id] for node in nodes))
    assert [node.controller.active for node in nodes].count(True) == 1
    assert cluster.client.get(paths.CONTROLLER_EPOCH) is not None
    elected = [fields for event, fields in cluster.log if event == "controller"]
    assert [fields["what"] for fields in elected] == ["elected"]


@pytest.mark.guarantee("controller-writes")
def test_requests_of_many_threads_are_carried_out_one_after_the_other_and_completed_once(cluster: Cluster) -> None:
    controller = cluster.add(1).controller
    cluster.create_topic("first", {0: (1,)})
    cluster.await_leader("first", 1)
    threads, each = 8, 25
    inside, overlaps, carried_out = threading.Lock(), [], []
    answers: list[tuple[int, int]] = []

    def do(request: tuple[int, int]) -> tuple[int, int]:
        if not inside.acquire(blocking=False):
            overlaps.append(request)
            return request
        # Long enough for another to come in, if one could.
        time.sleep(0.001)
        carried_out.append(request)
        inside.release()
        return request

    def carry_out(request: tuple[int, int], term: object) -> tuple[int, int]:
        return do(request)

    def asks(thread: int) -> None:
        for nth in range(each):
            request = (thread, nth)
            controller.request(partial(carry_out, request), lambda error: (-1, error), answers.append)

    askers = [threading.Thread(target=asks, args=(thread,)) for thread in range(threads)]
    for asker in askers:
        asker.start()
    for nth in range(3):
        cluster.create_topic(f"beside-{nth}", {0: (1,)})
    for asker in askers:
        asker.join()
    eventually(lambda: len(answers) >= threads * each, "all answers")
    cluster.await_leader("beside-2", 1)
    assert overlaps == []
    assert answers == carried_out, "in the same order"
    assert sorted(answers) == [(thread, nth) for thread in range(threads) for nth in range(each)]
    for thread in range(threads):
        assert [nth for asked_by, nth in answers if asked_by == thread] == list(range(each)), "as they were asked"


def test_failover_carries_on_with_larger_epoch(cluster: Cluster) -> None:
    for id_ in (1, 2, 3):
        cluster.add(id_)
    old = cluster.active()
    others = [id_ for id_ in (1, 2, 3) if id_ != old.id]
    cluster.create_topic("t", {0: (old.id, *others)})
    cluster.await_leader("t", old.id)
    old.kill()
    cluster.remove(old)
    state = cluster.await_leader("t", others[0])
    assert state.isr == tuple(others)
    assert cluster.active().id in others
    epochs = [fields["ce"] for event, fields in cluster.log if event == "controller" and fields["what"] == "elected"]
    assert epochs == sorted(set(epochs))
    assert len(epochs) == 2


def test_old_controllers_write_fails_after_failover(cluster: Cluster) -> None:
    cluster.add(1)
    cluster.create_topic("t", {0: (1,)})
    state = cluster.await_leader("t", 1)
    rival = cluster.node(2)
    old = cluster.nodes[0].controller._term
    assert old is not None
    # In one transaction: the old one hears of it, and would be quicker to be elected again.
    seen = rival.store.controller_to_suspect(1)
    assert seen is not None
    term = rival.store.take_over(2, 1, *seen)
    assert term is not None
    assert term.epoch > old.term.epoch
    topic_partition = TopicPartition("t", 0)
    write = StateWrite(topic_partition, state, replace(state, leader_epoch=9))
    with pytest.raises(ControllerMoved):
        rival.store.write_states(old.term, [write])
    after = cluster.state("t")
    assert after is not None
    assert after.leader_epoch == state.leader_epoch
    rival.controller.start()


def test_a_suspected_controllers_registration_is_read_with_its_office_in_one_request(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add(1)
    eventually(lambda: cluster.nodes[0].controller.active, "broker 1 is controller")
    rival = cluster.node(2)
    one_by_one: list[str] = []
    pipelined = rival.client._pipelined

    def noted(asked: Sequence[str], send: Any) -> Any:
        one_by_one.extend(asked)
        return pipelined(asked, send)

    monkeypatch.setattr(rival.client, "_pipelined", noted)
    assert rival.store.controller_to_suspect(1) is not None
    assert rival.store.controller_to_suspect(2) is None
    assert one_by_one == []
    rival.controller.start()


@pytest.mark.guarantee("C2", "controller-writes")
def test_every_write_of_a_deposed_controller_is_refused_and_changes_nothing(cluster: Cluster) -> None:
    client, store = cluster.client, cluster.node(1).store
    old = store.elect(1)
    assert old is not None
    cluster.create_topic("t", {0: (1, 2)})
    client.create(paths.topic("without-id"), b'{"version":1,"partitions":{"0":[1]}}')
    state, there = LeaderAndIsr(1, 0, (1, 2), old.epoch, -1), TopicPartition("t", 0)
    assert store.write_states(old, [StateWrite(there, None, state)])[there] is not None
    topic = store.topics(["t"], lambda name: lambda: None).topics["t"]
    # Another takes over; the first goes on as if it knew nothing.
    client.delete(paths.CONTROLLER)
    assert cluster.node(2).store.elect(2) is not None
    for path, data in {
        paths.REASSIGNMENT: b'{"version":1,"partitions":[]}',
        paths.PREFERRED_ELECTION: b'{"version":1,"partitions":[]}',
        paths.delete_topic("t"): b"",
        paths.suspicion(9, 99): b"",
        paths.shutting_down(9, 99): b"",
    }.items():
        client.create(path, data)
    client.create_sequence(paths.LOG_DIR_EVENT_PREFIX, codecs.encode_log_dir_event(1))
    current = cluster.state("t")
    assert current is not None
    moved = AssignmentWrite(replace(topic, partitions={0: (2, 1)}), ())
    writes: dict[str, Callable[[], object]] = {
        "states": lambda: store.write_states(old, [StateWrite(there, current, replace(current, leader=2))]),
        "a first state": lambda: store.write_states(old, [StateWrite(TopicPartition("t", 1), None, state)]),
        "assignments": lambda: store.write_assignments(old, [moved]),
        "suspicion": lambda: store.spend_suspicion(old, 1, 5),
        "shutdown": lambda: store.note_shutdown(old, 1, 5),
        "forgotten notes": lambda: store.forget_notes(old, {}),
        "deletion": lambda: store.finish_deletion(old, "t", topic.topic_id),
        "dropped deletion": lambda: store.drop_deletion(old, "t"),
        "log dir events": lambda: store.take_log_dir_events(old, None),
        "elections": lambda: store.finish_elections(old),
        "reassignments": lambda: store.keep_reassignments(old, {}),
        "kept reassignments": lambda: store.keep_reassignments(old, {there: (2, 1)}),
        "topic id": lambda: store.assign_topic_id(old, "without-id", "A" * 22),
    }
    store.asked_ids({"t"})
    before = tree(cluster.client, "/")
    for what, write in writes.items():
        with pytest.raises(ControllerMoved):
            write()
        assert tree(cluster.client, "/") == before, what
    store.resign(old)
    assert tree(cluster.client, "/") == before, "resigning takes nothing from the successor"


@pytest.mark.guarantee("C2", "controller-writes")
def test_many_states_are_written_in_few_transactions_and_each_under_its_own_version(cluster: Cluster) -> None:
    """One that somebody else has written meanwhile keeps none of the others from being written."""
    store = cluster.node(1).store
    term = store.elect(1)
    assert term is not None
    count = 250
    cluster.create_topic("t", dict.fromkeys(range(count), (1, 2)))
    partitions = [TopicPartition("t", index) for index in range(count)]
    first = LeaderAndIsr(1, 0, (1, 2), term.epoch, -1)
    made = store.write_states(term, [StateWrite(each, None, first) for each in partitions])
    states = {each: state for each, state in made.items() if state is not None}
    assert len(states) == count
    overtaken = partitions[7]
    cluster.client.set(paths.partition_state(overtaken), topic_codecs.encode_partition_state(first, None), 0)
    after = store.write_states(
        term, [StateWrite(each, state, replace(state, leader=2, leader_epoch=1)) for each, state in states.items()]
    )
    assert [each for each, state in after.items() if state is None] == [overtaken]
    read = store.states(partitions).found
    assert {each: found.state for each, found in read.items() if each != overtaken} == {
        each: state for each, state in after.items() if state is not None
    }
    assert read[overtaken].state.leader == 1
    # The hundred with the overtaken one were refused together, and written one by one; the others in two.
    assert len({found.written for found in read.values()} - {read[overtaken].written}) == 99 + 2


def tree(client: ZkClient, path: str) -> dict[str, tuple[bytes, int]]:
    """Data and version of every znode."""
    node = client.get(path)
    found = {} if node is None else {path: (node.data, node.version)}
    for child in client.children(path) or []:
        found |= tree(client, f"{path.rstrip('/')}/{child}")
    return found


def test_broker_that_is_not_controller_returns_not_controller(cluster: Cluster) -> None:
    cluster.add(1)
    eventually(lambda: cluster.nodes[0].controller.active)
    other = cluster.add(2)
    answer = alter(other, LeaderAndIsr(2, 0, (2,), 1, 0), {2: other.epoch}, other.epoch, "B" * 22)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_new_term_keeps_nothing_of_topics_that_went_meanwhile(cluster: Cluster) -> None:
    store = cluster.node(1).store
    first = store.elect(1)
    assert first is not None
    cluster.create_topic("t", {0: (1,)})
    assert store.topics(["t"], lambda name: lambda: None).topics.keys() == {"t"}
    store.resign(first)
    cluster.client.delete_recursive(paths.topic("t"))
    assert store.elect(1) is not None
    assert store._topic_nodes == {}


def test_response_of_newer_controller_makes_old_one_look(cluster: Cluster) -> None:
    node = cluster.add(1)
    eventually(lambda: node.controller.active)
    eventually(lambda: cluster.received[1])
    looked = len(node.known_controllers)
    cluster.errors[(1, ApiKey.LEADER_AND_ISR)] = ErrorCode.STALE_CONTROLLER_EPOCH
    cluster.create_topic("t", {0: (1,)})
    eventually(lambda: len(node.known_controllers) > looked)


def test_term_whose_load_broke_off_decides_nothing_until_it_has_loaded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add(1)
    cluster.add(2)
    cluster.create_topic("t", {0: (1, 2)})
    before = cluster.await_leader("t", 1)
    node = cluster.active()
    real, failed, healed = node.store.states, threading.Semaphore(0), threading.Event()

    def states(partitions: Sequence[TopicPartition]) -> StatesRead:
        if healed.is_set():
            return real(partitions)
        failed.release()
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(node.store, "states", states)
    # The reload reads the brokers, and no states.
    node.controller._events.put_once("reload", node.controller._reload)
    assert failed.acquire(timeout=20)
    assert failed.acquire(timeout=20), "it tries again"
    answer: ControlledShutdownResponse = ask(
        lambda on: node.controller.controlled_shutdown(ControlledShutdownRequest(1, cluster.nodes[0].epoch), on)
    )
    assert answer.error_code == ErrorCode.NOT_CONTROLLER, "nothing remains of what it has not read"
    cluster.create_topic("u", {0: (2, 1)})
    node.controller.defaults_changed(unclean=False, min_isr=2)
    node.controller.reconnected()
    assert failed.acquire(timeout=20)
    assert (cluster.state("t"), cluster.state("u")) == (before, None)
    healed.set()
    cluster.await_leader("u", 2)
    assert cluster.state("t") == before
    term = node.controller._term
    assert term is not None
    eventually(lambda: term.state.min_isr_default == 2, "what no load finds out was kept")


def test_zookeeper_restart_does_not_wedge(tmp_path: Path) -> None:
    from tests.support.zookeeper import start_zookeeper

    from .conftest import Cluster

    server = start_zookeeper(tmp_path / "zk")
    # A restart takes longer than the usual session where the machine is busy, and nobody registers again here.
    cluster = Cluster(server.connect, tmp_path, session_timeout_ms=60_000)
    try:
        cluster.add(1)
        gone = cluster.add(2)
        cluster.create_topic("t", {0: (2, 1)})
        cluster.await_leader("t", 2)
        server.restart()
        cluster.create_topic("after", {0: (1, 2)})
        cluster.await_leader("after", 1)
        gone.client.exists("/")  # connected again: it can end its session
        gone.kill()
        cluster.remove(gone)
        cluster.await_leader("t", 1)
    finally:
        cluster.close()
        server.stop()
