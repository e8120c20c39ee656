"""`cleaner-offset-checkpoint`: per partition of one log dir, where its dirty part begins.

An entry also says that offsets may be missing in that log for as long as it lives, whatever its cleanup.policy is now.
So a compacted log has an entry from the start.
Lost or old content costs a second cleaning of what is clean, never a record. Source: kafka LogCleanerManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.log.files import checkpoints
from broker.log.files.checkpoints import OrderedFile
from broker.model.ids import Offset, TopicPartition

CLEANER_OFFSETS = "cleaner-offset-checkpoint"


class CleanerOffsets:
    """Changed on the loop's thread; `job` makes what it holds at that moment durable, on any thread."""

    def __init__(self, log_dir: str) -> None:
        self._file = OrderedFile(f"{log_dir}/{CLEANER_OFFSETS}")
        self._offsets: dict[TopicPartition, Offset] = {}

    def load(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Take over the file's content, at the broker's start."""
        self._offsets = dict(offsets)

    def get(self, topic_partition: TopicPartition) -> Offset | None:
        return self._offsets.get(topic_partition)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._offsets

    def put(self, topic_partition: TopicPartition, offset: Offset) -> None:
        self._offsets[topic_partition] = offset

    def lower(self, topic_partition: TopicPartition, offset: Offset) -> bool:
        """The log is about to be cut at offset: batches appended there are dirty. True when the entry changed."""
        if self._offsets.get(topic_partition, -1) <= offset:
            return False
        self._offsets[topic_partition] = offset
        return True

    def keep(self, holds: Callable[[TopicPartition], bool]) -> None:
        """Drop the entries of logs for which `holds` is False: they are gone."""
        self._offsets = {tp: offset for tp, offset in self._offsets.items() if holds(tp)}

    def job(self) -> Callable[[], None]:
        """Raises OSError when called."""
        ticket = self._file.ticket()
        text = checkpoints.format_offsets(self._offsets)
        return lambda: self._file.write(ticket, text)
