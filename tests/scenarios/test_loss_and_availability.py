"""R9 and R13: the same faults with unclean election on and off, and with acks 0, 1 and all; one table each."""

from __future__ import annotations

import pytest

from tests.support.measured_client import MeasuredClient, Outcome, fail, table
from tests.support.memory_cluster import MemoryCluster

pytestmark = pytest.mark.guarantee("R9", "R13")

SETTINGS = {"replica.lag.time.max.ms": "500"}


def last_replica_dies(unclean: bool) -> Outcome:
    """Both followers are cut off, leave the ISR, and are back when the leader, alone with the newest records, dies."""
    cluster = MemoryCluster(3, min_isr=1, settings=SETTINGS)
    client = MeasuredClient(cluster, acks=-1)
    client.write_for(1000)
    client.cut = {2, 3}
    client.write_for(2000)
    assert cluster.state.isr == (1,)
    cluster.kill(1)
    client.cut = set()
    client.write_for(300)  # until the session is over
    fail(cluster, 1, unclean)
    client.write_for(3000)
    cluster.start(1)
    client.write_for(1000)
    client.wait(3000)
    assert set(cluster.state.isr) == {1, 2, 3}
    return client.outcome()


def leader_dies(acks: int) -> Outcome:
    """Under steady writes the leader is killed; its followers are one link's time behind."""
    cluster = MemoryCluster(3, min_isr=2, settings=SETTINGS)
    client = MeasuredClient(cluster, acks)
    client.write_for(1000)
    cluster.kill(1)
    client.write_for(300)  # until the session is over
    fail(cluster, 1)
    client.write_for(1000)
    cluster.start(1)
    client.wait(3000)
    assert set(cluster.state.isr) == {1, 2, 3}
    return client.outcome()


def test_unclean_election_buys_availability_with_records(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"unclean off": last_replica_dies(False), "unclean on": last_replica_dies(True)}
    with capsys.disabled():
        print("\n" + table("the last in-sync replica dies (acks=all, min ISR 1)", rows))
    off, on = rows["unclean off"], rows["unclean on"]
    assert off.lost == 0
    assert on.lost > 100
    assert off.away_ms >= 3000
    assert on.away_ms < off.away_ms / 2


def test_acks_decide_what_a_dead_leader_takes_along(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {f"acks={name}": leader_dies(acks) for name, acks in (("0", 0), ("1", 1), ("all", -1))}
    with capsys.disabled():
        print("\n" + table("the leader dies (RF 3, min ISR 2)", rows))
    none, one, every = rows.values()
    assert every.lost == 0
    assert one.lost > 0
    assert none.lost > one.lost
    assert every.latency_ms > one.latency_ms >= none.latency_ms
    assert every.away_ms >= one.away_ms >= 300, "without a leader nobody's write is acknowledged"
    assert none.away_ms < one.away_ms, "who asks for no answer does not even notice"
