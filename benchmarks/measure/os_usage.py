"""What /proc says of a process and of the machine."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12


def parse_stat_cpu_seconds(stat: str, ticks_per_s: int) -> float:
    """User plus system time in a /proc/<pid>/stat line, of all threads, also ended ones."""
    # The command's name may hold blanks and brackets; the fields after the last one are plain.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_STIME])) / ticks_per_s


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, to a tick (10 ms)."""
    return parse_stat_cpu_seconds(Path(f"/proc/{pid}/stat").read_text(), _TICKS_PER_S)


def parse_kib(text: str, name: str) -> int:
    """A line "Name:  123 kB" of /proc/<pid>/status or /proc/meminfo, in bytes. Raises KeyError when it is missing."""
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(f"no line {name}:")


def rss_bytes(pid: int) -> int:
    """Resident memory."""
    return parse_kib(Path(f"/proc/{pid}/status").read_text(), "VmRSS")


def free_bytes() -> int:
    """Memory that nothing uses, the page cache included among the users."""
    return parse_kib(Path("/proc/meminfo").read_text(), "MemFree")


def total_bytes() -> int:
    return parse_kib(Path("/proc/meminfo").read_text(), "MemTotal")


def processors() -> int:
    return len(os.sched_getaffinity(0))
