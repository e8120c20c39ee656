"""Making logs: empty, in the dir with the fewest partitions, inheriting nothing from a deleted log of the same name.

A crash meanwhile leaves no log, a complete empty one, or a folder that the next start marks as unclean.
Source: kafka LogManager.getOrCreateLog, nextLogDirs.
"""

from __future__ import annotations

import os

from broker.log.environment import Environment
from broker.log.files import checkpoints, unclean_shutdown
from broker.log.files.log_dir import LogDir
from broker.log.files.names import parse_partition_dir
from broker.log.log import PartitionLog
from broker.log.manager.log_dirs import LogDirs, guard
from broker.log.manager.open_logs import OpenLogs
from broker.log.manager.topic_settings import TopicSettings
from broker.log.manager.unclean_logs import UncleanLogs
from broker.log.recovery.loader import load
from broker.model.ids import Offset, TopicPartition

_PREFERENCES_MAX = 10_000
MADE_ANEW = "the log was made anew for a partition that is not new"


class LogCreation:
    """Makes empty logs, and finds those again that are there."""

    def __init__(
        self, dirs: LogDirs, logs: OpenLogs, unclean: UncleanLogs, settings: TopicSettings, environment: Environment
    ) -> None:
        self._dirs = dirs
        self._logs = logs
        self._unclean = unclean
        self._settings = settings
        self._environment = environment
        self._preferred: dict[TopicPartition, str] = {}

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Make this log, once it is to be made, in the dir with this path. Source: LogManager.preferredLogDirs."""
        self._preferred.pop(topic_partition, None)
        self._preferred[topic_partition] = path
        if len(self._preferred) > _PREFERENCES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def find_or_make(self, topic_partition: TopicPartition, topic_id: str, *, new: bool) -> PartitionLog:
        """topic_id: as Kafka prints it, "" when unknown. new: this broker never had that log.

        Raises CorruptLog when the log is there and offline, ValueError when it is there with another id, LogDirFailed.
        """
        tp = topic_partition
        logs = self._logs
        if tp in logs.offline:
            if not (new and logs.folder_is_gone(tp)):
                raise logs.offline[tp]
            logs.forget_offline(tp)
            self._unclean.forget(tp)
        if tp in logs.homes:
            logs.homes[tp].check()
        existing = logs.get(tp)
        if existing is not None:
            if topic_id and existing.topic_id != topic_id:
                existing.set_topic_id(topic_id)
            return existing
        if not new:
            for log_dir in self._dirs:
                log_dir.check()
        return self.make(tp, topic_id, "" if new else MADE_ANEW)

    def make(self, topic_partition: TopicPartition, topic_id: str, unclean: str) -> PartitionLog:
        """An empty log. unclean: the reason to mark it unclean with, "" to leave it unmarked. Raises LogDirFailed."""
        tp = topic_partition
        self._dirs.check_any()
        working = self._dirs.working
        preferred = self._preferred.pop(tp, None)
        log_dir = min(working, key=lambda candidate: (candidate.path != preferred, len(candidate.logs)))
        for other in working:
            if other is not log_dir:
                guard(other, other.sync_deletions)
        # A log made anew under a deleted one's name must not inherit its offsets in a crash.
        log_dir.forget_checkpoints(tp)
        try:
            log = self.make_files(tp, topic_id, log_dir, log_dir.file(str(tp)), unclean)
        except OSError as error:
            raise log_dir.fail(error) from error
        self._logs.add(tp, log, log_dir)
        if unclean:
            self._unclean.add_marked(tp, unclean)
        # Makes the file names and the topic id durable without waiting for the first records.
        log.flush_in_background()
        log_dir.remember_end(tp, log.staged_end_offset)
        return log

    def make_files(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        log_dir: LogDir,
        path: str,
        unclean: str = "",
        *,
        log_start: Offset = 0,
        has_holes: bool = False,
    ) -> PartitionLog:
        """A folder of this path in log_dir, with an empty log in it that nobody knows yet. Raises OSError."""
        tp = topic_partition
        if parse_partition_dir(str(tp)) != tp:
            raise ValueError(f"no partition is called {tp!r}")
        os.mkdir(path)
        if unclean:
            # The mark comes first: wherever a crash ends this, an empty log must not look like a complete one.
            unclean_shutdown.leave_mark(path, unclean)
        # Not synced one by one: the log's first flush does it, before its recovery point can leave 0.
        if topic_id:
            checkpoints.write_atomically(
                f"{path}/{checkpoints.PARTITION_METADATA}", checkpoints.format_partition_metadata(topic_id), sync=False
            )
        checkpoints.write_atomically(f"{path}/{checkpoints.LEADER_EPOCHS}", checkpoints.format_epochs([]), sync=False)
        config = self._settings.of(tp.topic)
        log, _ = load(
            tp, log_dir, path, config, self._environment,
            clean=True, recovery_point=0, log_start=log_start, has_holes=has_holes,
        )  # fmt: skip
        return log
