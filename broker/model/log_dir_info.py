"""What a broker's log.dirs hold, for whoever asks: told by the log, answered by the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.model.ids import Offset, TopicPartition


class LogInDir(NamedTuple):
    """An open log. size: bytes of its segments. is_future: a copy on its way, of a log in another dir."""

    topic_partition: TopicPartition
    size: int
    end_offset: Offset
    is_future: bool = False


class LogDirInfo(NamedTuple):
    """works: False once the dir has failed; nothing is known of its logs then."""

    path: str
    works: bool
    logs: Sequence[LogInDir]


class DiskSpace(NamedTuple):
    """Bytes of a file system: all, and what may still be used."""

    total: int
    usable: int
