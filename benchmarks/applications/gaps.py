"""What clients say while a broker is killed, and what follows from it. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_STEADY_NS = 1_500_000_000
_SILENCE_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class Said:
    """successes: CLOCK_MONOTONIC, ns, ascending; failures: texts of errors that reached the application."""

    successes: tuple[int, ...]
    failures: tuple[str, ...]


def parse(output: str) -> Said:
    """The whole lines of a driver's output so far (benchmarks.applications.drivers); others are not its own."""
    successes, failures = [], []
    for line in output[: output.rfind("\n") + 1].splitlines():
        if line.isdecimal():
            successes.append(int(line))
        elif line.startswith("failed: "):
            failures.append(line.removeprefix("failed: "))
    return Said(tuple(sorted(successes)), tuple(failures))


def longest_silence_ns(successes: Sequence[int], from_ns: int, until_ns: int) -> int:
    """Longest time without success between the two; a silence that lasts until then counts as far as it was seen."""
    times = [from_ns, *(at for at in successes if from_ns < at < until_ns), until_ns]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


def is_steady(successes: Sequence[int], now_ns: int) -> bool:
    """Whether the last seconds were without a silence that a person would notice."""
    return longest_silence_ns(successes, now_ns - _STEADY_NS, now_ns) < _SILENCE_NS


@dataclass(frozen=True, slots=True)
class Spread:
    """Of so many gaps, in ms."""

    count: int
    median: float
    p90: float
    worst: float


def spread(gaps_ms: Sequence[float]) -> Spread | None:
    """None of none. The median is the middle one, or the mean of the two; p90 the smallest that 90 % do not exceed."""
    if not gaps_ms:
        return None
    ordered = sorted(gaps_ms)
    return Spread(len(ordered), statistics.median(ordered), ordered[math.ceil(0.9 * len(ordered)) - 1], ordered[-1])
