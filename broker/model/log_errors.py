"""What can be wrong with a replica's log, as exceptions: raised by `broker.log`, handled by `broker.runtime`."""

from __future__ import annotations

from collections.abc import Callable

from broker.model.ids import Offset, TopicPartition


class OffsetOutOfRange(Exception):
    """A read below the log start offset or above the LEO."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset, log_start: Offset, leo: Offset) -> None:
        super().__init__(f"{topic_partition}: offset {offset} is outside [{log_start}, {leo}]")
        self.topic_partition = topic_partition
        self.offset = offset


class UnexpectedAppendOffset(Exception):
    """Replicated batches that do not start at the replica's LEO; nothing of them was staged."""

    def __init__(self, topic_partition: TopicPartition, first_offset: Offset, leo: Offset) -> None:
        super().__init__(f"{topic_partition}: batch at offset {first_offset} cannot follow log end offset {leo}")
        self.topic_partition = topic_partition
        self.first_offset = first_offset
        self.leo = leo


class CorruptLog(Exception):
    """A partition's files hold bytes that cannot be right; the replica must go offline and be restored."""

    def __init__(self, topic_partition: TopicPartition, where: str, reason: str) -> None:
        super().__init__(f"{topic_partition}: {where}: {reason}")
        self.topic_partition = topic_partition
        self.where = where
        self.reason = reason


class LogUnread(CorruptLog):
    """The files are sound as far as anybody knows, and cannot be read now: the replica goes offline, and nothing is
    thrown away. may_be_over: whether what kept it from being read may be over by now; until a restart it never is where
    there is none.
    """

    def __init__(
        self, topic_partition: TopicPartition, where: str, reason: str, may_be_over: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__(topic_partition, where, reason)
        self.may_be_over = may_be_over


class ProducersUnread(LogUnread):
    """No descriptor was free to read a replica's producers with. To try again is the only way to know if one is now."""

    def __init__(self, topic_partition: TopicPartition, where: str, reason: str) -> None:
        super().__init__(topic_partition, where, reason, lambda: True)


class LogDirFailed(Exception):
    """A write, read or fsync in this log dir failed; every later one in it raises the same, none is retried."""

    def __init__(self, log_dir: str, errno: int, detail: str) -> None:
        super().__init__(f"log dir {log_dir} failed: {detail}")
        self.log_dir = log_dir
        self.errno = errno


class NoDescriptorFree(OSError):
    """An older segment could not be opened for a read. Nothing is wrong with it: a repeated request may be served."""
