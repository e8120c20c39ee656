"""Replicas that move between the log dirs of this broker: which is copied next, how fast, and when it changes over.

One slice of one replica is copied in a turn, so that the loop is never held; a replica is copied to its end before the
next one, in the order of their names. Once all is copied the copy is made durable, off the loop; what was appended
meanwhile follows, and in one step on the loop the copy takes the log's place. Group commit leaves the old log alone
until then: what it vouches for has to be durable in the copy as well.
Source: kafka.server.ReplicaAlterLogDirsThread; kafka.cluster.Partition.maybeReplaceCurrentWithFutureReplica.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from broker.core.quotas.replication import RateWindow
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed, NoDescriptorFree
from broker.runtime.ports import Log, Loop
from broker.runtime.replicas.group_commit import GroupCommit
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas

_logger = logging.getLogger("broker.moves")

_SLICE_BYTES = 256 * 1024
_LAST_SLICES = 8
_THROTTLED_MS = 100.0
_IDLE_MS = 20.0
_DISK_MS = 5.0
_RETRY_MS = 1000.0


class LogMoves(Protocol):
    """The moves as the log store knows them."""

    @property
    def targets(self) -> Mapping[TopicPartition, str]:
        """Of each move under way the path of the dir into which it goes."""
        ...

    def home(self, topic_partition: TopicPartition) -> str | None:
        """The dir that the partition's log is in, None where there is no such log."""
        ...

    def begin(self, topic_partition: TopicPartition, path: str) -> None:
        """Begin a move of a log that is open and is not moving. Raises LogDirFailed."""
        ...

    def cancel(self, topic_partition: TopicPartition) -> None:
        """Give it up; nothing where there is none. Raises LogDirFailed."""
        ...

    def copy(self, topic_partition: TopicPartition, max_bytes: int) -> int | None:
        """Copy a slice: its bytes, 0 where nothing is left, −1 while the copy's disk has to catch up, None where the
        move is over for a failure of its own.

        Raises LogDirFailed, CorruptLog, NoDescriptorFree of the log that is copied.
        """
        ...

    def prepare(self, topic_partition: TopicPartition, high_watermark: Offset, then: Callable[[], None]) -> None:
        """Make the copy ready, off the loop, then call `then`; never where the move ends before."""
        ...

    def replace(self, topic_partition: TopicPartition) -> Log | None:
        """The copy, in the place of the log, nothing of which may be staged; None where it must be prepared (again)."""
        ...

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Make its log there, once it is to be made."""
        ...

    def on_dir_failed(self, path: str) -> None:
        """Moves from and to this dir are over."""
        ...


class ReplicaMoves:
    """Loop thread."""

    def __init__(
        self,
        moves: LogMoves,
        replicas: Replicas,
        group_commit: GroupCommit,
        loop: Loop,
        window: RateWindow,
        write: Callable[[Replica], None],
        on_damage: Callable[[CorruptLog], None],
    ) -> None:
        """window: of the bytes that are copied. write: puts a leader's staged appends in its file. on_damage: a log
        that is copied cannot be right.
        """
        self._moves = moves
        self._replicas = replicas
        self._group_commit = group_commit
        self._loop = loop
        self._window = window
        self._write = write
        self._on_damage = on_damage
        self._rate: int | None = None
        self._in_progress: TopicPartition | None = None
        self._preparing: dict[TopicPartition, Replica] = {}
        self._prepared_once: set[TopicPartition] = set()
        self._scheduled = False

    def set_rate(self, bytes_per_second: int | None) -> None:
        """None: as fast as the loop allows."""
        self._rate = bytes_per_second

    def start(self) -> None:
        """Go on with what the store found at its start, and with what begins later."""
        if self._moves.targets and not self._scheduled:
            self._next_in(0.0)

    def begin(self, topic_partition: TopicPartition, path: str) -> None:
        """Raises LogDirFailed."""
        self._moves.begin(topic_partition, path)
        self.start()

    def cancel(self, topic_partition: TopicPartition) -> None:
        """Raises LogDirFailed."""
        try:
            self._moves.cancel(topic_partition)
        finally:
            self._settle()

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Make its log there, once it is to be made."""
        self._moves.prefer(topic_partition, path)

    def home(self, topic_partition: TopicPartition) -> str | None:
        """The dir that the partition's log is in, None where there is no such log."""
        return self._moves.home(topic_partition)

    @property
    def targets(self) -> Mapping[TopicPartition, str]:
        """Of each move under way the path of the dir into which it goes."""
        return self._moves.targets

    def on_dir_failed(self, path: str) -> None:
        """Moves from and to this dir are over."""
        self._moves.on_dir_failed(path)
        self._settle()

    def _settle(self) -> None:
        """Moves that are over are not prepared any more."""
        self._prepared_once &= self._moves.targets.keys()
        for topic_partition in [one for one in self._preparing if one not in self._moves.targets]:
            self._prepared(topic_partition)

    def _next_in(self, delay_ms: float) -> None:
        self._scheduled = True
        if delay_ms:
            self._loop.call_later(delay_ms, self._step)
        else:
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._scheduled = False
        self._settle()
        if self._replicas.stopped or not self._moves.targets:
            return
        replica = self._choose()
        if replica is None:
            self._next_in(_IDLE_MS if self._preparing else _RETRY_MS)
        elif self._rate is not None and self._window.bytes_per_s(self._loop.now_ms()) > self._rate:
            self._next_in(_THROTTLED_MS)
        else:
            self._next_in(self._go_on(replica))

    def _choose(self) -> Replica | None:
        """The one that is in progress, else the first that can be copied."""
        if self._in_progress is not None and self._is_ready(self._in_progress):
            return self._replicas.by_partition[self._in_progress]
        self._in_progress = min(filter(self._is_ready, self._moves.targets), default=None)
        return None if self._in_progress is None else self._replicas.by_partition[self._in_progress]

    def _is_ready(self, topic_partition: TopicPartition) -> bool:
        replica = self._replicas.by_partition.get(topic_partition)
        moves = topic_partition in self._moves.targets and topic_partition not in self._preparing
        return moves and replica is not None and not replica.offline

    def _go_on(self, replica: Replica) -> float:
        """Copy a slice, or begin to change over; in how many ms to go on."""
        try:
            copied = self._copy(replica)
        except NoDescriptorFree as busy:
            _logger.warning("%s: cannot be copied yet: %s", replica.name, busy)
            return _RETRY_MS
        if copied == 0:
            self._prepare(replica)
        return _DISK_MS if copied is not None and copied < 0 else 0.0

    def _copy(self, replica: Replica) -> int | None:
        """Raises NoDescriptorFree."""
        topic_partition = replica.topic_partition
        try:
            copied = self._moves.copy(topic_partition, _SLICE_BYTES)
        except LogDirFailed as failure:
            self._replicas.take_offline(replica, failure)
            self.on_dir_failed(failure.log_dir)
            return None
        except CorruptLog as damage:
            _logger.error("%s: not moved: %s", replica.name, damage)
            self._cancel(topic_partition)
            self._on_damage(damage)
            return None
        if copied is not None and copied > 0:
            self._window.record(copied, self._loop.now_ms())
        return copied

    def _prepare(self, replica: Replica) -> None:
        topic_partition = replica.topic_partition
        self._preparing[topic_partition] = replica
        if topic_partition in self._prepared_once:
            # Its first flush may take long; what is left for the next one is little.
            self._group_commit.hold(replica)
        self._prepared_once.add(topic_partition)
        self._moves.prepare(topic_partition, replica.high_watermark, partial(self._change_over, replica))
        self._settle()

    def _prepared(self, topic_partition: TopicPartition) -> None:
        replica = self._preparing.pop(topic_partition, None)
        if replica is not None:
            self._group_commit.release(replica)

    def _change_over(self, replica: Replica) -> None:
        topic_partition = replica.topic_partition
        if topic_partition in self._preparing and not self._replicas.stopped:
            try:
                if self._replicas.by_partition.get(topic_partition) is replica and not replica.offline:
                    self._replace(replica)
            finally:
                self._prepared(topic_partition)

    def _replace(self, replica: Replica) -> None:
        """All in one step: nothing is appended, cut or read between the last slice and the change."""
        self._write(replica)
        if replica.offline or replica.log.dirty:
            return
        try:
            for _ in range(_LAST_SLICES):
                copied = self._copy(replica)
                if copied is None or copied < 0:
                    return
                if copied == 0:
                    break
            else:
                # Too much has come meanwhile: it is copied in the turns to come, and all of this repeated.
                return
        except NoDescriptorFree:
            return
        log = self._moves.replace(replica.topic_partition)
        if log is not None:
            replica.log = log
            self._group_commit.note(replica)

    def _cancel(self, topic_partition: TopicPartition) -> None:
        try:
            self._moves.cancel(topic_partition)
        except LogDirFailed as failure:
            _logger.error("%s: its copy stays: %s", topic_partition, failure)
