"""A follower's fetcher against a leader whose answers the test writes: what counts as an answer to what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest

from broker.config.settings import Settings
from broker.model.ids import BrokerId
from broker.model.log_errors import CorruptLog
from broker.runtime.ports import Peer
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.replicas.ports import AlterPartitionSender
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from broker.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from broker.wire.record_batch import stamp
from broker.wire.records import NewRecord, encode_batch
from tests.support.fake_loop import FakeLoop
from tests.support.memory_cluster import ProducerIds
from tests.support.memory_log import MemoryLog, MemoryStore
from tests.support.memory_node import TOPIC, TOPIC_ID, RecordingEventLog

pytestmark = pytest.mark.guarantee("R1")

VERSION = 15
SESSION = 77


class Sent:
    """One fetch request of the follower."""

    def __init__(
        self, body: bytes, on_response: Callable[[memoryview], None], on_failure: Callable[[str], None]
    ) -> None:
        self.request = fetch.decode_request(VERSION, memoryview(body))
        self._on_response = on_response
        self.fail = on_failure

    @property
    def forgotten(self) -> list[int]:
        return [part.partition for part in self.request.forgotten]

    @property
    def positions(self) -> dict[int, int]:
        """Fetch offset by partition, of those that are named."""
        return {part.partition: part.fetch_offset for part in self.request.partitions}

    def answer(self, *results: fetch.FetchPartitionResult, session_id: int = SESSION, error: int = 0) -> None:
        chunks = fetch.encode_response(VERSION, list(results), session_id=session_id, error=error)
        self._on_response(memoryview(b"".join(bytes(chunk) for chunk in chunks)))


class Leader:
    """The peer; keeps the fetches that it is sent, and answers ListOffsets with `end`, or 0 for the start."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.end = 0

    def send(
        self,
        api_key: int,
        api_version: int,
        body: bytes,
        on_response: Callable[[memoryview], None],
        on_failure: Callable[[str], None],
        timeout_ms: float,
    ) -> int:
        if api_key == ApiKey.LIST_OFFSETS:
            asked = ListOffsetsRequest.decode(api_version, body).topics[0].partitions[0]
            offset = self.end if asked.timestamp == -1 else 0
            found = ListOffsetsPartitionResponse(asked.partition_index, 0, -1, offset, 0)
            answer = ListOffsetsResponse(0, [ListOffsetsTopicResponse(TOPIC, [found])])
            on_response(memoryview(answer.encode(api_version)))
            return 0
        self.sent.append(Sent(body, on_response, on_failure))
        return len(self.sent)

    def close(self) -> None: ...


class Topics:
    def overrides(self, topic: str) -> Mapping[str, str]:
        return {}

    def has_partition(self, topic: str, partition: int) -> bool:
        return True

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        return -1, -1

    def live_brokers(self) -> Collection[int] | None:
        return None


class NoController(AlterPartitionSender):
    def send(self, *_: object) -> None:
        raise AssertionError("a follower proposes nothing")


class Follower:
    """Broker 2, which follows broker 1 in two partitions of a topic."""

    def __init__(self, addresses_known: bool = True, more: Mapping[str, str] | None = None) -> None:
        self.loop = FakeLoop()
        self.store = MemoryStore()
        self.leader = Leader()
        self.leaders = {1: self.leader, 3: Leader()}
        self.addresses_known = addresses_known
        needed = {"broker.id": "2", "zookeeper.connect": "zk:2181", "log.dirs": "/none"}
        settings = Settings.parse({**needed, **(more or {})})
        self.manager = ReplicaManager(
            settings,
            self.loop,
            self.store,
            RecordingEventLog(2, "02"),
            NoController(),
            self._peer,
            Topics(),
            ProducerIds(),
            lambda: 9,
            wall_ms=lambda: 0,
        )
        self.manager.startup()

    def _peer(self, broker: BrokerId) -> Peer | None:
        return self.leaders[broker] if self.addresses_known else None

    def follow(self, *partitions: int, leader_epoch: int = 0, leader: int = 1) -> None:
        states = [
            LeaderAndIsrPartitionState(index, 1, leader, leader_epoch, [leader, 2], leader_epoch, [leader, 2])
            for index in partitions
        ]
        topics = [LeaderAndIsrTopicState(TOPIC, TOPIC_ID, states)]
        answer = self.manager.apply_leader_and_isr(LeaderAndIsrRequest(9, False, 1, 9, 0, topics, []), 6)
        assert all(part.error_code == 0 for part in answer.topics[0].partition_errors)
        self.turn()

    def turn(self) -> None:
        self.loop.run_soon()
        self.manager.end_of_turn()

    def log(self, partition: int) -> MemoryLog:
        log = self.manager.replicas.by_partition[(TOPIC, partition)].log
        assert isinstance(log, MemoryLog)
        return log

    def open_session(self) -> None:
        self.leader.sent[-1].answer()
        self.turn()


def result(partition: int, *values: str, base: int = 0, epoch: int = 0, hw: int = 0) -> fetch.FetchPartitionResult:
    """An answer with one batch per value."""
    records = bytearray()
    for place, value in enumerate(values):
        batch = bytearray(encode_batch([NewRecord(None, value.encode())], timestamps=1))
        stamp(memoryview(batch), 0, base + place, epoch)
        records += batch
    return fetch.FetchPartitionResult(
        "", TOPIC_ID, partition, 0, hw, hw, 0, records=[memoryview(records)] if records else []
    )


@pytest.fixture
def follower() -> Follower:
    follower = Follower()
    follower.follow(0, 1)
    follower.open_session()
    return follower


def test_older_answer_is_no_answer_to_a_position_that_a_newer_request_names(follower: Follower) -> None:
    # The long poll, then a second request because partition 1 has a new epoch.
    long_poll = follower.leader.sent[-1]
    follower.follow(1, leader_epoch=1)
    interruption = follower.leader.sent[-1]
    assert interruption is not long_poll
    # The leader answers the first at once, and the second with what its session still holds for partition 0.
    long_poll.answer(result(0, "a", "b"))
    follower.turn()
    third = follower.leader.sent[-1]
    assert third.positions == {0: 2}
    interruption.answer(result(0, "a", "b"))
    follower.turn()
    third.answer(result(0, "c", base=2))
    follower.turn()
    assert follower.log(0).values() == ["a", "b", "c"]
    # Nothing was taken for an error: the next request is there without any time passing.
    assert follower.leader.sent[-1].positions == {0: 3}


def test_answer_of_an_earlier_epoch_at_the_same_offset_is_not_taken(follower: Follower) -> None:
    # What the same broker said as leader of epoch 0 must not count in epoch 2, when both begin at offset 0.
    long_poll = follower.leader.sent[-1]
    follower.follow(0, leader_epoch=2)
    long_poll.answer(result(0, "of epoch 0", epoch=0, hw=1))
    follower.turn()
    assert follower.log(0).values() == []
    assert follower.manager.replicas.by_partition[(TOPIC, 0)].high_watermark == 0
    renewed = next(sent for sent in follower.leader.sent if sent.positions == {0: 0} and sent is not long_poll)
    renewed.answer(result(0, "of epoch 2", epoch=2))
    follower.turn()
    assert follower.log(0).values() == ["of epoch 2"]


def _epoch_5_up_to_offset_2(follower: Follower) -> None:
    follower.follow(0, leader_epoch=5)
    follower.leader.sent[-1].answer(result(0, "a", "b", epoch=5))
    follower.turn()
    assert follower.leader.sent[-1].positions == {0: 2}


@pytest.mark.parametrize("epoch", [6, 4], ids=["of-its-next-leader", "older-after-an-unclean-election"])
def test_batch_that_a_deposed_leader_has_in_the_place_of_its_own_is_not_taken(follower: Follower, epoch: int) -> None:
    # KAFKA-18723: its answer was under way while it cut its log and wrote its leader's batches where its own had been.
    _epoch_5_up_to_offset_2(follower)
    asked = len(follower.leader.sent)
    follower.leader.sent[-1].answer(result(0, "its leader's", base=2, epoch=epoch, hw=3))
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
    follower.leader.sent[-1].answer(answer)
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
            if follower.log(0).leo < taken:
                answer = fetch.FetchPartitionResult("", TOPIC_ID, 0, 0, 5, 5, 0, records=[memoryview(left)])
                follower.leader.sent[-1].answer(answer)
                follower.turn()
        assert follower.log(0).leo == taken
    assert follower.log(0).values() == ["4", "9", "4", "4", "2"]


def test_older_truncation_of_the_lab_takes_what_it_gets() -> None:
    # Before KIP-101 logs were cut to the watermark, and epochs could fall along one that nobody had damaged.
    follower = Follower(more={"replica.truncation": "high-watermark"})
    follower.follow(0, 1)
    follower.open_session()
    _epoch_5_up_to_offset_2(follower)
    follower.leader.sent[-1].answer(result(0, "older", base=2, epoch=4))
    follower.turn()
    assert follower.log(0).values() == ["a", "b", "older"]


def test_batches_of_rising_epochs_and_of_none_are_taken(follower: Follower) -> None:
    follower.follow(0, leader_epoch=9)
    epochs = (5, -1, 7, 9, 9)
    records = b"".join(bytes(result(0, str(e), base=base, epoch=e).records_view) for base, e in enumerate(epochs))
    answer = fetch.FetchPartitionResult("", TOPIC_ID, 0, 0, 4, 4, 0, records=[memoryview(records)])
    follower.leader.sent[-1].answer(answer)
    follower.turn()
    assert follower.log(0).values() == ["5", "-1", "7", "9", "9"]


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
    sent[3][-1].answer(result(2, "a"), result(3, "b", "c"))
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
    follower.leader.sent[-1].answer(result(0, "a", "b"))
    follower.turn()
    before = len(follower.leader.sent)
    follower.leader.end = leaders_end
    follower.leader.sent[-1].answer(
        fetch.FetchPartitionResult("", TOPIC_ID, 0, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, -1)
    )
    follower.turn()
    again = [sent.positions for sent in follower.leader.sent[before:]]
    assert len(follower.log(0).values()) == kept
    assert ({0: kept} in again) is not paused
    # The other partition is fetched meanwhile; this one is, when its pause is over.
    follower.leader.sent[-1].answer()
    follower.loop.run_due(follower.loop.now + 1000)
    follower.turn()
    assert any(0 in sent.positions for sent in follower.leader.sent[before:])


@pytest.mark.parametrize(
    ("lacks_values", "in_isr", "left"), [(False, False, ["a"]), (True, False, []), (True, True, ["a"])]
)
def test_cut_below_what_was_cleaned_leaves_nothing_that_lost_values_for_what_goes(
    follower: Follower, lacks_values: bool, in_isr: bool, left: list[str]
) -> None:
    follower.leader.sent[-1].answer(result(0, "a", "b"))
    follower.turn()
    role = follower.manager.replicas.by_partition[(TOPIC, 0)].following
    assert role is not None
    role.isr = frozenset({1, 2} if in_isr else {1})
    log = follower.log(0)
    log.lacks_values = lacks_values
    diverging = fetch.FetchPartitionResult(
        "", TOPIC_ID, 0, 0, 0, 0, 0, diverging_epoch=0, diverging_end_offset=1, records=[]
    )
    follower.leader.sent[-1].answer(diverging)
    follower.turn()
    assert log.values() == left
    assert follower.leader.sent[-1].positions == {0: len(left)}


def test_fetcher_that_waits_for_the_flush_of_a_partition_goes_on_when_that_one_is_deleted(follower: Follower) -> None:
    follower.manager.replicas.by_partition[(TOPIC, 0)].group_commit = True
    follower.leader.sent[-1].answer(result(0, "a"))
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
    follower.leader.sent[-1].answer(result(0, "a"))
    follower.turn()
    asked = len(follower.leader.sent)
    assert follower.manager.group_commit.behind
    follower.manager.hosting.configure(replica)
    assert not replica.group_commit
    follower.turn()
    assert not follower.manager.group_commit.behind
    assert [sent.positions for sent in follower.leader.sent[asked:]] == [{0: 1}]


def test_late_answer_to_where_the_leaders_log_is_cuts_nothing_that_was_fetched_since(follower: Follower) -> None:
    follower.leader.sent[-1].answer(result(0, "a", "b"))
    follower.turn()
    late = follower.manager.fetchers.fetchers[1]._out_of_range
    followed = next(f for f in follower.manager.fetchers.fetchers[1].partitions.values() if f.key[1] == 0)
    follower.leader.end = 1
    leo = follower.log(0).leo
    follower.leader.sent[-1].answer(result(0, "c", base=2))
    follower.turn()
    late._reset(followed, leo, 0, 1)
    assert follower.log(0).values() == ["a", "b", "c"]
    late._reset(followed, follower.log(0).leo, 0, 1)
    assert follower.log(0).values() == ["a"]


def behind_its_disk(follower: Follower) -> Callable[[], None]:
    """Partition 1's flush holds all fetches back; returns what ends it."""
    follower.manager.replicas.by_partition[(TOPIC, 1)].group_commit = True
    follower.leader.sent[-1].answer(result(1, "a"))
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
    then.answer()
    follower.turn()
    assert follower.leader.sent[-1].forgotten == [0]


def test_partition_whose_pause_is_over_before_it_was_forgotten_is_named_and_not_forgotten(follower: Follower) -> None:
    long_poll = follower.leader.sent[-1]
    follower.follow(1, leader_epoch=1)
    long_poll.answer(fetch.FetchPartitionResult("", TOPIC_ID, 0, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1))
    follower.turn()
    interruption = follower.leader.sent[-1]
    assert interruption.positions == {1: 0}
    follower.loop.run_due(follower.loop.now + 1000)
    follower.turn()
    again = follower.leader.sent[-1]
    assert again is not interruption
    assert (again.positions, again.forgotten) == ({0: 0}, [])


def test_log_found_damaged_by_a_cut_after_an_out_of_range_answer_goes_offline(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.leader.sent[-1].answer(result(0, "a", "b"))
    follower.turn()
    replica = follower.manager.replicas.by_partition[(TOPIC, 0)]

    def damaged(offset: int) -> None:
        raise CorruptLog(replica.topic_partition, "a segment", "flipped")

    monkeypatch.setattr(follower.log(0), "truncate_to", damaged)
    follower.leader.end = 1
    follower.leader.sent[-1].answer(
        fetch.FetchPartitionResult("", TOPIC_ID, 0, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, -1)
    )
    follower.turn()
    assert (replica.offline, replica.damaged) == (True, True)
    assert not follower.manager.fetchers.fetchers[1].follows(replica)
