from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from harness.clients.connection import ClientError
from harness.clients.requests import ClusterState, PartitionState
from nemesis.base import Injection
from nemesis.faults import membership
from nemesis.faults.membership import Reassign, others
from tests.support.fake_cluster import FakeView

pytestmark = pytest.mark.guarantee("H5")


@pytest.mark.parametrize(
    ("replicas", "brokers", "target", "given"),
    [
        ([1, 2, 3], [1, 2, 3, 4], 1, [4, 2, 3]),
        ([1, 2, 3], [1, 2, 3, 4], 3, [1, 2, 4]),
        ([1, 2, 3], [1, 2, 3, 4], 4, [1, 2, 4]),
        ([2, 3, 1], [1, 2, 3], 3, [2, 1]),
    ],
)
def test_target_gives_its_place_to_a_broker_to_spare_or_takes_one(
    replicas: Sequence[int], brokers: Sequence[int], target: int, given: Sequence[int]
) -> None:
    assert others(replicas, brokers, target) == given


class Cluster:
    """In place of requests: broker 2 controls, and moves replicas as it is asked."""

    def __init__(self) -> None:
        self.replicas: dict[int, list[int]] = {0: [1, 2, 3], 1: [2, 3, 1]}
        self.refusals: list[str] = []
        self.asked: list[tuple[int, int, list[int]]] = []
        self.moves = True

    def metadata(self, connection: Connection, _topic: str, _deadline_ns: int) -> ClusterState:
        partitions = {
            index: PartitionState(replicas[0], 4, tuple(replicas), tuple(replicas))
            for index, replicas in self.replicas.items()
        }
        return ClusterState((1, 2, 3), 2, None, partitions)

    def reassign(
        self, connection: Connection, _topic: str, partition: int, replicas: Sequence[int], **_times: int
    ) -> str | None:
        self.asked.append((connection.broker_id, partition, list(replicas)))
        if self.refusals:
            return self.refusals.pop()
        if self.moves:
            self.replicas[partition] = list(replicas)
        return None


class Connection:
    def __init__(self, address: tuple[str, int], _client_id: str) -> None:
        self.broker_id = int(address[0].rpartition(".")[2])

    def connect(self, _deadline_ns: int) -> None:
        if self.broker_id == 1:
            raise ClientError("connection-refused", "nobody listens")

    def close(self) -> None: ...


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(membership, "Connection", Connection)
    monkeypatch.setattr(membership, "metadata", made.metadata)
    monkeypatch.setattr(membership, "reassign", made.reassign)
    monkeypatch.setattr(membership, "GIVEN_S", 0.3)
    monkeypatch.setattr(membership, "BACK_S", 0.3)
    return made


def injection(partition: int = 1, target: str = "n3") -> Injection:
    return Injection("reassign", (target,), {"partition": partition})


def test_controller_is_asked_until_it_takes_it_and_the_partition_has_its_own_replicas_again(cluster: Cluster) -> None:
    cluster.refusals = ["NOT_CONTROLLER"]
    fault, view = Reassign(), FakeView()
    seen = fault.start(view, injection())
    assert seen.seen, seen.text
    assert cluster.asked == [(2, 1, [2, 1])] * 2
    assert "partition 1: [2, 3, 1] to be [2, 1]; now [2, 1]" in seen.text
    assert fault.stop(view, injection()).seen
    assert cluster.replicas == {0: [1, 2, 3], 1: [2, 3, 1]}


def test_not_observed_while_the_replicas_stay_what_they_are(cluster: Cluster) -> None:
    cluster.moves = False
    assert not Reassign().start(FakeView(), injection()).seen


def test_what_was_not_taken_back_is_not_taken_for_the_partitions_own(cluster: Cluster) -> None:
    fault, view = Reassign(), FakeView()
    fault.start(view, injection())
    cluster.moves = False
    assert not fault.stop(view, injection()).seen
    cluster.moves = True
    fault.start(view, injection(target="n2"))
    assert fault.stop(view, injection(target="n2")).seen
    assert cluster.replicas[1] == [2, 3, 1]


def test_drawn_partition_is_one_of_the_topics_and_the_target_one_broker(cluster: Cluster) -> None:
    drawn = [Reassign().draw(Random(seed), FakeView(), "minority") for seed in range(20)]
    assert {one.params["partition"] for one in drawn} == {0, 1}
    assert all(len(one.targets) == 1 for one in drawn)


@pytest.mark.parametrize(("replicas", "says"), [(3, None), (2, None)])
def test_available_while_a_replica_can_be_spared(replicas: int, says: str | None) -> None:
    view = FakeView()
    view.replicas = replicas
    assert Reassign().probe(view) is says


def test_unavailable_where_every_replica_is_needed_or_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    view = FakeView()
    view.replicas, view.brokers = 2, view.brokers[:2]
    assert Reassign().probe(view) == "2 replicas on as many brokers: none can be spared"
    silent: Callable[[str], None] = lambda _name: None  # noqa: E731
    monkeypatch.setattr(view, "listener", silent)
    assert "no address" in str(Reassign().probe(view))
