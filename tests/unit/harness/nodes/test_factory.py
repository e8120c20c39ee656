from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.nodes.factory import make_nodes, needs_sandbox
from harness.nodes.ssh_set import resolve_hosts


@dataclass(frozen=True)
class Entry:
    name: str
    host: str
    user: str = "root"
    key: str | None = None
    port: int = 22


def test_make_nodes_unknown_kind_names_value_and_choices() -> None:
    with pytest.raises(ValueError, match=r"nodes.kind = 'vm'.*local, docker, ssh"):
        make_nodes("vm", 1, 1, run_dir=Path("/nowhere"), source=Path("/nowhere"))


def test_needs_sandbox_by_kind_and_hosts() -> None:
    assert needs_sandbox("local")
    assert needs_sandbox("ssh")
    assert not needs_sandbox("ssh", [Entry("n1", "10.0.0.1")])
    with pytest.raises(ValueError, match="'vm'"):
        needs_sandbox("vm")


def test_resolve_hosts_address_and_known_hosts_are_carried_over() -> None:
    (host,) = resolve_hosts(["n1"], [Entry("n1", "127.0.0.1", "debian", "~/key", 2222)], Path("known"))
    assert (host.address, host.user, host.key, host.port, host.known_hosts) == (
        "127.0.0.1",
        "debian",
        "~/key",
        2222,
        "known",
    )


def test_resolve_hosts_missing_entry_is_named() -> None:
    with pytest.raises(ValueError, match="no entry for n2, zk1"):
        resolve_hosts(["n1", "n2", "zk1"], [Entry("n1", "127.0.0.1")], None)


def test_resolve_hosts_two_nodes_on_one_address_are_refused() -> None:
    with pytest.raises(ValueError, match=r"n1 and n2 are both 127\.0\.0\.1"):
        resolve_hosts(["n1", "n2"], [Entry("n1", "127.0.0.1"), Entry("n2", "127.0.0.1")], None)
