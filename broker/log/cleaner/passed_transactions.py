"""Which transactions the batches of a log belong to, as a cleaning passes over them: what was aborted goes, what was
committed is compacted like everything else, and a marker goes once nothing of its transaction is left.

All batches lie below the last stable offset, so every transaction is decided, though its marker may lie beyond what is
cleaned. Whose batch lies between the first offset of one of its producer's aborted transactions and that one's marker
was aborted; a producer has one transaction at a time. Touches no file.
Source: kafka CleanedTransactionMetadata (LogCleaner.scala); KIP-98, KIP-534.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from broker.log.indexes.aborted_txn import AbortedTxn
from broker.model.ids import Offset
from broker.wire.control_records import EndOfTransaction
from broker.wire.record_batch import BatchHeader


class UnknownAbort(Exception):
    """A marker aborts a transaction that the indexes do not have, and some of its batches were passed."""


class PassedMarker(NamedTuple):
    """removable: nothing of its transaction was passed. entry: what the index keeps of an aborted one."""

    removable: bool
    entry: AbortedTxn | None = None


@dataclass(slots=True)
class _Aborted:
    entry: AbortedTxn
    passed: bool = False
    """Some batch of it was."""


class PassedTransactions:
    """Of one pass, in the log's order, from any segment's base on."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """aborted: all with batches among those that are passed, and perhaps others."""
        self._coming = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, _Aborted] = {}
        """By producer id: the newest that begins at or before the batch."""
        self._committed: set[int] = set()
        """Producers with batches of a transaction that was not aborted, since their last marker."""

    def aborts(self, header: BatchHeader) -> bool:
        """Whether the records of this batch, which is no marker, were aborted."""
        if not header.is_transactional:
            return False
        found = self._aborted_at(header.producer_id, header.last_offset)
        if found is None or header.base_offset < found.entry.first_offset:
            self._committed.add(header.producer_id)
            return False
        found.passed = True
        return True

    def end(self, header: BatchHeader, said: EndOfTransaction | None) -> PassedMarker:
        """A control batch. said: None where it is empty, or no marker. Raises UnknownAbort."""
        producer_id = header.producer_id
        if said is None:
            return PassedMarker(header.record_count == 0)
        found = self._aborted_at(producer_id, header.last_offset)
        committed = producer_id in self._committed
        self._committed.discard(producer_id)
        if said.committed:
            return PassedMarker(not committed)
        if found is not None and found.entry.last_offset == header.last_offset:
            del self._aborted[producer_id]
            return PassedMarker(not found.passed, found.entry if found.passed else None)
        if committed:
            raise UnknownAbort(
                f"the marker at {header.last_offset} aborts a transaction of producer {producer_id} that is in no index"
            )
        return PassedMarker(True)

    def _aborted_at(self, producer_id: int, offset: Offset) -> _Aborted | None:
        """The producer's aborted transaction that lies around this offset, its marker included."""
        while self._coming and self._coming[-1].first_offset <= offset:
            entry = self._coming.pop()
            self._aborted[entry.producer_id] = _Aborted(entry)
        found = self._aborted.get(producer_id)
        return found if found is not None and found.entry.last_offset >= offset else None
