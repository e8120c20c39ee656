"""When a broker's process counts as gone before its session ends, and what a controller may do about that.

The evidence: a connection to it was reset *and* reconnecting is refused, which is what the kernel of a living host says
for a process that has ended; and every other live broker that can be reached has the same evidence. A broker that still
reaches it vetoes. A broker that misses most of its peers at once suspects none of them: it is cut off itself. A process
that is paused, or a host that vanished, resets and refuses nothing: there the session or the lag time decides. A
suspicion may be wrong. Epochs make that safe, so it is only bounded: once per registration, and never an ISR below
min.insync.replicas for it. Pure; no clocks, no sockets.
Source: C10 of docs/guarantees.md; docs/adr/0011.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, IntEnum, auto

from broker.core.controller import election
from broker.core.controller.cluster_state import NO_LEADER, ClusterState
from broker.core.controller.decisions import SUSPECTED, Change
from broker.model.ids import BrokerId, Epoch


class Evidence(IntEnum):
    """What one broker can say of another's process."""

    UNKNOWN = 0
    THERE = 1
    GONE = 2
    """The last attempt to connect was refused."""


class LinkEvent(Enum):
    """What happened on the way to a broker."""

    CONNECTED = auto()
    CLOSED = auto()
    """An established connection ended: reset, or closed by the other end."""
    REFUSED = auto()
    UNREACHABLE = auto()
    """Neither accepted nor refused in time: it may be paused or cut off."""


class LinkState:
    """What the connections to one address of one broker have shown so far."""

    __slots__ = ("evidence", "was_connected")

    def __init__(self) -> None:
        self.evidence = Evidence.UNKNOWN
        self.was_connected = False

    def apply(self, event: LinkEvent) -> None:
        """Take one event of the link; only REFUSED is evidence that the process is gone."""
        match event:
            case LinkEvent.CONNECTED:
                self.evidence = Evidence.THERE
                self.was_connected = True
            case LinkEvent.CLOSED | LinkEvent.UNREACHABLE:
                self.evidence = Evidence.UNKNOWN
            case LinkEvent.REFUSED:
                self.evidence = Evidence.GONE

    @property
    def lost(self) -> bool:
        """A connection was lost, and there is none yet in its place."""
        return self.was_connected and self.evidence is not Evidence.THERE

    @property
    def suspicious(self) -> bool:
        """A connection was lost, and reconnecting is refused."""
        return self.was_connected and self.evidence is Evidence.GONE


def corroborated(responses: Mapping[BrokerId, Evidence | None]) -> bool:
    """Whether the evidence of the other brokers confirms a suspicion.

    responses: of every live broker but the suspecting and the suspected one; None where no response came.
    """
    received = [evidence for evidence in responses.values() if evidence is not None]
    missed = 1 + len(responses) - len(received)
    peers = 1 + len(responses)
    return bool(received) and all(evidence is Evidence.GONE for evidence in received) and 2 * missed <= peers


def suspected(state: ClusterState, broker: BrokerId, controller_epoch: Epoch) -> list[Change]:
    """Take leadership and ISR places from a suspected broker; `state.suspected` has it already.

    A partition whose ISR would fall below its minimum, or that nobody could lead, is left as it is until the session
    ends: with acks=all nothing could be written there anyway.
    """
    assert broker in state.suspected
    gone = frozenset((broker,))
    changes = []
    for topic_partition in state.partitions_of(gone):
        current = state.states.get(topic_partition)
        if current is None or broker not in current.isr or topic_partition.topic in state.deleting:
            continue
        replicas, live = state.replicas(topic_partition), state.live_for(topic_partition)
        if current.leader == NO_LEADER or (current.leader == broker and live.isdisjoint(current.isr)):
            continue
        after = election.after_failure(current, replicas, live, gone, unclean=False)
        if after is not None and len(after.isr) >= state.min_isr_of(topic_partition):
            after = replace(after, controller_epoch=controller_epoch)
            changes.append(Change(topic_partition, current, after, SUSPECTED))
    return changes
