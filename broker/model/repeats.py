"""Lines of the log that repeat as often as somebody sends something: one an interval is written, the others counted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

INTERVAL_MS: Final = 10_000.0


def _monotonic_ms() -> float:
    return time.monotonic_ns() / 1e6


class Repeats:
    """Of a few kinds that the caller names; one thread."""

    def __init__(self, now_ms: Callable[[], float] = _monotonic_ms) -> None:
        self._now_ms = now_ms
        self._written: dict[str, float] = {}
        self._counted: dict[str, int] = {}

    def log(self, logger: logging.Logger, level: int, kind: str, text: str, *args: object) -> None:
        """Write the line of this kind, with how many were counted since the last one; or count it."""
        counted = self.again(kind)
        if counted is not None:
            logger.log(level, text + "%s", *args, counted)

    def again(self, kind: str) -> str | None:
        """None: this one is counted. Else it is to be written, and ends with this, which says how many were counted."""
        now_ms = self._now_ms()
        written_ms = self._written.get(kind)
        if written_ms is not None and now_ms - written_ms < INTERVAL_MS:
            self._counted[kind] = self._counted.get(kind, 0) + 1
            return None
        self._written[kind] = now_ms
        counted = self._counted.pop(kind, 0)
        return f" ({counted} more like it before)" if counted else ""
