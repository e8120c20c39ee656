"""A network namespace per broker, on one bridge, for tests inside the sandbox: links can be cut one by one.

Everything goes with the sandbox's namespaces.
"""

from __future__ import annotations

import subprocess

BRIDGE_ADDRESS = "10.77.0.254"


def address_of(broker_id: int) -> str:
    return f"10.77.0.{broker_id}"


def make(brokers: int) -> dict[int, tuple[str, list[str]]]:
    """Namespaces b1 …; per broker its address and the command that runs another there."""
    _run("ip link add br0 type bridge")
    _run(f"ip addr add {BRIDGE_ADDRESS}/24 dev br0")
    _run("ip link set br0 up")
    for i in range(1, brokers + 1):
        _run(f"ip netns add b{i}")
        _run(f"ip link add v{i} type veth peer name e0 netns b{i}")
        _run(f"ip link set v{i} master br0 up")
        _run(f"ip -n b{i} addr add {address_of(i)}/24 dev e0")
        _run(f"ip -n b{i} link set e0 up")
        _run(f"ip -n b{i} link set lo up")
    return {i: (address_of(i), ["ip", "netns", "exec", f"b{i}"]) for i in range(1, brokers + 1)}


def reject(one: int, other: int) -> None:
    """Whatever one sends to the other is refused with a reset, as by `iptables -j REJECT --reject-with tcp-reset`."""
    _cut(one, other, "meta l4proto tcp reject with tcp reset")


def drop(one: int, other: int) -> None:
    """Whatever one sends to the other vanishes."""
    _cut(one, other, "drop")


def _cut(one: int, other: int, verdict: str) -> None:
    for here, there in ((one, other), (other, one)):
        _run(
            f"ip netns exec b{here} nft -f -",
            "add table ip cut\n"
            "add chain ip cut output { type filter hook output priority 0; policy accept; }\n"
            f"add rule ip cut output ip daddr {address_of(there)} {verdict}\n",
        )


def heal(*brokers: int) -> None:
    """Everything gets through again."""
    for i in brokers:
        _run(f"ip netns exec b{i} nft -f -", "add table ip cut\ndelete table ip cut\n")


def _run(command: str, text: str | None = None) -> None:
    done = subprocess.run(command.split(), input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stderr.strip()}")
