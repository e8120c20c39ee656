"""Stories of the final drain: how far it reads, and what its rounds and its two readers tell."""

from __future__ import annotations

from typing import Any

from tests.golden.black_parts import sent
from tests.golden.limits import RETENTION_MS
from tests.support.histories import Story


def _drained(story: Story, log: list[tuple[int, int]]) -> None:
    for reader in ("wire", "confluent"):
        story.poll(0, log, reader=reader, consumer=f"d-{reader}", phase="drain-0", process=900 + len(reader), epoch=5)
        story.drained(len(log), reader=reader)


def tail_ok(s: Story) -> None:
    log = sent(s)
    _drained(s, log)


def tail_bad(s: Story) -> None:
    log = sent(s)
    _drained(s, log[:3])


def tail_unknown(s: Story) -> None:
    log = sent(s)
    s.poll(0, log[:3], hw=4, process=20)


def _acknowledged_late(s: Story, offset: int | None) -> None:
    """The real client had a record under way until the lab's own reader had asked for the end for the last time."""
    log = sent(s)
    late = s.invoke("send", values=[5], acks=-1, sentinel=False, process=5, reader="confluent", node=None)
    s.poll(0, log, phase="drain-0", process=20, consumer="w")
    told: dict[str, Any] = {} if offset is None else {"base_offset": offset}
    s.complete(late, **told)
    s.drained(4)
    s.poll(0, log, phase="drain-0", process=21, consumer="c", reader="confluent")
    s.drained(4, reader="confluent")


def tail_late(s: Story) -> None:
    """It stands above what was read, by right."""
    _acknowledged_late(s, 4)


def tail_late_without_offset(s: Story) -> None:
    """Where it stands nobody knows; above what was read it may."""
    _acknowledged_late(s, None)


def tail_known_in_time(s: Story) -> None:
    """As before, but another round comes to its end once it was acknowledged, and does not find it."""
    _acknowledged_late(s, 4)
    log = [(nth, nth + 1) for nth in range(4)]
    s.poll(0, log, phase="drain-1", process=22, consumer="w1")
    s.drained(4, phase="drain-1")


def _drained_by_wire(s: Story) -> list[tuple[int, int]]:
    log = sent(s)
    s.poll(0, log, phase="drain-0", process=20, consumer="w")
    s.drained(4)
    return log


def repeat_bad(s: Story) -> None:
    log = _drained_by_wire(s)
    s.poll(0, log[:3], phase="drain-0", process=21, consumer="c", reader="confluent")
    s.drained(4, reader="confluent")


def repeat_unknown(s: Story) -> None:
    _drained_by_wire(s)


def repeat_bad_in_one_round(s: Story) -> None:
    """The real client lacks in one round what it read in another."""
    log = sent(s)
    for phase, read in (("drain-0", log), ("drain-1", log[:3])):
        s.poll(0, log, phase=phase, process=20, consumer=f"w{phase}")
        s.drained(4, phase=phase)
        s.poll(0, read, phase=phase, process=21, consumer=f"c{phase}", reader="confluent")
        s.drained(4, reader="confluent", phase=phase)


def repeat_ok_one_read_on(s: Story) -> None:
    """The wire reader reads to the end of the log, the real client to the sentinel."""
    log = _drained_by_wire(s)
    s.poll(0, log[:3], phase="drain-0", process=21, consumer="c", reader="confluent")
    s.drained(3, reader="confluent")


def repeat_ok_expired(s: Story) -> None:
    """Two records grow old between the two readers: the second begins where the log does by then."""
    log = _drained_by_wire(s)
    s.now += RETENTION_MS
    real: dict[str, Any] = {"phase": "drain-0", "reader": "confluent"}
    s.poll(0, outcome="fail", error="client-error", process=21, consumer="c", **real)
    s.list_offsets(2, timestamp=-2, phase="drain-0", process=22)
    s.poll(2, log[2:], process=23, consumer="d", **real)
    s.drained(4, start=2, reader="confluent")


def repeat_bad_begun_late(s: Story) -> None:
    """The second reader does not have the first two records, which were not old enough to be gone."""
    log = _drained_by_wire(s)
    s.poll(0, [*log[2:]], phase="drain-0", process=21, consumer="c", reader="confluent")
    s.drained(4, reader="confluent")


def _with_sentinel(s: Story) -> list[tuple[int, int]]:
    log = sent(s)
    s.send(5, 4, process=5, sentinel=True, phase="final")
    return [*log, (4, 5)]


def drain_ok(s: Story) -> None:
    _drained(s, _with_sentinel(s))


def drain_bad(s: Story) -> None:
    """Everything was read once, but no drain began where the acknowledged records do."""
    log = _with_sentinel(s)
    s.poll(0, log, process=20)
    for reader in ("wire", "confluent"):
        s.poll(2, log[2:], reader=reader, consumer=reader, phase="drain-0", process=900 + len(reader), epoch=5)
        s.drained(5, start=2, reader=reader)


def _drained_from_the_third(s: Story, start: int) -> None:
    """Nobody read the first two, so no figure but the drain's own beginning tells that they were passed by."""
    log = _with_sentinel(s)
    for reader in ("wire", "confluent"):
        s.poll(2, log[2:], reader=reader, consumer=reader, phase="drain-current", process=900 + len(reader), epoch=5)
        s.drained(5, start=start, reader=reader, phase="drain-current")


def drain_begun_late(s: Story) -> None:
    """Both readers say where they began: above acknowledged records."""
    _drained_from_the_third(s, 2)


def drain_begun_untrue(s: Story) -> None:
    """Both readers say that they began with the log, but their polls did not."""
    _drained_from_the_third(s, 0)


def drain_gone(s: Story) -> None:
    """A record that was read once and that the drain does not return."""
    log = _with_sentinel(s)
    s.poll(0, log, process=20)
    _drained(s, [log[0], *log[2:]])
    s.lines[-1]["end"] = 5


def drain_known_later(s: Story) -> None:
    """A real client is told of a record once the first round has asked for the end; the next round returns it."""
    log = _with_sentinel(s)
    late = s.invoke("send", values=[6], acks=-1, sentinel=False, process=6, reader="confluent", node=None)
    s.poll(0, log, consumer="w", phase="drain-current", process=900, epoch=5)
    s.complete(late, base_offset=5)
    s.drained(5, phase="drain-current")
    s.poll(0, log, consumer="c", phase="drain-current", process=901, reader="confluent")
    s.drained(5, phase="drain-current", reader="confluent")
    _rounds(s, [*log, (5, 6)], [("drain-n1", "n1")], first=1)


def drain_gone_unacknowledged(s: Story) -> None:
    """What nobody acknowledged stands above the sentinel, by one replica; the next one that leads does not have it."""
    log = _with_sentinel(s)
    s.send(6, outcome="info", process=6, phase="final")
    _rounds(s, [*log, (5, 6)], [("drain-current", "n1")])
    _rounds(s, log, [("drain-n2", "n2")], first=1)


def _rounds(s: Story, log: list[tuple[int, int]], rounds: list[tuple[str, str]], first: int = 0) -> None:
    """(phase, leader): both readers read everything. first: number of the first of these rounds."""
    for nth, (phase, leader) in enumerate(rounds, first):
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


def drain_not_healed(s: Story) -> None:
    """Who led after the faults answers no reader, until it is restarted for the rotation."""
    log = _with_sentinel(s)
    _given_up(s, "drain-current", "n2")
    _rounds(s, log, [("drain-n1", "n1"), ("drain-n2", "n2"), ("drain-n3", "n3")])


def drain_again(s: Story) -> None:
    """The healed cluster is read; one replica only once it has been written over."""
    log = _with_sentinel(s)
    _rounds(s, log, [("drain-current", "n1"), ("drain-n1", "n1")])
    _given_up(s, "drain-n2", "n2")
    _rounds(s, log, [("drain-n3", "n3"), ("drain-again", "n2")])


def _in_pieces(s: Story, first: dict[str, Any], second: dict[str, Any]) -> None:
    """The wire reader's two polls; the real client reads all of it."""
    log = _with_sentinel(s)
    s.poll(0, log[:2], phase="drain-0", **{"consumer": "d", "process": 900, "epoch": 5, **first})
    s.poll(2, log[2:], phase="drain-0", **{"consumer": "d", "process": 900, "epoch": 5, **second})
    s.drained(5)
    s.poll(0, log, phase="drain-0", process=901, consumer="c", reader="confluent")
    s.drained(5, reader="confluent")


def drain_in_two_leaderships(s: Story) -> None:
    """Another broker led in between: no leader was seen to have all of it."""
    _in_pieces(s, {}, {"epoch": 7})


def drain_by_two_consumers(s: Story) -> None:
    _in_pieces(s, {}, {"consumer": "e", "process": 902})


def drain_unknown(s: Story) -> None:
    _drained(s, sent(s))
