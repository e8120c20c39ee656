"""Leader epochs derived from a log's batches, and whether its `leader-epoch-checkpoint` can be believed.

The file is believed unless a batch that a start reads anyway has another epoch than the file says: the log's last
batch, or after a crash the last batch of each segment that is not scanned. Such a file is older or newer than the log,
put back by somebody, and would vouch for the uncommitted tail of a deposed leader, up to the start of the next epoch
that it lists. Correct operation never leads there: the file is written before the first batch of an epoch and after a
cut, so surplus entries begin at or beyond the log's end; entries that are not durable begin beyond the recovery point,
where epochs are derived; compaction keeps a batch's epoch; a log start that rises moves the first entry only.
No CRC covers a batch's epoch. Epochs never fall along a log: where those of the batches do, a batch is damaged, and
proves nothing against the file.
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
    """Epochs of the batches in [start, until), by their headers, and whether these epochs fall anywhere.

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
