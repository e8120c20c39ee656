"""The settings of one topic's logs, resolved once from text.

Names are Kafka's topic-level ones. Which text applies (topic override, broker default, Kafka default) is decided here;
whether an operator may set it is not. Source: org.apache.kafka.storage.internals.log.LogConfig (3.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.log.indexes.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from broker.log.indexes.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES

LONG_MAX = 2**63 - 1

_DEFAULTS: Mapping[str, str] = {
    "segment.bytes": str(1 << 30),
    "segment.ms": str(7 * 24 * 3600 * 1000),
    "segment.index.bytes": str(10 << 20),
    "index.interval.bytes": "4096",
    "retention.bytes": "-1",
    "retention.ms": str(7 * 24 * 3600 * 1000),
    "max.message.bytes": str(1024 * 1024 + 12),
    "flush.messages": str(LONG_MAX),
    "flush.ms": str(LONG_MAX),
    "flush.policy": "interval",
    "message.timestamp.type": "CreateTime",
    "file.delete.delay.ms": "60000",
    "cleanup.policy": "delete",
    "segment.jitter.ms": "0",
    "delete.retention.ms": str(24 * 3600 * 1000),
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": str(LONG_MAX),
}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One topic's log settings, parsed."""

    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    retention_bytes: int
    retention_ms: int
    max_message_bytes: int
    flush_messages: int
    flush_ms: int
    group_commit: bool
    log_append_time: bool
    file_delete_delay_ms: int
    deletes: bool
    compacts: bool
    may_have_holes: bool
    """The topic is compacted, or may have been, as it has a cleanup.policy of its own: a new replica cannot know former
    policies.
    """
    jitter_ms: int
    """segment.jitter.ms: a segment is rolled earlier than segment.ms by a random time up to this."""
    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    index_bytes: int
    index_entries_max: int
    """Entries that fit both indexes within segment.index.bytes."""
    index_safe_bytes: int
    """Fewer bytes of batches than this cannot have filled an index."""

    @property
    def flushes_between_rolls(self) -> bool:
        """Flushes other than at a roll: when a segment is rolled its batches may be durable, and its indexes not."""
        return self.group_commit or self.flush_messages < LONG_MAX or self.flush_ms < LONG_MAX

    @classmethod
    def parse(cls, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> LogConfig:
        """overrides: the topic's own; defaults: the broker's, under the same topic-level names.

        Names that concern no log are ignored. Raises ValueError naming the setting and its value.
        """

        def text(name: str) -> str:
            value = overrides.get(name)
            if value is None:
                value = defaults.get(name)
            return (_DEFAULTS[name] if value is None else value).strip()

        def number(name: str, least: int) -> int:
            value = text(name)
            try:
                parsed = int(value)
            except ValueError:
                raise ValueError(f"{name}={value!r}: a whole number is needed") from None
            if parsed < least:
                raise ValueError(f"{name}={parsed}: must be at least {least}")
            return parsed

        def fraction(name: str) -> float:
            value = text(name)
            try:
                parsed = float(value)
            except ValueError:
                raise ValueError(f"{name}={value!r}: a number is needed") from None
            if not 0 <= parsed <= 1:
                raise ValueError(f"{name}={value}: must be from 0 to 1")
            return parsed

        timestamp_type = text("message.timestamp.type")
        if timestamp_type not in ("CreateTime", "LogAppendTime"):
            raise ValueError(f"message.timestamp.type={timestamp_type!r}: must be CreateTime or LogAppendTime")
        policy = text("flush.policy")
        if policy not in ("interval", "group-commit"):
            raise ValueError(f"flush.policy={policy!r}: must be interval or group-commit")
        policies = {policy.strip() for policy in text("cleanup.policy").split(",") if policy.strip()}
        if not policies or policies - {"delete", "compact"}:
            raise ValueError(f"cleanup.policy={text('cleanup.policy')!r}: must be delete, compact or both")
        max_lag_ms = number("max.compaction.lag.ms", 1)
        segment_ms = number("segment.ms", 1)
        if "compact" in policies:
            # What is in the active segment cannot be compacted: it must be rolled in time.
            segment_ms = min(segment_ms, max_lag_ms)
        index_bytes = number("segment.index.bytes", 4)
        interval_bytes = number("index.interval.bytes", 0)
        index_entries_max = min(index_bytes // OFFSET_ENTRY_BYTES, index_bytes // TIME_ENTRY_BYTES - 1)
        return cls(
            segment_bytes=number("segment.bytes", 14),
            segment_ms=segment_ms,
            index_interval_bytes=interval_bytes,
            # Kafka takes any negative number for no limit here, but not as retention.ms.
            retention_bytes=number("retention.bytes", -LONG_MAX - 1),
            retention_ms=number("retention.ms", -1),
            max_message_bytes=number("max.message.bytes", 0),
            flush_messages=number("flush.messages", 1),
            flush_ms=number("flush.ms", 0),
            group_commit=policy == "group-commit",
            log_append_time=timestamp_type == "LogAppendTime",
            file_delete_delay_ms=number("file.delete.delay.ms", 0),
            deletes="delete" in policies,
            compacts="compact" in policies,
            may_have_holes="compact" in policies or "cleanup.policy" in overrides,
            jitter_ms=min(number("segment.jitter.ms", 0), segment_ms),
            delete_retention_ms=number("delete.retention.ms", 0),
            min_cleanable_dirty_ratio=fraction("min.cleanable.dirty.ratio"),
            # That the two do not contradict each other was checked when they were set.
            min_compaction_lag_ms=min(number("min.compaction.lag.ms", 0), max_lag_ms),
            max_compaction_lag_ms=max_lag_ms,
            index_bytes=index_bytes,
            index_entries_max=index_entries_max,
            index_safe_bytes=index_entries_max * (interval_bytes + 1),
        )
