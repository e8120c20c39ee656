from __future__ import annotations

from harness.clients.connection import ClientError
from harness.clients.requests import ClusterState, PartitionState
from harness.clients.router import Cluster
from harness.clients.sampler import Sampler

CLUSTER = Cluster("hw", {}, {1: "n1", 2: "n2"})


class Recorder:
    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def harness(self, f: str, *, error: str | None = None, **fields: object) -> None:
        assert f == "leadership"
        self.lines.append(fields)


def state(leader: int, epoch: int, *isr: int) -> ClusterState:
    return ClusterState((1, 2), 1, None, {0: PartitionState(leader, epoch, isr, (1, 2))})


def sample(*answers: ClusterState | None, brokers: tuple[int, ...] = (1,)) -> list[tuple[object, object, object]]:
    """(leader, epoch, isr) of each line after these answers, given by the brokers in turn; None is one that does not
    answer.
    """
    left = list(answers)

    def ask(_broker: int) -> ClusterState:
        answer = left.pop(0)
        if answer is None:
            raise ClientError("timeout", "x")
        return answer

    recorder = Recorder()
    addresses = {broker: ("127.0.0.1", broker) for broker in brokers}
    cluster = Cluster("hw", addresses, CLUSTER.names)  # type: ignore[arg-type]
    sampler = Sampler(cluster, recorder, seen_by=ask)
    for _ in answers:
        sampler.sample()
    return [(line["leader"], line["epoch"], line["isr"]) for line in recorder.lines]


def test_sampler_records_changes_only() -> None:
    lines = sample(state(1, 5, 1, 2), state(1, 5, 2, 1), state(1, 5, 1), state(2, 6, 2))
    assert lines == [("n1", 5, [1, 2]), ("n1", 5, [1]), ("n2", 6, [2])]


def test_sampler_leaves_out_what_a_broker_that_is_behind_says() -> None:
    assert sample(state(2, 6, 2), state(1, 5, 1, 2), state(2, 6, 2)) == [("n2", 6, [2])]


def test_sampler_takes_the_isr_of_an_epoch_from_its_leader_alone() -> None:
    behind = state(1, 5, 1, 2)
    lines = sample(behind, behind, state(1, 5, 1), behind, state(1, 5, 1), brokers=(1, 2))
    assert lines == [("n1", 5, [1, 2]), ("n1", 5, [1])]


def test_sampler_no_leader_is_null() -> None:
    assert sample(state(-1, 6, 2)) == [(None, 6, [2])]


def test_sampler_passes_over_a_broker_that_does_not_respond() -> None:
    assert sample(None, state(1, 5, 1)) == [("n1", 5, [1])]
