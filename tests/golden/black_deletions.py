"""Stories of what clients had deleted, and what was shown or missing afterwards."""

from __future__ import annotations

from tests.golden.black_parts import sent
from tests.support.histories import Story

TOO_FAR = 1000


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
    log = sent(s)
    _refused(s)
    s.delete(1, process=42)
    s.delete(2, outcome="info", error="timeout", process=40)
    s.poll(2, log[2:], log_start=2, process=20)
    s.poll(1, log[1:], log_start=1, process=21, consumer="c1")


def start_of_another_leader(s: Story) -> None:
    """One that is deposed, and another answer to who asked before; nobody had acknowledged the deletion."""
    log = sent(s)
    _refused(s)
    s.delete(1, process=42)
    s.delete(2, outcome="info", error="timeout", process=40)
    s.poll(2, log[2:], log_start=2, epoch=1, process=20, invoked=50, completed=60)
    s.poll(1, log[1:], log_start=1, epoch=1, process=21, consumer="c1", invoked=59, completed=65)
    s.poll(1, log[1:], log_start=1, epoch=0, process=22, consumer="c2")


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
