"""Whether the run's retention can have deleted anything: what is set, against how long and how large the run was.

Knows settings, not histories; a setting that could not fire excuses nothing. Kafka's names and precedence
(LogConfig: the topic's, else the broker's; ms over minutes over hours; 7 days where nothing is set). A segment is
deleted by size only while what remains is as large as the limit, so a replica that ended below it never lost any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Settings = Mapping[str, object]

_MINUTE_MS = 60_000
DEFAULT_MS = 7 * 24 * 60 * _MINUTE_MS
_BROKER_TIMES = (
    ("log.retention.ms", 1),
    ("log.retention.minutes", _MINUTE_MS),
    ("log.retention.hours", 60 * _MINUTE_MS),
)


@dataclass(frozen=True, slots=True)
class Retention:
    """The least of any broker; None: never."""

    time_ms: int | None = DEFAULT_MS
    size_bytes: int | None = None

    def can_fire(self, *, run_ms: float, ahead_ms: float, log_bytes: int) -> bool:
        """run_ms: length of the run. ahead_ms: how far a fault set a broker's clock. log_bytes: the largest replica."""
        by_time = self.time_ms is not None and self.time_ms <= run_ms + ahead_ms
        by_size = self.size_bytes is not None and self.size_bytes <= log_bytes
        return by_time or by_size


def retention_of(brokers: Sequence[Settings], topic: Settings) -> Retention:
    """brokers: the settings of each, or of all. topic: the topic's own."""
    policy = str(topic.get("cleanup.policy", "delete"))
    if "delete" not in policy:
        return Retention(None, None)
    times, sizes = [], []
    for broker in brokers or [{}]:
        times.append(_time_ms(broker, topic))
        sizes.append(int(str(topic.get("retention.bytes", broker.get("log.retention.bytes", -1)))))
    return Retention(_least(times), _least(sizes))


def _time_ms(broker: Settings, topic: Settings) -> int:
    if "retention.ms" in topic:
        return int(str(topic["retention.ms"]))
    for name, unit in _BROKER_TIMES:
        if name in broker:
            value = int(str(broker[name]))
            return value * unit if value >= 0 else -1
    return DEFAULT_MS


def _least(values: Sequence[int]) -> int | None:
    """-1 is never."""
    return min((value for value in values if value >= 0), default=None)
