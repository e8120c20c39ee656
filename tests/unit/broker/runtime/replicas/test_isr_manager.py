"""Who leaves the ISR and who joins it, three brokers in memory: by lag, after a pause, after a lost answer."""

from __future__ import annotations

from tests.support.memory_cluster import produced
from tests.support.memory_links import Held
from tests.support.settled_cluster import settled


def test_shrink_by_lag_commits_what_waited_for_the_slow_follower() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    slot = cluster.produce(1, "a")
    cluster.advance(9000)
    assert produced(slot) is None
    cluster.advance(7000)
    result = produced(slot)
    assert result is not None
    assert result.error == 0
    assert set(cluster.state.isr) == {1, 2}
    proposal = cluster.nodes[1].event_log.of("isr_propose")[0]
    assert (proposal["kind"], proposal["isr"], proposal["reason"]) == ("shrink", [1, 2], "lag")
    assert cluster.nodes[1].event_log.of("isr_commit")[-1]["isr"] == [1, 2]


def test_paused_follower_that_resumes_rejoins_the_isr() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    cluster.produce(1, "a")
    cluster.advance(20000)
    assert set(cluster.state.isr) == {1, 2}
    cluster.resume(3)
    cluster.advance(2000)
    assert set(cluster.state.isr) == {1, 2, 3}
    expand = [line for line in cluster.nodes[1].event_log.of("isr_propose") if line["kind"] == "expand"][-1]
    assert expand["bes"]["3"] == cluster.nodes[3].broker_epoch


def test_brokers_that_return_together_join_without_waiting_for_a_poll() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    for i in (2, 3):
        cluster.kill(i)
        cluster.expire(i)
    cluster.settle()
    for i in (2, 3):
        cluster.start(i)
    cluster.settle()
    assert set(cluster.state.isr) == {1, 2, 3}


def test_idle_partition_keeps_its_isr() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.advance(60000)
    assert set(cluster.state.isr) == {1, 2, 3}
    cluster.produce(1, "b")
    cluster.advance(1000)
    assert set(cluster.state.isr) == {1, 2, 3}


def test_leader_that_was_stopped_itself_blames_no_follower() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    # The process stands still for longer than the lag time; a produce is the first thing that it sees then.
    cluster.loop.now += 25000
    cluster.produce(1, "b")
    cluster.nodes[1].up.isr_manager.shrink_late()
    cluster.settle()
    assert cluster.nodes[1].event_log.of("isr_propose") == []
    cluster.advance(20000)
    assert set(cluster.state.isr) == {1, 2, 3}
    assert cluster.nodes[1].hw == 2


def test_pending_shrink_does_not_raise_the_watermark_before_it_is_committed() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    cluster.hold = lambda message: message.kind == "altered"
    slot = cluster.produce(1, "a")
    cluster.advance(20000)
    assert set(cluster.state.isr) == {1, 2}
    assert cluster.nodes[1].hw == 0
    assert produced(slot) is None


def test_lost_alter_response_is_requested_again_and_echoed() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    lost: list[Held] = []

    def lose_first(message: Held) -> bool:
        if message.kind == "alter" and not lost:
            lost.append(message)
            return True
        return False

    cluster.hold = lose_first
    cluster.produce(1, "a")
    cluster.advance(16000)
    assert lost
    lost[0].lose()
    cluster.held.clear()
    cluster.advance(1000)
    assert set(cluster.state.isr) == {1, 2}
    assert cluster.nodes[1].hw == 1


def test_bounced_follower_is_ineligible_until_its_new_epoch_fetches() -> None:
    cluster = settled()
    cluster.nodes[3].paused = True
    cluster.produce(1, "a")
    cluster.advance(20000)
    cluster.resume(3)
    # The fetch that made the leader propose is of an incarnation that is gone by the time the controller looks.
    cluster.hold = lambda message: message.kind == "alter"
    cluster.settle()
    cluster.registered[3] += 1000
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    assert set(cluster.state.isr) == {1, 2}
    assert cluster.nodes[1].event_log.of("isr_reject")[-1]["error"] == "INELIGIBLE_REPLICA"
