"""The controller's thread on a real ZooKeeper: races, failover, fencing, bounces, deletion."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.controller.cluster_state import NO_LEADER, ControllerMoved, LeaderAndIsr, StoreUnavailable
from broker.core.controller.stored import AssignmentWrite, StatesRead, StateWrite
from broker.model.ids import TopicPartition
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from broker.wire.messages.stop_replica import StopReplicaRequest
from broker.wire.messages.update_metadata import UpdateMetadataRequest
from broker.zk import codecs, paths, topic_codecs
from broker.zk.client import ZkClient
from broker.zk.registration import end_session
from broker.zk.session_file import RecordedSession
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("C3", "C9")

if TYPE_CHECKING:
    from .conftest import Cluster, Node


def alter(
    node: Node, state: LeaderAndIsr, isr: dict[int, int], sender_epoch: int, topic_id: str
) -> AlterPartitionResponse:
    request = AlterPartitionRequest(
        state.leader,
        sender_epoch,
        [
            RequestTopicData(
                topic_id,
                [
                    RequestPartitionData(
                        partition_index=0,
                        leader_epoch=state.leader_epoch,
                        new_isr_with_epochs=[BrokerState(*member) for member in isr.items()],
                        partition_epoch=state.partition_epoch,
                    )
                ],
            )
        ],
    )
    answer: AlterPartitionResponse = ask(lambda on_answer: node.controller.alter_partition(request, 3, on_answer))
    return answer


def ask(send: Any) -> Any:
    done = threading.Event()
    answers: list[Any] = []

    def on_response(answer: Any) -> None:
        answers.append(answer)
        done.set()

    send(on_response)
    assert done.wait(20)
    return answers[0]


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


def test_new_topic_gets_first_replica_as_leader_and_all_brokers_hear(cluster: Cluster) -> None:
    for id_ in (1, 2, 3):
        cluster.add(id_)
    cluster.create_topic("t", {0: (2, 3), 1: (3, 1)})
    assert cluster.await_leader("t", 2).isr == (2, 3)
    assert cluster.await_leader("t", 3, 1).leader_epoch == 0
    eventually(lambda: ("t", 0, 2, 0) in cluster.roles(3) and ("t", 0, 2, 0) in cluster.roles(2))
    assert not [role for role in cluster.roles(1) if role[:2] == ("t", 0)]

    def everyone_knows() -> bool:
        return all(
            any(isinstance(m, UpdateMetadataRequest) and m.topic_states for m in list(cluster.received[id_]))
            for id_ in (1, 2, 3)
        )

    eventually(everyone_knows)


def test_election_is_logged_before_leader_and_isr_is_sent(cluster: Cluster) -> None:
    cluster.add(1)
    cluster.create_topic("t", {0: (1,)})
    eventually(lambda: cluster.roles(1))
    events = [
        event
        for event, what in cluster.log
        if event == "election" or (isinstance(what, LeaderAndIsrRequest) and what.topic_states)
    ]
    assert events[:2] == ["election", "to-1"]


def test_dead_broker_loses_all_partitions_in_one_batch(cluster: Cluster) -> None:
    cluster.add(1)
    dead = cluster.add(2)
    cluster.add(3)
    cluster.create_topic("t", dict.fromkeys(range(20), (2, 3, 1)))
    for partition in range(20):
        cluster.await_leader("t", 2, partition)
    eventually(lambda: len(cluster.roles(3)) == 20)
    before = len(cluster.received[3])
    dead.kill()
    cluster.remove(dead)
    for partition in range(20):
        assert cluster.await_leader("t", 3, partition).isr == (3, 1)
    eventually(lambda: len([role for role in cluster.roles(3) if role[2:] == (3, 1)]) == 20)
    requests = [m for m in cluster.received[3][before:] if isinstance(m, LeaderAndIsrRequest)]
    assert len(requests) == 1
    eventually(
        lambda: any(
            isinstance(m, UpdateMetadataRequest) and [b.id for b in m.live_brokers] == [1, 3]
            for m in list(cluster.received[3][before:])
        )
    )


def test_whole_isr_dead_keeps_isr_and_first_to_return_leads(cluster: Cluster) -> None:
    cluster.add(1)
    second = cluster.add(2)
    cluster.create_topic("t", {0: (2, 1)})
    state = cluster.await_leader("t", 2)
    first = cluster.active()
    answer = alter(first, state, {2: second.epoch}, second.epoch, "tAAAAAAAAAAAAAAAAAAAAA")
    assert answer.topics[0].partitions[0].isr == [2]
    second.kill()
    cluster.remove(second)
    offline = cluster.await_leader("t", NO_LEADER)
    assert offline.isr == (2,)
    cluster.add(2)
    back = cluster.await_leader("t", 2)
    assert back.leader_epoch == offline.leader_epoch + 1


@pytest.mark.guarantee("C1")
def test_bounced_broker_never_leads_under_old_epoch(cluster: Cluster) -> None:
    cluster.add(1)
    bouncing = cluster.add(2)
    cluster.create_topic("t", {0: (2,)})
    before = cluster.await_leader("t", 2)
    eventually(lambda: ("t", 0, 2, 0) in cluster.roles(2))
    cluster.received[2].clear()
    credentials = bouncing.client.credentials
    assert credentials is not None
    end_session(cluster.hosts, RecordedSession(*credentials))
    eventually(lambda: bouncing.client.session_id not in (None, credentials[0]))
    new_epoch = bouncing.registration.register()
    assert new_epoch > bouncing.epoch
    bouncing.controller.registered()
    eventually(lambda: [role for role in cluster.roles(2) if role[2] == 2])
    assert all(role[3] > before.leader_epoch for role in cluster.roles(2) if role[2] == 2)
    assert all(m.broker_epoch == new_epoch for m in cluster.received[2])


@pytest.mark.guarantee("C1")
def test_bounce_without_a_controller_is_seen_by_the_next_one(cluster: Cluster) -> None:
    first = cluster.add(1)
    cluster.create_topic("t", {0: (1,)})
    before = cluster.await_leader("t", 1)
    first.kill()
    cluster.remove(first)
    cluster.received[1].clear()
    cluster.add(1)
    eventually(lambda: cluster.roles(1))
    after = cluster.state("t")
    assert after is not None
    assert (after.leader, after.isr) == (1, (1,))
    assert after.leader_epoch > before.leader_epoch
    assert all(role[3] > before.leader_epoch for role in cluster.roles(1))


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
        "deletion": lambda: store.finish_deletion(old, "t"),
        "dropped deletion": lambda: store.drop_deletion(old, "t"),
        "log dir events": lambda: store.take_log_dir_events(old, None),
        "elections": lambda: store.finish_elections(old),
        "reassignments": lambda: store.keep_reassignments(old, {}),
        "kept reassignments": lambda: store.keep_reassignments(old, {there: (2, 1)}),
        "topic id": lambda: store.assign_topic_id(old, "without-id", "A" * 22),
    }
    before = tree(cluster.client, "/")
    for what, write in writes.items():
        with pytest.raises(ControllerMoved):
            write()
        assert tree(cluster.client, "/") == before, what
    store.resign(old)
    assert tree(cluster.client, "/") == before, "resigning takes nothing from the successor"


def tree(client: ZkClient, path: str) -> dict[str, tuple[bytes, int]]:
    """Data and version of every znode."""
    node = client.get(path)
    found = {} if node is None else {path: (node.data, node.version)}
    for child in client.children(path) or []:
        found |= tree(client, f"{path.rstrip('/')}/{child}")
    return found


def test_stale_state_version_does_not_wedge(cluster: Cluster) -> None:
    """KAFKA-2729: the cached version is old for ever. Here it is read again and the change is made."""
    cluster.add(1)
    dead = cluster.add(2)
    cluster.create_topic("t", {0: (2, 1)})
    state = cluster.await_leader("t", 2)
    path = paths.partition_state(TopicPartition("t", 0))
    cluster.client.set(path, topic_codecs.encode_partition_state(state), state.partition_epoch)
    dead.kill()
    cluster.remove(dead)
    assert cluster.await_leader("t", 1).isr == (1,)


@pytest.mark.guarantee("R6")
def test_alter_partition_writes_once_and_returns_the_new_version(cluster: Cluster) -> None:
    first = cluster.add(1)
    second = cluster.add(2)
    cluster.create_topic("t", {0: (1, 2)})
    state = cluster.await_leader("t", 1)
    id_ = "tAAAAAAAAAAAAAAAAAAAAA"
    answer = alter(first, state, {1: first.epoch}, first.epoch, id_)
    row = answer.topics[0].partitions[0]
    assert (row.error_code, row.isr, row.partition_epoch) == (0, [1], state.partition_epoch + 1)
    again = alter(first, state, {1: first.epoch}, first.epoch, id_).topics[0].partitions[0]
    assert (again.error_code, again.partition_epoch) == (0, row.partition_epoch)
    stored = cluster.state("t")
    assert stored is not None
    assert (stored.isr, stored.partition_epoch) == ((1,), row.partition_epoch)
    back = alter(first, stored, {1: first.epoch, 2: second.epoch - 1}, first.epoch, id_)
    assert back.topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    late = alter(first, stored, {1: first.epoch}, first.epoch - 1, id_)
    assert late.error_code == ErrorCode.STALE_BROKER_EPOCH
    unknown = alter(first, stored, {1: first.epoch}, first.epoch, "B" * 22)
    assert unknown.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def propagated() -> bool:
        return any(
            part.isr == [1]
            for m in list(cluster.received[2])
            if isinstance(m, UpdateMetadataRequest)
            for topic in m.topic_states
            for part in topic.partition_states
        )

    eventually(propagated, "the ISR change on the other broker")


def test_broker_that_is_not_controller_returns_not_controller(cluster: Cluster) -> None:
    cluster.add(1)
    eventually(lambda: cluster.nodes[0].controller.active)
    other = cluster.add(2)
    answer = alter(other, LeaderAndIsr(2, 0, (2,), 1, 0), {2: other.epoch}, other.epoch, "B" * 22)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_topic_deletion_waits_for_every_replica(cluster: Cluster) -> None:
    cluster.add(1)
    second = cluster.add(2)
    cluster.create_topic("t", {0: (1, 2)}, {"min.insync.replicas": "2"})
    cluster.await_leader("t", 1)
    second.kill()
    cluster.remove(second)
    eventually(lambda: (state := cluster.state("t")) is not None and state.isr == (1,))
    cluster.client.create(paths.delete_topic("t"), b"")

    def stopped(broker: int) -> bool:
        return any(
            isinstance(m, StopReplicaRequest) and m.topic_states[0].partition_states[0].delete_partition
            for m in list(cluster.received[broker])
        )

    eventually(lambda: stopped(1))
    assert cluster.client.get(paths.topic("t")) is not None
    cluster.add(2)
    eventually(lambda: stopped(2))
    eventually(lambda: cluster.client.get(paths.delete_topic("t")) is None)
    assert cluster.client.get(paths.topic("t")) is None
    assert cluster.client.get(paths.topic_config("t")) is None


def test_nothing_is_kept_of_topics_that_are_gone(cluster: Cluster) -> None:
    store = cluster.add(1).store
    for name in ("first", "second", "third"):
        cluster.create_topic(name, {0: (1,)})
        cluster.await_leader(name, 1)
        cluster.client.create(paths.delete_topic(name), b"")
        eventually(lambda name=name: cluster.client.get(paths.delete_topic(name)) is None)  # type: ignore[misc]
    eventually(lambda: not store._raw)
    assert store._topic_nodes == {}


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


def test_deletion_of_unknown_topic_is_dropped(cluster: Cluster) -> None:
    cluster.add(1)
    cluster.client.create(paths.delete_topic("nothing"), b"")
    eventually(lambda: cluster.client.get(paths.delete_topic("nothing")) is None)


def test_request_is_repeated_until_broker_takes_it(cluster: Cluster) -> None:
    cluster.add(1)
    eventually(lambda: cluster.nodes[0].controller.active)
    cluster.unreachable.add(2)
    cluster.errors[(2, ApiKey.LEADER_AND_ISR)] = ErrorCode.STALE_BROKER_EPOCH
    cluster.add(2)
    cluster.create_topic("t", {0: (2, 1)})
    cluster.await_leader("t", 2)
    assert not cluster.roles(2)
    cluster.unreachable.clear()
    eventually(lambda: ("t", 0, 2, 0) in cluster.roles(2))


def test_response_of_newer_controller_makes_old_one_look(cluster: Cluster) -> None:
    node = cluster.add(1)
    eventually(lambda: node.controller.active)
    eventually(lambda: cluster.received[1])
    looked = len(node.known_controllers)
    cluster.errors[(1, ApiKey.LEADER_AND_ISR)] = ErrorCode.STALE_CONTROLLER_EPOCH
    cluster.create_topic("t", {0: (1,)})
    eventually(lambda: len(node.known_controllers) > looked)


def test_controlled_shutdown_moves_leaders_and_names_what_stays(cluster: Cluster) -> None:
    for id_ in (1, 2):
        cluster.add(id_)
    leaving = cluster.nodes[1]
    cluster.create_topic("moves", {0: (2, 1)})
    cluster.create_topic("stays", {0: (2, 1)})
    cluster.await_leader("moves", 2)
    state = cluster.await_leader("stays", 2)
    alter(cluster.active(), state, {2: leaving.epoch}, leaving.epoch, "staysAAAAAAAAAAAAAAAAA")
    answer: ControlledShutdownResponse = ask(
        lambda on: cluster.active().controller.controlled_shutdown(ControlledShutdownRequest(2, leaving.epoch), on)
    )
    assert answer.error_code == 0
    assert [(p.topic_name, p.partition_index) for p in answer.remaining_partitions] == [("stays", 0)]
    moved = cluster.state("moves")
    assert moved is not None
    assert (moved.leader, moved.isr) == (1, (1,))
    late: ControlledShutdownResponse = ask(
        lambda on: cluster.active().controller.controlled_shutdown(ControlledShutdownRequest(2, 1), on)
    )
    assert late.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_broker_that_leaves_is_given_no_new_topic_by_the_next_controller_either(cluster: Cluster) -> None:
    first, leaving, _ = (cluster.add(id_) for id_ in (1, 2, 3))
    assert cluster.active() is first
    answer: ControlledShutdownResponse = ask(
        lambda on: first.controller.controlled_shutdown(ControlledShutdownRequest(2, leaving.epoch), on)
    )
    assert answer.error_code == 0
    first.stop()
    cluster.remove(first)
    cluster.active()
    cluster.create_topic("t", {0: (2, 3)})
    assert cluster.await_leader("t", 3).isr == (3,)
    leaving.stop()
    cluster.remove(leaving)
    cluster.add(2)
    cluster.create_topic("u", {0: (2, 3)})
    assert cluster.await_leader("u", 2).isr == (2, 3)


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


def test_topic_of_an_older_tool_gets_an_id(cluster: Cluster) -> None:
    cluster.client.create(paths.topic("old"), b'{"version":1,"partitions":{"0":[1]}}')
    cluster.add(1)
    cluster.await_leader("old", 1)
    node = cluster.client.get(paths.topic("old"))
    assert node is not None
    topic_id = topic_codecs.decode_topic("old", node.data).topic_id
    assert len(topic_id) == 22
    eventually(
        lambda: any(
            isinstance(m, LeaderAndIsrRequest) and [t.topic_id for t in m.topic_states] == [topic_id]
            for m in list(cluster.received[1])
        )
    )


def test_malformed_topic_hides_nothing_else_and_never_makes_a_whole_list(cluster: Cluster) -> None:
    cluster.client.create(paths.topic("bad"), b"{")
    cluster.add(1)
    cluster.create_topic("good", {0: (1,)})
    cluster.await_leader("good", 1)
    eventually(lambda: cluster.roles(1))
    assert all(m.type != 2 for m in cluster.received[1] if isinstance(m, LeaderAndIsrRequest))


def test_znodes_that_decode_and_make_no_sense_stop_no_election(cluster: Cluster) -> None:
    nobody = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[]}'
    no_broker = b'{"version":1,"partitions":[{"topic":"good","partition":0,"replicas":[null]}]}'
    cluster.client.create(paths.topic("no-number"), b'{"version":1,"partitions":{"0":[null]}}')
    cluster.create_topic("nobody-in-sync", {0: (1, 2)})
    for znode in (paths.topic_partitions("nobody-in-sync"), paths.topic_partition(TopicPartition("nobody-in-sync", 0))):
        cluster.client.create(znode, b"")
    cluster.client.create(paths.partition_state(TopicPartition("nobody-in-sync", 0)), nobody)
    cluster.client.create(paths.REASSIGNMENT, no_broker)
    cluster.add(1)
    doomed = cluster.add(2)
    cluster.create_topic("good", {0: (2, 1)})
    cluster.await_leader("good", 2)
    eventually(lambda: cluster.client.get(paths.REASSIGNMENT) is None, "what asks for nothing is done with")
    doomed.kill()
    cluster.remove(doomed)
    cluster.await_leader("good", 1)
    node = cluster.client.get(paths.partition_state(TopicPartition("nobody-in-sync", 0)))
    assert node is not None
    assert node.data == nobody


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
