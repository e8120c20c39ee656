"""What a log consists of, and what its other halves share. See `broker.log.log`.

Knows how the parts hang together (segments, leader epochs, staging, durability, the log dir), not what is done to them.
Source: kafka UnifiedLog, LocalLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from broker.log.config import LogConfig
from broker.log.durability.durability import Durability
from broker.log.environment import Environment
from broker.log.epochs.cache import EpochCache
from broker.log.files.log_dir import LogDir
from broker.log.files.open_segments import NO_DESCRIPTOR
from broker.log.files.producer_snapshots import ProducerSnapshots
from broker.log.segments.log_segments import Segments
from broker.log.segments.pending_deletions import Graveyard
from broker.log.segments.segment import Segment
from broker.log.segments.staging import Staging
from broker.log.segments.tail_cache import Tail
from broker.model.ids import Epoch, Offset, TopicPartition
from broker.model.log_errors import NoDescriptorFree


class LogBase:
    """State of one log. Invariants: log_start ≤ written LEO ≤ LEO; recovery point ≤ written LEO."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        log_dir: LogDir,
        path: str,
        topic_id: str,
        config: LogConfig,
        environment: Environment,
        segments: Segments,
        *,
        leo: Offset,
        log_start_offset: Offset,
        recovery_point: Offset,
        epochs: EpochCache,
        new: bool,
        has_holes: bool = False,
    ) -> None:
        """path: this partition's folder in log_dir. new: its names are not on disk for good yet.

        has_holes: as the attribute.
        """
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.path = path
        self.snapshots = ProducerSnapshots(path)
        self.snapshot_at_roll: Callable[[Offset], bytes | None] | None = None
        """Asked for the producer state at the offset where a segment ends, when its roll is staged."""
        self.durability = Durability(path, log_dir, environment, segments, epochs, recovery_point, new)
        self._dir = log_dir
        self._environment = environment
        self._segments = segments
        self._leo = self._written_leo = leo
        self._log_start = log_start_offset
        self._epochs = epochs
        self._staging = Staging()
        self._tail = Tail()
        self._graveyard = Graveyard(environment)
        self.has_holes = has_holes
        """Offsets may be missing: it is or was compacted. Once true it stays so."""
        self.config = config
        """May be replaced; takes effect with the next append, read or check."""
        self._aim_at_active()
        self._segments.keep_within(environment.open_segments)

    # What the log is

    @property
    def log_start_offset(self) -> Offset:
        return self._log_start

    @property
    def leo(self) -> Offset:
        return self._leo

    @property
    def written_leo(self) -> Offset:
        return self._written_leo

    @property
    def recovery_point(self) -> Offset:
        return self.durability.recovery_point

    @property
    def dirty(self) -> bool:
        return bool(self._staging.runs)

    @property
    def directory(self) -> str:
        """The log.dirs entry that holds it."""
        return self._dir.path

    @property
    def size_bytes(self) -> int:
        """Of the .log files, what is staged left out: what retention.bytes is held against."""
        return sum(segment.size for segment in self._segments)

    @property
    def segment_base_offsets(self) -> list[Offset]:
        return self._segments.bases

    # Leader epochs

    @property
    def latest_epoch(self) -> Epoch:
        return self._epochs.latest

    @property
    def epochs(self) -> list[tuple[Epoch, Offset]]:
        return self._epochs.entries

    @property
    def history(self) -> Sequence[tuple[Epoch, Offset]]:
        return () if self.has_holes else self._epochs.entries

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        self._dir.check()
        self._epochs.assign(epoch, start_offset)
        # Not waited for: a thousand leaderships may begin at once, and until records follow only a restart looks.
        self.durability.save_epochs_soon()

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        found, end = self._epochs.end_offset_for(epoch, self._written_leo)
        return found, min(end, self._written_leo)

    def epoch_at(self, offset: Offset) -> Epoch:
        return self._epochs.epoch_at(offset)

    def allow_holes(self) -> None:
        """It is compacted from now on."""
        self.has_holes = True
        self._segments.allow_gaps()

    # What the halves share

    def _roll(self, base: Offset, snapshot: bytes | None) -> None:
        """Finish the active segment and begin one at `base`; what is finished is flushed in the background.

        Raises OSError; CorruptLog, with nothing begun, where somebody has cut the active segment.
        """
        self._segments.active.check_whole()
        self._segments.active.finish()
        if snapshot is not None:
            self.snapshots.write(base, snapshot, sync=False)
        self._segments.add(self._new_segment(base))
        self._tail.clear()
        self.durability.names_changed()
        self.durability.flush_in_background(base, self.topic_id)

    def _new_segment(self, base: Offset) -> Segment:
        return Segment.create(
            self.topic_partition,
            self.path,
            base,
            self.config.index_interval_bytes,
            self.has_holes,
            self._environment.now_ms(),
        )

    def _drop_staged(self) -> None:
        if self._leo != self._written_leo:
            self._leo = self._written_leo
            self._epochs.truncate_from_end(self._leo)
        self._aim_at_active()

    def _aim_at_active(self) -> None:
        """Let the next append go behind what the active segment holds."""
        active = self._segments.active
        active.open()
        # It may be one that was not active before a cut.
        self._environment.open_segments.forget(active)
        created_ms = active.created_ms or self._environment.now_ms()
        self._staging.aim(active.base_offset, active.size, active.first_timestamp, created_ms)

    def _retire(self, segment: Segment) -> None:
        self._graveyard.take(segment, self.config.file_delete_delay_ms)

    def _fail(self, error: OSError) -> NoReturn:
        raise self._dir.fail(error) from error

    def _read_failed(self, error: OSError) -> NoReturn:
        """Raises NoDescriptorFree where nothing but that kept a segment from being opened, else LogDirFailed."""
        if error.errno in NO_DESCRIPTOR:
            raise NoDescriptorFree(error.errno, f"{self.topic_partition}: {error}") from error
        self._fail(error)
