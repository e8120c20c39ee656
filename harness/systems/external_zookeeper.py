"""An ensemble of somebody else's, as one run uses it.

Decides which part of the ensemble the run keeps for itself, and by which address nodes reach it. Must not know brokers.
Invariant: a chroot that was made for the run is removed with it.
"""

from __future__ import annotations

import logging
import time

from kazoo.client import KazooClient

from harness.nodes.outside_gate import Forwarder, Gate
from harness.nodes.sandbox import inside_sandbox
from harness.nodes.topology import HARNESS_ADDRESS
from harness.plan.zookeeper_address import parse


class ExternalZooKeeper:
    """The ensemble as one run uses it; `connect` is for zookeeper.connect."""

    def __init__(self, text: str, run_name: str) -> None:
        """Call when the nodes are open. Raises ValueError."""
        ensemble = parse(text)
        self._made = "" if ensemble.chroot else f"/highwater-{run_name}-{time.time_ns():x}"
        self._forwarder: Forwarder | None = None
        servers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in ensemble.servers)
        if inside_sandbox():
            # The nodes' network leads nowhere but to the harness.
            self._forwarder = Forwarder((HARNESS_ADDRESS, 0), Gate(ensemble.servers))
            servers = f"{HARNESS_ADDRESS}:{self._forwarder.port}"
        self._servers = servers
        self.connect = servers + (ensemble.chroot or self._made)

    def close(self) -> None:
        """Remove what was made for the run. Raises kazoo's errors when the ensemble is away."""
        try:
            if self._made:
                client = KazooClient(self._servers, timeout=10.0, logger=logging.getLogger("harness.systems.kazoo"))
                try:
                    client.start(timeout=10.0)
                    client.delete(self._made, recursive=True)
                finally:
                    client.stop()
                    client.close()
        finally:
            if self._forwarder is not None:
                self._forwarder.close()
