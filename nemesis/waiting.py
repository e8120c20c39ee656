"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], timeout_s: float, interval_s: float = 0.1) -> T:
    """Call until the result is true or the time is up; the last result. Called at least once."""
    deadline = time.monotonic() + timeout_s
    while True:
        met = condition()
        if met or time.monotonic() >= deadline:
            return met
        time.sleep(interval_s)
