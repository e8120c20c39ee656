"""The producer state of one log: rebuilt from snapshots, batches and markers, cut with the log, left in snapshots.

The rules (sequences, epochs, repeats) are `broker.core.producers`; here is what they need of files and clocks. Times in
the state are of the environment's monotonic clock; a snapshot has the wall clock's, the only one that goes on while no
broker runs. Source: kafka ProducerStateManager, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.core.producers import snapshot
from broker.core.producers.state import ProducerStates
from broker.log.local_log import LocalLog
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog, NoDescriptorFree, ProducersUnread
from broker.wire.control_records import marker_of
from broker.wire.record_batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    check_crc,
    iter_batches,
)

_REPLAY_BYTES = 1 << 20
TRANSACTION_BITS = TRANSACTIONAL_BIT | CONTROL_BIT

ReadBytes = Callable[[Offset, int, Offset, bool], memoryview]
"""As `PartitionLog.read_bytes`."""


class ProducerStateManager:
    """`states` accounts for all that is appended, what is staged included."""

    __slots__ = ("_log", "_read", "_restored", "states")

    def __init__(self, log: LocalLog, read: ReadBytes) -> None:
        self.states = ProducerStates()
        self._log = log
        self._read = read
        self._restored = False
        log.snapshot_at_roll = lambda _: self._snapshot()

    def take(self, batches: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Note the producers of batches that are appended, in log order, or replayed. headers: of all of them."""
        append = self.states.append
        now_ms = self._log.environment.now_ms()
        for place, header in enumerate(headers):
            if header.producer_id < 0:
                continue
            if header.attributes & CONTROL_BIT:
                self._end_transaction(header, batches[sum(before.size for before in headers[:place]) :], now_ms)
            else:
                append(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_sequence,
                    header.base_offset,
                    header.last_offset,
                    now_ms,
                )
                if header.attributes & TRANSACTIONAL_BIT:
                    self.states.begin_transaction(header.producer_id, header.base_offset, header.last_offset)

    def _end_transaction(self, header: BatchHeader, batch: memoryview, now_ms: float) -> None:
        """A control batch that says nothing changes nothing: a cleaning took its marker, with all of the transaction.

        batch: what begins with it.
        """
        try:
            end = marker_of(header, batch)
        except CorruptBatch:
            # Its CRC is right, whoever wrote it: on every replica it says as little.
            return
        if end is not None:
            self.states.end_transaction(
                header.producer_id,
                header.producer_epoch,
                end.coordinator_epoch,
                header.base_offset,
                end.committed,
                now_ms,
            )

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Source: UnifiedLog.lastStableOffset, maybeIncrementFirstUnstableOffset."""
        stable = self.states.transactions.last_stable_offset(high_watermark)
        return max(stable, min(self._log.log_start, high_watermark))

    def cut(self) -> None:
        """The log was cut: forget the batches that were removed. Raises as `restore`.

        The log is read only where the state itself does not hold what must be forgotten: the loop waits for such a
        read.
        """
        if not self.states.cut(self._log.log_end_offset):
            self.restore()

    def restore(self) -> None:
        """Rebuild the state: newest snapshot that is not damaged, then batch headers.

        Raises LogDirFailed, CorruptLog, ProducersUnread: the state is in part then, and the replica has to go offline.
        """
        tp = self._log.topic_partition
        try:
            self._replay()
        except CorruptBatch as damage:
            raise CorruptLog(tp, "reading its producers", str(damage)) from damage
        except NoDescriptorFree as error:
            raise ProducersUnread(tp, "reading its producers", str(error)) from error
        self._restored = True

    def _replay(self) -> None:
        log = self._log
        end = log.log_end_offset
        position = log.log_start
        self.states.clear(position)
        kept = self._latest_snapshot(end)
        while kept is not None and kept[0] >= position:
            entries = snapshot.decode(kept[1])
            if entries is not None:
                position = kept[0]
                now_ms, wall_ms = log.environment.now_ms(), log.environment.wall_ms()
                for known in entries:
                    seen_ms = now_ms - max(0, wall_ms - known.seen_ms)
                    self.states.restore(
                        known.producer_id,
                        known.epoch,
                        known.batch,
                        seen_ms,
                        known.coordinator_epoch,
                        known.transaction_first_offset,
                        position,
                    )
                break
            kept = self._latest_snapshot(kept[0] - 1)
        while position < end:
            view = self._read(position, _REPLAY_BYTES, end, True)
            if not view:
                break
            headers = headers_of(view)
            _check_markers(view, headers)
            self.take(view, headers)
            if not headers or headers[-1].last_offset < position:
                break
            position = headers[-1].last_offset + 1

    def _latest_snapshot(self, at_most: Offset) -> tuple[Offset, bytes] | None:
        log = self._log
        try:
            return log.environment.open_segments.with_room(lambda: log.snapshots.latest(at_most))
        except OSError as error:
            log.read_failed(error)

    def leave_snapshot(self) -> None:
        """Keep the state as it is at the log's written end, for a quick start. Raises LogDirFailed."""
        log = self._log
        log.dir.check()
        content = self._snapshot()
        if content is not None:
            try:
                log.snapshots.write(log.log_end_offset, content)
            except OSError as error:
                log.fail(error)

    def _snapshot(self) -> bytes | None:
        """None before the state was restored: it would say that older batches had no producers.

        One without producers is worth writing too: it says that nothing before its offset has to be read.
        """
        if not self._restored:
            return None
        environment = self._log.environment
        return snapshot.encode(self.states, environment.wall_ms(), environment.now_ms())


def _check_markers(view: memoryview, headers: Sequence[BatchHeader]) -> None:
    """What is replayed is not checked otherwise, and a marker is more than its header. Raises CorruptBatch."""
    position = 0
    for header in headers:
        if header.attributes & CONTROL_BIT:
            check_crc(view, position, header)
        position += header.size


def headers_of(view: memoryview) -> list[BatchHeader]:
    """Of all batches in view, whose CRCs are not looked at. Raises CorruptBatch."""
    return [header for _, header in iter_batches(view, verify_crc=False)]
