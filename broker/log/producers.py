"""The producer state of one log: rebuilt from snapshots, batches and markers, cut with the log, left in snapshots.

The rules (sequences, epochs, repeats) are `broker.core.producers`; here is what they need of files and clocks. Times in
the state are of the environment's monotonic clock; a snapshot has the wall clock's, the only one that goes on while no
broker runs. Source: kafka ProducerStateManager, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.core.producers import snapshot
from broker.core.producers.state import ProducerStates
from broker.core.producers.transactions import EndedTransaction
from broker.log.indexes.aborted_txn import AbortedTxn
from broker.log.indexes.transaction_indexes import LOG_END, Doubt
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
"""As `SegmentReads.read_bytes`."""


class ProducerStateManager:
    """`states` accounts for all that is appended, what is staged included."""

    __slots__ = ("_log", "_read", "_restored", "states")

    def __init__(self, log: LocalLog, read: ReadBytes) -> None:
        self.states = ProducerStates()
        self._log = log
        self._read = read
        self._restored = False
        log.snapshot_at_roll = lambda _: self._snapshot()

    def append(self, batches: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Note the producers of batches that were just staged, in log order. headers: of all of them."""
        aborted = _take(self.states, batches, headers, self._log.environment.now_ms())
        if aborted:
            self._log.staging.runs[-1].aborted += aborted

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

        And the indexes of aborted transactions that are doubted. Raises LogDirFailed, CorruptLog, ProducersUnread: the
        state is in part then, and the replica has to go offline.
        """
        log = self._log
        doubt = self._doubt()
        try:
            aborted = self._replay(self.states, log.log_end_offset if doubt is None else doubt.first)
            if doubt is not None:
                self._index(doubt, aborted)
        except NoDescriptorFree as error:
            raise ProducersUnread(log.topic_partition, "reading its producers", str(error)) from error
        self._restored = True

    def index_aborted(self) -> None:
        """Write the indexes of aborted transactions anew that are doubted.

        The state itself stays as it is. Raises LogDirFailed, CorruptLog, NoDescriptorFree.
        """
        doubt = self._doubt()
        if doubt is not None:
            self._index(doubt, self._replay(ProducerStates(), doubt.first, doubt.end))

    def _doubt(self) -> Doubt | None:
        """Of whole segments as they are now: a swap may have merged some since."""
        doubt = self._log.aborted.doubt
        if doubt is None:
            return None
        segments, bases = self._log.segments, self._log.segments.bases
        behind = segments.floor(doubt.end - 1) + 1
        return Doubt(bases[segments.floor(doubt.first)], bases[behind] if behind < len(bases) else LOG_END)

    def _index(self, doubt: Doubt, aborted: Sequence[AbortedTxn]) -> None:
        """aborted: among others, all whose marker lies in the doubted segments."""
        log = self._log
        entries: dict[Offset, list[AbortedTxn]] = {}
        bases = log.segments.bases
        for entry in aborted:
            if doubt.first <= entry.last_offset < doubt.end:
                entries.setdefault(bases[log.segments.floor(entry.last_offset)], []).append(entry)
        try:
            log.environment.open_segments.with_room(lambda: log.aborted.rebuild(doubt, entries))
        except OSError as error:
            log.read_failed(error)

    def _replay(self, states: ProducerStates, at_most: Offset, end: Offset = LOG_END) -> list[AbortedTxn]:
        """Fill states from the newest snapshot at or below at_most, and the batches behind it up to end.

        What is staged is left out. Returns which of these batches' transactions were aborted. Raises as
        `index_aborted`.
        """
        try:
            position = self._start_from_snapshot(states, at_most)
            return self._take_log(states, position, min(end, self._log.log_end_offset))
        except CorruptBatch as damage:
            raise CorruptLog(self._log.topic_partition, "reading its producers", str(damage)) from damage

    def _start_from_snapshot(self, states: ProducerStates, at_most: Offset) -> Offset:
        """Up to where states then account for the log.

        Records below the log's start are deleted, but who wrote them is not forgotten while the log runs. So their
        batches are read too, as far as the first segment has them: without them a snapshot would be out of date.
        """
        log = self._log
        position = log.segments.first.base_offset
        states.clear(position)
        kept = self._latest_snapshot(min(at_most, log.log_end_offset))
        while kept is not None and kept[0] >= position:
            entries = snapshot.decode(kept[1])
            if entries is None:
                kept = self._latest_snapshot(kept[0] - 1)
                continue
            now_ms, wall_ms = log.environment.now_ms(), log.environment.wall_ms()
            for known in entries:
                states.restore(
                    known.producer_id,
                    known.epoch,
                    known.batch,
                    now_ms - max(0, wall_ms - known.seen_ms),
                    known.coordinator_epoch,
                    known.transaction_first_offset,
                    kept[0],
                )
            return kept[0]
        return position

    def _take_log(self, states: ProducerStates, position: Offset, end: Offset) -> list[AbortedTxn]:
        """Take what is written in [position, end). Raises CorruptBatch besides what a read raises."""
        aborted: list[AbortedTxn] = []
        while position < end:
            view = self._read(position, _REPLAY_BYTES, end, True)
            if not view:
                break
            headers = headers_of(view)
            aborted += _take(states, view, headers, self._log.environment.now_ms(), check_markers=True)
            if not headers or headers[-1].last_offset < position:
                break
            position = headers[-1].last_offset + 1
        return aborted

    def _latest_snapshot(self, at_most: Offset) -> tuple[Offset, bytes] | None:
        log = self._log
        try:
            return log.environment.open_segments.with_room(lambda: log.snapshots.latest(at_most))
        except OSError as error:
            log.read_failed(error)

    def adopt(self, states: ProducerStates) -> None:
        """Take over the state of another log that holds the very same records, in place of a `restore`."""
        self.states = states
        self._restored = True

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


def _take(
    states: ProducerStates,
    batches: memoryview,
    headers: Sequence[BatchHeader],
    now_ms: float,
    check_markers: bool = False,
) -> list[AbortedTxn]:
    """Let states account for these batches, in log order; returns the transactions that they abort.

    headers: of all batches. check_markers: nobody has checked their CRCs, and a marker is more than its header; raises
    CorruptBatch then.
    """
    aborted: list[AbortedTxn] = []
    position = counted = 0
    for place, header in enumerate(headers):
        if header.producer_id < 0:
            continue
        if header.attributes & CONTROL_BIT:
            position += sum(before.size for before in headers[counted:place])
            counted = place
            if check_markers:
                check_crc(batches, position, header)
            ended = _end_transaction(states, header, batches[position:], now_ms)
            if ended is not None and not ended.committed:
                aborted.append(AbortedTxn(*ended[:-1]))
            continue
        states.append(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            now_ms,
        )
        if header.attributes & TRANSACTIONAL_BIT:
            states.begin_transaction(header.producer_id, header.base_offset, header.last_offset)
    return aborted


def _end_transaction(
    states: ProducerStates, header: BatchHeader, batch: memoryview, now_ms: float
) -> EndedTransaction | None:
    """A control batch that says nothing changes nothing: a cleaning took its marker, with all of the transaction.

    batch: what begins with it.
    """
    try:
        end = marker_of(header, batch)
    except CorruptBatch:
        # Its CRC is right, whoever wrote it: on every replica it says as little.
        return None
    if end is None:
        return None
    return states.end_transaction(
        header.producer_id,
        header.producer_epoch,
        end.coordinator_epoch,
        header.base_offset,
        end.committed,
        now_ms,
    )


def headers_of(view: memoryview) -> list[BatchHeader]:
    """Of all batches in view, whose CRCs are not looked at. Raises CorruptBatch."""
    return [header for _, header in iter_batches(view, verify_crc=False)]
