"""What brokers, and everybody else on the machine, used between two moments of a run.

Decides what is noted of a run beside what it measures. Foreign CPU is what the machine was busy with less this process
and all that it started: brokers, ZooKeepers and clients of both systems. The kernel's own threads are foreign.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.measure.os_usage import CpuTime, family_cpu_s, machine_time, reported_bytes
from benchmarks.systems import Cluster


@dataclass(frozen=True, slots=True)
class Others:
    """What was taken of the machine by others. reported_bytes: given back to the host; None where that is not told."""

    seconds: float
    foreign_s: float
    steal_s: float
    reported_bytes: int | None

    def facts(self) -> Mapping[str, float]:
        """For the JSON file; none of them is a quantity of the table."""
        figures = {"foreign_cores": max(self.foreign_s, 0.0) / self.seconds, "steal_cores": self.steal_s / self.seconds}
        if self.reported_bytes is not None:
            figures["reported_mb"] = self.reported_bytes / 1e6
        return {name: round(value, 4) for name, value in figures.items()}


class OthersWindow:
    """Opens when it is made."""

    def __init__(self) -> None:
        self._reported = reported_bytes()
        self._machine = machine_time()
        self._family_s = family_cpu_s(os.getpid())
        self._begun_s = time.monotonic()

    def close(self) -> Others:
        """What was taken since; may be asked again."""
        seconds = time.monotonic() - self._begun_s
        machine, family_s, reported = machine_time(), family_cpu_s(os.getpid()), reported_bytes()
        return Others(
            seconds=max(seconds, 1e-9),
            foreign_s=machine.busy_s - self._machine.busy_s - (family_s - self._family_s),
            steal_s=machine.steal_s - self._machine.steal_s,
            reported_bytes=None if reported is None or self._reported is None else reported - self._reported,
        )


@dataclass(frozen=True, slots=True)
class Used:
    """brokers: CPU of the three. read_bytes: what they fetched from disks."""

    seconds: float
    brokers: CpuTime
    read_bytes: int
    others: Others

    @property
    def broker_cpu_s(self) -> float:
        return self.brokers.total_s

    def facts(self) -> Mapping[str, float]:
        """For the JSON file; none of them is a quantity of the table."""
        brokers = {
            "window_s": self.seconds,
            "broker_user_s": self.brokers.user_s,
            "broker_system_s": self.brokers.system_s,
        }
        return {**{name: round(value, 4) for name, value in brokers.items()}, **self.others.facts()}


class Window:
    """Opens when it is made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._others = OthersWindow()
        self._read_bytes = cluster.read_bytes()
        self._begun_s = time.monotonic()
        self._brokers = cluster.cpu_time()

    def close(self) -> Used:
        """What was used since; may be asked again."""
        brokers = self._cluster.cpu_time().since(self._brokers)
        seconds = time.monotonic() - self._begun_s
        read = self._cluster.read_bytes() - self._read_bytes
        return Used(max(seconds, 1e-9), brokers, read, self._others.close())
