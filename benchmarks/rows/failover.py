"""How long a client that retries goes without success when a leader ends, with the default session time-out."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.bench import Bench
from benchmarks.clients.lean import Attempt, parse_attempts
from benchmarks.measure.guard import VoidRun
from benchmarks.process import BenchmarkFailed, Daemon, wait_for
from benchmarks.report.metrics import Target, at_most
from benchmarks.rows.base import Found, Row
from benchmarks.systems import BROKERS, Cluster
from benchmarks.topics import await_full

LIMIT_S = 40.0
SETTLE_S = 1.0
AGE_S = 10.0
"""No broker is younger when one of them is ended: who has just come back is not what is measured."""
_numbers = itertools.count(1)


def longest_gap_s(attempts: Sequence[Attempt], from_ns: int, until_ns: int = 0) -> float:
    """Longest time after from_ns without a success, in seconds; the first gap starts at from_ns itself.

    until_ns: how far was looked; a gap that lasts until then counts as far as it was seen.
    """
    last, longest = from_ns, 0
    for attempt in attempts:
        if attempt.succeeded and attempt.known_ns > last:
            longest = max(longest, attempt.known_ns - last)
            last = attempt.known_ns
    return max(longest, until_ns - last) / 1e9


def why_lost(attempts: Sequence[Attempt], end_offset: int) -> str | None:
    """None when every acknowledged record is in a log of that length, each at an offset of its own; else which not.

    All records are the same bytes, so of a record that was overwritten only the offset tells, which then is
    acknowledged twice.
    """
    seen: set[int] = set()
    for attempt in attempts:
        if attempt.offset is None:
            continue
        if attempt.offset >= end_offset:
            return f"offset {attempt.offset} was acknowledged, the log ends at {end_offset}"
        if attempt.offset in seen:
            return f"offset {attempt.offset} was acknowledged twice"
        seen.add(attempt.offset)
    return None


Victim = Literal["leader", "controller", "leader and controller"]


@dataclass(frozen=True, slots=True)
class Failover(Row):
    """A broker gets SIGKILL, or SIGTERM; afterwards it starts again and joins the ISR.

    victim: "leader" is not the controller, and "controller" leads nothing that is written to.
    """

    how: Literal["SIGKILL", "SIGTERM"]
    victim: Victim = "leader"
    group: str = "Failover, 18 s session"
    metrics: tuple[str, ...] = ("unavailable_s",)
    targets: tuple[Target, ...] = (at_most("unavailable_s", 0.05),)

    @property
    def name(self) -> str:
        return f"{self.how} of the {self.victim}"

    @property
    def estimate_s(self) -> float:
        return 40.0 if self.how == "SIGKILL" else 30.0

    def run(self, bench: Bench, found: Found) -> None:
        cluster = bench.cluster
        youngest_s = min(broker.daemon.age_s for broker in cluster.brokers.values())
        time.sleep(max(AGE_S - youngest_s, 0.0))
        controller = cluster.zookeeper.controller()
        if controller is None:
            raise BenchmarkFailed(f"{cluster.name}: nobody controls")
        leader, ended = roles(self.victim, controller)
        with bench.topic(1, leader, await_gone=False) as topic:
            argv = bench.lean.command("probe", topic, record_bytes=100, seconds=2 * LIMIT_S + 3 * SETTLE_S)
            probe = Daemon(f"probe-{next(_numbers)}", argv, cluster.folder, {})
            probe.start()
            try:
                signal_ns = self._end(cluster, probe, ended)
                looked_ns = time.monotonic_ns()
            finally:
                probe.kill()
                if not cluster.brokers[ended].daemon.alive:
                    cluster.brokers[ended].daemon.start()
                cluster.await_serving(BROKERS)
            attempts = parse_attempts(probe.output.read_text())
            found["unavailable_s"] = longest_gap_s(attempts, signal_ns, looked_ns - int(SETTLE_S * 1e9))
            await_full(cluster, topic, 1)
            guard = bench.guard(topic, 1)
            guard.await_replicas()
            # Records of unknown fate may be there too.
            lost = why_lost(attempts, guard.check_logs(None)[0])
            if lost is not None:
                raise VoidRun(f"lost: {lost}")

    def _end(self, cluster: Cluster, probe: Daemon, victim: int) -> int:
        """Send the signal, and wait until records sent after the victim's end succeed, or for LIMIT_S, and a little
        more; returns when it was sent, in ns.
        """

        def success_after(ns: int) -> bool:
            return any(a.succeeded and a.sent_ns > ns for a in parse_attempts(probe.output.read_text()))

        wait_for("first successes", lambda: success_after(0), LIMIT_S)
        time.sleep(SETTLE_S)
        signal_ns = time.monotonic_ns()
        cluster.brokers[victim].daemon.signal(signal.Signals[self.how])
        if not cluster.brokers[victim].daemon.wait(LIMIT_S):
            raise VoidRun(f"broker {victim} did not end within {LIMIT_S:g} s of {self.how} and was killed")
        gone_ns = time.monotonic_ns()
        try:
            wait_for(f"success without broker {victim}", lambda: success_after(gone_ns), LIMIT_S)
        except BenchmarkFailed:
            # That is what was to be found out: so long, at least.
            return signal_ns
        time.sleep(SETTLE_S)
        return signal_ns


def roles(victim: Victim, controller: int) -> tuple[int, int]:
    """(leader of the partition, broker to end), given who controls."""
    other = next(broker_id for broker_id in BROKERS if broker_id != controller)
    if victim == "leader":
        return other, other
    return (other, controller) if victim == "controller" else (controller, controller)
