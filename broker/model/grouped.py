"""Members of named groups, such as the partitions of topics, found without a look at all others. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")
Member = TypeVar("Member")


class Grouped(Generic[Key, Member]):
    """A group is there as long as it has members, each under a key of its own."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[Key, Member]] = {}

    def __iter__(self) -> Iterator[str]:
        """The groups' names."""
        return iter(self._groups)

    def of(self, group: str) -> Collection[Member]:
        """A view; none for a group that is not there."""
        return self._groups.get(group, {}).values()

    def add(self, group: str, key: Key, member: Member) -> None:
        """Put a member into a group, in place of another with the same key."""
        self._groups.setdefault(group, {})[key] = member

    def remove(self, group: str, key: Key) -> bool:
        """Whether the group is gone; the member may be gone already."""
        members = self._groups.get(group, {})
        members.pop(key, None)
        if not members:
            self._groups.pop(group, None)
        return not members
