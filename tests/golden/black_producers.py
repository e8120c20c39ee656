"""Stories of idempotent producers: what goes out again, and what a leader says of it."""

from __future__ import annotations

from typing import Any

from tests.support.histories import Story


def _send(s: Story, value: int, sequence: int, offset: int | None = None, **how: Any) -> int:
    """A batch of one record by producer 7; each request is of another process."""
    how = {"process": len(s.lines), "producer_epoch": 0, **how}
    if how.get("resends") is None:
        how.pop("resends", None)
    return s.send(value, offset, producer_id=7, sequence=sequence, **how)


def _refused(s: Story, value: int, sequence: int, error: str = "OUT_OF_ORDER_SEQUENCE_NUMBER", **how: Any) -> int:
    op = _send(s, value, sequence, outcome="fail", **how)
    s.lines[-1]["error"] = error
    return op


def _read(s: Story, *values: int) -> None:
    s.poll(0, list(enumerate(values)), process=900)


def sent_again(s: Story) -> None:
    """Answered at last, where it had been appended at first; and once more; and when the leader knew it no more."""
    first = _send(s, 1, 0, 0)
    lost = _send(s, 2, 1, outcome="info")
    _send(s, 2, 1, 1, resends=lost)
    _send(s, 2, 1, 1, resends=lost)
    _refused(s, 1, 0, resends=first)
    _refused(s, 1, 0, "DUPLICATE_SEQUENCE_NUMBER", resends=first)
    _read(s, 1, 2)


def another_offset(s: Story) -> None:
    first = _send(s, 1, 0, 0)
    _send(s, 2, 1, 1)
    _send(s, 1, 0, 2, resends=first)
    s.poll(0, [(0, 1), (1, 2)], hw=3, process=900)


def never_again(s: Story) -> None:
    _send(s, 1, 0, 0)
    _read(s, 1)


def out_of_order(s: Story) -> None:
    """The later one was taken first."""
    _send(s, 1, 0, 0)
    lost = _send(s, 2, 1, outcome="info")
    _send(s, 3, 2, 1)
    _send(s, 2, 1, 2, resends=lost)
    _read(s, 1, 3, 2)


def read_out_of_order(s: Story) -> None:
    """Of the earlier one no answer ever came; it was taken after the later one."""
    _send(s, 1, 0, 0)
    _send(s, 2, 1, outcome="info")
    _send(s, 3, 2, 1)
    _read(s, 1, 3, 2)


def read_in_order(s: Story) -> None:
    _send(s, 1, 0, 0)
    _send(s, 2, 1, outcome="info")
    _send(s, 3, 2, 2)
    _read(s, 1, 2, 3)


def read_without_predecessor(s: Story) -> None:
    """What stands before it was refused, and of its own request no answer came."""
    _send(s, 1, 0, 0)
    _refused(s, 2, 1, "NOT_ENOUGH_REPLICAS")
    _send(s, 3, 2, outcome="info")
    _read(s, 1, 3)


def no_predecessor(s: Story) -> None:
    """What stands before it was refused, each time."""
    _send(s, 1, 0, 0)
    first = _refused(s, 2, 1, "NOT_ENOUGH_REPLICAS")
    _refused(s, 2, 1, "NOT_ENOUGH_REPLICAS", resends=first)
    _send(s, 3, 2, 1)
    _read(s, 1, 3)


def refused_though_next(s: Story) -> None:
    _send(s, 1, 0, 0)
    _refused(s, 2, 1)
    _read(s, 1)


def fenced_by_nobody(s: Story) -> None:
    _send(s, 1, 0, 0)
    _refused(s, 2, 1, "INVALID_PRODUCER_EPOCH")
    _read(s, 1)


def stale_taken(s: Story) -> None:
    """The epoch after it had been acknowledged."""
    _send(s, 1, 0, 0)
    _send(s, 2, 0, 1, producer_epoch=1)
    _send(s, 3, 1, 2)
    _read(s, 1, 2, 3)


def refused_rightly(s: Story) -> None:
    """Far ahead; across what is acknowledged; under an epoch that is over; and at once with the one before it."""
    _send(s, 1, 0, 0)
    _refused(s, 2, 1000)
    _refused(s, 3, 0)
    _send(s, 4, 1, 1, invoked=50, completed=60)
    _refused(s, 5, 2, invoked=51, completed=55)
    s.now = 70
    _send(s, 6, 0, 2, producer_epoch=1)
    _refused(s, 7, 2, "INVALID_PRODUCER_EPOCH")
    _read(s, 1, 4, 6)


def taken_when_sent_again(s: Story) -> None:
    """The first request had no effect, and the second had; or it says that an earlier one had."""
    _send(s, 1, 0, 0)
    first = _refused(s, 2, 1, "NOT_ENOUGH_REPLICAS")
    _send(s, 2, 1, 1, resends=first)
    other = _refused(s, 3, 2, "NOT_ENOUGH_REPLICAS")
    _refused(s, 3, 2, "DUPLICATE_SEQUENCE_NUMBER", resends=other)
    _read(s, 1, 2, 3)


def refused_each_time(s: Story) -> None:
    _send(s, 1, 0, 0)
    first = _refused(s, 2, 1, "NOT_ENOUGH_REPLICAS")
    _refused(s, 2, 1, "NOT_ENOUGH_REPLICAS", resends=first)
    _read(s, 1, 2)


def _shown_by_two(s: Story, epochs: tuple[int, int]) -> None:
    """A batch whose answer was lost is read, and sent again to the next leader, of epoch 1; who reads it there too.

    epochs: in which its record was written, by who read it there.
    """
    _send(s, 1, 0, 0)
    lost = _send(s, 2, 1, outcome="info")
    _read(s, 1, 2)
    _send(s, 2, 1, 1, resends=lost, node="n2")
    s.poll(0, [(0, 1), (1, 2)], epoch=1, node="n2", process=901, consumer="c1")
    for line, epoch in zip([line for line in s.lines if "records" in line], epochs, strict=True):
        for record, written in zip(line["records"], (0, epoch), strict=True):
            record["epoch"] = written


def known_to_the_next_leader(s: Story) -> None:
    _shown_by_two(s, (0, 0))


def appended_by_the_next_leader(s: Story) -> None:
    """It was shown before it was committed, and the next leader did not have it."""
    _shown_by_two(s, (0, 1))


def appended_twice(s: Story) -> None:
    first = _send(s, 1, 0, 0)
    _send(s, 2, 1, 1)
    _send(s, 1, 0, 2, resends=first)
    _read(s, 1, 2, 1)
