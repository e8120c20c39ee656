from __future__ import annotations

import pytest

from harness.runs.console.stats import Stats


class Clock:
    """Seconds; stands still but for what a test adds."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stats(clock: Clock) -> Stats:
    return Stats(["setup", "main", "heal", "final", "drain-current", "drain-n1", "analysis"], clock_s=clock)
