"""Closing all logs: in good order, with the mark of a clean stop, or as a kill would leave them.

Source: kafka LogManager.shutdown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from broker.log.files.log_dir import LogDir
from broker.log.files.unclean_shutdown import damage_reason
from broker.log.log import PartitionLog
from broker.log.manager.deletion import LogDeletion
from broker.log.manager.log_dirs import LogDirs, guard
from broker.log.manager.moving import LogMoving
from broker.log.manager.open_logs import OpenLogs
from broker.log.manager.unclean_logs import UncleanLogs
from broker.log.recovery.loader import RecoveryReport
from broker.model.log_errors import CorruptLog, LogDirFailed

_logger = logging.getLogger(__name__)


class LogClosing:
    """Happens once."""

    def __init__(
        self, dirs: LogDirs, logs: OpenLogs, unclean: UncleanLogs, deletion: LogDeletion, moving: LogMoving
    ) -> None:
        self._dirs = dirs
        self._logs = logs
        self._unclean = unclean
        self._deletion = deletion
        self._moving = moving
        self._closed = False

    def close_unused(self, clean_epochs: Mapping[str, int | None], reports: Sequence[RecoveryReport]) -> None:
        """After a start that failed: the clean-shutdown marks that it removed are written again, for no log was.

        clean_epochs: per dir the broker epoch of the mark that was taken away, None where there was none. reports: of
        all logs that were opened.
        """
        for log_dir in self._dirs:
            epoch = clean_epochs.get(log_dir.path)
            opened = [report for report in reports if self._logs.homes[report.topic_partition] is log_dir]
            if epoch is not None and log_dir.failed is None and all(report.clean for report in opened):
                guard(log_dir, partial(self._unclean.sync, log_dir))
                guard(log_dir, log_dir.leave_clean_mark)
        self.close(clean=False)

    def close(self, clean: bool) -> None:
        """clean: flush everything and leave the clean-shutdown mark. Idempotent.

        A dir that has failed, or fails now, gets no mark.
        """
        if self._closed:
            return
        self._closed = True
        self._deletion.stop()
        for log_dir in self._dirs:
            try:
                self._close_logs(log_dir, clean)
                if clean and log_dir.failed is None:
                    self._unclean.sync(log_dir)
                    log_dir.write_recovery_points()
                    log_dir.write_log_starts()
                    log_dir.run(log_dir.leave_clean_mark)
            except LogDirFailed:
                _logger.error("log dir %s is closed without the mark of a clean stop", log_dir.path)
            finally:
                log_dir.end_run()
                log_dir.unlock()
        self._deletion.close()

    def _close_logs(self, log_dir: LogDir, clean: bool) -> None:
        """Raises LogDirFailed."""
        for tp, home in self._logs.homes.items():
            log = self._logs.get(tp)
            if home is log_dir and log is not None:
                self._close_log(log, log_dir, clean)
        self._moving.close(log_dir, clean)

    def _close_log(self, log: PartitionLog, log_dir: LogDir, clean: bool) -> None:
        """Raises LogDirFailed. Damage that is found goes into the log's own mark: the stop is unclean for this log
        alone.
        """
        try:
            log.close(clean)
        except CorruptLog as damage:
            _logger.error("closed as damaged: %s", damage)
            reason = damage_reason(damage)
            log_dir.run(lambda: self._unclean.mark_folder(log.topic_partition, log.path, reason))
            log.close(clean=False)
