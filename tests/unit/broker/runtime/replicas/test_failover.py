"""A new leader has what was acknowledged and goes on at once; the old one cuts what it alone had."""

from __future__ import annotations

from tests.support.memory_cluster import produced
from tests.support.settled_cluster import settled


def test_failover_keeps_what_was_acknowledged_and_goes_on() -> None:
    cluster = settled(min_isr=2)
    first = cluster.produce(1, "a")
    cluster.settle()
    assert produced(first) is not None
    cluster.kill(1)
    cluster.expire(1)
    cluster.settle()
    assert cluster.state.leader == 2
    second = cluster.produce(2, "b")
    cluster.advance(1500)
    result = produced(second)
    assert result is not None
    assert (result.error, result.base_offset) == (0, 1)
    cluster.start(1)
    cluster.advance(2000)
    assert [node.log.values() for node in cluster.nodes.values()] == [["a", "b"]] * 3
    assert set(cluster.state.isr) == {1, 2, 3}


def test_failover_itself_takes_no_time() -> None:
    cluster = settled(min_isr=2)
    cluster.produce(1, "a")
    cluster.settle()
    cluster.kill(1)
    cluster.expire(1)
    cluster.settle()
    slot = cluster.produce(2, "b")
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == 0


def test_returning_leader_cuts_its_unreplicated_tail() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.hold = lambda message: message.source == 1 or message.target == 1
    cluster.produce(1, "lost", acks=1)
    cluster.kill(1)
    cluster.expire(1)
    cluster.hold = lambda message: False
    cluster.settle()
    cluster.produce(2, "b")
    cluster.advance(1500)
    cluster.start(1)
    cluster.advance(2000)
    assert cluster.nodes[1].log.values() == ["a", "b"]
    cut = cluster.nodes[1].event_log.of("truncate")[0]
    assert (cut["from_leo"], cut["to"], cut["reason"], cut["in_isr"]) == (2, 1, "diverging-epoch", False)
