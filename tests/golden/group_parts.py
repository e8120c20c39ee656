"""What stories of groups begin with."""

from __future__ import annotations

from tests.golden.black_parts import sent
from tests.support.group_stories import Group
from tests.support.histories import Story


def begun(s: Story) -> Group:
    """Four records; member a owns the partition in generation 1, and read and committed all of them."""
    sent(s)
    group = Group(s)
    group.enters("a", 1)
    group.poll("a", 1, 0, 4)
    group.commit("a", 1, 2)
    group.fetch(2)
    group.commit("a", 1, 4)
    return group
