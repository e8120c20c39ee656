"""Stories of what belongs together: records of one send, offsets of one poll, and what was committed with them."""

from __future__ import annotations

from tests.golden.black_parts import sent
from tests.support.histories import Story


def batch_ok(s: Story) -> None:
    """An answer that was lost: its records stand one behind the other, and a record of nobody's between two sends."""
    s.send(1, 0, process=1)
    s.send([2, 3], outcome="info", process=2)
    s.send([4, 5, 6], 3, process=3)
    s.poll(0, [(0, 1), (1, 2), (2, 3)], hw=6, process=20)
    # Two of the three were read.
    s.poll(3, [(3, 4), (4, 5)], hw=6, process=20)


def batch_reversed(s: Story) -> None:
    s.send(1, 0, process=1)
    s.send([2, 3], outcome="info", process=2)
    s.poll(0, [(0, 1), (1, 3), (2, 2)], process=20)


def batch_parted(s: Story) -> None:
    """In order, and another send's record between them."""
    s.send([2, 3], outcome="info", process=2)
    s.send(9, outcome="info", process=9, invoked=1, completed=5)
    s.poll(0, [(0, 2), (1, 9), (2, 3)], process=20)


def batch_torn(s: Story) -> None:
    """Where the other one must stand, another send's record does."""
    s.send(1, 0, process=1)
    s.send([2, 3], outcome="info", process=2)
    s.send(9, outcome="info", process=9)
    s.poll(0, [(0, 1), (1, 2), (2, 9)], process=20)


def batch_torn_of_one_ack(s: Story) -> None:
    """acks=1 may take back a batch, not a part of it: one record was read, so that all of it was committed."""
    s.harness("leadership", topic=s.topic, partition=0, leader="n1", epoch=0, isr=[1, 2])
    s.send(1, 0, process=1)
    s.send([2, 3], 1, acks=1, process=2)
    s.poll(0, [(0, 1), (1, 2)], process=20)
    s.harness("leadership", topic=s.topic, partition=0, leader="n2", epoch=1, isr=[1, 2])
    s.poll(2, [], next_position=3, epoch=1, node="n2", process=21, consumer="c1")


def batch_torn_where_nothing_stands(s: Story) -> None:
    s.send(1, 0, process=1)
    s.send([2, 3], outcome="info", process=2)
    s.send(4, 3, process=4)
    s.poll(0, [(0, 1), (1, 2), (3, 4)], process=20)


def hole_ok(s: Story) -> None:
    """The log's start moved, and a real client whose position lay below it, where nobody knows of a record, jumped."""
    s.send(1, 0, process=1)
    s.send(2, outcome="info", process=2)
    s.send(3, 2, process=3)
    s.poll(0, [(0, 1)], hw=3, process=20)
    s.now += 60_000
    s.poll(2, [(2, 3)], log_start=2, process=21, consumer="c1")
    s.poll(1, [(2, 3)], process=22, consumer="c2", reader="confluent")


def hole_between_markers(s: Story) -> None:
    """A marker has an offset, and no reader is given it."""
    s.send(1, 0, process=1, txn=1, transactional_id="t", producer_id=1, producer_epoch=0, sequence=0)
    s.coordinate("end_txn", txn=1, transactional_id="t", producer_id=1, producer_epoch=0, commit=True, process=1)
    s.send(2, 2, process=2)
    s.poll(0, [(0, 1), (2, 2)], process=20)


def hole_bad(s: Story) -> None:
    """Nobody knows of a record at 1, and there is one, or the log has a gap."""
    s.send(1, 0, process=1)
    s.send(3, 2, process=3)
    s.poll(0, [(0, 1), (2, 3)], process=20)


def hole_at_the_end(s: Story) -> None:
    """The position goes on beyond what was returned."""
    log = sent(s)
    s.poll(0, log, next_position=5, process=20)


def hole_below_a_start(s: Story) -> None:
    """The log's start explains where a poll begins, and no gap above it."""
    sent(s)
    s.now += 60_000
    s.poll(2, [(2, 3)], hw=4, log_start=2, process=21, consumer="c1")
    s.send(7, 6, process=7)
    s.poll(2, [(2, 3), (3, 4), (6, 7)], log_start=2, process=22, consumer="c2")


def _leads(s: Story, leader: str, epoch: int) -> None:
    s.harness("leadership", topic=s.topic, partition=0, leader=leader, epoch=epoch, isr=[1, 2])


def told_ok(s: Story) -> None:
    """An end was told while the send was under way; and one that a deposed leader took with acks=1."""
    s.send(1, 0, process=1)
    s.send(2, 1, process=2, invoked=5, completed=9)
    s.list_offsets(2, process=20, invoked=6, completed=8)
    _leads(s, "n1", 0)
    _leads(s, "n2", 1)
    s.list_offsets(5, epoch=1, node="n2", process=21)
    s.send(3, 2, acks=1, process=3, node="n1")


def told_bad(s: Story) -> None:
    """The leader of epoch 0 told an end of 3, of which nobody knows the records; the next one appends at 1."""
    s.send(1, 0, process=1)
    s.list_offsets(3, process=20)
    s.send(9, 1, process=2, node="n2")
    s.poll(0, [(0, 1), (1, 9)], epoch=1, node="n2", process=21, consumer="c1")


def told_by_watermark(s: Story) -> None:
    """acks=1, and its record was read, so that it is committed there."""
    s.send(1, 0, process=1)
    s.poll(0, [(0, 1)], hw=3, process=20)
    s.send(9, 1, acks=1, process=2, node="n2")
    s.poll(0, [(0, 1), (1, 9)], epoch=1, node="n2", process=21, consumer="c1")


def _committed_and(s: Story, watermark: int) -> None:
    """Value 2 at offset 1, confirmed by one broker, that broker's watermark, and another leader."""
    _leads(s, "n1", 0)
    s.send(1, 0, process=1)
    s.send(2, 1, acks=1, process=2)
    s.poll(0, [(0, 1)], hw=watermark, process=20)
    _leads(s, "n2", 1)


def one_ack_uncommitted(s: Story) -> None:
    """No watermark passed it: acks=1 may take it back."""
    _committed_and(s, 1)
    s.send(9, 1, process=9, node="n2")
    s.poll(0, [(0, 1), (1, 9)], epoch=1, node="n2", process=21, consumer="c1")


def one_ack_replaced(s: Story) -> None:
    """A watermark passed it: whatever acks was, it is committed. Its successor has another record there."""
    s.send(9, outcome="info", process=9)
    _committed_and(s, 2)
    s.poll(0, [(0, 1), (1, 9)], epoch=1, node="n2", process=21, consumer="c1")


def one_ack_shown_by_a_follower(s: Story) -> None:
    """A follower of that leader's epoch had a watermark above it, which it has from its leader."""
    _committed_and(s, 1)
    s.poll(2, hw=2, node="n3", process=30, consumer="near", reader="follower")
    s.poll(0, [(0, 1)], epoch=1, next_position=2, node="n2", process=21, consumer="c1")


def one_ack_in_a_later_epoch(s: Story) -> None:
    """Its leader is heard in that epoch before the send, and after it."""
    _leads(s, "n1", 3)
    s.send(1, 0, process=1)
    s.poll(0, [(0, 1)], epoch=3, process=20)
    s.send(2, 1, acks=1, process=2)
    s.list_offsets(2, epoch=3, process=22)
    _leads(s, "n2", 4)
    s.poll(0, [(0, 1)], next_position=2, epoch=4, node="n2", process=21, consumer="c1")


def one_ack_told_by_another(s: Story) -> None:
    """The watermark is of a leader that never had the record."""
    _leads(s, "n1", 0)
    s.send(1, 0, process=1)
    s.send(2, 1, acks=1, process=2)
    _leads(s, "n2", 1)
    s.send(9, 1, process=9, node="n2")
    s.poll(0, [(0, 1), (1, 9)], epoch=1, node="n2", process=21, consumer="c1")


def no_offset_told(s: Story) -> None:
    """A success that says not where: by a broker that has to."""
    log = sent(s)
    s.send(5, None, process=5)
    s.poll(0, [*log, (4, 5)], process=20)


def no_offset_told_and_unread(s: Story) -> None:
    """A real client need not know; but nobody reads it, and no drain looked."""
    log = sent(s)
    s.send(5, None, process=5, reader="confluent")
    s.poll(0, log, process=20)
