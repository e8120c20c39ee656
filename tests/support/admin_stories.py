"""Stories of administrators: operations on a story's own topic, which nobody else's faults touch.

Brokers are a1, a2 and a3; of a story with faults they have another letter: what ends a process in one of several
stories that are judged together parts the lives of that node in all. Times are ticks, as a story's.
"""

from __future__ import annotations

from typing import Any

from tests.support.histories import Story

UNSET = -1


class Administrators:
    """What they do on the topic of a story. nodes: its brokers; of these the first is asked where none is named."""

    def __init__(self, story: Story, letter: str = "a") -> None:
        self._story = story
        self.nodes = [f"{letter}{number}" for number in (1, 2, 3)]

    def _ask(self, f: str, asked: dict[str, Any], answer: dict[str, Any], **fields: Any) -> int:
        return self._story.administer(f, asked, answer, **{"node": self.nodes[0], **fields})

    def alter(self, setting: int, config: str = "retention.ms", **fields: Any) -> int:
        """Set a setting, or take the topic's own value away (UNSET); returns the invocation's index."""
        return self._ask("alter_config", {"config": config, "setting": setting}, {}, **fields)

    def describe(self, setting: int, config: str = "retention.ms", **fields: Any) -> int:
        """A description that shows this."""
        return self._ask("describe_config", {"config": config}, {"setting": setting}, **fields)

    def grow(self, count: int, **fields: Any) -> int:
        """A growth to so many partitions."""
        return self._ask("create_partitions", {"count": count}, {}, **fields)

    def count(self, count: int, **fields: Any) -> int:
        """A broker that counts so many."""
        return self._ask("count_partitions", {}, {"count": count}, **fields)

    def made(self, count: int = 2) -> None:
        """What the setup counts at every broker."""
        for node in self.nodes:
            self.count(count, node=node, phase="setup")

    def drained(self, count: int) -> None:
        """What the drain counts at every broker."""
        for node in self.nodes:
            self.count(count, node=node, phase="drain-current")
