"""A client that writes one record per tick to an in-memory cluster, and what became of each: for tables in scenarios.

Links between brokers take a while, so a follower is always a little behind. Time is virtual; a tick is TICK_MS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from broker.core.controller import election
from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_links import Held
from tests.support.memory_node import FakeSlot

TICK_MS = 5.0
LINK_MS = 20.0


class Outcome(NamedTuple):
    """acked: told to the client; lost: of these, gone in the end; away_ms: time in which nothing could be written."""

    acked: int
    lost: int
    away_ms: float
    latency_ms: float


@dataclass
class _Sent:
    value: str
    slot: FakeSlot
    at_ms: float
    acked_ms: float | None = None


class MeasuredClient:
    """See the module. `cut`: brokers that no other broker reaches."""

    def __init__(self, cluster: MemoryCluster, acks: int) -> None:
        self.cluster = cluster
        self.cut: set[int] = set()
        self._acks = acks
        self._sent: list[_Sent] = []
        self._refused = 0
        self._next = 0
        self._reset_ms = 0.0
        self._due: dict[int, tuple[Held, float]] = {}
        """When a message arrives, by its id; the message is kept, so that no other gets its id."""
        cluster.hold = self._holds

    def _holds(self, message: Held) -> bool:
        if self.cut & {message.source, message.target}:
            return True
        now = self.cluster.loop.now
        return now < self._due.setdefault(id(message), (message, now + LINK_MS))[1]

    def write_for(self, ms: float) -> None:
        """One record per tick to whoever leads by the cluster's metadata, without retries."""
        self._run(ms, self._send)

    def wait(self, ms: float) -> None:
        """Let time pass without writing."""
        self._run(ms, lambda: None)

    def _run(self, ms: float, each_tick: Callable[[], None]) -> None:
        for _ in range(round(ms / TICK_MS)):
            each_tick()
            self.cluster.release()
            self.cluster.advance(TICK_MS)
            for one in self._sent:
                if one.acked_ms is None and self._acked(one.slot):
                    one.acked_ms = self.cluster.loop.now

    def _send(self) -> None:
        leader = self.cluster.state.leader
        if leader == NO_LEADER:
            self._refused += 1
            return
        if self.cluster.nodes[leader].manager is None:
            self._reset_ms = self._reset_ms or self.cluster.loop.now + LINK_MS
            if self._acks != 0 or self.cluster.loop.now >= self._reset_ms:
                self._refused += 1
                return
            # Nobody answers acks=0: until the reset comes back, what was sent into the void looks written.
            slot = FakeSlot()
            slot.fulfil_nothing()
        else:
            slot = self.cluster.produce(leader, f"{self._next}", acks=self._acks)
        self._sent.append(_Sent(f"{self._next}", slot, self.cluster.loop.now))
        self._next += 1

    def _acked(self, slot: FakeSlot) -> bool:
        if self._acks == 0:
            return slot.nothing
        result = produced(slot)
        return result is not None and result.error == 0

    def outcome(self) -> Outcome:
        """After everything has come to rest: against the log of whoever leads."""
        kept = set(self.cluster.nodes[self.cluster.state.leader].log.values())
        acked = [one for one in self._sent if one.acked_ms is not None]
        lost = [one for one in acked if one.value not in kept]
        waited = [one.acked_ms - one.at_ms - TICK_MS for one in acked if one.acked_ms is not None]
        unanswered = len(self._sent) - len(acked)
        return Outcome(len(acked), len(lost), (self._refused + unanswered) * TICK_MS, sum(waited) / len(waited))


def fail(cluster: MemoryCluster, broker: int, unclean: bool = False) -> None:
    """The controller learns that a broker is gone, and decides by its own rule."""
    cluster.registered.pop(broker)
    state = cluster.state
    before = LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.partition_epoch)
    live = frozenset(cluster.registered)
    after = election.after_failure(before, state.replicas, live, frozenset((broker,)), unclean)
    if after is not None:
        cluster.write(leader=after.leader, leader_epoch=after.leader_epoch, isr=after.isr)


def table(title: str, rows: dict[str, Outcome]) -> str:
    """For a terminal."""
    lines = [title, f"{'':>16} {'acked':>7} {'lost':>6} {'away ms':>8} {'mean latency ms':>16}"]
    for name, one in rows.items():
        lines.append(f"{name:>16} {one.acked:>7} {one.lost:>6} {one.away_ms:>8.0f} {one.latency_ms:>16.1f}")
    return "\n".join(lines)
