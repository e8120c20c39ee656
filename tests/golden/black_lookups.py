"""Stories of lookups by time: four records, of times 100, 200, 200 and 300, and who is told which of them."""

from __future__ import annotations

from tests.golden.limits import RETENTION_MS
from tests.support.histories import Story

TIMES = (100, 200, 200, 300)


def _sent(s: Story) -> list[tuple[int, int]]:
    """Acknowledged, and read under epoch 0; what a poll of all of them returns."""
    for nth, time in enumerate(TIMES):
        s.send(nth + 1, nth, process=nth, timestamp=time)
    log = [(nth, nth + 1) for nth in range(len(TIMES))]
    s.poll(0, log, process=20)
    return log


def _look_up(s: Story, time: int, offset: int, found: int, process: int = 30, epoch: int = 0, **more: int) -> None:
    s.list_offsets(offset, timestamp=time, found=found, process=process, epoch=epoch, **more)


def looked_up_ok(s: Story) -> None:
    """The first as new, and none; and by a leader that was deposed before the newest was written."""
    _sent(s)
    _look_up(s, 0, 0, 100)
    _look_up(s, 100, 0, 100)
    _look_up(s, 101, 1, 200)
    _look_up(s, 201, 3, 300)
    _look_up(s, 301, -1, -1)
    s.send(5, 4, process=7, timestamp=400)
    s.poll(4, [(4, 5)], epoch=1, process=21, consumer="c1")
    _look_up(s, 301, -1, -1, process=31)
    _look_up(s, 301, 4, 400, process=32, epoch=1)


def looked_up_before(s: Story) -> None:
    """Asked before the record was acknowledged, or read; and under read_committed, which may have to stop before it."""
    s.send(1, 0, process=0, timestamp=100)
    _look_up(s, 50, 0, 100)
    s.send(2, 1, process=1, timestamp=200, invoked=50, completed=60)
    _look_up(s, 150, -1, -1, invoked=60, completed=65)
    s.poll(0, [(0, 1), (1, 2)], process=20)
    _look_up(s, 150, -1, -1, process=31, isolation=1)


def passed_over(s: Story) -> None:
    _sent(s)
    _look_up(s, 101, 1, 200)
    _look_up(s, 101, 3, 300, process=31)


def found_none(s: Story) -> None:
    _sent(s)
    _look_up(s, 101, 1, 200)
    _look_up(s, 300, -1, -1, process=31)


def found_older(s: Story) -> None:
    _sent(s)
    _look_up(s, 101, 0, 100)


def found_by_another_time(s: Story) -> None:
    """What it names is the first, and the time that it gives is not that record's."""
    _sent(s)
    _look_up(s, 101, 1, 300)


def found_what_was_deleted(s: Story) -> None:
    """By retention, and that leader had said so."""
    log = _sent(s)
    s.now += RETENTION_MS
    s.send(5, 4, process=7, timestamp=500)
    s.poll(4, [(4, 5)], log_start=len(log), process=21, consumer="c1")
    _look_up(s, 101, 1, 200)


def deleted_passed_over(s: Story) -> None:
    """By retention, and by request: what is as new, and older than that, may be gone."""
    _sent(s)
    s.delete(2, process=40)
    _look_up(s, 50, 2, 200)
    s.now += RETENTION_MS
    s.send(5, 4, process=7, timestamp=500)
    _look_up(s, 250, 4, 500, process=31)
    s.poll(4, [(4, 5)], log_start=4, process=21, consumer="c1")


def undeleted_passed_over(s: Story) -> None:
    """What nobody had asked to delete, and is too young."""
    _sent(s)
    s.delete(1, process=40)
    _look_up(s, 50, 1, 200)
    _look_up(s, 150, 3, 300, process=31)


def looked_up_unknown(s: Story) -> None:
    """Nobody knows the times of the records."""
    for nth in range(4):
        s.send(nth + 1, nth, process=nth)
    s.poll(0, [(nth, nth + 1) for nth in range(4)], process=20)
    _look_up(s, 101, 1, 200)


def told_by_a_lookup(s: Story) -> None:
    """It found a record; a request that was sent later was told a watermark below it."""
    for nth in range(4):
        s.send(nth + 1, nth, process=nth, timestamp=100 * (nth + 1), node="n9")
    _look_up(s, 350, 3, 400, invoked=50, completed=60)
    s.poll(0, [(0, 1), (1, 2), (2, 3)], hw=3, process=21, invoked=61, completed=65)
