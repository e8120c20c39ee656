"""The consumer protocol's bytes, and who gets which partitions: what a group's leader decides.

Pure. Invariant: no partition is given to two members, whatever members claim to own.
Source: ConsumerProtocol (ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json, version 1), RangeAssignor,
KIP-429 (cooperative rebalancing).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

RANGE = "range"
COOPERATIVE_STICKY = "cooperative-sticky"

_VERSION = 1
_NO_USER_DATA = struct.pack(">i", -1)


def subscription(topic: str, owned: Sequence[int]) -> bytes:
    """A member's metadata: the topic that it subscribes to, and the partitions of it that it owns."""
    topics = struct.pack(">i", 1) + _text(topic)
    return struct.pack(">h", _VERSION) + topics + _NO_USER_DATA + _partitions(topic, owned)


def owned_in(metadata: bytes) -> tuple[int, ...]:
    """The partitions that `subscription` named. Raises ValueError for bytes that it did not make."""
    try:
        (version, topics) = struct.unpack_from(">hi", metadata, 0)
        (length,) = struct.unpack_from(">h", metadata, 6)
        if (version, topics) != (_VERSION, 1):
            raise ValueError(f"version {version} with {topics} topics")
        return _partitions_in(metadata, 8 + length + 4)
    except struct.error as error:
        raise ValueError(str(error)) from None


def assignment(topic: str, partitions: Sequence[int]) -> bytes:
    """What the leader gives one member."""
    return struct.pack(">h", _VERSION) + _partitions(topic, partitions) + _NO_USER_DATA


def assigned_in(given: bytes) -> tuple[int, ...]:
    """The partitions of an assignment; none in an empty one. Raises ValueError."""
    if not given:
        return ()
    try:
        return _partitions_in(given, 2)
    except struct.error as error:
        raise ValueError(str(error)) from None


def _text(text: str) -> bytes:
    raw = text.encode("ascii")
    return struct.pack(">h", len(raw)) + raw


def _partitions(topic: str, partitions: Sequence[int]) -> bytes:
    if not partitions:
        return struct.pack(">i", 0)
    return struct.pack(">i", 1) + _text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)


def _partitions_in(raw: bytes, at: int) -> tuple[int, ...]:
    """Of the one topic that is named at `at`."""
    (topics,) = struct.unpack_from(">i", raw, at)
    if topics == 0:
        return ()
    (length,) = struct.unpack_from(">h", raw, at + 4)
    at += 6 + length
    (count,) = struct.unpack_from(">i", raw, at)
    return tuple(int(partition) for partition in struct.unpack_from(f">{count}i", raw, at + 4))


def by_range(members: Sequence[str], partitions: int) -> dict[str, tuple[int, ...]]:
    """Each member a run of partitions, in the order of their ids; the first ones get one more."""
    ordered = sorted(members)
    each, more = divmod(partitions, len(ordered))
    given: dict[str, tuple[int, ...]] = {}
    first = 0
    for nth, member in enumerate(ordered):
        end = first + each + (nth < more)
        given[member] = tuple(range(first, end))
        first = end
    return given


def cooperative_sticky(owned: Mapping[str, Sequence[int]], partitions: int) -> dict[str, tuple[int, ...]]:
    """Members keep what they own as far as shares are even; what another has to give up first is given to nobody yet.

    owned: by member id. The next generation, which the member that gave it up brings about, hands it out.
    """
    claims: dict[int, list[str]] = {partition: [] for partition in range(partitions)}
    for member, claimed in owned.items():
        for partition in claimed:
            if partition in claims:
                claims[partition].append(member)
    owner = {partition: by[0] for partition, by in claims.items() if len(by) == 1}
    most, kept = -(-partitions // len(owned)), dict.fromkeys(owned, 0)
    given: dict[str, list[int]] = {member: [] for member in owned}
    left: list[int] = []
    for partition in range(partitions):
        keeper = owner.get(partition)
        if keeper is not None and kept[keeper] < most:
            given[keeper].append(partition)
            kept[keeper] += 1
        else:
            left.append(partition)
    for partition in left:
        member = min(sorted(given), key=lambda one: kept[one])
        kept[member] += 1
        if not claims[partition]:
            given[member].append(partition)
    return {member: tuple(mine) for member, mine in given.items()}
