"""What is done around every run: topics, failures of their making and deleting, and clusters that are replaced."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import bench as subject
from benchmarks import topics
from benchmarks.bench import Bench, Tools
from benchmarks.measure.guard import VoidRun
from benchmarks.process import BenchmarkFailed
from benchmarks.site import MENDS, Systems
from benchmarks.systems import Cluster, Kind
from benchmarks.zookeeper import PartitionState

KIND = Kind("kafka", (), {}, {"flush.messages": "1"})


class Ballast:
    def pretouch(self) -> None:
        pass


TOOLS = Tools(Path("lean"), None, cast(Any, Ballast()))


class FakeCluster:
    """Made by a site; broken as often as it is told."""

    made: list[FakeCluster] = []  # noqa: RUF012

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.why: str | None = None
        self.closed = False
        FakeCluster.made.append(self)

    def start(self) -> float:
        return 1.0

    def why_broken(self) -> str | None:
        return self.why

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the topics that were deleted; making them succeeds."""
    found: list[str] = []
    monkeypatch.setattr(subject, "create_topic", lambda *_, **__: None)
    monkeypatch.setattr(subject, "delete_topic", lambda _, name, __: found.append(name))
    return found


def on_a_cluster() -> Bench:
    return Bench(KIND, TOOLS, cast(Cluster, FakeCluster(KIND, Path("x"))))


def test_topic_is_deleted_also_when_it_was_made_in_part_only(
    monkeypatch: pytest.MonkeyPatch, deleted: list[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise BenchmarkFailed("not with full ISRs within 120 s")

    monkeypatch.setattr(subject, "create_topic", fails)
    with pytest.raises(BenchmarkFailed, match="full ISRs"), on_a_cluster().topic(1):
        pytest.fail("there is no topic")
    assert len(deleted) == 1


def test_topics_on_disk_have_the_settings_of_their_system_others_none(
    monkeypatch: pytest.MonkeyPatch, deleted: list[str]
) -> None:
    made: list[object] = []
    monkeypatch.setattr(subject, "create_topic", lambda *given: made.append(given[-1]))
    bench = on_a_cluster()
    on_disk = bench.on_disk()
    for each in (bench, on_disk):
        with each.topic(1):
            pass
    assert made == [{}, {"flush.messages": "1"}]
    assert on_disk.doubts is bench.doubts, "what goes wrong after either is looked at before the next run"
    assert len(deleted) == 2


def test_topic_that_cannot_be_deleted_hides_no_failure_and_voids_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr(subject, "create_topic", lambda *_, **__: None)
    monkeypatch.setattr(subject, "delete_topic", fails)
    bench = on_a_cluster()
    with bench.topic(1):
        pass
    assert "no answer" in bench.doubts[0]
    with pytest.raises(VoidRun, match="ISR shrank"), bench.topic(1):
        raise VoidRun("ISR shrank")


def test_bench_without_a_cluster_says_so() -> None:
    with pytest.raises(BenchmarkFailed, match="kafka: no cluster is up"):
        _ = Bench(KIND, TOOLS).cluster


def site(tmp_path: Path, said: list[str], started: bool = True) -> Systems:
    FakeCluster.made.clear()
    systems = Systems([KIND], TOOLS, tmp_path, said.append, cast(Any, FakeCluster))
    if started:
        systems.start()
    return systems


def test_cluster_that_is_whole_is_kept(tmp_path: Path) -> None:
    systems = site(tmp_path, [])
    assert systems.mend("kafka") is False
    assert len(FakeCluster.made) == 1


def test_broken_cluster_is_ended_and_another_takes_its_place(tmp_path: Path) -> None:
    said: list[str] = []
    systems = site(tmp_path, said)
    FakeCluster.made[0].why = "broker 2 ended"
    assert systems.mend("kafka") is True
    assert FakeCluster.made[0].closed
    assert cast(Any, systems.benches["kafka"].cluster) is FakeCluster.made[1]
    assert FakeCluster.made[1].folder != FakeCluster.made[0].folder
    assert any("broker 2 ended" in text for text in said)
    systems.close()
    assert FakeCluster.made[1].closed


def test_clusters_that_had_begun_to_start_are_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: FakeCluster) -> float:
        raise KeyboardInterrupt

    systems = site(tmp_path, [], started=False)
    monkeypatch.setattr(FakeCluster, "start", fails)
    with pytest.raises(KeyboardInterrupt):
        systems.start()
    systems.close()
    assert [cluster.closed for cluster in FakeCluster.made] == [True]


def test_system_that_breaks_again_and_again_is_given_up(tmp_path: Path) -> None:
    systems = site(tmp_path, [])
    for _ in range(MENDS):
        FakeCluster.made[-1].why = "ended"
        systems.mend("kafka")
    FakeCluster.made[-1].why = "ended"
    with pytest.raises(BenchmarkFailed, match="the last: ended"):
        systems.mend("kafka")


def test_rows_with_clusters_of_their_own_have_none_beside_them(tmp_path: Path) -> None:
    systems = site(tmp_path, [], started=False)
    assert FakeCluster.made == []
    assert systems.mend("kafka") is False


class FakeZooKeeper:
    """Partitions that get full one look after another; notes how many were asked for in all."""

    def __init__(self, full: set[int]) -> None:
        self.full = full
        self.asked = 0

    def states(self, topic: str, partitions: list[int]) -> list[PartitionState | None]:
        self.asked += len(partitions)
        return [PartitionState(1, (1, 2, 3) if p in self.full else (1,), 0) for p in partitions]


@pytest.mark.parametrize("lacking", [1, 10_000])
def test_full_isrs_are_not_requested_again_and_others_one_at_a_time(
    lacking: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    zookeeper = FakeZooKeeper(set(range(10_000 - lacking)))

    def wait_for(what: str, condition: Any, timeout_s: float) -> None:
        for _ in range(1000):
            assert not condition()
        zookeeper.full.update(range(10_000))
        assert condition()

    monkeypatch.setattr(topics, "wait_for", wait_for)
    topics.await_full(cast(Any, _Of(zookeeper)), "t", 10_000)
    assert zookeeper.asked == 11_000


def test_deleting_does_not_wait_for_a_broker_that_has_ended() -> None:
    with pytest.raises(BenchmarkFailed, match="broker 2 ended"):
        topics.delete_topic(cast(Any, _Of(FakeZooKeeper(set()), dead=True)), "t")


def test_end_of_the_files_is_waited_for_unless_the_row_says_that_it_cannot_come_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[str] = []
    asked: list[bool] = []
    monkeypatch.setattr(topics, "_ask", lambda *_: None)
    monkeypatch.setattr(topics, "wait_for", lambda what, *_: waited.append(what))
    whole = cast(Any, _Of(FakeZooKeeper(set())))
    topics.delete_topic(whole, "t", await_gone=False)
    assert waited == []
    topics.delete_topic(whole, "t")
    assert waited == ["kafka: files of t deleted"]
    monkeypatch.setattr(subject, "create_topic", lambda *_, **__: None)
    monkeypatch.setattr(subject, "delete_topic", lambda _, __, await_gone: asked.append(await_gone))
    for wanted in (True, False):
        with on_a_cluster().topic(1, await_gone=wanted):
            pass
    assert asked == [True, False]


def test_response_is_not_awaited_when_a_broker_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_LOOK_S", 0.0)
    never: Future[object] = Future()
    with pytest.raises(BenchmarkFailed, match="broker 2 ended"):
        topics._answer(cast(Any, _Of(FakeZooKeeper(set()), dead=True)), never, 1e9)
    with pytest.raises(BenchmarkFailed, match="no answer within 0 s"):
        topics._answer(cast(Any, _Of(FakeZooKeeper(set()))), never, 0.0)


class _Of:
    def __init__(self, zookeeper: FakeZooKeeper, dead: bool = False) -> None:
        self.zookeeper = zookeeper
        self.name = "kafka"
        self._dead = dead

    def require_alive(self) -> None:
        if self._dead:
            raise BenchmarkFailed("broker 2 ended")


def test_time_for_a_topic_grows_with_its_partitions() -> None:
    assert topics.timeout_s(1) < 1.1 * topics.TIMEOUT_S
    assert topics.timeout_s(10_000) > 300
