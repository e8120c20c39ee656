"""Loading the log dirs at a start: the clean-shutdown marks are removed, each log is opened, and it is decided which
logs the last stop may have cost acknowledged bytes.

What could not be loaded is offline; what may have lost acknowledged bytes is marked unclean. A dir that fails takes
only its own logs offline.
Source: kafka LogManager.loadLogs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from broker.log.environment import Environment
from broker.log.files import checkpoints, moved_mark, run_mark, unclean_shutdown
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.log.files.log_dir import LogDir
from broker.log.files.moved_mark import Moved
from broker.log.files.names import is_deleted_dir, is_stray_dir, parse_future_dir, parse_partition_dir
from broker.log.files.run_mark import LastRun
from broker.log.log import PartitionLog
from broker.log.manager.checkpointing import Checkpointing
from broker.log.manager.deletion import LogDeletion
from broker.log.manager.log_dirs import LogDirs, guard
from broker.log.manager.moving import LogMoving
from broker.log.manager.open_logs import OpenLogs
from broker.log.manager.topic_settings import TopicSettings
from broker.log.manager.unclean_logs import UncleanLogs
from broker.log.recovery.loader import RecoveryReport, load
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog

_logger = logging.getLogger(__name__)

Folders = Mapping[TopicPartition, Sequence[str]]
Loaded = tuple[PartitionLog, RecoveryReport] | CorruptLog


@dataclass(frozen=True, slots=True)
class _LastStop:
    """What a log dir says of the stop before this start."""

    run: LastRun
    epoch: int | None
    """Broker epoch in the mark of a clean stop, None where there was no such mark."""
    recovery_points: dict[TopicPartition, Offset]
    points_are_whole: bool
    """That checkpoint was there, with every line as it was written."""
    log_starts: dict[TopicPartition, Offset]
    high_watermarks: dict[TopicPartition, Offset]

    @property
    def clean(self) -> bool:
        return self.epoch is not None

    def reason_of(self, topic_partition: TopicPartition, log: PartitionLog) -> str:
        """Why the log may have lost bytes at this stop or an earlier one, "" when it has not."""
        return unclean_shutdown.worse(
            unclean_shutdown.read_mark(log.path),
            unclean_shutdown.unclean_reason(
                clean=self.clean,
                same_kernel=self.run.same_kernel,
                leo=log.staged_end_offset,
                recovery_point=self.recovery_points.get(topic_partition, 0),
                high_watermark=self.high_watermarks.get(topic_partition, 0),
                last_end=self.run.end_of(topic_partition),
            ),
        )


@dataclass(frozen=True, slots=True)
class _Copy:
    """A folder `….<32 hex>-future`, and what its dir says of the last stop."""

    log_dir: LogDir
    topic_partition: TopicPartition
    name: str
    stop: _LastStop


class LogLoading:
    """Opens all that is in the log dirs, once."""

    def __init__(
        self,
        dirs: LogDirs,
        logs: OpenLogs,
        unclean: UncleanLogs,
        settings: TopicSettings,
        checkpointing: Checkpointing,
        deletion: LogDeletion,
        moving: LogMoving,
        environment: Environment,
    ) -> None:
        self.reports: list[RecoveryReport] = []
        self.clean_shutdown_epochs: dict[str, int | None] = {}
        """Per dir the broker epoch of the clean stop before this start; None after an unclean one (−1: not said)."""
        self._dirs = dirs
        self._logs = logs
        self._unclean = unclean
        self._settings = settings
        self._checkpointing = checkpointing
        self._deletion = deletion
        self._moving = moving
        self._copies: list[_Copy] = []
        self._environment = environment

    def load_all(self, threads: int) -> None:
        """threads: so many logs of a dir are opened at a time."""
        folders = self._find_folders()
        for log_dir in self._dirs:
            guard(log_dir, partial(self._load_dir, log_dir, threads, folders))
        for copy in self._copies:
            guard(copy.log_dir, partial(self._resume, copy))
        for log_dir in self._dirs:
            self._add_missing(log_dir)

    def _find_folders(self) -> dict[TopicPartition, list[str]]:
        """The folders of every partition, where there are several dirs: one each, unless someone, or a power failure,
        brought an old one back.
        """
        folders: dict[TopicPartition, list[str]] = {}
        if len(self._dirs) == 1:
            return folders

        def look(log_dir: LogDir) -> None:
            with os.scandir(log_dir.path) as entries:
                for entry in entries:
                    tp = parse_partition_dir(entry.name)
                    if tp is not None and entry.is_dir():
                        folders.setdefault(tp, []).append(entry.path)

        for log_dir in self._dirs.working:
            guard(log_dir, partial(look, log_dir))
        for tp, paths in folders.items():
            if len(paths) > 1:
                folders[tp] = self._without_outdated(tp, paths)
        return folders

    def _without_outdated(self, tp: TopicPartition, paths: list[str]) -> list[str]:
        """Of the folders of one partition those whose log no copy has replaced; the others are deleted, where one
        alone is left.
        """
        working = {log_dir.path: log_dir for log_dir in self._dirs.working}
        outdated = [path for path in paths if moved_mark.judge(path, working) is Moved.REPLACED]
        if len(paths) - len(outdated) != 1:
            return paths
        for path in outdated:
            log_dir = working[os.path.dirname(path)]
            _logger.warning("%s: %s is deleted: %s has its log", tp, path, moved_mark.read(path))
            guard(log_dir, partial(self._deletion.discard, tp, log_dir, str(tp), None))
        return [path for path in paths if path not in outdated]

    def _load_dir(self, log_dir: LogDir, threads: int, folders: Folders) -> None:
        """Raises OSError, LogDirFailed."""
        stop = self._read_last_stop(log_dir)
        found = self._sort_folders(log_dir, folders, stop)
        opened = _map(lambda tp: self._open(tp, found[tp], log_dir, stop), list(found), threads)
        for tp, loaded in zip(found, opened, strict=True):
            if isinstance(loaded, CorruptLog):
                self._keep_offline(tp, found[tp], log_dir, loaded)
            else:
                self._logs.add(tp, loaded[0], log_dir)
                self.reports.append(loaded[1])
        self._judge_stop(log_dir, stop)
        log_dir.begin_run()
        self._adopt_checkpoints(log_dir, stop, found.keys())

    def _read_last_stop(self, log_dir: LogDir) -> _LastStop:
        """The mark of a clean stop is gone afterwards."""
        # Before anything is read: reading would put it in the page cache.
        last_run = run_mark.read(log_dir.path)
        epoch = log_dir.take_clean_mark()
        self.clean_shutdown_epochs[log_dir.path] = epoch
        log_dir.epoch = last_run.epoch if epoch is None else epoch
        recovery_points, points_are_whole = log_dir.read_offsets(checkpoints.RECOVERY_POINTS)
        log_starts, _ = log_dir.read_offsets(checkpoints.LOG_STARTS)
        high_watermarks, _ = log_dir.read_offsets(checkpoints.HIGH_WATERMARKS)
        log_dir.cleaner_offsets.load(log_dir.read_offsets(CLEANER_OFFSETS)[0])
        return _LastStop(last_run, epoch, recovery_points, points_are_whole, log_starts, high_watermarks)

    def _sort_folders(self, log_dir: LogDir, folders: Folders, stop: _LastStop) -> dict[TopicPartition, str]:
        """The folders of partitions that are in no other dir; deletions that a stop interrupted go on."""
        found: dict[TopicPartition, str] = {}
        for entry in sorted(os.scandir(log_dir.path), key=lambda entry: entry.name):
            if not entry.is_dir():
                continue
            tp = parse_partition_dir(entry.name)
            if is_deleted_dir(entry.name):
                self._deletion.resume(log_dir, entry.name)
            elif is_stray_dir(entry.name):
                _logger.warning(
                    "%s is the log of a topic id that was replaced, and no request deleted it; remove it by hand",
                    entry.path,
                )
            elif (copied := parse_future_dir(entry.name)) is not None:
                self._copies.append(_Copy(log_dir, copied, entry.name, stop))
            elif tp is None:
                _logger.warning("%s is no partition's folder and is left alone", entry.path)
            elif len(folders.get(tp, ())) > 1:
                self._refuse_one_of_many(tp, log_dir, folders[tp])
            else:
                self._logs.homes[tp] = log_dir
                found[tp] = entry.path
        return found

    def _open(self, tp: TopicPartition, path: str, log_dir: LogDir, stop: _LastStop) -> Loaded:
        """On any thread. Raises OSError."""
        try:
            self._settle_mark(tp, path)
            unclean_shutdown.mark_half_made(path)
            # A log that was found damaged is checked as after a crash, even after clean stops since.
            damaged = unclean_shutdown.is_damaged(path)
            return load(
                tp, log_dir, path, self._settings.of(tp.topic), self._environment,
                clean=stop.clean and not damaged,
                recovery_point=stop.recovery_points.get(tp, 0), log_start=stop.log_starts.get(tp, 0),
                high_watermark=stop.high_watermarks.get(tp, 0), has_holes=tp in log_dir.cleaner_offsets,
                host_lived=stop.clean or stop.run.same_kernel, damaged=damaged,
                point_is_lost=tp not in stop.recovery_points and (damaged or not stop.points_are_whole),
            )  # fmt: skip
        except CorruptLog as error:
            return error

    def _settle_mark(self, tp: TopicPartition, path: str) -> None:
        """A copy was about to take this log's place: did it? Raises CorruptLog where nobody knows, OSError."""
        if not moved_mark.read(path):
            return
        moved = moved_mark.judge(path, [log_dir.path for log_dir in self._dirs.working])
        if moved is Moved.UNKNOWN:
            raise CorruptLog(tp, path, f"its log may have been moved to {moved_mark.read(path)}, whose dir is away")
        if moved is Moved.REPLACED and not unclean_shutdown.read_mark(path):
            unclean_shutdown.leave_mark(path, f"it was moved to {moved_mark.read(path)}, which is gone")
            unclean_shutdown.sync_mark(path)
        moved_mark.remove(path)

    def _resume(self, copy: _Copy) -> None:
        """Go on with a move. Raises OSError, LogDirFailed."""
        log_dir, tp, stop = copy.log_dir, copy.topic_partition, copy.stop
        current = self._logs.get(tp)

        def opened() -> PartitionLog:
            log, _ = load(
                tp, log_dir, log_dir.file(copy.name), self._settings.of(tp.topic), self._environment,
                clean=stop.clean, recovery_point=stop.recovery_points.get(tp, 0), log_start=stop.log_starts.get(tp, 0),
                has_holes=current is not None and current.has_holes,
                host_lived=stop.clean or stop.run.same_kernel,
                point_is_lost=tp not in stop.recovery_points and not stop.points_are_whole,
            )  # fmt: skip
            return log

        if not self._moving.resume(tp, log_dir, copy.name, opened) and self._logs.homes.get(tp) is not log_dir:
            # The lines were about the copy: no log is missing here.
            log_dir.checkpointed_recovery_points.pop(tp, None)
            log_dir.checkpointed_high_watermarks.pop(tp, None)
            log_dir.checkpointed_log_starts.pop(tp, None)

    def _keep_offline(self, tp: TopicPartition, path: str, log_dir: LogDir, damage: CorruptLog) -> None:
        """Raises OSError."""
        _logger.error("replica stays offline: %s", damage)
        self._logs.add_offline(tp, damage, log_dir)
        # Marked, because a later clean stop does not bring back what was lost.
        self._unclean.mark_folder(tp, path, unclean_shutdown.damage_reason(damage))
        # Durably, before a checkpoint without a line of this log is written: then the log would look new.
        unclean_shutdown.sync_mark(path)

    def _refuse_one_of_many(self, tp: TopicPartition, log_dir: LogDir, paths: Sequence[str]) -> None:
        """Nobody knows which of these folders is the partition's: none is opened. Raises OSError."""
        if tp not in self._logs.offline:
            others = " and in ".join(paths[1:])
            doubt = CorruptLog(tp, paths[0], f"it is in {others} too: remove the folder that is not wanted")
            _logger.error("replica stays offline: %s", doubt)
            self._logs.add_offline(tp, doubt, log_dir)
        log_dir.offline.add(tp)
        # Whichever folder the operator keeps may be the older copy. A mark that a folder has already stays: it may say
        # more.
        path = log_dir.file(str(tp))
        self._unclean.mark_folder(tp, path, unclean_shutdown.read_mark(path) or str(self._logs.offline[tp]))
        unclean_shutdown.sync_mark(path)

    def _judge_stop(self, log_dir: LogDir, stop: _LastStop) -> None:
        """Mark the logs that may have lost bytes. Raises OSError."""
        for tp in log_dir.logs:
            log = self._logs.by_partition[tp]
            reason = stop.reason_of(tp, log)
            if reason:
                self._unclean.mark_folder(tp, log.path, reason)

    def _adopt_checkpoints(self, log_dir: LogDir, stop: _LastStop, found: Collection[TopicPartition]) -> None:
        """From here on the dir writes its checkpoints again, none of which claims more than was found."""
        log_dir.checkpointed_recovery_points = stop.recovery_points
        log_dir.checkpointed_log_starts = stop.log_starts
        log_dir.checkpointed_high_watermarks = stop.high_watermarks
        for report in self.reports:
            if report.topic_partition in found:
                self._checkpointing.lower(report.topic_partition, log_dir, report.leo)
        if not stop.points_are_whole:
            # Written at the very first start too, so that a missing file always means that it was lost.
            log_dir.write_recovery_points()
        self._checkpointing.adopt_high_watermarks(log_dir)

    def _add_missing(self, log_dir: LogDir) -> None:
        """A partition with a checkpointed offset and no folder was lost: it is offline, so that no empty log takes its
        place.
        """
        for tp in {*log_dir.checkpointed_recovery_points, *log_dir.checkpointed_high_watermarks} - (
            self._logs.homes.keys() | log_dir.being_deleted
        ):
            known = max(
                log_dir.checkpointed_recovery_points.get(tp, 0), log_dir.checkpointed_high_watermarks.get(tp, 0)
            )
            if known > 0:
                lost = CorruptLog(tp, log_dir.file(str(tp)), f"the folder is gone; records below {known} were in it")
                _logger.error("replica stays offline: %s", lost)
                self._logs.add_offline(tp, lost, log_dir)


def _map(function: Callable[[TopicPartition], Loaded], items: Sequence[TopicPartition], threads: int) -> list[Loaded]:
    if threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads, "log-recovery") as pool:
        return list(pool.map(function, items))
