"""The offset checkpoints of all log dirs: written in the background from time to time, lowered at once by a cut.

Source: kafka LogManager.checkpointLogRecoveryOffsets, checkpointLogStartOffsets;
ReplicaManager.checkpointHighWatermarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker.log.environment import Environment
from broker.log.files.log_dir import LogDir
from broker.log.manager.log_dirs import LogDirs
from broker.log.manager.open_logs import OpenLogs
from broker.model.ids import Offset, TopicPartition


class Checkpointing:
    """A partition's line is in the checkpoints of the dir that holds its log."""

    def __init__(self, dirs: LogDirs, logs: OpenLogs, environment: Environment) -> None:
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """As checkpointed before the start."""
        self._dirs = dirs
        self._logs = logs
        self._environment = environment

    def adopt_high_watermarks(self, log_dir: LogDir) -> None:
        """Take over what a dir's checkpoint says of the logs that are in this dir.

        The line of a log that is in another dir now is ignored: it was about an earlier log here.
        """
        known = log_dir.checkpointed_high_watermarks
        self.high_watermarks |= {tp: known[tp] for tp in known if self._logs.homes.get(tp) is log_dir}

    def forget(self, topic_partition: TopicPartition) -> None:
        """Forget the checkpointed watermark: it is not that of a log made anew under this name."""
        self.high_watermarks.pop(topic_partition, None)

    def lower(self, topic_partition: TopicPartition, log_dir: LogDir, end: Offset) -> None:
        """Lower all checkpoints of a log to the end that was found: what is appended behind that end may be other
        records than those that a checkpoint vouched for. Raises LogDirFailed.
        """
        if log_dir.checkpointed_high_watermarks.get(topic_partition, 0) > end:
            log_dir.lower_high_watermark(topic_partition, end)
            self.high_watermarks[topic_partition] = end
        recovery_point = log_dir.logs[topic_partition].recovery_point
        if log_dir.checkpointed_recovery_points.get(topic_partition, 0) > recovery_point:
            log_dir.write_recovery_points()
        if log_dir.cleaner_offsets.lower(topic_partition, end):
            log_dir.run(log_dir.cleaner_offsets.job())

    def write_high_watermarks(self, values: Mapping[TopicPartition, Offset]) -> None:
        """values: of all logs; each dir writes those of its own. Returns at once, the files are written later."""
        self._in_background((log_dir, log_dir.high_watermarks_job(values)) for log_dir in self._dirs.working)

    def write_recovery_points(self) -> None:
        """Returns at once, the files are written later; a dir that fails goes offline then."""
        for log_dir in self._dirs.working:
            log_dir.forget_readers()
        self._in_background((log_dir, log_dir.recovery_points_job()) for log_dir in self._dirs.working)

    def write_log_starts(self) -> None:
        """Returns at once, the files are written later; a dir that fails goes offline then."""
        self._in_background((log_dir, log_dir.log_starts_job()) for log_dir in self._dirs.working)

    def _in_background(self, jobs: Iterable[tuple[LogDir, Callable[[], None]]]) -> None:
        for log_dir, job in jobs:

            def done(error: OSError | None, log_dir: LogDir = log_dir) -> None:
                if error is not None:
                    log_dir.fail(error)

            self._environment.background(job, done)
