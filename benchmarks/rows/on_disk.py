"""Rows again, on topics whose records are on every ISR member's disk before acks=all acknowledges them.

highwater: `flush.policy=group-commit`, one fsync for all that came meanwhile. Kafka has no such thing; the same promise
is kept there by `flush.messages=1`, one fsync for each append. What it costs is seen beside the row without it.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.report.metrics import Target
from benchmarks.rows.base import Found, Row

_SLOWER = 5.0
"""Than without, roughly."""


@dataclass(frozen=True, slots=True)
class OnDisk(Row):
    """of: produces with acks=all."""

    of: Row
    group: str = "On disk before acknowledged"
    targets: tuple[Target, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.of.group}: {self.of.name}"

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.of.metrics

    @property
    def client_threads(self) -> int:
        return self.of.client_threads

    @property
    def estimate_s(self) -> float:
        return self.of.estimate_s * _SLOWER

    def run(self, bench: Bench, found: Found) -> None:
        self.of.run(bench.on_disk(), found)
