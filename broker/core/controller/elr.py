"""Eligible leader replicas: who outside the ISR still holds all that is committed, and who may lead after an outage.

A watermark stands while the ISR is below min.insync.replicas. So whoever leaves an ISR that thereby is, or already was,
below it holds every committed record as long as the ISR stays below: the partition's ELR. Disjoint from the ISR, a
subset of the assignment, empty as soon as the ISR has its minimum again, for from then on more can be committed. Which
minimum that is stands beside the ELR, and goes with the ISR to the leader: it commits nothing with an ISR smaller than
this or than its own minimum. So it does not matter which of the two learns of a new minimum first. ISR and ELR say what
a replica *had*. What it has after a stop only itself can say: a `ReplicaReport` says whether the stop may have cost it
bytes. Where no leader lived on, a replica is elected by its report, never by its place in the state alone:

1. the ISR members whose stop was clean;
2. else an ELR member whose stop was clean, once every live ISR member has reported;
3. else, when the whole assignment has reported and no stop was clean, the replica with the longest log by (last epoch,
   end). An emptied log has no epoch: a log that ends before the log of an ISR or ELR member begins is not considered.
   Nor is the log of a replica outside of both that differs from a member's log at an offset that both have: a leader
   commits records of earlier epochs by its ISR alone, so a larger last epoch proves nothing where a leader that
   committed nothing came in between. A member had every committed record when it stopped, and a stop only shortens a
   log: a record that differs from a member's at the same offset was never committed, nor was any record behind it. Of
   logs that agree the longer one under the larger epoch has all records of the others;
4. else none: a replica that is still away may hold more.

Pure. Source: KIP-966; beyond it: a kill -9 whose log lost nothing is a clean stop, and rule 3 waits for all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from broker.model.ids import BrokerId, Epoch, Offset

NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """What a broker says of one of its replicas, as it found it at its start. unclean: bytes may be missing.

    last_epoch: of its last record; NO_EPOCH where everything up to end_offset was deleted, start_offset being the same.
    known_epoch: the newest that it knows of; it begins to lead under a newer one only. epochs: the newest leader epochs
    in its log and where each begins, rising; none where it has holes, or does not say. shortened: it is the log that it
    was when its broker stopped, but for an end that may be missing: no older copy, and not made anew.
    """

    unclean: bool
    last_epoch: Epoch = NO_EPOCH
    end_offset: Offset = 0
    start_offset: Offset = 0
    known_epoch: Epoch = NO_EPOCH
    epochs: tuple[tuple[Epoch, Offset], ...] = ()
    shortened: bool = False

    @property
    def newest_epoch(self) -> Epoch:
        """known_epoch, where an older version does not say it."""
        return max(self.last_epoch, self.known_epoch)

    def epoch_at(self, offset: Offset) -> Epoch:
        """Of the record at an offset from the first of `epochs` on."""
        return max(epoch for epoch, start in self.epochs if start <= offset)

    def differs_from(self, other: ReplicaReport) -> bool:
        """Whether the logs have different records at an offset that is in both, as far as the epochs of both are known.

        One epoch has one leader: the same offset under the same epoch is the same record.
        """
        if not self.epochs or not other.epochs:
            return False
        first = max(self.epochs[0][1], other.epochs[0][1], self.start_offset, other.start_offset)
        end = min(self.end_offset, other.end_offset)
        turns = {first, *(start for _, start in (*self.epochs, *other.epochs) if start > first)}
        return any(self.epoch_at(offset) != other.epoch_at(offset) for offset in turns if offset < end)


CLEAN = ReplicaReport(unclean=False)
Reports = Callable[[BrokerId], ReplicaReport | None]
"""A live replica's report; None until it has reported."""


def trust_all(broker: BrokerId) -> ReplicaReport:
    """Kafka's view: every replica has what it had."""
    return CLEAN


class Choice(NamedTuple):
    """Who leads next, with which ISR. lossy: by rule 3, so that records may be gone."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    lossy: bool = False


def after_write(
    isr_before: Collection[BrokerId],
    elr_before: Collection[BrokerId],
    isr_after: Collection[BrokerId],
    replicas: Sequence[BrokerId],
    min_isr: int,
) -> tuple[BrokerId, ...]:
    """The ELR that goes with a new ISR, in assignment order; min_isr: clamped to the number of replicas.

    An ISR that had its minimum could commit without those who had left it: whatever ELR stood beside it is void.
    """
    if len(isr_after) >= min_isr:
        return ()
    still = elr_before if len(isr_before) < min_isr else ()
    held = {*isr_before, *still} - set(isr_after)
    return tuple(broker for broker in replicas if broker in held)


def choose(
    isr: Collection[BrokerId],
    elr: Collection[BrokerId],
    replicas: Sequence[BrokerId],
    live: AbstractSet[BrokerId],
    reports: Reports,
) -> Choice | None:
    """The next leader of a partition whose leader did not live on; None while a report is waited for."""
    reported = {broker: report for broker in replicas if broker in live and (report := reports(broker)) is not None}
    clean = [broker for broker, report in reported.items() if not report.unclean]
    in_sync = tuple(broker for broker in clean if broker in isr)
    if in_sync:
        return Choice(in_sync[0], in_sync)
    if any(broker in isr and broker in live and broker not in reported for broker in replicas):
        # Its report comes soon, and records of its that are not committed yet would be lost without need.
        return None
    for broker in clean:
        if broker in elr:
            return Choice(broker, (broker,))
    if len(reported) < len(replicas) or not any(broker in isr for broker in replicas):
        return None
    return _longest(isr, elr, replicas, reported)


def longest_alive(
    isr: Collection[BrokerId],
    elr: Collection[BrokerId],
    replicas: Sequence[BrokerId],
    live: AbstractSet[BrokerId],
    reports: Reports,
) -> BrokerId | None:
    """The live replica whose election loses least, for an unclean one; None while one of them has not reported, or none
    lives.

    Beyond Kafka, which takes the first in assignment order whatever its log holds.
    """
    alive = [broker for broker in replicas if broker in live]
    reported = {broker: report for broker in alive if (report := reports(broker)) is not None}
    if not alive or len(reported) < len(alive):
        return None
    return _longest(isr, elr, alive, reported).leader


def awaited(
    replicas: Sequence[BrokerId],
    live: AbstractSet[BrokerId],
    reports: Reports,
) -> tuple[BrokerId, ...]:
    """Brokers whose return, or report, could still give the partition a leader; for the operator."""
    return tuple(broker for broker in replicas if broker not in live or reports(broker) is None)


def _longest(
    isr: Collection[BrokerId],
    elr: Collection[BrokerId],
    replicas: Sequence[BrokerId],
    reported: Mapping[BrokerId, ReplicaReport],
) -> Choice:
    """The longest log of those that reach the start of every ISR and ELR member's log (what lies before was committed,
    then deleted), and that belong to such a member or differ from none.

    The start of any other replica's log may belong to a history that an unclean election has ended.
    """
    members = {broker: reported[broker] for broker in replicas if broker in isr or broker in elr}
    deleted = max((report.start_offset for report in members.values()), default=0)
    sound = [report for report in members.values() if report.shortened]
    reaching = [
        broker
        for broker in replicas
        if reported[broker].end_offset >= deleted
        and (broker in members or not any(map(reported[broker].differs_from, sound)))
    ]

    def weight(broker: BrokerId) -> tuple[int, int, bool, int]:
        report = reported[broker]
        return report.last_epoch, report.end_offset, broker in isr, -replicas.index(broker)

    best = max(reaching or replicas, key=weight)
    return Choice(best, (best,), lossy=True)
