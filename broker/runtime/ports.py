"""What the broker's runtime needs of log, network and ZooKeeper, as Protocols.

`log`, `net` and `zk` do not import each other or `runtime`; `app` plugs them together behind these shapes.
All methods run on the loop's thread unless a docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from broker.core.producers.state import ProducerStates
from broker.model.append_info import AppendInfo
from broker.model.ids import Epoch, Offset, TopicPartition
from broker.model.log_errors import LogDirFailed
from broker.wire.chunks import Chunk as Chunk
from broker.wire.chunks import FileSlice as FileSlice
from broker.wire.record_batch import BatchHeader


class Timer(Protocol):
    """A scheduled call that can be taken back."""

    def cancel(self) -> None:
        """The call does not happen; nothing where it has happened already."""
        ...


class Loop(Protocol):
    """The event loop: one thread, turns of read → handle → log writes → responses → sends."""

    def now_ms(self) -> float:
        """Monotonic milliseconds; no rule reads a wall clock."""
        ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Once, in this turn or the next. Loop thread."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Once, delay_ms from now at the earliest. Loop thread."""
        ...

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """The one door by which other threads hand work to the loop."""
        ...


class ResponseSlot(Protocol):
    """One request's place in its connection's order of responses. Fulfilled exactly once, in this turn or later."""

    def fulfil(self, chunks: Sequence[Chunk]) -> None:
        """chunks: the response after the length prefix: header and body. Sent at the turn's end, in request order."""
        ...

    def fulfil_nothing(self) -> None:
        """For acks=0: this request has no response."""
        ...

    def close_connection(self, reason: str, response: Sequence[Chunk] = ()) -> None:
        """Send the responses to earlier requests, and to this one if it has any, then close; a reason is logged."""
        ...

    def when_overtaken(self, call: Callable[[], None] | None) -> None:
        """call: made once, in a later turn, where the response to a later request of the connection is there and only
        this one keeps it from being sent. None: not any more.
        """
        ...

    @property
    def open(self) -> bool:
        """False once the connection is gone, or closes before it comes to this slot; a fulfil then does nothing."""
        ...

    @property
    def done(self) -> bool:
        """Fulfilled."""
        ...


class Peer(Protocol):
    """A pipelined connection to another broker, connected on demand, reconnected with backoff and jitter."""

    def send(
        self,
        api_key: int,
        api_version: int,
        body: bytes,
        on_response: Callable[[memoryview], None],
        on_failure: Callable[[str], None],
        timeout_ms: float,
    ) -> int:
        """Send one request; returns its correlation id. Exactly one callback follows.

        on_response gets the bytes after the response header; the view is valid during the call only.
        on_failure's text starts with one of: refused, reset, timeout, closed.
        """
        ...

    def close(self) -> None:
        """Requests under way end by on_failure, with `closed`."""
        ...


class Log(Protocol):
    """One replica's log. Appends are staged; `write` puts all staged bytes in the file with one system call.

    `log_end_offset` is Kafka's LEO, the end of what is written; `staged_end_offset` lies beyond it by what is staged.
    Nothing staged may be acknowledged, served or rest under a response before `write` returned.
    """

    topic_partition: TopicPartition

    @property
    def topic_id(self) -> str:
        """As Kafka prints it, "" where it has none yet."""
        ...

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that may be read: what is below was deleted."""
        ...

    @property
    def staged_end_offset(self) -> Offset:
        """The next append's offset, what is staged included."""
        ...

    @property
    def log_end_offset(self) -> Offset:
        """The LEO: the end of what `write` has put in the file."""
        ...

    @property
    def dirty(self) -> bool:
        """Whether anything is staged."""
        ...

    @property
    def latest_epoch(self) -> Epoch:
        """Epoch of the last batch (or assigned at leadership), −1 when none."""
        ...

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        """A leadership begins: note where its epoch starts."""
        ...

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """(largest epoch ≤ the requested, its end offset); (−1, −1) when undefined. Source: LeaderEpochFileCache."""
        ...

    def epoch_at(self, offset: Offset) -> Epoch:
        """The leader epoch under which the record at this offset was appended, −1 where it is not known."""
        ...

    @property
    def history(self) -> Sequence[tuple[Epoch, Offset]]:
        """The leader epochs and where each begins, rising; none where compaction may have left holes, in which replicas
        need not agree on where an epoch began.
        """
        ...

    def append_as_leader(self, batches: memoryview, epoch: Epoch, header: BatchHeader | None = None) -> AppendInfo:
        """Stamp base offsets and epoch in place (batches is writable) and stage. Caller has validated the batches.

        header: of the only batch, if the caller has it at hand.
        """
        ...

    def append_as_follower(self, batches: memoryview, headers: Sequence[BatchHeader] | None = None) -> AppendInfo:
        """Stage batches that carry their offsets and epochs; they must start at `staged_end_offset`.

        headers: of all of them in order, if the caller has them at hand.
        """
        ...

    def write(self) -> None:
        """Put all staged bytes in the file with one system call. Raises LogDirFailed, CorruptLog."""
        ...

    def read(self, offset: Offset, max_bytes: int, limit_offset: Offset, min_one_batch: bool) -> Chunk:
        """Whole batches from the one that holds `offset`, none at or beyond limit_offset; b"" when there is nothing.

        Raises OffsetOutOfRange when offset is below log_start_offset or past what is staged.
        """
        ...

    def read_bytes(self, offset: Offset, max_bytes: int, limit_offset: Offset, min_one_batch: bool) -> memoryview:
        """What `read` finds, for whoever needs no slice of a file: nothing stays open for it.

        Raises as `read`; LogDirFailed, CorruptLog, NoDescriptorFree.
        """
        ...

    def maybe_raise_log_start(self, offset: Offset) -> bool:
        """Let the log begin at `offset`, ≤ the end; False where it begins there or later already."""
        ...

    def forget_checked(self) -> None:
        """Check the bytes in the files again when they are next read."""
        ...

    def read_failed(self, error: OSError) -> LogDirFailed:
        """A read of a chunk of this log's file failed with this error: its dir goes offline. Returns what to raise."""
        ...

    def discard_staged(self) -> None:
        """Forget what is staged, whose memory is the caller's again: `staged_end_offset` is `log_end_offset`."""
        ...

    def truncate_to(self, offset: Offset) -> None:
        """Remove everything at and above this offset."""
        ...

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Remove everything; the next append has this offset."""
        ...

    def lacks_values_below(self, offset: Offset) -> bool:
        """Whether compaction may have removed records below offset for the sake of ones at or beyond it."""
        ...

    def newest_timestamp(self) -> int:
        """The largest timestamp of what is written, −1 when nothing is."""
        ...

    def offset_for_timestamp(self, timestamp: int, limit_offset: Offset) -> tuple[int, Offset, Epoch] | None:
        """(timestamp, offset, epoch) of the first record at or after timestamp below limit_offset."""
        ...

    @property
    def producers(self) -> ProducerStates:
        """Who appended what, what is staged included; the log notes each append, and cuts it with itself."""
        ...

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """high_watermark, or where the first transaction begins whose marker is not below it, if the log has that.

        Who wants committed transactions only reads up to there. Source: UnifiedLog.lastStableOffset.
        """
        ...

    def aborted_transactions(self, offset: Offset, chunk: Chunk) -> Sequence[tuple[int, Offset]]:
        """(producer id, first offset) of aborted ones with records in a non-empty chunk that `read(offset)` returned.

        And perhaps more that end later. Raises LogDirFailed, CorruptLog, NoDescriptorFree.
        Source: UnifiedLog.collectAbortedTransactions.
        """
        ...

    def restore_producers(self) -> None:
        """Rebuild `producers` from what is written, as a start must before the first append.

        And what the log keeps of aborted transactions, where a start found reason to doubt it.
        Raises LogDirFailed, CorruptLog, ProducersUnread: it is in part then, and the replica has to go offline.
        """
        ...

    def snapshot_producers(self) -> None:
        """Leave `producers` where a quick start finds them. Raises LogDirFailed."""
        ...

    def end_offset_of(self, chunk: Chunk) -> Offset:
        """Where a chunk that `read` returned ends, if not empty. Of a file little but headers is read.

        Raises CorruptBatch where these are no batches, one behind the other, any more; OSError.
        """
        ...

    def flush(self) -> None:
        """fsync what is written; `recovery_point` is `log_end_offset` then. Raises LogDirFailed, CorruptLog."""
        ...

    def commit(self, then: Callable[[], None]) -> None:
        """Begin to flush all that is written, off the loop, and call `then` once it is on disk; it may call at once.

        Nothing while such a flush is under way. Raises LogDirFailed, CorruptLog; a flush that fails later takes the
        dir offline, without a call.
        """
        ...

    @property
    def recovery_point(self) -> Offset:
        """All below it survives a power failure."""
        ...


class LogStore(Protocol):
    """All logs of a broker, over its log.dirs, and their checkpoints."""

    def logs(self) -> Mapping[TopicPartition, Log]:
        """Open logs; a log that is damaged or in a failed dir is not among them."""
        ...

    def create(
        self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str], *, new: bool = True
    ) -> Log:
        """The log, made where there is none. new: the partition never had a log here, so none can be out of reach.

        One that is made though it may have had one is in `unclean`, for later starts too, from its first file on.
        Raises CorruptLog, LogDirFailed.
        """
        ...

    def restore(self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str]) -> Log:
        """A log that `create` raised CorruptLog for, cut where its damage begins or empty; it is in `unclean`.

        Raises LogDirFailed. Only for a replica on which nothing rests: the leader has what is cut.
        """
        ...

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename to `….<hex>-delete` at once, remove after file.delete.delay.ms. Nothing where there is none.

        Raises LogDirFailed. One that is not known may be `out_of_reach` afterwards as before.
        """
        ...

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Rename to `….<hex>-stray`, which nobody removes: as `delete`, for a log whose deletion no controller
        demanded.
        """
        ...

    def update_config(self, topic: str, config: Mapping[str, str]) -> None:
        """Apply a topic's overrides to its open logs; settings not named have their defaults."""
        ...

    @property
    def unclean(self) -> Mapping[TopicPartition, str]:
        """Logs that may have lost what they had acknowledged, with the reason."""
        ...

    def is_shortened(self, topic_partition: TopicPartition) -> bool:
        """Whether a log is what it was when its broker stopped, but for an end that may be missing."""
        ...

    def out_of_reach(self, topic_partition: TopicPartition) -> bool:
        """Whether a log that is not among `logs` may be there all the same: damaged, or in a dir that failed."""
        ...

    def mark_unclean(self, topic_partition: TopicPartition, reason: str) -> None:
        """Put a log into `unclean`, for later starts too. Raises LogDirFailed."""
        ...

    def clear_unclean(self, topic_partition: TopicPartition) -> None:
        """Take a log out of `unclean`: it leads, or is in sync, so it has what counts. Raises LogDirFailed."""
        ...

    def high_watermarks(self) -> Mapping[TopicPartition, Offset]:
        """As checkpointed before the start."""
        ...

    def checkpoint_high_watermarks(self, values: Mapping[TopicPartition, Offset]) -> None:
        """Write `replication-offset-checkpoint` of each log dir."""
        ...

    def checkpoint_recovery_points(self) -> None:
        """Write `recovery-point-offset-checkpoint` of each log dir."""
        ...

    def checkpoint_log_start_offsets(self) -> None:
        """Write `log-start-offset-checkpoint` of each log dir."""
        ...

    def close(self, clean: bool) -> None:
        """clean: flush everything and leave the clean-shutdown mark."""
        ...
