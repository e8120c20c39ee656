"""A follower that throws its log away vouches for nothing until it has it again."""

from __future__ import annotations

import pytest

from broker.core.replication.partition import NO_LEADER
from broker.model.ids import TopicPartition
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC

pytestmark = pytest.mark.guarantee("R12")

VALUES = [f"v{i}" for i in range(10)]
T0 = TopicPartition(TOPIC, 0)


def eligible_that_fetches_anew() -> MemoryCluster:
    """2 led with 1 and wrote a last record that 1 lacks; back under 1, outside of the ISR and eligible, it has to cut a
    log that was compacted. It begins anew, and nothing of 1's comes through.
    """
    cluster = MemoryCluster(3, min_isr=2, leader=2)
    cluster.settle()
    cluster.kill(3)
    cluster.expire(3)
    slots = [cluster.produce(2, value) for value in VALUES]
    cluster.settle()
    assert all((result := produced(slot)) is not None and result.error == 0 for slot in slots)
    cluster.hold = lambda message: 1 in (message.source, message.target)
    cluster.produce(2, "never committed", acks=1)
    cluster.settle()
    cluster.kill(2)
    cluster.hold = lambda message: False
    cluster.expire(2)
    assert (cluster.state.leader, cluster.state.isr, cluster.elr) == (1, (1,), (2,))
    cluster.nodes[2].log.lacks_values = True
    cluster.start(2, tell=False)
    # From the cut on.
    cluster.hold = lambda message: not cluster.nodes[2].log.values()
    cluster.tell(2)
    cluster.settle()
    assert cluster.nodes[2].log.values() == []
    return cluster


def test_eligible_replica_that_threw_its_log_away_is_not_elected_without_it() -> None:
    cluster = eligible_that_fetches_anew()
    cluster.kill(1)
    cluster.expire(1)
    cluster.elect_if_leaderless()
    assert cluster.state.leader == NO_LEADER, "1 has what is committed"
    cluster.hold = lambda message: False
    cluster.release()
    cluster.start(1)
    cluster.settle()
    cluster.elect_if_leaderless()
    cluster.advance(2000)
    assert cluster.state.leader == 1
    assert cluster.nodes[2].log.values() == VALUES


def test_replica_that_threw_its_log_away_is_trusted_once_it_is_in_sync() -> None:
    cluster = eligible_that_fetches_anew()
    assert T0 in cluster.nodes[2].store.unclean
    assert T0 in cluster.nodes[2].up.remade_logs.outside
    cluster.hold = lambda message: False
    cluster.release()
    cluster.advance(2000)
    assert 2 in cluster.state.isr
    assert T0 not in cluster.nodes[2].store.unclean
