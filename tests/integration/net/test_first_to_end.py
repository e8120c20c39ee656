"""What of a killed process ends first: others are to know of its end before its clients act on it."""

from __future__ import annotations

import errno
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.integration.net.connections import framed

pytestmark = pytest.mark.guarantee("C10")

CLIENTS = 8
_PROCESS = """
import json
from broker.net import listener
from broker.net.loop import EpollLoop

listener._SILENT_MS = 5.0
loop = EpollLoop()

def on_frame(connection, frame, slot):
    slot.fulfil([json.dumps({of.address: of._socket.fileno() for of in server.connections}).encode()])

server = listener.Listener(loop, "127.0.0.1", 0, on_frame)
print(server.port, flush=True)
loop.run()
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", _PROCESS], stdout=subprocess.PIPE, text=True) as made:
        yield made
        made.kill()


def _descriptors(client: socket.socket) -> dict[str, int]:
    """Of the process's connections, by the address of the other end."""
    client.sendall(framed(b"which"))
    size = int.from_bytes(client.recv(4, socket.MSG_WAITALL))
    found: dict[str, int] = json.loads(client.recv(size, socket.MSG_WAITALL))
    return found


def test_a_killed_process_ends_silent_connections_first_and_refuses_new_ones_by_then(
    process: subprocess.Popen[str],
) -> None:
    assert process.stdout is not None
    port = int(process.stdout.readline())
    link = socket.create_connection(("127.0.0.1", port), 10)
    clients = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(CLIENTS)]
    name = "{}:{}".format(*link.getsockname())
    deadline = time.monotonic() + 10
    while True:
        for client in clients:
            descriptors = _descriptors(client)
        if descriptors[name] == max(descriptors.values()):
            break
        assert time.monotonic() < deadline, descriptors
    watch = select.epoll()
    for one in (link, *clients):
        one.setblocking(False)
        watch.register(one, select.EPOLLIN)
    links_descriptor = link.fileno()
    process.kill()
    first, _ = watch.poll(10)[0]
    again = socket.socket()
    refusal = again.connect_ex(("127.0.0.1", port))
    for one in (link, *clients, again):
        one.close()
    watch.close()
    assert first == links_descriptor
    assert refusal == errno.ECONNREFUSED
