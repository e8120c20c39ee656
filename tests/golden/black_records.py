"""Stories of records and where they stand: read of nobody's, twice, under another's offset, or not at all."""

from __future__ import annotations

from tests.golden.black_parts import sent
from tests.golden.limits import RETENTION_MS
from tests.support.histories import Story


def phantom_ok(s: Story) -> None:
    log = sent(s)
    s.send(9, outcome="info", process=9)
    s.poll(0, [*log, (4, 9)], process=20)


def phantom_bad(s: Story) -> None:
    log = sent(s)
    s.poll(0, [*log, (4, 9)], process=20)


def nothing_read(s: Story) -> None:
    sent(s)
    s.poll(0, [], hw=4, process=20)


def aborted_ok(s: Story) -> None:
    log = sent(s)
    s.send(9, outcome="fail", process=9)
    s.poll(0, log, process=20)


def aborted_bad(s: Story) -> None:
    log = sent(s)
    s.send(9, outcome="fail", process=9)
    s.poll(0, [*log, (4, 9)], process=20)


def same_twice(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20)
    s.poll(0, log, process=21, consumer="c1")


def inconsistent_bad(s: Story) -> None:
    log = sent(s)
    s.send(9, outcome="info", process=9)
    first = s.poll(0, [*log, (4, 9)], process=20, invoked=100, completed=110)
    assert first
    # An unknown send at the same offset, in a poll that overlaps the first: neither was there before the other.
    s.send(10, outcome="info", process=10, invoked=50, completed=60)
    s.poll(0, [*log, (4, 10)], process=21, consumer="c1", invoked=101, completed=111)


def duplicate_bad(s: Story) -> None:
    log = sent(s)
    s.poll(0, [*log, (4, 4)], process=20)


def sent_in_two_batches(s: Story) -> None:
    """A generator that took a value twice: what was acknowledged at offset 4 is nowhere, and nobody can tell."""
    s.invoke("add_partitions", topic=None, txn=1, partitions=[f"{s.topic}-0"])
    log = sent(s)
    s.send(4, 4, process=9)
    s.poll(0, log, next_position=5, process=20)


def sent_in_two_batches_and_read_twice(s: Story) -> None:
    """Each of them may stand where it was acknowledged."""
    log = sent(s)
    s.send(4, 4, process=9)
    s.poll(0, [*log, (4, 4)], process=20)


def sent_twice_in_a_batch(s: Story) -> None:
    """A generator that put a value into a batch twice: a log that keeps both has it at two offsets."""
    log = sent(s)
    s.send([5, 5], 4, process=9)
    s.poll(0, [*log, (4, 5), (5, 5)], process=20)


def sent_twice_in_a_batch_and_read_once(s: Story) -> None:
    """Which of the two is gone, nobody can tell; nor that one is, where transactions write."""
    s.invoke("add_partitions", topic=None, txn=1, partitions=[f"{s.topic}-0"])
    log = sent(s)
    s.send([5, 5], 4, process=9)
    s.poll(0, [*log, (4, 5)], next_position=6, process=20)


def far_beyond(s: Story) -> None:
    """A leader tells the greatest numbers that there are."""
    log = sent(s)
    most = (1 << 63) - 1
    s.send([8, 9], most, process=8)
    s.poll(0, log, process=20, hw=most)
    s.poll(0, [*log, (most, 4)], next_position=most, log_start=-most - 1, process=21, consumer="c1")
    s.list_offsets(most, process=22)


def _sent_again_by_its_client(s: Story, epoch: int, reader: str = "wire", acks: int = -1) -> None:
    """Value 5 at offset 4, whose leader was deposed, and at 5, by a leader of that epoch, where that reader saw it."""
    log = sent(s)
    s.send(5, 5, process=5, reader="confluent", node=None, acks=acks)
    s.poll(0, [*log, (4, 5)], process=20)
    s.poll(5, [(5, 5)], process=21, consumer="c1", epoch=epoch, reader=reader)


def sent_again_by_its_client(s: Story) -> None:
    _sent_again_by_its_client(s, 1)


def sent_in_between(s: Story) -> None:
    """Value 5 is read at offset 4; value 6 is sent after that, and stands below where 5 is acknowledged in the end."""
    log = sent(s)
    twice = s.invoke("send", values=[5], acks=-1, sentinel=False, process=5, reader="confluent", node=None)
    s.poll(0, [*log, (4, 5)], process=20)
    s.send(6, 5, process=6)
    s.complete(twice, base_offset=6)
    s.poll(5, [(5, 6), (6, 5)], process=21, consumer="c1", epoch=1)


def sent_again_in_one_epoch(s: Story) -> None:
    """No leader was deposed in between, so its client sent it once."""
    _sent_again_by_its_client(s, 0)


def sent_again_for_one_ack(s: Story) -> None:
    """Who waits for no follower has an answer from before the append, or from after it."""
    _sent_again_by_its_client(s, 1, acks=1)


def sent_again_nobody_knows_when(s: Story) -> None:
    """The real client does not say of which leader epoch the second one is."""
    _sent_again_by_its_client(s, 1, reader="confluent")


def sent_again_and_acknowledged_where_nobody_read_it(s: Story) -> None:
    """Two of three places are of epochs of their own; of the one in between nobody knows."""
    log = sent(s)
    twice = s.invoke("send", values=[5], acks=-1, sentinel=False, process=5, reader="confluent", node=None)
    s.complete(twice, base_offset=5)
    s.poll(0, [*log, (4, 5)], process=20)
    s.poll(6, [(6, 5)], process=21, consumer="c1", epoch=1)


def lost_ok(s: Story) -> None:
    log = sent(s)
    s.poll(0, log[:2], hw=4, process=20)
    s.poll(2, log[2:], process=20)


def lost_bad(s: Story) -> None:
    log = sent(s)
    # Offset 2 passed over: value 3 was acknowledged there and nobody ever read it.
    s.poll(0, [*log[:2], log[3]], process=20)


def lost_without_offset(s: Story) -> None:
    """The real client knew that value 5 is in the log, and not where; a drain of all of it does not return it."""
    log = sent(s)
    s.send(5, None, process=5, reader="confluent")
    s.poll(0, log, phase="drain-0", process=20)
    s.drained(4)


def found_without_offset(s: Story) -> None:
    """The drain shows where it is."""
    log = sent(s)
    s.send(5, None, process=5, reader="confluent")
    s.poll(0, [*log, (4, 5)], phase="drain-0", process=20)
    s.drained(5)


def _start_told(s: Story, after_ms: int) -> None:
    """The log starts at 2 so long after the records were sent."""
    s.now += after_ms
    s.send(5, 4, process=5)
    s.poll(2, [(2, 3), (3, 4), (4, 5)], log_start=2, process=21, consumer="c1")


def lost_expired(s: Story) -> None:
    sent(s)
    _start_told(s, RETENTION_MS)


def lost_young(s: Story) -> None:
    sent(s)
    _start_told(s, RETENTION_MS - 100)
    # Who tells it later only repeats it.
    _told_again(s)


def _told_again(s: Story) -> None:
    s.now += RETENTION_MS
    s.poll(2, [(2, 3), (3, 4), (4, 5)], log_start=2, process=22, consumer="c2")


def lost_passed_over(s: Story) -> None:
    """It was gone long before it was old enough."""
    log = sent(s)
    s.poll(0, [log[0], *log[2:]], process=20)
    _start_told(s, RETENTION_MS)


def lost_jumped_over(s: Story) -> None:
    """A real client, whose position lay below the log's start, jumped there between two of its records."""
    log = sent(s)
    s.now += RETENTION_MS
    s.poll(0, [log[0], *log[2:]], process=20, reader="confluent", group="g")
    _start_told(s, 10)


def lost_jumped_too_early(s: Story) -> None:
    """It was not old enough when the client passed over it, but when the log's start was told."""
    log = sent(s)
    s.poll(0, [log[0], *log[2:]], process=20, reader="confluent", group="g")
    _start_told(s, RETENTION_MS)


def vanished_expired(s: Story) -> None:
    s.poll(0, sent(s), process=20)
    _start_told(s, RETENTION_MS)


def vanished_young(s: Story) -> None:
    """Of the two that are gone one was old enough."""
    s.send(1, 0, process=1)
    s.now += RETENTION_MS
    log = [(0, 1)]
    for nth in range(1, 4):
        s.send(nth + 1, nth, process=nth)
        log.append((nth, nth + 1))
    s.poll(0, log, process=20)
    _start_told(s, 10)


def vanished_ok(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20)
    # A shorter answer is no loss: it passes over less.
    s.poll(0, log[:2], hw=4, process=21, consumer="c1")


def vanished_bad(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20)
    s.poll(0, [log[0], log[2], log[3]], process=21, consumer="c1")


def vanished_below_earliest(s: Story) -> None:
    """Polls say that the log starts at 0, ListOffsets says 2."""
    log = sent(s)
    s.poll(0, log, process=20)
    s.list_offsets(2, timestamp=-2, process=21)


def no_sends(s: Story) -> None:
    s.poll(0, [], process=20)


def unseen_bad(s: Story) -> None:
    log = sent(s)
    s.poll(0, log[:3], hw=4, process=20)
