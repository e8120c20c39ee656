"""What the log of a partition of `__consumer_offsets` says while it is read: the last commit of each key, as bytes.

Of a million commits perhaps a thousand are the last of their group and partition; only those are decoded, by `settle`.
A commit that has the shape of nearly all, version 3 and readable for certain, replaces the one before unread. Whatever
looks different is decoded at once: a later record that cannot be read does not hide an earlier one that can.

Record by record it would come to the same, since a commit counts over those before it in the log: of commits, within
transactions or not, the last counts, whenever their markers come. A tombstone takes all that was before it, in open
transactions too. Once `settle` has been called for the first time, records go into the groups' offsets directly.
Source: GroupMetadataManager.doLoadGroupsAndOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from broker.core.group.offsets import CommittedOffset, GroupOffsets, Partition
from broker.model.ids import Offset
from broker.runtime.group import records
from broker.wire.control_records import read_marker
from broker.wire.coordinator_records.offsets_topic import OffsetCommitKey
from broker.wire.coordinator_records.scan import CONTROL, PLAIN, Found

_V3: Final = b"\x00\x03"
_SIZE: Final = 24
"""Of a value of version 3 without metadata."""
_METADATA: Final = 16
"""Where it begins in a value of version 3; its length stands before."""
_OF_OFFSETS: Final = (b"\x00\x00", b"\x00\x01")
"""How keys of offsets begin."""
_LENGTH_HIGH_MAX: Final = 0x7F
"""Of the length's first byte; it would be negative."""

Value = bytes | CommittedOffset
_Open = tuple[Offset, Value]
"""A commit of an open transaction: where its record lies, and what it says."""


class LastCommit:
    """Of one group and partition. position: of its record in the log, −1 without value."""

    __slots__ = ("group_id", "partition", "position", "value")

    def __init__(self, group_id: str, partition: Partition) -> None:
        self.group_id = group_id
        self.partition = partition
        self.position: Offset = -1
        self.value: Value | None = None


class Known(Protocol):
    """Whoever keeps what is found."""

    def offsets_of(self, group_id: str) -> GroupOffsets:
        """Of a group, which may be new."""
        ...

    def take_group(self, record: records.GroupRecord) -> None:
        """What the log says of a group itself."""
        ...

    def note_open(self, producer_id: int, group_id: str) -> None:
        """The offsets of this group have some of the producer's open transaction."""
        ...

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Its marker comes: for the groups that were noted."""
        ...

    def pass_over(self, position: Offset, why: records.Unreadable) -> None:
        """A record cannot be read."""
        ...


class LastCommits:
    """Of one partition, from its first record until requests are served."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._commits: dict[bytes | None, LastCommit] = {}
        """By the bytes of the key as written today, and of others that say the same."""
        self._open: dict[int, dict[LastCommit, _Open]] = {}
        """By producer id."""
        self._settling = False

    def take(self, found: Iterable[Found]) -> None:
        """The next records of the log."""
        if self._settling:
            for offset, kind, producer_id, key, value in found:
                self._take_directly(offset, kind, producer_id, key, value)
            return
        commits = self._commits
        for offset, kind, producer_id, key, value in found:
            if value is not None and len(value) == _SIZE and value[1] == 3 and not (value[0] | value[15] | value[14]):
                commit = commits.get(key)
                if commit is not None and kind == PLAIN:
                    commit.position = offset
                    commit.value = value
                    continue
            self._take_one(offset, kind, producer_id, key, value)

    def _take_one(self, offset: Offset, kind: int, producer_id: int, key: bytes | None, value: bytes | None) -> None:
        """Any record, before `settle`."""
        if kind & CONTROL:
            end = read_marker(key or b"", value or b"")
            if end is not None:
                for ended, (position, said) in self._open.pop(producer_id, {}).items():
                    if end.committed and ended.position <= position:
                        ended.position, ended.value = position, said
            return
        commit = self._commits.get(key)
        kept: Value | None = value
        readable = value is not None and _is_readable(value) and key is not None and key.startswith(_OF_OFFSETS)
        if commit is None or not readable:
            record = self._read(offset, key, None if readable else value)
            if record is None:
                return
            commit = commit or self._commit_of(key, record)
            kept = value if readable else record.value
        if kind != PLAIN:
            if kept is not None:
                self._open.setdefault(producer_id, {})[commit] = (offset, kept)
        elif kept is not None:
            commit.position, commit.value = offset, kept
        else:
            self._forget(commit)

    def _read(self, offset: Offset, key: bytes | None, value: bytes | None) -> records.OffsetRecord | None:
        """None where it is not of an offset, and has been handed on."""
        try:
            record = records.read(key, value)
        except records.Unreadable as unreadable:
            self._known.pass_over(offset, unreadable)
            return None
        if isinstance(record, records.OffsetRecord):
            return record
        self._known.take_group(record)
        return None

    def _commit_of(self, key: bytes | None, record: records.OffsetRecord) -> LastCommit:
        """What is known by another key that says the same, or new."""
        usual = key if _is_usual(key) else OffsetCommitKey(record.group_id, *record.partition).encode()
        commit = self._commits.get(usual)
        if commit is None:
            commit = self._commits[usual] = LastCommit(record.group_id, record.partition)
        if key != usual:
            self._commits[key] = commit
        return commit

    def _forget(self, commit: LastCommit) -> None:
        """A tombstone: nothing before it in the log counts any more."""
        commit.position, commit.value = -1, None
        for producer_id in [of for of, commits in self._open.items() if commit in commits]:
            del self._open[producer_id][commit]

    # -- into the groups -------------------------------------------------------------------------------------------

    def settle(self, units: int) -> int:
        """Hand the offsets of some keys to their groups; how many, fewer than units once none is left."""
        self._settling = True
        done = 0
        while self._open and done < units:
            done += self._settle_transaction(next(iter(self._open)))
        commits = self._commits
        while commits and done < units:
            _, commit = commits.popitem()
            self._settle(commit)
            done += 1
        return done

    def _settle_transaction(self, producer_id: int) -> int:
        """All at once: its marker may come next."""
        commits = self._open.pop(producer_id, {})
        for commit, (position, value) in commits.items():
            self._known.note_open(producer_id, commit.group_id)
            self._known.offsets_of(commit.group_id).restore_transactional(
                producer_id, commit.partition, _decoded(value), position
            )
        return len(commits)

    def _settle(self, commit: LastCommit) -> None:
        value, commit.value = commit.value, None
        if value is not None:
            self._known.offsets_of(commit.group_id).restore(commit.partition, _decoded(value), commit.position)

    def _take_directly(
        self, offset: Offset, kind: int, producer_id: int, key: bytes | None, value: bytes | None
    ) -> None:
        """Any record once some keys are settled: what comes earlier in the log, of these keys, goes before it."""
        if kind != PLAIN:
            self._settle_transaction(producer_id)
        if kind & CONTROL:
            end = read_marker(key or b"", value or b"")
            if end is not None:
                self._known.end_transaction(producer_id, end.committed)
            return
        record = self._read(offset, key, value)
        if record is None:
            return
        partition, offsets = record.partition, self._known.offsets_of(record.group_id)
        if kind != PLAIN:
            if record.value is not None:
                self._known.note_open(producer_id, record.group_id)
                offsets.restore_transactional(producer_id, partition, record.value, offset)
        elif record.value is not None:
            offsets.restore(partition, record.value, offset)
        else:
            self._forget(self._commit_of(key, record))
            offsets.remove((partition,))


def _is_usual(key: bytes | None) -> bool:
    """Whether the key of an offset, which can be read, is spelt as it is written today."""
    if key is None or key[1] != 1:
        return False
    topic_at = 6 + (key[2] << 8 | key[3])
    return len(key) == topic_at + (key[topic_at - 2] << 8 | key[topic_at - 1]) + 4


def _is_readable(value: bytes) -> bool:
    """Whether this is a value of version 3, for certain; bytes behind it are ignored."""
    if len(value) < _SIZE or not value.startswith(_V3) or value[_METADATA - 2] > _LENGTH_HIGH_MAX:
        return False
    length = value[_METADATA - 2] << 8 | value[_METADATA - 1]
    return length <= len(value) - _SIZE and value[_METADATA : _METADATA + length].isascii()


def _decoded(value: Value) -> CommittedOffset:
    return records.read_offset(value) if isinstance(value, bytes) else value
