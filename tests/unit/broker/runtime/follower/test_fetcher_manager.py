"""A follower turns to its next leader at once, whatever the fetch to the one before waits for."""

from __future__ import annotations

from tests.support.memory_cluster import produced
from tests.support.memory_node import TOPIC
from tests.support.settled_cluster import settled


def test_fetch_that_waits_for_a_paused_leader_does_not_delay_following_the_next() -> None:
    cluster = settled(min_isr=2)
    cluster.produce(1, "a")
    cluster.settle()
    cluster.nodes[1].paused = True
    # The followers' polls are answered by nobody any more.
    cluster.settle()
    cluster.expire(1)
    cluster.settle()
    slot = cluster.produce(2, "b")
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == 0
    assert cluster.nodes[3].log.values() == ["a", "b"]


def test_new_epoch_interrupts_the_long_poll() -> None:
    cluster = settled(settings={"replica.fetch.wait.max.ms": "60000"})
    cluster.produce(1, "a")
    cluster.settle()
    # The leader hears of its new epoch last: the followers' polls are out, and it does not wake them by itself.
    cluster.nodes[1].deaf = True
    cluster.elect(1)
    cluster.settle()
    cluster.nodes[1].deaf = False
    cluster.tell(1)
    cluster.advance(50)
    role = cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].leader
    assert role is not None
    assert role.leader_epoch == 1
    assert role.leos() == {1: 1, 2: 1, 3: 1}


def test_leader_without_session_slots_is_still_followed_by_long_polls() -> None:
    cluster = settled(settings={"max.incremental.fetch.session.cache.slots": "0"})
    slot = cluster.produce(1, "a")
    cluster.settle()
    assert produced(slot) is not None
    before = len(cluster.nodes[1].event_log.of("fetch_received"))
    cluster.advance(5000)
    assert len(cluster.nodes[1].event_log.of("fetch_received")) - before <= 2 * 11
