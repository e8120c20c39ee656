"""What can have deleted records in a run: retention, by how old they were or how much lay above them, and requests.

Knows settings, not histories; a setting that could not fire excuses nothing. Kafka's names and precedence
(LogConfig: the topic's, else the broker's; ms over minutes over hours; 7 days where nothing is set). By time a segment
goes once its newest record is older than the limit by the broker's wall clock; by size only while what remains is as
large as the limit (UnifiedLog.deletableSegments). Records live longer for being in segments, never shorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Settings = Mapping[str, object]

_MINUTE_MS = 60_000
DEFAULT_MS = 7 * 24 * 60 * _MINUTE_MS
TOMBSTONES_MS = 24 * 60 * _MINUTE_MS
SLACK_NS = 1_000_000_000
"""How far wall clocks that nobody moved may be off each other, and off the monotonic one."""
START_WRITTEN_NS = 2_000_000_000
"""Within it a highwater broker has written down that a request raised a log start: a second, doubled."""
_KAFKA_WRITES_STARTS_MS = 60_000
_BROKER_TIMES = (
    ("log.retention.ms", 1),
    ("log.retention.minutes", _MINUTE_MS),
    ("log.retention.hours", 60 * _MINUTE_MS),
)


@dataclass(frozen=True, slots=True)
class Expiry:
    """What a record's absence below a log start may be attributable to; each will do.

    age_ns: so much run time, at least, lies between its send and its absence; None: none goes for its age.
    size_bytes: so many bytes, at least, lie above it; None: none goes for the size of its log. record_bytes: what one
    record adds to a log at most. requested: clients asked for deletions; the history has which.
    """

    age_ns: int | None = None
    size_bytes: int | None = None
    record_bytes: int = 0
    requested: bool = False


@dataclass(frozen=True, slots=True)
class Retention:
    """The least of any broker; None: never. append_time: a record's age counts from the broker's clock, not from the
    client's, which no fault moves.
    """

    time_ms: int | None = DEFAULT_MS
    size_bytes: int | None = None
    append_time: bool = False

    def expiry(
        self, *, run_ms: float, ahead_ms: float, behind_ms: float, record_bytes: int, requested: bool = False
    ) -> Expiry | None:
        """None where nothing can have been deleted. run_ms: length of the run. ahead_ms, behind_ms: how far brokers'
        clocks were off at most. requested: whether clients asked for deletions.
        """
        off_ms = ahead_ms + (behind_ms if self.append_time else 0.0)
        age_ns = None if self.time_ms is None else max(0, round((self.time_ms - off_ms) * 1e6) - SLACK_NS)
        if age_ns is not None and age_ns > run_ms * 1e6:
            age_ns = None
        if age_ns is None and self.size_bytes is None and not requested:
            return None
        return Expiry(age_ns, self.size_bytes, record_bytes, requested)


def retention_of(brokers: Sequence[Settings], topic: Settings) -> Retention:
    """brokers: the settings of each, or of all. topic: the topic's own."""
    times, sizes, stamps = [], [], []
    for broker in brokers or [{}]:
        if "delete" not in _policy(broker, topic):
            continue
        times.append(_time_ms(broker, topic))
        sizes.append(int(str(topic.get("retention.bytes", broker.get("log.retention.bytes", -1)))))
        stamps.append(topic.get("message.timestamp.type", broker.get("log.message.timestamp.type", "CreateTime")))
    return Retention(_least(times), _least(sizes), "LogAppendTime" in stamps)


def is_compacted(brokers: Sequence[Settings], topic: Settings) -> bool:
    """By any broker."""
    return any("compact" in _policy(broker, topic) for broker in brokers or [{}])


def keeps_all(brokers: Sequence[Settings]) -> bool:
    """Whether a topic without settings keeps its records for as long as a run takes: no broker says when they go."""
    names = {"log.cleanup.policy", "log.retention.bytes", *(name for name, _ in _BROKER_TIMES)}
    return names.isdisjoint(name for broker in brokers for name in broker)


def _policy(broker: Settings, topic: Settings) -> str:
    return str(topic.get("cleanup.policy", broker.get("log.cleanup.policy", "delete")))


def tombstones_kept_ms(brokers: Sequence[Settings], topic: Settings) -> int:
    """How long a tombstone stays that a cleaner has passed (`delete.retention.ms`): the least of any broker."""
    name = "delete.retention.ms"
    of_brokers = [int(str(broker.get(f"log.cleaner.{name}", TOMBSTONES_MS))) for broker in brokers or [{}]]
    return int(str(topic[name])) if name in topic else min(of_brokers)


def start_written_ns(system: str, brokers: Sequence[Settings]) -> int:
    """Within how long a broker has written down that a request raised a log start: the longest of any.

    Of a system that is not known, as of Apache Kafka: its checkpoint of log starts comes at intervals.
    """
    if system == "highwater":
        return START_WRITTEN_NS
    name = "log.flush.start.offset.checkpoint.interval.ms"
    longest_ms = max(int(str(broker.get(name, _KAFKA_WRITES_STARTS_MS))) for broker in brokers or [{}])
    return longest_ms * 1_000_000 + START_WRITTEN_NS


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
