"""An offline log that no committed record depends on is brought back: cut where its damage begins, or made anew where
nothing can be kept. The leader has what is cut.

Source: none in Kafka, whose damaged logs are removed by hand.
"""

from __future__ import annotations

import logging

from broker.log.environment import Environment
from broker.log.files import moved_mark
from broker.log.files.log_dir import LogDir
from broker.log.log import PartitionLog
from broker.log.manager.checkpointing import Checkpointing
from broker.log.manager.creation import MADE_ANEW, LogCreation
from broker.log.manager.deletion import LogDeletion
from broker.log.manager.open_logs import OpenLogs
from broker.log.manager.topic_settings import TopicSettings
from broker.log.manager.unclean_logs import UncleanLogs
from broker.log.recovery.loader import RecoveryReport, load
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog

_logger = logging.getLogger(__name__)


class LogRepair:
    """Restores offline logs. Each is marked unclean, on disk too, before anything is cut or made."""

    def __init__(
        self,
        logs: OpenLogs,
        unclean: UncleanLogs,
        settings: TopicSettings,
        checkpointing: Checkpointing,
        creation: LogCreation,
        deletion: LogDeletion,
        environment: Environment,
    ) -> None:
        self.reports: list[RecoveryReport] = []
        """One for each log that was cut."""
        self._logs = logs
        self._unclean = unclean
        self._settings = settings
        self._checkpointing = checkpointing
        self._creation = creation
        self._deletion = deletion
        self._environment = environment

    def restore(self, topic_partition: TopicPartition, topic_id: str) -> PartitionLog:
        """The log that is there now, not offline any more. Raises LogDirFailed."""
        tp = topic_partition
        logs = self._logs
        assert tp in logs.offline
        log_dir = logs.homes[tp]
        log_dir.check()
        if logs.folder_is_gone(tp):
            logs.forget_offline(tp)
            self._unclean.forget(tp)
            return self._creation.make(tp, topic_id, MADE_ANEW)
        if len(logs.dirs_of(tp)) > 1:
            _logger.warning("%s; both give way to an empty one", logs.offline[tp])
            self._deletion.delete(tp)
            return self._creation.make(tp, topic_id, MADE_ANEW)
        try:
            log, report = self._cut(tp, log_dir)
        except CorruptLog as damage:
            _logger.warning("%s; its folder gives way to an empty one", damage)
            self._deletion.delete(tp)
            return self._creation.make(tp, topic_id, MADE_ANEW)
        except OSError as error:
            raise log_dir.fail(error) from error
        logs.forget_offline(tp)
        self.reports.append(report)
        logs.add(tp, log, log_dir)
        log_dir.remember_end(tp, log.staged_end_offset)
        self._checkpointing.lower(tp, log_dir, report.leo)
        if topic_id and log.topic_id and log.topic_id != topic_id:
            self._deletion.set_aside(tp)
            return self._creation.make(tp, topic_id, MADE_ANEW)
        return self._creation.find_or_make(tp, topic_id, new=True)

    def _cut(self, tp: TopicPartition, log_dir: LogDir) -> tuple[PartitionLog, RecoveryReport]:
        """Raises CorruptLog where nothing can be kept, OSError."""
        path = log_dir.file(str(tp))
        # The mark of its damage stays until the log is cut, so that after a crash the log does not look whole, nor its
        # damage like a compaction hole.
        log, report = load(
            tp, log_dir, path, self._settings.of(tp.topic), self._environment,
            clean=False,
            recovery_point=log_dir.checkpointed_recovery_points.get(tp, 0),
            log_start=log_dir.checkpointed_log_starts.get(tp, 0),
            high_watermark=log_dir.checkpointed_high_watermarks.get(tp, 0),
            repair=True,
            damaged=True,
            has_holes=tp in log_dir.cleaner_offsets,
        )  # fmt: skip
        self._unclean.mark_folder(tp, path, f"damage was cut: {self._logs.offline[tp]}")
        # Where a copy may have taken its place, in a dir that is away: this one is the partition's log again.
        moved_mark.remove(path)
        return log, report
