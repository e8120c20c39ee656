"""One of log.dirs: its lock, its identity, its offset checkpoints, and whether it has failed.

Once an operation in it failed, every later one raises the same LogDirFailed: what a failed fsync left on disk is
unknown, and a second one that succeeds says nothing about it (KIP-112; "fsyncgate").
Source: kafka LogManager, LogDirFailureChannel, FileLock.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Mapping
from typing import Protocol

from broker.log.files import checkpoints, run_mark
from broker.log.files.checkpoints import OrderedFile
from broker.log.files.cleaner_offsets import CleanerOffsets
from broker.log.files.run_mark import RunMark
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import LogDirFailed

_logger = logging.getLogger(__name__)


class LogDirInUse(Exception):
    """Another broker holds the lock of this log dir."""


class WrongIdentity(Exception):
    """meta.properties belongs to another broker or cluster."""


class _Offsets(Protocol):
    @property
    def recovery_point(self) -> Offset: ...

    @property
    def log_start_offset(self) -> Offset: ...

    @property
    def log_end_offset(self) -> Offset: ...


class LogDir:
    """A folder that holds partitions. `logs` is filled by the store."""

    def __init__(self, path: str, on_failed: Callable[[LogDirFailed], None]) -> None:
        self.path = os.path.abspath(path)
        self.failed: LogDirFailed | None = None
        self.epoch = run_mark.NO_EPOCH
        """Broker epoch under which the files here were last written: the last run's, then this run's; NO_EPOCH: not
        known.
        """
        self.logs: dict[TopicPartition, _Offsets] = {}
        self.futures: dict[TopicPartition, _Offsets] = {}
        """Copies that are made here of logs in other dirs; they have lines in this dir's checkpoints, as in Kafka."""
        self.offline: set[TopicPartition] = set()
        """Logs here that could not be opened: their checkpoint entries stay as they are."""
        self.being_deleted: set[TopicPartition] = set()
        """Partitions whose folders this start found renamed for deletion."""
        self.has_unsynced_deletions = False
        """Folders were renamed for deletion: a power failure may give them their old names back."""
        self.checkpointed_recovery_points: dict[TopicPartition, Offset] = {}
        self.checkpointed_log_starts: dict[TopicPartition, Offset] = {}
        self.checkpointed_high_watermarks: dict[TopicPartition, Offset] = {}
        self.recovery_point_file = OrderedFile(self.file(checkpoints.RECOVERY_POINTS))
        self.log_start_file = OrderedFile(self.file(checkpoints.LOG_STARTS))
        self.high_watermark_file = OrderedFile(self.file(checkpoints.HIGH_WATERMARKS))
        self.cleaner_offsets = CleanerOffsets(self.path)
        self._on_failed = on_failed
        self._lock_fd = -1
        self._run_mark: RunMark | None = None

    def file(self, name: str) -> str:
        """Path of a file or folder directly in this dir."""
        return f"{self.path}/{name}"

    def fail(self, error: OSError) -> LogDirFailed:
        """Take the dir offline for good; returns what to raise."""
        if self.failed is None:
            self.failed = LogDirFailed(self.path, error.errno or 0, str(error))
            _logger.error("log dir %s goes offline: %s", self.path, error)
            self._on_failed(self.failed)
        return self.failed

    def check(self) -> None:
        """Raise LogDirFailed when the dir is offline."""
        if self.failed is not None:
            raise self.failed

    def lock(self) -> None:
        """Hold `.lock` until `unlock` or the process's end. Raises LogDirInUse naming the holder."""
        os.makedirs(self.path, exist_ok=True)
        fd = os.open(self.file(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Java's FileLock is a POSIX lock, which flock does not see: Apache Kafka must be kept out too.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            raise LogDirInUse(
                f"log dir {self.path} is in use by another broker (pid {holder or 'unknown'}): "
                "stop it, or give this one its own log.dirs"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._lock_fd = fd

    def unlock(self) -> None:
        """Let another process have the dir. Idempotent; never raises."""
        if self._lock_fd >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._lock_fd, 0)
            os.close(self._lock_fd)
            self._lock_fd = -1

    def take_clean_mark(self) -> int | None:
        """Broker epoch of the clean stop before this start, None after an unclean one. The mark is gone afterwards.

        Gone durably: a crash from now on must not look clean.
        """
        path = self.file(checkpoints.CLEAN_SHUTDOWN)
        epoch = checkpoints.read_clean_shutdown(path)
        if epoch is not None:
            os.unlink(path)
            checkpoints.fsync_dir(self.path)
        return epoch

    def leave_clean_mark(self) -> None:
        """Write .kafka_cleanshutdown, durably: the next start need not recover. Raises OSError."""
        checkpoints.write_atomically(
            self.file(checkpoints.CLEAN_SHUTDOWN), checkpoints.format_clean_shutdown(self.epoch)
        )

    def begin_run(self) -> None:
        """Replace the last run's mark by one of this process, with the ends of all logs. Raises OSError."""
        self._run_mark = RunMark(self.path, epoch=self.epoch)
        for topic_partition, log in self.logs.items():
            self._run_mark.add(topic_partition, log.log_end_offset)

    def begin_registration(self, broker_epoch: int) -> None:
        """What is written from here on is written under this registration."""
        self.epoch = broker_epoch
        if self._run_mark is not None:
            self._run_mark.set_epoch(broker_epoch)

    def sync_deletions(self) -> None:
        """Make it durable that the names of deleted logs are free. Raises OSError."""
        if self.has_unsynced_deletions:
            checkpoints.fsync_dir(self.path)
            self.has_unsynced_deletions = False

    def remember_end(self, topic_partition: TopicPartition, end: Offset) -> None:
        """A log made during the run. Raises LogDirFailed."""
        mark = self._run_mark
        if mark is not None:
            self.run(lambda: mark.add(topic_partition, end))

    def forget_end(self, topic_partition: TopicPartition) -> None:
        """A deleted log's end is no longer kept: a log made anew under its name has another."""
        if self._run_mark is not None:
            self._run_mark.remove(topic_partition)

    def note_end(self, topic_partition: TopicPartition, end: Offset) -> None:
        """Everything below end is in the log's file, and nothing at or beyond it."""
        if self._run_mark is not None:
            self._run_mark.set(topic_partition, end)

    def forget_readers(self) -> None:
        """Reads of the run mark by other programs so far do not mark logs unclean at a start after a kill -9."""
        if self._run_mark is not None:
            self._run_mark.forget_readers()

    def end_run(self) -> None:
        """Close the mark of this run, which stays on disk. Idempotent."""
        if self._run_mark is not None:
            self._run_mark.close()
            self._run_mark = None

    def read_offsets(self, name: str) -> tuple[dict[TopicPartition, Offset], bool]:
        """A checkpoint's content, and whether it is whole: there, with every line as it was written.

        What is malformed is reported and left out, which costs a longer recovery.
        """
        malformed: list[str] = []
        path = self.file(name)
        try:
            offsets = checkpoints.read_offsets(path, malformed)
        except ValueError as error:
            _logger.warning("checkpoint ignored: %s", error)
            return {}, False
        for line in malformed:
            _logger.warning("checkpoint %s: line ignored: %r", path, line)
        return offsets, not malformed and os.path.exists(path)

    def ensure_identity(self, broker_id: int, cluster_id: str) -> None:
        """Write meta.properties, or check the one there. Raises WrongIdentity."""
        path = self.file(checkpoints.META_PROPERTIES)
        try:
            found = checkpoints.read_properties(path)
        except ValueError as error:
            raise WrongIdentity(f"{error}: damaged; write broker.id and cluster.id into it anew") from error
        wanted = {"version": "0", "broker.id": str(broker_id), "cluster.id": cluster_id}
        for name in ("broker.id", "cluster.id"):
            if found.get(name, wanted[name]) != wanted[name]:
                raise WrongIdentity(
                    f"{path}: {name} is {found[name]}, this broker's is {wanted[name]}: wrong log dir, "
                    "or a dir left over from another cluster"
                )
        if any(found.get(name) != value for name, value in wanted.items()):
            checkpoints.write_atomically(path, checkpoints.format_properties(found | wanted))

    def recovery_points_job(self) -> Callable[[], None]:
        """A call, good on any thread, that makes the recovery points of now durable."""
        return self._job(
            self.recovery_point_file,
            self._recovery_points(),
            self.checkpointed_recovery_points,
        )

    def log_starts_job(self) -> Callable[[], None]:
        """The same for the log start offsets, each written after a high watermark at least as high is durable.

        Records below a log start were committed. A log that ends below its checkpointed start has lost its tail where a
        checkpointed watermark or recovery point reaches that start; where none does, the checkpoint is damaged.
        """
        reach = self._watermarks_job()
        job = self._job(self.log_start_file, self._log_starts(), self.checkpointed_log_starts)

        def write() -> None:
            reach()
            job()

        return write

    def high_watermarks_job(self, values: Mapping[TopicPartition, Offset]) -> Callable[[], None]:
        """The same for high watermarks of logs in this dir; where values has none, the one checkpointed last stays."""
        known = self.checkpointed_high_watermarks
        ours = {tp: known[tp] for tp in (*self.logs, *self.futures, *self.offline) if tp in known}
        ours |= {tp: values[tp] for tp in self.logs if tp in values}
        ours |= {tp: min(values[tp], copy.log_end_offset) for tp, copy in self.futures.items() if tp in values}
        self.checkpointed_high_watermarks.update(ours)
        return self._job(self.high_watermark_file, ours, {})

    def _watermarks_job(self) -> Callable[[], None]:
        """A call that makes it durable that every log's watermark has reached its start."""
        known = self.checkpointed_high_watermarks
        starts = {tp: log.log_start_offset for tp, log in (*self.futures.items(), *self.logs.items())}
        raised = {tp: start for tp, start in starts.items() if start > known.get(tp, 0)}
        if not raised and self.high_watermark_file.settled:
            return lambda: None
        return self.high_watermarks_job(raised)

    def lower_high_watermark(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """Lower the partition's checkpointed high watermark, durably before this returns. Raises LogDirFailed."""
        self.checkpointed_high_watermarks[topic_partition] = offset
        known = {tp: value for tp, value in self.checkpointed_high_watermarks.items() if self.holds(tp)}
        self.run(self._job(self.high_watermark_file, known, {}))

    def write_recovery_points(self) -> None:
        """Make the recovery points of now durable before this returns. Raises LogDirFailed."""
        self.run(self.recovery_points_job())
        self.checkpointed_recovery_points = self._recovery_points()

    def write_log_starts(self) -> None:
        """The same for the log start offsets."""
        self.run(self.log_starts_job())
        self.checkpointed_log_starts = self._log_starts()

    def forget_checkpoints(self, topic_partition: TopicPartition) -> None:
        """Remove the partition from all checkpoints, durably before this returns. Raises LogDirFailed."""
        assert not self.holds(topic_partition)
        if topic_partition in self.checkpointed_recovery_points:
            self.write_recovery_points()
        if topic_partition in self.checkpointed_log_starts:
            self.write_log_starts()
        if topic_partition in self.cleaner_offsets:
            # Drops every log that is gone, as the others do: a topic's partitions go together, and each write is
            # synced.
            self.cleaner_offsets.keep(self.holds)
            self.run(self.cleaner_offsets.job())
        if topic_partition in self.checkpointed_high_watermarks:
            known = self.checkpointed_high_watermarks
            kept = {tp: offset for tp, offset in known.items() if self.holds(tp)}
            self.run(self._job(self.high_watermark_file, kept, {}))
            self.checkpointed_high_watermarks = kept

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition's log is in this dir, open, offline or as a copy on its way."""
        return topic_partition in self.logs or topic_partition in self.offline or topic_partition in self.futures

    def _recovery_points(self) -> dict[TopicPartition, Offset]:
        known = self.checkpointed_recovery_points
        kept = {tp: known[tp] for tp in self.offline if tp in known}
        return kept | {tp: log.recovery_point for tp, log in (*self.futures.items(), *self.logs.items())}

    def _log_starts(self) -> dict[TopicPartition, Offset]:
        known = self.checkpointed_log_starts
        kept = {tp: known[tp] for tp in self.offline if tp in known}
        return kept | {tp: log.log_start_offset for tp, log in (*self.futures.items(), *self.logs.items())}

    def run(self, job: Callable[[], None]) -> None:
        """Run the job now. Raises LogDirFailed."""
        self.check()
        try:
            job()
        except OSError as error:
            raise self.fail(error) from error

    def _job(
        self, file: OrderedFile, offsets: dict[TopicPartition, Offset], known: dict[TopicPartition, Offset]
    ) -> Callable[[], None]:
        ticket = file.ticket()
        # From here on either value may be what a restart reads: remember the one that promises more.
        for tp in offsets:
            known[tp] = max(offsets[tp], known.get(tp, 0))
        text = checkpoints.format_offsets(offsets)

        def write() -> None:
            file.write(ticket, text)

        return write
