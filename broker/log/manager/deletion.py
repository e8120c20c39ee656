"""Deleting logs: a log's folder is renamed at once, then removed, or left for the operator.

Source: kafka LogManager.asyncDelete, deleteLogs, and its stray logs, whose deletion no request asked for.
"""

from __future__ import annotations

import contextlib
import os

from broker.log.environment import Environment
from broker.log.files.log_dir import LogDir
from broker.log.files.names import deleted_dir_name, is_deleted_dir, parse_set_aside_dir, stray_dir_name
from broker.log.log import PartitionLog
from broker.log.manager.checkpointing import Checkpointing
from broker.log.manager.log_dirs import LogDirs
from broker.log.manager.open_logs import OpenLogs
from broker.log.manager.topic_settings import TopicSettings
from broker.log.manager.unclean_logs import UncleanLogs
from broker.log.segments.removal import remove_folder
from broker.model.ids import TopicPartition
from broker.model.log_errors import LogDirFailed


class LogDeletion:
    """Renames, closes and removes the folders of deleted logs."""

    def __init__(
        self,
        dirs: LogDirs,
        logs: OpenLogs,
        unclean: UncleanLogs,
        settings: TopicSettings,
        checkpointing: Checkpointing,
        environment: Environment,
    ) -> None:
        self._dirs = dirs
        self._logs = logs
        self._unclean = unclean
        self._settings = settings
        self._checkpointing = checkpointing
        self._environment = environment
        self._pending: dict[str, PartitionLog | None] = {}
        """Path of a renamed folder → its log, whose descriptors are open until the delay is over; None where it is not
        open."""
        self._stopped = False

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename to `….<hex>-delete` at once, remove after file.delete.delay.ms. Also for an offline log.

        Nothing where there is no such log. Raises LogDirFailed.
        """
        self._take_out(topic_partition, deleted_dir_name(topic_partition))

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Rename to `….<hex>-stray`, and leave the folder to the operator. Otherwise as `delete`."""
        for log_dir in self._take_out(topic_partition, stray_dir_name(topic_partition)):
            # At once: a start that finds a checkpoint entry without a folder takes the log for lost, and this name does
            # not say that the log was to be deleted.
            log_dir.forget_checkpoints(topic_partition)

    def _take_out(self, tp: TopicPartition, name: str) -> list[LogDir]:
        """name: that the folder has from now on. Returns the dirs that it was in."""
        if tp not in self._logs.homes:
            return []
        places = self._logs.dirs_of(tp)
        for log_dir in places:
            log_dir.check()
        log = self._logs.get(tp)
        if log is not None:
            log.durability.discard()
            log.cleaning.call_off()
        gone = [log_dir for log_dir in places if tp in self._logs.offline and not os.path.isdir(log_dir.file(str(tp)))]
        renamed = [self._rename(log_dir, str(tp), name) for log_dir in places if log_dir not in gone]
        self._logs.remove(tp, places)
        self._unclean.forget(tp)
        self._checkpointing.forget(tp)
        for log_dir in places:
            log_dir.forget_end(tp)
        for path in renamed:
            self._close_later(path, log, self._settings.of(tp.topic).file_delete_delay_ms)
        for log_dir in gone:
            log_dir.forget_checkpoints(tp)
        return places

    def discard(self, topic_partition: TopicPartition, log_dir: LogDir, before: str, log: PartitionLog | None) -> None:
        """Delete a folder, with this name until now, that is not the partition's log (any more): as `delete`.

        log: what is open in it. Raises LogDirFailed.
        """
        path = self._rename(log_dir, before, deleted_dir_name(topic_partition))
        self._close_later(path, log, self._settings.of(topic_partition.topic).file_delete_delay_ms)

    def _rename(self, log_dir: LogDir, before: str, name: str) -> str:
        """The path that the folder has from now on. Raises LogDirFailed."""
        path = log_dir.file(name)
        log_dir.run(lambda: os.rename(log_dir.file(before), path))
        log_dir.has_unsynced_deletions = True
        return path

    def resume(self, log_dir: LogDir, name: str) -> None:
        """A start found this folder with the name of a deletion: remove it after the delay."""
        log_dir.has_unsynced_deletions = True
        topic_partition = parse_set_aside_dir(name)
        if topic_partition is not None:
            log_dir.being_deleted.add(topic_partition)
        self._close_later(log_dir.file(name), None, self._settings.defaults.file_delete_delay_ms)

    def _close_later(self, path: str, log: PartitionLog | None, delay_ms: float) -> None:
        """After the delay: close the log on the loop, then have the thread for deletions remove a deleted folder.

        The folder's name is unique, so a log that is made anew meanwhile need not wait. Where the broker stops or is
        killed first, the next start calls `resume`.
        """
        self._pending[path] = log
        self._environment.schedule(delay_ms, lambda: self._close_and_remove(path))

    def _close_and_remove(self, path: str) -> None:
        if path in self._pending and not self._stopped:
            log = self._pending.pop(path)
            if log is not None:
                log.close(clean=False)
            if self._forget_checkpoints(path) and is_deleted_dir(os.path.basename(path)):
                remove_folder(self._environment, path)

    def _forget_checkpoints(self, path: str) -> bool:
        """Remove a deleted log from the checkpoints before its folder is removed: else the log would look lost.

        False where a checkpoint may still name it, as its dir has failed; the next start then goes on.
        """
        folder, name = os.path.split(path)
        tp = parse_set_aside_dir(name)
        (log_dir,) = (log_dir for log_dir in self._dirs if log_dir.path == folder)
        if log_dir.failed is None and tp is not None and not log_dir.holds(tp):
            with contextlib.suppress(LogDirFailed):
                log_dir.forget_checkpoints(tp)
        return log_dir.failed is None

    def stop(self) -> None:
        """Remove nothing more: the next start removes the folders that are left."""
        self._stopped = True

    def close(self) -> None:
        """Close the logs whose delay is not over. Idempotent."""
        for log in self._pending.values():
            if log is not None:
                log.close(clean=False)
