"""R6: a wall clock that jumps by a week, on one broker or on all, changes no ISR, no leader and no time-out."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from broker.wire.messages.fetch import decode_response
from harness.tools.faketime import faketime_environment, faketime_library
from tests.integration.broker.writing import TOPIC, Writer, create, read
from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.raw_client import RawClient, fetch_frame

pytestmark = pytest.mark.guarantee("R6")

WEEK_S = 7 * 24 * 3600
LAG_MS = 1500
SESSION_MS = 4000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": str(LAG_MS),
    "min.insync.replicas": "2",
}
# libfaketime names its shared memory after its pid, and leaves it behind when it is killed.
_UNDER_FAKETIME = 'rm -f "/dev/shm/faketime_shm_$$" "/dev/shm/sem.faketime_sem_$$"; exec env "$@"'
STATE = f"/brokers/topics/{TOPIC}/partitions/0/state"


@dataclass
class Clocks:
    """Each broker's wall clock, by its control file."""

    folder: Path
    cluster: Cluster

    def set(self, offset_s: int, *brokers: int) -> None:
        """Returns when the brokers' event logs show it."""
        for broker in brokers:
            _control(self.folder, broker).write_text(f"{offset_s:+d} x1\n")
        for broker in brokers:
            wait_until(lambda broker=broker: abs(self.ahead_s(broker) - offset_s) < 60, f"the clock of {broker}")  # type: ignore[misc]

    def ahead_s(self, broker: int) -> float:
        """By how much its last line's wall clock is ahead of this process's, as the monotonic clock tells."""
        event = _last_line(self.cluster.brokers[broker].event_log)
        honest = time.time_ns() - time.monotonic_ns()
        return (int(str(event["w"])) - int(str(event["m"])) - honest) / 1e9


def _last_line(path: Path) -> dict[str, object]:
    """Of an event log; a torn one is left out."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 16_384))
        found: dict[str, object] = json.loads(file.read().split(b"\n")[-2])
    return found


def _control(folder: Path, broker: int) -> Path:
    return folder / f"clock-{broker}"


@pytest.fixture
def clocks(tmp_path: Path) -> Iterator[Clocks]:
    library = faketime_library()
    assert library is not None, "libfaketime is not installed: pip install 'highwater[lab]'"
    hosts = {}
    for i in (1, 2, 3):
        _control(tmp_path, i).write_text("+0 x1\n")
        variables = faketime_environment(str(library), str(_control(tmp_path, i)))
        named = [f"{name}={value}" for name, value in variables.items()]
        hosts[i] = ("127.0.0.1", ["sh", "-c", _UNDER_FAKETIME, "sh", *named])
    pids: list[int] = []
    try:
        with running_cluster(tmp_path, settings=SETTINGS, hosts=hosts) as cluster:
            pids += [broker.process.pid for broker in cluster.brokers.values() if broker.process is not None]
            wait_until(lambda: cluster.controller() is not None, "a controller")
            create(cluster, 1)
            yield Clocks(tmp_path, cluster)
    finally:
        for pid in pids:
            for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
                with suppress(FileNotFoundError):
                    Path("/dev/shm", name).unlink()


def long_poll_s(cluster: Cluster, topic: str, max_wait_ms: int, step: Callable[[], None]) -> float:
    """How long a fetch at the end of a quiet topic waited, with a step of the clock in the middle of it."""
    client = RawClient(cluster.brokers[1].port)
    # From before it is sent: whatever holds this process up makes the wait longer, never shorter.
    began = time.monotonic()
    client.send(fetch_frame(topic, 0, 1 << 20, max_wait_ms))
    step()
    (result,) = decode_response(12, memoryview(client.receive())[5:]).results
    took_s = time.monotonic() - began
    client.close()
    assert (result.error, len(result.records_view)) == (0, 0)
    return took_s


def test_week_ahead_or_back_changes_no_isr_no_leader_and_no_timeout(clocks: Clocks) -> None:
    cluster = clocks.cluster
    create(cluster, 1, "quiet")
    writer = Writer(cluster)
    try:
        writer.wait_for_more(50)
        before, controller = cluster.zk.get(STATE), cluster.controller()
        registered = {i: cluster.zk.get(f"/brokers/ids/{i}")[1].czxid for i in cluster.brokers}
        for offset_s, brokers in [
            (WEEK_S, (1,)),  # the leader
            (-WEEK_S, (2,)),  # a follower, and now a fortnight lies between the two
            (-WEEK_S, (1, 3)),
            (WEEK_S, (1, 2, 3)),
            (0, (1, 2, 3)),
        ]:
            clocks.set(offset_s, *brokers)
            # Longer than it takes to miss a follower, or a session.
            time.sleep(max(1.5 * LAG_MS, SESSION_MS) / 1000 + 0.5)
            writer.wait_for_more(20)
            now = cluster.zk.get(STATE)
            assert (now[0], now[1].mzxid) == (before[0], before[1].mzxid), f"after {offset_s:+d} s on {brokers}"
        # Time-outs that are under way when the clock jumps. It is read anew within a second.
        for offset_s in (WEEK_S, -WEEK_S):
            waited_s = long_poll_s(cluster, "quiet", 3000, partial(clocks.set, offset_s, 1))
            assert 2.9 < waited_s < 8, f"a fetch that may wait 3 s waited {waited_s} s over a step of {offset_s:+d} s"
        clocks.set(0, 1, 2, 3)
        # A follower that is truly late is still found, in its time.
        late = next(i for i in (2, 3) if i != controller)
        cluster.brokers[late].pause()
        clocks.set(WEEK_S, 1)
        try:
            cluster.wait_state(TOPIC, 0, leader=1, isr={1, 2, 3} - {late})
        finally:
            cluster.brokers[late].resume()
        cluster.wait_state(TOPIC, 0, leader=1, isr={1, 2, 3})
        assert cluster.controller() == controller
        assert {i: cluster.zk.get(f"/brokers/ids/{i}")[1].czxid for i in cluster.brokers} == registered
    finally:
        writer.stop()
    assert read(cluster, writer.sent) == list(range(writer.sent))
    events = [event for broker in cluster.brokers.values() for event in broker.events()]
    dropped = [e for e in events if e["e"] == "isr_propose" and e["kind"] == "shrink" and e["p"] == f"{TOPIC}-0"]
    assert [e["isr"] for e in dropped] == [sorted({1, 2, 3} - {late})]
