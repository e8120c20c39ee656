"""What golden histories begin with: records that were acknowledged."""

from __future__ import annotations

from typing import Any

from tests.support.histories import Story


def sent(story: Story, count: int = 4, **fields: Any) -> list[tuple[int, int]]:
    """Values 1 … count acknowledged at offsets 0 …; what a poll of all of them returns."""
    for nth in range(count):
        story.send(nth + 1, nth, process=nth, **fields)
    return [(nth, nth + 1) for nth in range(count)]
