"""Stories of topics that are deleted and made anew: what clients do with each life, and what brokers tell.

Brokers that are asked are l1, l2 and l3. Times are ticks, as a story's. Ids are letters.
"""

from __future__ import annotations

from typing import Any

from tests.support.histories import Story

NODES = ("l1", "l2", "l3")


class Remakers:
    """They share the topic of a story."""

    def __init__(self, story: Story) -> None:
        self.story = story

    def _ask(self, f: str, asked: dict[str, Any], answer: dict[str, Any], **fields: Any) -> int:
        return self.story.administer(f, asked, answer, **{"node": "l1", **fields})

    def make(self, topic_id: str, **fields: Any) -> int:
        """A creation that is answered with this id."""
        return self._ask("create_topic", {}, {"topic_id": topic_id}, **fields)

    def end(self, topic_id: str, **fields: Any) -> int:
        """A request to delete the life with this id."""
        return self._ask("delete_topic", {"topic_id": topic_id}, {}, **fields)

    def tell(self, topic_id: str | None, **fields: Any) -> int:
        """A broker that tells this id, or that there is no such topic."""
        return self._ask("describe_topic", {}, {"topic_id": topic_id} if topic_id else {}, **fields)

    def told(self, topic_id: str, phase: str = "main") -> None:
        """What every broker tells."""
        for node in NODES:
            self.tell(topic_id, node=node, phase=phase)

    def send(self, topic_id: str, values: int | list[int], offset: int | None = None, **fields: Any) -> int:
        """A send by who takes this life for the newest."""
        return self.story.send(values, offset, topic_id=topic_id, **fields)

    def poll(
        self, topic_id: str, position: int, records: list[tuple[int, int | None]] | None = None, **fields: Any
    ) -> int:
        """A poll by this id."""
        return self.story.poll(position, records or [], topic_id=topic_id, **fields)

    def refused(self, topic_id: str, **fields: Any) -> int:
        """A poll for a life that is gone."""
        return self.poll(topic_id, 0, outcome="fail", error="UNKNOWN_TOPIC_ID", consumer=f"of-{topic_id}", **fields)

    def twice(self) -> None:
        """A is made, used and deleted; B is made, used, and told by every broker."""
        self.make("A", phase="setup")
        self.told("A", phase="setup")
        for nth in range(4):
            self.send("A", nth + 1, nth, process=nth)
        self.poll("A", 0, [(nth, nth + 1) for nth in range(3)], hw=4, consumer="of-A")
        self.end("A")
        self.make("B")
        for nth in range(2):
            self.send("B", nth + 11, nth, process=nth)
        self.poll("B", 0, [(nth, nth + 11) for nth in range(2)], consumer="of-B")
        self.told("B")

    def drained(self, topic_id: str) -> None:
        """What every broker tells in the drain."""
        self.told(topic_id, phase="drain-current")
