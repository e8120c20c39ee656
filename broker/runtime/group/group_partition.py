"""The groups of one partition of `__consumer_offsets`, loaded from its log while this broker leads it.

Source: GroupMetadataManager.doLoadGroupsAndOffsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

from broker.core.group.group import Group
from broker.core.group.offsets import GroupOffsets
from broker.core.group.snapshot import GroupSnapshot
from broker.runtime.coordinators.slices import UNITS_PER_TURN, in_slices
from broker.runtime.group.group_load import GroupLoad
from broker.runtime.group.hosted_group import HostedGroup, Surroundings
from broker.wire.coordinator_records.scan import Found
from broker.wire.errors import ErrorCode

RemoveTopics = Callable[["GroupPartition", Collection[str]], None]
"""remove(partition, topics): the offsets that its groups have in these topics."""
MakeGroup = Callable[[str, GroupSnapshot | None], Group]
"""make(group id, what the log has of it): None for a group without members so far."""


def _emptied(groups: dict[str, HostedGroup]) -> Iterator[HostedGroup]:
    """Each group, which nobody keeps from then on: to free all at once takes time, too."""
    while groups:
        yield groups.popitem()[1]


class GroupPartition:
    """Satisfies `coordinators.partitions.PartitionState`. `groups` by group id, complete once it is loaded."""

    def __init__(
        self, partition: int, make_group: MakeGroup, around: Surroundings, remove_topics: RemoveTopics
    ) -> None:
        """around: of this partition's groups alone."""
        self.partition = partition
        self.groups: dict[str, HostedGroup] = {}
        self.deleted_topics: set[str] = set()
        """Deleted while the partition is loaded, to which their offsets come all the same."""
        self.being_cleared: Counter[str] = Counter()
        """How many deletions of a topic are not done with here."""
        self._remove_topics = remove_topics
        self._make_group = make_group
        self._around = around
        self._producers: dict[int, set[str]] = {}
        """Groups with offsets in the open transaction of a producer id."""
        self._load = GroupLoad(partition, self._producers)
        self._unborn: Iterator[str] | None = None
        """Ids in `_load` that nobody has looked at since the last records."""

    # -- loading -----------------------------------------------------------------------------------------------------

    def take(self, found: Iterable[Found]) -> None:
        """The next records of the partition's log."""
        self._unborn = None
        self._load.take(found)

    def bring_up(self) -> bool:
        """Bring some of what the log has to life. A group's offsets are the same before and after."""
        left = UNITS_PER_TURN - self._load.settle(UNITS_PER_TURN)
        if left <= 0:
            return False
        loaded = self._load.groups
        if self._unborn is None:
            self._unborn = iter([group_id for group_id in loaded if group_id not in self.groups])
        some = list(islice(self._unborn, left))
        for group_id in some:
            found = loaded[group_id]
            if found.snapshot is not None or not found.offsets.empty:
                group = self._make_group(group_id, found.snapshot)
                self.groups[group_id] = HostedGroup(group, found.offsets, self.partition, self._around)
        return len(some) < left

    def loaded(self) -> None:
        """All groups are there."""
        self._load.report()
        self._load = GroupLoad(self.partition, self._producers)
        self._unborn = None
        if self.deleted_topics:
            self._remove_topics(self, self.deleted_topics)

    def unload(self) -> None:
        """Let all groups go: at once as far as anybody can tell, one after another those who wait for them."""
        self._around.over = True
        groups, self.groups = self.groups, {}

        def unload(hosted: HostedGroup) -> int:
            hosted.unload(ErrorCode.NOT_COORDINATOR)
            return 1

        in_slices(self._around.loop, _emptied(groups), unload, lambda: None)

    # -- groups --------------------------------------------------------------------------------------------------------

    def make(self, group_id: str) -> HostedGroup:
        """A group without members."""
        made = HostedGroup(self._make_group(group_id, None), GroupOffsets(), self.partition, self._around)
        self.groups[group_id] = made
        return made

    def forget(self, hosted: HostedGroup) -> None:
        """A group that is gone: a later request of that name makes another."""
        if self.groups.get(hosted.group_id) is hosted:
            del self.groups[hosted.group_id]
        hosted.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def note_transaction(self, producer_id: int, hosted: HostedGroup) -> None:
        """The producer's open transaction has offsets of this group."""
        self._producers.setdefault(producer_id, set()).add(hosted.group_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """A marker for the producer's transaction is committed in this partition."""
        for group_id in self._producers.pop(producer_id, ()):
            hosted = self.groups.get(group_id)
            if hosted is not None:
                hosted.offsets.end_transaction(producer_id, committed)
