"""Network namespaces on a bridge: the wires of local nodes and of the harness's own ssh nodes.

Decides: interface names and how a namespace is made, entered and removed. Must not know: what lives in one. Only
for use inside the sandbox: its /run is private, and so are the names.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.nodes.base import CommandFailed
from harness.nodes.posix import CLEAN_PATH
from harness.nodes.topology import HARNESS_ADDRESS, PREFIX_LENGTH, Place

BRIDGE = "hw0"
_FOLDER = "/run/netns"


def enter(name: str) -> list[str]:
    """The argv prefix that runs a command in a namespace; it executes the command in its own place."""
    return ["nsenter", f"--net={_FOLDER}/{name}", "--"]


def make_bridge() -> None:
    """The switch that the nodes hang on; the harness has an address on it."""
    _ip("link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
    _ip("addr", "add", f"{HARNESS_ADDRESS}/{PREFIX_LENGTH}", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")


def make_namespace(place: Place) -> None:
    """A network namespace with its address, linked to the bridge by a veth pair."""
    outside = f"hw-{place.name}"
    _ip("netns", "add", place.name)
    _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", place.name)
    _ip("link", "set", outside, "master", BRIDGE, "up")
    _ip("-n", place.name, "link", "set", "lo", "up")
    _ip("-n", place.name, "addr", "add", f"{place.address}/{PREFIX_LENGTH}", "dev", "eth0")
    _ip("-n", place.name, "link", "set", "eth0", "up")


def remove(names: Sequence[str]) -> None:
    """Take namespaces and bridge away again, as far as they exist."""
    # The kernel takes a namespace apart some time after it is deleted; its links are gone as soon as they are deleted.
    for link in [*(f"hw-{name}" for name in names), BRIDGE]:
        subprocess.run(["ip", "link", "del", link], capture_output=True, check=False, env=environment())
    for name in names:
        if Path(_FOLDER, name).exists():
            _ip("netns", "del", name)


def _ip(*arguments: str) -> None:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, env=environment(), check=False)
    except FileNotFoundError as error:
        raise CommandFailed("the command `ip` is missing: apt-get install iproute2") from error
    if done.returncode != 0:
        raise CommandFailed(f"ip {' '.join(arguments)} exited {done.returncode}: {done.stderr.strip()}")


def environment() -> dict[str, str]:
    """What commands here see: an ordinary user's PATH lacks sbin, where ip and iptables are."""
    kept = {key: os.environ[key] for key in ("HOME", "LD_LIBRARY_PATH") if key in os.environ}
    return {"PATH": CLEAN_PATH, "LANG": "C.UTF-8", **kept}
