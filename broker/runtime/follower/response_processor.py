"""A follower takes its leader's fetch response, one partition at a time: append, cut, learn the watermark.

A response counts only for the position and the epoch of its request; any other is out of date. Batches are checked
(CRC, leader epoch) before they are written, and written before anything that rests on them is sent or logged.
Source: ReplicaFetcherThread.processPartitionData, AbstractFetcherThread.truncateOnFetchResponse; KAFKA-18723.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.core.replication import epochs
from broker.core.replication.partition import Following
from broker.model.ids import Epoch, Offset
from broker.model.log_errors import UnexpectedAppendOffset
from broker.runtime.event_log import EventLog
from broker.runtime.ports import Loop
from broker.runtime.replicas.delete_records import DeleteRecordsHandler
from broker.runtime.replicas.group_commit import GroupCommit
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.truncation import ReplicaTruncation
from broker.wire.messages.fetch import FetchPartitionResult
from broker.wire.record_batch import BatchHeader, CorruptBatch, checked_headers

Fall = tuple[Offset, Epoch, Epoch]
"""Where a leader epoch is followed by an older one: at which offset, which, by which."""


class ResponseProcessor:
    """Applies successful responses to replicas."""

    def __init__(
        self,
        loop: Loop,
        event_log: EventLog | None,
        truncation: ReplicaTruncation,
        group_commit: GroupCommit,
        delete_records: DeleteRecordsHandler,
        truncates_by_epoch: bool,
        on_high_watermark: Callable[[Replica], None],
    ) -> None:
        """truncates_by_epoch: False where followers cut their logs to the watermark, as before KIP-101.

        on_high_watermark: it rose, and consumers may wait here for that.
        """
        self._on_high_watermark = on_high_watermark
        self._loop = loop
        self._event_log = event_log
        self._truncation = truncation
        self._group_commit = group_commit
        self._delete_records = delete_records
        self._truncates_by_epoch = truncates_by_epoch

    def take(
        self, replica: Replica, role: Following, result: FetchPartitionResult, rid: str, fell: Fall | None = None
    ) -> None:
        """Raises CorruptBatch or UnexpectedAppendOffset for bytes that cannot be right, LogDirFailed, CorruptLog.

        fell: of the StaleEpochBatch that the response before raised; the same batch is taken now.
        """
        if result.diverging_epoch >= 0:
            end = epochs.EpochEnd(result.diverging_epoch, result.diverging_end_offset)
            log = replica.log
            target = epochs.truncation_offset(end, log.end_offset_for_epoch, log.staged_end_offset)
            self._truncation.truncate(replica, target, "diverging-epoch")
            # Nothing else is taken from this response: the watermark waits until the logs agree.
            return
        if result.records:
            self._append(replica, role, result.records_view, fell)
        self._learn_high_watermark(replica, role, result.high_watermark, rid)
        if result.log_start_offset > replica.log.log_start_offset:
            self._learn_log_start(replica, result.log_start_offset)

    def _append(self, replica: Replica, role: Following, view: memoryview, fell: Fall | None) -> None:
        headers, end = checked_headers(view)
        if not headers:
            return
        if self._truncates_by_epoch:
            # Where logs are cut to the watermark, as before KIP-101, epochs may fall along a log that nobody damaged.
            log = replica.log
            of_history = _count_of_history(headers, log.epoch_at(log.staged_end_offset - 1), role.leader_epoch, fell)
            if of_history < len(headers):
                headers = headers[:of_history]
                end = sum(header.size for header in headers)
        try:
            replica.log.append_as_follower(view[:end], headers)
        except UnexpectedAppendOffset:
            log = replica.log
            first = headers[0]
            if (
                log.staged_end_offset != log.log_start_offset
                or not first.base_offset < log.staged_end_offset <= first.last_offset
            ):
                raise
            # This log is empty, and the leader's begins inside of a batch (DeleteRecords): begin where that batch does.
            self._truncation.start_anew(replica, first.base_offset)
            replica.log.append_as_follower(view[:end], headers)
        replica.log.write()
        self._group_commit.note(replica)
        event_log = self._event_log
        if event_log is not None:
            for run in _epoch_runs(headers):
                event_log.emit(
                    "append", p=replica.event_name, le=run.epoch, role="follower", base=run.base, last=run.last
                )

    def _learn_high_watermark(self, replica: Replica, role: Following, high_watermark: int, rid: str) -> None:
        rose = replica.partition.learn_high_watermark(high_watermark, replica.log.log_end_offset)
        if not rose:
            return
        self._on_high_watermark(replica)
        event_log = self._event_log
        if event_log is not None:
            event_log.emit(
                "hw", p=replica.event_name, le=role.leader_epoch, role="follower", hw=replica.high_watermark, rid=rid
            )

    def _learn_log_start(self, replica: Replica, leader_log_start: Offset) -> None:
        """Delete what the leader has deleted; never beyond what is known to be committed."""
        if replica.log.maybe_raise_log_start(min(leader_log_start, replica.high_watermark)):
            self._delete_records.on_raised(replica)


class EpochRun(NamedTuple):
    """Neighbouring appended batches of one leader epoch; last is inclusive."""

    epoch: Epoch
    base: Offset
    last: Offset


def _epoch_runs(headers: Sequence[BatchHeader]) -> list[EpochRun]:
    """The runs of one epoch each, in order, for the event log."""
    runs: list[EpochRun] = []
    for header in headers:
        epoch = header.partition_leader_epoch
        if runs and runs[-1].epoch == epoch:
            runs[-1] = EpochRun(epoch, runs[-1].base, header.last_offset)
        else:
            runs.append(EpochRun(epoch, header.base_offset, header.last_offset))
    return runs


class StaleEpochBatch(CorruptBatch):
    """The first batch is of an older leader epoch than the log's last. fell: its offset, that epoch, its own."""

    def __init__(self, fell: Fall) -> None:
        super().__init__(0, f"leader epoch {fell[2]} at offset {fell[0]}, behind {fell[1]}")
        self.fell = fell


def _count_of_history(headers: Sequence[BatchHeader], last: Epoch, leader_epoch: Epoch, fell: Fall | None) -> int:
    """How many of these batches a leader of `leader_epoch` can have had behind one of epoch `last` (−1: of any).

    A leader that has been deposed may cut its log, and write its new leader's batches where the old ones stood, before
    a response that was long on its way reads its file. Where the new batches are as long as the old ones, only their
    epochs show it: a batch that was written since is newer than `leader_epoch`, or, after an unclean election, may be
    older than the batch before it. But a leader that sends again what was refused before (fell) has falling epochs in
    its log: a bit of an epoch has flipped, or ZooKeeper was restored from a backup. −1 is no epoch: logs that came from
    elsewhere have such batches. Raises CorruptBatch where it is none at all, StaleEpochBatch.
    """
    for count, header in enumerate(headers):
        epoch = header.partition_leader_epoch
        if epoch != last and epoch >= 0:
            fall = (header.base_offset, last, epoch)
            if epoch > leader_epoch or (epoch < last and (count or fall != fell)):
                if count:
                    return count
                if epoch < last:
                    raise StaleEpochBatch(fall)
                raise CorruptBatch(0, f"leader epoch {epoch}, from a leader of epoch {leader_epoch}")
            last = epoch
    return len(headers)
