"""A deletion takes the topic that was asked for and no namesake, though its answer or its requests were lost."""

from __future__ import annotations

import pytest

from broker.core.controller.cluster_state import LeaderAndIsr, StoreUnavailable
from broker.core.controller.stored import Term
from tests.support.reassigned_cluster import PARTITION, TOPIC_ID
from tests.support.stored_partition import cluster


@pytest.mark.guarantee("controller-writes")
def test_deletion_that_was_done_though_its_response_was_lost_takes_no_namesake(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_late_response_about_a_namesake_that_was_deleted_counts_for_nothing() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    assert world.term.named([(TOPIC_ID, 0), ("B" * 22, 0)]) == [PARTITION]


def test_broker_whose_queue_was_given_up_gets_its_deletion_again() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    world.data.deletions.add("t")
    world.term.deletions_changed()
    world.nodes[2].queue.clear()
    world.term.send_everything(2)
    assert any(PARTITION in request.deletes for request in world.nodes[2].queue)
