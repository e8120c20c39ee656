"""Stories of followers that read for consumers: what they show, and whether they go back."""

from __future__ import annotations

from typing import Any

from tests.golden.black_parts import sent
from tests.support.histories import Story

NEAR: dict[str, Any] = {"reader": "follower", "consumer": "near", "process": 30}


def shown_ok(s: Story) -> None:
    """A follower lags, and what it returned the leader's watermark has passed; or it knew the end of the last epoch,
    which the next leader's watermark has not reached yet.
    """
    log = sent(s)
    s.poll(0, log, process=20, invoked=50, completed=60)
    s.poll(0, log[:2], hw=2, node="f2", invoked=61, completed=62, **NEAR)
    s.poll(4, [], hw=4, epoch=1, node="f3", invoked=63, completed=64, **NEAR)
    s.poll(2, [], hw=2, epoch=1, process=21, consumer="c1", invoked=70, completed=75)


def shown_bad(s: Story) -> None:
    """It returned a record of its leader's epoch, of which the leader says later that it is not committed."""
    log = sent(s, node="n9")
    s.poll(0, log, node="f2", invoked=50, completed=60, **NEAR)
    s.poll(0, log[:2], hw=2, process=21, consumer="c1", invoked=61, completed=65)


def back_ok(s: Story) -> None:
    """Another follower lags; one that was restarted; one in another epoch; who was asked before it answered; and one
    whose empty log begins anew at its leader's start, below the start of an earlier leader's that it began at. For the
    fault's sake it has nodes of its own.
    """
    log = sent(s)
    s.poll(0, log, process=20, hw=4)
    s.poll(0, log, node="g2", **NEAR)
    s.poll(0, log[:1], hw=1, node="g3", **NEAR)
    now = s.now
    s.poll(0, log[:3], hw=3, node="g3", invoked=now + 2, completed=now + 5, **NEAR)
    s.poll(0, log[:2], hw=2, node="g3", invoked=now + 3, completed=now + 6, **NEAR)
    s.poll(0, log[:3], hw=3, epoch=1, node="g2", **NEAR)
    s.nemesis("start", "kill", 1, ["g2"])
    s.poll(0, log[:1], hw=1, epoch=1, node="g2", **NEAR)
    s.poll(2, hw=2, epoch=1, log_start=2, node="g4", partition=1, **NEAR)
    s.poll(0, hw=1, epoch=1, node="g4", partition=1, **NEAR)


def back_bad(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, process=20, hw=4)
    s.poll(0, log, node="f2", **NEAR)
    s.poll(0, log[:3], hw=3, node="f2", **NEAR)


def back_unknown(s: Story) -> None:
    """No follower was asked twice."""
    log = sent(s)
    s.poll(0, log, node="f2", **NEAR)


def passed_over(s: Story) -> None:
    """What a follower passes over is lost as it is by any reader."""
    log = sent(s)
    s.poll(0, [log[0], *log[2:]], node="f2", **NEAR)
    s.poll(0, log[:1], hw=4, node="f2", **NEAR)


def shown_and_refused(s: Story) -> None:
    """A follower returned four records, and the next leader has no such offset; who sent them knows of no answer."""
    s.poll(0, _unanswered(s), node="f2", **NEAR)
    s.poll(3, outcome="fail", error="OFFSET_OUT_OF_RANGE", epoch=1, process=21, consumer="c9")
    s.list_offsets(0, epoch=1, process=22, timestamp=-2)


def shown_and_lower(s: Story) -> None:
    """A follower returned four records, and the next leader says that its log ends below."""
    s.poll(0, _unanswered(s), node="f2", **NEAR)
    s.list_offsets(3, epoch=1, process=21)


def lags_behind_the_end(s: Story) -> None:
    """A follower of an epoch has less than its leader told, one of a later epoch more than an earlier leader had."""
    log = _unanswered(s)
    s.list_offsets(3, process=21)
    s.poll(0, log[:2], hw=2, node="f2", **NEAR)
    s.poll(4, epoch=2, hw=4, node="f2", **NEAR)
    s.list_offsets(3, epoch=1, process=22)


def _unanswered(s: Story) -> list[tuple[int, int]]:
    for n in range(4):
        s.send(n + 1, outcome="info", process=n)
    return [(n, n + 1) for n in range(4)]
