"""What processes of this machine are, have open and have used, as psutil says."""

from __future__ import annotations

import os

import psutil


def command_lines(text: str) -> dict[int, str]:
    """By pid, of processes other than this one whose command line holds the text."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if text in line and process.pid != os.getpid():
            found[process.pid] = line
    return found


def resident_kib(pid: int) -> int:
    """What a process has in memory."""
    return psutil.Process(pid).memory_info().rss // 1024


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return psutil.Process(pid).num_fds()


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
