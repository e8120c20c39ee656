"""Logs that may have lost what they had acknowledged, each with the reason, until it leads or is in sync again.

The reason is in a mark in the log's folder too, so that later starts know it: see `broker.log.files.unclean_shutdown`.
Source: none in Kafka's LogManager; KIP-966 (unclean shutdown), R12 and L6 of docs/guarantees.md.
"""

from __future__ import annotations

import logging
from functools import partial

from broker.log.files import unclean_shutdown
from broker.log.files.log_dir import LogDir
from broker.log.manager.log_dirs import LogDirs, guard
from broker.log.manager.open_logs import OpenLogs
from broker.model.ids import TopicPartition

_logger = logging.getLogger(__name__)


class UncleanLogs:
    """A log is marked, cleared, or forgotten with its folder."""

    def __init__(self, dirs: LogDirs, logs: OpenLogs) -> None:
        self.reasons: dict[TopicPartition, str] = {}
        self._dirs = dirs
        self._logs = logs

    def mark(self, topic_partition: TopicPartition, reason: str) -> None:
        """Raises LogDirFailed."""
        log_dir = self._logs.homes[topic_partition]
        log_dir.run(lambda: self.mark_folder(topic_partition, log_dir.file(str(topic_partition)), reason))

    def mark_folder(self, topic_partition: TopicPartition, path: str, reason: str) -> None:
        """The same, in a folder that is named. Raises OSError."""
        _logger.warning("%s: unclean stop: %s", topic_partition, reason)
        unclean_shutdown.leave_mark(path, reason)
        self.reasons[topic_partition] = reason

    def add_marked(self, topic_partition: TopicPartition, reason: str) -> None:
        """The log's folder has a mark with this reason already."""
        _logger.warning("%s: unclean stop: %s", topic_partition, reason)
        self.reasons[topic_partition] = reason

    def clear(self, topic_partition: TopicPartition) -> None:
        """The replica leads or is in the ISR, so that its log has every committed record. Raises LogDirFailed."""
        if self.reasons.pop(topic_partition, None) is not None:
            log_dir = self._logs.homes[topic_partition]
            log_dir.run(lambda: unclean_shutdown.remove_mark(log_dir.file(str(topic_partition))))

    def forget(self, topic_partition: TopicPartition) -> None:
        """The folder is gone, and its mark with it."""
        self.reasons.pop(topic_partition, None)

    def is_shortened(self, topic_partition: TopicPartition) -> bool:
        """Whether a log has lost its tail at most since its broker stopped."""
        return unclean_shutdown.is_shortened(self.reasons.get(topic_partition, ""))

    def sync(self, log_dir: LogDir) -> None:
        """Make the marks in this dir survive a power failure. Raises LogDirFailed."""
        for tp in self.reasons:
            if self._logs.homes.get(tp) is log_dir:
                log_dir.run(partial(unclean_shutdown.sync_mark, log_dir.file(str(tp))))

    def registered(self, broker_epoch: int, epoch_before: int | None) -> None:
        """Mark every log of a dir that was left under another registration than the broker's last one, epoch_before."""
        for log_dir in self._dirs.working:
            reason = unclean_shutdown.older_copy_reason(log_dir.epoch, epoch_before)
            for tp in log_dir.logs if reason else ():
                if self.is_shortened(tp):
                    guard(log_dir, partial(self.mark, tp, reason))
            # Last: a kill before it leaves a mark that the next start does not believe. So does a dir that fails here.
            if log_dir.failed is None:
                log_dir.begin_registration(broker_epoch)
