"""Stories of what clients had deleted, and what was shown or missing afterwards."""

from __future__ import annotations

from checkers.history.faults import Interruption
from tests.golden.black_parts import sent
from tests.support.histories import TICK_NS, Story

TOO_FAR = 1000
KILLED = 50_000_000
"""Ticks: when n1 is killed, long after most of these stories; it is back three seconds later."""
CHANGED = KILLED + 20_000
"""Ticks: when files of n3 are changed."""
INTERRUPTIONS = [
    Interruption(KILLED * TICK_NS, (KILLED + 3000) * TICK_NS, frozenset({"n1"})),
    Interruption(CHANGED * TICK_NS, (CHANGED + 1000) * TICK_NS, frozenset({"n3"}), forgets=True),
]


def _refused(s: Story) -> None:
    s.delete(TOO_FAR, outcome="fail", error="OFFSET_OUT_OF_RANGE", process=41)


def _deleted(s: Story) -> list[tuple[int, int]]:
    """Of four records, which a poll read, the first two are deleted on request; what is left."""
    log = sent(s)
    s.poll(0, log, process=20)
    _refused(s)
    s.delete(2, process=40)
    return log[2:]


def deleted_ok(s: Story) -> None:
    """Nothing of it is shown to who asks later; who asked before may see it, and so may one after a lower request."""
    log = sent(s)
    _refused(s)
    s.delete(2, process=40, invoked=50, completed=60)
    s.poll(0, log, process=20, invoked=55, completed=65)
    s.list_offsets(0, timestamp=-2, process=21, invoked=60, completed=66)
    s.delete(1, low=2, process=42)
    s.poll(2, log[2:], log_start=2, process=22, consumer="c1")
    s.list_offsets(2, timestamp=-2, process=23)


def deleted_and_read(s: Story) -> None:
    _deleted(s)
    # In an epoch of its own, so that no log start goes back.
    s.list_offsets(0, timestamp=-2, epoch=1, process=21)


def deleted_never(s: Story) -> None:
    """It is not known whether anything was."""
    log = sent(s)
    s.delete(2, outcome="info", error="REQUEST_TIMED_OUT", process=40)
    s.poll(0, log, process=20)


def deleted_and_answered(s: Story) -> None:
    """A poll from below is no refusal, though it returns nothing; its leader's log starts where nobody knows."""
    left = _deleted(s)
    s.poll(2, left, log_start=2, process=21, consumer="c1")
    s.poll(1, [], log_start=-1, epoch=1, process=22, consumer="c2")


def start_went_back(s: Story) -> None:
    """Of one leader, and nobody had acknowledged the deletion."""
    _reads_from_one(s, told=1)


def served_below_the_start(s: Story) -> None:
    """Of one leader, whose log begins where it says, and who serves what lies below all the same."""
    _reads_from_one(s, told=2)


def _reads_from_one(s: Story, told: int) -> None:
    """A log that was told to begin at 2 is read from 1, by an answer that says this start."""
    log = sent(s)
    _refused(s)
    s.delete(1, process=42)
    s.delete(2, outcome="info", error="timeout", process=40)
    s.poll(2, log[2:], log_start=2, process=20)
    s.poll(1, log[1:], log_start=told, process=21, consumer="c1")


def start_of_another_leader(s: Story) -> None:
    """One that is deposed, and another answer to who asked before; nobody had acknowledged the deletion."""
    log = sent(s)
    _refused(s)
    s.delete(1, process=42)
    s.delete(2, outcome="info", error="timeout", process=40)
    s.poll(2, log[2:], log_start=2, epoch=1, process=20, invoked=50, completed=60)
    s.poll(1, log[1:], log_start=1, epoch=1, process=21, consumer="c1", invoked=59, completed=65)
    s.poll(1, log[1:], log_start=1, epoch=0, process=22, consumer="c2", node="n2")


def _deleted_late(s: Story, at: int) -> list[tuple[int, int]]:
    """As `_deleted`, at n1, with the acknowledgement at that tick."""
    log = sent(s)
    s.poll(0, log, process=20)
    _refused(s)
    s.delete(2, process=40, invoked=at - 2, completed=at)
    return log


def _deleted_when_all_is_well(s: Story, log: list[tuple[int, int]]) -> None:
    s.delete(3, process=43, invoked=KILLED + 9000, completed=KILLED + 9001)
    s.poll(3, log[3:], log_start=3, epoch=2, process=23, consumer="c3")


def acknowledged_by_who_died(s: Story) -> None:
    """The next leader was there all the time, and has what was said to be deleted on every live replica."""
    log = _deleted_late(s, KILLED - 1)
    s.poll(0, log, epoch=1, process=21, consumer="c1", node="n2", invoked=KILLED + 500, completed=KILLED + 501)


def below_the_low_watermark(s: Story) -> None:
    """More was deleted on all of them than the request had asked for, and the answer said so."""
    log = sent(s)
    _refused(s)
    s.delete(2, low=3, process=40)
    s.poll(2, log[2:], log_start=2, epoch=1, process=21, node="n2")


def killed_before_it_was_written(s: Story) -> None:
    """Who leads again had no time to write it down."""
    log = _deleted_late(s, KILLED - 1)
    s.poll(2, log[2:], log_start=2, epoch=1, process=21, consumer="c1", node="n2")
    s.poll(0, log, epoch=2, process=22, consumer="c2", invoked=KILLED + 5000, completed=KILLED + 5001)
    _deleted_when_all_is_well(s, log)


def not_alive_when_acknowledged(s: Story) -> None:
    """It was asked of n2 while n1 was down: nobody waited for n1, which leads before it has heard of it."""
    log = sent(s)
    s.poll(0, log, process=20)
    _refused(s)
    s.delete(2, process=40, node="n2", invoked=KILLED + 1000, completed=KILLED + 1001)
    s.poll(0, log, epoch=2, process=22, consumer="c2", invoked=KILLED + 5000, completed=KILLED + 5001)
    _deleted_when_all_is_well(s, log)


def files_changed_since(s: Story) -> None:
    log = _deleted_late(s, CHANGED - 10_000)
    s.poll(0, log, epoch=1, process=21, node="n3", invoked=CHANGED + 5000, completed=CHANGED + 5001)


def deleted_after_files_changed(s: Story) -> None:
    """Long after that: it excuses nothing."""
    log = _deleted_late(s, CHANGED + 10_000)
    s.poll(0, log, epoch=1, process=21, node="n3")


def start_forgotten(s: Story) -> None:
    """By a broker that nothing interrupted, two epochs later; nobody had acknowledged the deletion."""
    log = sent(s)
    _refused(s)
    s.delete(1, process=42)
    s.delete(2, outcome="info", error="timeout", process=40)
    s.poll(2, log[2:], log_start=2, epoch=1, process=20, node="n2")
    s.poll(2, log[2:], log_start=2, epoch=2, process=21, consumer="c1", node="n3")
    s.list_offsets(1, timestamp=-2, epoch=3, process=22, node="n2")


def low_watermark_below(s: Story) -> None:
    """It was acknowledged before all replicas had done it."""
    log = sent(s)
    _refused(s)
    s.delete(2, low=1, process=40)
    s.poll(2, log[2:], log_start=2, process=20)


def deleted_beyond_the_end(s: Story) -> None:
    """What has to be refused was acknowledged."""
    log = sent(s)
    _refused(s)
    s.delete(2, process=40)
    s.poll(2, log[2:], log_start=2, process=20)
    s.delete(TOO_FAR, process=42)


def deleted_before_it_was_sent(s: Story) -> None:
    """What has to be refused was acknowledged; the log goes on behind it, where nothing ever was."""
    sent(s)
    _refused(s)
    s.delete(8, process=40)
    for nth in range(4):
        s.send(20 + nth, 8 + nth, process=50 + nth)
    s.poll(8, [(8 + nth, 20 + nth) for nth in range(4)], log_start=8, process=20)


def deleted_as_far_as_sent(s: Story) -> None:
    """Of a send without an answer it is not known when its records came; of one that failed, that none did."""
    sent(s)
    _refused(s)
    s.send([20, 21], outcome="info", process=50)
    s.send(22, outcome="fail", process=51)
    s.delete(6, process=40)
    s.send(23, 6, process=52)
    s.poll(6, [(6, 23)], log_start=6, process=20)


def lost_deleted(s: Story) -> None:
    """Below a log start that an acknowledged deletion set, or one of which nobody knows."""
    sent(s)
    s.delete(1, process=40)
    s.delete(2, outcome="info", error="timeout", process=41)
    s.poll(2, [(2, 3), (3, 4)], log_start=2, process=20)


def lost_beyond_deleted(s: Story) -> None:
    """The log begins above every offset that was asked for; a refused deletion deleted nothing."""
    sent(s)
    s.delete(1, process=40)
    _refused(s)
    s.poll(2, [(2, 3), (3, 4)], log_start=2, process=20)


def lost_beyond_asked(s: Story) -> None:
    """The only request that is high enough lies beyond the log's end: it has to be refused, and got no answer."""
    sent(s)
    s.delete(TOO_FAR, outcome="info", error="no-response", process=40)
    s.poll(2, [(2, 3), (3, 4)], log_start=2, process=20)


def lost_before_asked(s: Story) -> None:
    """It was gone before anybody had asked for its deletion."""
    sent(s)
    s.poll(2, [(2, 3), (3, 4)], log_start=2, process=20)
    s.delete(2, process=40)


def vanished_deleted(s: Story) -> None:
    left = _deleted(s)
    s.poll(2, left, log_start=2, process=21, consumer="c1")


def vanished_beyond_deleted(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20)
    s.delete(1, process=40)
    s.poll(2, log[2:], log_start=2, process=21, consumer="c1")


def refused_deleted(s: Story) -> None:
    """A read of what had been shown, and was deleted since."""
    _deleted(s)
    s.poll(1, outcome="fail", error="OFFSET_OUT_OF_RANGE", epoch=0, process=30, consumer="c9")


def refused_beyond_deleted(s: Story) -> None:
    """Nobody asked for the deletion of the record below."""
    _deleted(s)
    s.poll(3, outcome="fail", error="OFFSET_OUT_OF_RANGE", epoch=0, process=30, consumer="c9")


def refused_where_it_begins(s: Story) -> None:
    """The two records below were deleted, and the log begins with the third."""
    _deleted(s)
    s.poll(2, outcome="fail", error="OFFSET_OUT_OF_RANGE", epoch=1, process=30, consumer="c9")
