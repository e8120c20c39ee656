"""The offsets that a group has committed, those of transactions that are still open, and when they expire. Pure.

An offset is in here from the moment at which its record is committed in the log of `__consumer_offsets`; before that
it is only noted as pending, so that nobody deletes what a commit under way is about to replace.
Source: kafka.coordinator.group.GroupMetadata (offsets, pendingOffsetCommits, pendingTransactionalOffsetCommits).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from broker.model.ids import Offset

Partition = tuple[str, int]
"""(topic, partition) that an offset is for."""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """One offset. commit_timestamp_ms, expire_timestamp_ms: ms since 1970; the latter where its commit said one.

    leader_epoch: of the last record read, −1 where the client did not say.
    """

    offset: Offset
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _At:
    """A committed offset and where its record lies in the log."""

    position: Offset
    value: CommittedOffset


@dataclass(slots=True)
class GroupOffsets:
    """Of one group. `position` is everywhere the offset of a commit's own record in the log of `__consumer_offsets`."""

    _committed: dict[Partition, _At] = field(default_factory=dict)
    _pending: Counter[Partition] = field(default_factory=Counter)
    """How many commits are under way."""
    _transactional: dict[int, dict[Partition, _At]] = field(default_factory=dict)
    """Commits of open transactions, by producer id."""
    _transactional_pending: dict[int, Counter[Partition]] = field(default_factory=dict)
    _in_doubt: set[Partition] = field(default_factory=set)
    """Commits and removals that failed, and whose records are in the log all the same, as the last ones there may be;
    another leader's log may be without them.
    """

    # -- what is there ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._committed)

    def get(self, partition: Partition) -> CommittedOffset | None:
        """What was committed last."""
        found = self._committed.get(partition)
        return None if found is None else found.value

    def items(self) -> Iterator[tuple[Partition, CommittedOffset]]:
        """All that is committed."""
        for partition, found in self._committed.items():
            yield partition, found.value

    @property
    def recorded(self) -> Collection[Partition]:
        """All that the log may have a record of: committed, on its way there, part of an open transaction, in doubt."""
        open_ = chain(*self._transactional.values(), *self._transactional_pending.values())
        return dict.fromkeys(chain(self._committed, self._pending, open_, self._in_doubt)).keys()

    @property
    def empty(self) -> bool:
        """Nothing is committed, nor about to be."""
        return not (self._committed or self._pending or self._transactional or self._transactional_pending)

    def is_unstable(self, partition: Partition) -> bool:
        """Whether another offset may yet be committed: of an open transaction, or of a commit on its way into the log.

        Source: KIP-447, GroupMetadata.hasPendingOffsetCommitsForTopicPartition.
        """
        return (
            partition in self._pending
            or any(partition in offsets for offsets in self._transactional.values())
            or any(partition in offsets for offsets in self._transactional_pending.values())
        )

    # -- commits ---------------------------------------------------------------------------------------------------

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Commits are on their way into the log."""
        self._pending.update(list(partitions))

    def abandon(self, partitions: Collection[Partition], *, in_doubt: bool) -> None:
        """Those commits failed. in_doubt: their records are in the log."""
        self._subtract(self._pending, partitions)
        if in_doubt:
            self._in_doubt.update(partitions)

    def commit(self, offsets: Mapping[Partition, CommittedOffset], position: Offset) -> None:
        """Those commits are committed; the first one's record lies at `position`, the others' behind it in order."""
        self._subtract(self._pending, offsets)
        self._in_doubt.difference_update(offsets)
        for index, (partition, value) in enumerate(offsets.items()):
            self.restore(partition, value, position + index)

    def restore(self, partition: Partition, value: CommittedOffset, position: Offset) -> None:
        """A commit as the log has it. What lies further on in the log counts."""
        known = self._committed.get(partition)
        if known is None or known.position <= position:
            self._committed[partition] = _At(position, value)

    def remove(self, partitions: Iterable[Partition], *, in_doubt: bool = False) -> None:
        """Tombstones for these are in the log, behind what is known: open transactions commit nothing of it either.

        A compacted log would not have it any more. in_doubt: the tombstones are not committed, so that what they remove
        is still `recorded`: who removes it once more writes others.
        """
        for partition in partitions:
            self._committed.pop(partition, None)
            if in_doubt:
                self._in_doubt.add(partition)
            else:
                self._in_doubt.discard(partition)
            for producer_id in [of for of, offsets in self._transactional.items() if partition in offsets]:
                del self._transactional[producer_id][partition]
                if not self._transactional[producer_id]:
                    del self._transactional[producer_id]

    @staticmethod
    def _subtract(counter: Counter[Partition], partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            counter[partition] -= 1
            if counter[partition] <= 0:
                del counter[partition]

    # -- commits within a transaction --------------------------------------------------------------------------------

    def begin_transactional(self, producer_id: int, partitions: Iterable[Partition]) -> None:
        """Commits of a transaction are on their way into the log."""
        self._transactional_pending.setdefault(producer_id, Counter()).update(list(partitions))

    def abandon_transactional(self, producer_id: int, partitions: Collection[Partition], *, in_doubt: bool) -> None:
        """Those commits failed. in_doubt: their records are in the log."""
        self._end_pending(producer_id, partitions)
        if in_doubt:
            self._in_doubt.update(partitions)

    def _end_pending(self, producer_id: int, partitions: Iterable[Partition]) -> None:
        pending = self._transactional_pending.get(producer_id)
        if pending is not None:
            self._subtract(pending, partitions)
            if not pending:
                del self._transactional_pending[producer_id]

    def commit_transactional(
        self, producer_id: int, offsets: Mapping[Partition, CommittedOffset], position: Offset
    ) -> None:
        """Those commits lie in the log, from `position` on; they count once the transaction's marker does."""
        self._end_pending(producer_id, offsets)
        for index, (partition, value) in enumerate(offsets.items()):
            self.restore_transactional(producer_id, partition, value, position + index)

    def restore_transactional(
        self, producer_id: int, partition: Partition, value: CommittedOffset, position: Offset
    ) -> None:
        """A commit of a transaction as the log has it."""
        self._transactional.setdefault(producer_id, {})[partition] = _At(position, value)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """The marker is committed: the transaction's offsets count, but for those that a later commit replaced, or are
        forgotten. What is still on its way lies behind the marker.
        """
        for partition, found in self._transactional.pop(producer_id, {}).items():
            if committed:
                self.restore(partition, found.value, found.position)

    # -- expiry ----------------------------------------------------------------------------------------------------

    def removable(self, partition: Partition) -> bool:
        """Whether nothing is on its way that would replace the offset."""
        return partition in self._committed and not self.is_unstable(partition)

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        *,
        empty_since_ms: int | None = None,
        kept_topics: Collection[str] = (),
    ) -> list[Partition]:
        """What may be deleted. now_ms, empty_since_ms: ms since 1970.

        empty_since_ms: the group has had no members since then, and its offsets are kept at least so long from there.
        kept_topics: members subscribe to these. Source: GroupMetadata.removeExpiredOffsets; KIP-211.
        """
        out = []
        for partition, found in self._committed.items():
            value = found.value
            if partition[0] in kept_topics or not self.removable(partition):
                continue
            if value.expire_timestamp_ms is not None:
                over = now_ms >= value.expire_timestamp_ms
            else:
                since_ms = max(value.commit_timestamp_ms, empty_since_ms or 0)
                over = now_ms - since_ms >= retention_ms
            if over:
                out.append(partition)
        return out
