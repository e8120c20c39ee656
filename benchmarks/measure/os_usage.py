"""What the kernel says of a process, of all processes of the benchmark, and of the machine.

By psutil, but for what it does not have, and for free memory: `memory` asks for that between any two reads, and psutil
works out a dozen figures more for each answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

_REPORTED = Path("/sys/module/page_reporting/parameters/reported_kib")


class CpuTime(NamedTuple):
    """CPU seconds."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        return self.user_s + self.system_s

    def since(self, before: CpuTime) -> CpuTime:
        return CpuTime(self.user_s - before.user_s, self.system_s - before.system_s)


class MachineTime(NamedTuple):
    """CPU seconds of all processors. steal_s: the host gave them to somebody else."""

    busy_s: float
    steal_s: float


def total(of: Iterable[CpuTime]) -> CpuTime:
    times = list(of)
    return CpuTime(sum(time.user_s for time in times), sum(time.system_s for time in times))


def cpu_time(pid: int) -> CpuTime:
    """CPU time of a process so far, of all its threads, also ended ones, to a tick (10 ms)."""
    times = psutil.Process(pid).cpu_times()
    return CpuTime(times.user, times.system)


def family_cpu_s(root: int) -> float:
    """CPU seconds of a process and of all below it that are there now, and of those that ended and were waited for."""
    head = psutil.Process(root)
    seconds = 0.0
    for process in (head, *head.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it has just ended
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def machine_time() -> MachineTime:
    """Busy is all but idle, waiting for disks, and stolen; a guest's time is in user's."""
    times = psutil.cpu_times()
    return MachineTime(times.user + times.nice + times.system + times.irq + times.softirq, times.steal)


def rss_bytes(pid: int) -> int:
    """Resident memory."""
    return psutil.Process(pid).memory_info().rss


def read_bytes(pid: int) -> int:
    """What a process has fetched from disks so far."""
    return psutil.Process(pid).io_counters().read_bytes


def parse_kib(text: str, name: str) -> int:
    """A line "Name:  123 kB" of /proc/meminfo, in bytes. Raises KeyError when it is missing."""
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(f"no line {name}:")


def free_bytes() -> int:
    """Memory that nothing uses, the page cache included among the users."""
    return parse_kib(Path("/proc/meminfo").read_text(), "MemFree")


def total_bytes() -> int:
    return psutil.virtual_memory().total


def reported_bytes() -> int | None:
    """Free memory that was given back to the host so far; None where the kernel does not tell."""
    try:
        return int(_REPORTED.read_text()) * 1024
    except (OSError, ValueError):
        return None


def processors() -> int:
    return len(os.sched_getaffinity(0))
