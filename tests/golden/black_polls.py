"""Stories of what one poll, and one consumer from poll to poll, passes over or goes back to."""

from __future__ import annotations

from tests.golden.black_parts import sent
from tests.golden.limits import RETENTION_MS
from tests.support.histories import Story


def int_skip_ok(s: Story) -> None:
    log = sent(s)
    # The offset that it passed over, of a marker, is a gap that nobody ever read anything at.
    s.poll(0, [*log, (5, 6)], process=20, invoked=50, completed=60)
    s.send(6, 5, process=30, invoked=40, completed=45, txn=1, transactional_id="t")


def int_skip_bad(s: Story) -> None:
    log = sent(s)
    s.poll(0, [log[0], log[2], log[3]], process=20, invoked=50, completed=60)
    s.poll(0, log, process=21, consumer="c1", invoked=51, completed=61)


def skip_ok(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20)
    # The wire reader may seek where it likes.
    s.poll(0, log[:1], hw=4, process=21, consumer="c1")
    s.poll(3, log[3:], process=21, consumer="c1")
    s.poll(0, log[:1], hw=4, process=22, consumer="c2", reader="confluent")
    s.poll(1, log[1:], node="n2", process=22, consumer="c2", reader="confluent")


def skip_never_risked(s: Story) -> None:
    """The client is asked for its position after polls of one leader, or of the drain."""
    log = sent(s)
    s.poll(0, log[:1], process=22, consumer="c2", reader="confluent")
    s.poll(1, log[1:], process=22, consumer="c2", reader="confluent")
    s.poll(0, log[:1], process=23, consumer="c3", reader="confluent", phase="drain-0")
    s.poll(1, log[1:], node="n2", process=23, consumer="c3", reader="confluent", phase="drain-0")


def skip_bad(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20)
    s.poll(0, log[:1], process=21, consumer="c1", reader="confluent")
    s.poll(3, log[3:], process=21, consumer="c1", reader="confluent")


def no_polls(s: Story) -> None:
    sent(s)


def int_nonmonotonic_bad(s: Story) -> None:
    log = sent(s)
    s.poll(0, [log[1], log[0], log[2], log[3]], process=20)


def epochs_fall(s: Story) -> None:
    """A record of an earlier leader stands above one of a later leader."""
    s.poll(0, sent(s), epoch=2, epochs=[0, 2, 1, 2], process=20)


def epoch_to_come(s: Story) -> None:
    """The leader of epoch 1 has a record that the leader of epoch 2 wrote."""
    s.poll(0, sent(s), epoch=1, epochs=[0, 1, 1, 2], process=20)


def epochs_ascend(s: Story) -> None:
    """Records of several epochs, up to that of the answer; of a real client's nothing is known."""
    log = sent(s)
    s.poll(0, log, epoch=2, epochs=[0, 1, 1, 2], process=20)
    s.poll(0, log, reader="confluent", process=21, consumer="c1")


def nonmonotonic_ok(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20)
    s.poll(1, log[1:], process=20)
    s.poll(0, log, process=21, consumer="c1", reader="confluent")
    s.poll(4, [], process=21, consumer="c1", reader="confluent", outcome="fail")
    s.poll(4, [], process=21, consumer="c1", reader="confluent")


def nonmonotonic_bad(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20, reader="confluent")
    s.poll(1, log[1:], process=20, reader="confluent")


def _jumped(s: Story, after_ms: int) -> None:
    """A real client, subscribed, is given 0, and next what lies behind 1 and 2: by then these are so old. Another one
    is given all that at once, and both were read before. The log begins at 3, as is told later.
    """
    log = sent(s)
    s.poll(0, log, process=20)
    s.poll(0, log[:1], process=22, consumer="c2", reader="confluent", group="g")
    s.now += after_ms
    s.send(5, 4, process=5)
    s.poll(3, [log[3], (4, 5)], process=22, consumer="c2", reader="confluent", group="g")
    s.poll(0, [log[0], log[3], (4, 5)], process=23, consumer="c3", reader="confluent", group="g")
    s.now += RETENTION_MS
    s.poll(3, [log[3], (4, 5)], log_start=3, process=21, consumer="c1")


def jumped_to_the_start(s: Story) -> None:
    _jumped(s, RETENTION_MS)


def jumped_too_early(s: Story) -> None:
    """They were not old enough."""
    _jumped(s, RETENTION_MS - 100)


def jumped_beyond_the_start(s: Story) -> None:
    """No response of the run has a log start above what it passed over."""
    log = sent(s)
    s.poll(0, log, process=20)
    s.now += RETENTION_MS
    s.poll(0, [log[0], log[3]], process=23, consumer="c3", reader="confluent", group="g")
    s.poll(1, log[1:], log_start=1, process=21, consumer="c1")
