"""L5: what sending a file's bytes costs by sendfile and by reading them first, beside each other.

CPU time of this process, which sends; another receives. The figures are told, side by side.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.net import send
from broker.net.send import SENDFILE_BYTES_MIN, OutputQueue
from broker.wire.chunks import FileSlice

FILE_BYTES = 8 << 20
TOTAL_BYTES = 256 << 20
SIZES = (16 << 10, 64 << 10, SENDFILE_BYTES_MIN, 256 << 10, 1 << 20)
HEADER_BYTES = 70
"""Of a fetch answer with one partition, before its records."""
ROUNDS = 3
_READER = (
    "import socket, sys\n"
    "there, buffer = socket.socket(fileno=int(sys.argv[1])), bytearray(1 << 20)\n"
    "while there.recv_into(buffer): pass\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(FILE_BYTES))
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def sender() -> Iterator[socket.socket]:
    """Connected to another process that reads everything and keeps nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
    with subprocess.Popen([sys.executable, "-c", _READER, str(there.fileno())], pass_fds=[there.fileno()]) as reader:
        there.close()
        yield here
        here.close()
        assert reader.wait(20) == 0


def cpu_s_per_gb(sender: socket.socket, file: int, size: int) -> float:
    """Of sending answers that hold a slice of that size; the socket blocks, so nothing is tried in vain."""
    queue = OutputQueue()
    header = bytes(HEADER_BYTES)
    sent = 0
    before = time.process_time()
    while sent < TOTAL_BYTES:
        queue.append(header, HEADER_BYTES)
        queue.append(FileSlice(file, sent % (FILE_BYTES - size), size), size)
        while not queue.send(sender):
            pass
        sent += size
    return (time.process_time() - before) / (sent / 1e9)


def test_large_slices_cost_no_more_by_sendfile(
    sender: socket.socket, file: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    costs: dict[tuple[str, int], float] = {}
    for _ in range(ROUNDS):
        for size in SIZES:
            for way, threshold in (("sendfile", 0), ("copy", 1 << 40)):
                monkeypatch.setattr(send, "SENDFILE_BYTES_MIN", threshold)
                took = cpu_s_per_gb(sender, file, size)
                costs[way, size] = min(took, costs.get((way, size), float("inf")))
    with capsys.disabled():
        print(f"\nsending from the page cache, CPU-seconds per GB (best of {ROUNDS}):")
        for size in SIZES:
            chosen = "sendfile" if size >= SENDFILE_BYTES_MIN else "copy"
            pair = f"sendfile {costs['sendfile', size]:.3f}, copy {costs['copy', size]:.3f}"
            print(f"{size // 1024:>6} KiB: {pair}, the broker takes {chosen}")
    # Other work on the machine blurs both: what is asserted is that the choice does not cost much.
    assert costs["sendfile", 1 << 20] < 1.25 * costs["copy", 1 << 20]
