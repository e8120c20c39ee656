"""Which node hears which, measured: one datagram exchange among all nodes at once.

Every node sends its name to every other for a second and notes whose names arrive. Datagrams need no reply, so each
direction of a link is seen by itself. Must not know what was cut, nor by what.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.nodes.base import CommandFailed, Node

PORT = 9393
SECONDS = 1.2

# Runs on the node under its Python; standard library only. A send that a reject rule answered raises: no error here.
_SCRIPT = """
import json, socket, sys, time
name, address, port, seconds, peers = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5:]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
box = socket.socket(family, socket.SOCK_DGRAM)
box.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
box.bind((address, port))
box.settimeout(0.05)
heard = set()
end = time.monotonic() + seconds
while time.monotonic() < end:
    for peer in peers:
        try:
            box.sendto(name.encode(), (peer, port))
        except OSError:
            pass
    until = min(end, time.monotonic() + 0.05)
    while time.monotonic() < until:
        try:
            heard.add(box.recv(100).decode())
        except OSError:
            pass
print(json.dumps(sorted(heard)))
"""


@dataclass(frozen=True, slots=True)
class Exchange:
    """links: directed (sender, receiver) over which at least one datagram arrived. deaf: nodes whose probe failed."""

    links: frozenset[tuple[str, str]]
    deaf: frozenset[str]


def heard(nodes: Sequence[Node], seconds: float = SECONDS) -> Mapping[str, frozenset[str] | None]:
    """For each node whose datagrams reached it; None where the probe itself failed."""
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        heard = pool.map(lambda node: _one(node, nodes, seconds), nodes)
        return dict(zip([node.name for node in nodes], heard, strict=True))


def exchange(nodes: Sequence[Node], seconds: float = SECONDS) -> Exchange:
    """One exchange among all nodes."""
    arrived = heard(nodes, seconds)
    links = frozenset((sender, receiver) for receiver, senders in arrived.items() for sender in senders or ())
    return Exchange(links, frozenset(name for name, senders in arrived.items() if senders is None))


def _one(node: Node, nodes: Sequence[Node], seconds: float) -> frozenset[str] | None:
    peers = [other.address for other in nodes if other.name != node.name]
    argv = [node.python, "-I", "-S", "-c", _SCRIPT, node.name, node.address, str(PORT), str(seconds), *peers]
    try:
        done = node.run(argv, check=False, timeout_s=seconds + 15)
        return frozenset(json.loads(done.stdout)) - {node.name} if done.returncode == 0 else None
    except (CommandFailed, ValueError):
        return None
