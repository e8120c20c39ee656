from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from harness.clients.connection import Address
from harness.clients.requests import ClusterState, PartitionState
from harness.clients.router import Cluster, Leader, Router
from harness.nodes.base import Completed
from harness.plan.run_file import parse_plan
from harness.runs.run_info import monotonic_offset_ns, nodes
from tests.support.fake_cluster import FakeNode

CLUSTER = Cluster("hw", {1: Address("a", 1), 2: Address("b", 1)}, {1: "n1", 2: "n2"})
SEEDS = range(200)


def learned(seed: int, known: Leader | None, leader: int, epoch: int) -> Leader | None:
    """What a router that knew `known` believes after one answer."""
    router = Router(CLUSTER, "test", Random(seed), None if known is None else {0: known})
    router._learn(ClusterState((1, 2), 1, None, {0: PartitionState(leader, epoch, (1, 2), (1, 2))}))
    return router.leaders.get(0)


def test_router_believes_a_newer_epoch() -> None:
    assert {learned(seed, Leader(1, 5), 2, 6) for seed in SEEDS} == {Leader(2, 6)}


def test_router_first_response_is_believed() -> None:
    assert {learned(seed, None, 2, 0) for seed in SEEDS} == {Leader(2, 0)}


def test_router_mostly_keeps_a_newer_epoch_and_sometimes_believes_the_older() -> None:
    kept = [learned(seed, Leader(2, 6), 1, 5) for seed in SEEDS].count(Leader(2, 6))
    assert 140 <= kept < 180


def test_router_without_a_leader_mostly_forgets_and_sometimes_stays() -> None:
    kept = [learned(seed, Leader(2, 6), -1, 7) for seed in SEEDS].count(Leader(2, 6))
    assert 40 <= kept < 80


def test_router_broker_that_the_harness_does_not_know_is_no_leader() -> None:
    assert learned(1, None, 9, 7) is None


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_cluster_broker_id_by_node(node: str) -> None:
    assert CLUSTER.names[CLUSTER.broker_id(node)] == node


def test_cluster_node_that_is_no_broker_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        CLUSTER.broker_id("zk1")


def test_run_json_nodes_name_role_and_broker_id() -> None:
    plan = parse_plan("x.toml", 'name = "x"\n[nodes]\nbrokers = 1\n[topic]\nreplication_factor = 1')
    made = {"n1": FakeNode("n1", "10.0.0.1")}
    assert nodes(plan, made) == [
        {"name": "n1", "role": "broker", "broker_id": 1, "address": "10.0.0.1"},
        {"name": "zk1", "role": "zookeeper", "broker_id": None, "address": None},
    ]


class OtherKernel(FakeNode):
    """A node whose boot id is another's and whose monotonic clock stands at a fixed value."""

    def run(self, argv: Sequence[str], **_options: Any) -> Completed:
        return Completed((), 0, "another-boot-id 1000\n", "")


def test_monotonic_offset_of_another_kernel_is_measured() -> None:
    offset = monotonic_offset_ns(OtherKernel("n1", "10.0.0.1"))
    assert offset is not None
    assert offset < 0
