"""How far one log is durable, and the flushes that move that on.

`recovery_point`: everything below it survives a power failure; it moves only when a whole flush is done, and no flush
that was made before a truncation moves it past what was cut. Flushes of one log follow one another, whatever threads
do them: the kernel reports a failed write-back to one fsync only, and the next would look as if it had worked.
Source: kafka UnifiedLog.flush, LocalLog.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from broker.log.durability.flush import FlushGate, FlushJob
from broker.log.environment import Environment
from broker.log.epochs.cache import EpochCache
from broker.log.epochs.checkpoint import EpochFile
from broker.log.files import checkpoints
from broker.log.files.log_dir import LogDir
from broker.log.segments.log_segments import Segments
from broker.model.ids import Offset


class Durability:
    """The durable side of one log. The owner says what is written; nothing here reads batches."""

    __slots__ = (
        "_committing",
        "_dir",
        "_environment",
        "_gate",
        "_generation",
        "_indexed",
        "_names_durable",
        "_names_version",
        "_path",
        "_segments",
        "epoch_file",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(
        self,
        path: str,
        log_dir: LogDir,
        environment: Environment,
        segments: Segments,
        epochs: EpochCache,
        recovery_point: Offset,
        new: bool,
    ) -> None:
        """path: the partition's folder. segments, epochs: the log's own. new: its names are not on disk for good."""
        self.recovery_point = recovery_point
        self.last_flush_ms = environment.now_ms()
        self.epoch_file = EpochFile(path, epochs, durable=not new)
        self._path = path
        self._dir = log_dir
        self._environment = environment
        self._segments = segments
        self._gate = FlushGate()
        self._generation = 0
        # Segments that end at or below this have their indexes on disk, too. The recovery point may be beyond it: at
        # the end of a segment that is not finished, or not on disk.
        self._indexed = max(recovery_point - 1, 0)
        self._names_version = int(new)
        self._names_durable = 0
        self._committing = False

    def names_changed(self) -> None:
        """Files were created or removed: the next flush makes that durable too."""
        self._names_version += 1

    def is_due(self, written: Offset) -> bool:
        """Whether a flush up to `written` would make anything more durable."""
        return self.recovery_point != written or self._names_durable != self._names_version

    def lower(self, offset: Offset) -> None:
        """Everything at or beyond offset is about to be cut: flushes under way no longer vouch for it."""
        self._generation += 1
        self.recovery_point = min(self.recovery_point, offset)
        self._indexed = min(self._indexed, offset)

    def restart_at(self, offset: Offset) -> None:
        """The log is empty and begins at offset; `lower` was called before."""
        self.recovery_point = offset

    def discard(self) -> None:
        """The folder is about to get another name: a flush under way that misses its files has not failed."""
        self._gate.discarded = True

    def flush(self, target: Offset, topic_id: str) -> None:
        """Make everything below target durable, here and now. Raises OSError, CorruptLog."""
        job = self._job(target, topic_id)
        job()
        self._done(job)

    def flush_for_good(self, target: Offset, topic_id: str) -> None:
        """The same before the files are closed, and all indexes with their exact sizes. Raises OSError, CorruptLog."""
        for segment in self._segments.made():
            segment.finish()
        self.flush(target, topic_id)
        self._segments.active.sync_indexes()

    def flush_in_background(self, target: Offset, topic_id: str) -> None:
        """The same on the thread for slow file work; a failure takes the dir offline. Raises OSError, CorruptLog."""
        job = self._job(target, topic_id)

        def done(error: OSError | None) -> None:
            if error is not None:
                self._dir.fail(error)
            else:
                self._done(job)

        self._environment.background(job, done)

    def save_epochs_soon(self) -> None:
        """Write the leader epochs down on the thread for slow file work: replacing a file can take its time."""
        save = self.epoch_file.save_job()
        if save is None:
            return

        def job() -> None:
            if not self._gate.discarded:
                save()

        def done(error: OSError | None) -> None:
            if error is not None and not self._gate.discarded:
                self._dir.fail(error)

        self._environment.background(job, done)

    def commit(self, target: Offset, topic_id: str, then: Callable[[], None]) -> None:
        """Flush on the dir's own flush threads, then call `then` on the loop; does nothing while such a flush is under
        way.

        `then` is not called when the flush failed. Raises OSError, CorruptLog.
        """
        if self._committing:
            return
        job = self._job(target, topic_id)
        self._committing = True

        def done(error: OSError | None) -> None:
            self._committing = False
            if error is not None:
                self._dir.fail(error)
            else:
                self._done(job)
                then()

        self._environment.flush(self._dir.path, job, done)

    def _job(self, target: Offset, topic_id: str) -> FlushJob:
        fds: list[int] = []
        try:
            indexed = self._take_files(target, fds)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        files: list[str] = []
        names_due = self._names_version > self._names_durable
        if names_due and topic_id:
            files.append(f"{self._path}/{checkpoints.PARTITION_METADATA}")
        text = self.epoch_file.due()
        return FlushJob(
            gate=self._gate,
            target=target,
            indexed=indexed,
            generation=self._generation,
            names_version=self._names_version,
            epochs_version=self.epoch_file.version,
            fds=fds,
            files=files,
            directories=[self._path, self._dir.path] if names_due else [],
            epochs_file=self.epoch_file.file,
            epochs_ticket=self.epoch_file.file.ticket(),
            epochs_text=text,
        )

    def _take_files(self, target: Offset, fds: list[int]) -> Offset:
        """Add to fds the descriptors to be synced; returns the offset up to which indexes are then on disk.

        Raises CorruptLog where a segment that was not opened since the start is damaged, or a segment's file was cut by
        somebody else: a flush vouches for all that was written. Raises OSError.
        """
        indexed = self._indexed
        for place in range(self._segments.floor(min(self.recovery_point, indexed)), len(self._segments)):
            segment = self._segments.at(place)
            indexed = segment.base_offset
            if indexed >= target and place > 0:
                break
            with segment.briefly_open():
                segment.check_whole()
                fds.append(os.dup(segment.fd))
                if segment is not self._segments.active:
                    segment.finish()
                    fds.extend(segment.index_descriptors())
        return indexed

    def _done(self, job: FlushJob) -> None:
        if job.generation == self._generation:
            self.recovery_point = max(self.recovery_point, job.target)
            self._indexed = max(self._indexed, job.indexed)
        self._names_durable = max(self._names_durable, job.names_version)
        self.epoch_file.became_durable(job.epochs_version)
        self.last_flush_ms = self._environment.now_ms()
