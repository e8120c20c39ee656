"""What the nemesis may know of a system's brokers."""

from __future__ import annotations

from typing import cast

from harness.systems.view import Roles, SystemView
from tests.support.fake_cluster import FakeNode


def view(port: int | None) -> SystemView:
    return SystemView(
        (FakeNode("n1", "10.0.0.1"),),
        (),
        cast(Roles, None),
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
        port=port,
    )


def test_listener_is_the_nodes_address_where_the_system_has_a_port() -> None:
    assert view(9092).listener("n1") == ("10.0.0.1", 9092)
    assert view(None).listener("n1") is None
