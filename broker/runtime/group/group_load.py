"""The groups of a partition of `__consumer_offsets` while its log is read, until each is brought to life.

Source: GroupMetadataManager.doLoadGroupsAndOffsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.core.coordination import OFFSETS_TOPIC
from broker.core.group.offsets import GroupOffsets
from broker.core.group.snapshot import GroupSnapshot
from broker.model.ids import Offset
from broker.runtime.group import records
from broker.runtime.group.last_commits import LastCommits
from broker.wire.coordinator_records.scan import Found

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadedGroup:
    """What the log has said of one group so far; its offsets are complete once all are settled."""

    offsets: GroupOffsets = field(default_factory=GroupOffsets)
    snapshot: GroupSnapshot | None = None


class GroupLoad:
    """Satisfies `last_commits.Known`. `groups` by group id."""

    def __init__(self, partition: int, producers: dict[int, set[str]]) -> None:
        """producers: is filled with the groups that have offsets in the open transaction of a producer id."""
        self._partition = partition
        self.groups: dict[str, LoadedGroup] = {}
        self._producers = producers
        self._commits = LastCommits(self)
        self._unreadable = 0

    def take(self, found: Iterable[Found]) -> None:
        """The next records of the log."""
        self._commits.take(found)

    def settle(self, units: int) -> int:
        """Give some offsets to their groups; how many, fewer than units once none is left. May be called again after
        more was taken.
        """
        return self._commits.settle(units)

    def report(self) -> None:
        """Log how much could not be read, where it was more than one record."""
        if self._unreadable > 1:
            logger.warning("%s-%d: %d records were passed over", OFFSETS_TOPIC, self._partition, self._unreadable)

    def offsets_of(self, group_id: str) -> GroupOffsets:
        """Of a group, which may be new."""
        return self._group(group_id).offsets

    def take_group(self, record: records.GroupRecord) -> None:
        """The newer record replaces the older one."""
        self._group(record.group_id).snapshot = record.snapshot

    def _group(self, group_id: str) -> LoadedGroup:
        found = self.groups.get(group_id)
        if found is None:
            found = self.groups[group_id] = LoadedGroup()
        return found

    def note_open(self, producer_id: int, group_id: str) -> None:
        """The producer's open transaction has offsets of this group."""
        self._producers.setdefault(producer_id, set()).add(group_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Its marker lies in the log."""
        for group_id in self._producers.pop(producer_id, ()):
            self.groups[group_id].offsets.end_transaction(producer_id, committed)

    def pass_over(self, position: Offset, why: records.Unreadable) -> None:
        """Written by another version or by hand: what this broker knows does not depend on it."""
        self._unreadable += 1
        if self._unreadable == 1:
            logger.warning(
                "%s-%d: record at offset %d is passed over: %s", OFFSETS_TOPIC, self._partition, position, why
            )
