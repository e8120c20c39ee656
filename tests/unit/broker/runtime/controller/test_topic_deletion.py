"""A deletion takes the topic that was asked for and no namesake, though its answer or its requests were lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr, StoreUnavailable, Topic
from broker.core.controller.stored import StoredState, Term
from broker.model.ids import TopicPartition
from broker.runtime.controller.request_batch import STOP_REPLICA_VERSION
from broker.wire.api import ApiKey
from broker.wire.messages.stop_replica import StopReplicaRequest
from tests.support.reassigned_cluster import PARTITION, TOPIC_ID, ReassignedCluster
from tests.support.stored_partition import cluster

OTHER_ID = "B" * 21 + "A"


@pytest.mark.guarantee("controller-writes")
def test_deletion_that_was_done_though_its_response_was_lost_takes_no_namesake(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    world.data.deletions.add("t")
    world.term.deletions_changed()
    for id_ in (1, 2, 3):
        world.term.replicas_deleted(id_, [PARTITION])
    finish = world.store.finish_deletion

    def lost(term: Term, topic: str, topic_id: str) -> None:
        finish(term, topic, topic_id)
        raise StoreUnavailable("no answer")

    topics = dict(world.data.topics)
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "finish_deletion", lost)
        with pytest.raises(StoreUnavailable):
            world.term.finish_deletions()
    world.data.topics.update(topics)
    for again in (world.term.load, world.term.deletions_changed):
        again()
        assert world.term.finish_deletions() == {}
        assert "t" in world.data.topics


def test_late_response_about_a_namesake_that_was_deleted_counts_for_nothing() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    assert world.term.named([(TOPIC_ID, 0), (OTHER_ID, 0)]) == [PARTITION]


def test_broker_whose_queue_was_given_up_gets_its_deletion_again() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    world.data.deletions.add("t")
    world.term.deletions_changed()
    world.nodes[2].queue.clear()
    world.term.send_everything(2)
    assert any(PARTITION in request.deletes for request in world.nodes[2].queue)


def mark(world: ReassignedCluster, topic_id: str | None) -> None:
    world.data.deletions.add("t")
    if topic_id is not None:
        world.data.deletion_ids["t"] = topic_id


def deleted_everywhere(world: ReassignedCluster) -> None:
    for id_ in world.nodes:
        world.term.replicas_deleted(id_, [PARTITION])


def ids_of_deletions(world: ReassignedCluster) -> set[str]:
    """Of the topics whose logs the brokers are told to delete."""
    requests = [request for node in world.nodes.values() for request in node.queue]
    return {
        topic.topic_id
        for request in requests
        if request.api_key == ApiKey.STOP_REPLICA
        for topic in StopReplicaRequest.decode(STOP_REPLICA_VERSION, request.body).topic_states
    }


def make_anew(world: ReassignedCluster) -> Topic:
    """In the same place, under another id, as the term does not know it."""
    topic = Topic("t", OTHER_ID, {0: (1, 2, 3)})
    world.data.topics["t"] = (topic, 0)
    return topic


@pytest.mark.guarantee("controller-writes")
@pytest.mark.parametrize("asked", [None, TOPIC_ID])
def test_deletion_by_name_or_by_the_topics_id_is_carried_out_and_told_with_the_id(asked: str | None) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    mark(world, asked)
    world.term.deletions_changed()
    assert world.term.names_of([TOPIC_ID, OTHER_ID]) == {TOPIC_ID: "t"}, "until it is gone"
    deleted_everywhere(world)
    assert world.term.finish_deletions() == {"t": TOPIC_ID}
    assert world.data.topics == {}
    assert world.data.deletions == set()
    assert world.term.names_of([TOPIC_ID]) == {}


@pytest.mark.guarantee("controller-writes")
@pytest.mark.parametrize("event", ["mark", "load"])
def test_mark_of_another_id_is_dropped_and_the_topic_lives(event: str) -> None:
    world = cluster(LeaderAndIsr(NO_LEADER, 5, (1,), 1, 3))
    if event == "mark":
        world.term.load()
    mark(world, OTHER_ID)
    world.term.deletions_changed() if event == "mark" else world.term.load()
    assert world.data.deletions == set()
    assert world.data.states[PARTITION].state.leader == 1, "nobody elects for a topic that is being deleted"
    assert world.term.state.deleting == set()
    assert not any(PARTITION in request.deletes for node in world.nodes.values() for request in node.queue)
    deleted_everywhere(world)
    assert world.term.finish_deletions() == {}
    assert "t" in world.data.topics


@pytest.mark.guarantee("controller-writes")
def test_late_mark_takes_no_topic_that_was_made_anew_though_the_term_knows_the_old_one() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    anew = make_anew(world)
    mark(world, TOPIC_ID)
    world.term.deletions_changed()
    deleted_everywhere(world)
    assert world.term.finish_deletions() == {}
    assert world.data.topics["t"][0] == anew
    assert world.data.deletions == set()


@pytest.mark.guarantee("controller-writes")
@pytest.mark.parametrize("asked", [None, OTHER_ID], ids=["by name", "by id"])
def test_topic_that_the_term_knows_under_another_id_is_deleted_after_all_was_read_again(asked: str | None) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    make_anew(world)
    world.data.states[PARTITION] = StoredState(LeaderAndIsr(1, 0, (1, 2, 3), 1, 0), world.data.next_transaction())
    mark(world, asked)
    world.term.deletions_changed()
    assert world.term.state.topics["t"].topic_id == OTHER_ID
    assert ids_of_deletions(world) == {OTHER_ID}, "the other topic's logs are not these"
    deleted_everywhere(world)
    assert world.term.finish_deletions() == {"t": OTHER_ID}


@pytest.mark.guarantee("controller-writes")
def test_topic_made_anew_and_marked_by_name_between_a_lost_end_and_the_reload_is_deleted_with_its_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    mark(world, None)
    world.term.deletions_changed()
    deleted_everywhere(world)
    finish: Callable[[Term, str, str], None] = world.store.finish_deletion

    def lost(term: Term, topic: str, topic_id: str) -> None:
        finish(term, topic, topic_id)
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "finish_deletion", lost)
        with pytest.raises(StoreUnavailable):
            world.term.finish_deletions()
    for node in world.nodes.values():
        node.queue.clear()
    make_anew(world)
    mark(world, None)
    world.term.deletions_changed()
    assert ids_of_deletions(world) == {OTHER_ID}
    deleted_everywhere(world)
    assert world.term.finish_deletions() == {"t": OTHER_ID}
    assert world.data.topics == {}


@pytest.mark.guarantee("controller-writes")
def test_mark_that_is_taken_back_before_it_is_read_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    monkeypatch.setattr(world.store, "deletions", lambda watch: {"t"})
    world.term.deletions_changed()
    world.term.load()
    assert ids_of_deletions(world) == set()
    assert world.term.state.deleting == set()


@pytest.mark.guarantee("controller-writes")
def test_topic_that_is_made_anew_while_all_is_read_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    mark(world, OTHER_ID)
    looks: list[str] = []
    monkeypatch.setattr(world.term._watches, "deletions", lambda: looks.append("again"))
    monkeypatch.setattr(world.store, "asked_ids", lambda names: {"t": (OTHER_ID, OTHER_ID)})
    world.term.load()
    assert looks == ["again"]
    assert world.data.deletions == {"t"}, "it is asked for, and still to be done"
    deleted_everywhere(world)
    assert world.term.finish_deletions() == {}, "of the topic that was read"


@pytest.mark.guarantee("controller-writes")
def test_mark_that_takes_the_place_of_a_late_one_is_looked_at_next(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    mark(world, OTHER_ID)
    looks: list[str] = []
    monkeypatch.setattr(world.term._watches, "deletions", lambda: looks.append("again"))
    drop = world.store.drop_deletion

    def late(term: Term, topic: str) -> bool:
        mark(world, TOPIC_ID)
        return drop(term, topic)

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "drop_deletion", late)
        world.term.deletions_changed()
    assert looks == ["again"], "no watch of ZooKeeper tells of it"
    assert world.data.deletion_ids == {"t": TOPIC_ID}
    world.term.deletions_changed()
    deleted_everywhere(world)
    assert world.term.finish_deletions() == {"t": TOPIC_ID}


@pytest.mark.guarantee("controller-writes")
def test_end_whose_response_was_lost_takes_no_namesake_before_all_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    mark(world, TOPIC_ID)
    world.term.deletions_changed()
    deleted_everywhere(world)
    finish: Callable[[Term, str, str], None] = world.store.finish_deletion

    def lost(term: Term, topic: str, topic_id: str) -> None:
        finish(term, topic, topic_id)
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "finish_deletion", lost)
        with pytest.raises(StoreUnavailable):
            world.term.finish_deletions()
    anew = make_anew(world)
    mark(world, TOPIC_ID)  # asked for once more, by who saw the topic before
    world.term.deletions_changed()
    assert world.term.finish_deletions() == {}
    assert world.data.topics["t"][0] == anew


@pytest.mark.guarantee("controller-writes")
def test_end_that_was_refused_is_begun_anew_when_all_was_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    mark(world, TOPIC_ID)
    world.term.deletions_changed()
    deleted_everywhere(world)

    def refused(term: Term, topic: str, topic_id: str) -> None:
        raise StoreUnavailable("refused")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "finish_deletion", refused)
        with pytest.raises(StoreUnavailable):
            world.term.finish_deletions()
    for node in world.nodes.values():
        node.queue.clear()
    world.term.load()
    assert all(any(PARTITION in request.deletes for request in node.queue) for node in world.nodes.values())
    deleted_everywhere(world)
    assert world.term.finish_deletions() == {"t": TOPIC_ID}
    assert world.data.topics == {}


@pytest.mark.guarantee("controller-writes")
@pytest.mark.parametrize("asked", [None, TOPIC_ID], ids=["by name", "by id"])
def test_topic_that_cannot_be_read_any_more_is_not_told_as_deleted_and_can_be_asked_for_again(
    asked: str | None,
) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    mark(world, asked)
    world.term.deletions_changed()
    deleted_everywhere(world)
    world.data.garbled_topics.add("t")
    with pytest.raises(StoreUnavailable):
        world.term.finish_deletions()
    world.term.load()
    assert world.data.deletions == set(), "nothing is tried again and again"
    assert world.term.finish_deletions() == {}
    world.data.garbled_topics.clear()
    world.term.topics_changed()
    mark(world, asked)
    world.term.deletions_changed()
    deleted_everywhere(world)
    assert world.term.finish_deletions() == {"t": TOPIC_ID}
    assert world.data.topics == {}


@pytest.mark.guarantee("controller-writes")
def test_topic_that_ended_before_another_ones_end_was_refused_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.data.topics["u"] = (Topic("u", OTHER_ID, {0: (1,)}), 0)
    world.data.deletions |= {"t", "u"}
    world.term.load()
    deleted_everywhere(world)
    world.term.replicas_deleted(1, [TopicPartition("u", 0)])
    finish: Callable[[Term, str, str], None] = world.store.finish_deletion

    def refused(term: Term, topic: str, topic_id: str) -> None:
        if topic == "u":
            raise StoreUnavailable("refused")
        finish(term, topic, topic_id)

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "finish_deletion", refused)
        with pytest.raises(StoreUnavailable):
            world.term.finish_deletions()
    assert world.term.state.topics.keys() == {"u"}
    world.term.load()
    assert world.term.finish_deletions() == {"t": TOPIC_ID}
    world.term.replicas_deleted(1, [TopicPartition("u", 0)])
    assert world.term.finish_deletions() == {"u": OTHER_ID}
    assert world.term.finish_deletions() == {}
