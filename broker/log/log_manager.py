"""All logs of a broker over its log.dirs. Implements `broker.runtime.ports.LogStore`.

A log is made once, found again, restored where its files were damaged, or deleted; checkpoints and flushes go over all
of them. How dirs are opened and closed is in `store_opening`.
Source: kafka LogManager.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping

from broker.log.config import LogConfig
from broker.log.files import checkpoints
from broker.log.files import unclean_shutdown as stops
from broker.log.files.log_dir import LogDir
from broker.log.files.names import deleted_dir_name, stray_dir_name
from broker.log.log import PartitionLog
from broker.log.log_manager_loading import OpenLogs
from broker.log.recovery.loader import load
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed, NoDescriptorFree

_logger = logging.getLogger(__name__)

Configs = Mapping[str, Mapping[str, str]]

_MADE_ANEW = "the log was made anew for a partition that is not new"
_SPARE_OVERRIDES = 1000


class DiskLogStore(OpenLogs):
    """Every method runs on the loop's thread."""

    def out_of_reach(self, topic_partition: TopicPartition) -> bool:
        """Whether a log that is not among `logs` may be there all the same: damaged, or in a dir that failed."""
        if topic_partition in self.offline_logs:
            return True
        return bool(self.offline_dirs) and topic_partition not in self._deleted_beside_offline_dirs

    # Logs

    @property
    def offline_dirs(self) -> list[str]:
        """A partition unknown to `logs` may live in one of these."""
        return [log_dir.path for log_dir in self._dirs if log_dir.failed is not None]

    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """Those that are open and whose dir works."""
        if all(log_dir.failed is None for log_dir in self._dirs):
            return self._logs
        return {tp: log for tp, log in self._logs.items() if self._homes[tp].failed is None}

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(topic_partition)

    def create(
        self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str], *, new: bool = True
    ) -> PartitionLog:
        """The partition's log, made in the dir with the fewest partitions unless it is there already.

        topic_id: as Kafka prints it, "" when unknown. config: the topic's overrides, used for all of its logs.
        new: this broker never had that log. One that it may have had can lie in a dir that is offline: an empty log
        in its place would be a replica that forgot what it acknowledged. One that is made anew is in `unclean`.
        Raises CorruptLog when it is there and offline, ValueError when it is there with another id, LogDirFailed.
        """
        tp = topic_partition
        self.learn_config(tp.topic, config)
        if tp in self.offline_logs and not (new and self._folder_is_gone(tp)):
            raise self.offline_logs[tp]
        if tp in self.offline_logs:
            self._forget_offline(tp)
            self.unclean.pop(tp, None)
        if tp in self._homes:
            self._homes[tp].check()
        existing = self._logs.get(tp)
        if existing is not None:
            if topic_id and existing.topic_id != topic_id:
                existing.set_topic_id(topic_id)
            return existing
        if not new:
            for log_dir in self._dirs:
                log_dir.check()
        return self._make(tp, topic_id, "" if new else _MADE_ANEW)

    def _make(self, tp: TopicPartition, topic_id: str, unclean: str) -> PartitionLog:
        """An empty log in the dir with the fewest partitions. unclean: why it vouches for nothing, "" where it may.

        Raises LogDirFailed.
        """
        self.check_any_dir()
        working = [log_dir for log_dir in self._dirs if log_dir.failed is None]
        log_dir = min(working, key=lambda candidate: len(candidate.logs))
        path = log_dir.file(str(tp))
        for other in working:
            if other is not log_dir:
                self._guard(other, other.sync_deletions)
        # A log made anew under a deleted one's name must not inherit its offsets in a crash.
        log_dir.forget_checkpoints(tp)
        try:
            os.mkdir(path)
            if unclean:
                # Before all that makes it a log: wherever this ends, an empty log must not look like one that is whole.
                stops.leave_mark(path, unclean)
            if topic_id:
                # Not synced one by one: the log's first flush does it, before its recovery point can leave 0.
                checkpoints.write_atomically(
                    f"{path}/{checkpoints.PARTITION_METADATA}",
                    checkpoints.format_partition_metadata(topic_id),
                    sync=False,
                )
            checkpoints.write_atomically(
                f"{path}/{checkpoints.LEADER_EPOCHS}", checkpoints.format_epochs([]), sync=False
            )
            log, _ = load(
                tp, log_dir, path, self._config(tp.topic), self._environment, clean=True, recovery_point=0, log_start=0
            )
        except OSError as error:
            raise log_dir.fail(error) from error
        self._deleted_beside_offline_dirs.discard(tp)
        self._keep(tp, log)
        self._homes[tp] = log_dir
        log_dir.logs[tp] = log
        if unclean:
            _logger.warning("%s: unclean stop: %s", tp, unclean)
            self.unclean[tp] = unclean
        if log.has_holes:
            log.allow_holes()
        # Its names and its id need not wait for the first records to be on disk for good.
        log.flush_in_background()
        log_dir.remember_end(tp, log.leo)
        return log

    def restore(self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str]) -> PartitionLog:
        """An offline log, cut where its damage begins; an empty one where there is nothing to keep.

        Only for a replica on which nothing rests: the leader has what is cut. Either is in `unclean`, on disk too
        before anything is cut, or made. Raises LogDirFailed.
        """
        tp = topic_partition
        self.update_config(tp.topic, config)
        assert tp in self.offline_logs
        log_dir = self._homes[tp]
        log_dir.check()
        if self._folder_is_gone(tp):
            self._forget_offline(tp)
            self.unclean.pop(tp, None)
            return self._make(tp, topic_id, _MADE_ANEW)
        if len(self._places(tp)) > 1:
            _logger.warning("%s; both give way to an empty one", self.offline_logs[tp])
            self.delete(tp)
            return self._make(tp, topic_id, _MADE_ANEW)
        try:
            # Until it is cut the mark of its damage stays: no crash makes it look whole, nor its damage like a hole.
            log, report = load(
                tp, log_dir, log_dir.file(str(tp)), self._config(tp.topic), self._environment,
                clean=False,
                recovery_point=log_dir.checkpointed_recovery_points.get(tp, 0),
                log_start=log_dir.checkpointed_log_starts.get(tp, 0),
                high_watermark=log_dir.checkpointed_high_watermarks.get(tp, 0),
                mend=True,
                damaged=True,
                has_holes=tp in log_dir.cleaner_offsets,
            )  # fmt: skip
            self._distrust(tp, log_dir.file(str(tp)), f"damage was cut: {self.offline_logs[tp]}")
        except CorruptLog as damage:
            _logger.warning("%s; its folder gives way to an empty one", damage)
            self.delete(tp)
            return self._make(tp, topic_id, _MADE_ANEW)
        except OSError as error:
            raise log_dir.fail(error) from error
        self._forget_offline(tp)
        self.reports.append(report)
        self._homes[tp] = log_dir
        self._keep(tp, log)
        log_dir.logs[tp] = log
        log_dir.remember_end(tp, log.leo)
        self._lower_marks(log_dir, report)
        if topic_id and log.topic_id and log.topic_id != topic_id:
            self.set_aside(tp)
            return self._make(tp, topic_id, _MADE_ANEW)
        return self.create(tp, topic_id, config)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename to `….<hex>-delete` at once, remove after file.delete.delay.ms. Also for an offline log.

        Nothing where there is no such log: `out_of_reach` says whether it may be in a dir that is offline.
        Raises LogDirFailed.
        """
        self._take_out(topic_partition, deleted_dir_name(topic_partition))

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Rename to `….<hex>-stray`, and leave it there for whoever runs this broker. Otherwise as `delete`.

        Source: kafka LogManager, whose stray logs are those that no broker was told to delete.
        """
        for log_dir in self._take_out(topic_partition, stray_dir_name(topic_partition)):
            # At once: a start that finds no folder would miss it, and nothing says that it was to go.
            log_dir.forget_checkpoints(topic_partition)

    def _take_out(self, tp: TopicPartition, name: str) -> list[LogDir]:
        """name: that the folder has from now on. Where it was."""
        if tp not in self._homes:
            return []
        places = self._places(tp)
        for log_dir in places:
            log_dir.check()
        if tp in self._logs:
            self._logs[tp].durability.discard()
            self._logs[tp].call_off_cleaning()
        gone = [log_dir for log_dir in places if tp in self.offline_logs and not os.path.isdir(log_dir.file(str(tp)))]
        renamed = [self._rename(tp, log_dir, name) for log_dir in places if log_dir not in gone]
        self._forget_offline(tp)
        self._homes.pop(tp, None)
        log = self._let_go(tp)
        self.unclean.pop(tp, None)
        self._high_watermarks.pop(tp, None)
        if self.offline_dirs:
            self._deleted_beside_offline_dirs.add(tp)
        for log_dir in places:
            log_dir.logs.pop(tp, None)
            log_dir.forget_end(tp)
        for path in renamed:
            self._remove_later(path, log, self._config(tp.topic).file_delete_delay_ms)
        for log_dir in gone:
            log_dir.forget_checkpoints(tp)
        return places

    def _let_go(self, tp: TopicPartition) -> PartitionLog | None:
        log = self._logs.pop(tp, None)
        if log is not None:
            self._of_topic.remove(tp.topic, tp)
        return log

    def _rename(self, tp: TopicPartition, log_dir: LogDir, name: str) -> str:
        """The path that the folder has from now on. Raises LogDirFailed."""
        path = log_dir.file(name)
        log_dir.run(lambda: os.rename(log_dir.file(str(tp)), path))
        log_dir.has_unsynced_deletions = True
        return path

    def _places(self, tp: TopicPartition) -> list[LogDir]:
        """The dir that a log is in; more than one where it was found in several, and is offline for that."""
        return [log_dir for log_dir in self._dirs if tp in log_dir.offline] or [self._homes[tp]]

    def _folder_is_gone(self, topic_partition: TopicPartition) -> bool:
        places = self._places(topic_partition)
        return not any(os.path.isdir(log_dir.file(str(topic_partition))) for log_dir in places)

    def _forget_offline(self, topic_partition: TopicPartition) -> None:
        if self.offline_logs.pop(topic_partition, None) is not None:
            del self._homes[topic_partition]
            for log_dir in self._dirs:
                log_dir.offline.discard(topic_partition)

    def update_config(self, topic: str, config: Mapping[str, str]) -> None:
        """Replace a topic's overrides. Raises ValueError naming a bad one, changing nothing."""
        parsed = LogConfig.parse(config, self._defaults)
        if len(self._overrides) > 2 * len(self._homes) + _SPARE_OVERRIDES:
            self._forget_unused_overrides()
        self._overrides[topic] = dict(config)
        self._configure(topic, parsed)

    def _configure(self, topic: str, parsed: LogConfig) -> None:
        for log in self._of_topic.of(topic):
            if log.config != parsed:
                log.config = parsed
                if parsed.may_have_holes:
                    log.allow_holes()

    def _forget_unused_overrides(self) -> None:
        """Of topics that have no log here, any more or yet: whoever makes one brings its settings."""
        used = {tp.topic for tp in self._homes}
        self._overrides = {topic: config for topic, config in self._overrides.items() if topic in used}

    def learn_config(self, topic: str, config: Mapping[str, str]) -> None:
        """The overrides as they are now, which may be those that the logs were opened with. Raises as update_config."""
        if self._overrides.get(topic, {}) != config:
            self.update_config(topic, config)

    def update_defaults(self, defaults: Mapping[str, str]) -> bool:
        """Replace the broker's defaults; False where they are the same. Raises ValueError naming a bad one."""
        if defaults == self._defaults:
            return False
        without_overrides = LogConfig.parse({}, defaults)
        self._defaults = dict(defaults)
        for topic in self._of_topic:
            self._configure(topic, self._config(topic) if self._overrides.get(topic) else without_overrides)
        return True

    # Periodic work

    def flush_due(self, on_damage: Callable[[CorruptLog], None] = lambda damage: None) -> None:
        """Begin flushes of logs whose flush.ms has passed since their last one. on_damage: as in
        `delete_old_segments`."""
        now_ms = self._environment.now_ms()
        for log in list(self.logs().values()):
            if log.written_leo > log.recovery_point and now_ms - log.durability.last_flush_ms >= log.config.flush_ms:
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
        self,
        wall_ms: float,
        high_watermarks: Mapping[TopicPartition, Offset],
        on_damage: Callable[[CorruptLog], None] = lambda damage: None,
    ) -> int:
        """Apply retention to every log with a known high watermark; returns segments removed.

        on_damage: told of each log whose bytes cannot be right; neither that nor a dir that fails stops the others.
        """
        removed = 0
        for tp, log in list(self.logs().items()):
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

    # Checkpoints

    def high_watermarks(self) -> Mapping[TopicPartition, Offset]:
        """As checkpointed before the start."""
        return self._high_watermarks

    def checkpoint_high_watermarks(self, values: Mapping[TopicPartition, Offset]) -> None:
        self._in_background((log_dir, log_dir.high_watermarks_job(values)) for log_dir in self._working())

    def checkpoint_recovery_points(self) -> None:
        for log_dir in self._working():
            log_dir.forget_readers()
        self._in_background((log_dir, log_dir.recovery_points_job()) for log_dir in self._working())

    def checkpoint_log_start_offsets(self) -> None:
        self._in_background((log_dir, log_dir.log_starts_job()) for log_dir in self._working())

    def _in_background(self, jobs: Iterable[tuple[LogDir, Callable[[], None]]]) -> None:
        for log_dir, job in jobs:

            def done(error: OSError | None, log_dir: LogDir = log_dir) -> None:
                if error is not None:
                    log_dir.fail(error)

            self._environment.background(job, done)
