"""Stories of administrators: operations on a story's own topic, which nobody else's faults touch.

Brokers are a1, a2 and a3. Times are ticks, as a story's.
"""

from __future__ import annotations

from typing import Any

from tests.support.histories import Story

UNSET = -1


class Administrators:
    """What they do on the topic of a story."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def _ask(
        self,
        f: str,
        asked: dict[str, Any],
        answer: dict[str, Any],
        *,
        outcome: str = "ok",
        error: str = "timeout",
        invoked: int | None = None,
        completed: int | None = None,
        **fields: Any,
    ) -> int:
        fields.setdefault("node", "a1")
        op = self._story.invoke(f, partition=None, at=invoked, **asked, **fields)  # type: ignore[arg-type]
        self._story.complete(op, outcome, at=completed, **(answer if outcome == "ok" else {"error": error}))
        return op

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
        for node in ("a1", "a2", "a3"):
            self.count(count, node=node, phase="setup")

    def drained(self, count: int) -> None:
        """What the drain counts at every broker."""
        for node in ("a1", "a2", "a3"):
            self.count(count, node=node, phase="drain-current")
