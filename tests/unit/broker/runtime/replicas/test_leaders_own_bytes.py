"""When a leader checks again what it once wrote."""

from __future__ import annotations

from tests.support.memory_cluster import MemoryCluster, produced


def test_leader_checks_its_bytes_again_for_a_follower_that_did_not_take_them() -> None:
    cluster = MemoryCluster(2, 1)
    cluster.settle()
    log = cluster.nodes[1].log
    before = log.forgot_checked
    cluster.hold = lambda message: message.kind == "answer" and message.source == 1
    cluster.produce(1, "v")
    cluster.settle()
    cluster.hold = lambda message: False
    cluster.lose()
    cluster.advance(2000.0)
    assert cluster.nodes[2].log.values() == ["v"]
    assert log.forgot_checked == before + 1


def test_leader_does_not_check_again_what_followers_take_at_once() -> None:
    cluster = MemoryCluster(3, 1)
    cluster.settle()
    log = cluster.nodes[1].log
    before = log.forgot_checked
    slots = []
    for number in range(10):
        slots.append(cluster.produce(1, f"v{number}"))
        cluster.settle()
    assert all(result is not None and result.error == 0 for result in map(produced, slots))
    assert log.forgot_checked == before


def test_new_leader_checks_what_it_wrote_as_a_follower() -> None:
    cluster = MemoryCluster(2, 1)
    cluster.settle()
    before = cluster.nodes[2].log.forgot_checked
    cluster.elect(2)
    cluster.settle()
    assert cluster.nodes[2].log.forgot_checked == before + 1
