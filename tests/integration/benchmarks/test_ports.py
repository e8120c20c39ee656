"""A port asked for stays with who asked, whatever else connects on the machine."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
# A kernel with few ports to give to connections, and more connections than that.
FULL = """
import socket, subprocess
from pathlib import Path
from benchmarks.ports import free_port
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40063")
port = free_port()
listener = socket.create_server(("127.0.0.1", 5000), backlog=128)
ends = []
try:
    while True:
        ends.append(socket.create_connection(("127.0.0.1", 5000)))
except OSError:
    pass
print(len(ends), port in {end.getsockname()[1] for end in ends})
socket.create_server(("127.0.0.1", port))
print("listens")
"""


def test_port_is_given_to_no_connection_and_to_the_server() -> None:
    run = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", FULL], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout.splitlines() == ["63 False", "listens"], run.stderr


def test_client_without_a_server_is_refused() -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", free_port()))


def test_ports_differ_and_a_server_may_come_back() -> None:
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    for _ in range(2):
        with socket.create_server(("127.0.0.1", ports[0])), socket.create_connection(("127.0.0.1", ports[0])):
            pass


def test_no_port_is_held_for_ever_and_none_left_open_at_the_end() -> None:
    many = "from benchmarks.ports import free_port\nprint(len({free_port() for _ in range(600)}))"
    run = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))\n{many}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (int(run.stdout) > 256, run.stderr) == (True, "")
