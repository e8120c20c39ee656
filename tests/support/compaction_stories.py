"""Histories of a compacted topic: keyed sends, and readings of the whole partition of what a cleaner has left.

In the language of `histories.Story`; all of it is of the story's partition 0, of which offsets are list indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.histories import Story

OF_SENTINELS = 10**9


class Sent(NamedTuple):
    """One record. acked: whether its send was acknowledged; else nobody knows what became of it."""

    offset: int
    key: int
    value: int
    tombstone: bool
    acked: bool = True


@dataclass
class Compacted:
    """records: all that were written, by offset."""

    story: Story
    records: list[Sent] = field(default_factory=list)
    readings: int = 0

    def send(self, key: int, *, tombstone: bool = False, acked: bool = True, written: bool = True) -> Sent:
        """A record with the next value; written: whether it is in the log, which one that is acknowledged is."""
        value = len(self.story.lines) + 1
        sent = Sent(len(self.records), key, value, tombstone, acked)
        self.story.send(
            value,
            sent.offset if acked else None,
            outcome="ok" if acked else "info",
            process=value,
            keys=[key],
            tombstones=[tombstone],
            sentinel=key == OF_SENTINELS,
        )
        if written:
            self.records.append(sent)
        return sent

    def read(self, kept: Iterable[Sent], *, complete: bool = True, ticks: int = 1) -> None:
        """A drain that returns these, by offset, in so many ticks; and the line that says that it came to its end."""
        end, phase = len(self.records), f"drain-n{self.readings + 1}"
        self.story.poll(
            0,
            [(one.offset, one.value) for one in kept],
            next_position=end,
            consumer=f"drain-{self.readings}",
            phase=phase,
            invoked=self.story.now + 1,
            completed=self.story.now + 1 + ticks,
        )
        if complete:
            self.story.drained(end, phase=phase)
        self.readings += 1

    def cleaned(self, goes: Callable[[Sent], bool] = lambda _one: True) -> list[Sent]:
        """What is left once every superseded record is gone for which `goes`."""
        newest = {one.key: one.offset for one in self.records}
        return [one for one in self.records if newest[one.key] == one.offset or not goes(one)]
