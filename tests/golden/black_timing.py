"""Stories of real time: the order of offsets, reads that are late, and how long nobody is answered."""

from __future__ import annotations

from tests.golden.black_parts import sent
from tests.support.histories import Story


def send_order_ok(s: Story) -> None:
    s.send(1, 0, process=1)
    s.send([2, 3], 1, process=1)
    s.send(4, 3, process=1)
    s.poll(0, [(0, 1), (1, 2), (2, 3), (3, 4)], process=20)


def send_order_bad(s: Story) -> None:
    s.send(1, 1, process=1)
    s.send(2, 0, process=1)
    s.poll(0, [(0, 2), (1, 1)], process=20)


def sends_overtake(s: Story) -> None:
    """Two connections, no idempotence: the later send was written first, and the next, begun after both, last."""
    s.send(1, 1, process=1, invoked=10, completed=30)
    s.send(2, 0, process=1, invoked=20, completed=25)
    s.send(3, 2, process=1, invoked=31, completed=32)
    s.poll(0, [(0, 2), (1, 1), (2, 3)], process=20)


def sends_overtake_in_order(s: Story) -> None:
    """The same of a producer that promises order."""
    s.send(1, 1, process=1, invoked=10, completed=30, in_order=True)
    s.send(2, 0, process=1, invoked=20, completed=25, in_order=True)
    s.poll(0, [(0, 2), (1, 1)], process=20)


def send_below_an_earlier_one(s: Story) -> None:
    """The last send is above the one before it, and below one that was answered long before."""
    s.send(1, 2, process=1, invoked=10, completed=13)
    s.send(2, 0, process=1, invoked=11, completed=12)
    s.send(3, 1, process=1, invoked=21, completed=22)
    s.poll(0, [(0, 2), (1, 3), (2, 1)], process=20)


def nothing_acknowledged(s: Story) -> None:
    s.send(1, outcome="info", process=1)
    s.poll(0, [], process=20)


def real_time_ok(s: Story) -> None:
    # Overlapping sends may take either order.
    s.send(1, 1, process=1, invoked=10, completed=20)
    s.send(2, 0, process=2, invoked=19, completed=25)
    s.poll(0, [(0, 2), (1, 1)], process=20)


def real_time_bad(s: Story) -> None:
    s.send(1, 1, process=1, invoked=10, completed=20)
    s.send(2, 0, process=2, invoked=21, completed=25)
    s.poll(0, [(0, 2), (1, 1)], process=20)


def stale(s: Story) -> None:
    """A poll is told that the log ends at 2, long after 3 and 4 were acknowledged."""
    log = sent(s)
    s.poll(0, log, process=20)
    s.poll(0, log[:2], hw=2, epoch=1, process=21, consumer="c1", invoked=1000, completed=1001)


def stale_unknown(s: Story) -> None:
    log = sent(s)
    s.poll(0, log, hw=9, process=20)


def available_again(s: Story) -> None:
    """A second without an answer, under a fault."""
    s.send(1, 0, process=1)
    s.nemesis("start", "pause", 1, at=10)
    s.send(2, outcome="info", process=2, invoked=20, completed=900)
    s.nemesis("stop", "pause", 1, at=1000)
    s.send(3, 1, process=3, invoked=1001, completed=1040)


def available_to_nobody(s: Story) -> None:
    s.send(1, 0, process=1, phase="final")
