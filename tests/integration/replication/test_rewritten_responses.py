"""An answer whose file is read late: a deposed leader has cut its log meanwhile, and written on. KAFKA-18723.

A follower that had not heard of the next leader took that one's batch, where it is as long as the one that it had
asked for, behind a batch of the old leader's that was never committed. Both ended in the same epoch, so nothing was
ever cut: replicas differed for good, and the record that was acknowledged was gone once the follower led.
"""

from __future__ import annotations

import pytest

from broker.wire.errors import ErrorCode
from tests.support.disk_cluster import DiskCluster
from tests.support.memory_cluster import produced

pytestmark = pytest.mark.guarantee("R8")


def test_follower_takes_no_batch_of_the_next_leader_from_the_old_one(cluster: DiskCluster) -> None:
    cluster.produce(1, "base")
    cluster.settle()
    # Broker 2 gets nothing of what comes; broker 3 gets the first record, then its connection takes no more.
    cluster.hold = lambda message: (message.source, message.target) == (1, 2)
    cluster.produce(1, "old 1", acks=1)
    cluster.settle()
    assert cluster.values(3) == ["base", "old 1"]
    cluster.full_sockets.add((1, 3))
    cluster.hold = lambda message: message.source == 1 and message.kind == "answer"
    cluster.produce(1, "old 2", acks=1)
    cluster.settle()
    assert cluster.values(3) == ["base", "old 1"]

    # Broker 2 is elected, which broker 3 does not hear. Broker 1 follows, is cut, and fetches what replaces its own.
    cluster.nodes[3].deaf = True
    cluster.elect(2)
    cluster.settle()
    cluster.produce(2, "new 1", acks=1)
    cluster.settle()
    cluster.produce(2, "new 2", acks=1)
    cluster.settle()
    assert cluster.values(1) == ["base", "new 1", "new 2"]
    cluster.hold = lambda message: False
    cluster.full_sockets.clear()
    cluster.release(lambda message: (message.source, message.target) == (1, 3))
    cluster.settle()
    assert cluster.values(3) == ["base", "old 1"], "new 2 does not follow old 1"

    cluster.nodes[3].deaf = False
    cluster.tell(3)
    cluster.lose()
    answer = cluster.produce(2, "after")
    cluster.advance(3000)
    acknowledged = produced(answer)
    assert acknowledged is not None
    assert acknowledged.error == ErrorCode.NONE
    assert cluster.values(1) == cluster.values(2) == cluster.values(3) == ["base", "new 1", "new 2", "after"]
