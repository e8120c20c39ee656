"""What lies where: the log dirs with their logs, and the space of their file systems.

Source: kafka.server.ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial

from broker.log.environment import Environment
from broker.log.log import PartitionLog
from broker.log.manager.log_dirs import LogDirs
from broker.log.manager.open_logs import OpenLogs
from broker.model.ids import TopicPartition
from broker.model.log_dir_info import DiskSpace, LogDirInfo, LogInDir
from broker.model.log_errors import CorruptLog

OnSpaces = Callable[[Mapping[str, DiskSpace]], None]


class LogDescribing:
    """Reads alone. Loop thread, but for the calls to the file systems."""

    def __init__(self, dirs: LogDirs, logs: OpenLogs, environment: Environment) -> None:
        self._dirs = dirs
        self._logs = logs
        self._environment = environment
        self._waiting: list[OnSpaces] = []

    def infos(self, wanted: Collection[TopicPartition] | None) -> list[LogDirInfo]:
        """Every dir, in the order of log.dirs, with those of its open logs that are wanted; None: all."""
        known = self._logs.by_partition
        chosen = known if wanted is None else [one for one in dict.fromkeys(wanted) if one in known]
        of_dir: dict[str, list[LogInDir]] = {log_dir.path: [] for log_dir in self._dirs}
        for log_dir in self._dirs.working:
            for topic_partition, copy in log_dir.futures.items():
                if isinstance(copy, PartitionLog) and (wanted is None or topic_partition in wanted):
                    of_dir[log_dir.path].append(LogInDir(topic_partition, _size(copy), copy.log_end_offset, True))
        for topic_partition in chosen:
            log = known[topic_partition]
            home = self._logs.homes[topic_partition]
            if home.failed is None:
                of_dir[home.path].append(LogInDir(topic_partition, _size(log), log.log_end_offset))
        return [
            LogDirInfo(log_dir.path, log_dir.failed is None, of_dir[log_dir.path] if log_dir.failed is None else ())
            for log_dir in self._dirs
        ]

    def spaces(self, then: OnSpaces) -> None:
        """Call `then` with the space of each dir that works, by its path; a dir that does not say it is left out.

        A file system may keep its caller waiting, so another thread asks; whoever comes meanwhile gets the same answer.
        """
        self._waiting.append(then)
        if len(self._waiting) > 1:
            return
        found: dict[str, DiskSpace] = {}
        paths = [log_dir.path for log_dir in self._dirs.working]
        self._environment.background(partial(_measure, paths, found), lambda _: self._done(found))

    def _done(self, found: Mapping[str, DiskSpace]) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(found)


def _size(log: PartitionLog) -> int:
    """Bytes of the log, 0 where they cannot be counted: whoever reads the log next finds out why."""
    try:
        return log.size_bytes
    except (OSError, CorruptLog):
        return 0


def _measure(paths: Collection[str], found: dict[str, DiskSpace]) -> None:
    for path in paths:
        try:
            said = os.statvfs(path)
        except OSError:
            continue
        found[path] = DiskSpace(said.f_blocks * said.f_frsize, said.f_bavail * said.f_frsize)
