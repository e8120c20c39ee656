"""What a follower takes of one partition's fetch answer: batches, where they end, the watermark, the log start."""

from __future__ import annotations

import pytest

from broker.wire.messages import fetch
from tests.support.following_broker import Follower, result
from tests.support.memory_node import TOPIC, TOPIC_ID

pytestmark = pytest.mark.guarantee("R1")


def _epoch_5_up_to_offset_2(follower: Follower) -> None:
    follower.follow(0, leader_epoch=5)
    follower.leader.sent[-1].respond(result(0, "a", "b", epoch=5))
    follower.turn()
    assert follower.leader.sent[-1].positions == {0: 2}


@pytest.mark.parametrize("epoch", [6, 4], ids=["of-its-next-leader", "older-after-an-unclean-election"])
def test_batch_that_a_deposed_leader_has_in_the_place_of_its_own_is_not_taken(follower: Follower, epoch: int) -> None:
    # KAFKA-18723: its answer was under way while it cut its log and wrote its leader's batches where its own had been.
    _epoch_5_up_to_offset_2(follower)
    asked = len(follower.leader.sent)
    follower.leader.sent[-1].respond(result(0, "its leader's", base=2, epoch=epoch, hw=3))
    follower.turn()
    assert follower.log(0).values() == ["a", "b"]
    assert follower.log(0).latest_epoch == 5
    assert follower.manager.replicas.by_partition[(TOPIC, 0)].high_watermark == 0
    # It asks again, but not at once: there is nothing new that it could be told.
    assert all(sent.positions.get(0) is None for sent in follower.leader.sent[asked:])
    follower.loop.advance(follower.manager.settings.replica_fetch_backoff_ms)
    follower.turn()
    assert follower.leader.sent[-1].positions == {0: 2}


@pytest.mark.parametrize("epoch", [6, 4])
def test_batches_before_one_that_a_deposed_leader_had_from_another_are_taken(follower: Follower, epoch: int) -> None:
    _epoch_5_up_to_offset_2(follower)
    records = bytes(result(0, "c", "d", base=2, epoch=5).records_view)
    records += bytes(result(0, "its leader's", base=4, epoch=epoch).records_view)
    records += bytes(result(0, "e", base=5, epoch=5).records_view)
    answer = fetch.FetchPartitionResult("", TOPIC_ID, 0, 0, 4, 4, 0, records=[memoryview(records)])
    follower.leader.sent[-1].respond(answer)
    follower.turn()
    assert follower.log(0).values() == ["a", "b", "c", "d"]
    assert follower.leader.sent[-1].positions == {0: 4}


def test_epochs_that_fall_in_the_leaders_own_log_are_taken_when_it_says_so_again(follower: Follower) -> None:
    # A bit of an epoch has flipped there, or ZooKeeper was put back: nobody would ever get past it (ADR 7).
    follower.follow(0, leader_epoch=10)
    records = b"".join(
        bytes(result(0, str(e), base=base, epoch=e).records_view) for base, e in enumerate((4, 9, 4, 4, 2))
    )
    for taken, left in ((2, records), (4, records[2 * len(records) // 5 :]), (5, records[4 * len(records) // 5 :])):
        for _ in range(2):
            follower.loop.advance(follower.manager.settings.replica_fetch_backoff_ms)
            follower.turn()
            if follower.log(0).staged_end_offset < taken:
                answer = fetch.FetchPartitionResult("", TOPIC_ID, 0, 0, 5, 5, 0, records=[memoryview(left)])
                follower.leader.sent[-1].respond(answer)
                follower.turn()
        assert follower.log(0).staged_end_offset == taken
    assert follower.log(0).values() == ["4", "9", "4", "4", "2"]


def test_older_truncation_of_the_lab_takes_what_it_gets() -> None:
    # Before KIP-101 logs were cut to the watermark, and epochs could fall along one that nobody had damaged.
    follower = Follower(more={"replica.truncation": "high-watermark"})
    follower.follow(0, 1)
    follower.open_session()
    _epoch_5_up_to_offset_2(follower)
    follower.leader.sent[-1].respond(result(0, "older", base=2, epoch=4))
    follower.turn()
    assert follower.log(0).values() == ["a", "b", "older"]


def test_batches_of_rising_epochs_and_of_none_are_taken(follower: Follower) -> None:
    follower.follow(0, leader_epoch=9)
    epochs = (5, -1, 7, 9, 9)
    records = b"".join(bytes(result(0, str(e), base=base, epoch=e).records_view) for base, e in enumerate(epochs))
    answer = fetch.FetchPartitionResult("", TOPIC_ID, 0, 0, 4, 4, 0, records=[memoryview(records)])
    follower.leader.sent[-1].respond(answer)
    follower.turn()
    assert follower.log(0).values() == ["5", "-1", "7", "9", "9"]


def test_log_start_follows_the_leaders_up_to_the_watermark_and_no_further(follower: Follower) -> None:
    # What this follower does not know to be committed it may yet have to fetch again: it says from where it can.
    records = result(0, "a", "b", "c", "d").records_view
    follower.leader.sent[-1].respond(fetch.FetchPartitionResult("", TOPIC_ID, 0, 0, 2, 2, 3, records=[records]))
    follower.turn()
    log = follower.log(0)
    assert (log.staged_end_offset, follower.manager.replicas.by_partition[(TOPIC, 0)].high_watermark) == (4, 2)
    assert log.log_start_offset == 2
    follower.leader.sent[-1].respond(fetch.FetchPartitionResult("", TOPIC_ID, 0, 0, 4, 4, 3, records=[]))
    follower.turn()
    assert log.log_start_offset == 3
