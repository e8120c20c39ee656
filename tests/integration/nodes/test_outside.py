"""Connections from a sandbox to a server outside, and to no other."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

from benchmarks.ports import free_port
from harness.nodes.sandbox import sandbox_command
from tests.support.wait import eventually

INSIDE = """
import socket, sys
from harness.nodes.outside_gate import Forwarder, Gate
forwarder = Forwarder(("127.0.0.1", 0), Gate([]))
for line in ("one", "two"):
    with socket.create_connection(("127.0.0.1", forwarder.port)) as client:
        client.sendall(line.encode())
        print(client.recv(100).decode(), flush=True)
"""
OUTER = """
import os, sys
from harness.nodes.outside_gate import open_gate
open_gate([("127.0.0.1", int(sys.argv[1])), ("127.0.0.1", int(sys.argv[2]))])
os.execv(sys.argv[3], sys.argv[3:])
"""


def echo_server() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.sendall(b"heard " + peer.recv(100))

    threading.Thread(target=serve, daemon=True).start()
    return listener


def in_a_sandbox(*ports: int) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", OUTER, str(ports[0]), str(ports[1]), *sandbox_command([sys.executable, "-c", INSIDE])]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def gatekeepers(port: int) -> list[str]:
    """Gatekeepers that were to connect to this port first: it is in their command line."""
    argv = ["pgrep", "-f", f"outside.py [0-9]+ 127.0.0.1:{port}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()


def test_sandbox_reaches_the_server_outside_through_the_gate_and_leaves_no_gatekeeper() -> None:
    down = free_port()
    with echo_server() as server:
        # The first server of the list is down: the next is asked.
        done = in_a_sandbox(down, server.getsockname()[1])
    assert done.stdout.splitlines() == ["heard one", "heard two"], done.stderr
    eventually(lambda: not gatekeepers(down), "the end of the gatekeeper")


def test_sandbox_whose_servers_are_down_gets_closed_connections() -> None:
    down = free_port()
    assert "heard" not in in_a_sandbox(down, down).stdout
    eventually(lambda: not gatekeepers(down), "the end of the gatekeeper")
