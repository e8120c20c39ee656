"""The state of one log that its parts share: segments, marks, leader epochs, staging, durability, the log dir.

`broker.log.log.PartitionLog` owns it and hands it to the parts that change it: `Truncation` cuts it at either end,
`SegmentSwap` puts cleaned segments in. Here is what more than one of them does: roll, set where the next append goes,
fail.
Source: kafka LocalLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from broker.log.config import LogConfig
from broker.log.durability.durability import Durability
from broker.log.environment import Environment
from broker.log.epochs.cache import EpochCache
from broker.log.files import checkpoints
from broker.log.files.log_dir import LogDir
from broker.log.files.open_segments import NO_DESCRIPTOR
from broker.log.files.producer_snapshots import ProducerSnapshots
from broker.log.indexes.aborted_txn import AbortedTxn
from broker.log.indexes.transaction_indexes import TransactionIndexes
from broker.log.segments.log_segments import Segments
from broker.log.segments.pending_deletions import PendingDeletions
from broker.log.segments.segment import Segment
from broker.log.segments.staging import Staging
from broker.log.segments.tail_cache import Tail
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import NoDescriptorFree


class LocalLog:
    """Invariants: log_start ≤ log end ≤ staged end; recovery point ≤ log end."""

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
        aborted: TransactionIndexes | None = None,
    ) -> None:
        """path: this partition's folder in log_dir. new: its names are not on disk for good yet.

        has_holes: as the attribute. aborted: None where the log has none.
        """
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.path = path
        self.dir = log_dir
        self.environment = environment
        self.config = config
        """May be replaced; takes effect with the next append, read or check."""
        self.segments = segments
        self.epochs = epochs
        self.staged_end_offset = leo
        """The next append's offset, what is staged included."""
        self.log_end_offset = leo
        """The LEO: the end of what is in the files."""
        self.log_start = log_start_offset
        self.has_holes = has_holes
        """Offsets may be missing: the log is or was compacted. Once true it stays so."""
        self.aborted = TransactionIndexes(path, environment.open_segments) if aborted is None else aborted
        self.snapshots = ProducerSnapshots(path)
        self.snapshot_at_roll: Callable[[Offset], bytes | None] | None = None
        """Called for the producer state at the offset where a segment ends, when its roll is staged."""
        self.on_cut: Callable[[], None] | None = None
        """Called once the end was cut, before anything is appended there: a copy of this log follows."""
        self.durability = Durability(path, log_dir, environment, segments, epochs, recovery_point, new)
        self.staging = Staging()
        self.tail = Tail()
        self.pending_deletions = PendingDeletions(environment)
        self.aim_at_active()
        segments.keep_within(environment.open_segments)

    def roll(self, base: Offset, snapshot: bytes | None) -> None:
        """Finish the active segment and begin one at `base`; what is finished is flushed in the background.

        Raises OSError; CorruptLog, with nothing begun, where somebody has cut the active segment.
        """
        active = self.segments.active
        active.check_whole()
        active.finish()
        if snapshot is not None:
            self.snapshots.write(base, snapshot, sync=False)
        self.segments.add(self.new_segment(base))
        self.tail.clear()
        self.durability.names_changed()
        self.durability.flush_in_background(base, self.topic_id)

    def index_aborted(self, base: Offset, entries: Sequence[AbortedTxn]) -> None:
        """Index transactions whose markers were just written to this segment. Raises OSError."""
        if self.aborted.append(base, entries):
            self.durability.names_changed()

    def new_segment(self, base: Offset) -> Segment:
        """An empty one on disk, not yet among the log's. Raises OSError."""
        self.aborted.drop(base)
        return Segment.create(
            self.topic_partition,
            self.path,
            base,
            self.config.index_interval_bytes,
            self.has_holes,
            self.environment.now_ms(),
        )

    def allow_holes(self) -> None:
        """Offsets may be missing from now on."""
        self.has_holes = True
        self.segments.allow_gaps()

    def set_topic_id(self, topic_id: str) -> None:
        """Write partition.metadata of a log that had none. Raises ValueError when it has another id, LogDirFailed."""
        if self.topic_id and self.topic_id != topic_id:
            raise ValueError(f"{self.topic_partition}: topic id is {self.topic_id}, not {topic_id}")
        self.dir.check()
        try:
            checkpoints.write_atomically(
                f"{self.path}/{checkpoints.PARTITION_METADATA}", checkpoints.format_partition_metadata(topic_id)
            )
        except OSError as error:
            self.fail(error)
        self.topic_id = topic_id

    def drop_staged(self) -> None:
        """Forget what is staged: the end is that of the files again."""
        if self.staged_end_offset != self.log_end_offset:
            self.staged_end_offset = self.log_end_offset
            self.epochs.truncate_from_end(self.staged_end_offset)
        self.aim_at_active()

    def aim_at_active(self) -> None:
        """Let the next append go behind what the active segment holds."""
        active = self.segments.active
        active.open()
        # After a cut this may be another segment than before.
        self.environment.open_segments.forget(active)
        created_ms = active.created_ms or self.environment.now_ms()
        self.staging.aim(active.base_offset, active.size, active.first_timestamp, created_ms)

    def delete_later(self, segment: Segment) -> None:
        """Hide its files now, remove them after file.delete.delay.ms. Raises OSError."""
        self.pending_deletions.add(segment, self.config.file_delete_delay_ms)
        self.aborted.forget(segment.base_offset)

    def close_files(self) -> None:
        """Of all segments, those included that wait for their removal."""
        self.pending_deletions.close()
        for segment in self.segments.made():
            segment.close()

    def fail(self, error: OSError) -> NoReturn:
        """Take the log dir offline. Raises LogDirFailed."""
        raise self.dir.fail(error) from error

    def read_failed(self, error: OSError) -> NoReturn:
        """Raises NoDescriptorFree where a segment could not be opened for want of a descriptor, else LogDirFailed."""
        if error.errno in NO_DESCRIPTOR:
            raise NoDescriptorFree(error.errno, f"{self.topic_partition}: {error}") from error
        self.fail(error)
