"""Which log is cleaned next, and what is done with a cleaning's result. Runs on the loop's thread.

Every `log.cleaner.backoff.ms` the runner gets the dirtiest log that is dirty enough; a log whose last cleaning failed
waits until there is no other. Cleaned groups are swapped in one after the other as they arrive; the checkpoint moves
once all are in place. The cleaning of a log that is cut, deleted or closed meanwhile ends: records of its map may be
gone, and files that it read may have been replaced. A log that cannot be cleaned is logged and not tried again until it
is made anew. When a cleaning reports damage and `damage_proof` confirms it, `on_damage` is called as well: the replica
goes offline and is fetched anew from its leader.
Source: kafka LogCleaner, LogCleanerManager (grabFilthiestCompactedLog, doneCleaning, markPartitionUncleanable).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from broker.core.compaction import (
    LONG_MAX,
    CleanableRange,
    SegmentFacts,
    cleanable_range,
    compaction_delay_ms,
    dirtiness,
    is_worth_it,
)
from broker.log.cleaner.cleaner import CleanedGroup, CleaningJob
from broker.log.cleaner.damage_proof import find_damage, has_all
from broker.log.cleaner.ports import Replicas, Store
from broker.log.cleaner.process import CleaningEnd, Event, Runner, Stop
from broker.log.files.names import CLEANED_SUFFIX, remove_if_there
from broker.log.indexes.aborted_txn import AbortedTxn
from broker.log.log import PartitionLog
from broker.log.segments.segment import Segment
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed

_logger = logging.getLogger(__name__)

_Noted = TypeVar("_Noted")

# On a full disk nothing was lost, and there may be room when the next cleaning is due.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# Outcomes of a file that is missing or not as the job says: retention's work, or somebody else's.
_MET_FILES = ("stopped", "damaged")


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The broker's log.cleaner.* settings; sizes and the rate are for all cleanings together."""

    threads: int = 1
    dedupe_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 << 10
    bytes_per_second: float = float("inf")


class _Candidate(NamedTuple):
    log: PartitionLog
    found: CleanableRange
    aborted: Sequence[AbortedTxn]
    rank: tuple[int, float]
    """Fewest failures first, so that a log whose cleaning fails does not keep the others from theirs; then the
    dirtiest.
    """


class _Cleaning:
    """One cleaning under way."""

    __slots__ = (
        "cuts",
        "end",
        "first_dirty",
        "groups",
        "log",
        "segments",
        "sizes",
        "stop",
        "stopped",
        "swapping",
        "until",
    )

    def __init__(self, log: PartitionLog, segments: list[Segment], first_dirty: Offset, until: Offset) -> None:
        self.log = log
        self.cuts = log.cleaning.cuts
        self.until = until
        self.segments = {segment.base_offset: segment for segment in segments}
        """Segments of the job that have not been replaced yet."""
        self.sizes = {segment: segment.size for segment in segments}
        self.first_dirty = first_dirty
        self.groups: deque[CleanedGroup] = deque()
        self.swapping = False
        self.end: CleaningEnd | None = None
        self.stop: Stop = lambda: None
        self.stopped = False

    @property
    def void(self) -> bool:
        """Whether the log was cut or deleted since the cleaning began."""
        return self.log.cleaning.cuts != self.cuts


class LogCleaner:
    """All cleanings of a broker."""

    def __init__(
        self,
        store: Store,
        replicas: Replicas,
        runner: Runner,
        settings: CleanerSettings,
        wall_ms: Callable[[], float],
        on_damage: Callable[[CorruptLog], None] = lambda damage: None,
    ) -> None:
        """on_damage: called for each log whose bytes cannot be right; it is not cleaned again until it is made anew."""
        self.uncleanable: dict[TopicPartition, tuple[PartitionLog, str]] = {}
        """Logs that are not cleaned any more, and why."""
        self.runs = 0
        """Number of cleanings that succeeded."""
        self._store = store
        self._replicas = replicas
        self._runner = runner
        self.settings = settings
        self._wall_ms = wall_ms
        self._on_damage = on_damage
        self._running: dict[TopicPartition, _Cleaning] = {}
        self._failures: dict[TopicPartition, tuple[PartitionLog, int]] = {}
        """The log, and how many of its cleanings failed since the last success."""
        self._closed = False

    def check(self) -> None:
        """Start cleaning what is dirtiest, as many logs at once as there are threads."""
        if self._closed:
            return
        logs = self._store.logs()
        _forget_others(self.uncleanable, logs)
        _forget_others(self._failures, logs)
        for tp, cleaning in list(self._running.items()):
            if cleaning.void or logs.get(tp) is not cleaning.log:
                self._call_off(cleaning)
                cleaning.log.cleaning.abandon_swap()
            elif not cleaning.log.config.compacts:
                self._call_off(cleaning)
        while len(self._running) < self.settings.threads:
            chosen = self._dirtiest(logs)
            if chosen is None:
                return
            self._start(chosen)

    def close(self) -> None:
        """Start no more cleanings; those under way are stopped and their results dropped."""
        self._closed = True
        for cleaning in list(self._running.values()):
            self._call_off(cleaning)
            cleaning.log.cleaning.abandon_swap()

    # Choosing

    def _dirtiest(self, logs: Mapping[TopicPartition, PartitionLog]) -> _Candidate | None:
        best: _Candidate | None = None
        for tp, log in list(logs.items()):
            if not log.config.compacts or tp in self._running or tp in self.uncleanable:
                continue
            try:
                candidate = self._look_at(tp, log)
            except (OSError, LogDirFailed):
                # The next read or write in that dir meets the error and takes the dir offline.
                continue
            except CorruptLog as damage:
                self._found_damaged(log, damage)
                continue
            if candidate is not None and (best is None or candidate.rank > best.rank):
                best = candidate
        return best

    def _look_at(self, tp: TopicPartition, log: PartitionLog) -> _Candidate | None:
        stable = self._replicas.last_stable_offset(tp)
        if stable is None:
            return None
        log.committed.settle()
        config = log.config
        now_ms = self._wall_ms()
        last_clean = log.cleaning.cleaned_until
        bases = log.segment_base_offsets
        inactive = log.cleaning.inactive_segments(LONG_MAX)
        if log.recovery_point < min(stable, bases[-1]):
            # A newer value must be durable before an older one is removed, or a power failure takes both.
            log.flush_in_background()
            stable = min(stable, log.recovery_point)
        found = cleanable_range(bases, log.log_start_offset, log.staged_end_offset, last_clean, stable, None)
        dirty = [
            segment
            for place, segment in enumerate(inactive)
            if bases[place + 1] > found.first_dirty and segment.base_offset < found.first_uncleanable
        ]
        if config.min_compaction_lag_ms > 0:
            for segment in dirty:
                if segment.newest_timestamp > now_ms - config.min_compaction_lag_ms:
                    young = segment.base_offset
                    found = cleanable_range(
                        bases, log.log_start_offset, log.staged_end_offset, last_clean, stable, young
                    )
                    break
        if found.checkpoint_wrong:
            if last_clean is not None and last_clean > log.staged_end_offset:
                _logger.warning(
                    "%s: cleaned up to %d, but it ends at %d: all of it is dirty", tp, last_clean, log.staged_end_offset
                )
            log.cleaning.note_cleaned(found.first_dirty)
        facts = [SegmentFacts(segment.base_offset, segment.size) for segment in inactive]
        measure = dirtiness(facts, found)
        delay_ms = 0.0
        if config.max_compaction_lag_ms < LONG_MAX:
            firsts = [segment.first_timestamp for segment in dirty]
            delay_ms = compaction_delay_ms(
                min((first for first in firsts if first > 0), default=None), now_ms, config.max_compaction_lag_ms
            )
        if not is_worth_it(measure, config.min_cleanable_dirty_ratio, delay_ms):
            return None
        _, failures = self._failures.get(tp, (log, 0))
        across = log.committed.aborted_across(found.first_uncleanable)
        return _Candidate(log, found, across, (-failures, measure.ratio))

    # One cleaning

    def _start(self, chosen: _Candidate) -> None:
        log, found = chosen.log, chosen.found
        tp, config, settings = log.topic_partition, log.config, self.settings
        segments = log.cleaning.inactive_segments(found.first_uncleanable)
        job = CleaningJob(
            directory=log.path,
            bases=[segment.base_offset for segment in segments],
            sizes=[segment.size for segment in segments],
            first_dirty=found.first_dirty,
            first_uncleanable=found.first_uncleanable,
            now_ms=int(self._wall_ms()),
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            index_bytes_max=config.index_bytes,
            interval_bytes=config.index_interval_bytes,
            dedupe_bytes=settings.dedupe_bytes // settings.threads,
            load_factor=settings.load_factor,
            io_buffer_bytes=settings.io_buffer_bytes // settings.threads // 2,
            bytes_per_second=settings.bytes_per_second / settings.threads,
            producers=dict(self._replicas.active_producers(tp)),
            epochs=dict(self._replicas.marked_producers(tp)),
            aborted=tuple(chosen.aborted),
        )
        cleaning = self._running[tp] = _Cleaning(log, segments, found.first_dirty, found.first_uncleanable)
        _logger.info("%s: cleaning of [%d, %d) begins", tp, found.first_dirty, found.first_uncleanable)
        cleaning.stop = self._runner.start(job, lambda event: self._on_event(cleaning, event))

    def _on_event(self, cleaning: _Cleaning, event: Event) -> None:
        if isinstance(event, CleanedGroup):
            cleaning.groups.append(event)
        else:
            cleaning.end = event
        self._go_on(cleaning)

    def _go_on(self, cleaning: _Cleaning) -> None:
        """Swap the next group in, or end."""
        if cleaning.void or not cleaning.log.config.compacts:
            # Who removes `compact` from the policy wants to keep the records that are still there (KAFKA-12840).
            self._call_off(cleaning)
        while cleaning.groups and not cleaning.swapping and not cleaning.stopped:
            group = cleaning.groups.popleft()
            cleaning.swapping = True
            damage: CorruptLog | None = None
            try:
                old = [cleaning.segments[base] for base in group.bases]
                cleaning.log.cleaning.supersedes_from(cleaning.until)
                begun = cleaning.log.cleaning.swap_in(old, partial(self._on_swapped, cleaning, group))
            except CorruptLog as error:
                damage, begun = error, False
            except LogDirFailed as error:
                _logger.error("%s: cleaned segments cannot be put in place: %s", cleaning.log.topic_partition, error)
                begun = False
            if not begun:
                cleaning.swapping = False
                self._call_off(cleaning)
            if damage is not None:
                self._found_damaged(cleaning.log, damage)
        if cleaning.end is not None and not cleaning.swapping and (cleaning.stopped or not cleaning.groups):
            self._finish(cleaning, cleaning.end)

    def _on_swapped(self, cleaning: _Cleaning, group: CleanedGroup, swapped: bool) -> None:
        cleaning.swapping = False
        if swapped:
            for base in group.bases:
                del cleaning.sizes[cleaning.segments.pop(base)]
        else:
            self._call_off(cleaning)
        self._go_on(cleaning)

    def _call_off(self, cleaning: _Cleaning) -> None:
        if not cleaning.stopped:
            cleaning.stopped = True
            cleaning.stop()

    def _finish(self, cleaning: _Cleaning, end: CleaningEnd) -> None:
        log = cleaning.log
        tp = log.topic_partition
        if self._running.get(tp) is not cleaning:
            return
        del self._running[tp]
        if self._closed:
            return
        if self._store.logs().get(tp) is not log:
            # The cleaning may have written into the folder of a log that was made anew under that name.
            _discard_leftovers(log.path)
            return
        if end.outcome == "done" and not cleaning.stopped and end.stats is not None:
            stats = end.stats
            self.runs += 1
            self._failures.pop(tp, None)
            log.cleaning.note_cleaned(stats.end)
            _logger.info(
                "%s: cleaned up to %d: %d keys%s, %d of %d records stay, %d of %d bytes",
                tp, stats.end, stats.keys, " (map full, the rest comes next)" if stats.map_full else "",
                stats.records_kept, stats.records_read, stats.bytes_written, stats.bytes_read,
            )  # fmt: skip
            if stats.keyless:
                _logger.warning("%s: %d records without a key were removed", tp, stats.keyless)
            if stats.end > cleaning.first_dirty:
                # There may be more to do; Kafka pauses only when there is nothing.
                self.check()
            return
        _discard_leftovers(log.path)
        if end.outcome == "failed" and end.errno not in _NO_ROOM:
            log.cleaning.report_io_error(OSError(end.errno, end.detail))
        elif cleaning.stopped:
            _logger.info("%s: cleaning called off %s", tp, end.detail)
        elif end.outcome == "uncleanable":
            self._give_up(tp, log, end.detail)
        elif end.outcome in _MET_FILES:
            self._look_again(cleaning, end)
        else:
            self._try_again(log, end)

    def _look_again(self, cleaning: _Cleaning, end: CleaningEnd) -> None:
        """A cleaning found a file damaged or missing in a log that was not cut: check whether that is damage."""
        log = cleaning.log
        damage = find_damage(log, cleaning.sizes, cleaning.segments.get(end.base), end.position)
        if damage is not None:
            self._found_damaged(log, damage)
        elif has_all(log, cleaning.sizes):
            self._try_again(log, end)
        else:
            _logger.info("%s: retention was faster than its cleaning: %s", log.topic_partition, end.detail)

    def _try_again(self, log: PartitionLog, end: CleaningEnd) -> None:
        tp = log.topic_partition
        self._failures[tp] = (log, self._failures.get(tp, (log, 0))[1] + 1)
        _logger.error("%s: cleaning failed and will be tried again: %s", tp, end.detail)

    def _found_damaged(self, log: PartitionLog, damage: CorruptLog) -> None:
        self._give_up(log.topic_partition, log, str(damage))
        self._on_damage(damage)

    def _give_up(self, tp: TopicPartition, log: PartitionLog, reason: str) -> None:
        _logger.error("%s is not cleaned any more: %s", tp, reason)
        self.uncleanable[tp] = (log, reason)


def _forget_others(
    noted: dict[TopicPartition, tuple[PartitionLog, _Noted]], logs: Mapping[TopicPartition, PartitionLog]
) -> None:
    """Drop the entries of logs that are gone or were made anew."""
    for tp, (log, _) in list(noted.items()):
        if logs.get(tp) is not log:
            del noted[tp]


def _discard_leftovers(path: str) -> None:
    """Remove what an unsuccessful cleaning wrote. No other one works in this folder, unless the dir has failed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            if name.endswith(CLEANED_SUFFIX):
                remove_if_there(f"{path}/{name}")
