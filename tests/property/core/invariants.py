"""What must hold of a partition's replicas after every step, whatever was lost or came late."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from broker.core.replication.partition import NO_LEADER, PartitionState
from tests.property.core.plain_broker import Broker

Entry = tuple[int, str]
"""(leader epoch, value)"""


class Violation(AssertionError):
    """An invariant of replication does not hold."""


def check_state(state: PartitionState) -> None:
    if not state.isr or not set(state.isr) <= set(state.replicas):
        raise Violation(f"ISR {state.isr}")
    if state.leader != NO_LEADER and state.leader not in state.isr:
        raise Violation(f"leader {state.leader} not in ISR {state.isr}")


def check_committed(isr: Sequence[Broker], committed: list[Entry], acked: Sequence[tuple[int, Entry]]) -> None:
    """committed: entries by offset; acked: (offset, entry)."""
    for broker in isr:
        log = broker.log
        if log[: len(committed)] != committed:
            raise Violation(f"ISR member {broker.id} lacks committed records: {log} against {committed}")
    for offset, entry in acked:
        if committed[offset] != entry:
            raise Violation(f"acknowledged {entry} at {offset} is lost")


def check_epoch_history(broker: Broker) -> None:
    starts = broker.epoch_starts
    if any(a[0] >= b[0] or a[1] >= b[1] for a, b in itertools.pairwise(starts)):
        raise Violation(f"epoch history of {broker.id}: {starts}")
    if starts and starts[-1][1] > broker.leo:
        raise Violation(f"epoch history of {broker.id} beyond LEO {broker.leo}: {starts}")


def check_log_matching(logs: Sequence[list[Entry]]) -> None:
    """Entries of the same epoch at the same offset: all before them is equal too."""
    for a in range(len(logs)):
        for b in range(a):
            shared = min(len(logs[a]), len(logs[b]))
            for offset in range(shared - 1, -1, -1):
                if logs[a][offset][0] == logs[b][offset][0]:
                    if logs[a][: offset + 1] != logs[b][: offset + 1]:
                        raise Violation(f"same epoch at {offset}, other prefix: {logs[a]} / {logs[b]}")
                    break
