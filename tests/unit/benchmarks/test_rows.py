"""Rows whose figure is more than what a client says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.clients.java_tools import ToolResult
from benchmarks.measure.guard import VoidRun
from benchmarks.measure.os_usage import CpuTime
from benchmarks.measure.window import Others, Used
from benchmarks.rows import consume_tools, curves, footprint
from benchmarks.rows.base import Found
from benchmarks.rows.consume_tools import ConsoleConsume
from benchmarks.rows.measured import Filled

USED = Used(2.0, CpuTime(0.5, 0.5), 0, Others(2.0, 0, 0, None))


class FakeConsole:
    """Takes a second to start, and `all_s` for everything."""

    def __init__(self, all_s: float) -> None:
        self._all_s = all_s

    def consume_partition(self, topic: str, records: int) -> ToolResult:
        return ToolResult(1, 1.0, 0, 0.8) if records == 1 else ToolResult(records, self._all_s, 0, 2.8)


def console(monkeypatch: pytest.MonkeyPatch, all_s: float) -> Found:
    @contextmanager
    def filled(*_: object) -> Iterator[Filled]:
        yield Filled("t", "cached")

    monkeypatch.setattr(consume_tools, "filled_topic", filled)
    bench = SimpleNamespace(java=FakeConsole(all_s), window=lambda: SimpleNamespace(close=lambda: USED))
    found: Found = {}
    ConsoleConsume(1000, 1_000_000_000).run(cast(Any, bench), found)
    return found


def test_console_consumer_is_measured_without_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    found = console(monkeypatch, 5.0)
    assert (found["mb_per_s"], found["tool_start_s"]) == (250.0, 1.0)
    assert found["client_cores"] == pytest.approx(0.5)


def test_console_consumer_that_took_no_longer_for_all_than_for_one_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VoidRun, match="one took 1"):
        console(monkeypatch, 0.9)


class FakeCluster:
    """Uses so much CPU in each window; stops as it is told."""

    def __init__(self, *cores: float, killed: tuple[int, ...] = ()) -> None:
        self._cores = list(cores)
        self._total = 0.0
        self._asked = 0
        self._killed = killed

    def cpu_time(self) -> CpuTime:
        if self._asked % 2:
            window = self._cores.pop(0) if len(self._cores) > 1 else self._cores[0]
            self._total += window * curves.IDLE_WINDOW_S
        self._asked += 1
        return CpuTime(self._total, 0.0)

    def stop_brokers(self, timeout_s: float) -> list[int]:
        return list(self._killed)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes by sleeping only."""
    now = [0.0]
    fake_time = {"monotonic": lambda: now[0], "sleep": lambda seconds: now.__setitem__(0, now[0] + seconds)}
    monkeypatch.setattr(curves, "time", SimpleNamespace(**fake_time))
    return now


def test_idle_cpu_is_looked_at_until_it_has_not_fallen_for_a_while(clock: list[float]) -> None:
    step = [0.5] * curves.IDLE_FLAT_WINDOWS  # the first of them is a fall
    flat = [0.1, 0.09, *[0.1] * curves.IDLE_FLAT_WINDOWS]
    assert curves._flat_idle_cores(cast(Any, FakeCluster(1.0, *step, *flat))) == pytest.approx(0.09)
    assert clock[0] == pytest.approx((1 + len(step) + 1 + curves.IDLE_FLAT_WINDOWS) * curves.IDLE_WINDOW_S)


def test_idle_cpu_that_keeps_falling_is_not_waited_for_without_end(clock: list[float]) -> None:
    falling = [100.0 - 0.5 * step for step in range(100)]
    curves._flat_idle_cores(cast(Any, FakeCluster(*falling)))
    assert clock[0] <= curves.IDLE_LIMIT_S + 2 * curves.IDLE_WINDOW_S


def test_clean_stop_that_needed_a_kill_is_void() -> None:
    curves._stop(cast(Any, FakeCluster(0.0)), 1)
    with pytest.raises(VoidRun, match=r"brokers \[2\] did not stop and were killed"):
        curves._stop(cast(Any, FakeCluster(0.0, killed=(2,))), 1)


def test_new_brokers_are_measured_without_load_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    made = SimpleNamespace(start=lambda: 0.7, close=lambda: closed.append(True), rss_bytes=lambda: [40e6, 50e6, 60e6])
    bench = SimpleNamespace(
        kind=None,
        at=lambda cluster: SimpleNamespace(cluster=cluster, window=lambda: SimpleNamespace(close=lambda: USED)),
    )
    monkeypatch.setattr(footprint, "time", SimpleNamespace(sleep=lambda _: None))
    found: Found = {}
    footprint.Start(Path("x"), make=cast(Any, lambda kind, folder: made)).run(cast(Any, bench), found)
    assert (found["start_s"], found["rss_mb"], found["idle_cores"]) == (0.7, 50.0, 0.5)
    assert closed == [True]
