"""The metadata cache: which controller's requests count, and what each leaves of what was known."""

from __future__ import annotations

import pytest

from broker.runtime.metadata.cache import Address, MetadataCache
from broker.wire.errors import ErrorCode
from tests.support.metadata_updates import EPOCH, OLD_ID, partition, update

pytestmark = pytest.mark.guarantee("C8")


def test_older_controller_is_refused_and_changes_nothing(cache: MetadataCache) -> None:
    cache.update(update({}, controller_epoch=5))
    assert cache.update(update({"x": [partition(1, [1])]}, controller_epoch=4)) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert "x" not in cache.topics


def test_request_for_another_registration_is_refused(cache: MetadataCache) -> None:
    assert cache.update(update({}, broker_epoch=EPOCH - 1)) is ErrorCode.STALE_BROKER_EPOCH


def test_update_merges_partitions_and_replaces_brokers(cache: MetadataCache) -> None:
    cache.update(update({"t": [partition(2, [2, 1], 1)]}, live=(2, 3)))
    assert sorted(cache.topics["t"].partitions) == [0, 1]
    assert sorted(cache.brokers) == [2, 3]
    assert cache.address(3) == Address("h3", 9003)
    assert cache.address(1) is None


def test_topic_of_an_illegal_name_is_not_known(cache: MetadataCache) -> None:
    cache.update(update({"a/b": [partition(1, [1])], "..": [partition(1, [1])], "u": [partition(1, [1])]}))
    assert list(cache.topics) == ["t", "u"]


def test_first_update_of_new_controller_replaces_topics(cache: MetadataCache) -> None:
    cache.update(update({"u": [partition(1, [1])]}, controller_epoch=2))
    assert list(cache.topics) == ["u"]


def test_first_update_takes_no_partition_from_a_topic_that_it_names(cache: MetadataCache) -> None:
    """A controller that cannot read the state of a partition leaves it out. Coordinators are found by the count, and a
    marker is not owed to a partition that is no more.
    """
    cache.update(update({"t": [partition(2, [2], index=1), partition(1, [1], index=2)]}))
    cache.update(update({"t": [partition(2, [2, 1], epoch=1, index=0)]}, controller_epoch=2))
    assert cache.partition_count("t") == 3
    assert cache.leader_of("t", 0) == (2, 1), "what it does name counts, whatever was known"
    assert cache.leader_of("t", 2) == (1, 3)
    cache.update(update({"t": [partition(1, [1], index=0)]}, controller_epoch=3, topic_id="B" * 22))
    assert cache.partition_count("t") == 1, "another topic of that name"


def test_partitions_are_counted_by_the_largest_index(cache: MetadataCache) -> None:
    """Of one whose replicas were all away when the topic was made no update tells before one of them is back."""
    cache.update(update({"u": [partition(1, [1], index=3)]}, topic_id="B" * 22))
    assert (cache.partition_count("u"), cache.partition_count("v")) == (4, 0)


def test_update_that_is_whole_leaves_no_topic_that_it_does_not_name(cache: MetadataCache, forgotten: list[str]) -> None:
    cache.update(update({"u": [partition(1, [1])]}, topic_id="B" * 22))
    cache.update(update({"u": [partition(2, [2], epoch=2)]}, topic_id="B" * 22, whole=True))
    assert list(cache.topics) == ["u"]
    assert cache.leader_of("u", 0) == (1, 3), "what is older than what is known is passed over all the same"
    assert forgotten == ["t"]
    assert (cache.name_of(OLD_ID), cache.name_of("B" * 22)) == (None, "u")


def test_first_update_without_topics_counts_where_it_is_whole(cache: MetadataCache) -> None:
    cache.update(update({}, controller_epoch=2))
    assert list(cache.topics) == ["t"], "Kafka's controller tells of the brokers first"
    cache.update(update({}, controller_epoch=3, whole=True))
    assert not cache.topics


def test_topic_that_a_whole_update_did_not_name_may_come_back(cache: MetadataCache) -> None:
    cache.update(update({}, whole=True))
    cache.update(update({"t": [partition(1, [1, 2])]}))
    assert list(cache.topics) == ["t"]


def test_topic_under_deletion_vanishes_with_its_settings(cache: MetadataCache, forgotten: list[str]) -> None:
    cache.update(update({"t": [partition(-2, [1, 2])]}))
    assert "t" not in cache.topics
    assert forgotten == ["t"]


def test_topic_made_again_under_new_id_loses_old_partitions(cache: MetadataCache) -> None:
    cache.update(update({"t": [partition(1, [1], 5)]}, topic_id="B" * 22))
    assert list(cache.topics["t"].partitions) == [5]


def test_topic_that_lost_its_id_for_a_while_is_the_same_one_again(cache: MetadataCache) -> None:
    for topic_id, leader, epoch in ((OLD_ID, 1, 3), ("", 1, 4), (OLD_ID, 2, 5)):
        cache.update(update({"t": [partition(leader, [1, 2], epoch=epoch)]}, topic_id=topic_id))
    assert cache.leader_of("t", 0) == (2, 5)
    assert cache.topic_id("t") == OLD_ID


def test_older_state_that_comes_late_changes_nothing(cache: MetadataCache) -> None:
    cache.update(update({"t": [partition(2, [2], epoch=4)]}))
    cache.update(update({"t": [partition(1, [1, 2], epoch=3)]}))
    assert cache.leader_of("t", 0) == (2, 4)


def test_late_update_of_a_deleted_topic_hurts_no_topic_of_its_name(cache: MetadataCache) -> None:
    cache.update(update({"t": [partition(-2, [1, 2])]}))
    cache.update(update({"t": [partition(1, [1, 2])]}))
    assert "t" not in cache.topics
    cache.update(update({"t": [partition(1, [1], epoch=0)]}, topic_id="B" * 22))
    cache.update(update({"t": [partition(-2, [1, 2])]}))
    cache.update(update({"t": [partition(2, [2], epoch=9)]}))
    assert cache.leader_of("t", 0) == (1, 0)


def test_new_controllers_update_counts_on_a_topic_that_the_one_before_began_to_delete(cache: MetadataCache) -> None:
    cache.update(update({"t": [partition(-2, [1, 2])]}))
    cache.update(update({"t": [partition(1, [1, 2])]}, controller_epoch=2))
    assert cache.leader_of("t", 0) == (1, 3)


@pytest.fixture
def deleted(cache: MetadataCache) -> list[str]:
    """Names of topics of whose deletion listeners were told."""
    told: list[str] = []
    cache.add_deletion_listener(told.append)
    return told


@pytest.mark.parametrize("missed", ["a change of controllers", "a new registration", "a dropped queue"])
def test_deletion_that_was_missed_shows_by_the_id_of_the_next_topic(
    cache: MetadataCache, deleted: list[str], missed: str
) -> None:
    epochs = {
        "a change of controllers": (2, EPOCH),
        "a new registration": (1, EPOCH + 1),
        "a dropped queue": (1, EPOCH),
    }
    controller_epoch, broker_epoch = epochs[missed]
    cache._broker_epoch = lambda: broker_epoch
    whole = {"u": [partition(1, [1])]}
    cache.update(
        update(whole, topic_id="B" * 22, whole=True, controller_epoch=controller_epoch, broker_epoch=broker_epoch)
    )
    assert deleted == [], "that update may have been late"
    again = update(
        {"t": [partition(1, [1])]}, topic_id="C" * 22, controller_epoch=controller_epoch, broker_epoch=broker_epoch
    )
    cache.update(again)
    cache.update(again)
    assert deleted == ["t"]
    cache.update(
        update({"t": [partition(2, [1, 2])]}, controller_epoch=controller_epoch, broker_epoch=broker_epoch),
    )
    assert cache.topic_id("t") == "C" * 22, "the topic before does not come back"


def test_topic_that_is_found_again_was_not_deleted(cache: MetadataCache, deleted: list[str]) -> None:
    cache.update(update({"t": [partition(1, [1, 2])]}, controller_epoch=2))
    cache.update(update({}, controller_epoch=2, whole=True))
    cache.update(update({"t": [partition(1, [1, 2])]}, controller_epoch=2))
    cache.update(update({"t": [partition(1, [1, 2])]}, controller_epoch=2, topic_id=""))
    cache.update(update({"t": [partition(1, [1, 2])]}, controller_epoch=3))
    assert deleted == []
    cache.update(update({"t": [partition(-2, [1, 2])]}, controller_epoch=3))
    assert deleted == ["t"]
    cache.update(update({"t": [partition(1, [1])]}, controller_epoch=3, topic_id="B" * 22))
    assert deleted == ["t"], "of each deletion once"


def test_listeners_hear_every_update(cache: MetadataCache) -> None:
    heard: list[int] = []
    cache.add_listener(lambda: heard.append(cache.generation))
    cache.update(update({}))
    cache.update(update({}, broker_epoch=1))
    assert len(heard) == 1


def test_listener_that_fails_keeps_neither_the_others_nor_the_response(cache: MetadataCache) -> None:
    heard: list[str] = []

    def fails() -> None:
        raise ValueError("this cannot be used")

    cache.add_listener(fails)
    cache.add_listener(lambda: heard.append("told"))
    assert cache.update(update({})) is ErrorCode.NONE
    assert heard == ["told"]


def test_leader_of_and_has_partition(cache: MetadataCache) -> None:
    assert cache.leader_of("t", 0) == (1, 3)
    assert cache.leader_of("t", 1) == (-1, -1)
    assert cache.has_partition("t", 0)
    assert not cache.has_partition("u", 0)
    assert set(cache.live_brokers() or ()) == {1, 2}


def test_assigned_brokers_are_those_of_all_replicas_and_follow_the_cluster(cache: MetadataCache) -> None:
    assert cache.assigned_brokers() == {1, 2}
    cache.update(update({"t": [partition(1, [1, 7], 1)]}, live=(1,)))
    assert cache.assigned_brokers() == {1, 2, 7}
    cache.update(update({"t": [partition(-2, [1, 2]), partition(-2, [1, 7], 1)]}))
    assert cache.assigned_brokers() == frozenset()
