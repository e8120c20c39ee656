"""Leader epochs as a log's batches tell them, and whether the file of them can be that log's.

The file is believed unless a batch that a start reads anyway is of another epoch than it says: the log's last one, or
after a crash that of each segment which is not scanned. Then the file is of another time, put back by somebody, and it
would vouch for the uncommitted tail of a deposed leader, up to where the next epoch begins for all it knows. Nothing in
order looks like that: the file is written before the first batch of an epoch and after a cut, so what it has too much
lies at or beyond the log's end; what is not durable in it lies behind the recovery point, where epochs are derived; a
batch keeps its epoch when it is compacted; a log start that rises moves the first entry only.
No CRC covers a batch's epoch. Epochs never fall along a log: where those of the batches do, one of these is damaged,
and proves nothing against the file.
Source: none in Kafka, which believes its file; KIP-101.
"""

from __future__ import annotations

from broker.log.epochs.cache import EpochCache
from broker.log.files.batch_scan import BatchAt
from broker.log.segments.log_segments import Segments
from broker.model.ids import Offset


def doubt(epochs: EpochCache, batch: BatchAt | None) -> str:
    """What is wrong with the entries if this batch is in the log, "" when nothing is."""
    if batch is None or not epochs.contradicts(batch.epoch, batch.last_offset):
        return ""
    return (
        f"the file of leader epochs says {epochs.epoch_at(batch.last_offset)} of offset {batch.last_offset}, "
        f"the batch there {batch.epoch}"
    )


def epochs_of_batches(segments: Segments, start: Offset, until: Offset, leo: Offset) -> tuple[EpochCache, bool]:
    """Those that have batches in [start, until), by the batches' headers; whether they fall anywhere there.

    Raises CorruptLog, OSError. Leaves no segment open that was not.
    """
    found = EpochCache()
    falls = False
    first_place = segments.floor(start)
    previous_end = segments.at(first_place).base_offset
    for place in range(first_place, len(segments)):
        segment = segments.at(place)
        with segment.briefly_open():
            for batch in segment.batches():
                if batch.base_offset < until:
                    falls = falls or 0 <= batch.epoch < found.latest
                    if batch.epoch > found.latest:
                        found.assign(batch.epoch, previous_end)
                previous_end = batch.last_offset + 1
        if segments.end_of(place, leo) >= until:
            break
    return found, falls
