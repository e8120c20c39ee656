"""Which of the kernel's figures count: on files as /proc has them, whose content is known, and on this process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.measure import os_usage
from benchmarks.measure.os_usage import (
    CpuTime,
    cpu_time,
    family_cpu_s,
    machine_time,
    read_bytes,
    rss_bytes,
    total_bytes,
)

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for /proc; the machine's own stat is there from the start."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    (tmp_path / "stat").write_text("cpu  100 10 50 1000 200 5 15 30 7 0\ncpu0 1 2 3 4 5 6 7 8 9 9\nbtime 1700000000\n")
    return tmp_path


def process(proc: Path, pid: int, parent: int, *seconds: float, name: str = "x") -> None:
    """seconds: user and system of its own, user and system of children that it has waited for."""
    times = " ".join(str(round(second * TICKS_PER_S)) for second in (*seconds, 0, 0, 0, 0)[:4])
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(
        f"{pid} ({name}) S {parent} 3 4 5 6 7 8 9 10 11 {times} 20 0 1 0 99" + 30 * " 0"
    )


def test_cpu_time_of_a_process_with_brackets_in_its_name(proc: Path) -> None:
    process(proc, 42, 1, 1.5, 0.5, 7, 7, name="a) b (c")
    assert cpu_time(42) == CpuTime(1.5, 0.5)


def test_family_is_a_process_and_all_below_it_and_those_that_ended(proc: Path) -> None:
    process(proc, 10, 1, 1, 0, 3, 1)
    process(proc, 11, 10, 0.4, 0.1)
    process(proc, 12, 11, 0.5, 0)
    process(proc, 20, 1, 9, 0)
    assert family_cpu_s(10) == 6.0


def test_family_does_without_what_ends_while_it_is_counted(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(proc, 10, 1, 1, 0)
    process(proc, 11, 10, 4, 0)
    there = psutil.Process.cpu_times

    def ended(of: psutil.Process) -> object:
        if of.pid == 11:
            raise psutil.NoSuchProcess(11)
        return there(of)

    monkeypatch.setattr(psutil.Process, "cpu_times", ended)
    assert family_cpu_s(10) == 1.0


def test_machine_is_busy_with_all_but_waiting_and_what_the_host_took(proc: Path) -> None:
    found = machine_time()
    assert found.busy_s * TICKS_PER_S == pytest.approx(180)
    assert found.steal_s * TICKS_PER_S == pytest.approx(30)


def test_read_bytes_are_those_from_disks(proc: Path) -> None:
    process(proc, 10, 1)
    lines = ("rchar: 9", "wchar: 8", "syscr: 7", "syscw: 6", "read_bytes: 4096", "write_bytes: 5")
    (proc / "10" / "io").write_text("\n".join(lines) + "\n")
    assert read_bytes(10) == 4096


def test_resident_memory_is_in_bytes(proc: Path) -> None:
    process(proc, 10, 1)
    (proc / "10" / "statm").write_text("900 512 30 4 0 50 0\n")
    assert rss_bytes(10) == 512 * PAGE_BYTES


def test_figures_of_a_real_process_are_those_of_the_kernel() -> None:
    work = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
    before_s = family_cpu_s(os.getpid())
    child = subprocess.Popen(
        [sys.executable, "-c", work + "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert 0.2 < cpu_time(child.pid).total_s < 5
        assert family_cpu_s(os.getpid()) - before_s > 0.2
        assert 1 << 20 < rss_bytes(child.pid) < total_bytes()
        assert read_bytes(child.pid) >= 0
    finally:
        child.communicate(b"\n", timeout=60)
    with pytest.raises(psutil.NoSuchProcess, match=str(child.pid)):
        cpu_time(child.pid)
    assert family_cpu_s(os.getpid()) - before_s > 0.2, "it was waited for"


def test_memory_of_the_machine_is_more_than_what_is_free() -> None:
    assert 0 < os_usage.free_bytes() < total_bytes()
    assert machine_time().busy_s > 0
