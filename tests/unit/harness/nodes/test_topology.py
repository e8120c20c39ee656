from __future__ import annotations

import pytest

from harness.nodes.topology import HARNESS_ADDRESS, names, places


def test_places_three_brokers_two_zookeepers_have_the_documented_addresses() -> None:
    assert [(place.name, place.address) for place in places(3, 2)] == [
        ("n1", "10.77.0.1"),
        ("n2", "10.77.0.2"),
        ("n3", "10.77.0.3"),
        ("zk1", "10.77.0.101"),
        ("zk2", "10.77.0.102"),
    ]


def test_places_largest_cluster_has_distinct_addresses_in_range() -> None:
    addresses = [place.address for place in places(100, 100)] + [HARNESS_ADDRESS]
    assert len(set(addresses)) == 201
    assert all(0 < int(address.rpartition(".")[2]) < 255 for address in addresses)


def test_places_other_network_keeps_the_last_byte() -> None:
    assert [place.address for place in places(1, 1, network="10.77.5")] == ["10.77.5.1", "10.77.5.101"]


@pytest.mark.parametrize(("brokers", "zookeepers", "key"), [(0, 1, "brokers = 0"), (1, 101, "zookeepers = 101")])
def test_names_count_out_of_range_is_refused_with_the_value(brokers: int, zookeepers: int, key: str) -> None:
    with pytest.raises(ValueError, match=key):
        names(brokers, zookeepers)
