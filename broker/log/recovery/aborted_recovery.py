"""The indexes of aborted transactions that a start finds, and which of them are to be derived from the log again.

One segment's batches are not enough for that: a transaction may have begun in an earlier one. So it waits until the
producers are read (`ProducerStateManager.restore`), and is left out where no transaction ends in what was checked.
Source: kafka LogSegment.recover, updateTxnIndex.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.log.files.names import TXN_INDEX_SUFFIX, parse_segment_file
from broker.log.files.open_segments import OpenSegments
from broker.log.indexes.transaction_indexes import Doubt, TransactionIndexes
from broker.log.recovery.segment_recovery import Scan
from broker.model.ids import Offset


def find_aborted(
    path: str, open_segments: OpenSegments, state: Scan, names: Sequence[str], swapped: Sequence[Offset]
) -> TransactionIndexes:
    """names: of the folder's files, the segments' own perhaps left out. Raises OSError.

    swapped: bases of segments that an interrupted swap put in. Where Apache Kafka began it, nobody knows whether the
    index that has the name is the new one: its cleaner takes aborted records away, and with them their entries.
    """
    named = (parse_segment_file(name) for name in names if name.endswith(TXN_INDEX_SUFFIX))
    bases = {found[0] for found in named if found is not None}.intersection(state.segments.bases)
    indexes = TransactionIndexes(path, open_segments, bases)
    if bases.intersection(swapped):
        indexes.distrust(Doubt(min(swapped), max(swapped) + 1))
    if not state.clean:
        if state.has_markers:
            indexes.distrust(Doubt(min(state.scanned)))
        else:
            for base in bases.intersection(state.scanned):
                indexes.drop(base)
        indexes.cut(state.leo)
    return indexes
