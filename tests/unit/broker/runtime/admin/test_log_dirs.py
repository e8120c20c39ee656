"""DescribeLogDirs and AlterReplicaLogDirs: what lies where, and what is moved."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from broker.model.ids import TopicPartition
from broker.model.log_dir_info import DiskSpace, LogDirInfo, LogInDir
from broker.model.log_errors import LogDirFailed
from broker.runtime.admin.log_dirs import LogDirHandlers
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.requests.request import Request
from broker.wire.api import FLEXIBLE_FROM
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from broker.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from broker.wire.schema import Message
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
A, B, BROKEN = "/nowhere/a", "/nowhere/b", "/nowhere/broken"


class Dirs:
    """Three dirs, one of which has failed. `tell` says their space."""

    def __init__(self) -> None:
        self.logs = {A: [LogInDir(U0, 10, 5), LogInDir(T1, 20, 9), LogInDir(T0, 30, 7)], B: [], BROKEN: []}
        self.spaces = {A: DiskSpace(1000, 400), B: DiskSpace(2000, 500)}
        self.tell: Callable[[], None] = lambda: None

    def describe_dirs(self, wanted: Collection[TopicPartition] | None) -> list[LogDirInfo]:
        return [
            LogDirInfo(path, path != BROKEN, [one for one in logs if wanted is None or one.topic_partition in wanted])
            for path, logs in self.logs.items()
        ]

    def measure_dirs(self, then: Callable[[Mapping[str, DiskSpace]], None]) -> None:
        self.tell = lambda: then(self.spaces)


class Moves:
    """Satisfies `MovedReplicas`. did: what was asked for, in order."""

    def __init__(self) -> None:
        self.targets: dict[TopicPartition, str] = {}
        self.did: list[str] = []
        self.failure: LogDirFailed | None = None

    def home(self, topic_partition: TopicPartition) -> str | None:
        return A

    def begin(self, topic_partition: TopicPartition, path: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.did.append(f"begin {topic_partition} {path}")
        self.targets[topic_partition] = path

    def cancel(self, topic_partition: TopicPartition) -> None:
        self.did.append(f"cancel {topic_partition}")
        del self.targets[topic_partition]

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        self.did.append(f"prefer {topic_partition} {path}")


class Asking:
    def __init__(self) -> None:
        self.dirs = Dirs()
        self.moves = Moves()
        self.loop = FakeLoop()
        self.replicas = {
            T0: SimpleNamespace(offline=False, high_watermark=9, log=SimpleNamespace(log_end_offset=11)),
            T1: SimpleNamespace(offline=False, high_watermark=9, log=SimpleNamespace(log_end_offset=11)),
        }
        self.registry = cast(
            Replicas,
            SimpleNamespace(
                by_partition=self.replicas,
                unhosted_error=lambda topic, _: (
                    ErrorCode.NOT_LEADER_OR_FOLLOWER if topic == "u" else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                ),
            ),
        )
        self.handlers = LogDirHandlers([A, B, BROKEN], self.dirs, self.registry, self.moves, self.loop)

    def _ask(self, handle: Callable[[Request], None], message: Message, version: int) -> tuple[FakeSlot, int]:
        slot, flexible = FakeSlot(), version >= FLEXIBLE_FROM[message.API]
        handle(Request(message.API, version, 1, "", memoryview(bytearray(message.encode(version))), slot, flexible))
        return slot, 4 + flexible

    def describe(self, topics: list[DescribableLogDirTopic] | None, version: int = 4) -> DescribeLogDirsResponse:
        slot, at = self._ask(self.handlers.handle_describe_log_dirs, DescribeLogDirsRequest(topics), version)
        assert slot.response is None, "the file systems have not said anything"
        self.dirs.tell()
        assert slot.response is not None
        return DescribeLogDirsResponse.decode(version, slot.response[at:], exact=True)

    def alter(self, *dirs: tuple[str, TopicPartition], version: int = 2) -> dict[TopicPartition, int]:
        message = AlterReplicaLogDirsRequest(
            [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(tp.topic, [tp.partition])]) for path, tp in dirs]
        )
        slot, at = self._ask(self.handlers.handle_alter_replica_log_dirs, message, version)
        assert slot.response is not None
        found = AlterReplicaLogDirsResponse.decode(version, slot.response[at:], exact=True)
        return {
            TopicPartition(topic.topic_name, one.partition_index): one.error_code
            for topic in found.results
            for one in topic.partitions
        }


@pytest.fixture
def asking() -> Asking:
    return Asking()


@pytest.mark.parametrize("version", range(5))
def test_every_dir_is_told_with_its_replicas_and_their_lag(asking: Asking, version: int) -> None:
    a, b, broken = asking.describe(None, version).results
    assert (a.log_dir, a.error_code, b.log_dir, b.error_code) == (A, 0, B, 0)
    assert [(topic.name, topic.partitions) for topic in a.topics] == [
        ("t", [DescribeLogDirsPartition(0, 30, 2), DescribeLogDirsPartition(1, 20, 0)]),
        ("u", [DescribeLogDirsPartition(0, 10, -1)]),
    ], "a log without a replica has an unknown lag"
    assert b.topics == []
    spaces = [(one.total_bytes, one.usable_bytes) for one in (a, b, broken)]
    assert spaces == ([(1000, 400), (2000, 500), (-1, -1)] if version >= 4 else [(-1, -1)] * 3)
    assert (broken.log_dir, broken.error_code, broken.topics) == (BROKEN, ErrorCode.KAFKA_STORAGE_ERROR, [])


def test_only_partitions_that_are_named_are_told(asking: Asking) -> None:
    a, b, _ = asking.describe([DescribableLogDirTopic("t", [1, 7]), DescribableLogDirTopic("x", [0])]).results
    assert [(topic.name, [one.partition_index for one in topic.partitions]) for topic in a.topics] == [("t", [1])]
    assert b.topics == []
    assert [one.topics for one in asking.describe([]).results] == [[], [], []]


def test_dir_whose_space_is_not_said_has_an_error(asking: Asking) -> None:
    del asking.dirs.spaces[A]
    assert [one.error_code for one in asking.describe(None).results] == [56, 0, 56]


def test_copy_on_its_way_is_told_with_what_it_lacks(asking: Asking) -> None:
    asking.dirs.logs[B] = [LogInDir(T0, 5, 4, True), LogInDir(U0, 5, 4, True)]
    _, b, _ = asking.describe(None).results
    assert [(topic.name, topic.partitions) for topic in b.topics] == [
        ("t", [DescribeLogDirsPartition(0, 5, 7, True)]),
        ("u", [DescribeLogDirsPartition(0, 5, -1, True)]),
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_replica_is_moved_redirected_and_stays(asking: Asking, version: int) -> None:
    del asking.dirs.logs[BROKEN]
    asking.dirs.logs["/nowhere/c"] = []
    asking.handlers = LogDirHandlers([A, B, "/nowhere/c"], asking.dirs, asking.registry, asking.moves, asking.loop)
    assert asking.alter((B, T0), (A, T1), version=version) == {T0: 0, T1: 0}
    assert asking.alter((B, T0), version=version) == {T0: 0}
    assert asking.alter(("/nowhere/c", T0), version=version) == {T0: 0}
    assert asking.alter((A, T0), version=version) == {T0: 0}
    assert asking.moves.did == ["begin t-0 /nowhere/b", "cancel t-0", "begin t-0 /nowhere/c", "cancel t-0"]


def test_many_moves_begin_some_in_a_turn(asking: Asking) -> None:
    del asking.dirs.logs[BROKEN]
    for n in range(30):
        asking.replicas[TopicPartition("t", n)] = asking.replicas[T0]
    topics = [AlterReplicaLogDirTopic("t", list(range(30)))]
    message = AlterReplicaLogDirsRequest([AlterReplicaLogDir(B, topics)])
    slot, _ = asking._ask(asking.handlers.handle_alter_replica_log_dirs, message, 2)
    begun = [len(asking.moves.did)]
    while slot.response is None:
        assert asking.loop.run_soon()
        begun.append(len(asking.moves.did))
    assert begun == [4, 8, 12, 16, 20, 24, 28, 30]


def test_move_into_a_dir_that_fails_then_has_kafkas_error(asking: Asking) -> None:
    del asking.dirs.logs[BROKEN]
    asking.moves.failure = LogDirFailed(B, 28, "no room")
    assert asking.alter((B, T0)) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}


def test_replica_that_cannot_be_moved_anywhere_has_kafkas_error(asking: Asking) -> None:
    asking.replicas[T1].offline = True
    found = asking.alter(("/etc", T0), (B, T1), (B, U0))
    assert found == {
        T0: ErrorCode.LOG_DIR_NOT_FOUND,
        T1: ErrorCode.KAFKA_STORAGE_ERROR,
        U0: ErrorCode.REPLICA_NOT_AVAILABLE,
    }
    assert asking.moves.did == ["prefer u-0 /nowhere/b"]
    assert asking.alter((BROKEN, T0), (A, TopicPartition("x", 0))) == {
        T0: ErrorCode.KAFKA_STORAGE_ERROR,
        TopicPartition("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_dir_may_be_named_as_in_the_settings_and_as_it_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.realpath", {"/link": A}.get)
    asking = Asking()
    asking.handlers = LogDirHandlers(["/link"], asking.dirs, asking.registry, asking.moves, asking.loop)
    for path in ("/link", A):
        assert asking.alter((path, T0)) == {T0: 0}
    for path in (f"{A}/../a", "/link/", ""):
        assert asking.alter((path, T0)) == {T0: ErrorCode.LOG_DIR_NOT_FOUND}
