"""Batches, told ends, holes and many gaps around an unclean election, and which of it that can have cost.

In the language of `test_unclean_stories`: broker 2 is elected from outside the ISR at AT_MS, under epoch 3.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.support.histories import Story

EPOCH = 3
MANY = 250
"""More polls than any number of witnesses that is kept."""


def _sent(story: Story, count: int = 3) -> list[tuple[int, int]]:
    for nth in range(count):
        story.send(nth + 1, nth, process=nth, invoked=2 * nth + 1, completed=2 * nth + 2)
    return [(nth, nth + 1) for nth in range(count)]


def _took(story: Story, values: int | list[int], at: int, **fields: int) -> int:
    """A send whose answer was lost."""
    process = values if isinstance(values, int) else values[0]
    return story.send(values, outcome="info", process=process, invoked=at, completed=at + 1, **fields)


def _read(story: Story, at: int, records: list[tuple[int, int]], epoch: int, *written: int, end: int = 0) -> None:
    """written: leader epochs of the first records, where they are not that of the answer. end: its next position."""
    story.poll(
        records[0][0],
        records,
        next_position=end or records[-1][0] + 1,
        epoch=epoch,
        invoked=at,
        completed=at + 1,
        process=20,
        consumer=f"c{at}",
    )
    for record, own in zip(story.lines[-1]["records"], written, strict=False):
        record["epoch"] = own


def _torn(story: Story) -> None:
    """The leader that is elected has neither record; one of them had been read."""
    old = _sent(story)
    _took(story, [7, 8], 10)
    _read(story, 20, [*old, (3, 7)], 0)
    _took(story, 9, 550)
    _took(story, 10, 550)
    _read(story, 600, [*old, (3, 9), (4, 10)], EPOCH, 0, 0, 0)


def _torn_later(story: Story) -> None:
    old = _sent(story)
    _took(story, [7, 8], 550)
    _took(story, 10, 550)
    _read(story, 600, [*old, (3, 7)], EPOCH, 0, 0, 0)
    _read(story, 700, [(3, 7), (4, 10)], EPOCH)


def _place_given_again(story: Story) -> None:
    """What passed over the place of the second record was read before the election, of records that are lost."""
    old = _sent(story, 5)
    _read(story, 20, old, 0)
    _took(story, [7, 8], 550)
    _read(story, 600, [*old[:3], (3, 7)], EPOCH, 0, 0, 0)


def _reversed_again(story: Story) -> None:
    """One record was read where it stood first, the other where the batch was appended once more."""
    old = _sent(story)
    first = _took(story, [7, 8], 10)
    _read(story, 20, [*old, (3, 7)], 0)
    _took(story, 9, 550)
    _took(story, [7, 8], 560, resends=first)
    _read(story, 600, [*old, (3, 9)], EPOCH, 0, 0, 0)
    _read(story, 700, [(5, 8)], EPOCH)


def _reversed_later(story: Story) -> None:
    old = _sent(story)
    _took(story, [7, 8], 550)
    _read(story, 600, [*old, (3, 8), (4, 7)], EPOCH, 0, 0, 0)


def _told(story: Story) -> None:
    """The leader before told an end of which nobody read the records."""
    old = _sent(story)
    story.list_offsets(5, epoch=0, invoked=20, completed=21, process=22)
    _took(story, 9, 550)
    _read(story, 600, [*old, (3, 9)], EPOCH, 0, 0, 0)


def _told_later(story: Story) -> None:
    """So did the leader that was elected; its successor begins below."""
    _told(story)
    story.list_offsets(5, epoch=EPOCH, invoked=650, completed=651, process=22)
    _took(story, 10, 660)
    _read(story, 700, [(3, 9), (4, 10)], 4, EPOCH)


def _one_ack(story: Story) -> None:
    """acks=1, shown to be committed, and lost with what else was."""
    old = _sent(story)
    story.send(7, 3, acks=1, process=7, invoked=10, completed=11)
    _read(story, 20, old, 0)
    story.list_offsets(4, epoch=0, invoked=30, completed=31, process=22)
    _took(story, 9, 550)
    _read(story, 600, [*old, (3, 9)], EPOCH, 0, 0, 0)


def _hole(story: Story) -> None:
    """No election leaves an offset without a record between others."""
    old = _sent(story)
    _took(story, 9, 550)
    _read(story, 600, [*old, (4, 9)], EPOCH, 0, 0, 0)


def _vanished_behind_many(story: Story) -> None:
    """MANY polls miss what the election lost; then one misses what was read since."""
    old = _sent(story, 4)
    _read(story, 20, old, 0)
    _took(story, 9, 550)
    _took(story, 10, 550)
    for nth in range(MANY):
        _read(story, 600 + 2 * nth, [*old[:3], (4, 9)], EPOCH, 0, 0, 0)
    _read(story, 1500, [(4, 9), (5, 10)], EPOCH)
    _read(story, 1600, [(5, 10)], 4, EPOCH)
    story.lines[-2]["position"] = 4


WHOLES: dict[str, tuple[Callable[[Story], None], set[str]]] = {
    "torn": (_torn, set()),
    "torn-later": (_torn_later, {"torn-batch"}),
    "place-given-again": (_place_given_again, set()),
    "reversed-again": (_reversed_again, set()),
    "reversed-later": (_reversed_later, {"int-nonmonotonic-send"}),
    "told": (_told, set()),
    "told-later": (_told_later, {"real-time-order"}),
    "one-ack": (_one_ack, set()),
    "hole": (_hole, {"hole"}),
    "vanished-behind-many": (_vanished_behind_many, {"vanished-read", "hole"}),
}
