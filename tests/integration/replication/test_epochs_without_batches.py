"""A leader that restarts while no controller looks does not lead again in its epoch, also where its log has no batch of
that epoch: none was written, or a power failure took them all.
"""

from __future__ import annotations

import os

import pytest

from broker.model.ids import TopicPartition
from tests.support.disk_cluster import DiskCluster
from tests.support.memory_cluster import produced
from tests.support.memory_node import TOPIC

pytestmark = pytest.mark.guarantee("C1")


def leads(cluster: DiskCluster, i: int) -> bool:
    return cluster.nodes[i].up.replicas.by_partition[TopicPartition(TOPIC, 0)].leader is not None


def test_leader_that_wrote_nothing_does_not_lead_again_in_its_epoch(cluster: DiskCluster) -> None:
    cluster.produce(1, "before")
    cluster.settle()
    cluster.elect(2)
    cluster.settle()
    assert leads(cluster, 2)
    cluster.kill(2)
    cluster.start(2)
    cluster.settle()
    assert not leads(cluster, 2)
    cluster.elect(2)
    cluster.settle()
    assert leads(cluster, 2)


def test_leader_that_lost_all_of_its_epoch_takes_it_from_nobody_else(cluster: DiskCluster) -> None:
    cluster.produce(1, "before")
    cluster.settle()
    cluster.elect(2)
    cluster.settle()
    segment = cluster.folder_of(2) / f"{0:020}.log"
    size = segment.stat().st_size
    slot = cluster.produce(2, "acknowledged")
    cluster.settle()
    answer = produced(slot)
    assert answer is not None
    assert answer.error == 0
    cluster.kill(2)
    os.truncate(segment, size)
    cluster.start(2)
    cluster.advance(1000)
    for i in (1, 3):
        assert cluster.values(i) == ["before", "acknowledged"]
