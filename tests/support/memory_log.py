"""A log in memory, and what a broker keeps of its logs over kill -9: as plain as can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broker.core.producers.state import ProducerStates
from broker.core.producers.transactions import EndedTransaction
from broker.model.append_info import AppendInfo
from broker.model.ids import TopicPartition
from broker.model.log_errors import LogDirFailed, OffsetOutOfRange, UnexpectedAppendOffset
from broker.wire.chunks import Chunk
from broker.wire.control_records import marker_of
from broker.wire.record_batch import BatchHeader, end_offset_of, read_header, stamp
from broker.wire.records import decode_records
from tests.support.chunks import chunk_view


class MemoryLog:
    """A log as a list of batches; as plain as can be."""

    def __init__(
        self, topic_partition: TopicPartition, topic_id: str, now_ms: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.now_ms = now_ms
        self.producers = ProducerStates()
        self.aborted: list[EndedTransaction] = []
        self.start = 0
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.staged: list[tuple[int, int, int, memoryview]] = []
        self.epochs: list[tuple[int, int]] = []
        self.writes = 0
        self.fail_writes = False
        self.forgot_checked = 0
        self.flushed = 0
        self.flush_messages = 2**63 - 1
        self.lacks_values = False
        self.commits: list[tuple[int, Callable[[], None]]] = []
        """Flushes under way: (end of what they make durable, whom to tell)."""

    @property
    def log_start_offset(self) -> int:
        return self.start

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else self.start

    @property
    def staged_end_offset(self) -> int:
        return self.staged[-1][1] + 1 if self.staged else self.log_end_offset

    @property
    def dirty(self) -> bool:
        return bool(self.staged)

    @property
    def history(self) -> Sequence[tuple[int, int]]:
        return self.epochs

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    @property
    def recovery_point(self) -> int:
        return self.flushed

    def commit(self, then: Callable[[], None]) -> None:
        if not self.commits:
            self.commits.append((self.log_end_offset, then))

    def finish_commits(self) -> bool:
        """The disk is done with what was asked; True when there was anything."""
        commits, self.commits = self.commits, []
        for target, then in commits:
            self.flushed = max(self.flushed, min(target, self.log_end_offset))
            then()
        return bool(commits)

    def lose_power(self) -> None:
        """All that was never flushed is gone."""
        self.staged.clear()
        self.commits.clear()
        self.batches = [batch for batch in self.batches if batch[1] < self.flushed]
        self.epochs = [entry for entry in self.epochs if entry[1] < self.log_end_offset]

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch > self.latest_epoch:
            self.epochs = [entry for entry in self.epochs if entry[1] < start_offset] + [(epoch, start_offset)]

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch < 0 or not self.epochs:
            return -1, -1
        if epoch == self.latest_epoch:
            return epoch, self.log_end_offset
        higher = [start for own, start in self.epochs if own > epoch]
        lower = [own for own, _ in self.epochs if own <= epoch]
        if not higher:
            return -1, -1
        return (lower[-1] if lower else epoch), higher[0]

    def epoch_at(self, offset: int) -> int:
        return max((epoch for epoch, start in self.epochs if start <= offset), default=-1)

    def append_as_leader(self, batches: memoryview, epoch: int, header: BatchHeader | None = None) -> AppendInfo:
        header = read_header(batches, 0)
        base = self.staged_end_offset
        stamp(batches, 0, base, epoch)
        self.assign_epoch(epoch, base)
        last = base + header.last_offset_delta
        self.staged.append((base, last, epoch, batches))
        self._note_producer(read_header(batches), batches)
        return AppendInfo(base, last, header.max_timestamp, len(batches), 1)

    def append_as_follower(self, batches: memoryview, headers: Sequence[BatchHeader] | None = None) -> AppendInfo:
        first, position = self.staged_end_offset, 0
        last = count = 0
        while position < len(batches):
            header = read_header(batches, position)
            if header.base_offset != self.staged_end_offset:
                raise UnexpectedAppendOffset(self.topic_partition, header.base_offset, self.staged_end_offset)
            self.assign_epoch(header.partition_leader_epoch, header.base_offset)
            view = batches[position : position + header.size]
            last = header.last_offset
            self.staged.append((header.base_offset, last, header.partition_leader_epoch, view))
            self._note_producer(header, view)
            position += header.size
            count += 1
        return AppendInfo(first, last, -1, len(batches), count)

    def _note_producer(self, header: BatchHeader, batch: memoryview) -> None:
        producer, epoch = header.producer_id, header.producer_epoch
        if producer < 0:
            return
        if header.is_control:
            end = marker_of(header, batch)
            assert end is not None
            at = header.base_offset
            ended = self.producers.end_transaction(
                producer, epoch, end.coordinator_epoch, at, end.committed, self.now_ms()
            )
            if ended is not None and not ended.committed:
                self.aborted.append(ended)
            return
        self.producers.append(
            producer,
            epoch,
            header.base_sequence,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            self.now_ms(),
        )
        if header.is_transactional:
            self.producers.begin_transaction(producer, header.base_offset, header.last_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        stable = self.producers.transactions.last_stable_offset(high_watermark)
        return max(stable, min(self.start, high_watermark))

    def aborted_transactions(self, offset: int, chunk: Chunk) -> Sequence[tuple[int, int]]:
        end = self.end_offset_of(chunk)
        return [
            (entry.producer_id, entry.first_offset)
            for entry in self.aborted
            if entry.last_offset >= offset and entry.first_offset < end
        ]

    def restore_producers(self) -> None:
        self.producers.clear(self.start)
        self.aborted.clear()
        for _, last, _, data in self.batches:
            if last >= self.start:
                self._note_producer(read_header(memoryview(data)), memoryview(data))

    def snapshot_producers(self) -> None: ...

    def end_offset_of(self, chunk: Chunk) -> int:
        return end_offset_of(chunk_view(chunk))

    def write(self) -> None:
        if self.fail_writes:
            self.staged.clear()
            raise LogDirFailed("/data", 5, "Input/output error")
        if self.staged:
            self.writes += 1
        self.batches += [(base, last, epoch, bytes(view)) for base, last, epoch, view in self.staged]
        self.staged.clear()
        if self.log_end_offset - self.flushed >= self.flush_messages:
            self.flushed = self.log_end_offset

    def read(self, offset: int, max_bytes: int, limit_offset: int, min_one_batch: bool) -> Chunk:
        if not self.start <= offset <= self.staged_end_offset:
            raise OffsetOutOfRange(self.topic_partition, offset, self.start, self.staged_end_offset)
        found = b""
        for _base, last, _, data in self.batches:
            if last < offset or last >= limit_offset:
                continue
            if len(found) + len(data) > max_bytes and not (min_one_batch and not found):
                break
            found += data
        return found

    def read_bytes(self, offset: int, max_bytes: int, limit_offset: int, min_one_batch: bool) -> memoryview:
        return chunk_view(self.read(offset, max_bytes, limit_offset, min_one_batch))

    def maybe_raise_log_start(self, offset: int) -> bool:
        if offset <= self.start:
            return False
        assert offset <= self.staged_end_offset
        self.start = offset
        return True

    def forget_checked(self) -> None:
        self.forgot_checked += 1

    def read_failed(self, error: OSError) -> LogDirFailed:
        return LogDirFailed("/data", error.errno or 0, str(error))

    def discard_staged(self) -> None:
        self.staged.clear()

    def truncate_to(self, offset: int) -> None:
        before = self.staged_end_offset
        self.staged.clear()
        # A flush that was under way no longer vouches for what comes behind the cut.
        self.commits = [(min(target, offset), then) for target, then in self.commits]
        self.flushed = min(self.flushed, offset)
        self.batches = [batch for batch in self.batches if batch[1] < offset]
        self.epochs = [entry for entry in self.epochs if entry[1] < min(offset, self.log_end_offset)]
        if self.staged_end_offset != before and not self.producers.cut(self.log_end_offset):
            self.restore_producers()

    def lacks_values_below(self, offset: int) -> bool:
        return self.lacks_values

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.staged.clear()
        self.batches.clear()
        self.epochs.clear()
        self.start = self.flushed = offset
        self.producers.clear(offset)
        self.aborted.clear()
        self.commits = [(offset, then) for _, then in self.commits]

    def newest_timestamp(self) -> int:
        return max((read_header(memoryview(data)).max_timestamp for _, _, _, data in self.batches), default=-1)

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> tuple[int, int, int] | None:
        for base, _, epoch, data in self.batches:
            if base < limit_offset and read_header(memoryview(data)).base_timestamp >= timestamp:
                return read_header(memoryview(data)).base_timestamp, base, epoch
        return None

    def flush(self) -> None: ...

    def values(self) -> list[str]:
        """The records' values, in order."""
        found = []
        for _, _, _, data in self.batches:
            for record in decode_records(memoryview(data)):
                assert record.value is not None
                found.append(record.value.decode())
        return found


class MemoryStore:
    """What survives kill -9: logs and the checkpointed watermarks."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, MemoryLog] = {}
        self.now_ms: Callable[[], float] = lambda: 0.0
        self.checkpointed: dict[TopicPartition, int] = {}
        self.unclean: dict[TopicPartition, str] = {}
        self.strays: list[MemoryLog] = []

    def out_of_reach(self, topic_partition: TopicPartition) -> bool:
        return False

    def is_shortened(self, topic_partition: TopicPartition) -> bool:
        return self.unclean.get(topic_partition) in (None, "power failure")

    def mark_unclean(self, topic_partition: TopicPartition, reason: str) -> None:
        self.unclean[topic_partition] = reason

    def clear_unclean(self, topic_partition: TopicPartition) -> None:
        self.unclean.pop(topic_partition, None)

    def logs(self) -> Mapping[TopicPartition, MemoryLog]:
        return self._logs

    def create(
        self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str], *, new: bool = True
    ) -> MemoryLog:
        if topic_partition not in self._logs:
            self._logs[topic_partition] = MemoryLog(topic_partition, topic_id, lambda: self.now_ms())
            if not new:
                self.mark_unclean(topic_partition, "made anew")
        return self._logs[topic_partition]

    def restore(self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str]) -> MemoryLog:
        raise AssertionError("no log of this store is ever offline")

    def delete(self, topic_partition: TopicPartition) -> None:
        self._logs.pop(topic_partition, None)
        self.checkpointed.pop(topic_partition, None)

    def set_aside(self, topic_partition: TopicPartition) -> None:
        self.strays.append(self._logs[topic_partition])
        self.delete(topic_partition)

    def update_config(self, topic: str, config: Mapping[str, str]) -> None: ...

    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        return dict(self.checkpointed)

    def checkpoint_high_watermarks(self, values: Mapping[TopicPartition, int]) -> None:
        self.checkpointed = dict(values)

    def checkpoint_recovery_points(self) -> None: ...

    def checkpoint_log_start_offsets(self) -> None: ...

    def close(self, clean: bool) -> None: ...
