"""Stories of static members of a group (KIP-345): ok, bad and unknown."""

from __future__ import annotations

from typing import Any

from tests.golden.group_parts import begun
from tests.support.group_stories import SESSION_MS, Group
from tests.support.histories import Story


def _shared(s: Story) -> Group:
    """In generation 2 a has the partition, and instance i nothing."""
    group = begun(s)
    group.join("i-1", 2, instance="i")
    group.join("a", 2, again=True)
    group.sync("a", 2)
    group.sync("i-1", 2, (), instance="i")
    return group


def ok(s: Story) -> None:
    """i comes back to its place; and to another generation where b came, and where somebody unknown may have."""
    group = _shared(s)
    group.enters("i-2", 2, (), instance="i")
    group.ask("heartbeat", member="a", generation=2)
    group.join("b", 3)
    group.join("i-3", 3, instance="i")
    group.join("a", 3, again=True)
    group.sync("a", 3)
    group.sync("i-3", 3, (), instance="i")
    group.sync("b", 3, ())
    group.ask("join", member="", instance=None, outcome="info", error="timeout")
    group.join("i-4", 4, instance="i")


def bad(s: Story) -> None:
    """Its return begins a generation; a joins it as it is told to."""
    group = _shared(s)
    now = s.now
    group.join("i-2", 3, instance="i", invoked=now + 1, completed=now + 9)
    refused: dict[str, Any] = {"outcome": "fail", "error": "REBALANCE_IN_PROGRESS"}
    group.ask("heartbeat", member="a", generation=2, invoked=now + 2, completed=now + 3, **refused)
    group.join("a", 3, again=True, invoked=now + 4, completed=now + 9)
    group.sync("a", 3)
    group.sync("i-2", 3, (), instance="i")
    # And once more, to its place.
    group.enters("i-3", 3, (), instance="i")


def share(s: Story) -> None:
    """It had the partition, and is given nothing."""
    group = begun(s)
    group.enters("i-1", 2, instance="i")
    group.enters("i-2", 2, (), instance="i")


def silent(s: Story) -> None:
    """By then a's session may have ended."""
    group = _shared(s)
    s.now += SESSION_MS + 1
    group.ask("heartbeat", member="i-1", instance="i", generation=2)
    group.join("i-2", 3, instance="i")


def elsewhere(s: Story) -> None:
    """Another node coordinates the group by then: one of them may be deposed."""
    group = _shared(s)
    group.ask("heartbeat", member="a", generation=2, node="n2")
    group.join("i-2", 3, instance="i")


def left(s: Story) -> None:
    group = _shared(s)
    group.ask("leave", member="a", generation=2)
    group.join("i-2", 3, instance="i")
