"""R11: a follower that is slow, hung, or behind a narrow link leaves the ISR in time and comes back.

It holds the partition up for at most 1.5 lag times and the ISR change, in one table. Time is virtual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_links import Held
from tests.support.memory_node import FakeSlot

pytestmark = pytest.mark.guarantee("R11")

LAG_MS = 1000.0
TICK_MS = 5.0
LINK_MS = 5.0
# The proposal, the controller's answer, and the answers to those who waited: a few links and ticks.
ISR_CHANGE_MS = 40.0
VICTIM = 3
VALUE = "x" * 500


@dataclass
class Sent:
    slot: FakeSlot
    at_ms: float
    acked_ms: float | None = None


class Links:
    """Every message takes a while; those of the victim longer, or no more bytes at a time than its link carries."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.victim_ms = LINK_MS
        self.bytes_per_ms = float("inf")
        self._free_ms = 0.0
        self._due: dict[int, tuple[Held, float]] = {}
        """When a message arrives, by its id; the message is kept, so that no other gets its id."""
        cluster.hold = self._holds

    def heal(self) -> None:
        """What is under way arrives as on a sound link."""
        self.victim_ms, self.bytes_per_ms, self._free_ms = LINK_MS, float("inf"), 0.0
        self._due.clear()
        if self.cluster.nodes[VICTIM].paused:
            self.cluster.resume(VICTIM)

    def _holds(self, message: Held) -> bool:
        known = self._due.get(id(message))
        if known is None:
            known = self._due[id(message)] = (message, self._arrival(message))
        return self.cluster.loop.now < known[1]

    def _arrival(self, message: Held) -> float:
        now = self.cluster.loop.now
        if VICTIM not in (message.source, message.target):
            return now + LINK_MS
        if message.target == VICTIM:
            self._free_ms = max(self._free_ms, now) + message.size / self.bytes_per_ms
            return self._free_ms + self.victim_ms
        return now + self.victim_ms


class Outcome(NamedTuple):
    """left_ms: from the fault until the ISR was without it; blocked_ms: the longest wait of any acks=all write."""

    left_ms: float
    blocked_ms: float
    blocked_after_ms: float
    back_ms: float


class Run:
    """Steady writes to broker 1 with acks=all while a fault comes and goes."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(3, min_isr=2, settings={"replica.lag.time.max.ms": str(int(LAG_MS))})
        self.cluster.settle()
        self.links = Links(self.cluster)
        self.sent: list[Sent] = []
        self.waiting: list[Sent] = []

    def write_until(self, condition: Callable[[], bool], at_most_ms: float) -> float:
        """How long it took; fails when it does not come."""
        began = self.cluster.loop.now
        while not condition():
            assert self.cluster.loop.now - began < at_most_ms, f"ISR {self.cluster.state.isr} after {at_most_ms} ms"
            self.sent.append(Sent(self.cluster.produce(1, VALUE), self.cluster.loop.now))
            self.waiting.append(self.sent[-1])
            self.cluster.release()
            self.cluster.advance(TICK_MS)
            self._look()
        return self.cluster.loop.now - began

    def write_for(self, ms: float) -> None:
        end = self.cluster.loop.now + ms
        self.write_until(lambda: self.cluster.loop.now >= end, ms + TICK_MS)

    def _look(self) -> None:
        for one in self.waiting:
            if (result := produced(one.slot)) is not None:
                assert result.error == 0
                one.acked_ms = self.cluster.loop.now
        self.waiting = [one for one in self.waiting if one.acked_ms is None]

    def longest_ms(self, since_ms: float) -> float:
        """Of the writes sent since then; one that still waits has waited until now."""
        now = self.cluster.loop.now
        waits = [(now if one.acked_ms is None else one.acked_ms) - one.at_ms for one in self.sent]
        return max(wait for wait, one in zip(waits, self.sent, strict=True) if one.at_ms >= since_ms)


def hung(links: Links) -> None:
    """SIGSTOP: the process neither reads nor writes; its connections stay."""
    links.cluster.nodes[VICTIM].paused = True


def slow(links: Links) -> None:
    """It answers, each time too late: a round trip is longer than the lag time."""
    links.victim_ms = 0.6 * LAG_MS


def narrow(links: Links) -> None:
    """It gets a fifth of what is written."""
    links.bytes_per_ms = len(VALUE) / TICK_MS / 5


def outcome_of(fault: Callable[[Links], None], phase_ms: float) -> Outcome:
    """phase_ms: when it begins, as seen from the check for late followers, which comes every half lag time."""
    run = Run()
    cluster = run.cluster
    run.write_for(LAG_MS / 2 + phase_ms)
    assert run.longest_ms(0) < ISR_CHANGE_MS, "nobody waits while all is well"
    fault(run.links)
    began = cluster.loop.now
    left_ms = run.write_until(lambda: set(cluster.state.isr) == {1, 2}, 3 * LAG_MS)
    run.write_for(TICK_MS * 10)
    out = cluster.loop.now
    blocked_ms = run.longest_ms(began)
    run.write_for(3 * LAG_MS)
    assert set(cluster.state.isr) == {1, 2}, "it does not come back before its fault is over"
    blocked_after_ms = run.longest_ms(out)
    run.links.heal()
    back_ms = run.write_until(lambda: set(cluster.state.isr) == {1, 2, 3}, 10 * LAG_MS)
    run.write_for(500)
    cluster.hold = lambda message: False
    cluster.release()
    cluster.advance(1000)
    assert len({tuple(node.log.batches) for node in cluster.nodes.values()}) == 1, "every replica has the same bytes"
    proposals = [line["kind"] for line in cluster.nodes[1].event_log.of("isr_propose")]
    assert proposals == ["shrink", "expand"], "out once, in once"
    return Outcome(left_ms, blocked_ms, blocked_after_ms, back_ms)


def worst_of(fault: Callable[[Links], None]) -> Outcome:
    """Over the moments at which it may begin."""
    outcomes = [outcome_of(fault, phase * LAG_MS / 10) for phase in (0, 2, 4)]
    return Outcome(*map(max, zip(*outcomes, strict=True)))


def test_slow_hung_and_narrow_follower_leave_in_time_and_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {fault.__name__: worst_of(fault) for fault in (hung, slow, narrow)}
    with capsys.disabled():
        print(f"\na follower falls behind (lag time {LAG_MS:.0f} ms, acks=all); the longest of three")
        print(f"{'':>8} {'left after':>10} {'a write waited':>14} {'while it is out':>15} {'back after':>10}")
        for name, (left, blocked, blocked_after, back) in outcomes.items():
            print(f"{name:>8} {left:>10.0f} {blocked:>14.0f} {blocked_after:>15.0f} {back:>10.0f}")
    for name, one in outcomes.items():
        assert LAG_MS < one.blocked_ms <= 1.5 * LAG_MS + ISR_CHANGE_MS, name
        assert one.blocked_after_ms < ISR_CHANGE_MS, name
        if name != "narrow":  # which keeps up for a while
            assert one.left_ms <= 1.5 * LAG_MS + ISR_CHANGE_MS, name
