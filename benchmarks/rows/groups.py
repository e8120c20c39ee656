"""Groups with many members: how soon all have their part, and what they cost while nothing happens."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.clients.coordinators import coordinators
from benchmarks.clients.members import GroupMember
from benchmarks.clients.wire import Wire
from benchmarks.report.metrics import Target, at_most
from benchmarks.rows.base import Found, Row
from benchmarks.rows.measured import per_request

GROUP = "Groups"
_TIMEOUT_S = 180.0
_MB = 1e6


@dataclass(frozen=True, slots=True)
class GroupSettles(Row):
    """All members join a new group at once; then one leaves and another comes. All have their part in one generation.

    The first takes group.initial.rebalance.delay.ms, 3 s, with either system. Members hear that they have to join again
    by their heartbeats.
    """

    members: int
    heartbeat_s: float = 0.1
    group: str = GROUP
    metrics: tuple[str, ...] = ("settle_s", "settle_cpu_ms", "rejoin_s", "rejoin_cpu_ms")
    targets: tuple[Target, ...] = (at_most("settle_cpu_ms", 0.5), at_most("rejoin_cpu_ms", 0.5))
    client_threads: int = 1

    @property
    def name(self) -> str:
        return f"{self.members} members join, then one is another, heartbeats each {self.heartbeat_s * 1000:g} ms"

    @property
    def estimate_s(self) -> float:
        return 2 * 8.0

    def run(self, bench: Bench, found: Found) -> None:
        with bench.topic(1) as topic, Wire() as wire:
            group = f"{topic}-group"
            [home] = coordinators(bench.cluster, wire, "group", [group])
            lines = [wire.connect(bench.cluster.address(home)) for _ in range(self.members)]
            members = [GroupMember(wire, line, group, self.heartbeat_s) for line in lines]
            window, begun = bench.window(), time.monotonic()
            for member in members:
                member.join()
            generation = settle(wire, members, 0)
            found["settle_s"], used = time.monotonic() - begun, window.close()
            found.update(used.facts())
            found["settle_cpu_ms"] = used.broker_cpu_s * 1e3
            window, begun = bench.window(), time.monotonic()
            members.pop().leave()
            members.append(GroupMember(wire, lines[-1], group, self.heartbeat_s))
            members[-1].join()
            settle(wire, members, generation + 1)
            found["rejoin_s"] = time.monotonic() - begun
            found["rejoin_cpu_ms"] = window.close().broker_cpu_s * 1e3


@dataclass(frozen=True, slots=True)
class IdleMembers(Row):
    """Members in groups of a hundred that only send heartbeats, by default settings: each three seconds."""

    members: int
    seconds: float
    heartbeat_s: float = 3.0
    a_group: int = 100
    group: str = GROUP
    metrics: tuple[str, ...] = ("broker_cores", "cpu_ms_per_1000_requests", "rss_mb", "client_cores")
    targets: tuple[Target, ...] = (at_most("broker_cores", 0.5),)
    client_threads: int = 1

    @property
    def name(self) -> str:
        return f"{self.members:,} idle members in groups of {self.a_group}"

    @property
    def estimate_s(self) -> float:
        return 2 * (15 + self.members / 500 + self.seconds)

    def run(self, bench: Bench, found: Found) -> None:
        with bench.topic(1) as topic, Wire() as wire:
            names = [f"{topic}-{n}" for n in range(self.members // self.a_group)]
            homes = coordinators(bench.cluster, wire, "group", names)
            groups = [
                [
                    GroupMember(wire, wire.connect(bench.cluster.address(home)), name, self.heartbeat_s)
                    for _ in range(self.a_group)
                ]
                for name, home in zip(names, homes, strict=True)
            ]
            for members in groups:
                for member in members:
                    member.join()
            for members in groups:
                settle(wire, members, 0)
            everybody = [member for members in groups for member in members]
            # Until heartbeats come as they will: those of one group all began together.
            wire.run_for(self.heartbeat_s)
            before = sum(member.heartbeats for member in everybody)
            window, cpu_s = bench.window(), time.process_time()
            wire.run_for(self.seconds)
            used, cpu_s = window.close(), time.process_time() - cpu_s
            beats = sum(member.heartbeats for member in everybody) - before
            found.update(used.facts())
            found.update(per_request(used, beats))
            found["heartbeats_per_s"] = beats / used.seconds
            found["broker_cores"] = used.broker_cpu_s / used.seconds
            found["client_cores"] = cpu_s / used.seconds
            found["rss_mb"] = statistics.fmean(bench.cluster.rss_bytes()) / _MB


def settle(wire: Wire, members: list[GroupMember], at_least: int) -> int:
    """Until all have their part in one generation that is no older than this; its number."""

    def settled() -> bool:
        generation = members[0].generation
        return generation >= max(at_least, 0) and all(member.generation == generation for member in members)

    wire.run_until(settled, f"{len(members)} members in one generation", _TIMEOUT_S)
    return members[0].generation
