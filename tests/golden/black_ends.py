"""Stories of where a log ends: what was read beyond the watermark, refused though it had been shown, or told lower."""

from __future__ import annotations

from typing import Any

from tests.golden.black_parts import sent
from tests.golden.limits import RETENTION_MS
from tests.support.histories import Story

UNHEARD = "n9"
"""Of which it is not known in which epoch it acknowledged anything."""


def above_ok(s: Story) -> None:
    log = sent(s, node=UNHEARD)
    # Its own HW may be older than the read; and a question asked before the answer came may be too.
    s.poll(0, log, hw=3, process=20, invoked=50, completed=60)
    s.poll(0, log[:2], hw=2, process=21, consumer="c1", invoked=55, completed=65)


def above_bad(s: Story) -> None:
    log = sent(s, node=UNHEARD)
    s.poll(0, log, hw=3, process=20, invoked=50, completed=60)
    s.poll(0, log[:2], hw=2, process=21, consumer="c1", invoked=61, completed=65)


def told_ok(s: Story) -> None:
    """Empty answers: of one epoch none that was asked for later tells less, and the next epoch may begin lower."""
    log = sent(s)
    s.poll(0, log, process=20, invoked=50, completed=60)
    s.poll(4, [], hw=6, process=21, consumer="c1", invoked=61, completed=65)
    s.poll(4, [], hw=5, process=22, consumer="c2", invoked=64, completed=70)
    s.poll(4, [], hw=4, epoch=1, process=23, consumer="c3", invoked=71, completed=75)


def told_bad(s: Story) -> None:
    """An answer without a record told more than one that was asked for later."""
    log = sent(s)
    s.poll(0, log, process=20, invoked=50, completed=60)
    s.poll(4, [], hw=6, process=21, consumer="c1", invoked=61, completed=65)
    s.poll(4, [], hw=5, process=22, consumer="c2", invoked=66, completed=70)


def below_an_acknowledged(s: Story) -> None:
    """No answer had told an end as high; who had acknowledged the record had to have its watermark above it."""
    s.poll(0, [], process=20)
    log = sent(s, 2)
    s.poll(0, log[:1], process=21, consumer="c1")
    s.poll(0, log, process=20)


def not_acknowledged_by_all(s: Story) -> None:
    """By the leader alone, after the poll was asked for, by who may not have led in that epoch yet, and in another."""
    s.poll(0, [], epoch=3, process=20)
    s.send(1, 0, acks=1, process=1)
    s.poll(0, [], epoch=3, process=21, consumer="c1")
    now = s.now
    s.send(2, 1, process=2, invoked=now + 1, completed=now + 3)
    s.poll(0, [(0, 1)], epoch=3, process=21, consumer="c1", invoked=now + 2, completed=now + 4)
    s.send(3, 2, node="n2", process=3)
    s.poll(0, [(0, 1), (1, 2)], epoch=4, node="n2", process=22, consumer="c2")
    s.poll(2, [(2, 3)], epoch=4, node="n2", process=22, consumer="c2")


def _refused(s: Story, at: int, epoch: int, **how: Any) -> None:
    s.poll(at, outcome="fail", error="OFFSET_OUT_OF_RANGE", epoch=epoch, process=30, consumer="c9", **how)


def _refused_wrongly(s: Story, at: int, epoch: int) -> None:
    """Nothing was deleted there, as that leader says afterwards."""
    _refused(s, at, epoch)
    s.list_offsets(0, epoch=epoch, process=31, timestamp=-2)


def refused_ok(s: Story) -> None:
    """By a leader that had been deposed; beyond all that was shown; asked before that was; and with no epoch."""
    log = sent(s, node="n2")
    s.poll(0, log, epoch=1, process=20, node="n2", invoked=50, completed=60)
    s.poll(0, log, epoch=1, process=21, node="n2", consumer="c1")
    _refused(s, 4, 0)
    _refused(s, 5, 1, node="n2")
    _refused(s, 4, 1, node="n2", invoked=60, completed=62)
    _refused(s, 4, -1)


def refused_with_no_start(s: Story) -> None:
    """That leader's later answers say of no log start; retention may have raised it, for the record below is so old."""
    _refused_later(s, RETENTION_MS)


def refused_too_young(s: Story) -> None:
    """The same, and retention cannot have deleted that record yet."""
    _refused_later(s, RETENTION_MS - 100)


def _refused_later(s: Story, after_ms: int) -> None:
    """Of two records the first is as old as can be, and what was read is beyond the second."""
    s.send(1, 0, process=0)
    s.now += RETENTION_MS
    s.send(2, 1, process=1)
    s.poll(0, [(0, 1), (1, 2)], epoch=0, process=20)
    s.now += after_ms
    _refused(s, 2, 1)
    s.poll(2, [], epoch=1, log_start=-1, process=21, consumer="c1")


def nothing_shown(s: Story) -> None:
    """No end can be lower, and no read of an empty log's start is out of range."""
    for epoch in range(2):
        s.poll(0, [], epoch=epoch, process=20)
        s.list_offsets(0, epoch=epoch, process=21)


def refused_bad(s: Story) -> None:
    """By the next leader, whose watermark lags."""
    s.poll(0, sent(s), epoch=0, process=20)
    _refused_wrongly(s, 4, 1)


def refused_by_who_showed_it(s: Story) -> None:
    log = sent(s, node=UNHEARD)
    s.poll(0, log[:3], epoch=0, process=20)
    s.list_offsets(4, epoch=1, process=21)
    _refused_wrongly(s, 4, 1)


def refused_below_a_higher_epoch(s: Story) -> None:
    """Nobody showed as much in its epoch as in the next; what was shown in its own is enough."""
    log = sent(s, node=UNHEARD)
    s.poll(0, log[:2], epoch=0, process=20)
    s.poll(0, log, epoch=2, process=21, consumer="c1")
    _refused_wrongly(s, 2, 1)


def end_ok(s: Story) -> None:
    """Told lower by a leader that had been deposed, and to who asked before the higher one was shown."""
    log = sent(s, node="n2")
    s.poll(0, log, epoch=1, process=20, node="n2", invoked=50, completed=60)
    s.list_offsets(3, epoch=0, process=21)
    s.list_offsets(3, epoch=1, process=22, node="n2", isolation=1, invoked=60, completed=62)
    s.list_offsets(4, epoch=1, process=23, node="n2")
    s.list_offsets(0, epoch=1, process=24, node="n2", timestamp=-2)


def end_bad(s: Story) -> None:
    """The next leader tells a watermark that lags."""
    s.poll(0, sent(s), epoch=0, process=20)
    s.list_offsets(3, epoch=1, process=21)


def end_back_in_one_epoch(s: Story) -> None:
    """The end of what is committed for good, which is all where there are no transactions."""
    s.poll(0, sent(s), epoch=1, process=20)
    s.list_offsets(3, epoch=1, process=21, isolation=1)


def end_below_an_end(s: Story) -> None:
    """No poll showed it."""
    log = sent(s, node=UNHEARD)
    s.poll(0, log[:2], epoch=0, process=20)
    s.list_offsets(4, epoch=0, process=21)
    s.list_offsets(0, epoch=3, process=22)


def _acknowledged(s: Story, **fields: Any) -> None:
    """Two records, one of them read since where not all acknowledged; that leader was heard in epoch 3 before them, and
    after.
    """
    s.list_offsets(0, epoch=3, process=20)
    sent(s, 2, **fields)
    if fields:
        s.poll(0, [(0, 1)], epoch=3, process=20)
    else:
        s.list_offsets(0, epoch=3, timestamp=-2, process=20)


def end_below_an_acknowledged(s: Story) -> None:
    """All in sync had it, and that leader's watermark had passed it; so the next one has it."""
    _acknowledged(s)
    s.list_offsets(1, epoch=4, node="n2", process=21)


def end_not_acknowledged_by_all(s: Story) -> None:
    """By the leader alone; by one that may have been in a lower epoch yet; and asked for before it was acknowledged."""
    _acknowledged(s, acks=1)
    s.list_offsets(1, epoch=3, process=21)
    s.send(3, 2, node="n2", process=9)
    s.list_offsets(1, epoch=3, node="n2", process=21)
    now = s.now
    s.send(4, 3, process=9, invoked=now + 1, completed=now + 3)
    s.list_offsets(2, epoch=3, process=22, invoked=now + 2, completed=now + 4)
    s.list_offsets(4, epoch=3, process=22)


def refused_though_acknowledged(s: Story) -> None:
    _acknowledged(s)
    _refused_wrongly(s, 2, 3)


def refused_by_the_next(s: Story) -> None:
    """Whoever leads later has it."""
    _acknowledged(s)
    _refused(s, 2, 4, node="n2")
    s.list_offsets(0, epoch=4, node="n2", process=31, timestamp=-2)


def above_unknown(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20, epoch=-1)
