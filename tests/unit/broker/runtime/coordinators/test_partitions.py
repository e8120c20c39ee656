"""A broker coordinates a partition while it leads it, from the moment at which all that the log holds is committed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from broker.runtime.coordinators import appends
from broker.runtime.coordinators.appends import CoordinatorAppends
from broker.runtime.coordinators.partitions import CoordinatorPartitions
from broker.wire.coordinator_records.scan import Found
from broker.wire.errors import ErrorCode
from broker.wire.records import NewRecord
from tests.support.coordinated import Values
from tests.support.fake_loop import FakeLoop
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC

TIMEOUT_MS = 5_000


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


def test_batch_that_cannot_be_made_fails_alone(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error at the end of a turn would end the broker."""
    coordinating = Coordinating(cluster, 1)
    settle(cluster, coordinating)

    def fails(*_: object, **__: object) -> bytes:
        raise OverflowError

    with monkeypatch.context() as broken:
        broken.setattr(appends, "coordinator_batch", fails)
        coordinating.add("a", "b")
        settle(cluster, coordinating)
    assert coordinating.done == [(ErrorCode.UNKNOWN_SERVER_ERROR, -1)]
    coordinating.add("c")
    settle(cluster, coordinating)
    assert coordinating.done[1:] == [(ErrorCode.NONE, 0)]
