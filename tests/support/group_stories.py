"""Histories of consumer groups: requests of members, in the language of `histories.Story`.

Every operation takes one tick, unless a test says when it was invoked and completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.histories import Story

SESSION_MS, REBALANCE_MS = 1000, 2000


class Group:
    """Members of one group in a story. Offsets and assignments are of the story's partition 0 where a number stands."""

    def __init__(self, story: Story, name: str = "g0") -> None:
        self.story = story
        self.name = name

    def ask(
        self,
        f: str,
        *,
        outcome: str = "ok",
        error: str | None = None,
        answer: Mapping[str, Any] | None = None,
        invoked: int | None = None,
        completed: int | None = None,
        **fields: Any,
    ) -> int:
        """Any operation of the group's coordinator; returns the invocation's index."""
        op = self.story.invoke(f, at=invoked, group=self.name, reader="wire", **fields)
        # Operations of a coordinator are of no partition.
        self.story.lines[op] |= {"topic": None, "partition": None}
        given = dict(answer or {}) if outcome == "ok" else {}
        self.story.complete(op, outcome, at=completed, **given, **({} if error is None else {"error": error}))
        return op

    def join(
        self, member: str, generation: int, *, instance: str | None = None, again: bool = False, **how: Any
    ) -> int:
        """again: by the id that it has."""
        answer = {"member": member, "generation": generation, "leader": member, "protocol": "range"}
        asked: dict[str, Any] = {
            "protocol": "range",
            "rebalance": "eager",
            "session_ms": SESSION_MS,
            "rebalance_ms": REBALANCE_MS,
        }
        return self.ask("join", member=member if again else "", instance=instance, answer=answer, **asked, **how)

    def sync(
        self,
        member: str,
        generation: int,
        partitions: tuple[int, ...] = (0,),
        *,
        instance: str | None = None,
        **how: Any,
    ) -> int:
        given = [f"{self.story.topic}-{partition}" for partition in partitions]
        return self.ask(
            "sync", member=member, generation=generation, instance=instance, answer={"partitions": given}, **how
        )

    def enters(self, member: str, generation: int, partitions: tuple[int, ...] = (0,), **how: Any) -> None:
        """Join and sync."""
        self.join(member, generation, **how)
        self.sync(member, generation, partitions, **how)

    def commit(
        self, member: str, generation: int, offset: int, *, partition: int = 0, instance: str | None = None, **how: Any
    ) -> int:
        offsets = [{"p": f"{self.story.topic}-{partition}", "offset": offset}]
        return self.ask(
            "commit_offsets", member=member, generation=generation, instance=instance, offsets=offsets, **how
        )

    def fetch(self, offset: int, *, partition: int = 0, **how: Any) -> int:
        p = f"{self.story.topic}-{partition}"
        return self.ask("fetch_offsets", partitions=[p], answer={"offsets": [{"p": p, "offset": offset}]}, **how)

    def poll(self, member: str, generation: int, position: int, until: int, **how: Any) -> int:
        """An answered poll of [position, until)."""
        records = [(offset, offset + 1) for offset in range(position, until)]
        return self.story.poll(
            position,
            records,
            consumer=f"{self.name}/{member}",
            group=self.name,
            member=member,
            generation=generation,
            **how,
        )
