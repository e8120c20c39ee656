"""The groups that this broker coordinates: found by id, ended with their transactions, expired.

Loop thread. Source: kafka.coordinator.group.GroupCoordinator, GroupMetadataManager.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker.core.coordination import OFFSETS_TOPIC, partition_of
from broker.core.group.group import Group
from broker.core.group.offsets import Partition
from broker.core.group.settings import GroupSettings, Sources
from broker.core.group.snapshot import GroupSnapshot
from broker.core.group.states import GroupState
from broker.runtime.coordinators.appends import CoordinatorAppends
from broker.runtime.coordinators.partitions import CoordinatorPartitions
from broker.runtime.coordinators.slices import in_slices
from broker.runtime.group.group_partition import GroupPartition
from broker.runtime.group.hosted_group import HostedGroup, Surroundings
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.ports import Loop
from broker.runtime.replicas.append import Appender
from broker.runtime.replicas.replicas import Replicas
from broker.wire.compression import Compression
from broker.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

_AGAIN_MS: Final = 1000.0
"""After tombstones for a deleted topic were not committed."""


@dataclass(frozen=True, slots=True)
class GroupCoordinatorSettings:
    """group: for the rules. offset_metadata_max: UTF-16 units of a commit's metadata. Times in ms."""

    group: GroupSettings
    offset_metadata_max: int
    commit_timeout_ms: int
    retention_ms: int
    retention_check_ms: int
    compression: Compression


class GroupCoordinator:
    """Composition root of the room. `partitions` follows the leaderships, `appends` writes."""

    def __init__(
        self,
        settings: GroupCoordinatorSettings,
        cache: MetadataCache,
        replicas: Replicas,
        appender: Appender,
        loop: Loop,
        new_member_suffix: Callable[[], str],
    ) -> None:
        """new_member_suffix: a text unlike any other, which ends a member id."""
        self.settings = settings
        self.cache = cache
        self.loop = loop
        self._wall_ms = appender.wall_ms
        self._serving_ms = replicas.serving_ms
        self._sources = Sources(new_member_suffix, appender.wall_ms)
        self.appends = CoordinatorAppends(
            OFFSETS_TOPIC, appender, replicas, loop, settings.commit_timeout_ms, settings.compression
        )
        self.partitions: CoordinatorPartitions[GroupPartition] = CoordinatorPartitions(
            OFFSETS_TOPIC,
            replicas,
            loop,
            lambda partition, epoch: GroupPartition(
                partition, self._make_group, Surroundings(loop, self.appends, replicas), self._remove_topics
            ),
        )

    def _make_group(self, group_id: str, snapshot: GroupSnapshot | None) -> Group:
        if snapshot is None:
            return Group(group_id, self.settings.group, self._sources)
        return Group.restore(snapshot, self._serving_ms(), self.settings.group, self._sources)

    def start(self) -> None:
        """Begin the periodic expiry."""
        self.loop.call_later(self.settings.retention_check_ms, self._check_expiry)

    # -- finding -------------------------------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        """Of `__consumer_offsets`; −1 while that does not exist."""
        count = self.cache.partition_count(OFFSETS_TOPIC)
        return partition_of(group_id, count) if count else -1

    def home(self, group_id: str) -> GroupPartition | ErrorCode:
        """The group's partition, or why requests about the group cannot be served here now."""
        return self.partitions.find(self.partition_of(group_id))

    def find(self, group_id: str) -> HostedGroup | ErrorCode | None:
        """None where the group is unknown to its coordinator, which this broker is; or why it cannot be served."""
        home = self.home(group_id)
        if isinstance(home, ErrorCode):
            return home
        hosted = home.groups.get(group_id)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if hosted is not None and hosted.being_deleted else hosted

    def find_or_make(self, group_id: str) -> HostedGroup | ErrorCode:
        """As `find`; a group that is unknown begins, without members."""
        found = self.find(group_id)
        if found is None:
            home = self.home(group_id)
            return home if isinstance(home, ErrorCode) else home.make(group_id)
        return found

    def all_groups(self) -> Iterator[HostedGroup]:
        """Every group that is coordinated here and loaded."""
        for _, partition in self.partitions.ready():
            yield from list(partition.groups.values())

    def note_transaction(self, producer_id: int, hosted: HostedGroup) -> None:
        """The producer's open transaction commits offsets of this group."""
        found = self.partitions.loaded(hosted.partition)
        if found is not None:
            found.note_transaction(producer_id, hosted)

    # -- what ends -----------------------------------------------------------------------------------------------------

    def end_transaction(self, partition: int, producer_id: int, committed: bool) -> None:
        """A marker for the producer's transaction is committed in this partition of `__consumer_offsets`."""
        found = self.partitions.loaded(partition)
        if found is not None:
            found.end_transaction(producer_id, committed)

    def topic_deleted(self, topic: str) -> None:
        """Offsets in a topic that is no more would be taken for those of a later topic of that name."""
        for partition in self.partitions.unfinished():
            partition.deleted_topics.add(topic)
        for _, partition in self.partitions.ready():
            self._remove_topics(partition, {topic})

    def _remove_topics(self, home: GroupPartition, topics: Collection[str]) -> None:
        """Until all tombstones are committed nobody is given these offsets, and commits of a later topic wait."""
        being_cleared = Counter(topics)
        home.being_cleared += being_cleared

        def cleared() -> None:
            home.being_cleared -= being_cleared

        self._clear(list(home.groups.values()), topics, cleared)

    def _clear(self, groups: list[HostedGroup], topics: Collection[str], done: Callable[[], None]) -> None:
        """A topic is deleted once: what is not removed now, with too few replicas in sync, nobody asks for again."""
        left: list[HostedGroup] = []
        missing = 1  # that all groups were looked at

        def one_less() -> None:
            nonlocal missing
            missing -= 1
            if not missing and left:
                self.loop.call_later(_AGAIN_MS, lambda: self._clear(left, topics, done))
            elif not missing:
                done()

        def clear(hosted: HostedGroup) -> int:
            nonlocal missing
            if hosted.unloaded:
                return 1
            gone = [partition for partition in hosted.offsets.recorded if partition[0] in topics]
            if gone:
                missing += 1
                self.remove(hosted, gone, partial(removed, hosted))
            return 1 + len(gone)

        def removed(hosted: HostedGroup, error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and not hosted.unloaded:
                left.append(hosted)
            one_less()

        in_slices(self.loop, iter(groups), clear, one_less)

    def being_cleared(self, group_id: str) -> Collection[str]:
        """Topics that are gone, and whose offsets are being removed where this group's are kept."""
        home = self.partitions.loaded(self.partition_of(group_id))
        return () if home is None else home.being_cleared

    def delete_group(self, hosted: HostedGroup, done: Callable[[ErrorCode], None]) -> None:
        """Remove an empty group with all its offsets; `done` gets NONE once that is committed.

        Until then nobody may use the group. With an error it stays, without offsets whose tombstones are in the log.
        """
        hosted.being_deleted = True
        partitions = hosted.offsets.recorded

        def removed(error: ErrorCode) -> None:
            hosted.being_deleted = False
            if error is ErrorCode.NONE:
                self.forget(hosted)
            done(error)

        hosted.remove_offsets(partitions, and_group=hosted.group.generation > 0, done=removed)

    def remove(self, hosted: HostedGroup, partitions: Iterable[Partition], done: Callable[[ErrorCode], None]) -> None:
        """Remove offsets, and the group where it has no members and keeps nothing then."""

        def removed(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                logger.warning("group %r: offsets are not removed: %s", hosted.group_id, error.name)
            elif hosted.removable and not hosted.unloaded and not hosted.being_deleted:
                self.delete_group(hosted, lambda error: None)
            done(error)

        hosted.remove_offsets(list(partitions), and_group=False, done=removed)

    def forget(self, hosted: HostedGroup) -> None:
        """Let go of a group of which the log has nothing."""
        found = self.partitions.loaded(hosted.partition)
        if found is not None:
            found.forget(hosted)

    def forget_if_new(self, hosted: HostedGroup) -> None:
        """Leave no trace of a group that a request made, where nothing came of the request, nor of any before it."""
        if hosted.removable and hosted.group.is_unused and not hosted.offsets.recorded:
            self.forget(hosted)

    # -- expiry --------------------------------------------------------------------------------------------------------

    def _check_expiry(self) -> None:
        self.loop.call_later(self.settings.retention_check_ms, self._check_expiry)
        now_ms = self._wall_ms()

        def expire(hosted: HostedGroup) -> int:
            if not hosted.unloaded and not hosted.being_deleted:
                self._expire(hosted, now_ms)
            return 1

        in_slices(self.loop, self.all_groups(), expire, lambda: None)

    def _expire(self, hosted: HostedGroup, now_ms: int) -> None:
        expired = self._expired(hosted, now_ms)
        if expired:
            logger.info("group %r: %d offsets have expired", hosted.group_id, len(expired))
            self.remove(hosted, expired, lambda error: None)
        elif hosted.removable:
            self.delete_group(hosted, lambda error: None)

    def _expired(self, hosted: HostedGroup, now_ms: int) -> list[Partition]:
        group, retention_ms = hosted.group, self.settings.retention_ms
        if group.protocol_type is None:
            return hosted.offsets.expired(now_ms, retention_ms)
        if group.is_empty:
            since_ms = group.current_state_timestamp
            return hosted.offsets.expired(now_ms, retention_ms, empty_since_ms=None if since_ms < 0 else since_ms)
        if group.state is GroupState.STABLE and group.is_consumer_group:
            topics = group.subscribed_topics
            if topics is not None:
                return hosted.offsets.expired(now_ms, retention_ms, kept_topics=topics)
        return []
