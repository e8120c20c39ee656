"""The indexes of aborted transactions that a start finds, and from where on they are to be written anew.

They cannot be derived from the batches of one segment alone: a transaction may have begun in an earlier one. So this
waits until the producers are read (`ProducerStateManager.restore`), and is left out where no transaction ends in what
was checked. Source: kafka LogSegment.recover, updateTxnIndex.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.log.files.names import TXN_INDEX_SUFFIX, parse_segment_file
from broker.log.indexes.aborted_transactions import AbortedTransactions
from broker.log.recovery.segment_recovery import Scan
from broker.model.ids import Offset


def find_aborted(path: str, state: Scan, names: Sequence[str], swapped_from: Offset | None) -> AbortedTransactions:
    """names: of the folder's files, the segments' own perhaps left out. Raises OSError.

    swapped_from: base of the first segment that an interrupted swap put in: nobody knows whether it was the new index
    or the old one that had the name then.
    """
    named = (parse_segment_file(name) for name in names if name.endswith(TXN_INDEX_SUFFIX))
    bases = {found[0] for found in named if found is not None}.intersection(state.segments.bases)
    doubted = [swapped_from] if swapped_from is not None and bases else []
    scanned_from = state.scanned_from
    if scanned_from is not None:
        scanned_from = min(scanned_from, state.segments.active.base_offset)
        if state.has_markers:
            doubted.append(scanned_from)
    aborted = AbortedTransactions(path, bases, min(doubted, default=None))
    if scanned_from is not None and not doubted:
        aborted.cut(scanned_from)
    return aborted
