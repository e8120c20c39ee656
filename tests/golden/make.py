"""Builds the golden histories: `python -m tests.golden.make` writes `<anomaly>/<case>/`.

Per anomaly: `ok` is close to it and legal, `bad` shows it, `unknown` lacks what a verdict needs; `bad-…` shows it in
another way. The stored files are what the tests read; a test compares them with what this module builds, so that
neither changes unseen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from tests.support.histories import TICK_NS, Story
from tests.support.judging import TABLES, Case, case_of
from tests.support.model_cluster import ModelCluster

ROOT = Path(__file__).parent
CASES = ("ok", "bad", "unknown")
RETENTION_MS = 60_000
"""All are judged as if retention took what is so old. No history but those about it tells of a log start above 0."""

Tell = Callable[[Story], None]
Change = Callable[[Case], None]


def _sent(story: Story, count: int = 4) -> list[tuple[int, int]]:
    """Values 1 … count acknowledged at offsets 0 …; what a poll of all of them returns."""
    for nth in range(count):
        story.send(nth + 1, nth, process=nth)
    return [(nth, nth + 1) for nth in range(count)]


def _drained(story: Story, log: list[tuple[int, int]]) -> None:
    for reader in ("wire", "confluent"):
        story.poll(0, log, reader=reader, consumer=f"d-{reader}", phase="drain-0", process=900 + len(reader), epoch=5)
        story.drained(len(log), reader=reader)


# -- black box -----------------------------------------------------------------------------------------------------


def _phantom_ok(s: Story) -> None:
    log = _sent(s)
    s.send(9, outcome="info", process=9)
    s.poll(0, [*log, (4, 9)], process=20)


def _phantom_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, [*log, (4, 9)], process=20)


def _nothing_read(s: Story) -> None:
    _sent(s)
    s.poll(0, [], process=20)


def _aborted_ok(s: Story) -> None:
    log = _sent(s)
    s.send(9, outcome="fail", process=9)
    s.poll(0, log, process=20)


def _aborted_bad(s: Story) -> None:
    log = _sent(s)
    s.send(9, outcome="fail", process=9)
    s.poll(0, [*log, (4, 9)], process=20)


def _same_twice(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, process=20)
    s.poll(0, log, process=21, consumer="c1")


def _inconsistent_bad(s: Story) -> None:
    log = _sent(s)
    s.send(9, outcome="info", process=9)
    first = s.poll(0, [*log, (4, 9)], process=20, invoked=100, completed=110)
    assert first
    # An unknown send at the same offset, in a poll that overlaps the first: neither was there before the other.
    s.send(10, outcome="info", process=10, invoked=50, completed=60)
    s.poll(0, [*log, (4, 10)], process=21, consumer="c1", invoked=101, completed=111)


def _duplicate_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, [*log, (4, 4)], process=20)


def _lost_ok(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log[:2], process=20)
    s.poll(2, log[2:], process=20)


def _lost_bad(s: Story) -> None:
    log = _sent(s)
    # Offset 2 passed over: value 3 was acknowledged there and nobody ever read it.
    s.poll(0, [*log[:2], log[3]], process=20)


def _start_told(s: Story, after_ms: int) -> None:
    """The log starts at 2 so long after the records were sent."""
    s.now += after_ms
    s.send(5, 4, process=5)
    s.poll(2, [(2, 3), (3, 4), (4, 5)], log_start=2, process=21, consumer="c1")


def _lost_expired(s: Story) -> None:
    _sent(s)
    _start_told(s, RETENTION_MS)


def _lost_young(s: Story) -> None:
    _sent(s)
    _start_told(s, RETENTION_MS - 100)
    # Who tells it later only repeats it.
    _told_again(s)


def _told_again(s: Story) -> None:
    s.now += RETENTION_MS
    s.poll(2, [(2, 3), (3, 4), (4, 5)], log_start=2, process=22, consumer="c2")


def _lost_passed_over(s: Story) -> None:
    """It was gone long before it was old enough."""
    log = _sent(s)
    s.poll(0, [log[0], *log[2:]], process=20)
    _start_told(s, RETENTION_MS)


def _vanished_expired(s: Story) -> None:
    s.poll(0, _sent(s), process=20)
    _start_told(s, RETENTION_MS)


def _vanished_young(s: Story) -> None:
    """Of the two that are gone one was old enough."""
    s.send(1, 0, process=1)
    s.now += RETENTION_MS
    log = [(0, 1)]
    for nth in range(1, 4):
        s.send(nth + 1, nth, process=nth)
        log.append((nth, nth + 1))
    s.poll(0, log, process=20)
    _start_told(s, 10)


def _tail_ok(s: Story) -> None:
    log = _sent(s)
    _drained(s, log)


def _tail_bad(s: Story) -> None:
    log = _sent(s)
    _drained(s, log[:3])


def _tail_unknown(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log[:3], process=20)


def _vanished_ok(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, process=20)
    # A shorter answer is no loss: it passes over less.
    s.poll(0, log[:2], hw=4, process=21, consumer="c1")


def _vanished_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, process=20)
    s.poll(0, [log[0], log[2], log[3]], process=21, consumer="c1")


def _above_ok(s: Story) -> None:
    log = _sent(s)
    # Its own HW may be older than the read; and a question asked before the answer came may be too.
    s.poll(0, log, hw=3, process=20, invoked=50, completed=60)
    s.poll(0, log[:2], hw=2, process=21, consumer="c1", invoked=55, completed=65)


def _above_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, hw=3, process=20, invoked=50, completed=60)
    s.poll(0, log[:2], hw=2, process=21, consumer="c1", invoked=61, completed=65)


def _told_ok(s: Story) -> None:
    """Empty answers: of one epoch none that was asked for later tells less, and the next epoch may begin lower."""
    log = _sent(s)
    s.poll(0, log, process=20, invoked=50, completed=60)
    s.poll(4, [], hw=6, process=21, consumer="c1", invoked=61, completed=65)
    s.poll(4, [], hw=5, process=22, consumer="c2", invoked=64, completed=70)
    s.poll(4, [], hw=4, epoch=1, process=23, consumer="c3", invoked=71, completed=75)


def _told_bad(s: Story) -> None:
    """An answer without a record told more than one that was asked for later."""
    log = _sent(s)
    s.poll(0, log, process=20, invoked=50, completed=60)
    s.poll(4, [], hw=6, process=21, consumer="c1", invoked=61, completed=65)
    s.poll(4, [], hw=5, process=22, consumer="c2", invoked=66, completed=70)


def _refused(s: Story, at: int, epoch: int, **when: int) -> None:
    s.poll(at, outcome="fail", error="OFFSET_OUT_OF_RANGE", epoch=epoch, process=30, consumer="c9", **when)


def _refused_wrongly(s: Story, at: int, epoch: int) -> None:
    """Nothing was deleted there, as that leader says afterwards."""
    _refused(s, at, epoch)
    s.list_offsets(0, epoch=epoch, process=31, timestamp=-2)


def _refused_ok(s: Story) -> None:
    """By a leader that had been deposed; beyond all that was shown; asked before that was; and with no epoch."""
    log = _sent(s)
    s.poll(0, log, epoch=1, process=20, invoked=50, completed=60)
    s.poll(0, log, epoch=1, process=21, consumer="c1")
    _refused(s, 4, 0)
    _refused(s, 5, 1)
    _refused(s, 4, 1, invoked=60, completed=62)
    _refused(s, 4, -1)


def _refused_with_no_start(s: Story) -> None:
    """That leader's later answers say of no log start; retention may have raised it."""
    log = _sent(s)
    s.poll(0, log, epoch=0, process=20)
    _refused(s, 1, 1)
    s.poll(4, [], epoch=1, log_start=-1, process=21, consumer="c1")


def _nothing_shown(s: Story) -> None:
    """No end can be lower, and no read of an empty log's start is out of range."""
    for epoch in range(2):
        s.poll(0, [], epoch=epoch, process=20)
        s.list_offsets(0, epoch=epoch, process=21)


def _refused_bad(s: Story) -> None:
    """By the next leader, whose watermark lags."""
    s.poll(0, _sent(s), epoch=0, process=20)
    _refused_wrongly(s, 4, 1)


def _refused_by_who_showed_it(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log[:3], epoch=0, process=20)
    s.list_offsets(4, epoch=1, process=21)
    _refused_wrongly(s, 4, 1)


def _refused_below_a_higher_epoch(s: Story) -> None:
    """Nobody showed as much in its epoch as in the next; what was shown in its own is enough."""
    log = _sent(s)
    s.poll(0, log[:2], epoch=0, process=20)
    s.poll(0, log, epoch=2, process=21, consumer="c1")
    _refused_wrongly(s, 2, 1)


def _end_ok(s: Story) -> None:
    """Told lower by a leader that had been deposed, and to who asked before the higher one was shown."""
    log = _sent(s)
    s.poll(0, log, epoch=1, process=20, invoked=50, completed=60)
    s.list_offsets(3, epoch=0, process=21)
    s.list_offsets(3, epoch=1, process=22, isolation=1, invoked=60, completed=62)
    s.list_offsets(4, epoch=1, process=23)
    s.list_offsets(0, epoch=1, process=24, timestamp=-2)


def _end_bad(s: Story) -> None:
    """The next leader tells a watermark that lags."""
    s.poll(0, _sent(s), epoch=0, process=20)
    s.list_offsets(3, epoch=1, process=21)


def _end_back_in_one_epoch(s: Story) -> None:
    """The end of what is committed for good, which is all where there are no transactions."""
    s.poll(0, _sent(s), epoch=1, process=20)
    s.list_offsets(3, epoch=1, process=21, isolation=1)


def _end_below_an_end(s: Story) -> None:
    """No poll showed it."""
    log = _sent(s)
    s.poll(0, log[:2], epoch=0, process=20)
    s.list_offsets(4, epoch=0, process=21)
    s.list_offsets(0, epoch=3, process=22)


def _above_unknown(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, process=20, epoch=-1)


def _int_skip_ok(s: Story) -> None:
    log = _sent(s)
    # The offset that it passed over is a gap that nobody ever read anything at.
    s.poll(0, [*log, (5, 6)], process=20, invoked=50, completed=60)
    s.send(6, 5, process=30, invoked=40, completed=45)


def _int_skip_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, [log[0], log[2], log[3]], process=20, invoked=50, completed=60)
    s.poll(0, log, process=21, consumer="c1", invoked=51, completed=61)


def _skip_ok(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, process=20)
    # The wire reader may seek where it likes.
    s.poll(0, log[:1], hw=4, process=21, consumer="c1")
    s.poll(3, log[3:], process=21, consumer="c1")
    s.poll(0, log[:1], hw=4, process=22, consumer="c2", reader="confluent")
    s.poll(1, log[1:], node="n2", process=22, consumer="c2", reader="confluent")


def _skip_never_risked(s: Story) -> None:
    """The client is asked for its position after polls of one leader, or of the drain."""
    log = _sent(s)
    s.poll(0, log[:1], process=22, consumer="c2", reader="confluent")
    s.poll(1, log[1:], process=22, consumer="c2", reader="confluent")
    s.poll(0, log[:1], process=23, consumer="c3", reader="confluent", phase="drain-0")
    s.poll(1, log[1:], node="n2", process=23, consumer="c3", reader="confluent", phase="drain-0")


def _skip_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, process=20)
    s.poll(0, log[:1], process=21, consumer="c1", reader="confluent")
    s.poll(3, log[3:], process=21, consumer="c1", reader="confluent")


def _no_sends(s: Story) -> None:
    s.poll(0, [], process=20)


def _no_polls(s: Story) -> None:
    _sent(s)


def _int_nonmonotonic_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, [log[1], log[0], log[2], log[3]], process=20)


def _nonmonotonic_ok(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, process=20)
    s.poll(1, log[1:], process=20)
    s.poll(0, log, process=21, consumer="c1", reader="confluent")
    s.poll(4, [], process=21, consumer="c1", reader="confluent", outcome="fail")
    s.poll(4, [], process=21, consumer="c1", reader="confluent")


def _nonmonotonic_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, process=20, reader="confluent")
    s.poll(1, log[1:], process=20, reader="confluent")


def _send_order_ok(s: Story) -> None:
    s.send(1, 0, process=1)
    s.send([2, 3], 1, process=1)
    s.send(4, 3, process=1)
    s.poll(0, [(0, 1), (1, 2), (2, 3), (3, 4)], process=20)


def _send_order_bad(s: Story) -> None:
    s.send(1, 1, process=1)
    s.send(2, 0, process=1)
    s.poll(0, [(0, 2), (1, 1)], process=20)


def _nothing_acknowledged(s: Story) -> None:
    s.send(1, outcome="info", process=1)
    s.poll(0, [], process=20)


def _real_time_ok(s: Story) -> None:
    # Overlapping sends may take either order.
    s.send(1, 1, process=1, invoked=10, completed=20)
    s.send(2, 0, process=2, invoked=19, completed=25)
    s.poll(0, [(0, 2), (1, 1)], process=20)


def _real_time_bad(s: Story) -> None:
    s.send(1, 1, process=1, invoked=10, completed=20)
    s.send(2, 0, process=2, invoked=21, completed=25)
    s.poll(0, [(0, 2), (1, 1)], process=20)


def _repeat_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, phase="drain-0", process=20, consumer="w")
    s.drained(4)
    s.poll(0, log[:3], phase="drain-0", process=21, consumer="c", reader="confluent")
    s.drained(4, reader="confluent")


def _repeat_unknown(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, phase="drain-0", process=20, consumer="w")
    s.drained(4)


def _repeat_bad_in_one_round(s: Story) -> None:
    """The real client lacks in one round what it read in another."""
    log = _sent(s)
    for phase, read in (("drain-0", log), ("drain-1", log[:3])):
        s.poll(0, log, phase=phase, process=20, consumer=f"w{phase}")
        s.drained(4, phase=phase)
        s.poll(0, read, phase=phase, process=21, consumer=f"c{phase}", reader="confluent")
        s.drained(4, reader="confluent", phase=phase)


def _repeat_ok_one_read_on(s: Story) -> None:
    """The wire reader reads to the end of the log, the real client to the sentinel."""
    log = _sent(s)
    s.poll(0, log, phase="drain-0", process=20, consumer="w")
    s.drained(4)
    s.poll(0, log[:3], phase="drain-0", process=21, consumer="c", reader="confluent")
    s.drained(3, reader="confluent")


def _vanished_below_earliest(s: Story) -> None:
    """Polls say that the log starts at 0, ListOffsets says 2."""
    log = _sent(s)
    s.poll(0, log, process=20)
    s.list_offsets(2, timestamp=-2, process=21)


def _with_sentinel(s: Story) -> list[tuple[int, int]]:
    log = _sent(s)
    s.send(5, 4, process=5, sentinel=True, phase="final")
    return [*log, (4, 5)]


def _drain_ok(s: Story) -> None:
    _drained(s, _with_sentinel(s))


def _drain_bad(s: Story) -> None:
    """Everything was read once, but no drain began where the acknowledged records do."""
    log = _with_sentinel(s)
    s.poll(0, log, process=20)
    for reader in ("wire", "confluent"):
        s.poll(2, log[2:], reader=reader, consumer=reader, phase="drain-0", process=900 + len(reader), epoch=5)
        s.drained(5, start=2, reader=reader)


def _drain_gone(s: Story) -> None:
    """A record that was read once and that the drain does not return."""
    log = _with_sentinel(s)
    s.poll(0, log, process=20)
    _drained(s, [log[0], *log[2:]])
    s.lines[-1]["end"] = 5


def _rounds(s: Story, log: list[tuple[int, int]], rounds: list[tuple[str, str]]) -> None:
    """(phase, leader): both readers read everything."""
    for nth, (phase, leader) in enumerate(rounds):
        for reader in ("wire", "confluent"):
            s.poll(
                0,
                log,
                reader=reader,
                consumer=f"{phase}-{reader}",
                phase=phase,
                node=leader,
                process=900 + 20 * nth + len(reader),
                epoch=5 + nth,
            )
            s.drained(len(log), reader=reader, phase=phase, leader=leader)


def _given_up(s: Story, phase: str, leader: str) -> None:
    for reader in ("wire", "confluent"):
        s.harness(
            "drain-incomplete",
            phase=phase,
            topic=s.topic,
            partition=0,
            reader=reader,
            leader=leader,
            error=f"poll at {leader}: timeout",
        )


def _drain_not_healed(s: Story) -> None:
    """Who led after the faults answers no reader, until it is restarted for the rotation."""
    log = _with_sentinel(s)
    _given_up(s, "drain-current", "n2")
    _rounds(s, log, [("drain-n1", "n1"), ("drain-n2", "n2"), ("drain-n3", "n3")])


def _drain_again(s: Story) -> None:
    """The healed cluster is read; one replica only once it has been written over."""
    log = _with_sentinel(s)
    _rounds(s, log, [("drain-current", "n1"), ("drain-n1", "n1")])
    _given_up(s, "drain-n2", "n2")
    _rounds(s, log, [("drain-n3", "n3"), ("drain-again", "n2")])


def _drain_unknown(s: Story) -> None:
    _drained(s, _sent(s))


def _unseen_bad(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log[:3], process=20)


def _fresh(s: Story) -> None:
    _same_twice(s)


def _stale(s: Story) -> None:
    """A poll is told that the log ends at 2, long after 3 and 4 were acknowledged."""
    log = _sent(s)
    s.poll(0, log, process=20)
    s.poll(0, log[:2], hw=2, epoch=1, process=21, consumer="c1", invoked=1000, completed=1001)


def _stale_unknown(s: Story) -> None:
    log = _sent(s)
    s.poll(0, log, hw=9, process=20)


def _available_again(s: Story) -> None:
    """A second without an answer, under a fault."""
    s.send(1, 0, process=1)
    s.nemesis("start", "pause", 1, at=10)
    s.send(2, outcome="info", process=2, invoked=20, completed=900)
    s.nemesis("stop", "pause", 1, at=1000)
    s.send(3, 1, process=3, invoked=1001, completed=1040)


def _available_to_nobody(s: Story) -> None:
    s.send(1, 0, process=1, phase="final")


BLACK_BOX: dict[str, tuple[Tell, Tell, Tell]] = {
    "phantom-read": (_phantom_ok, _phantom_bad, _nothing_read),
    "aborted-read": (_aborted_ok, _aborted_bad, _nothing_read),
    "inconsistent-offset": (_same_twice, _inconsistent_bad, _nothing_read),
    "duplicate": (_same_twice, _duplicate_bad, _nothing_read),
    "lost-write": (_lost_ok, _lost_bad, _nothing_read),
    "lost-tail": (_tail_ok, _tail_bad, _tail_unknown),
    "vanished-read": (_vanished_ok, _vanished_bad, _nothing_read),
    "read-above-hw": (_above_ok, _above_bad, _above_unknown),
    "refused-read": (_refused_ok, _refused_bad, _above_unknown),
    "end-went-back": (_end_ok, _end_bad, _same_twice),
    "int-poll-skip": (_int_skip_ok, _int_skip_bad, _no_polls),
    "poll-skip": (_skip_ok, _skip_bad, _no_polls),
    "int-nonmonotonic-poll": (_same_twice, _int_nonmonotonic_bad, _no_polls),
    "nonmonotonic-poll": (_nonmonotonic_ok, _nonmonotonic_bad, _no_polls),
    "nonmonotonic-send": (_send_order_ok, _send_order_bad, _nothing_acknowledged),
    "real-time-order": (_real_time_ok, _real_time_bad, _nothing_acknowledged),
    "confluent-repeat": (_tail_ok, _repeat_bad, _repeat_unknown),
    "unseen": (_lost_ok, _unseen_bad, _no_sends),
    "final-drain": (_drain_ok, _drain_bad, _drain_unknown),
    "staleness": (_fresh, _stale, _stale_unknown),
    "availability": (_lost_ok, _available_again, _available_to_nobody),
}
MORE_BLACK_BOX: dict[tuple[str, str], Tell] = {
    ("confluent-repeat", "bad-round"): _repeat_bad_in_one_round,
    ("confluent-repeat", "ok-read-on"): _repeat_ok_one_read_on,
    ("vanished-read", "bad-earliest"): _vanished_below_earliest,
    ("final-drain", "bad-gone"): _drain_gone,
    ("lost-write", "ok-expired"): _lost_expired,
    ("lost-write", "bad-young"): _lost_young,
    ("lost-write", "bad-passed-over"): _lost_passed_over,
    ("vanished-read", "ok-expired"): _vanished_expired,
    ("vanished-read", "bad-young"): _vanished_young,
    ("poll-skip", "unknown-never-risked"): _skip_never_risked,
    ("nonmonotonic-poll", "unknown-never-risked"): _skip_never_risked,
    ("final-drain", "bad-not-healed"): _drain_not_healed,
    ("final-drain", "ok-again"): _drain_again,
    ("read-above-hw", "bad-told"): _told_bad,
    ("refused-read", "bad-same-epoch"): _refused_by_who_showed_it,
    ("refused-read", "bad-between"): _refused_below_a_higher_epoch,
    ("end-went-back", "bad-same-epoch"): _end_back_in_one_epoch,
    ("end-went-back", "bad-listed"): _end_below_an_end,
    ("read-above-hw", "ok-told"): _told_ok,
    ("refused-read", "ok-start-untold"): _refused_with_no_start,
    ("refused-read", "unknown-empty"): _nothing_shown,
    ("end-went-back", "unknown-empty"): _nothing_shown,
}


# -- white box -----------------------------------------------------------------------------------------------------


def _life(topic: str, first_broker: int) -> ModelCluster:
    """Writes, a leader killed and back, a follower out for lag and back in."""
    model = ModelCluster(Random(5), topic, first_broker=first_broker)
    first, _, third = model.brokers
    for _ in range(3):
        model.send()
    model.poll(0, process=50_000)
    model.kill(first)
    model.send()
    model.start(first, 1)
    fault = model.pause(third)
    model.send()
    model.resume(third, fault)
    model.send()
    model.poll(3, process=50_000)
    model.finish()
    return model


def _last(case: Case, **wanted: Any) -> dict[str, Any]:
    """The last event with these fields."""
    return [e for e in case.tables["events"] if all(e.get(k) == v for k, v in wanted.items())][-1]


def _states(case: Case) -> list[dict[str, Any]]:
    return [row for row in case.tables["znodes"] if row["path"].endswith("/state")]


def _rewrite(row: dict[str, Any], **fields: Any) -> None:
    row["data"] = json.dumps({**json.loads(row["data"]), **fields})


def _isr_without_leader(case: Case) -> None:
    row = _states(case)[-1]
    leader = json.loads(row["data"])["leader"]
    _rewrite(row, isr=[b for b in json.loads(row["data"])["isr"] if b != leader])


def _last_standing(topic: str, first_broker: int) -> ModelCluster:
    """The ISR shrinks to one broker, which dies. Another, that has all that is committed, returns and leads alone."""
    model = ModelCluster(Random(5), topic, first_broker=first_broker)
    first, second, third = model.brokers
    (p,) = model.partitions
    for _ in range(3):
        model.send()
    for broker in (third, second, first):
        model.kill(broker)
    p.isr = [second]
    for broker, fault in ((second, 2), (first, 3), (third, 1)):
        model.start(broker, fault)
    model.send()
    model.poll(0, process=50_000)
    model.finish()
    return model


def _outsider(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state in which somebody leads who was not in the ISR before, and the one before it."""
    states = _states(case)
    for before, row in pairwise(states):
        if json.loads(row["data"])["leader"] not in json.loads(before["data"])["isr"]:
            return row, before
    raise AssertionError("nobody was elected from outside the ISR")


def _make_eligible(case: Case, leader_epoch: int | None = None) -> None:
    """The outsider is eligible by the state before. leader_epoch: of which epoch that says it is, if not its own."""
    row, before = _outsider(case)
    was = json.loads(before["data"])
    epoch = was["leader_epoch"] if leader_epoch is None else leader_epoch
    elr = {"replicas": [json.loads(row["data"])["leader"]], "isr": was["isr"], "leader_epoch": epoch}
    _rewrite(before, elr=elr)


def _eligible_leader(case: Case) -> None:
    _make_eligible(case)


def _ineligible_leader(_: Case) -> None:
    """Nothing is said of eligible replicas."""


def _leader_of_an_old_eligibility(case: Case) -> None:
    """A tool rewrote the state and kept the field."""
    _make_eligible(case, 7)


def _longest_log(case: Case) -> None:
    """Nobody surely had all that was committed, says the controller."""
    epoch = json.loads(_outsider(case)[0]["data"])["leader_epoch"]
    _last(case, e="election", le=epoch)["reason"] = "longest-log"


def _grown_by_an_election(case: Case) -> None:
    """The eligible leader takes a broker along that was not in the ISR."""
    _make_eligible(case)
    row, before = _outsider(case)
    leader, was = json.loads(row["data"])["leader"], json.loads(before["data"])["isr"]
    replicas = _last(case, e="become_leader", b=leader)["replicas"]
    isr = [leader, next(b for b in replicas if b not in (leader, *was))]
    _elect(case, row, isr)


def _elect(case: Case, row: dict[str, Any], isr: list[int]) -> None:
    """Another ISR for an election, in ZooKeeper and in what brokers acted by."""
    _rewrite(row, isr=isr)
    for event in case.tables["events"]:
        if event["e"] in ("election", "become_leader", "become_follower") and event["pe"] == row["version"]:
            event["isr"] = isr


def _two_leaders(case: Case) -> None:
    taken = _last(case, e="become_leader")
    other = next(b for b in taken["replicas"] if b != taken["b"])
    line = _last(case, e="become_follower", b=other)
    line.update(e="become_leader", le=taken["le"], epoch_start=line["leo"])


def _controller_back(case: Case) -> None:
    _rewrite(_states(case)[-1], controller_epoch=0)


def _hw_above_leo(case: Case) -> None:
    line = _last(case, e="recovered")
    line["hw"] = line["leo"] + 1


def _hw_on_append(case: Case) -> None:
    """The leader counted a follower that had not asked that far."""
    line = _last(case, e="hw", role="leader")
    behind = next(b for b in line["leos"] if int(b) != line["b"])
    line["leos"][behind] = line["hw"] - 1


def _hw_back(case: Case) -> None:
    lines = [e for e in case.tables["events"] if e["e"] == "hw" and e["role"] == "leader"]
    last = lines[-1]
    last["hw"] = next(e["hw"] for e in reversed(lines[:-1]) if e["le"] == last["le"]) - 1
    case.tables["events"] = [e for e in case.tables["events"] if e["s"] <= last["s"] or e["b"] != last["b"]]


def _bytes_differ(case: Case) -> None:
    case.tables["batches"][1]["digest"] = "other"


def _short_leader(case: Case) -> None:
    _last(case, e="become_leader").update(leo=1, hw=1)


def _early_ack(case: Case) -> None:
    line = _last(case, e="ack")
    line["hw"] = line["last"]


def _epochs_repeat(case: Case) -> None:
    rows = [row for row in case.tables["checkpoints"] if row["kind"] == "epoch" and row["position"] == 1]
    rows[0]["offset"] = 0


def _hole_in_log(case: Case) -> None:
    node = case.tables["batches"][0]["node"]
    case.tables["batches"] = [b for b in case.tables["batches"] if b["node"] != node or b["base"] != 2]


def _cut_in_isr(case: Case) -> None:
    line = _last(case, e="become_follower")
    cut = {**line, "e": "truncate", "from_leo": line["leo"], "to": 1, "in_isr": True, "reason": "high-watermark"}
    for later in case.tables["events"]:
        if later["b"] == line["b"] and later["i"] == line["i"] and later["s"] > line["s"]:
            later["s"] += 1
    cut["s"] = line["s"] + 1
    case.tables["events"].insert(case.tables["events"].index(line) + 1, cut)


def _dead_joiner(case: Case) -> None:
    """A broker that deregistered long before is let in."""
    last = _states(case)[-1]
    joiner = next(iter(set(json.loads(last["data"])["isr"]) - {json.loads(last["data"])["leader"]}))
    entry = next(
        row
        for before, row in zip(_states(case), _states(case)[1:], strict=False)
        if len(json.loads(row["data"])["isr"]) > len(json.loads(before["data"])["isr"])
    )
    gone = dict(entry, op="delete", version=None, data=None)
    isr, was = (set(json.loads(row["data"])["isr"]) for row in (entry, _states(case)[_states(case).index(entry) - 1]))
    joiner = next(iter(isr - was))
    gone["path"] = f"/brokers/ids/{joiner}"
    gone["position"] = 0
    gone["time_ms"] = entry["time_ms"] - 10_000
    # Between the version before and the entry.
    gone["zxid"] = entry["zxid"]
    for row in case.tables["znodes"]:
        if row["zxid"] >= entry["zxid"]:
            row["zxid"] += 1
    case.tables["znodes"].append(gone)


def _dead_elected(case: Case, ms: int) -> None:
    """Who is elected had not been registered for so long."""
    row = next(
        row
        for before, row in pairwise(_states(case))
        if json.loads(row["data"])["leader"] != json.loads(before["data"])["leader"]
    )
    gone = dict(row, op="delete", version=None, data=None, position=0, time_ms=row["time_ms"] - ms)
    gone["path"] = f"/brokers/ids/{json.loads(row['data'])['leader']}"
    for other in case.tables["znodes"]:
        if other["zxid"] >= gone["zxid"]:
            other["zxid"] += 1
    case.tables["znodes"].append(gone)


def _long_dead_elected(case: Case) -> None:
    _dead_elected(case, 10_000)


def _elected_just_after_its_end(case: Case) -> None:
    """Its controller had not heard yet."""
    _dead_elected(case, 5_000)


def _unproposed(case: Case) -> None:
    """An ISR grows, and the event log of its leader, which goes on, tells of no proposal."""
    line = next(e for e in case.tables["events"] if e["e"] == "isr_propose" and e["kind"] == "expand")
    line.update(e="flush", upto=0)


def _shown_above(case: Case) -> None:
    line = _last(case, e="visible")
    line["upto"] = line["hw"] + 1


def _without(*tables: str) -> Change:
    def change(case: Case) -> None:
        for table in tables:
            case.tables[table] = []

    return change


def _gap(case: Case) -> None:
    events = case.tables["events"]
    middle = next(e for e in events if e["e"] == "fetch_answered")
    events.remove(middle)


def _refused_fetch_counted(case: Case) -> None:
    """All that a leader's last advance rests on of one follower is a fetch that it refused: the logs diverge."""
    hw = _last(case, e="hw", role="leader")
    member = next(b for b in hw["isr"] if b != hw["b"])
    events = case.tables["events"]
    proving = {
        e["rid"]
        for e in events
        if e["e"] == "fetch_received" and e["follower"] == member and e["b"] == hw["b"] and e["parts"][0][1] >= hw["hw"]
    }
    answers = [e for e in events if e["e"] == "fetch_answered" and e["rid"] in proving]
    assert answers
    for answer in answers:
        answer["parts"][0][4:6] = [0, 1]


def _end_told_too_high(case: Case) -> None:
    """An end offset beyond every watermark that the leader logged, told before its log was copied."""
    hw = _last(case, e="hw", role="leader")
    topic, number = hw["p"].rsplit("-", 1)
    asked = {"type": "invoke", "process": 70_000, "kind": "client", "f": "list_offsets", "phase": "main"}
    asked |= {"topic": topic, "partition": int(number), "node": hw["node"]}
    index, at_ns = len(case.history), hw["m"]
    case.history += [
        {"index": index, "time_ns": at_ns, **asked, "timestamp": -1, "isolation": 0, "leader_epoch": hw["le"]},
        {
            "index": index + 1,
            "time_ns": at_ns + 1,
            **asked,
            "type": "ok",
            "invoke": index,
            "offset": hw["hw"] + 1,
            "leader_epoch_answered": hw["le"],
        },
    ]


def _empty_poll(case: Case, above: int) -> None:
    """An empty answer at the end of the log tells a watermark `above` the highest that the leader logged."""
    hw = _last(case, e="hw", role="leader")
    topic, number = hw["p"].rsplit("-", 1)
    asked = {"type": "invoke", "process": 70_000, "kind": "client", "f": "poll", "phase": "main"}
    asked |= {"topic": topic, "partition": int(number), "node": hw["node"]}
    index, at_ns, told = len(case.history), hw["m"], hw["hw"] + above
    how = {"position": hw["hw"], "leader_epoch": hw["le"], "isolation": 0, "reader": "wire", "consumer": "e"}
    answer = {"next_position": hw["hw"], "hw": told, "lso": told, "log_start": 0, "records": []}
    case.history += [
        {"index": index, "time_ns": at_ns, **asked, **how},
        {"index": index + 1, "time_ns": at_ns + 1, **asked, "type": "ok", "invoke": index, **answer},
    ]


def _watermark_told_too_high(case: Case) -> None:
    _empty_poll(case, 1)


def _watermark_told(case: Case) -> None:
    _empty_poll(case, 0)


def _put_after(case: Case, line: dict[str, Any], *new: dict[str, Any]) -> None:
    """New lines in the event log of the broker that wrote `line`, right behind it."""
    for later in case.tables["events"]:
        if later["i"] == line["i"] and later["s"] > line["s"]:
            later["s"] += len(new)
    who = {name: line[name] for name in ("b", "i", "w", "m", "node", "t_ns")}
    at = case.tables["events"].index(line) + 1
    case.tables["events"][at:at] = [{**fields, **who, "s": line["s"] + nth} for nth, fields in enumerate(new, 1)]


def _first_role_again(case: Case, *between: str) -> None:
    """A broker that was never restarted takes its first role once more; `between`: events that come before that."""
    last = _last(case, e="become_follower")
    first = next(e for e in case.tables["events"] if e["i"] == last["i"] and e["e"] == "become_follower")
    assert first["le"] < last["le"]
    now = {"p": last["p"], "leo": last["leo"], "hw": last["hw"]}
    _put_after(case, last, *({"e": e, "log_start": 0, "clean": True, **now} for e in between), {**first, **now})


def _role_of_an_old_epoch(case: Case) -> None:
    _first_role_again(case)


def _log_opened_anew(case: Case) -> None:
    _first_role_again(case, "recovered")


def _follower_cuts(case: Case, below: int) -> None:
    """A follower's last line is a cut, in the epoch in which all that goes was committed."""
    hw = _last(case, e="hw", role="follower")
    last = [e for e in case.tables["events"] if e["i"] == hw["i"]][-1]
    cut = {"from_leo": hw["hw"] + 1, "to": hw["hw"] - below, "hw": hw["hw"], "in_isr": True}
    _put_after(case, last, {"e": "truncate", "p": hw["p"], "le": hw["le"], "reason": "diverging-epoch", **cut})


def _cut_below_own_watermark(case: Case) -> None:
    _follower_cuts(case, 1)


def _cut_to_own_watermark(case: Case) -> None:
    _follower_cuts(case, 0)


def _asked_lower_again(case: Case, answered: bool) -> None:
    """Before its leader's last advance a follower asks for a record that it had; the leader counts it as before."""
    events = case.tables["events"]
    hw = _last(case, e="hw", role="leader")
    before = [e for e in events[: events.index(hw)] if e["e"] == "fetch_received" and e["b"] == hw["b"]]
    # The last one makes the watermark rise; the other follower's is between the two.
    first = [e for e in before if e["follower"] != before[-1]["follower"]][-1]
    sent = next(e for e in events if e["e"] == "fetch_sent" and e["rid"] == first["rid"])
    taken = next(e for e in events if e["e"] == "fetch_answered" and e["rid"] == first["rid"])
    rid, (p, offset, *epochs) = f"{first['rid']}0", first["parts"][0]
    assert offset == hw["hw"]
    again = {"rid": rid, "parts": [[p, offset - 1, *epochs]]}
    _put_after(case, first, {**first, **again})
    answer = {**taken, "rid": rid, "parts": [[p, 0, hw["hw"] - 1, 70, -1, -1]]}
    _put_after(case, taken, {**sent, **again}, *([answer] if answered else []))


def _lower_fetch_passed_over(case: Case) -> None:
    _asked_lower_again(case, answered=True)


def _lower_fetch_never_answered(case: Case) -> None:
    """It may be one of a dead incarnation, that came late: the leader need not have believed it."""
    _asked_lower_again(case, answered=False)


def _opened_again(case: Case, above: int, *between: dict[str, Any]) -> None:
    """A restarted broker finds a log that ends `above` the highest watermark of its life before.

    between: the last lines of that life.
    """
    opened = _last(case, e="recovered")
    mine = [e for e in case.tables["events"] if e["b"] == opened["b"] and e["i"] != opened["i"]]
    known = max(e["hw"] for e in mine if "hw" in e)
    opened.update(leo=known + above, hw=min(opened["hw"], known + above))
    _put_after(case, mine[-1], *({"p": opened["p"], "le": 0, **line} for line in between))


def _end_forgotten(case: Case) -> None:
    _opened_again(case, -1)


def _end_at_the_watermark(case: Case) -> None:
    _opened_again(case, 0)


def _end_deleted(case: Case) -> None:
    """The partition was told to go, and came back."""
    _opened_again(case, -1, {"e": "stop_replica", "delete": True})


def _end_forgotten_after_a_stop(case: Case) -> None:
    """It was told to stop, not to go."""
    _opened_again(case, -1, {"e": "stop_replica", "delete": False})


def _end_cut(case: Case) -> None:
    """What is missing was cut, by a replica outside the ISR."""
    cut = {"e": "truncate", "from_leo": 3, "to": 2, "hw": 2, "in_isr": False, "reason": "diverging-epoch"}
    _opened_again(case, -1, cut)


def _begun_anew(case: Case) -> None:
    """The restarted broker finds that its leader's log begins above all that it ever had."""
    _opened_again(case, -1)
    anew = {"e": "truncate", "from_leo": 2, "to": 3, "hw": 2, "in_isr": False, "reason": "out-of-range"}
    role = _last(case, e="become_follower", b=_last(case, e="recovered")["b"])
    role.update(leo=2, hw=2)
    _put_after(case, role, {**anew, "p": role["p"], "le": role["le"]})


def _end_damaged(case: Case) -> None:
    """A fault had taken bytes of that node's files."""
    _opened_again(case, -1)
    opened = _last(case, e="recovered")
    kill = next(line for line in case.history if line.get("fault") == "kill" and line["f"] == "start")
    hit = {"fault": "truncate-file", "fault_id": 999, "targets": [opened["node"]]}
    case.history.append({**kill, **hit, "index": len(case.history)})


def _head_expired(case: Case) -> None:
    """One replica's log starts later, and its files were copied when the rest was old."""
    _head_gone(case)
    copied = next(line for line in case.history if line["f"] == "evidence")
    copied["time_ns"] += 2 * RETENTION_MS * TICK_NS


def _head_young(case: Case) -> None:
    """The same, and all that was sent just before the files were copied."""
    _head_gone(case)
    for line in case.history:
        line["time_ns"] += 2 * RETENTION_MS * TICK_NS
    for event in case.tables["events"]:
        for clock in ("w", "m", "t_ns"):
            event[clock] += 2 * RETENTION_MS * TICK_NS
    for row in case.tables["znodes"]:
        row["time_ms"] += 2 * RETENTION_MS


def _head_gone(case: Case) -> None:
    node = case.tables["batches"][0]["node"]
    case.tables["batches"] = [row for row in case.tables["batches"] if row["node"] != node or row["base"] >= 2]


def _as_it_is(_: Case) -> None:
    """A run that keeps every rule."""


_NO_EVENTS = _without("events")
_NO_FILES = _without("batches", "checkpoints")
_NO_ZNODES = _without("znodes")

WHITE_BOX: dict[str, tuple[Change, Change, Change]] = {
    "isr-znode": (_as_it_is, _isr_without_leader, _NO_ZNODES),
    "one-leader-per-epoch": (_as_it_is, _two_leaders, _NO_EVENTS),
    "controller-epoch": (_as_it_is, _controller_back, _NO_ZNODES),
    "offset-order": (_as_it_is, _hw_above_leo, _NO_EVENTS),
    "hw-within-isr": (_as_it_is, _hw_on_append, _NO_EVENTS),
    "hw-monotone": (_as_it_is, _hw_back, _NO_EVENTS),
    "log-matching": (_as_it_is, _bytes_differ, _NO_FILES),
    "leader-completeness": (_as_it_is, _short_leader, _NO_EVENTS),
    "ack-committed": (_as_it_is, _early_ack, _NO_EVENTS),
    "epoch-cache": (_as_it_is, _epochs_repeat, _NO_FILES),
    "log-contiguous": (_as_it_is, _hole_in_log, _NO_FILES),
    "truncation": (_as_it_is, _cut_in_isr, _NO_EVENTS),
    "live-isr": (_as_it_is, _dead_joiner, _NO_ZNODES),
    "shown-below-hw": (_as_it_is, _shown_above, _NO_EVENTS),
    # An event log with a hole proves nothing, and nothing else.
    "event-log": (_as_it_is, _gap, _NO_EVENTS),
}
MORE_WHITE_BOX: dict[tuple[str, str], Change] = {
    ("hw-within-isr", "bad-refused"): _refused_fetch_counted,
    ("shown-below-hw", "bad-listed"): _end_told_too_high,
    ("isr-znode", "ok-eligible"): _eligible_leader,
    ("isr-znode", "bad-ineligible"): _ineligible_leader,
    ("isr-znode", "bad-old-eligibility"): _leader_of_an_old_eligibility,
    ("one-leader-per-epoch", "bad-old-epoch"): _role_of_an_old_epoch,
    ("one-leader-per-epoch", "ok-anew"): _log_opened_anew,
    ("shown-below-hw", "bad-told"): _watermark_told_too_high,
    ("shown-below-hw", "ok-told"): _watermark_told,
    ("truncation", "bad-own-watermark"): _cut_below_own_watermark,
    ("truncation", "ok-own-watermark"): _cut_to_own_watermark,
    ("hw-within-isr", "bad-asked-lower"): _lower_fetch_passed_over,
    ("hw-within-isr", "ok-asked-lower"): _lower_fetch_never_answered,
    ("truncation", "bad-restart"): _end_forgotten,
    ("truncation", "bad-restart-stopped"): _end_forgotten_after_a_stop,
    ("truncation", "ok-restart"): _end_at_the_watermark,
    ("truncation", "ok-restart-deleted"): _end_deleted,
    ("truncation", "ok-restart-cut"): _end_cut,
    ("truncation", "ok-restart-damaged"): _end_damaged,
    ("truncation", "ok-restart-anew"): _begun_anew,
    ("isr-znode", "ok-longest-log"): _longest_log,
    ("live-isr", "ok-eligible"): _eligible_leader,
    ("live-isr", "bad-grown"): _grown_by_an_election,
    ("live-isr", "bad-elected"): _long_dead_elected,
    ("live-isr", "ok-elected"): _elected_just_after_its_end,
    ("live-isr", "bad-unproposed"): _unproposed,
    ("log-matching", "ok-head-expired"): _head_expired,
    ("log-matching", "bad-head-young"): _head_young,
}

LAST_STANDING = frozenset(
    {_eligible_leader, _ineligible_leader, _leader_of_an_old_eligibility, _longest_log, _grown_by_an_election}
)
"""Changes of `_last_standing`; all others are of `_life`."""


def names() -> list[tuple[str, str]]:
    """(anomaly, case name) of every golden history."""
    main = [(anomaly, case) for anomaly in (*BLACK_BOX, *WHITE_BOX) for case in CASES]
    return [*main, *MORE_BLACK_BOX, *MORE_WHITE_BOX]


def build() -> Iterator[tuple[str, str, Case]]:
    """(anomaly, case name, case), all in topics `<anomaly>-<case>` and on brokers of their own."""
    for anomaly, tellers in BLACK_BOX.items():
        for name, tell in zip(CASES, tellers, strict=True):
            story = Story(f"{anomaly}-{name}")
            tell(story)
            yield anomaly, name, Case(story.lines)
    number = 1
    for anomaly, changes in WHITE_BOX.items():
        for name, change in zip(CASES, changes, strict=True):
            case = case_of(_life(f"{anomaly}-{name}", 10 * number))
            change(case)
            number += 1
            yield anomaly, name, case
    for (anomaly, name), tell in MORE_BLACK_BOX.items():
        story = Story(f"{anomaly}-{name}")
        tell(story)
        yield anomaly, name, Case(story.lines)
    for (anomaly, name), change in MORE_WHITE_BOX.items():
        life = _last_standing if change in LAST_STANDING else _life
        case = case_of(life(f"{anomaly}-{name}", 10 * number))
        change(case)
        number += 1
        yield anomaly, name, case


def known(row: dict[str, Any]) -> dict[str, Any]:
    """Without nulls: a field that is missing is null to the readers."""
    return {name: value for name, value in row.items() if value is not None}


def read(anomaly: str, name: str) -> Case:
    """A stored case."""
    folder = ROOT / anomaly / name
    tables = {table: _lines(folder / f"{table}.jsonl") for table in TABLES if (folder / f"{table}.jsonl").exists()}
    return Case(_lines(folder / "history.jsonl"), tables)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    for anomaly, name, case in build():
        folder = ROOT / anomaly / name
        folder.mkdir(parents=True, exist_ok=True)
        for table, rows in {"history": case.history, **case.tables}.items():
            text = "".join(json.dumps(known(row), separators=(",", ":")) + "\n" for row in rows)
            (folder / f"{table}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
