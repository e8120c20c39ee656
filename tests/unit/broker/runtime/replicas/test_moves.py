"""Which replica is copied next between log dirs, how fast, and when its copy takes over: against a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from broker.core.quotas.replication import RateWindow
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed, NoDescriptorFree
from broker.runtime.ports import Log
from broker.runtime.replicas.group_commit import GroupCommit
from broker.runtime.replicas.moves import ReplicaMoves
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from tests.support.fake_loop import FakeLoop

pytestmark = pytest.mark.guarantee("L3", "L8")

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Moves:
    """Satisfies `LogMoves`. left: bytes that are still to be copied."""

    def __init__(self) -> None:
        self.targets: dict[TopicPartition, str] = {}
        self.left: dict[TopicPartition, int] = {}
        self.did: list[str] = []
        self.then: Callable[[], None] = lambda: None
        self.error: Exception | None = None
        self.ready = True
        self.disk_is_behind = False

    def home(self, topic_partition: TopicPartition) -> str | None:
        return "/a"

    def prefer(self, topic_partition: TopicPartition, path: str) -> None: ...

    def begin(self, topic_partition: TopicPartition, path: str) -> None:
        self.targets[topic_partition] = path
        self.left.setdefault(topic_partition, 500_000)

    def cancel(self, topic_partition: TopicPartition) -> None:
        self.targets.pop(topic_partition, None)

    def copy(self, topic_partition: TopicPartition, max_bytes: int) -> int | None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if self.disk_is_behind:
            self.did.append(f"wait {topic_partition}")
            return -1
        copied = min(max_bytes, self.left[topic_partition])
        self.left[topic_partition] -= copied
        self.did.append(f"copy {topic_partition} {copied}")
        return copied

    def prepare(self, topic_partition: TopicPartition, high_watermark: Offset, then: Callable[[], None]) -> None:
        self.did.append(f"prepare {topic_partition}")
        self.then = then

    def replace(self, topic_partition: TopicPartition) -> Log | None:
        self.did.append(f"replace {topic_partition}")
        if not self.ready:
            return None
        del self.targets[topic_partition]
        return cast(Log, SimpleNamespace(name="new", dirty=False))

    def on_dir_failed(self, path: str) -> None:
        self.targets.clear()


class Broker:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.store = Moves()
        self.damaged: list[CorruptLog] = []
        self.offline: list[Replica] = []
        self.written: list[Replica] = []
        self.held: set[int] = set()
        self.noted: list[Replica] = []
        self.by_partition = {one: self._replica(one) for one in (T0, T1)}
        replicas = SimpleNamespace(
            by_partition=self.by_partition, stopped=False, take_offline=lambda one, _: self._take_offline(one)
        )
        commits = SimpleNamespace(
            hold=lambda one: self.held.add(id(one)),
            release=lambda one: self.held.discard(id(one)),
            note=self.noted.append,
        )
        self.moves = ReplicaMoves(
            self.store,
            cast(Replicas, replicas),
            cast(GroupCommit, commits),
            self.loop,
            RateWindow(11, 1000),
            self.written.append,
            self.damaged.append,
        )

    def _take_offline(self, replica: Replica) -> None:
        replica.offline = True
        self.offline.append(replica)

    def _replica(self, one: TopicPartition) -> Replica:
        found = SimpleNamespace(
            topic_partition=one, name=str(one), offline=False, high_watermark=7, log=SimpleNamespace(dirty=False)
        )
        return cast(Replica, found)

    def turns(self, count: int = 20) -> list[str]:
        """What the store was asked for in so many turns."""
        for _ in range(count):
            self.loop.run_soon()
        did, self.store.did = self.store.did, []
        return did


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_replica_is_copied_in_slices_prepared_and_replaced(broker: Broker) -> None:
    broker.moves.begin(T0, "/b")
    assert broker.turns(1) == ["copy t-0 262144"], "one slice in a turn"
    assert broker.turns() == ["copy t-0 237856", "copy t-0 0", "prepare t-0"]
    assert not broker.held, "the first flush may take long"
    broker.store.left[T0] = 300_000
    replica = broker.by_partition[T0]
    broker.store.then()
    assert broker.written == [replica], "what is staged is written before the last slice"
    assert broker.turns() == ["copy t-0 262144", "copy t-0 37856", "copy t-0 0", "replace t-0"]
    assert replica.log.name == "new"  # type: ignore[attr-defined]
    assert broker.noted == [replica], "its end is yet to be flushed"
    assert not broker.held
    assert broker.turns() == []


def test_one_replica_is_copied_to_its_end_before_the_next(broker: Broker) -> None:
    broker.moves.begin(T1, "/b")
    broker.turns(1)
    broker.moves.begin(T0, "/b")
    assert broker.turns() == [
        "copy t-1 237856", "copy t-1 0", "prepare t-1",
        "copy t-0 262144", "copy t-0 237856", "copy t-0 0", "prepare t-0",
    ]  # fmt: skip


def test_what_is_not_ready_any_more_is_prepared_again(broker: Broker) -> None:
    broker.moves.begin(T0, "/b")
    broker.turns()
    broker.store.ready = False
    broker.store.then()
    broker.loop.advance(100)
    assert broker.turns() == ["copy t-0 0", "replace t-0", "copy t-0 0", "prepare t-0"]
    assert len(broker.held) == 1, "group commit vouches for nothing meanwhile"
    broker.store.ready = True
    broker.store.then()
    assert not broker.held


def test_log_that_grew_much_is_copied_in_turns_again(broker: Broker) -> None:
    broker.moves.begin(T0, "/b")
    broker.turns()
    broker.store.left[T0] = 100 * 262_144
    broker.store.then()
    assert broker.turns(0) == ["copy t-0 262144"] * 8, "the loop is not held"
    assert not broker.held
    broker.loop.advance(100)
    assert broker.turns(1) == ["copy t-0 262144"] * 2


def test_rate_is_kept(broker: Broker) -> None:
    broker.moves.set_rate(100_000)
    broker.store.left[T0] = 10 * 262_144
    broker.moves.begin(T0, "/b")
    for _ in range(200):
        broker.loop.run_soon()
        broker.loop.advance(100)
    assert 5 <= len(broker.turns()) <= 10, "2.6 MB take some 26 s"
    broker.moves.set_rate(None)
    broker.loop.advance(100)
    assert "prepare t-0" in broker.turns()


@pytest.mark.parametrize("how", ["cancel", "dir", "gone"])
def test_move_that_ends_while_it_is_prepared_holds_nothing_back(broker: Broker, how: str) -> None:
    broker.moves.begin(T0, "/b")
    broker.turns()
    broker.store.ready = False
    broker.store.then()
    broker.loop.advance(100)
    broker.turns()
    assert broker.held
    if how == "cancel":
        broker.moves.cancel(T0)
    elif how == "dir":
        broker.moves.on_dir_failed("/b")
    else:
        del broker.store.targets[T0]
        broker.loop.advance(100)
    assert not broker.held
    broker.moves.begin(T0, "/b")
    broker.loop.advance(100)
    assert "prepare t-0" in broker.turns(), "it may begin again"


def test_replica_that_went_offline_is_not_replaced(broker: Broker) -> None:
    broker.moves.begin(T0, "/b")
    broker.turns()
    broker.by_partition[T0].offline = True
    broker.store.then()
    assert broker.turns() == []


def test_damage_ends_the_move_and_is_told(broker: Broker) -> None:
    broker.moves.begin(T0, "/b")
    broker.store.error = CorruptLog(T0, "there", "a comet")
    assert broker.turns() == []
    assert [str(one) for one in broker.damaged] == ["t-0: there: a comet"]
    assert not broker.store.targets


def test_failed_dir_of_the_log_takes_the_replica_offline(broker: Broker) -> None:
    broker.moves.begin(T0, "/b")
    broker.store.error = LogDirFailed("/a", 5, "an I/O error")
    assert broker.turns() == []
    assert broker.offline == [broker.by_partition[T0]]
    assert not broker.store.targets


def test_disk_of_the_copy_is_waited_for(broker: Broker) -> None:
    broker.moves.begin(T0, "/b")
    broker.store.disk_is_behind = True
    assert broker.turns() == ["wait t-0"]
    broker.loop.advance(5)
    assert broker.turns() == ["wait t-0"]
    broker.store.disk_is_behind = False
    broker.loop.advance(5)
    assert "prepare t-0" in broker.turns()
    broker.store.disk_is_behind = True
    broker.store.then()
    assert broker.turns(0) == ["wait t-0"], "it takes over later"


def test_want_of_a_descriptor_is_waited_out(broker: Broker) -> None:
    broker.moves.begin(T0, "/b")
    broker.store.error = NoDescriptorFree(24, "too many open files")
    assert broker.turns() == []
    broker.loop.advance(1000)
    assert broker.turns(0) == ["copy t-0 262144"]
