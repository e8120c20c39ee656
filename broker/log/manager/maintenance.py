"""What is done to all logs from time to time: flushes that are due, retention, closing of files that nobody reads.

A log that is found damaged, or whose dir fails, stops none of the others.
Source: kafka LogManager.flushDirtyLogs, cleanupLogs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from broker.log.environment import Environment
from broker.log.manager.open_logs import OpenLogs
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed, NoDescriptorFree

_logger = logging.getLogger(__name__)

OnDamage = Callable[[CorruptLog], None]
"""Called for each log whose bytes cannot be right."""


def ignore_damage(_: CorruptLog) -> None:
    """Its line in the broker's log is enough."""


class LogMaintenance:
    """Every log that is open and whose dir works has its turn."""

    def __init__(self, logs: OpenLogs, environment: Environment) -> None:
        self._logs = logs
        self._environment = environment

    def flush_due(self, on_damage: OnDamage) -> None:
        """Begin flushes of logs whose flush.ms has passed since their last one."""
        now_ms = self._environment.now_ms()
        for log in list(self._logs.working().values()):
            if log.log_end_offset > log.recovery_point and now_ms - log.durability.last_flush_ms >= log.config.flush_ms:
                log.durability.last_flush_ms = now_ms
                try:
                    log.flush_in_background()
                except CorruptLog as damage:
                    _logger.error("not flushed: %s", damage)
                    on_damage(damage)
                except LogDirFailed as failure:
                    _logger.error("%s: not flushed: %s", log.topic_partition, failure)

    def close_unread(self) -> None:
        """Close inactive segments where too many are open."""
        self._environment.open_segments.trim()

    def delete_old_segments(
        self, wall_ms: float, high_watermarks: Mapping[TopicPartition, Offset], on_damage: OnDamage
    ) -> int:
        """Apply retention to every log with a known high watermark; returns segments removed."""
        removed = 0
        for tp, log in list(self._logs.working().items()):
            if tp not in high_watermarks:
                continue
            try:
                removed += log.delete_old_segments(wall_ms, high_watermarks[tp])
            except CorruptLog as damage:
                _logger.error("no retention: %s", damage)
                on_damage(damage)
            except (LogDirFailed, NoDescriptorFree) as failure:
                _logger.error("%s: no retention: %s", tp, failure)
        return removed
