"""Backoff after failures in a row: doubles from 50 ms to 1 s, ±20 % jitter so that brokers don't come back in step.

For reconnecting to brokers, and for what is tried again while ZooKeeper does not respond.
Source: Kafka's ExponentialBackoff; reconnect.backoff.ms, reconnect.backoff.max.ms.
"""

from __future__ import annotations

import random
from typing import Final

RECONNECT_MS: Final = 50.0
RECONNECT_MS_MAX: Final = 1000.0
_JITTER: Final = 0.2


class Backoff:
    """How long to wait after each failure in a row."""

    __slots__ = ("_failures", "_first_ms", "_max_ms", "_random")

    def __init__(
        self, first_ms: float = RECONNECT_MS, max_ms: float = RECONNECT_MS_MAX, seed: int | None = None
    ) -> None:
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._failures = 0
        self._random = random.Random(seed)

    def next_ms(self) -> float:
        """The wait after one more failure."""
        wait_ms: float = min(self._max_ms, self._first_ms * 2 ** min(self._failures, 16))
        self._failures += 1
        return wait_ms * self._random.uniform(1 - _JITTER, 1 + _JITTER)

    def reset(self) -> None:
        """After a success: the next pause is the shortest again."""
        self._failures = 0
