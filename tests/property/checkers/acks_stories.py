"""Histories whose lost records acks=1 or acks=0 may excuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.histories import Story


def _lost_send(story: Story, *, node: str | None = "n1", **fields: Any) -> None:
    """One read record, and one sent with acks=1 where a reader, which tells no leader's epoch, finds another."""
    story.send(1, 0, process=1)
    story.send(2, 1, acks=1, process=2, node=node, **fields)
    story.send(9, outcome="info", process=9)
    story.send(3, 2, process=3)
    story.poll(0, [(0, 1), (1, 9), (2, 3)], process=20, reader="confluent")


def _led(story: Story, leader: str, epoch: int, phase: str = "main") -> None:
    story.harness("leadership", topic=story.topic, partition=0, leader=leader, epoch=epoch, isr=[1, 2], phase=phase)


def _never_changed(story: Story) -> None:
    _led(story, "n1", 0)
    _lost_send(story)
    # A new epoch alone: a dead follower left the ISR.
    _led(story, "n1", 1)


def _changed_before(story: Story) -> None:
    _led(story, "n2", 0)
    _led(story, "n1", 1)
    _lost_send(story)


def _changed_by_the_rotation(story: Story) -> None:
    _led(story, "n1", 0)
    _lost_send(story)
    _led(story, "n2", 1, phase="drain-n2")
    story.poll(0, [(0, 1), (1, 9), (2, 3)], process=21, phase="drain-n2", epoch=1, consumer="d")


def _changed_after(story: Story) -> None:
    _led(story, "n1", 0)
    _lost_send(story)
    _led(story, "n2", 1)


def _answered_by_the_deposed(story: Story) -> None:
    _led(story, "n1", 0)
    _led(story, "n2", 1)
    _lost_send(story, node="n1")


def _answered_to_a_real_client(story: Story) -> None:
    """By the deposed one or not: it does not say by whom."""
    _led(story, "n1", 0)
    _led(story, "n2", 1)
    _lost_send(story, node=None, reader="confluent")


def _answered_to_a_real_client_by_the_only_one(story: Story) -> None:
    _led(story, "n1", 0)
    _lost_send(story, node=None, reader="confluent")


def _committed(story: Story) -> None:
    """Its leader told a watermark above it."""
    _led(story, "n1", 0)
    _lost_send(story)
    story.poll(0, [(0, 1)], hw=3, process=22, consumer="c2")
    _led(story, "n2", 1)


def _told_before(story: Story) -> None:
    """A leader of that name, in an epoch that it may have left since, told as much; another one led in between."""
    _led(story, "n1", 0)
    story.send(1, 0, process=1)
    _led(story, "n2", 1)
    story.send(2, 1, acks=1, process=2, node="n1")
    _led(story, "n1", 2)
    story.send(9, 1, process=9)
    story.poll(0, [(0, 1), (1, 9)], epoch=2, process=20)


def _leads_again(story: Story) -> None:
    """By what a third broker told it leads once more; it may not know, nor that n2 has led, and cut its log then."""
    _led(story, "n1", 0)
    _led(story, "n2", 1)
    _led(story, "n1", 2)
    story.send(1, 0, process=1)
    story.send(2, 1, acks=1, process=2)
    story.send(9, 1, process=9)
    story.poll(0, [(0, 1), (1, 9)], epoch=2, process=20)


def _knows_that_it_leads_again(story: Story) -> None:
    """It had answered in that epoch."""
    _led(story, "n1", 0)
    _led(story, "n2", 1)
    _led(story, "n1", 2)
    story.list_offsets(0, epoch=2, process=22)
    _lost_send(story)


ACKS_ONE: dict[str, tuple[Callable[[Story], None], str]] = {
    "never": (_never_changed, "invalid"),
    "before": (_changed_before, "invalid"),
    "rotation": (_changed_by_the_rotation, "invalid"),
    "after": (_changed_after, "valid"),
    "deposed": (_answered_by_the_deposed, "valid"),
    "real-client": (_answered_to_a_real_client, "valid"),
    "real-client-of-one-leader": (_answered_to_a_real_client_by_the_only_one, "invalid"),
    "committed": (_committed, "invalid"),
    "told-by-a-later-leadership": (_told_before, "valid"),
    "leads-again": (_leads_again, "valid"),
    "knows-that-it-leads-again": (_knows_that_it_leads_again, "invalid"),
}


def acks_zero(story: Story) -> None:
    story.send(1, 0, process=1)
    story.send([2, 3], acks=0, process=2)
    story.send(4, acks=0, process=2)
    story.poll(0, [(0, 1), (1, 4)], process=20)
