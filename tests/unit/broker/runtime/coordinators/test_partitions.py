"""A broker coordinates a partition while it leads it, from the moment at which all that the log holds is committed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise

import pytest

from broker.core.replication.partition import PartitionState
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.coordinators.appends import CoordinatorAppends
from broker.runtime.coordinators.partitions import CoordinatorPartitions
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.wire.coordinator_records.scan import Found
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import CorruptBatch
from broker.wire.records import NewRecord, encode_batch
from tests.support.fake_loop import FakeLoop
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_log import MemoryLog
from tests.support.memory_node import TOPIC

TIMEOUT_MS = 5_000


class Values:
    """A state that is the list of the log's values, and takes that many turns to be made ready."""

    TURNS = 1

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.values: list[str] = []
        self.turns = 0
        self.complete = False
        self.unloaded = False

    def take(self, found: Iterable[Found]) -> None:
        assert not self.unloaded
        self.values += [(value or b"").decode() for *_, value in found]

    def bring_up(self) -> bool:
        assert not self.complete
        self.turns += 1
        return self.turns >= self.TURNS

    def loaded(self) -> None:
        assert self.turns >= self.TURNS
        assert not self.complete
        self.complete = True

    def unload(self) -> None:
        assert not self.unloaded
        self.unloaded = True


class Coordinating:
    """What one broker coordinates, and what it appends."""

    def __init__(self, cluster: MemoryCluster, broker: int) -> None:
        manager = cluster.nodes[broker].up
        self.made: list[Values] = []
        self.done: list[tuple[ErrorCode, int]] = []
        self.partitions = CoordinatorPartitions(TOPIC, manager.replicas, cluster.loop, self._make)
        self.appends = CoordinatorAppends(TOPIC, manager.appender, manager.replicas, cluster.loop, TIMEOUT_MS)
        manager.add_role_listener(self.partitions.on_role_change)
        for replica in manager.replicas.by_partition.values():
            self.partitions.on_role_change(replica)

    def _make(self, partition: int, epoch: int) -> Values:
        assert partition == 0
        self.made.append(Values(epoch))
        return self.made[-1]

    def add(self, *values: str) -> None:
        records = [NewRecord(b"k", value.encode()) for value in values]
        self.appends.add(0, records, lambda error, offset: self.done.append((error, offset)))


def settle(cluster: MemoryCluster, *coordinating: Coordinating) -> None:
    """Until neither messages nor callbacks are left."""
    for _ in range(100):
        for one in coordinating:
            one.appends.flush()
        cluster.settle()
        if not cluster.loop.run_soon():
            return
    raise AssertionError("still busy")


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster(min_isr=2)
    cluster.settle()
    return cluster


def test_a_leader_loads_what_its_log_holds(cluster: MemoryCluster) -> None:
    for value in ("a", "b", "c"):
        cluster.produce(1, value)
        cluster.settle()
    coordinating = Coordinating(cluster, 1)
    assert coordinating.partitions.find(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinating.partitions.loading
    settle(cluster, coordinating)
    state = coordinating.partitions.find(0)
    assert isinstance(state, Values)
    assert (state.values, state.complete, state.epoch) == (["a", "b", "c"], True, cluster.state.leader_epoch)
    assert not coordinating.partitions.loading
    assert Coordinating(cluster, 2).partitions.find(0) is ErrorCode.NOT_COORDINATOR


def test_a_slice_is_loaded_a_turn(cluster: MemoryCluster) -> None:
    for _ in range(4):
        assert produced(cluster.produce(1, "x" * 100_000)) is None
        cluster.settle()
    coordinating = Coordinating(cluster, 1)
    seen = []
    while cluster.loop.run_soon():
        seen.append(len(coordinating.made[0].values))
    assert seen == [1, 2, 3, 4, 4]


class Slow(Values):
    """A state that takes a millisecond for each record."""

    loop: FakeLoop

    def take(self, found: Iterable[Found]) -> None:
        taken = list(found)
        self.loop.now += len(taken)
        super().take(taken)


class SlowCoordinating(Coordinating):
    def _make(self, partition: int, epoch: int) -> Values:
        Slow.loop = self.loop
        self.made.append(Slow(epoch))
        return self.made[-1]

    def __init__(self, cluster: MemoryCluster, broker: int) -> None:
        self.loop = cluster.loop
        super().__init__(cluster, broker)


def slow_load(cluster: MemoryCluster) -> SlowCoordinating:
    for _ in range(4):
        assert produced(cluster.produce(1, "x" * 100_000)) is None
        cluster.settle()
    return SlowCoordinating(cluster, 1)


def turns(cluster: MemoryCluster) -> None:
    """All that is to be done now."""
    while cluster.loop.run_soon():
        pass


def test_loading_that_nobody_waits_for_leaves_most_of_the_time_to_others(cluster: MemoryCluster) -> None:
    coordinating = slow_load(cluster)
    (state,) = coordinating.made
    turns(cluster)
    assert len(state.values) == 1
    for count in (2, 3, 4):
        cluster.loop.advance(2.9)
        turns(cluster)
        assert len(state.values) == count - 1
        cluster.loop.advance(0.1)
        turns(cluster)
        assert len(state.values) == count


def test_loading_that_somebody_waits_for_goes_on_at_once_and_without_rest(cluster: MemoryCluster) -> None:
    coordinating = slow_load(cluster)
    (state,) = coordinating.made
    turns(cluster)
    assert len(state.values) == 1
    assert coordinating.partitions.find(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinating.partitions.loading_since() == {0: cluster.loop.now}
    turns(cluster)
    assert len(state.values) == 4
    assert coordinating.partitions.find(0) is state


def test_what_is_loaded_is_made_ready_in_turns_and_what_comes_meanwhile_is_taken(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Values, "TURNS", 20)
    assert produced(cluster.produce(1, "a")) is None
    cluster.settle()
    coordinating = Coordinating(cluster, 1)
    for _ in range(10):
        cluster.loop.run_soon()
    (state,) = coordinating.made
    assert 1 < state.turns < 20
    assert coordinating.partitions.find(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert produced(cluster.produce(1, "a marker")) is None
    settle(cluster, coordinating)
    assert coordinating.partitions.find(0) is state
    assert (state.values, state.complete) == (["a", "a marker"], True)


def test_nothing_is_served_before_the_end_is_committed(cluster: MemoryCluster) -> None:
    """What the log holds beyond the watermark may be lost with this leader."""
    cluster.hold = lambda message: message.source in (2, 3) or message.target in (2, 3)
    cluster.produce(1, "uncommitted")
    cluster.elect(1)
    cluster.settle()
    coordinating = Coordinating(cluster, 1)
    settle(cluster, coordinating)
    cluster.advance(1_000)
    assert coordinating.made[0].values == ["uncommitted"]
    assert coordinating.partitions.find(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.hold = lambda message: False
    cluster.release()
    cluster.advance(1_000)
    settle(cluster, coordinating)
    assert isinstance(coordinating.partitions.find(0), Values)


def test_what_is_appended_meanwhile_puts_nothing_off(cluster: MemoryCluster) -> None:
    """Markers come in while a partition is loaded, one after the other perhaps. They count once they are committed."""
    cluster.produce(1, "before")
    cluster.settle()
    cluster.elect(1)
    cluster.settle()
    cluster.produce(1, "committed")
    cluster.settle()
    cluster.hold = lambda message: message.source in (2, 3) or message.target in (2, 3)
    cluster.produce(1, "uncommitted")
    coordinating = Coordinating(cluster, 1)
    settle(cluster, coordinating)
    assert isinstance(coordinating.partitions.find(0), Values)
    assert coordinating.made[0].values == ["before", "committed"]


def test_a_resignation_unloads_and_a_return_loads_anew(cluster: MemoryCluster) -> None:
    first = Coordinating(cluster, 1)
    settle(cluster, first)
    cluster.elect(2)
    cluster.settle()
    assert first.made[0].unloaded
    assert first.partitions.find(0) is ErrorCode.NOT_COORDINATOR
    cluster.produce(2, "meanwhile")
    cluster.settle()
    cluster.elect(1)
    settle(cluster, first)
    assert [state.values for state in first.made] == [[], ["meanwhile"]]
    assert first.partitions.find(0) is first.made[1]
    assert first.partitions.epoch(0) == cluster.state.leader_epoch


def test_a_new_epoch_of_the_same_leader_keeps_the_state(cluster: MemoryCluster) -> None:
    coordinating = Coordinating(cluster, 1)
    settle(cluster, coordinating)
    cluster.elect(1)
    settle(cluster, coordinating)
    assert len(coordinating.made) == 1
    assert not coordinating.made[0].unloaded
    assert coordinating.partitions.epoch(0) == cluster.state.leader_epoch


def test_a_leader_whose_session_may_be_over_coordinates_nothing(cluster: MemoryCluster) -> None:
    coordinating = Coordinating(cluster, 1)
    settle(cluster, coordinating)
    cluster.nodes[1].up.replicas.set_session_deadline_passed(True)
    assert coordinating.partitions.find(0) is ErrorCode.NOT_COORDINATOR
    cluster.nodes[1].up.replicas.set_session_deadline_passed(False)
    assert isinstance(coordinating.partitions.find(0), Values)


def test_records_of_one_turn_are_one_batch(cluster: MemoryCluster) -> None:
    coordinating = Coordinating(cluster, 1)
    settle(cluster, coordinating)
    coordinating.add("a")
    coordinating.add("b", "c")
    coordinating.add("d")
    settle(cluster, coordinating)
    assert coordinating.done == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1), (ErrorCode.NONE, 3)]
    (append,) = [line for line in cluster.nodes[1].event_log.of("append") if line["role"] == "leader"]
    assert (append["base"], append["last"]) == (0, 3)


def test_what_does_not_fit_goes_into_the_next_batch(cluster: MemoryCluster) -> None:
    coordinating = Coordinating(cluster, 1)
    settle(cluster, coordinating)
    cluster.nodes[1].up.replicas.by_partition[TOPIC, 0].max_batch_bytes = 1_000
    for value in ("a" * 500, "b" * 500, "c" * 2_000, "d"):
        coordinating.add(value)
    settle(cluster, coordinating)
    assert coordinating.done == [
        (ErrorCode.MESSAGE_TOO_LARGE, -1),
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 1),
        (ErrorCode.NONE, 2),
    ]


def test_done_comes_with_the_commit_and_not_before(cluster: MemoryCluster) -> None:
    coordinating = Coordinating(cluster, 1)
    settle(cluster, coordinating)
    cluster.hold = lambda message: message.target == 1
    coordinating.add("a")
    settle(cluster, coordinating)
    assert not coordinating.done
    cluster.hold = lambda message: False
    cluster.release()
    settle(cluster, coordinating)
    assert coordinating.done == [(ErrorCode.NONE, 0)]


def test_appends_of_a_resigned_leader_fail(cluster: MemoryCluster) -> None:
    coordinating = Coordinating(cluster, 1)
    settle(cluster, coordinating)
    cluster.hold = lambda message: message.target == 1
    coordinating.add("staged")
    settle(cluster, coordinating)
    cluster.elect(2)
    coordinating.add("late")
    settle(cluster, coordinating)
    assert coordinating.done == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)] * 2


class ManyPartitions:
    """Broker 1 comes to lead many partitions at once, each with so many batches of 40,000 bytes; all is committed."""

    def __init__(self, batches: list[int]) -> None:
        self.loop = FakeLoop()
        replicas = Replicas(1, self.loop, None, None, lambda: float("inf"), self._take_offline)  # type: ignore[arg-type]
        self.states: dict[int, Values] = {}
        self.offline: list[str] = []
        self.partitions = CoordinatorPartitions(TOPIC, replicas, self.loop, self._make)
        self.replicas = [self._replica(index, count) for index, count in enumerate(batches)]
        for replica in self.replicas:
            self.partitions.on_role_change(replica)

    def _take_offline(self, replica: Replica, failure: LogDirFailed | CorruptLog) -> None:
        self.offline.append(str(failure))

    def _replica(self, index: int, batches: int) -> Replica:
        log = MemoryLog(TopicPartition(TOPIC, index), "")
        for _ in range(batches):
            log.append_as_leader(memoryview(bytearray(encode_batch([NewRecord(None, bytes(40_000))], timestamps=1))), 0)
        log.write()
        replica = Replica(1, log, 0)
        replica.partition.apply(PartitionState(1, 1, 1, (1,), 1, (1,)), log.log_end_offset, 1, 10_000, 0.0)
        role = replica.leader
        assert role is not None
        role.advance_leo(log.log_end_offset)
        role.maybe_advance_high_watermark(0.0)
        return replica

    def _make(self, partition: int, epoch: int) -> Values:
        self.states[partition] = Values(epoch)
        return self.states[partition]

    @property
    def read(self) -> int:
        return sum(len(state.values) for state in self.states.values())


def test_partitions_that_come_at_once_share_a_turn() -> None:
    """When a broker dies another may get fifty of its partitions, and serves its clients meanwhile."""
    many = ManyPartitions([1] * 30)
    seen = [0]
    while many.loop.run_soon():
        seen.append(many.read)
    assert seen[-1] == 30
    assert max(after - before for before, after in pairwise(seen)) <= 5
    assert all(isinstance(many.partitions.find(index), Values) for index in range(30))


def test_no_partition_waits_for_a_longer_one() -> None:
    many = ManyPartitions([60, 1])
    while not isinstance(many.partitions.find(1), Values):
        assert many.loop.run_soon()
    assert len(many.states[0].values) < 20
    while many.loop.run_soon():
        pass
    assert len(many.states[0].values) == 60


def test_shorter_partitions_are_read_before_longer_ones() -> None:
    many = ManyPartitions([30, 20, 3, 10])
    read_of_longest: dict[int, int] = {}
    while many.loop.run_soon():
        for index, _ in many.partitions.ready():
            read_of_longest.setdefault(index, len(many.states[0].values))
    assert list(read_of_longest) == [2, 3, 1, 0]
    # What is left of a turn goes to the next one in order; turn about, it would have had as many as each by then.
    assert read_of_longest[3] < 3
    assert read_of_longest[1] < 10


@pytest.mark.parametrize("ask", ["want", "find"])
def test_partition_that_somebody_asks_for_is_there_before_the_others(ask: str) -> None:
    many = ManyPartitions([3, 20, 30, 40])
    assert many.loop.run_soon()
    many.partitions.want(7)
    if ask == "want":
        many.partitions.want(2)
    else:
        assert many.partitions.find(2) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert order_of(many) == [2, 0, 1, 3]
    # It was asked for while it was loaded, and is nobody's business afterwards.
    assert many.partitions._wanted == set()


def order_of(many: ManyPartitions) -> list[int]:
    """The partitions as they become ready."""
    ready: list[int] = []
    while many.loop.run_soon():
        ready += [index for index, _ in many.partitions.ready() if index not in ready]
    return ready


def test_a_partition_that_goes_while_it_waits_is_not_read() -> None:
    many = ManyPartitions([1, 60, 1])
    many.replicas[1].partition.apply(PartitionState(1, 2, 2, (1, 2), 2, (1, 2)), 60, 1, 10_000, 0.0)
    many.partitions.on_role_change(many.replicas[1])
    while many.loop.run_soon():
        pass
    assert [len(state.values) for state in many.states.values()] == [1, 0, 1]
    assert many.partitions.find(1) is ErrorCode.NOT_COORDINATOR


def test_a_record_that_turns_out_unreadable_at_the_end_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read last may be the first to be looked at."""

    def bring_up(self: Values) -> bool:
        raise CorruptBatch(0, "no such number")

    monkeypatch.setattr(Values, "bring_up", bring_up)
    many = ManyPartitions([1])
    while many.loop.run_soon():
        pass
    (failure,) = many.offline
    assert "no such number" in failure
    assert many.partitions.find(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_an_error_in_one_partition_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    many = ManyPartitions([1, 1, 1])

    def fail() -> bool:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(many.states[0], "bring_up", fail)
    for _ in range(20):
        with suppress(RuntimeError):
            many.loop.run_soon()
    assert [isinstance(many.partitions.find(index), Values) for index in range(3)] == [False, True, True]
