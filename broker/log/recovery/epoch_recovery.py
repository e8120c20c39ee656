"""The leader epochs of a recovered log: those of its file, or of its batches where the file is wrong or lacks some.

Source: none in Kafka, which truncates its file to the log's range; see `broker.log.recovery.epoch_derivation`.
"""

from __future__ import annotations

import logging

from broker.log.files import checkpoints
from broker.log.recovery.epoch_derivation import epochs_of_batches
from broker.log.recovery.segment_recovery import Scan
from broker.model.ids import Epoch, Offset

_logger = logging.getLogger(__name__)


def read_epochs(path: str) -> list[tuple[Epoch, Offset]] | None:
    """Entries of the file in folder `path`, None where it is not there or makes no sense."""
    try:
        return checkpoints.read_epochs(f"{path}/{checkpoints.LEADER_EPOCHS}")
    except ValueError as error:
        _logger.warning("leader epochs are derived from the batches: %s", error)
        return None


def derive_epochs(state: Scan, start: Offset) -> bool:
    """Replace the file's epochs, which a batch contradicts, by the batches' epochs. False, changing nothing, where
    those fall.
    """
    found, falls = epochs_of_batches(state.segments, start, state.leo, state.leo)
    if falls:
        _logger.warning(
            "%s: %s. But batches' epochs, which no CRC covers, fall in this log: one is damaged, the file is believed",
            state.segments.first.topic_partition,
            state.doubt,
        )
        return False
    state.epochs = found
    return True


def fill_epochs(state: Scan, start: Offset) -> None:
    """Read epochs that the file lacks below its first entry from the batches.

    Entries are dropped when the log start rises, and a crash may lose that rise before it is checkpointed.
    """
    entries = state.epochs.entries
    until = entries[0][1] if entries else state.leo
    if until <= start:
        return
    found, _ = epochs_of_batches(state.segments, start, until, state.leo)
    for epoch, first in entries:
        found.assign(epoch, first)
    state.epochs = found
