"""Golden histories of compaction: which story is which case of which anomaly."""

from __future__ import annotations

from collections.abc import Callable

from checkers.history.retention import TOMBSTONES_MS
from tests.support.compaction_stories import OF_SENTINELS, Compacted
from tests.support.histories import Story

Tell = Callable[[Story], None]


def _begun(s: Story) -> Compacted:
    """Offsets 0 … 6: key 1 three times, key 2 and then its tombstone, key 3 once; and the sentinel."""
    topic = Compacted(s)
    topic.send(1)
    topic.send(2)
    topic.send(1)
    topic.send(3)
    topic.send(2, tombstone=True)
    topic.send(1)
    topic.send(OF_SENTINELS)
    return topic


def ok(s: Story) -> None:
    """Cleaned in part; as far as can be; and once more, when the tombstone is gone too."""
    topic = _begun(s)
    topic.read(topic.cleaned(lambda one: one.offset == 0))
    topic.read(topic.cleaned())
    topic.read([one for one in topic.cleaned() if not one.tombstone])


def last_bad(s: Story) -> None:
    """Key 3 is gone, and no tombstone was ever sent."""
    topic = _begun(s)
    topic.read([one for one in topic.cleaned() if one.key != 3])


def _in_pieces(s: Story, begins: int, epoch: int) -> None:
    """Key 3, of offset 3, is in neither poll. begins, epoch: of the second."""
    topic = _begun(s)
    kept = [(one.offset, one.value) for one in topic.cleaned() if one.key != 3]
    end, phase = len(topic.records), "drain-n1"
    for at, until, led in ((0, 3, 5), (begins, end, epoch)):
        here = [record for record in kept if at <= record[0] < until]
        s.poll(at, here, next_position=until, epoch=led, consumer="drain-0", phase=phase)
    s.drained(end, phase=phase)


def last_in_two_leaderships(s: Story) -> None:
    _in_pieces(s, 3, 7)


def last_jumped_over(s: Story) -> None:
    _in_pieces(s, 4, 5)


def last_in_two_polls(s: Story) -> None:
    _in_pieces(s, 3, 5)


def last_doubtful(s: Story) -> None:
    """Key 3 is gone, and a tombstone of it may have been written."""
    topic = _begun(s)
    topic.send(3, tombstone=True, acked=False, written=False)
    topic.read([one for one in topic.cleaned() if one.key != 3])


def last_shown_elsewhere(s: Story) -> None:
    """The tombstone of key 3 had gone from the first replica; the second one, which knows it still, shows it."""
    topic = _begun(s)
    topic.send(3, tombstone=True, acked=False)
    topic.send(OF_SENTINELS)
    topic.read([one for one in topic.cleaned() if one.key != 3])
    topic.read(topic.cleaned())


def last_deleted_before(s: Story) -> None:
    """The tombstone of which nobody had heard when the reading began stands below the last value."""
    topic = _begun(s)
    topic.send(3, tombstone=True, acked=False)
    topic.send(3)
    topic.send(OF_SENTINELS)
    topic.read([one for one in topic.cleaned() if one.key != 3])
    topic.read(topic.records)


def old_bad(s: Story) -> None:
    """Of key 1 the second value is the last."""
    topic = _begun(s)
    topic.read([one for one in topic.records if one.offset not in (0, 5)])


def old_deleted(s: Story) -> None:
    """The tombstone of key 2 is gone, and what it deleted is not."""
    topic = _begun(s)
    topic.read([one for one in topic.records if one.offset not in (0, 2, 4)])


def old_slow(s: Story) -> None:
    """The same, in a day: the tombstone may have gone once the reading had passed what it deleted."""
    topic = _begun(s)
    topic.read([one for one in topic.records if one.offset not in (0, 2, 4)], ticks=TOMBSTONES_MS + 1)


def old_slow_and_doubtful(s: Story) -> None:
    """The last value of key 1 is gone, and a tombstone of it may have been written, and gone as well, in a day."""
    topic = _begun(s)
    topic.send(1, tombstone=True, acked=False, written=False)
    topic.read([one for one in topic.records if one.offset not in (0, 5)], ticks=TOMBSTONES_MS + 1)


def old_doubtful(s: Story) -> None:
    """The same at once: no tombstone goes so soon."""
    topic = _begun(s)
    topic.send(1, tombstone=True, acked=False, written=False)
    topic.read([one for one in topic.records if one.offset not in (0, 5)])


def nothing_cleaned(s: Story) -> None:
    """Every record is there still: no cleaner has shown anything."""
    topic = _begun(s)
    topic.read(topic.records)


COMPACTION: dict[str, tuple[Tell, Tell, Tell]] = {
    "last-value": (ok, last_bad, last_doubtful),
    "old-value": (ok, old_bad, nothing_cleaned),
}
MORE_COMPACTION: dict[tuple[str, str], Tell] = {
    ("old-value", "bad-deleted"): old_deleted,
    ("old-value", "unknown-slow"): old_slow,
    ("old-value", "unknown-slow-and-doubtful"): old_slow_and_doubtful,
    ("old-value", "bad-doubtful"): old_doubtful,
    ("last-value", "unknown-shown-elsewhere"): last_shown_elsewhere,
    ("last-value", "bad-deleted-before"): last_deleted_before,
    ("last-value", "unknown-two-leaderships"): last_in_two_leaderships,
    ("last-value", "unknown-jump"): last_jumped_over,
    ("last-value", "bad-two-polls"): last_in_two_polls,
}
