"""The operations of the workload `wide`: sends with company, polls, lookups, deletions, and spells in which nothing is
sent.

Decides which sends have batches for further partitions, which of them acks=1, which reads are lookups or deletions,
and when the load rests. Must not know clients: which of the further partitions have the same leader is known to these
alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.operations.generator import (
    PENDING,
    Completed,
    Context,
    Generator,
    Op,
    Pending,
    Rng,
    TimeLimit,
)
from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import Polls, Spread, mixed, threads_of
from harness.workloads.idempotent.generators import WEIGHT, producers_of
from harness.workloads.idempotent.options import Options as OfIds
from harness.workloads.wide.options import Options

LOOKUP = "lookup"
"""`Op.detail` of a list_offsets that looks for a time."""
BEYOND = "beyond"
"""`Op.detail` of a delete_records that has to be refused: its offset lies beyond the log's end."""
BEYOND_SHARE = 0.15
WITH_IDS = OfIds()
"""How producers with ids behave: as those of the workload `idempotent` do by default."""
_OF_IDS = 10**10
"""Values from here on are theirs."""


@dataclass(frozen=True, slots=True)
class Sending:
    """`Op.detail` of a send. further: (partition, values) of the batches that go along where their leader is the
    same. acks_one: whether acks is 1.
    """

    further: tuple[tuple[int, tuple[int, ...]], ...] = ()
    acks_one: bool = False


@dataclass(frozen=True, slots=True)
class WideSends:
    """Endless sends of fresh values, with company in a share of them. records: of each batch."""

    rng: Rng
    spread: Spread
    records: int
    options: Options
    next_value: int = 0

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """A send of `records` fresh values by an idle thread of the spread, and perhaps as many to each partition."""
        found = self.spread.next(self.rng, context.free)
        if found is None:
            return PENDING
        thread, partition, rng, spread = found
        alone, rng = rng.unit()
        acks, rng = rng.unit()
        others = [at for at in range(self.spread.partitions) if at != partition]
        batches = [partition, *(others if alone < self.options.together else [])]
        starts = [self.next_value + nth * self.records for nth in range(len(batches) + 1)]
        values = [tuple(range(start, start + self.records)) for start in starts[:-1]]
        detail = Sending(tuple(zip(batches[1:], values[1:], strict=True)), acks < self.options.acks_one)
        op = Op(context.time_ns, thread, "send", partition, values[0], detail=detail)
        return op, replace(self, rng=rng, spread=spread, next_value=starts[-1])

    def update(self, completed: Completed) -> Generator:
        """The thread of the completion waits no more."""
        return replace(self, spread=self.spread.over(completed.op.thread))


@dataclass(frozen=True, slots=True)
class WideReads:
    """append-poll's reads, of which a share become lookups by time, and another one deletions."""

    rng: Rng
    lookups: float
    deletions: float
    inner: Generator

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """What the inner generator has, or a lookup or a deletion in its place."""
        found = self.inner.next(context)
        if found is None or found == PENDING:
            return found
        op, after = found
        chance, rng = self.rng.unit()
        if chance < self.lookups:
            op = replace(op, f="list_offsets", detail=LOOKUP)
        elif chance < self.lookups + self.deletions:
            within = (chance - self.lookups) / self.deletions
            op = replace(op, f="delete_records", detail=BEYOND if within < BEYOND_SHARE else None)
        return op, replace(self, rng=rng, inner=after)

    def update(self, completed: Completed) -> Generator:
        """Hands the completion on."""
        return replace(self, inner=self.inner.update(completed))


@dataclass(frozen=True, slots=True)
class Spells:
    """The inner load for busy_ns, then nothing for idle_ns, and so on from its first moment."""

    busy_ns: int
    idle_ns: int
    inner: Generator

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """The inner generator's op, at the end of the spell where its time lies in an idle one."""
        found = self.inner.next(context)
        if found is None or found == PENDING:
            return found
        op, after = found
        return replace(op, time_ns=self._awake(op.time_ns)), replace(self, inner=after)

    def _awake(self, time_ns: int) -> int:
        cycle = self.busy_ns + self.idle_ns
        into = time_ns % cycle
        return time_ns if into < self.busy_ns else time_ns - into + cycle

    def update(self, completed: Completed) -> Generator:
        """Hands the completion on."""
        return replace(self, inner=self.inner.update(completed))


def plain_threads(plan: Plan) -> int:
    """How many threads send plainly, or read; those of producers with ids come behind them."""
    return threads_of(plan.workload)


def all_threads(plan: Plan, options: Options) -> int:
    """How many threads the load has."""
    return plain_threads(plan) + options.idempotent * WITH_IDS.in_flight


def load(plan: Plan, options: Options) -> Generator:
    """The operations of the main phase: sends and reads by their threads' share, at the plan's rate while busy."""
    rng, records = Rng(plan.seed_drawn), plan.workload.records_per_send
    with_ids = producers_of(plan, WITH_IDS, rng.split(6), options.idempotent, plain_threads(plan), _OF_IDS)
    paced = mixed(
        plan,
        rng,
        lambda spread: WideSends(rng.split(1), spread, records, options),
        lambda spread: WideReads(rng.split(5), options.lookups, options.deletions, Polls(rng.split(2), spread)),
        [(producer, WEIGHT) for producer in with_ids],
    )
    if options.idle_s:
        paced = Spells(int(options.busy_s * 1e9), int(options.idle_s * 1e9), paced)
    return TimeLimit(int(plan.workload.time_limit_s * 1e9), paced)
