"""Consumers that say in which rack they are read from an in-sync replica there (KIP-392)."""

from __future__ import annotations

import pytest

from broker.config.table import RACK_AWARE
from broker.core.replication.isr import IsrState
from broker.core.replication.nearest_replica import nearest
from broker.wire.errors import ErrorCode
from tests.support.client_fetch import answer_of, fetch_request, position
from tests.support.memory_cluster import MemoryCluster, values_of
from tests.support.memory_node import TOPIC
from tests.support.settled_cluster import settled


@pytest.fixture
def racks() -> MemoryCluster:
    cluster = settled(settings={"replica.selector.class": RACK_AWARE})
    cluster.racks = {1: "a", 2: "b", 3: "b"}
    cluster.produce(1, "x")
    cluster.settle()
    cluster.advance(1000)
    return cluster


def test_leader_sends_a_consumer_to_its_rack_and_the_follower_reads_for_it(racks: MemoryCluster) -> None:
    asked = fetch_request(racks, 1, rack_id="b", max_wait_ms=60_000, partitions=[position(0)])
    (result,) = answer_of(asked).results
    assert (result.error, result.preferred_read_replica, result.high_watermark) == (0, 3, 1)
    assert values_of(result) == []
    there = fetch_request(racks, 3, rack_id="b", max_wait_ms=0, partitions=[position(0)])
    assert values_of(answer_of(there).results[0]) == ["x"]


@pytest.mark.parametrize("rack", ["a", "c", ""])
def test_leader_reads_for_its_own_rack_and_for_those_without_a_replica(racks: MemoryCluster, rack: str) -> None:
    (result,) = answer_of(fetch_request(racks, 1, rack_id=rack, max_wait_ms=0, partitions=[position(0)])).results
    assert (result.preferred_read_replica, values_of(result)) == (-1, ["x"])


def test_nobody_is_sent_where_the_offset_is_not_yet(racks: MemoryCluster) -> None:
    racks.hold = lambda message: message.target == 1
    racks.produce(1, "y")
    racks.settle()
    (result,) = answer_of(fetch_request(racks, 1, rack_id="b", max_wait_ms=0, partitions=[position(2)])).results
    assert (result.error, result.preferred_read_replica) == (0, -1)


def test_replica_out_of_sync_or_away_is_nobodys_choice(racks: MemoryCluster) -> None:
    role = racks.nodes[1].up.replicas.by_partition[(TOPIC, 0)].leader
    assert role is not None
    by_rack = {1: "a", 2: "b", 3: "b"}
    assert nearest(role, "b", by_rack.get, 0) == 3
    assert nearest(role, "b", {1: "a", 2: "b"}.get, 0) == 2, "broker 3 is not live"
    role.isr = IsrState(frozenset({1}), role.isr.partition_epoch)
    assert nearest(role, "b", by_rack.get, 0) is None


def test_follower_reads_for_no_consumer_that_names_no_rack_or_where_leaders_read_for_all(racks: MemoryCluster) -> None:
    plain = settled()
    plain.racks = {1: "a", 2: "b", 3: "b"}
    for cluster, rack in ((racks, ""), (plain, "b")):
        slot = fetch_request(cluster, 2, rack_id=rack, max_wait_ms=0, partitions=[position(0)])
        assert answer_of(slot).results[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    (result,) = answer_of(fetch_request(plain, 1, rack_id="b", max_wait_ms=0, partitions=[position(0)])).results
    assert result.preferred_read_replica == -1
