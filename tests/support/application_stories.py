"""Histories of an application of a real client: members that are given records, process them, and commit.

In the language of `histories.Story`; all of it is of the story's partition 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.group_stories import Group
from tests.support.histories import Story


class Application:
    """One group, `app`, with one promise."""

    def __init__(self, story: Story, promise: str) -> None:
        self.story = story
        self._group = Group(story, "app")
        self._promise = promise

    def poll(self, member: str, position: int, values: Sequence[int]) -> None:
        """Delivered from `position` on, at consecutive offsets."""
        records = [(position + nth, value) for nth, value in enumerate(values)]
        self.story.poll(
            position, records, reader="confluent", consumer=f"app/{member}", group="app", member=member, hw=-1
        )

    def process(self, member: str, values: Sequence[int]) -> int:
        """The operation's index."""
        op = self.story.invoke(
            "process", reader="confluent", group="app", member=member, promise=self._promise, values=list(values)
        )
        self.story.complete(op)
        return op

    def commit(self, member: str, offset: int, outcome: str = "ok") -> None:
        """info: nobody knows whether it took effect."""
        error = None if outcome == "ok" else "client-error"
        self._group.commit(member, -1, offset, outcome=outcome, error=error)

    def drained(self, end: int) -> None:
        """The group had committed `end`, behind its last record."""
        self.story.harness("group-drained", phase="final", topic=self.story.topic, partition=0, start=0, end=end)

    def undrained(self, end: int) -> None:
        """The group did not come to its last record in time."""
        self.story.harness(
            "group-undrained", phase="final", topic=self.story.topic, partition=0, start=0, end=end, error="not in time"
        )
