"""Who coordinates, as the lab works it out."""

from __future__ import annotations

from typing import cast

import pytest

from broker.core import coordination
from harness.systems.coordination import PartitionState
from harness.systems.coordinators import TOPICS, partition_of, partitions_of
from harness.systems.view import Roles, SystemView


@pytest.mark.parametrize("key", ["", "g", "group-17", "ünï", "\U0001f600", "polygenelubricants", "a" * 300])
@pytest.mark.parametrize("partitions", [1, 3, 50])
def test_the_partition_of_a_key_is_the_brokers(key: str, partitions: int) -> None:
    assert partition_of(key, partitions) == coordination.partition_of(key, partitions)


def test_partitions_of_keys_are_all_where_no_key_is_named() -> None:
    assert list(partitions_of((), 3)) == [0, 1, 2]
    assert list(partitions_of(("g", "g"), 50)) == [coordination.partition_of("g", 50)]
    assert list(partitions_of(("g",), 0)) == []


class _Roles:
    """Group partition p is led by broker p + 1; there are no transactions yet."""

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        return PartitionState(partition + 1, 1, (1,), 1, 0) if topic == TOPICS["group"] else None

    def controller(self) -> int | None:
        return None

    def partition_count(self, topic: str) -> int:
        return 3 if topic == TOPICS["group"] else 0


def test_the_view_knows_coordinators_of_what_the_workload_names() -> None:
    view = SystemView(
        (),
        (),
        cast(Roles, _Roles()),
        "t",
        1,
        replication_factor=1,
        copies_acknowledged=1,
        broker_daemon="broker",
        restart=lambda name: None,
        expect_down=lambda name: None,
        crashed=lambda: (),
        event_log=lambda name: name,
        clock_files={},
    )
    assert list(view.coordinating("group")) == [0, 1, 2]
    assert list(view.coordinating("transaction")) == []
    view.coordinated = lambda kind: ("g", "h") if kind == "group" else ()
    expected = sorted({coordination.partition_of("g", 3), coordination.partition_of("h", 3)})
    assert list(view.coordinating("group")) == expected
    assert view.coordinator("group", 2) == "n3"
    assert view.coordinator("transaction", 0) is None
