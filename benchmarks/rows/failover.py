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
from benchmarks.systems import BROKERS, REPLICATION_FACTOR, is_full

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


@dataclass(frozen=True, slots=True)
class Failover:
    """The leader of a partition gets SIGKILL, or SIGTERM; afterwards it starts again and joins the ISR."""

    how: Literal["SIGKILL", "SIGTERM"]
    group: str = "Failover, 18 s session"
    metrics: tuple[str, ...] = ("unavailable_s",)

    @property
    def name(self) -> str:
        return f"{self.how} of the leader"

    @property
    def targets(self) -> tuple[Target, ...]:
        if self.how == "SIGKILL":
            return (at_most("unavailable_s", 0.05),)
        return ()

    def run(self, bench: Bench) -> Mapping[str, float]:
        cluster = bench.cluster
        with bench.topic(1) as topic:
            state = cluster.zookeeper.partition(topic, 0)
            assert state is not None
            leader = cluster.brokers[state.leader]
            argv = bench.lean.command("probe", topic, record_bytes=100, seconds=LIMIT_S + 20)
            probe = Daemon(f"probe-{next(_numbers)}", argv, cluster.folder, {})

            def attempts() -> list[Attempt]:
                return parse_attempts(probe.output.read_text())

            def moved() -> bool:
                return any(a.succeeded and a.broker != leader.broker_id for a in attempts())

            probe.start()
            try:
                wait_for("first successes", lambda: any(a.succeeded for a in attempts()), LIMIT_S)
                time.sleep(SETTLE_S)
                ended_ns = time.monotonic_ns()
                leader.daemon.signal(signal.Signals[self.how])
                wait_for(f"{cluster.name}: success at another leader", moved, LIMIT_S)
                leader.daemon.wait()
                time.sleep(SETTLE_S)
            finally:
                probe.kill()
                leader.daemon.wait(LIMIT_S if self.how == "SIGTERM" else 5.0)
                if not leader.daemon.alive:
                    leader.daemon.start()
                cluster.await_serving(BROKERS)
            wait_for(
                f"{cluster.name}: ISR of {REPLICATION_FACTOR} after the restart",
                lambda: is_full(cluster.zookeeper.partition(topic, 0)),
                LIMIT_S,
            )
            found = longest_gap_s(attempts(), ended_ns)
        if found <= 0:
            raise VoidRun("no success was seen after the signal")
        return {"unavailable_s": found}
