"""Which aborted transactions a reader of committed records is told of: those with records in what it gets.

The reader leaves their records out. Source: kafka UnifiedLog.collectAbortedTransactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from broker.log.indexes.aborted_txn import AbortedTxn, TransactionIndexDamaged
from broker.log.indexes.transaction_indexes import Doubt
from broker.log.local_log import LocalLog
from broker.log.producers import ProducerStateManager
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog, NoDescriptorFree, ProducersUnread
from broker.wire.chunks import Chunk
from broker.wire.record_batch import CorruptBatch

_logger = logging.getLogger(__name__)

T = TypeVar("T")


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
        indexes = self._log.aborted
        if self._sound(lambda: indexes.none_from(offset)):
            # A reader near the end of the log: nothing was aborted since.
            return ()
        end = self._end_of(chunk)
        found = self._sound(lambda: indexes.overlapping(offset, end))
        return [(entry.producer_id, entry.first_offset) for entry in found]

    def aborted_across(self, offset: Offset) -> Sequence[AbortedTxn]:
        """Those with records before this offset and their marker at or behind it, and perhaps others. As a read."""
        indexes = self._log.aborted
        return self._sound(lambda: indexes.overlapping(offset, offset + 1)) if indexes else ()

    def settle(self) -> None:
        """Leave no doubt about an index. Raises LogDirFailed, CorruptLog, NoDescriptorFree."""
        self._producers.index_aborted()

    def settle_for_good(self) -> None:
        """The same before a clean stop, of which the next start knows no doubt. Raises LogDirFailed, CorruptLog."""
        try:
            self.settle()
        except NoDescriptorFree as error:
            raise ProducersUnread(self._log.topic_partition, "indexing its transactions", str(error)) from error

    def check(self, base: Offset) -> None:
        """See to it that the index of the segment with this base is sound. Raises as a read."""
        self._sound(lambda: self._log.aborted.check(base))

    def _end_of(self, chunk: Chunk) -> Offset:
        try:
            return self._end_offset_of(chunk)
        except CorruptBatch as error:
            raise CorruptLog(self._log.topic_partition, "reading what it sends", str(error)) from error
        except OSError as error:
            self._log.read_failed(error)

    def _sound(self, read: Callable[[], T]) -> T:
        """What read returns, once the indexes that it finds damaged are derived from the log again."""
        log = self._log
        tried: set[Offset] = set()
        while True:
            self._producers.index_aborted()
            try:
                return read()
            except TransactionIndexDamaged as damage:
                where = f"index of aborted transactions of segment {damage.base}"
                if damage.base in tried:
                    raise CorruptLog(log.topic_partition, where, str(damage)) from damage
                tried.add(damage.base)
                _logger.warning(
                    "%s: the %s is damaged (%s): derived from the log again", log.topic_partition, where, damage
                )
                log.aborted.distrust(Doubt(damage.base, damage.base + 1))
            except OSError as error:
                log.read_failed(error)
