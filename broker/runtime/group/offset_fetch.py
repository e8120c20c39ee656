"""OffsetFetch: what groups have committed. Loop thread.

Served whatever state the group is in. Who asks for stable offsets (KIP-447) gets UNSTABLE_OFFSET_COMMIT where an open
transaction may yet commit another one, or a commit is being replicated: clients ask again.
Source: KafkaApis.handleOffsetFetchRequest, GroupMetadataManager.getOffsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.core.group.offsets import CommittedOffset, GroupOffsets
from broker.runtime.group.coordinator import GroupCoordinator
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_MANY_GROUPS_FROM: Final = 8
_ERROR_OF_ALL_FROM: Final = 2
_NOTHING: Final = CommittedOffset(-1, -1, "", 0)

_Wanted = Sequence[tuple[str, Sequence[int]]]
"""(topic, partitions)."""


class _Fetched(NamedTuple):
    """error: of the whole group. topics: (name, [(partition, offset, error)])."""

    error: ErrorCode
    topics: list[tuple[str, list[tuple[int, CommittedOffset, ErrorCode]]]]


class OffsetFetchHandler:
    """See the module."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, request: Request) -> None:
        """Respond with an offset for each partition, −1 where none is committed."""
        body = decode_or_refuse(request, OffsetFetchRequest)
        if body is None:
            return
        version = request.api_version
        if version >= _MANY_GROUPS_FROM:
            groups = []
            for group in body.groups:
                wanted = None if group.topics is None else [(t.name, t.partition_indexes) for t in group.topics]
                groups.append(_of_group(group.group_id, self._fetch(group.group_id, wanted, body.require_stable)))
            respond(request, OffsetFetchResponse(groups=groups).encode(version))
            return
        wanted = None if body.topics is None else [(topic.name, topic.partition_indexes) for topic in body.topics]
        fetched = self._fetch(body.group_id, wanted, body.require_stable)
        respond(request, _alone(fetched, wanted or (), version).encode(version))

    def _fetch(self, group_id: str, wanted: _Wanted | None, stable: bool) -> _Fetched:
        """wanted: None for all that is committed."""
        hosted = self._coordinator.find(group_id)
        if hosted is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            # Its deletion is under way. Here Java's consumers up to 3.8 fail with this error, and come again upon that.
            return _Fetched(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
        if isinstance(hosted, ErrorCode):
            return _Fetched(hosted, [])
        nothing = GroupOffsets()
        offsets = nothing if hosted is None else hosted.offsets
        gone = self._coordinator.being_cleared(group_id)
        if wanted is None:
            by_topic: dict[str, list[int]] = {}
            for (topic, partition), _ in sorted(offsets.items()):
                if topic not in gone:
                    by_topic.setdefault(topic, []).append(partition)
            wanted = list(by_topic.items())
        topics = []
        for topic, indexes in wanted:
            found = nothing if topic in gone else offsets
            topics.append((topic, [_one(found, topic, partition, stable) for partition in indexes]))
        return _Fetched(ErrorCode.NONE, topics)


def _one(offsets: GroupOffsets, topic: str, partition: int, stable: bool) -> tuple[int, CommittedOffset, ErrorCode]:
    if stable and offsets.is_unstable((topic, partition)):
        return partition, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
    return partition, offsets.get((topic, partition)) or _NOTHING, ErrorCode.NONE


def _of_group(group_id: str, fetched: _Fetched) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id,
        [
            OffsetFetchResponseTopics(
                name,
                [
                    OffsetFetchResponsePartitions(index, value.offset, value.leader_epoch, value.metadata, error)
                    for index, value, error in entries
                ],
            )
            for name, entries in fetched.topics
        ],
        fetched.error,
    )


def _alone(fetched: _Fetched, wanted: _Wanted, version: int) -> OffsetFetchResponse:
    """In versions without an error for all of it, each partition has it."""
    topics = fetched.topics
    if fetched.error is not ErrorCode.NONE and version < _ERROR_OF_ALL_FROM:
        topics = [(name, [(index, _NOTHING, fetched.error) for index in indexes]) for name, indexes in wanted]
    return OffsetFetchResponse(
        error_code=fetched.error,
        topics=[
            OffsetFetchResponseTopic(
                name,
                [
                    OffsetFetchResponsePartition(index, value.offset, value.leader_epoch, value.metadata, error)
                    for index, value, error in entries
                ],
            )
            for name, entries in topics
        ],
    )
