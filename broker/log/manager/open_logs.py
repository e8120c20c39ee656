"""The table of a broker's logs: those that are open, those that are offline, and the dir that each is in.

Memory alone: whoever changes a folder says so here.
Source: kafka LogManager.currentLogs, which keeps no log that could not be loaded.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence

from broker.log.files.log_dir import LogDir
from broker.log.log import PartitionLog
from broker.log.manager.log_dirs import LogDirs
from broker.model.grouped import Grouped
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog


class OpenLogs:
    """Every log that a dir holds is in `homes`; it is open in `by_partition`, or else in `offline`."""

    def __init__(self, dirs: LogDirs) -> None:
        self.by_partition: dict[TopicPartition, PartitionLog] = {}
        self.offline: dict[TopicPartition, CorruptLog] = {}
        """Logs that are damaged: each stays offline until it is repaired, or its folder removed."""
        self.homes: dict[TopicPartition, LogDir] = {}
        self._dirs = dirs
        self._of_topic: Grouped[TopicPartition, PartitionLog] = Grouped()
        """The open logs by topic, so that a change of a topic's settings visits no other log."""
        self._deleted_beside_offline_dirs: set[TopicPartition] = set()
        """Partitions whose logs were deleted in a dir that works, so that no offline dir can hold them."""

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.by_partition.get(topic_partition)

    def working(self) -> Mapping[TopicPartition, PartitionLog]:
        """The logs that are open and whose dir works."""
        if not self._dirs.offline:
            return self.by_partition
        return {tp: log for tp, log in self.by_partition.items() if self.homes[tp].failed is None}

    def of_topic(self, topic: str) -> Collection[PartitionLog]:
        return self._of_topic.of(topic)

    def topics(self) -> Iterable[str]:
        """Those that have an open log here."""
        return self._of_topic

    def out_of_reach(self, topic_partition: TopicPartition) -> bool:
        """Whether a log that is not among `working` may be there all the same: damaged, or in a dir that failed."""
        if topic_partition in self.offline:
            return True
        return bool(self._dirs.offline) and topic_partition not in self._deleted_beside_offline_dirs

    def dirs_of(self, topic_partition: TopicPartition) -> list[LogDir]:
        """The dir that a log is in; more than one where it was found in several, and is offline for that."""
        return [log_dir for log_dir in self._dirs if topic_partition in log_dir.offline] or [
            self.homes[topic_partition]
        ]

    def folder_is_gone(self, topic_partition: TopicPartition) -> bool:
        """Whether none of the log dirs that may have this partition's log has a folder for it; asks the file system."""
        folders = (log_dir.file(str(topic_partition)) for log_dir in self.dirs_of(topic_partition))
        return not any(map(os.path.isdir, folders))

    def add(self, topic_partition: TopicPartition, log: PartitionLog, log_dir: LogDir) -> None:
        """Note that a log is open, in this dir."""
        self._deleted_beside_offline_dirs.discard(topic_partition)
        self.by_partition[topic_partition] = log
        self._of_topic.add(topic_partition.topic, topic_partition, log)
        self.homes[topic_partition] = log_dir
        log_dir.logs[topic_partition] = log
        if log.has_holes:
            # A later start, which may find another cleanup.policy, has to know that offsets may be missing.
            log.allow_holes()

    def move(self, topic_partition: TopicPartition, log: PartitionLog, log_dir: LogDir) -> None:
        """Note that another log, in another dir, is open in the place of the one that was."""
        del self.homes[topic_partition].logs[topic_partition]
        self.add(topic_partition, log, log_dir)

    def add_offline(self, topic_partition: TopicPartition, damage: CorruptLog, log_dir: LogDir) -> None:
        """Count a log that is damaged as one of this dir; it is neither read nor written until it is made anew."""
        self.offline[topic_partition] = damage
        self.homes[topic_partition] = log_dir
        log_dir.offline.add(topic_partition)

    def forget_offline(self, topic_partition: TopicPartition) -> None:
        """The log is not offline any more; nothing where it was not."""
        if self.offline.pop(topic_partition, None) is not None:
            del self.homes[topic_partition]
            for log_dir in self._dirs:
                log_dir.offline.discard(topic_partition)

    def remove(self, topic_partition: TopicPartition, log_dirs: Sequence[LogDir]) -> PartitionLog | None:
        """No dir has the log any more. Returns it where it was open."""
        self.forget_offline(topic_partition)
        self.homes.pop(topic_partition, None)
        log = self.by_partition.pop(topic_partition, None)
        if log is not None:
            self._of_topic.remove(topic_partition.topic, topic_partition)
        if self._dirs.offline:
            self._deleted_beside_offline_dirs.add(topic_partition)
        for log_dir in log_dirs:
            log_dir.logs.pop(topic_partition, None)
        return log
