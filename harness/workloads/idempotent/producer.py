"""What one idempotent producer may send next: the rules of Kafka's own producer, as a frozen value.

Decides sequences, which batch goes out again, and when the producer gives up. Must not know threads, sockets or ids.
Invariants, for each partition and epoch: sequences go on without a gap; at most `in_flight` batches are without an
acknowledgement; the first one is alone until it has one, because a leader that knows nothing of a producer takes
whatever comes first; a batch goes out again only while it is the first without an acknowledgement, with the bytes that
it had. A producer that gave up takes another id, or the next epoch of the one it has (KIP-360).
Source: org.apache.kafka.clients.producer.internals.TransactionManager (canRetry, bumpIdempotentProducerEpoch),
RecordAccumulator.shouldStopDrainBatchesForPartition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from harness.operations.generator import Completed

REPEATABLE = 8
"""How many acknowledged batches are remembered to be repeated: more than the five that a broker knows."""
AHEAD = 100_000_000
"""A sequence so far on that none of the run's is ever there: a request with it that comes late fits nowhere."""
RETRY_PAUSE_NS = 100_000_000
PATIENCE_NS = 500_000_000
"""Whose batch is open for longer than that waits for no acknowledgement before it begins others elsewhere."""

Why = Literal["init", "fresh", "resend", "repeat", "stale", "ahead", "overlap"]
"""fresh: a batch's first request. resend: again, with no acknowledgement yet. The last four are sent on purpose: again
after an acknowledgement; under an epoch that is over; far ahead of the sequence; across one that is acknowledged.
"""
ON_PURPOSE: tuple[Why, ...] = ("repeat", "stale", "ahead", "overlap")

_KNOWN = frozenset({"DUPLICATE_SEQUENCE_NUMBER"})
"""Refused, because the log has the batch: as good as an acknowledgement that names no offset."""
_LOST_ID = frozenset({"INVALID_PRODUCER_EPOCH", "UNKNOWN_PRODUCER_ID"})
"""Nothing more of this id will be taken."""


class Identity(NamedTuple):
    """Who sends: the id that the `asked`-th InitProducerId of a producer returned, and how often its epoch was raised
    since.
    """

    producer: int
    asked: int
    bumps: int


class Request(NamedTuple):
    """What an op's client needs to know (`Op.detail`). born_ns: the op's time when the batch first went out, from which
    its records are dated, so that every request has the same bytes. repeats: index of its first invocation.
    """

    why: Why
    identity: Identity
    sequence: int = -1
    born_ns: int = 0
    repeats: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a partition. index: of its first invocation, -1 while that has not come out.

    first: whether it was, when it last went out, the first without an acknowledgement. due_ns: not to go out again
    before.
    """

    values: tuple[int, ...]
    sequence: int
    born_ns: int
    index: int = -1
    flying: bool = True
    first: bool = False
    due_ns: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """One partition, under one identity. open: without an acknowledgement, by sequence. acked: the newest that have
    one.
    """

    next_sequence: int = 0
    open: tuple[Batch, ...] = ()
    acked: tuple[Batch, ...] = ()

    def may_begin(self, in_flight: int) -> bool:
        """Whether a new batch may go out now."""
        if any(not batch.flying for batch in self.open):
            return False
        return not self.open or (bool(self.acked) and len(self.open) < in_flight)

    def due(self, now_ns: int) -> Batch | None:
        """The batch that is to go out again: the first without an acknowledgement, and nothing else."""
        first = self.open[0] if self.open else None
        return first if first is not None and not first.flying and first.due_ns <= now_ns else None

    def sent(self, batch: Batch) -> Lane:
        """The batch is on its way."""
        first = not self.open or self.open[0].sequence == batch.sequence
        after = max(self.next_sequence, batch.sequence + len(batch.values))
        return replace(self._with(replace(batch, flying=True, first=first)), next_sequence=after)

    def _with(self, batch: Batch) -> Lane:
        others = (one for one in self.open if one.sequence != batch.sequence)
        return replace(self, open=tuple(sorted((*others, batch), key=lambda one: one.sequence)))

    def came_out(self, sequence: int, index: int, *, acked: bool, due_ns: int) -> Lane:
        """A request of an open batch has come out."""
        batch = self.batch(sequence)
        known = replace(batch, index=batch.index if batch.index >= 0 else index, flying=False, due_ns=due_ns)
        if not acked:
            return self._with(known)
        others = tuple(one for one in self.open if one.sequence != sequence)
        return replace(self, open=others, acked=(*self.acked, known)[-REPEATABLE:])

    def batch(self, sequence: int) -> Batch:
        """The open batch of that sequence. Raises StopIteration."""
        return next(one for one in self.open if one.sequence == sequence)


@dataclass(frozen=True, slots=True)
class Producer:
    """One producer. under_way: its requests that have not come out.

    leaving: it takes another identity once what is open has been acknowledged. given_up: it
    sends nothing more under this identity. lost_id: the next identity needs another id. stale: partitions that the
    broker knows to be in an epoch of this id that was raised.
    """

    identity: Identity
    lanes: tuple[Lane, ...]
    in_flight: int
    give_up_ns: int
    ready: bool = False
    under_way: int = 0
    leaving: bool = False
    given_up: bool = False
    lost_id: bool = False
    ask_after_ns: int = 0

    @property
    def over(self) -> bool:
        """Whether it needs another identity before it sends anything."""
        if self.under_way:
            return False
        return self.given_up or (self.leaving and not any(lane.open for lane in self.lanes))

    def renewed(self, *, bump: bool) -> Producer:
        """With the next epoch of its id, or with an id that is still to be asked for; batches of before are left."""
        producer, asked, bumps = self.identity
        same = bump and not self.lost_id
        identity = Identity(producer, asked, bumps + 1) if same else Identity(producer, asked + 1, 0)
        lanes = tuple(Lane() for _ in self.lanes)
        return replace(self, identity=identity, lanes=lanes, ready=same, leaving=False, given_up=False, lost_id=False)

    def with_lane(self, partition: int, lane: Lane) -> Producer:
        """One partition's state replaced."""
        return replace(self, lanes=(*self.lanes[:partition], lane, *self.lanes[partition + 1 :]))

    def sends(self, partition: int, now_ns: int) -> Literal["fresh", "resend"] | None:
        """What this partition may be sent now, if anything."""
        lane = self.lanes[partition]
        if lane.due(now_ns) is not None:
            return "resend"
        return "fresh" if not self._held(now_ns) and lane.may_begin(self.in_flight) else None

    def _held(self, now_ns: int) -> bool:
        """It leaves once nothing is open; while some leader does not respond the others go on all the same."""
        return self.leaving and not self._waits_longer(PATIENCE_NS, now_ns)

    def _waits_longer(self, wait_ns: int, now_ns: int) -> bool:
        return any(lane.open and now_ns - lane.open[0].born_ns > wait_ns for lane in self.lanes)

    def late(self, now_ns: int) -> bool:
        """Whether a batch has been without an acknowledgement for too long."""
        return self._waits_longer(self.give_up_ns, now_ns)

    def update(self, request: Request, completed: Completed) -> Producer:
        """One of its requests has come out."""
        partition, due_ns = completed.op.partition, completed.op.time_ns + RETRY_PAUSE_NS
        after = replace(self, under_way=self.under_way - 1)
        if request.identity != self.identity:
            return after
        if request.why == "init":
            return replace(after, ready=completed.outcome == "ok", ask_after_ns=due_ns)
        if request.why in ON_PURPOSE:
            return after
        lane = self.lanes[partition]
        acked = completed.outcome == "ok" or completed.error in _KNOWN
        out_of_order = completed.error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and lane.batch(request.sequence).first
        lost_id = completed.error in _LOST_ID
        lane = lane.came_out(request.sequence, completed.index, acked=acked, due_ns=due_ns)
        return replace(
            after.with_lane(partition, lane),
            given_up=self.given_up or out_of_order or lost_id,
            lost_id=self.lost_id or lost_id,
        )
