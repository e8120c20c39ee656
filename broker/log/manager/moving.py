"""Moves of logs between the log dirs: a copy is made in another dir, and takes the place of the log it was made of.

How far a move came is in the names, which are Kafka's; each step is on disk before the next one begins:
1. `<topic>-<partition>.<32 hex>-future` in the target dir is filled. A start goes on with it.
2. The copy is flushed and has its lines in the checkpoints of its dir; then the mark `moved-to` in the other folder
   names it (`broker.log.files.moved_mark`).
3. The copy's folder gets the partition's name, in the same moment in which appends and reads go to it: what was
   acknowledged before is in both, what comes after in the copy alone. A start that finds the partition in both dirs
   takes the one without the mark.
4. Once that name is on disk for good the outdated folder is renamed to `….<32 hex>-delete`.
No flush counts for the new log before its folder's name is durable, and it begins with the recovery point of the old.
Source: kafka LogManager (futureLogs, replaceCurrentWithFutureLog); KIP-113.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from broker.log.copying import CopyFailed, LogCopy, take_place
from broker.log.environment import Environment
from broker.log.files import moved_mark
from broker.log.files.checkpoints import fsync_dir
from broker.log.files.log_dir import LogDir
from broker.log.files.names import future_dir_name
from broker.log.log import PartitionLog
from broker.log.manager import copy_files
from broker.log.manager.creation import LogCreation
from broker.log.manager.deletion import LogDeletion
from broker.log.manager.log_dirs import LogDirs, guard
from broker.log.manager.open_logs import OpenLogs
from broker.log.manager.topic_settings import TopicSettings
from broker.log.manager.unclean_logs import UncleanLogs
from broker.log.recovery.loader import load
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed

_logger = logging.getLogger(__name__)

Opened = Callable[[], PartitionLog]


_NOT_NOW = -1


class _Prepared(NamedTuple):
    """What was true of the log when the folder of its copy was made ready to take its place."""

    log_start: Offset
    unclean: str
    has_holes: bool


class _Move:
    """One move under way. folder: the copy's."""

    __slots__ = ("copy", "folder", "log_dir", "marked", "prepared")

    def __init__(self, copy: LogCopy, log_dir: LogDir, folder: str) -> None:
        self.copy = copy
        self.log_dir = log_dir
        self.folder = folder
        self.marked = False
        """The mark `moved-to` may be in the other folder."""
        self.prepared: _Prepared | None = None


class LogMoving:
    """All moves. Loop thread."""

    def __init__(
        self,
        dirs: LogDirs,
        logs: OpenLogs,
        unclean: UncleanLogs,
        settings: TopicSettings,
        creation: LogCreation,
        deletion: LogDeletion,
        environment: Environment,
    ) -> None:
        self.targets: dict[TopicPartition, str] = {}
        """The dir into which each log is being moved."""
        self._dirs = dirs
        self._logs = logs
        self._unclean = unclean
        self._settings = settings
        self._creation = creation
        self._deletion = deletion
        self._environment = environment
        self._moves: dict[TopicPartition, _Move] = {}
        self._retiring: dict[TopicPartition, tuple[PartitionLog, LogDir]] = {}
        """Logs whose copy has their place, until the name of its folder is on disk."""

    def home(self, topic_partition: TopicPartition) -> str | None:
        """The dir that the partition's log is in, None where there is no such log."""
        log_dir = self._logs.homes.get(topic_partition)
        return None if log_dir is None else log_dir.path

    def is_moving(self, topic_partition: TopicPartition) -> bool:
        """Whether the log is being copied: it must not be cleaned."""
        return topic_partition in self._moves

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Make the log, once this broker is to have it, in the dir with this path."""
        self._creation.prefer(topic_partition, path)

    # One move, from its beginning

    def begin(self, topic_partition: TopicPartition, path: str) -> None:
        """Make an empty copy in the dir with this path, where there is none yet.

        Not while a dir is offline: a copy of this log may be in there. Raises LogDirFailed.
        """
        tp, current = topic_partition, self._logs.by_partition[topic_partition]
        for log_dir in self._dirs:
            log_dir.check()
        log_dir = next(one for one in self._dirs if one.path == path)
        assert tp not in self._moves
        assert log_dir is not self._logs.homes[tp]
        log_dir.forget_checkpoints(tp)
        # A cleaning of what is copied would have to be done to the copy as well.
        current.cleaning.hold_off()
        folder = log_dir.file(future_dir_name(tp))
        start, holes = current.log_start_offset, current.has_holes
        try:
            future = self._creation.make_files(tp, current.topic_id, log_dir, folder, log_start=start, has_holes=holes)
        except OSError as error:
            raise log_dir.fail(error) from error
        future.restore_producers()
        self._take_up(tp, _Move(LogCopy(current, future), log_dir, folder))
        # Makes the names durable.
        future.flush_in_background()
        _logger.info("%s: moving from %s to %s", tp, self._logs.homes[tp].path, path)

    def _take_up(self, tp: TopicPartition, move: _Move) -> None:
        self._moves[tp] = move
        self.targets[tp] = move.log_dir.path
        move.log_dir.futures[tp] = move.copy.future
        move.log_dir.note_end(tp, move.copy.future.log_end_offset)
        move.copy.current.parts[0].on_cut = partial(self._on_cut, tp)

    def _on_cut(self, tp: TopicPartition) -> None:
        try:
            self._moves[tp].copy.follow_cut()
        except CopyFailed as failure:
            self._fail(tp, failure)

    def copy(self, topic_partition: TopicPartition, max_bytes: int) -> int | None:
        """Copy the next slice: its bytes, 0 where all is copied, −1 while the copy's disk has to catch up, None where
        the move has failed. Raises LogDirFailed, CorruptLog, NoDescriptorFree of the log that is copied.
        """
        copy = self._moves[topic_partition].copy
        try:
            return _NOT_NOW if copy.waits_for_disk() else copy.take(max_bytes)
        except CopyFailed as failure:
            self._fail(topic_partition, failure)
            return None

    def prepare(self, topic_partition: TopicPartition, high_watermark: Offset, then: Callable[[], None]) -> None:
        """Make the copy durable, and ready to take the log's place; then call `then`, unless the move ends before."""
        tp, move = topic_partition, self._moves[topic_partition]
        move.prepared = None

        def flushed() -> None:
            if self._moves.get(tp) is move:
                self._write_beside(tp, move, high_watermark, then)

        try:
            move.copy.future.commit(flushed)
        except (LogDirFailed, CorruptLog) as failure:
            self._fail(tp, failure)

    def _write_beside(self, tp: TopicPartition, move: _Move, high_watermark: Offset, then: Callable[[], None]) -> None:
        """What a start needs beside the copy's records; last of all the mark that it may take over."""
        target, home = move.log_dir, self._logs.homes[tp]
        move.copy.raise_start()
        # That of the copy, for it is what is written.
        wanted = self._wanted(tp)._replace(log_start=move.copy.future.log_start_offset)
        if wanted.has_holes:
            target.cleaner_offsets.put(tp, home.cleaner_offsets.get(tp) or 0)

        def run(jobs: list[Callable[[], None]], log_dir: LogDir, after: Callable[[], None]) -> None:
            def job() -> None:
                for one in jobs:
                    one()

            def done(error: OSError | None) -> None:
                if self._moves.get(tp) is not move:
                    return
                if error is not None:
                    log_dir.fail(error)
                else:
                    after()

            self._environment.background(job, done)

        def mark() -> None:
            move.marked = True
            run([partial(moved_mark.leave, home.file(str(tp)), move.folder)], home, prepared)

        def prepared() -> None:
            move.prepared = wanted
            then()

        run(copy_files.jobs(tp, target, move.folder, high_watermark, wanted.unclean), target, mark)

    def _wanted(self, tp: TopicPartition) -> _Prepared:
        current = self._moves[tp].copy.current
        return _Prepared(current.log_start_offset, self._unclean.reasons.get(tp, ""), current.has_holes)

    def replace(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Put the copy in the place of the log, of which nothing is staged: the partition's log from now on.

        None where it lacks something, or is not (any more) prepared, and where the move has failed.
        """
        tp, move = topic_partition, self._moves[topic_partition]
        copy, target, home = move.copy, move.log_dir, self._logs.homes[tp]
        if not copy.caught_up or copy.future.recovery_point < copy.current.recovery_point:
            return None
        if move.prepared != self._wanted(tp) or tp in self._retiring or home.failed is not None:
            return None
        try:
            new = self._rename_and_open(tp, move)
        except (CopyFailed, LogDirFailed) as failure:
            self._fail(tp, failure)
            return None
        old = copy.current
        take_place(new, old)
        self._let_go(tp)
        self._logs.move(tp, new, target)
        home.forget_end(tp)
        target.note_end(tp, new.log_end_offset)
        old.durability.discard()
        old.cleaning.call_off()
        self._retiring[tp] = (old, home)

        def renamed(error: OSError | None) -> None:
            if error is not None:
                target.fail(error)
            elif self._retiring.get(tp) == (old, home):
                self._retire(tp)

        self._environment.background(partial(fsync_dir, target.path), renamed)
        _logger.info("%s: moved from %s to %s", tp, home.path, target.path)
        return new

    def _rename_and_open(self, tp: TopicPartition, move: _Move) -> PartitionLog:
        """Raises CopyFailed, LogDirFailed, with the copy's folder under its former name."""
        copy, target, path = move.copy, move.log_dir, move.log_dir.file(str(tp))
        copy.settle()
        target.check()
        if os.path.exists(path):
            raise CopyFailed(f"{path} is there already")
        start, point = copy.future.log_start_offset, copy.future.recovery_point
        copy.future.durability.discard()
        copy.future.close(clean=False)
        target.run(partial(os.rename, move.folder, path))
        try:
            new, _ = load(
                tp, target, path, self._settings.of(tp.topic), self._environment,
                clean=True, recovery_point=point, log_start=start, has_holes=copy.current.has_holes,
            )  # fmt: skip
            if (new.log_start_offset, new.log_end_offset) == (start, copy.current.log_end_offset):
                return new
            new.close(clean=False)
            failure: Exception = CopyFailed(f"{path} is opened as [{new.log_start_offset}, {new.log_end_offset})")
        except (OSError, CorruptLog) as error:
            failure = error
        target.run(partial(os.rename, path, move.folder))
        raise CopyFailed(str(failure)) from failure

    def _retire(self, tp: TopicPartition) -> None:
        """The outdated log goes. A dir that fails keeps its folder, and the mark in it."""
        log, log_dir = self._retiring.pop(tp)
        try:
            self._deletion.discard(tp, log_dir, str(tp), log)
        except LogDirFailed as failure:
            log.close(clean=False)
            _logger.warning("%s: the outdated log stays: %s", tp, failure)

    # Its end

    def cancel(self, topic_partition: TopicPartition) -> None:
        """Give the move up and delete the copy; nothing where there is no move. Raises LogDirFailed of either dir."""
        if topic_partition in self._moves:
            move = self._let_go(topic_partition)
            self._unmark(topic_partition, move)
            move.copy.future.durability.discard()
            name = os.path.basename(move.folder)
            try:
                self._deletion.discard(topic_partition, move.log_dir, name, move.copy.future)
            except LogDirFailed:
                move.copy.future.close(clean=False)
                raise

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is deleted, and its copies with it. Raises LogDirFailed."""
        self.cancel(topic_partition)
        if topic_partition in self._retiring:
            self._retire(topic_partition)

    def on_dir_failed(self, path: str) -> None:
        """Moves from this dir or into it are over; the copies stay where they are, and a start goes on with them."""
        for tp, move in list(self._moves.items()):
            if path in (move.log_dir.path, self._logs.homes[tp].path):
                _logger.warning("%s: its move to %s is over, as %s has failed", tp, move.log_dir.path, path)
                self._drop(tp)

    def _fail(self, tp: TopicPartition, failure: Exception) -> None:
        move = self._moves[tp]
        _logger.error("%s: its move to %s is given up: %s", tp, move.log_dir.path, failure)
        if move.log_dir.failed is None:
            with contextlib.suppress(LogDirFailed):
                self.cancel(tp)
        else:
            self._drop(tp)

    def _drop(self, tp: TopicPartition) -> None:
        move = self._let_go(tp)
        move.copy.future.close(clean=False)
        guard(self._logs.homes[tp], partial(self._unmark, tp, move))

    def _let_go(self, tp: TopicPartition) -> _Move:
        move = self._moves.pop(tp)
        del self.targets[tp]
        del move.log_dir.futures[tp]
        move.log_dir.forget_end(tp)
        move.copy.current.parts[0].on_cut = None
        return move

    def _unmark(self, tp: TopicPartition, move: _Move) -> None:
        if move.marked:
            home = self._logs.homes[tp]
            remove = partial(moved_mark.remove, home.file(str(tp)))
            home.run(remove)

            def done(error: OSError | None) -> None:
                if error is not None and not isinstance(error, FileNotFoundError):
                    home.fail(error)

            # Again behind what is to be done in the background: the mark may be yet to be left.
            self._environment.background(remove, done)

    # Starts and stops

    def resume(self, tp: TopicPartition, log_dir: LogDir, name: str, opened: Opened) -> bool:
        """A start found a copy: go on with its move; False where there is none to go on with.

        opened: opens it; raises CorruptLog, OSError. A copy of a log that is not open is left alone: it may be all that
        is left of it. Raises OSError, LogDirFailed.
        """
        current = self._logs.get(tp)
        if current is None:
            _logger.warning("%s: %s is left alone, for the log that it was made of is not open", tp, log_dir.file(name))
            return False
        try:
            if self._logs.homes[tp] is log_dir or tp in self._moves:
                raise CopyFailed("it is not wanted")
            future = opened()
            if future.topic_id != current.topic_id:
                if future.topic_id:
                    raise CopyFailed(f"its topic id is {future.topic_id}")
                future.set_topic_id(current.topic_id)
            future.restore_producers()
            copy = LogCopy(current, future)
            copy.agree()
        except (CorruptLog, CopyFailed) as failure:
            _logger.warning("%s: %s is deleted: %s", tp, log_dir.file(name), failure)
            self._deletion.discard(tp, log_dir, name, None)
            return False
        self._take_up(tp, _Move(copy, log_dir, log_dir.file(name)))
        return True

    def close(self, log_dir: LogDir, clean: bool) -> None:
        """Close what is open in this dir; a start goes on with the moves. Raises LogDirFailed."""
        for tp, (log, home) in self._retiring.items():
            if home is log_dir:
                _logger.info("%s: the next start deletes the outdated log in %s", tp, home.path)
                log.close(clean=False)
        for move in list(self._moves.values()):
            if move.log_dir is not log_dir:
                continue
            future = move.copy.future
            try:
                if clean:
                    future.snapshot_producers()
                future.close(clean)
            except CorruptLog as damage:
                _logger.error("not closed clean: %s", damage)
                future.close(clean=False)
                # The dir's mark of a clean stop would vouch for it.
                self._deletion.discard(damage.topic_partition, log_dir, os.path.basename(move.folder), None)
