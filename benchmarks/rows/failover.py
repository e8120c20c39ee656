"""How long a client that retries goes without success when a leader ends, with the default session time-out."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.clients.lean import Attempt, parse_attempts
from benchmarks.measure.guard import VoidRun
from benchmarks.process import Daemon, wait_for
from benchmarks.report.metrics import Target, at_most
from benchmarks.rows.base import Bench
from benchmarks.systems import BROKERS, Cluster, is_full

LIMIT_S = 40.0
SETTLE_S = 1.0
_numbers = itertools.count(1)


def longest_gap_s(attempts: Sequence[Attempt], from_ns: int) -> float:
    """Longest time after from_ns without a success, in seconds; the first gap starts at from_ns itself."""
    last, longest = from_ns, 0
    for attempt in attempts:
        if attempt.succeeded and attempt.known_ns > last:
            longest = max(longest, attempt.known_ns - last)
            last = attempt.known_ns
    return longest / 1e9


Victim = Literal["leader", "controller", "leader and controller"]


@dataclass(frozen=True, slots=True)
class Failover:
    """A broker gets SIGKILL, or SIGTERM; afterwards it starts again and joins the ISR.

    victim: "leader" is not the controller, and "controller" leads nothing that is written to.
    """

    how: Literal["SIGKILL", "SIGTERM"]
    victim: Victim = "leader"
    group: str = "Failover, 18 s session"
    metrics: tuple[str, ...] = ("unavailable_s",)

    @property
    def name(self) -> str:
        return f"{self.how} of the {self.victim}"

    @property
    def targets(self) -> tuple[Target, ...]:
        return (at_most("unavailable_s", 0.05),) if self.how == "SIGKILL" else ()

    def run(self, bench: Bench) -> Mapping[str, float]:
        cluster = bench.cluster
        controller = cluster.zookeeper.controller()
        assert controller is not None
        leader, ended = roles(self.victim, controller)
        with bench.topic(1, leader) as topic:
            argv = bench.lean.command("probe", topic, record_bytes=100, seconds=2 * LIMIT_S)
            probe = Daemon(f"probe-{next(_numbers)}", argv, cluster.folder, {})
            probe.start()
            try:
                signal_ns = self._end(cluster, probe, ended)
            finally:
                probe.kill()
                if not cluster.brokers[ended].daemon.alive:
                    cluster.brokers[ended].daemon.start()
                cluster.await_serving(BROKERS)
            wait_for(
                f"{cluster.name}: full ISR after the restart",
                lambda: is_full(cluster.zookeeper.partition(topic, 0)),
                LIMIT_S,
            )
            found = longest_gap_s(parse_attempts(probe.output.read_text()), signal_ns)
        if found <= 0:
            raise VoidRun("no success was seen after the signal")
        return {"unavailable_s": found}

    def _end(self, cluster: Cluster, probe: Daemon, victim: int) -> int:
        """Send the signal, and wait until records sent after the victim's end succeed; when it was sent, in ns."""

        def success_after(ns: int) -> bool:
            return any(a.succeeded and a.sent_ns > ns for a in parse_attempts(probe.output.read_text()))

        wait_for("first successes", lambda: success_after(0), LIMIT_S)
        time.sleep(SETTLE_S)
        signal_ns = time.monotonic_ns()
        cluster.brokers[victim].daemon.signal(signal.Signals[self.how])
        cluster.brokers[victim].daemon.wait(LIMIT_S)
        gone_ns = time.monotonic_ns()
        wait_for(f"{cluster.name}: success without broker {victim}", lambda: success_after(gone_ns), LIMIT_S)
        time.sleep(SETTLE_S)
        return signal_ns


def roles(victim: Victim, controller: int) -> tuple[int, int]:
    """(leader of the partition, broker to end), given who controls."""
    other = next(broker_id for broker_id in BROKERS if broker_id != controller)
    if victim == "leader":
        return other, other
    return (other, controller) if victim == "controller" else (controller, controller)
