"""What idempotent producers see around an unclean election, and whether that can have come of it.

In the language of `test_unclean_stories`: broker 1 leads until broker 2 is elected from outside the ISR under EPOCH, at
AT_MS. Nothing else tells of leader epochs than the responses of polls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.histories import Story

EPOCH = 3


def _send(story: Story, at: int, value: int, sequence: int, offset: int | None = None, **how: Any) -> int:
    """A batch of one record by producer 7, whose request takes a tick."""
    how = {"producer_epoch": 0, **how}
    return story.send(
        value, offset, producer_id=7, sequence=sequence, process=len(story.lines), invoked=at, completed=at + 1, **how
    )


def _refused(story: Story, at: int, value: int, sequence: int, error: str = "OUT_OF_ORDER_SEQUENCE_NUMBER") -> None:
    _send(story, at, value, sequence, outcome="fail")
    story.lines[-1]["error"] = error


def _read(story: Story, at: int, values: list[int], *written: int, leader_epoch: int) -> None:
    """written: the epoch of each batch."""
    story.poll(
        0, list(enumerate(values)), epoch=leader_epoch, invoked=at, completed=at + 1, process=20, consumer=f"c{at}"
    )
    for record, own in zip(story.lines[-1]["records"], written, strict=True):
        record["epoch"] = own


def _begun(story: Story) -> int:
    """Two batches, acknowledged and read; returns the second one's first request."""
    _send(story, 10, 1, 0, 0)
    second = _send(story, 20, 2, 1, 1)
    _read(story, 30, [1, 2], 0, 0, leader_epoch=0)
    return second


def _lower_once_lost(story: Story) -> None:
    """The next epoch's first batch stands where a lost one stood."""
    _begun(story)
    _send(story, 600, 3, 0, 1, producer_epoch=1)
    _read(story, 700, [1, 3], 0, EPOCH, leader_epoch=EPOCH)


def _lower_before(story: Story) -> None:
    """All of it before the election, whose leader has both."""
    _send(story, 10, 1, 0, 0)
    _send(story, 20, 2, 1, 2)
    _send(story, 30, 3, 2, 1)
    for at, leader_epoch in ((40, 0), (700, EPOCH)):
        _read(story, at, [1, 3, 2], 0, 0, 0, leader_epoch=leader_epoch)


def _lower_once_it_had_survived(story: Story) -> None:
    """Both were written under the epoch that was elected, or a later one."""
    _send(story, 10, 1, 0, 0)
    _read(story, 30, [1], 0, leader_epoch=0)
    _send(story, 600, 2, 1, 2)
    _send(story, 610, 3, 2, 1)
    _read(story, 700, [1, 3, 2], 0, EPOCH, EPOCH, leader_epoch=EPOCH)


def _higher_once_sent_again(story: Story) -> None:
    """Two batches at once; both are lost, and the first one, of which no answer had come, is appended further up."""
    _send(story, 10, 1, 0, 0)
    second = _send(story, 20, 2, 1, outcome="info")
    _send(story, 21, 3, 2, 2)
    _read(story, 30, [1, 2, 3], 0, 0, 0, leader_epoch=0)
    for nth, value in enumerate((7, 8)):
        story.send(value, 1 + nth, process=value, invoked=550 + nth, completed=551 + nth)
    _send(story, 600, 2, 1, 3, resends=second)
    _read(story, 700, [1, 7, 8, 2], 0, EPOCH, EPOCH, EPOCH, leader_epoch=EPOCH)


def _shown_and_sent_again(story: Story, at: int, epoch: int, next_epoch: int) -> None:
    """A batch without an answer is read; it is sent again to the next leader, who has it in the same place."""
    _send(story, 10, 1, 0, 0)
    second = _send(story, at, 2, 1, outcome="info")
    _read(story, at + 10, [1, 2], 0, epoch, leader_epoch=epoch)
    _send(story, 600, 2, 1, 1, resends=second)
    _read(story, 700, [1, 2], 0, next_epoch, leader_epoch=next_epoch)


def _in_its_place_once_lost(story: Story) -> None:
    _shown_and_sent_again(story, 20, 0, EPOCH)


def _in_its_place_later(story: Story) -> None:
    """It was lost between two leaderships that no unclean election parts."""
    _shown_and_sent_again(story, 550, EPOCH, EPOCH + 1)


def _late_before(story: Story) -> None:
    """No answer says where the first of two stands; it was read above the second before the election."""
    _send(story, 10, 1, 0, 0)
    _send(story, 20, 2, 1, outcome="info")
    _send(story, 21, 3, 2, 1)
    for at, leader_epoch in ((40, 0), (700, EPOCH)):
        _read(story, at, [1, 3, 2], 0, 0, 0, leader_epoch=leader_epoch)


def _begun_below_others(story: Story) -> None:
    """Batches of one producer at offset 0, and of anybody at 1 to 3."""
    _send(story, 10, 1, 0, 0)
    for nth, value in enumerate((91, 92, 93)):
        story.send(value, outcome="info", process=value, invoked=11 + nth, completed=12 + nth)


def _lower_beside_a_lost_one(story: Story) -> None:
    """Two at once, in the wrong order, since the election: that a lost one had stood above both explains nothing."""
    _begun_below_others(story)
    _send(story, 20, 2, 1, 4)
    _read(story, 30, [1, 91, 92, 93, 2], 0, 0, 0, 0, 0, leader_epoch=0)
    _send(story, 600, 3, 0, 2, producer_epoch=1)
    _send(story, 600, 4, 1, 1, producer_epoch=1)
    _read(story, 700, [1, 4, 3], 0, EPOCH, EPOCH, leader_epoch=EPOCH)


def _sends_lower_beside_a_lost_one(story: Story) -> None:
    """The same of what one process has under way in order."""
    _begun_below_others(story)
    story.send(5, 4, process=5, invoked=20, completed=21)
    _read(story, 30, [1, 91, 92, 93, 5], 0, 0, 0, 0, 0, leader_epoch=0)
    for value, offset, at in ((6, 2, 600), (7, 1, 601)):
        story.send(value, offset, process=5, in_order=True, invoked=at, completed=610)
    _read(story, 700, [1, 7, 6], 0, EPOCH, EPOCH, leader_epoch=EPOCH)


def _passed_over_beside_a_lost_one(story: Story) -> None:
    """A lookup that passes over a record of its own leader's, and one that had been lost below it."""
    for nth, value in enumerate((1, 2)):
        story.send(value, nth, process=value, timestamp=100 + nth, invoked=10 + nth, completed=11 + nth)
    _read(story, 30, [1, 2], 0, 0, leader_epoch=0)
    for nth, value in enumerate((3, 4, 5)):
        stamp = (50, 200, 300)[nth]
        story.send(value, 1 + nth, process=value, timestamp=stamp, invoked=550 + nth, completed=551 + nth)
    _read(story, 600, [1, 3, 4, 5], 0, EPOCH, EPOCH, EPOCH, leader_epoch=EPOCH)
    story.list_offsets(3, epoch=EPOCH, timestamp=101, found=300, invoked=650, completed=651)


def _refused_once_lost(story: Story) -> None:
    _begun(story)
    _refused(story, 600, 3, 2)
    _read(story, 700, [1], 0, leader_epoch=EPOCH)


def _refused_before(story: Story) -> None:
    _begun(story)
    _refused(story, 40, 3, 2)
    _read(story, 700, [1, 2], 0, 0, leader_epoch=EPOCH)


def _refused_after_later_batch(story: Story) -> None:
    """Its predecessor was written by the leader that was elected so."""
    _begun(story)
    _send(story, 600, 3, 2, 2)
    _refused(story, 650, 4, 3)
    _read(story, 700, [1, 2, 3], 0, 0, EPOCH, leader_epoch=EPOCH)


def _epoch_of_nobody(story: Story) -> None:
    """A leader that has lost something knows of no higher epoch for it."""
    _begun(story)
    _refused(story, 600, 3, 2, "INVALID_PRODUCER_EPOCH")
    _read(story, 700, [1], 0, leader_epoch=EPOCH)


def _appended_once_more(story: Story) -> None:
    """What was lost is sent again; another record had come before it."""
    second = _begun(story)
    story.send(9, 1, process=9, invoked=550, completed=551)
    _send(story, 600, 2, 1, 2, resends=second)
    _read(story, 700, [1, 9, 2], 0, EPOCH, EPOCH, leader_epoch=EPOCH)


def _appended_twice(story: Story) -> None:
    """The first is still there."""
    second = _begun(story)
    _send(story, 600, 2, 1, 2, resends=second)
    _read(story, 700, [1, 2, 2], 0, 0, EPOCH, leader_epoch=EPOCH)


PRODUCERS: dict[str, tuple[Callable[[Story], None], set[str]]] = {
    "producer-lower": (_lower_once_lost, set()),
    "producer-lower-before": (_lower_before, {"producer-order", "real-time-order"}),
    "producer-lower-later": (_lower_once_it_had_survived, {"producer-order", "real-time-order"}),
    "producer-higher": (_higher_once_sent_again, set()),
    "producer-in-its-place": (_in_its_place_once_lost, set()),
    "producer-in-its-place-later": (_in_its_place_later, {"vanished-read"}),
    "producer-late-before": (_late_before, {"producer-order"}),
    "producer-lower-since": (_lower_beside_a_lost_one, {"producer-order"}),
    "sends-lower-since": (_sends_lower_beside_a_lost_one, {"nonmonotonic-send"}),
    "lookup-since": (_passed_over_beside_a_lost_one, {"wrong-lookup"}),
    "producer-refused": (_refused_once_lost, set()),
    "producer-refused-before": (_refused_before, {"producer-order"}),
    "producer-refused-later": (_refused_after_later_batch, {"producer-order"}),
    "producer-epoch": (_epoch_of_nobody, {"producer-order"}),
    "producer-once-more": (_appended_once_more, set()),
    "producer-twice": (_appended_twice, {"duplicate"}),
}
