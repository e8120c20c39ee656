"""Opening and closing the log dirs of a broker, and every log in them. The larger half of `broker.log.log_manager`.

Opening locks every dir, takes away the marks of the clean stop, and loads each log; what could not be loaded is in
`offline_logs`, what was found is in `reports`, what may have lost acknowledged bytes is in `unclean`. A dir that fails
takes only its own logs offline.
Source: kafka LogManager.loadLogs, shutdown.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from broker.log.config import LogConfig
from broker.log.environment import Environment
from broker.log.files import checkpoints, run_mark
from broker.log.files import unclean_shutdown as stops
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.log.files.log_dir import LogDir
from broker.log.files.names import is_deleted_dir, is_stray_dir, parse_partition_dir, parse_set_aside_dir
from broker.log.log import PartitionLog
from broker.log.recovery.loader import RecoveryReport, load
from broker.log.segments.removal import remove_folder
from broker.model.grouped import Grouped
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed

_logger = logging.getLogger(__name__)

Configs = Mapping[str, Mapping[str, str]]


class OpenLogs:
    """The logs that are open, where they live, and what is wrong with the others."""

    def __init__(
        self,
        dirs: Sequence[str],
        environment: Environment,
        *,
        defaults: Mapping[str, str] | None = None,
        topic_configs: Configs | None = None,
        recovery_threads: int = 1,
        on_dir_failed: Callable[[LogDirFailed], None] = lambda failure: None,
        identity: tuple[int, str] | None = None,
    ) -> None:
        """Lock the dirs and open every log in them.

        dirs: log.dirs. defaults: the broker's, under topic-level names (Settings.topic_defaults). topic_configs: topic
        → its overrides, as known at the start. recovery_threads: for all dirs together.
        on_dir_failed: called once per dir, on whatever call finds it out.
        identity: (broker id, cluster id), checked against meta.properties before anything else is read or mended.
        Raises LogDirInUse, WrongIdentity; LogDirFailed when no dir works.
        """
        self.reports: list[RecoveryReport] = []
        self.offline_logs: dict[TopicPartition, CorruptLog] = {}
        """Logs whose files cannot be made sense of: replicas that must stay offline until their folder is removed."""
        self.clean_shutdown_epochs: dict[str, int | None] = {}
        """Per dir the broker epoch of the clean stop before this start; None after an unclean one (−1: not said)."""
        self.unclean: dict[TopicPartition, str] = {}
        """Logs that may have lost what they had acknowledged, with the reason, until `trust_again`."""
        self._environment = environment
        self._defaults = dict(defaults or {})
        self._overrides = {topic: dict(config) for topic, config in (topic_configs or {}).items()}
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._of_topic: Grouped[TopicPartition, PartitionLog] = Grouped()
        """The same by topic: a topic's settings change without a look at all others."""
        self._homes: dict[TopicPartition, LogDir] = {}
        self._high_watermarks: dict[TopicPartition, Offset] = {}
        self._deleted: dict[str, PartitionLog | None] = {}
        self._deleted_beside_offline_dirs: set[TopicPartition] = set()
        """They were here, so they are not in a dir that nobody can look into."""
        self._closed = False
        self._dirs = [LogDir(path, on_dir_failed) for path in dict.fromkeys(map(os.path.realpath, dirs))]
        if not self._dirs:
            raise ValueError("log.dirs is empty: name at least one folder")
        try:
            for log_dir in self._dirs:
                self._guard(log_dir, log_dir.lock)
            if identity is not None:
                self.ensure_identity(*identity)
            places = self._find_places()
            for log_dir in self._dirs:
                self._guard(log_dir, partial(self._load_dir, log_dir, recovery_threads, places))
            for log_dir in self._dirs:
                self._miss_folders(log_dir)
            self.check_any_dir()
        except BaseException:
            self.close_unused()
            raise

    def _guard(self, log_dir: LogDir, action: Callable[[], None]) -> None:
        """A dir that fails goes offline alone."""
        if log_dir.failed is None:
            try:
                action()
            except OSError as error:
                log_dir.fail(error)
            except LogDirFailed:
                pass

    def check_any_dir(self) -> None:
        """Raise LogDirFailed when every dir is offline: a broker without one has nothing to do."""
        failures = [log_dir.failed for log_dir in self._dirs if log_dir.failed is not None]
        if len(failures) == len(self._dirs):
            raise failures[0]

    def _find_places(self) -> dict[TopicPartition, list[str]]:
        """The folders of every partition, where there are several dirs: one each, unless someone, or a power failure,
        brought an old one back.
        """
        places: dict[TopicPartition, list[str]] = {}
        if len(self._dirs) == 1:
            return places

        def look(log_dir: LogDir) -> None:
            with os.scandir(log_dir.path) as entries:
                for entry in entries:
                    tp = parse_partition_dir(entry.name)
                    if tp is not None and entry.is_dir():
                        places.setdefault(tp, []).append(entry.path)

        for log_dir in self._working():
            self._guard(log_dir, partial(look, log_dir))
        return places

    def _load_dir(self, log_dir: LogDir, threads: int, places: Mapping[TopicPartition, Sequence[str]]) -> None:
        # Before anything is read: reading would put it in the page cache.
        last_run = run_mark.read(log_dir.path)
        epoch = log_dir.take_clean_mark()
        self.clean_shutdown_epochs[log_dir.path] = epoch
        log_dir.epoch = last_run.epoch if epoch is None else epoch
        recovery_points, points_are_whole = log_dir.read_offsets(checkpoints.RECOVERY_POINTS)
        log_starts, _ = log_dir.read_offsets(checkpoints.LOG_STARTS)
        high_watermarks, _ = log_dir.read_offsets(checkpoints.HIGH_WATERMARKS)
        log_dir.cleaner_offsets.load(log_dir.read_offsets(CLEANER_OFFSETS)[0])
        found: dict[TopicPartition, str] = {}
        for entry in sorted(os.scandir(log_dir.path), key=lambda entry: entry.name):
            if not entry.is_dir():
                continue
            if is_deleted_dir(entry.name):
                deleted = parse_set_aside_dir(entry.name)
                log_dir.has_unsynced_deletions = True
                if deleted is not None:
                    log_dir.being_deleted.add(deleted)
                self._remove_later(entry.path, None, LogConfig.parse({}, self._defaults).file_delete_delay_ms)
                continue
            if is_stray_dir(entry.name):
                _logger.warning(
                    "%s is a log that gave way and that nobody asked to delete; remove it by hand", entry.path
                )
                continue
            tp = parse_partition_dir(entry.name)
            if tp is None:
                _logger.warning("%s is no partition's folder and is left alone", entry.path)
                continue
            if len(places.get(tp, ())) > 1:
                self._refuse_one_of_many(tp, log_dir, places[tp])
                continue
            self._homes[tp] = log_dir
            found[tp] = entry.path

        def open_one(tp: TopicPartition) -> tuple[PartitionLog, RecoveryReport] | CorruptLog:
            try:
                stops.distrust_half_made(found[tp])
                # What was found damaged once is looked at as then, however orderly the stops since.
                damaged = stops.is_damaged(found[tp])
                return load(
                    tp, log_dir, found[tp], self._config(tp.topic), self._environment,
                    clean=epoch is not None and not damaged,
                    recovery_point=recovery_points.get(tp, 0), log_start=log_starts.get(tp, 0),
                    high_watermark=high_watermarks.get(tp, 0), has_holes=tp in log_dir.cleaner_offsets,
                    host_lived=epoch is not None or last_run.same_kernel, damaged=damaged,
                    point_is_lost=tp not in recovery_points and (damaged or not points_are_whole),
                )  # fmt: skip
            except CorruptLog as error:
                return error

        for tp, result in zip(found, _map(open_one, list(found), threads), strict=True):
            if isinstance(result, CorruptLog):
                _logger.error("replica stays offline: %s", result)
                self.offline_logs[tp] = result
                log_dir.offline.add(tp)
                # However orderly the stops from here on: what was lost before is not back by them.
                self._distrust(tp, found[tp], stops.damage_reason(result))
                # For good, before a checkpoint is written that has no line of this log: it looks like a new one then.
                stops.sync_mark(found[tp])
                continue
            log, report = result
            self._keep(tp, log)
            log_dir.logs[tp] = log
            if log.has_holes:
                log.allow_holes()
            self.reports.append(report)
        for tp, log in ((tp, self._logs[tp]) for tp in log_dir.logs):
            reason = stops.worse(
                stops.read_mark(log.path),
                stops.unclean_reason(
                    clean=epoch is not None,
                    same_kernel=last_run.same_kernel,
                    leo=log.leo,
                    recovery_point=recovery_points.get(tp, 0),
                    high_watermark=high_watermarks.get(tp, 0),
                    last_end=last_run.end_of(tp),
                ),
            )
            if reason:
                self._distrust(tp, log.path, reason)
        log_dir.begin_run()
        log_dir.checkpointed_recovery_points = recovery_points
        log_dir.checkpointed_log_starts = log_starts
        log_dir.checkpointed_high_watermarks = high_watermarks
        for report in self.reports:
            if report.topic_partition in found:
                self._lower_marks(log_dir, report)
        if not points_are_whole:
            # From the first day on: that there is none means that it was lost.
            log_dir.write_recovery_points()
        # A log that was here once, and is in another dir now, is not the one that the line is about.
        known = log_dir.checkpointed_high_watermarks
        self._high_watermarks |= {tp: known[tp] for tp in known if self._homes.get(tp) is log_dir}

    def _refuse_one_of_many(self, tp: TopicPartition, log_dir: LogDir, places: Sequence[str]) -> None:
        """Nobody knows which of these folders is the partition's: none is opened. Raises OSError."""
        if tp not in self.offline_logs:
            others = " and in ".join(places[1:])
            doubt = CorruptLog(tp, places[0], f"it is in {others} too: remove the folder that is not wanted")
            _logger.error("replica stays offline: %s", doubt)
            self.offline_logs[tp] = doubt
            self._homes[tp] = log_dir
        log_dir.offline.add(tp)
        # Whichever is kept, it may be the older one. What its own mark says is true as well, and may say more.
        path = log_dir.file(str(tp))
        self._distrust(tp, path, stops.read_mark(path) or str(self.offline_logs[tp]))
        stops.sync_mark(path)

    def _miss_folders(self, log_dir: LogDir) -> None:
        """A partition that a checkpoint knows and that is nowhere was lost: an empty log must not take its place."""
        for tp in {*log_dir.checkpointed_recovery_points, *log_dir.checkpointed_high_watermarks} - (
            self._homes.keys() | log_dir.being_deleted
        ):
            known = max(
                log_dir.checkpointed_recovery_points.get(tp, 0), log_dir.checkpointed_high_watermarks.get(tp, 0)
            )
            if known > 0:
                lost = CorruptLog(tp, log_dir.file(str(tp)), f"the folder is gone; records below {known} were in it")
                _logger.error("replica stays offline: %s", lost)
                self.offline_logs[tp] = lost
                self._homes[tp] = log_dir
                log_dir.offline.add(tp)

    def _lower_marks(self, log_dir: LogDir, report: RecoveryReport) -> None:
        """No checkpoint vouches for more than what was found: what comes behind a cut is another leader's word."""
        tp = report.topic_partition
        if log_dir.checkpointed_high_watermarks.get(tp, 0) > report.leo:
            log_dir.lower_high_watermark(tp, report.leo)
            self._high_watermarks[tp] = report.leo
        if log_dir.checkpointed_recovery_points.get(tp, 0) > log_dir.logs[tp].recovery_point:
            log_dir.write_recovery_points()
        if log_dir.cleaner_offsets.lower(tp, report.leo):
            log_dir.run(log_dir.cleaner_offsets.job())

    # Unclean stops

    def distrust(self, topic_partition: TopicPartition, reason: str) -> None:
        """Note, for later starts too, that this log may lack what it had acknowledged. Raises LogDirFailed."""
        log_dir = self._homes[topic_partition]
        log_dir.run(lambda: self._distrust(topic_partition, log_dir.file(str(topic_partition)), reason))

    def registered(self, broker_epoch: int, epoch_before: int | None = None) -> None:
        """This broker is registered (anew), and may be told to write from now on.

        epoch_before: of its last registration before this process, at the first call; None where nobody knows. A dir
        that was left under another is distrusted whole.
        """
        for log_dir in self._working():
            reason = stops.older_copy_reason(log_dir.epoch, epoch_before)
            for tp in log_dir.logs if reason else ():
                if self.is_shortened(tp):
                    path = log_dir.file(str(tp))
                    self._guard(log_dir, lambda tp=tp, path=path, reason=reason: self._distrust(tp, path, reason))  # type: ignore[misc]
            # Last: a kill before it leaves a mark that the next start does not believe. So does a dir that fails here.
            if log_dir.failed is None:
                log_dir.begin_registration(broker_epoch)

    def _distrust(self, tp: TopicPartition, path: str, reason: str) -> None:
        """The same, in a dir that is named. Raises OSError."""
        _logger.warning("%s: unclean stop: %s", tp, reason)
        stops.leave_mark(path, reason)
        self.unclean[tp] = reason

    def is_shortened(self, topic_partition: TopicPartition) -> bool:
        return stops.is_shortened(self.unclean.get(topic_partition, ""))

    def trust_again(self, topic_partition: TopicPartition) -> None:
        """This log leads, or is in sync: it has what counts. Raises LogDirFailed."""
        if self.unclean.pop(topic_partition, None) is not None:
            log_dir = self._homes[topic_partition]
            log_dir.run(lambda: stops.remove_mark(log_dir.file(str(topic_partition))))

    def _working(self) -> Iterable[LogDir]:
        return [log_dir for log_dir in self._dirs if log_dir.failed is None]

    def ensure_identity(self, broker_id: int, cluster_id: str) -> None:
        """Write or check meta.properties in every dir. Raises WrongIdentity."""
        for log_dir in self._working():
            try:
                log_dir.ensure_identity(broker_id, cluster_id)
            except OSError as error:
                log_dir.fail(error)

    # Settings and deletions

    def _keep(self, tp: TopicPartition, log: PartitionLog) -> None:
        """It is open."""
        self._logs[tp] = log
        self._of_topic.add(tp.topic, tp, log)

    def _config(self, topic: str) -> LogConfig:
        return LogConfig.parse(self._overrides.get(topic, {}), self._defaults)

    def _remove_later(self, path: str, log: PartitionLog | None, delay_ms: float) -> None:
        """After the delay: close the log here on the loop, then let its folder go elsewhere, file by file.

        A stray one stays.

        The name is nobody else's, so a log that is made anew meanwhile has nothing to wait for. Where the broker stops
        first, or is killed, the next start comes here.
        """
        self._deleted[path] = log
        self._environment.schedule(delay_ms, lambda: self._remove(path))

    def _remove(self, path: str) -> None:
        if path in self._deleted and not self._closed:
            log = self._deleted.pop(path)
            if log is not None:
                log.close(clean=False)
            if self._forget_deleted(path) and is_deleted_dir(os.path.basename(path)):
                remove_folder(self._environment, path)

    def _forget_deleted(self, path: str) -> bool:
        """Before the last trace of a deleted log goes, no checkpoint may know it: it would look lost.

        False where one may: its dir has failed, and what is in it is the next start's business.
        """
        folder, name = os.path.split(path)
        tp = parse_set_aside_dir(name)
        (log_dir,) = (log_dir for log_dir in self._dirs if log_dir.path == folder)
        if log_dir.failed is None and tp is not None and tp not in self._homes:
            with contextlib.suppress(LogDirFailed):
                log_dir.forget_checkpoints(tp)
        return log_dir.failed is None

    # The end

    def close_unused(self) -> None:
        """After a start that led to nothing: the marks that it took away come back, for nothing was written."""
        for log_dir in self._dirs:
            epoch = self.clean_shutdown_epochs.get(log_dir.path)
            opened = [report for report in self.reports if self._homes[report.topic_partition] is log_dir]
            if epoch is not None and log_dir.failed is None and all(report.clean for report in opened):
                self._guard(log_dir, lambda log_dir=log_dir: self._sync_marks(log_dir))  # type: ignore[misc]
                self._guard(log_dir, log_dir.leave_clean_mark)
        self.close(clean=False)

    def close(self, clean: bool) -> None:
        """clean: flush everything and leave the clean-shutdown mark. Idempotent.

        A dir that has failed, or fails now, gets no mark.
        """
        if self._closed:
            return
        self._closed = True
        for log_dir in self._dirs:
            try:
                for tp, home in self._homes.items():
                    if home is log_dir and tp in self._logs:
                        self._close_log(self._logs[tp], log_dir, clean)
                if clean and log_dir.failed is None:
                    self._sync_marks(log_dir)
                    log_dir.write_recovery_points()
                    log_dir.write_log_starts()
                    log_dir.run(log_dir.leave_clean_mark)
            except LogDirFailed:
                _logger.error("log dir %s is closed without the mark of a clean stop", log_dir.path)
            finally:
                log_dir.end_run()
                log_dir.unlock()
        for log in self._deleted.values():
            if log is not None:
                log.close(clean=False)

    def _close_log(self, log: PartitionLog, log_dir: LogDir, clean: bool) -> None:
        """Raises LogDirFailed. A log that is found damaged has that in its mark: for it alone the stop is not clean."""
        try:
            log.close(clean)
        except CorruptLog as damage:
            _logger.error("closed as damaged: %s", damage)
            reason = stops.damage_reason(damage)
            log_dir.run(lambda: self._distrust(log.topic_partition, log.path, reason))
            log.close(clean=False)

    def _sync_marks(self, log_dir: LogDir) -> None:
        for tp in self.unclean:
            if self._homes.get(tp) is log_dir:
                log_dir.run(lambda tp=tp: stops.sync_mark(log_dir.file(str(tp))))  # type: ignore[misc]


def _map(
    function: Callable[[TopicPartition], tuple[PartitionLog, RecoveryReport] | CorruptLog],
    items: Sequence[TopicPartition],
    threads: int,
) -> list[tuple[PartitionLog, RecoveryReport] | CorruptLog]:
    if threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads, "log-recovery") as pool:
        return list(pool.map(function, items))
