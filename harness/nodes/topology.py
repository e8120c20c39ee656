"""Names and addresses of a run's nodes on a private network: brokers n1…, ZooKeeper servers zk1….

Decides: who has which address in the networks that the harness makes itself (local, docker, own ssh nodes).
"""

from __future__ import annotations

from dataclasses import dataclass

NETWORK = "10.77.0"
PREFIX_LENGTH = 24
HARNESS_ADDRESS = f"{NETWORK}.254"
_FIRST_ZOOKEEPER = 101


@dataclass(frozen=True, slots=True)
class Place:
    """A node's name and its address."""

    name: str
    address: str


def names(brokers: int, zookeepers: int) -> list[str]:
    """n1 … then zk1 …; ValueError outside 1–100 brokers and 0–100 servers."""
    if not 1 <= brokers <= 100:
        raise ValueError(f"nodes.brokers = {brokers}: must be 1 to 100")
    if not 0 <= zookeepers <= 100:
        raise ValueError(f"nodes.zookeepers = {zookeepers}: must be 0 to 100")
    return [f"n{i}" for i in range(1, brokers + 1)] + [f"zk{i}" for i in range(1, zookeepers + 1)]


def places(brokers: int, zookeepers: int, network: str = NETWORK) -> list[Place]:
    """network: the first three bytes, as in 10.77.0; broker i gets .i, ZooKeeper server i gets .(100 + i)."""
    return [
        Place(name, f"{network}.{int(name[1:]) if name[0] == 'n' else int(name[2:]) + _FIRST_ZOOKEEPER - 1}")
        for name in names(brokers, zookeepers)
    ]
