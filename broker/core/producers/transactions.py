"""Transactions of one partition that are open, or whose marker is not replicated yet, and how far readers may go. Pure.

A transaction begins with its producer's first transactional batch and ends with a marker, commit or abort. Nothing at
or beyond the first transaction that is open, or whose marker lies above the watermark, is stable: another leader might
not have the marker. Source: kafka ProducerStateManager (ongoingTxns, unreplicatedTxns), UnifiedLog.lastStableOffset;
KIP-98.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from broker.model.ids import Offset


class EndedTransaction(NamedTuple):
    """A transaction by its marker. last_offset: of the marker. last_stable_offset: the log's once all of this is
    replicated. Source: kafka CompletedTxn, AbortedTxn.
    """

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset
    committed: bool


class Transactions:
    """A transaction is named by the offset of its first batch."""

    __slots__ = ("_ended", "_open")

    def __init__(self) -> None:
        self._open: dict[Offset, int] = {}
        """First offset → producer, rising."""
        self._ended: deque[tuple[Offset, Offset]] = deque()
        """(offset of the marker, first offset), by marker, of those that may not be replicated."""

    def __bool__(self) -> bool:
        return bool(self._open or self._ended)

    def begin(self, producer_id: int, first_offset: Offset) -> None:
        """Of all that are open only those that a snapshot has may have begun later."""
        rises = not self._open or first_offset > next(reversed(self._open))
        self._open[first_offset] = producer_id
        if not rises:
            self._open = dict(sorted(self._open.items()))

    def end(self, producer_id: int, first_offset: Offset, marker_offset: Offset, committed: bool) -> EndedTransaction:
        """Markers come in log order."""
        self._open.pop(first_offset, None)
        self._ended.append((marker_offset, first_offset))
        stable = next(iter(self._open), marker_offset + 1)
        return EndedTransaction(producer_id, first_offset, marker_offset, stable, committed)

    def forget_replicated(self, high_watermark: Offset) -> None:
        """Transactions whose marker the watermark has passed are stable for good."""
        ended = self._ended
        while ended and ended[0][0] < high_watermark:
            ended.popleft()

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """The watermark, or where the first transaction begins that is not stable. Forgets those that are."""
        self.forget_replicated(high_watermark)
        stable = min(high_watermark, next(iter(self._open), high_watermark))
        for _, first_offset in self._ended:
            stable = min(stable, first_offset)
        return stable

    def clear(self) -> None:
        """The log is read anew."""
        self._open.clear()
        self._ended.clear()
