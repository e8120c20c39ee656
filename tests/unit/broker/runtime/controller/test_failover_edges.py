"""A controller's term at the edges: what it must not believe when it loads, and what it must not stop for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr, StoreUnavailable, Topic
from broker.core.controller.elr import CLEAN, ReplicaReport
from broker.core.controller.stored import StateWrite, StoredState, Term
from broker.model.ids import TopicPartition
from broker.runtime.controller.request_batch import INCREMENTAL, LEADER_AND_ISR_VERSION, Outgoing, RequestBatch
from broker.runtime.controller.topic_loader import MIN_ISR
from broker.wire.api import ApiKey
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from broker.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from tests.support.reassigned_cluster import PARTITION, TOPIC_ID, ReassignedCluster


def cluster(state: LeaderAndIsr | None = None) -> ReassignedCluster:
    """Three brokers and their partition in this state, as no controller has read it yet."""
    world = ReassignedCluster((1, 2, 3), 3)
    if state is not None:
        world.data.states[PARTITION] = StoredState(state, world.data.next_transaction())
    return world


def stored(world: ReassignedCluster) -> LeaderAndIsr:
    return world.data.states[PARTITION].state


def told(requests: list[Outgoing]) -> list[LeaderAndIsrPartitionState]:
    return [
        partition
        for request in requests
        if request.api_key == ApiKey.LEADER_AND_ISR
        for topic in LeaderAndIsrRequest.decode(LEADER_AND_ISR_VERSION, request.body).topic_states
        for partition in topic.partition_states
    ]


# An ELR under a minimum that was lowered while nobody listened


@pytest.mark.guarantee("R12")
def test_eligible_replicas_under_a_minimum_lowered_before_the_load_are_elected_by_nobody() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1,), 1, 3, elr=(2, 3)))
    world.data.configs["t"] = {MIN_ISR: "1"}
    world.term.load()
    assert stored(world).elr == ()
    world.fail(1)
    assert (stored(world).leader, stored(world).isr) == (NO_LEADER, (1,))


@pytest.mark.guarantee("R12")
def test_eligible_replicas_are_voided_before_the_load_elects() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1,), 1, 3, elr=(2, 3)))
    world.data.configs["t"] = {MIN_ISR: "1"}
    del world.data.brokers[1]
    world.term.load()
    assert (stored(world).leader, stored(world).isr) == (NO_LEADER, (1,))


@pytest.mark.guarantee("R12")
def test_eligible_replicas_under_the_same_minimum_outlive_the_load() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1,), 1, 3, elr=(2, 3)))
    world.data.configs["t"] = {MIN_ISR: "2"}
    world.term.load()
    world.fail(1)
    assert stored(world).leader == 2


# The minimum that goes with an ISR to its leader


def shrink_to_leader(world: ReassignedCluster) -> ResponsePartitionData:
    """Leader 1 proposes itself alone, under a minimum of 2."""
    node = world.nodes[1]
    state = stored(world)
    member = BrokerState(1, node.epoch)
    asked = RequestPartitionData(0, state.leader_epoch, [], [member], 0, state.partition_epoch)
    request = AlterPartitionRequest(1, node.epoch, [RequestTopicData(TOPIC_ID, [asked])])
    return world.term.isr_changes.alter_partition(request, 3).topics[0].partitions[0]


def minimum_of_two(reports: bool) -> ReassignedCluster:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    for id_, broker in world.data.brokers.items():
        world.data.brokers[id_] = replace(broker, reports=reports)
    world.data.configs["t"] = {MIN_ISR: "2"}
    world.term.load()
    return world


@pytest.mark.guarantee("R12")
def test_leader_is_told_the_minimum_of_its_eligible_replicas() -> None:
    world = minimum_of_two(reports=True)
    for _ in range(2):
        # Asked again, because an answer was lost, it is told the same.
        answer = shrink_to_leader(world)
        assert (answer.error_code, answer.isr, answer.elr_min_isr) == (0, [1], 2)
    assert (stored(world).elr, stored(world).elr_min_isr) == ((2,), 2)
    world.nodes[1].queue.clear()
    world.term.send_everything(1)
    assert [state.elr_min_isr for state in told(list(world.nodes[1].queue))] == [2]


@pytest.mark.guarantee("R12")
def test_minimum_goes_with_the_eligible_replicas() -> None:
    world = minimum_of_two(reports=True)
    shrink_to_leader(world)
    world.nodes[1].queue.clear()
    world.term.topic_config_changed("t", {MIN_ISR: "1"})
    assert (stored(world).elr, stored(world).elr_min_isr) == ((), 0)
    assert [(state.leader_epoch, state.elr_min_isr) for state in told(list(world.nodes[1].queue))] == [(6, 0)]


@pytest.mark.guarantee("R12")
def test_nobody_is_eligible_beside_a_leader_of_kafkas() -> None:
    world = minimum_of_two(reports=False)
    answer = shrink_to_leader(world)
    assert (answer.isr, answer.elr_min_isr) == ([1], 0)
    assert stored(world).elr == ()


# A bounce that no controller saw


def bounced_unseen(world: ReassignedCluster) -> None:
    """Broker 2 ends and comes back; what leader 1 proposed for 3 is written after that; the controller ends."""
    old = {id_: node.epoch for id_, node in world.nodes.items()}
    world._register(world.nodes[2])
    members = [BrokerState(id_, old[id_]) for id_ in (1, 2, 3)]
    asked = RequestPartitionData(0, 5, [], members, 0, stored(world).partition_epoch)
    request = AlterPartitionRequest(1, old[1], [RequestTopicData(TOPIC_ID, [asked])])
    answer = world.term.isr_changes.alter_partition(request, 3).topics[0].partitions[0]
    assert (answer.error_code, answer.isr) == (0, [1, 2, 3])


def test_state_names_the_registrations_that_it_was_granted_to() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world.term.load()
    before = world.nodes[2].epoch
    bounced_unseen(world)
    epochs = {id_: node.epoch for id_, node in world.nodes.items()}
    assert stored(world).isr_epochs == {**epochs, 2: before}


@pytest.mark.guarantee("C1")
def test_replica_that_bounced_unseen_leaves_the_isr_though_its_state_was_written_since() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world.term.load()
    bounced_unseen(world)
    world._elect()
    assert (stored(world).leader, stored(world).leader_epoch, stored(world).isr) == (1, 6, (1, 3))
    world._elect()
    assert stored(world).leader_epoch == 6, "judged once"


@pytest.mark.guarantee("C1")
def test_leader_that_bounced_unseen_leads_no_more() -> None:
    world = cluster(LeaderAndIsr(2, 5, (2, 3), 1, 3))
    world.term.load()
    old = {id_: node.epoch for id_, node in world.nodes.items()}
    world._register(world.nodes[2])
    asked = RequestPartitionData(0, 5, [], [BrokerState(i, old[i]) for i in (1, 2, 3)], 0, 3)
    world.term.isr_changes.alter_partition(AlterPartitionRequest(2, old[2], [RequestTopicData(TOPIC_ID, [asked])]), 3)
    world._elect()
    assert (stored(world).leader, stored(world).isr) == (1, (1, 3))


@pytest.mark.guarantee("C1")
def test_state_that_names_no_registrations_is_judged_by_the_transaction_that_wrote_it() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world.term.load()
    bounced_unseen(world)
    found = world.data.states[PARTITION]
    # As a Kafka controller writes it.
    world.data.states[PARTITION] = found._replace(state=replace(found.state, isr_epochs={}))
    world._elect()
    assert stored(world).isr == (1, 2, 3)
    world._register(world.nodes[2])
    world._elect()
    assert stored(world).isr == (1, 3)


def test_write_before_the_judgement_does_not_vouch_for_who_bounced() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3, elr=(3,), elr_min_isr=3))
    world._register(world.nodes[2])
    world.data.configs["t"] = {MIN_ISR: "1"}
    # The first write, which drops the eligible replica, is the last of this controller.
    world.die_at(2, landed=False)
    world.step(world.term.load)
    assert world.deaths == 1
    assert (stored(world).leader, stored(world).isr, stored(world).elr) == (1, (1,), ())


# The minimum as leaders read it


@pytest.mark.guarantee("R12")
@pytest.mark.parametrize(
    ("text", "read"), [("+2", 2), (" 2", 2), ("3", 3), ("99999999999", 1), ("²", 1), ("1_0", 1), ("0", 1), ("", 1)]
)
def test_minimum_is_read_as_leaders_read_it(text: str, read: int) -> None:
    world = cluster()
    world.data.configs["t"] = {MIN_ISR: text}
    world.term.load()
    assert world.term.state.min_isr_of(PARTITION) == read


# A replica that is being added


@pytest.mark.parametrize(("isr", "elr", "new"), [((1,), (3,), False), ((1, 3), (), False), ((1,), (2,), True)])
def test_replica_that_is_being_added_is_new_unless_it_was_in_sync(
    isr: tuple[int, ...], elr: tuple[int, ...], new: bool
) -> None:
    world = cluster()
    state = world.term.state
    state.topics["t"] = Topic("t", "A" * 22, {0: (1, 2, 3)}, adding={0: (3,)})
    state.states[PARTITION] = LeaderAndIsr(1, 5, isr, 1, 3, elr=elr)
    batch = RequestBatch(9, 1)
    batch.roles((3,), PARTITION)
    assert [partition.is_new for partition in told(batch.encode(state))] == [new]


# A state that makes no sense


def two_topics() -> tuple[ReassignedCluster, TopicPartition]:
    world = cluster()
    world.data.topics["u"] = (Topic("u", "B" * 21 + "A", {0: (1, 2)}), 0)
    world.step(world.term.topics_changed)
    return world, TopicPartition("u", 0)


@pytest.mark.guarantee("C3")
def test_state_that_makes_no_sense_stops_nothing_but_its_own_partition() -> None:
    world, other = two_topics()
    world.data.garbled.add(PARTITION)
    before = stored(world)
    world.term.load()
    world.fail(1)
    assert world.data.states[other].state.leader == 2
    assert stored(world) == before


@pytest.mark.guarantee("C3")
def test_state_that_is_garbled_under_a_running_term_stops_nothing_but_its_own_partition() -> None:
    world, other = two_topics()
    world.data.garbled.add(PARTITION)
    world.fail(1)
    assert world.data.states[other].state.leader == 2


@pytest.mark.guarantee("C3")
def test_broker_whose_partition_is_unreadable_gets_no_whole_list() -> None:
    world, _ = two_topics()
    world.data.garbled.add(PARTITION)
    world.nodes[1].queue.clear()
    world.term.load()
    said = [
        LeaderAndIsrRequest.decode(LEADER_AND_ISR_VERSION, request.body)
        for request in world.nodes[1].queue
        if request.api_key == ApiKey.LEADER_AND_ISR
    ]
    assert [request.type for request in said] == [INCREMENTAL]


@pytest.mark.guarantee("C3")
def test_state_that_was_mended_counts_when_the_next_broker_comes() -> None:
    world, _ = two_topics()
    world.data.garbled.add(PARTITION)
    world.term.load()
    world.fail(1)
    world.data.garbled.clear()
    world.start(1)
    assert stored(world).leader == 2
    assert not world.term.state.unreadable


# A suspicion whose note was written, or not: nobody knows


@pytest.mark.guarantee("C10")
@pytest.mark.parametrize("landed", [True, False])
def test_suspicion_whose_note_got_no_answer_is_acted_on_after_the_reload(landed: bool) -> None:
    world = cluster()
    notes: list[int] = []
    answers = [StoreUnavailable("no answer")]

    def spend(term: Term, broker: int, broker_epoch: int) -> bool:
        fails = bool(answers)
        if not fails or landed:
            fresh = broker_epoch not in notes
            notes.append(broker_epoch)
            if not fails:
                return fresh
        raise answers.pop()

    world.store.spend_suspicion = spend  # type: ignore[method-assign]
    epoch = world.data.brokers[1].epoch
    with pytest.raises(StoreUnavailable):
        world.term.suspicions.suspect(1, epoch)
    world.term.load()
    assert (stored(world).leader, stored(world).isr) == (2, (2, 3))
    assert set(notes) == {epoch}
    assert [fields["target"] for event, fields in world.outbox.events if event == "suspicion"] == [1]


# An end that was heard of, but not written


@pytest.mark.guarantee("C1")
def test_bounce_that_was_heard_of_but_not_written_is_judged_by_the_reload() -> None:
    world = cluster()
    write = world.store.write_states
    node = world.nodes[2]
    world.data.brokers[2] = replace(world.data.brokers[2], epoch=world.data.next_transaction())
    node.epoch = world.data.brokers[2].epoch
    # The leader's own write comes between the bounce and its judgement.
    write(world.store.term, [StateWrite(PARTITION, stored(world), stored(world))])
    world.term.state.states[PARTITION] = stored(world)
    assert 2 in stored(world).isr

    def fails(*_: object) -> Mapping[TopicPartition, LeaderAndIsr | None]:
        raise StoreUnavailable("no answer")

    world.store.write_states = fails  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        world.term.brokers_changed()
    world.store.write_states = write  # type: ignore[method-assign]
    world.term.load()
    assert stored(world).isr == (1, 3)
    world.term.load()
    assert stored(world).isr == (1, 3)


# What is said to brokers of partitions that may be new to them


def said_to_be_new(world: ReassignedCluster, *brokers: int) -> list[bool]:
    """By a load."""
    for node in world.nodes.values():
        node.queue.clear()
    world.term.load()
    return [state.is_new for id_ in brokers for state in told(list(world.nodes[id_].queue))]


def test_successor_says_what_is_new_where_nobody_has_written_since() -> None:
    """The controller that made the partition ended before it told anyone."""
    world = cluster(LeaderAndIsr(1, 0, (1, 2, 3), 1, 0))
    assert said_to_be_new(world, 1, 2, 3) == [True] * 3


def test_successor_says_nothing_is_new_where_a_replica_may_have_had_a_log() -> None:
    world = cluster(LeaderAndIsr(1, 0, (1, 2, 3), 1, 1))
    assert said_to_be_new(world, 1, 2, 3) == [False] * 3


def test_replica_that_registered_anew_since_has_nothing_new() -> None:
    world = cluster(LeaderAndIsr(1, 0, (1, 2, 3), 1, 0))
    world._register(world.nodes[2])
    assert said_to_be_new(world, 2) == [False]


def test_broker_that_is_told_everything_again_hears_of_nothing_new() -> None:
    world = cluster(LeaderAndIsr(1, 0, (1, 2, 3), 1, 0))
    world.term.load()
    for node in world.nodes.values():
        node.queue.clear()
    world.term.send_everything(2)
    assert [state.is_new for state in told(list(world.nodes[2].queue))] == [False]


# Reports of stops


@pytest.mark.guarantee("R12")
def test_report_that_comes_after_the_election_decides_no_later_one() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world.term.load()
    state = world.term.state
    report = {PARTITION: ReplicaReport(False, 5, 1000)}
    world.term.replicas_reported(3, state.brokers[3].epoch, report, {PARTITION: 5})
    assert not state.reports
    world.fail(1)
    world.fail(2)
    assert stored(world).leader == NO_LEADER
    now = stored(world).leader_epoch
    world.term.replicas_reported(3, state.brokers[3].epoch, report, {PARTITION: now})
    assert list(state.reports) == [(PARTITION, 3)]


def asked_under(world: ReassignedCluster, broker: int) -> list[int]:
    """Leader epochs of the questions after this broker's stop that wait to be sent."""
    return [
        dict(request.asked_under)[PARTITION]
        for request in world.nodes[broker].queue
        if request.api_key == ApiKey.REPLICA_REPORT
    ]


@pytest.mark.guarantee("R12")
def test_report_that_was_on_its_way_while_somebody_led_is_asked_for_again() -> None:
    world = cluster(LeaderAndIsr(NO_LEADER, 5, (1,), 1, 3))
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world.term.load()
    state = world.term.state
    assert asked_under(world, 3) == [5]
    world.term.replicas_reported(1, state.brokers[1].epoch, {PARTITION: CLEAN}, {PARTITION: 5})
    assert stored(world).leader == 1
    world.fail(1)
    assert stored(world).leader == NO_LEADER
    assert asked_under(world, 3) == [5, 7]
    world.nodes[3].queue.clear()
    world.term.replicas_reported(3, state.brokers[3].epoch, {PARTITION: ReplicaReport(False, 5, 1000)}, {PARTITION: 5})
    assert not state.reports
    assert asked_under(world, 3) == [7]
    world.term.replicas_reported(3, state.brokers[3].epoch, {PARTITION: ReplicaReport(False, 6, 9)}, {PARTITION: 7})
    assert state.reports == {(PARTITION, 3): ReplicaReport(False, 6, 9)}


@pytest.mark.guarantee("R12")
def test_report_is_forgotten_where_somebody_else_has_written_who_leads() -> None:
    world = cluster(LeaderAndIsr(NO_LEADER, 5, (1,), 1, 3))
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world.term.load()
    state = world.term.state
    report = ReplicaReport(False, 5, 1000)
    world.term.replicas_reported(3, state.brokers[3].epoch, {PARTITION: report}, {PARTITION: 5})
    assert state.reports
    world.data.states[PARTITION] = StoredState(LeaderAndIsr(2, 6, (2,), 2, 3), 99)
    world.term._writer.reread([PARTITION])
    assert stored(world).leader == 2
    assert not state.reports


def test_log_that_is_ahead_of_the_state_costs_one_election() -> None:
    """As after a ZooKeeper that came back from a backup: what was kept is refused, what is elected then is not."""
    world = cluster(LeaderAndIsr(1, 5, (1,), 1, 3))
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world.term.load()
    epoch = world.term.state.brokers[1].epoch
    world.term.epochs_refused(1, epoch, [(TOPIC_ID, 0, 5)])
    assert (stored(world).leader, stored(world).leader_epoch) == (NO_LEADER, 6)
    world.term.replicas_reported(1, epoch, {PARTITION: ReplicaReport(False, 1000, 10)}, {PARTITION: 6})
    assert (stored(world).leader, stored(world).leader_epoch) == (1, 1001)


def test_broker_that_is_no_replica_any_more_is_not_asked_again() -> None:
    world = cluster(LeaderAndIsr(NO_LEADER, 5, (1,), 1, 3))
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world.term.load()
    state = world.term.state
    world.nodes[3].queue.clear()
    topic = state.topics[PARTITION.topic]
    state.topics[PARTITION.topic] = replace(topic, partitions={PARTITION.partition: (1, 2)})
    world.term.replicas_reported(3, state.brokers[3].epoch, {PARTITION: CLEAN}, {PARTITION: 4})
    assert asked_under(world, 3) == []


# What broke off


@pytest.mark.guarantee("controller-writes")
def test_load_that_breaks_off_before_the_failover_is_written_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 2 came back with a new registration while nobody looked: only the load knows, and must write it."""
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world._register(world.nodes[2])
    world._elect()
    assert world.term.loaded
    world.data.states[PARTITION] = StoredState(LeaderAndIsr(1, 5, (1, 2), 1, 3), 1)

    def unavailable(term: Term, writes: Sequence[StateWrite]) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "write_states", unavailable)
        with pytest.raises(StoreUnavailable):
            world.term.load()
    assert not world.term.loaded
    world.term.load()
    assert world.term.loaded
    assert 2 not in stored(world).isr


@pytest.mark.guarantee("controller-writes")
def test_election_whose_answer_was_lost_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    for node in world.nodes.values():
        node.queue.clear()
    write = world.store.write_states

    def lost(term: Term, writes: Sequence[StateWrite]) -> Mapping[TopicPartition, LeaderAndIsr | None]:
        write(term, writes)
        monkeypatch.setattr(world.store, "write_states", write)
        return dict.fromkeys((one.topic_partition for one in writes), None)

    monkeypatch.setattr(world.store, "write_states", lost)
    world.fail(1)
    assert stored(world).leader == 2
    for id_ in (2, 3):
        assert (2, stored(world).leader_epoch) in [
            (state.leader, state.leader_epoch) for state in told(list(world.nodes[id_].queue))
        ]


# Deletions whose end was lost


@pytest.mark.guarantee("controller-writes")
def test_deletion_that_was_done_though_its_answer_was_lost_takes_no_namesake(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    world.data.deletions.add("t")
    world.term.deletions_changed()
    for id_ in (1, 2, 3):
        world.term.replicas_deleted(id_, [PARTITION])
    finish = world.store.finish_deletion

    def lost(term: Term, topic: str) -> None:
        finish(term, topic)
        raise StoreUnavailable("no answer")

    topics = dict(world.data.topics)
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "finish_deletion", lost)
        with pytest.raises(StoreUnavailable):
            world.term.finish_deletions()
    world.data.topics.update(topics)
    for again in (world.term.load, world.term.deletions_changed):
        again()
        assert world.term.finish_deletions() == []
        assert "t" in world.data.topics


def test_late_word_of_a_namesake_that_was_deleted_counts_for_nothing() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    assert world.term.named([(TOPIC_ID, 0), ("B" * 22, 0)]) == [PARTITION]


def test_broker_whose_queue_was_given_up_is_asked_again_to_delete() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    world.data.deletions.add("t")
    world.term.deletions_changed()
    world.nodes[2].queue.clear()
    world.term.send_everything(2)
    assert any(PARTITION in request.deletes for request in world.nodes[2].queue)
