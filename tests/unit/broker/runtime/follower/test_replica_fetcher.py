"""A follower's fetcher against a leader whose answers the test writes: what counts as an answer to what."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from broker.core.replication.partition import PartitionState
from broker.model.log_errors import CorruptLog
from broker.runtime.replicas.replica import Replica
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from broker.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from tests.support.following_broker import Follower, result
from tests.support.memory_node import TOPIC, TOPIC_ID
from tests.support.settled_cluster import settled

pytestmark = pytest.mark.guarantee("R1")


def test_older_response_is_no_response_to_a_position_that_a_newer_request_names(follower: Follower) -> None:
    # The long poll, then a second request because partition 1 has a new epoch.
    long_poll = follower.leader.sent[-1]
    follower.follow(1, leader_epoch=1)
    interruption = follower.leader.sent[-1]
    assert interruption is not long_poll
    # The leader answers the first at once, and the second with what its session still holds for partition 0.
    long_poll.respond(result(0, "a", "b"))
    follower.turn()
    third = follower.leader.sent[-1]
    assert third.positions == {0: 2}
    interruption.respond(result(0, "a", "b"))
    follower.turn()
    third.respond(result(0, "c", base=2))
    follower.turn()
    assert follower.log(0).values() == ["a", "b", "c"]
    # Nothing was taken for an error: the next request is there without any time passing.
    assert follower.leader.sent[-1].positions == {0: 3}


def test_response_of_an_earlier_epoch_at_the_same_offset_is_not_taken(follower: Follower) -> None:
    # What the same broker said as leader of epoch 0 must not count in epoch 2, when both begin at offset 0.
    long_poll = follower.leader.sent[-1]
    follower.follow(0, leader_epoch=2)
    long_poll.respond(result(0, "of epoch 0", epoch=0, hw=1))
    follower.turn()
    assert follower.log(0).values() == []
    assert follower.manager.replicas.by_partition[(TOPIC, 0)].high_watermark == 0
    renewed = next(sent for sent in follower.leader.sent if sent.positions == {0: 0} and sent is not long_poll)
    renewed.respond(result(0, "of epoch 2", epoch=2))
    follower.turn()
    assert follower.log(0).values() == ["of epoch 2"]


@pytest.mark.parametrize("fetcher_knows", [False, True])
def test_response_of_an_earlier_epoch_is_not_taken_before_the_next_request_either(
    follower: Follower, fetcher_knows: bool
) -> None:
    # The role is of epoch 2 already; whether or not the fetcher was told, no newer request tells the positions apart.
    long_poll = follower.leader.sent[-1]
    replica = follower.manager.replicas.by_partition[(TOPIC, 0)]
    replica.partition.apply(PartitionState(9, 1, 2, (1, 2), 2, (1, 2)), 0, 1, 1000.0, 0.0)
    if fetcher_knows:
        follower.manager.fetchers.fetchers[1].add(replica, 2)
    long_poll.respond(result(0, "of epoch 0", epoch=0, hw=1))
    follower.turn()
    assert follower.log(0).values() == []
    assert replica.high_watermark == 0


def test_leaders_are_fetched_from_side_by_side_each_with_one_request_for_all_its_partitions() -> None:
    follower = Follower()
    follower.follow(0, 1)
    follower.follow(2, 3, leader=3)
    sent = {broker: leader.sent for broker, leader in follower.leaders.items()}
    assert {broker: [one.positions for one in requests] for broker, requests in sent.items()} == {
        1: [{0: 0, 1: 0}],
        3: [{2: 0, 3: 0}],
    }
    # One that says nothing keeps nobody from the other's records.
    sent[3][-1].respond(result(2, "a"), result(3, "b", "c"))
    follower.turn()
    assert [follower.log(index).values() for index in range(4)] == [[], [], ["a"], ["b", "c"]]
    assert [one.positions for one in sent[3]][1:] == [{2: 1, 3: 2}]
    assert len(sent[1]) == 1


def test_fetcher_without_an_address_sends_as_soon_as_it_is_known() -> None:
    follower = Follower(addresses_known=False)
    follower.follow(0)
    assert not follower.leader.sent
    follower.addresses_known = True
    follower.manager.on_live_brokers([1, 2])
    follower.turn()
    assert [sent.positions for sent in follower.leader.sent] == [{0: 0}]


@pytest.mark.parametrize(("leaders_end", "kept", "paused"), [(1, 1, False), (5, 2, True)])
def test_out_of_range_fetch_is_repeated_at_once_only_where_the_log_was_cut(
    follower: Follower, leaders_end: int, kept: int, paused: bool
) -> None:
    follower.leader.sent[-1].respond(result(0, "a", "b"))
    follower.turn()
    before = len(follower.leader.sent)
    follower.leader.end = leaders_end
    follower.leader.sent[-1].respond(
        fetch.FetchPartitionResult("", TOPIC_ID, 0, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, -1)
    )
    follower.turn()
    again = [sent.positions for sent in follower.leader.sent[before:]]
    assert len(follower.log(0).values()) == kept
    assert ({0: kept} in again) is not paused
    # The other partition is fetched meanwhile; this one is, when its pause is over.
    follower.leader.sent[-1].respond()
    follower.loop.run_due(follower.loop.now + 1000)
    follower.turn()
    assert any(0 in sent.positions for sent in follower.leader.sent[before:])


@pytest.mark.parametrize(
    ("lacks_values", "in_isr", "left"), [(False, False, ["a"]), (True, False, []), (True, True, ["a"])]
)
def test_cut_below_what_was_cleaned_leaves_nothing_that_lost_values_for_what_goes(
    follower: Follower, lacks_values: bool, in_isr: bool, left: list[str]
) -> None:
    follower.leader.sent[-1].respond(result(0, "a", "b"))
    follower.turn()
    role = follower.manager.replicas.by_partition[(TOPIC, 0)].following
    assert role is not None
    role.isr = frozenset({1, 2} if in_isr else {1})
    log = follower.log(0)
    log.lacks_values = lacks_values
    diverging = fetch.FetchPartitionResult(
        "", TOPIC_ID, 0, 0, 0, 0, 0, diverging_epoch=0, diverging_end_offset=1, records=[]
    )
    follower.leader.sent[-1].respond(diverging)
    follower.turn()
    assert log.values() == left
    assert follower.leader.sent[-1].positions == {0: len(left)}


def test_fetcher_that_waits_for_the_flush_of_a_partition_goes_on_when_that_one_is_deleted(follower: Follower) -> None:
    follower.manager.replicas.by_partition[(TOPIC, 0)].group_commit = True
    follower.leader.sent[-1].respond(result(0, "a"))
    follower.turn()
    asked = len(follower.leader.sent)
    (flush,) = follower.log(0).commits
    assert follower.manager.group_commit.behind
    states = [StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, 1, True)], TOPIC_ID)]
    follower.manager.stop_replicas(StopReplicaRequest(9, False, 1, 9, states))
    follower.turn()
    flush[1]()
    follower.turn()
    assert (TOPIC, 0) not in follower.manager.replicas.by_partition
    assert len(follower.leader.sent) == asked + 1


def test_fetcher_that_waits_for_a_flush_goes_on_when_group_commit_is_turned_off(follower: Follower) -> None:
    replica = follower.manager.replicas.by_partition[(TOPIC, 0)]
    replica.group_commit = True
    follower.leader.sent[-1].respond(result(0, "a"))
    follower.turn()
    asked = len(follower.leader.sent)
    assert follower.manager.group_commit.behind
    follower.manager.hosting.configure(replica)
    assert not replica.group_commit
    follower.turn()
    assert not follower.manager.group_commit.behind
    assert [sent.positions for sent in follower.leader.sent[asked:]] == [{0: 1}]


def test_late_response_about_the_leaders_end_cuts_nothing_that_was_fetched_since(follower: Follower) -> None:
    follower.leader.sent[-1].respond(result(0, "a", "b"))
    follower.turn()
    late = follower.manager.fetchers.fetchers[1]._out_of_range
    followed = next(f for f in follower.manager.fetchers.fetchers[1].partitions.values() if f.key[1] == 0)
    follower.leader.end = 1
    leo = follower.log(0).staged_end_offset
    follower.leader.sent[-1].respond(result(0, "c", base=2))
    follower.turn()
    late._reset(followed, leo, 0, 1)
    assert follower.log(0).values() == ["a", "b", "c"]
    late._reset(followed, follower.log(0).staged_end_offset, 0, 1)
    assert follower.log(0).values() == ["a"]


def behind_its_disk(follower: Follower) -> Callable[[], None]:
    """Partition 1's flush holds all fetches back; returns what ends it."""
    follower.manager.replicas.by_partition[(TOPIC, 1)].group_commit = True
    follower.leader.sent[-1].respond(result(1, "a"))
    follower.turn()
    assert follower.manager.group_commit.behind

    def flushed() -> None:
        follower.log(1).finish_commits()
        follower.turn()

    return flushed


def test_partition_that_is_followed_anew_and_left_between_two_fetches_is_forgotten(follower: Follower) -> None:
    flushed = behind_its_disk(follower)
    before = len(follower.leader.sent)
    follower.follow(0, leader_epoch=6)
    follower.follow(0, leader_epoch=7, leader=3)
    assert len(follower.leader.sent) == before
    flushed()
    (then,) = follower.leader.sent[before:]
    assert (then.positions, then.forgotten) == ({1: 1}, [0])
    assert follower.leaders[3].sent[-1].positions == {0: 0}


def test_partition_that_is_left_and_followed_anew_between_two_fetches_is_named_and_not_forgotten(
    follower: Follower,
) -> None:
    flushed = behind_its_disk(follower)
    before = len(follower.leader.sent)
    follower.follow(0, leader_epoch=6, leader=3)
    follower.follow(0, leader_epoch=7)
    flushed()
    (then,) = follower.leader.sent[before:]
    assert (then.positions, then.forgotten) == ({0: 0, 1: 1}, [])
    # What the session said of it before is no answer to that.
    follower.follow(0, leader_epoch=8, leader=3)
    then.respond()
    follower.turn()
    assert follower.leader.sent[-1].forgotten == [0]


def test_partition_whose_pause_is_over_before_it_was_forgotten_is_named_and_not_forgotten(follower: Follower) -> None:
    long_poll = follower.leader.sent[-1]
    follower.follow(1, leader_epoch=1)
    long_poll.respond(fetch.FetchPartitionResult("", TOPIC_ID, 0, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1))
    follower.turn()
    interruption = follower.leader.sent[-1]
    assert interruption.positions == {1: 0}
    follower.loop.run_due(follower.loop.now + 1000)
    follower.turn()
    again = follower.leader.sent[-1]
    assert again is not interruption
    assert (again.positions, again.forgotten) == ({0: 0}, [])


def test_log_found_damaged_by_a_cut_after_an_out_of_range_response_goes_offline(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.leader.sent[-1].respond(result(0, "a", "b"))
    follower.turn()
    replica = follower.manager.replicas.by_partition[(TOPIC, 0)]

    def damaged(offset: int) -> None:
        raise CorruptLog(replica.topic_partition, "a segment", "flipped")

    monkeypatch.setattr(follower.log(0), "truncate_to", damaged)
    follower.leader.end = 1
    follower.leader.sent[-1].respond(
        fetch.FetchPartitionResult("", TOPIC_ID, 0, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, -1)
    )
    follower.turn()
    assert (replica.offline, replica.damaged) == (True, True)
    assert not follower.manager.fetchers.fetchers[1].follows(replica)


def test_follower_whose_log_fails_goes_offline_and_is_fetched_for_no_more() -> None:
    cluster = settled()
    node = cluster.nodes[2]
    replica = node.up.replicas.by_partition[(TOPIC, 0)]
    node.log.fail_writes = True
    cluster.produce(1, "a", acks=1)
    cluster.settle()
    assert replica.offline
    assert not any(fetcher.follows(replica) for fetcher in node.up.fetchers.fetchers.values())


def test_partition_whose_records_cannot_be_taken_keeps_none_of_the_others_from_theirs(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = follower.manager.fetchers.fetchers[1]._processor
    take = processor.take

    def failing(replica: Replica, *rest: Any) -> None:
        if replica.topic_partition.partition == 0:
            raise RuntimeError("nobody foresaw this")
        take(replica, *rest)

    monkeypatch.setattr(processor, "take", failing)
    # The connection outlives what a callback raises.
    with contextlib.suppress(RuntimeError):
        follower.leader.sent[-1].respond(result(0, "a"), result(1, "b"))
    follower.turn()
    assert [follower.log(index).values() for index in (0, 1)] == [[], ["b"]]
    monkeypatch.setattr(processor, "take", take)
    follower.leader.sent[-1].respond()
    follower.loop.run_due(follower.loop.now + 1000)
    follower.turn()
    assert follower.leader.sent[-1].positions == {0: 0}
    follower.leader.sent[-1].respond(result(0, "a"))
    follower.turn()
    assert follower.log(0).values() == ["a"]
