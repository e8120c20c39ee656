"""How long rows take, roughly: for `--list`, and to divide `--minutes`. Nothing is judged by it.

Figures of two processors that Kafka and highwater were seen to reach there, warm, in whole megabytes a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

AROUND_S = 1.2
"""A topic made, filled, compared and deleted, on one system."""
JVM_S = 1.5
"""A Java tool's start."""
_LARGE = 1_000_000

_PRODUCE: Mapping[tuple[int, bool], tuple[float, float]] = MappingProxyType(
    {(-1, True): (170, 550), (1, True): (200, 600), (-1, False): (40, 120), (1, False): (60, 200)}
)
"""(Kafka, highwater) by acks and whether batches are large."""
CONSUME = (1500.0, 1500.0)
COLD = (250.0, 250.0)
LIBRARY = (110.0, 300.0)
LIBRARY_SMALL = (30.0, 60.0)
LIBRARY_CONSUME = (190.0, 210.0)
TOOL = (25.0, 45.0)
TOOL_LARGE = (70.0, 90.0)


def produce(acks: int, batch_bytes: int) -> tuple[float, float]:
    return _PRODUCE[(acks, batch_bytes >= _LARGE)]


def both(total_bytes: int, pace: tuple[float, float]) -> float:
    """Seconds to move so much on one and then on the other."""
    return sum(total_bytes / (megabytes * 1e6) for megabytes in pace)
