"""What /proc says of a process, of all processes of the benchmark, and of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PPID, _UTIME, _STIME, _CUTIME, _CSTIME = 1, 11, 12, 13, 14
_STEAL = 7
_BUSY = (0, 1, 2, 5, 6)
"""user, nice, system, irq, softirq; a guest's time is in user's."""
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


def _fields(stat: str) -> list[str]:
    # The command's name may hold blanks and brackets; the fields after the last one are plain.
    return stat.rpartition(")")[2].split()


def parse_stat_cpu(stat: str, ticks_per_s: int) -> CpuTime:
    """User and system time in a /proc/<pid>/stat line, of all threads, also ended ones."""
    fields = _fields(stat)
    return CpuTime(int(fields[_UTIME]) / ticks_per_s, int(fields[_STIME]) / ticks_per_s)


def cpu_time(pid: int) -> CpuTime:
    """CPU time of a process so far, to a tick (10 ms)."""
    return parse_stat_cpu(Path(f"/proc/{pid}/stat").read_text(), _TICKS_PER_S)


def parse_family_cpu_s(stats: Mapping[int, str], root: int, ticks_per_s: int) -> float:
    """CPU seconds of a process and all below it, those that ended and were waited for included.

    stats: /proc/<pid>/stat by pid.
    """
    fields = {pid: _fields(stat) for pid, stat in stats.items()}
    below: dict[int, list[int]] = {}
    for pid, of in fields.items():
        below.setdefault(int(of[_PPID]), []).append(pid)
    ticks, left = 0, [root]
    while left:
        pid = left.pop()
        if pid in fields:
            ticks += sum(int(fields[pid][index]) for index in (_UTIME, _STIME, _CUTIME, _CSTIME))
        left += below.get(pid, ())
    return ticks / ticks_per_s


def family_cpu_s(root: int) -> float:
    """Of the processes that are there now."""
    stats = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stats[int(entry)] = Path(f"/proc/{entry}/stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
    return parse_family_cpu_s(stats, root, _TICKS_PER_S)


def parse_machine_time(stat: str, ticks_per_s: int) -> MachineTime:
    """The first line of /proc/stat."""
    fields = [int(field) for field in stat.splitlines()[0].split()[1:]]
    return MachineTime(sum(fields[index] for index in _BUSY) / ticks_per_s, fields[_STEAL] / ticks_per_s)


def machine_time() -> MachineTime:
    return parse_machine_time(Path("/proc/stat").read_text(), _TICKS_PER_S)


def parse_kib(text: str, name: str) -> int:
    """A line "Name:  123 kB" of /proc/<pid>/status or /proc/meminfo, in bytes. Raises KeyError when it is missing."""
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(f"no line {name}:")


def rss_bytes(pid: int) -> int:
    """Resident memory."""
    return parse_kib(Path(f"/proc/{pid}/status").read_text(), "VmRSS")


def parse_read_bytes(io: str) -> int:
    """What a process has fetched from disks, in /proc/<pid>/io. Raises KeyError when it is not told."""
    for line in io.splitlines():
        name, _, value = line.partition(":")
        if name == "read_bytes":
            return int(value)
    raise KeyError("no line read_bytes:")


def read_bytes(pid: int) -> int:
    """What a process has fetched from disks so far."""
    return parse_read_bytes(Path(f"/proc/{pid}/io").read_text())


def free_bytes() -> int:
    """Memory that nothing uses, the page cache included among the users."""
    return parse_kib(Path("/proc/meminfo").read_text(), "MemFree")


def total_bytes() -> int:
    return parse_kib(Path("/proc/meminfo").read_text(), "MemTotal")


def reported_bytes() -> int | None:
    """Free memory that was given back to the host so far; None where the kernel does not tell."""
    try:
        return int(_REPORTED.read_text()) * 1024
    except (OSError, ValueError):
        return None


def processors() -> int:
    return len(os.sched_getaffinity(0))
