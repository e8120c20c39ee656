"""L5: what consumers fetch goes from the page cache to the socket; the broker reads no payload on its way."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.net.send import SENDFILE_BYTES_MIN
from broker.wire.messages.fetch import decode_response
from broker.wire.record_batch import checked_headers
from tests.support.brokers import Broker, running_cluster
from tests.support.raw_client import RawClient, batch_of, fetch_frame
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("L5")

TOPIC = "t"
BATCHES = 40
_BATCH_BYTES = 250_000
_READS = {"read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg", "mmap"}
_SENDS = {"write", "writev", "sendto", "sendmsg"}
_CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed>).*\) += (\d+)")
"""A call with its result; in two lines where another thread's call came between, the second with the result."""


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[tuple[Broker, Path]]:
    """A broker under strace, and the file that has its system calls."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is missing: python -m harness.tools.install --for test"
    trace = tmp_path / "trace"
    calls = ",".join(sorted(_READS | _SENDS | {"sendfile"}))
    # -D: the broker stays the process that was started, strace is its child.
    under = [strace, "-D", "-f", "-q", "-s", "0", "-e", f"trace={calls}", "-o", str(trace)]
    command = [*under, sys.executable, "-m", "broker.cli"]
    # Without the lab's event log, which looks at what it tells of.
    with running_cluster(tmp_path / "cluster", 1, {"lab.event.log": ""}, command=command) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(20)
        cluster.wait_state(TOPIC, 0, leader=1)
        yield cluster.brokers[1], trace


def system_calls(trace: Path, start: int) -> tuple[Counter[str], dict[str, int]]:
    """(bytes by system call, largest single one) from byte `start` of the trace on."""
    total: Counter[str] = Counter()
    largest: dict[str, int] = {}
    with trace.open("rb") as file:
        file.seek(start)
        for line in file.read().decode(errors="replace").splitlines():
            found = _CALL.match(line)
            if found is not None and found[1] != "mmap":
                size = int(found[2])
                total[found[1]] += size
                largest[found[1]] = max(largest.get(found[1], 0), size)
    return total, largest


def test_large_fetches_are_sent_by_sendfile_and_read_by_nobody(traced: tuple[Broker, Path]) -> None:
    broker, trace = traced
    with closing(RawClient(broker.port)) as client:
        payload, start = fetch_all(client, trace)
    # The client may have an answer before the tracer has written that it was sent.
    eventually(lambda: system_calls(trace, start)[0]["sendfile"] >= payload, "a line for each sendfile")
    total, largest = system_calls(trace, start)
    assert total["sendfile"] == payload
    assert sum(total[name] for name in _READS) < payload / 100, total
    assert sum(total[name] for name in _SENDS) < payload / 100, total
    assert max(largest.get(name, 0) for name in _READS | _SENDS) < 4096, largest


def fetch_all(client: RawClient, trace: Path) -> tuple[int, int]:
    """Produce, then read everything. (bytes of records, size of the trace when the reading began)"""
    for _ in range(BATCHES):
        assert client.produce(TOPIC, batch_of(_BATCH_BYTES)).error == 0
    start = trace.stat().st_size
    payload = offset = 0
    while offset < BATCHES:
        client.send(fetch_frame(TOPIC, offset, 1 << 20))
        (result,) = decode_response(12, memoryview(client.receive())[5:]).results
        headers, size = checked_headers(result.records_view)
        assert size >= SENDFILE_BYTES_MIN
        payload += size
        offset = headers[-1].last_offset + 1
    return payload, start


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("71 sendfile(18, 11, [250000] => [500000], 250000) = 250000", {"sendfile": 250000}),
        ("71 sendfile(18, 11, [0] <unfinished ...>", {}),
        ("71 <... sendfile resumed> => [250000], 250000) = 250000", {"sendfile": 250000}),
        ('72 sendto(9, ""..., 12, 0, NULL, 0) = -1 EAGAIN (Resource temporarily unavailable)', {}),
    ],
)
def test_lines_of_the_tracer_are_read(tmp_path: Path, line: str, expected: dict[str, int]) -> None:
    (tmp_path / "trace").write_text(f"{line}\n")
    assert system_calls(tmp_path / "trace", 0) == (expected, expected)
