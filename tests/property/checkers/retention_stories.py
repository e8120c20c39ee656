"""Histories whose logs lost their heads, and polls that were refused, at this age or that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.histories import Story

AGE_MS = 50


def head_gone(story: Story, old: int, young: int, left: int = 2) -> None:
    """The log starts for every reader above so many records that were sent long ago, and so many that were sent just
    now. Of either the first was read once, the second never.
    """
    end = old + young + left
    for nth in range(end):
        if nth == old:
            story.now += AGE_MS
        story.send(nth + 1, nth, process=nth)
        if nth in (0, old) and nth < old + young:
            story.poll(nth, [(nth, nth + 1)], process=20)
    story.send(end + 1, end, process=end, sentinel=True, phase="final")
    start = old + young
    for reader in ("wire", "confluent"):
        story.poll(
            start,
            [(nth, nth + 1) for nth in range(start, end + 1)],
            log_start=start,
            reader=reader,
            consumer=reader,
            phase="drain-0",
            process=900 + len(reader),
            epoch=5,
        )
        story.drained(end + 1, start=start, reader=reader)


def head_gone_with_markers(story: Story) -> None:
    """Two records, each of a transaction with its marker, are above a start that lies behind a third one."""
    for nth in range(3):
        of_it: dict[str, Any] = {"txn": nth + 1, "transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
        story.send(nth + 1, 2 * nth, process=nth, sequence=nth, **of_it)
        story.coordinate("end_txn", commit=True, process=nth, **of_it)
    story.poll(2, [(2, 2), (4, 3)], next_position=6, log_start=2, process=20)


def head_gone_with_copies(story: Story) -> None:
    """Two records are above a start that lies behind a third one; the first of them stands twice, because the leader
    that had taken it was deposed before it answered, and its client sent it to the next one.
    """
    for value, offset in ((1, 0), (2, 2), (3, 3)):
        story.send(value, offset, process=value, reader="confluent", node=None)
    story.poll(1, [(1, 2)], process=20)
    story.poll(2, [(2, 2), (3, 3)], epoch=1, log_start=1, process=20)


def expired(story: Story) -> None:
    head_gone(story, old=2, young=0)


HEAD_OF_A_REPLICA = "log-matching-ok-head-expired"
"""A golden history: one replica's log starts later, long after its records were sent."""

HEADS: dict[str, Callable[[Story], None]] = {
    "expired": expired,
    "young": lambda story: head_gone(story, old=0, young=2),
    "both": lambda story: head_gone(story, old=2, young=2),
}


def _refused_at(story: Story, age_ms: int = AGE_MS) -> None:
    """Offset 1 was shown, and the next leader refuses a poll at it so long after it was sent."""
    for nth in range(4):
        story.send(nth + 1, nth, process=nth)
    story.poll(0, [(0, 1), (1, 2), (2, 3), (3, 4)], process=20)
    story.now += age_ms
    story.poll(1, outcome="fail", error="OFFSET_OUT_OF_RANGE", epoch=1, process=21, consumer="c1")


def _refused_above_the_start(story: Story) -> None:
    """That leader says later that its log begins there."""
    _refused_at(story)
    story.list_offsets(1, epoch=1, timestamp=-2, process=22)


def _refused_below_the_start(story: Story) -> None:
    """Its log begins above; the leader before, and the one after, know of less that was deleted."""
    _refused_at(story)
    story.list_offsets(2, epoch=1, timestamp=-2, process=22)
    story.list_offsets(0, epoch=0, timestamp=-2, process=23)
    story.list_offsets(1, epoch=2, timestamp=-2, process=24)


def _refused_after_it_had_said_so(story: Story) -> None:
    """What it deleted, it deleted in between."""
    story.list_offsets(0, epoch=1, timestamp=-2, process=22)
    _refused_at(story)


def _refused_too_young(story: Story) -> None:
    """Nothing of it can have been deleted yet, though that leader's log begins above later."""
    _refused_at(story, AGE_MS // 2)
    story.now += AGE_MS
    story.list_offsets(2, epoch=1, timestamp=-2, process=22)


REFUSED: dict[str, Callable[[Story], None]] = {
    "refused": _refused_at,
    "refused-young": _refused_too_young,
    "refused-above": _refused_above_the_start,
    "refused-below": _refused_below_the_start,
    "refused-between": _refused_after_it_had_said_so,
}
