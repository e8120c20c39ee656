"""R7: a committed record survives crashes of all but one of the brokers in the ISR when it was committed, in any order.

A majority quorum of n = 2f + 1 survives f; an ISR of n survives n − 1.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.support.memory_cluster import MemoryCluster, fetched, produced, values_of

pytestmark = pytest.mark.guarantee("R7")


@pytest.mark.parametrize(
    ("replication_factor", "isr_survives", "quorum_survives"), [(2, 1, 0), (3, 2, 1), (4, 3, 1), (5, 4, 2)]
)
def test_committed_record_survives_every_order_of_kills(
    replication_factor: int, isr_survives: int, quorum_survives: int
) -> None:
    assert isr_survives == replication_factor - 1
    assert quorum_survives == (replication_factor - 1) // 2
    for order in permutations(range(1, replication_factor + 1), isr_survives):
        cluster = MemoryCluster(replication_factor, min_isr=1)
        cluster.settle()
        slot = cluster.produce(1, "kept")
        cluster.settle()
        assert produced(slot) is not None
        for broker in order:
            cluster.kill(broker)
            cluster.expire(broker)
            cluster.settle()
        survivor = cluster.state.leader
        assert survivor not in order
        assert cluster.state.isr == (survivor,)
        assert values_of(fetched(cluster.fetch(survivor, 0))) == ["kept"], f"lost after kills in order {order}"


@pytest.mark.parametrize("killed", [(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)])
def test_retrying_producer_loses_nothing_while_min_isr_is_not_met(killed: tuple[int, int]) -> None:
    cluster = MemoryCluster(3, min_isr=2)
    cluster.settle()
    for broker in killed:
        cluster.kill(broker)
        cluster.expire(broker)
    cluster.settle()
    refused = produced(cluster.produce(cluster.state.leader, "again"))
    assert refused is not None
    assert refused.error == 19
    cluster.start(killed[0])
    cluster.advance(3000)
    slot = cluster.produce(cluster.state.leader, "again")
    cluster.advance(1000)
    accepted = produced(slot)
    assert accepted is not None
    assert accepted.error == 0
    cluster.start(killed[1])
    cluster.advance(3000)
    assert {tuple(node.log.values()) for node in cluster.nodes.values()} == {("again",)}


def test_single_replica_is_unavailable_while_down_and_intact_after() -> None:
    cluster = MemoryCluster(1, min_isr=1)
    cluster.settle()
    assert produced(cluster.produce(1, "kept")) is not None
    cluster.kill(1)
    cluster.expire(1)
    assert cluster.state.leader == -1
    assert cluster.state.isr == (1,)
    cluster.start(1)
    cluster.settle()
    assert values_of(fetched(cluster.fetch(1, 0))) == ["kept"]
