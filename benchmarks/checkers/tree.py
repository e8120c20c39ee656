"""CPU and peak memory of a process and of all below it, also of those that end meanwhile.

Memory is the sum of what each process has for itself (PSS: a page that several share counts in parts). Looked at every
INTERVAL_S: what is taken and given back in between is not seen. CPU of a process that ended is what its parent got of
it; of one whose parent did not wait for it, what was seen last.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class Used:
    """What a command took. code: how it ended."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    processes: int
    code: int


def run(command: Sequence[str], log: Path, environment: Mapping[str, str], limit_s: float) -> Used:
    """Run a command to its end, its output into a file. Raises TimeoutError once the limit is over, and ends it."""
    began = time.monotonic()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=dict(environment), start_new_session=True
        ) as process,
    ):
        family = _Family(process.pid)
        while True:
            family.look()
            try:
                code = process.wait(INTERVAL_S)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() - began > limit_s:
                    family.end()
                    raise TimeoutError(f"{' '.join(command)}: not over after {limit_s:.0f} s") from None
    wall_s = time.monotonic() - began
    return Used(wall_s, family.cpu_s, family.peak_bytes, family.most, code)


class _Family:
    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._cpu_s: dict[tuple[int, float], float] = {}
        self.peak_bytes = 0
        self.most = 0

    def look(self) -> None:
        memory = 0
        members = self._members()
        for member in members:
            try:
                with member.oneshot():
                    times = member.cpu_times()
                    self._cpu_s[member.pid, member.create_time()] = times.user + times.system
                memory += member.memory_full_info().pss
            except psutil.Error:
                continue  # it has just ended
        self.peak_bytes = max(self.peak_bytes, memory)
        self.most = max(self.most, len(members))

    @property
    def cpu_s(self) -> float:
        """To the last look: INTERVAL_S times the processors may be missing at the end."""
        return sum(self._cpu_s.values())

    def _members(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return []

    def end(self) -> None:
        for member in self._members():
            try:
                member.kill()
            except psutil.Error:
                continue
