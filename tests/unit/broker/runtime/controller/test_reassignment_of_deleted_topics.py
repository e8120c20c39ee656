"""What a tool asked of a topic through `/admin/reassign_partitions` ends with the topic, and moves no namesake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from broker.core.controller.cluster_state import StoreUnavailable, Topic
from broker.core.controller.stored import Term
from broker.model.ids import BrokerId, TopicPartition
from tests.support.memory_store import Data, Died
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster

pytestmark = pytest.mark.guarantee("C6")

TARGET = (4, 5)
OTHER = TopicPartition("u", 0)
NAMESAKE = Topic("t", "B" * 22, {0: (1, 2, 3)})


class MadeAnewAtOnce(set[str]):
    """Marks of deletions: where one is taken away, the name is free, and a client has waited for it."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self._data = data

    def discard(self, name: object) -> None:
        if name in self:
            assert isinstance(name, str)
            super().discard(name)
            self._data.topics[name] = (NAMESAKE, 0)


@pytest.fixture
def world() -> ReassignedCluster:
    made = ReassignedCluster((1, 2, 3), 5)
    made.settle()
    made.data.deletions = MadeAnewAtOnce(made.data)
    return made


def ask(world: ReassignedCluster) -> None:
    """As a tool does; the copying begins."""
    world.data.reassignments = {PARTITION: TARGET}
    world.step(world.term.admin.reassignments.on_request)
    assert moving(world) == (4, 5, 1, 2, 3)


def moving(world: ReassignedCluster) -> tuple[int, ...]:
    return world.data.topics["t"][0].partitions[0]


def begin_deletion(world: ReassignedCluster) -> None:
    world.data.deletions.add("t")
    world.step(lambda: world.term.deletions_changed())


def all_deleted(world: ReassignedCluster) -> None:
    for id_ in world.nodes:
        world.term.replicas_deleted(id_, [PARTITION])


def finish_deletion(world: ReassignedCluster) -> None:
    """Until it is done, whichever controller does it."""
    for _ in range(3):
        all_deleted(world)
        world.step(lambda: world.term.finish_deletions())
        if not world.data.deletions:
            return
    raise AssertionError("the deletion does not end")


def die(world: ReassignedCluster) -> None:
    """A new controller loads what there is."""

    def event() -> None:
        raise Died

    world.step(event)


def assert_namesake_stays(world: ReassignedCluster) -> None:
    """Under this controller and under the next."""
    for event in (world.term.topics_changed, world.term.admin.reassignments.on_request, lambda: die(world)):
        world.step(event)
        world.settle()
        assert world.data.topics["t"][0] == NAMESAKE
    assert world.data.reassignments is None


def test_request_goes_when_the_deletion_of_its_topic_begins(world: ReassignedCluster) -> None:
    # A replica on a broker that is down is waited for, maybe for days, and tools do not start beside a request.
    ask(world)
    begin_deletion(world)
    assert world.data.reassignments is None
    assert "t" in world.data.topics


def test_request_of_a_topic_that_was_deleted_while_it_moved_does_not_move_its_namesake(
    world: ReassignedCluster,
) -> None:
    ask(world)
    begin_deletion(world)
    finish_deletion(world)
    assert world.data.reassignments is None
    assert_namesake_stays(world)


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("write", range(1, 5))
def test_request_does_not_move_a_namesake_wherever_a_controller_ends(
    world: ReassignedCluster, write: int, landed: bool
) -> None:
    world.data.reassignments = {PARTITION: TARGET}
    world.die_at(write, landed)
    world.step(world.term.admin.reassignments.on_request)
    begin_deletion(world)
    finish_deletion(world)
    assert_namesake_stays(world)


@pytest.mark.parametrize("landed", [False, True])
def test_request_that_was_never_read_goes_before_the_name_is_free(world: ReassignedCluster, landed: bool) -> None:
    begin_deletion(world)
    world.data.reassignments = {PARTITION: TARGET, OTHER: (1,)}
    world.die_at(2, landed)
    all_deleted(world)
    world.step(lambda: world.term.finish_deletions())
    if not landed:
        finish_deletion(world)
    assert_namesake_stays(world)


def test_request_of_a_topic_that_is_gone_goes_before_the_mark_of_its_deletion(world: ReassignedCluster) -> None:
    # As a controller leaves it that ended between the topic and its mark, and did not look at requests. The next ends
    # when it has taken the mark away.
    world.data.topics.clear()
    world.data.states.clear()
    world.data.deletions.add("t")
    world.data.reassignments = {PARTITION: TARGET}
    drop = world.store.drop_deletion

    def last_words(term: Term, topic: str) -> None:
        drop(term, topic)
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.store, "drop_deletion", last_words)
        world.step(lambda: world.term.load())
    assert world.deaths == 1
    assert_namesake_stays(world)


def test_request_of_a_topic_that_somebody_removed_goes_though_its_name_is_taken(world: ReassignedCluster) -> None:
    ask(world)
    del world.data.topics["t"]
    world.data.states.clear()
    world.term.topics_changed()
    world.data.topics["t"] = (NAMESAKE, 0)
    world.step(world.term.topics_changed)
    assert_namesake_stays(world)


def test_requests_for_other_topics_stay(world: ReassignedCluster) -> None:
    world.data.topics["u"] = (Topic("u", "C" * 22, {0: (1, 2)}), 0)
    world.step(world.term.topics_changed)
    world.data.reassignments = {PARTITION: TARGET, OTHER: (3, 4)}
    world.step(world.term.admin.reassignments.on_request)
    begin_deletion(world)
    assert world.data.reassignments == {OTHER: (3, 4)}
    finish_deletion(world)
    assert world.data.reassignments == {OTHER: (3, 4)}
    assert world.data.topics["u"][0].adding == {0: (3, 4)}


def test_request_of_a_deleted_topic_is_not_written_again_with_what_is_left_of_others(world: ReassignedCluster) -> None:
    world.data.topics["u"] = (Topic("u", "C" * 22, {0: (1, 2)}), 0)
    world.step(world.term.topics_changed)
    world.data.reassignments = {PARTITION: TARGET, OTHER: (3, 4)}
    world.step(world.term.admin.reassignments.on_request)
    # All in one batch of events, so that no step is looked for between them; its controller ends as it writes the rest.
    world.data.deletions.add("t")
    world.term.deletions_changed()
    all_deleted(world)
    assert world.term.finish_deletions().keys() == {"t"}
    world.term.topics_changed()
    world.die_at(2, landed=True)
    world.step(lambda: world.term.admin.reassignments.alter({OTHER: (5, 4)}))
    assert world.deaths == 1
    assert world.data.topics["u"][0].adding == {0: (5, 4)}
    assert world.data.topics["t"][0] == NAMESAKE
    assert world.data.reassignments is None


def test_namesake_is_moved_where_a_tool_requests_the_same_again(world: ReassignedCluster) -> None:
    ask(world)
    # All in one batch of events, so that no step is looked for between them.
    world.data.deletions.add("t")
    world.term.deletions_changed()
    all_deleted(world)
    assert world.term.finish_deletions().keys() == {"t"}
    world.term.topics_changed()
    world.data.reassignments = {PARTITION: TARGET}
    world.step(world.term.admin.reassignments.on_request)
    assert world.data.topics["t"][0].adding == {0: TARGET}


def test_request_of_a_tool_that_met_the_withdrawal_is_withdrawn_too(
    world: ReassignedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The znode's version moved between reading and writing: the write is refused, and only said in the log.
    begin_deletion(world)
    world.data.reassignments = {PARTITION: TARGET}
    keep = world.store.keep_reassignments
    refused: list[Mapping[TopicPartition, Sequence[BrokerId]]] = []

    def first_refused(term: Term, targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> None:
        if refused:
            keep(term, targets)
        refused.append(targets)

    monkeypatch.setattr(world.store, "keep_reassignments", first_refused)
    finish_deletion(world)
    assert len(refused) == 2
    assert_namesake_stays(world)


def test_deletion_does_not_end_while_its_request_cannot_be_withdrawn(
    world: ReassignedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_deletion(world)
    world.data.reassignments = {PARTITION: TARGET}
    all_deleted(world)
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "keep_reassignments", lambda term, targets: None)
        with pytest.raises(StoreUnavailable):
            world.term.finish_deletions()
    assert "t" in world.data.deletions
    world.step(world.term.load)
    finish_deletion(world)
    assert_namesake_stays(world)
