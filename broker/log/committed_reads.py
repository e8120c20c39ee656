"""Which aborted transactions a reader of committed records is told of: those with records in what it gets.

The reader leaves their records out. Source: kafka UnifiedLog.collectAbortedTransactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from broker.log.indexes.transaction_index import AbortedTxn, BadTransactionIndex
from broker.log.local_log import LocalLog
from broker.log.producers import ProducerStateManager
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog
from broker.wire.chunks import Chunk
from broker.wire.record_batch import CorruptBatch

_logger = logging.getLogger(__name__)


class CommittedReads:
    """Of one log. An index of aborted transactions that is damaged is derived from the log again."""

    __slots__ = ("_end_offset_of", "_log", "_producers")

    def __init__(
        self, log: LocalLog, producers: ProducerStateManager, end_offset_of: Callable[[Chunk], Offset]
    ) -> None:
        """end_offset_of: as `PartitionLog.end_offset_of`."""
        self._log = log
        self._producers = producers
        self._end_offset_of = end_offset_of

    def aborted_in(self, offset: Offset, chunk: Chunk) -> Sequence[tuple[int, Offset]]:
        """(producer id, first offset) of each; as `PartitionLog.aborted_transactions`."""
        log = self._log
        try:
            end = self._end_offset_of(chunk)
            return [(entry.producer_id, entry.first_offset) for entry in self._overlapping(offset, end)]
        except CorruptBatch as error:
            raise CorruptLog(log.topic_partition, "reading what it sends", str(error)) from error
        except OSError as error:
            log.read_failed(error)

    def _overlapping(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        aborted = self._log.aborted
        if aborted.unindexed_from is None:
            try:
                return aborted.overlapping(start, end)
            except BadTransactionIndex as bad:
                _logger.warning(
                    "%s: the index of aborted transactions of segment %d is damaged (%s): derived from the log again",
                    self._log.topic_partition, bad.base, bad,
                )  # fmt: skip
                aborted.distrust(bad.base)
        self._producers.index_aborted()
        return aborted.overlapping(start, end)
