"""A reassignment that meets a znode which a tool wrote without the id: nobody is told of a topic without one."""

from __future__ import annotations

from broker.core.controller.cluster_state import Topic
from tests.support.reassigned_cluster import TOPIC_ID, ReassignedCluster


def test_reassignment_that_finds_the_id_gone_gives_it_back() -> None:
    cluster = ReassignedCluster((1, 2), brokers=3)
    topic, version = cluster.data.topics["t"]
    cluster.data.topics["t"] = (Topic("t", "", {**topic.partitions, 1: (1, 2)}), version + 1)
    cluster.reassign((2, 3))
    written, _ = cluster.data.topics["t"]
    assert written.topic_id == TOPIC_ID
    assert 3 in written.partitions[0]
    assert written.partitions[1] == (1, 2)
    assert cluster.term.state.topics["t"].topic_id == TOPIC_ID
