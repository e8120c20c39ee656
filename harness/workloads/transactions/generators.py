"""What this workload's threads are given to do: plain sends and polls as in append-poll, steps of transactional
processes, and what ends a run.

Decides the share of each kind of thread. A step names fresh values and no request: what a process sends next depends on
the responses that it got, which generators do not see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.operations.generator import (
    PENDING,
    Completed,
    Context,
    Generator,
    Mix,
    Op,
    Pending,
    Phases,
    Rng,
    Sentinels,
    Stagger,
    TimeLimit,
    within,
)
from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import SENTINELS, Polls, Sends, Spread
from harness.workloads.transactions.client import STEP
from harness.workloads.transactions.options import options_of

STEP_VALUES = 64
"""Fresh values that each step has: as many as one may send."""
_OF_PRODUCERS, _OF_PROCESSORS = 10**10, 2 * 10**10
OUT = "out"
"""Detail of an op that is about the output topic."""
_PAUSE_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Steps:
    """Endless steps by the threads [first, end).

    A thread whose last step was refused pauses, as real clients do: most are refused because the transaction before is
    still being ended.
    """

    rng: Rng
    first: int
    end: int
    next_value: int
    pausing: tuple[tuple[int, int], ...] = ()
    """(thread, until when in ns)."""

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """A step of an idle thread, any."""
        paused = {thread for thread, until_ns in self.pausing if until_ns > context.time_ns}
        mine = [thread for thread in within(context.free, self.first, self.end) if thread not in paused]
        if not mine:
            return PENDING
        at, rng = self.rng.below(len(mine))
        after = self.next_value + STEP_VALUES
        op = Op(context.time_ns, mine[at], STEP, -1, tuple(range(self.next_value, after)))
        return op, replace(self, rng=rng, next_value=after)

    def update(self, completed: Completed) -> Generator:
        """A thread whose step was refused pauses."""
        op = completed.op
        if op.f != STEP or not self.first <= op.thread < self.end:
            return self
        others = tuple(pause for pause in self.pausing if pause[0] != op.thread)
        refused = completed.outcome == "fail"
        return replace(self, pausing=(*others, (op.thread, op.time_ns + _PAUSE_NS)) if refused else others)


@dataclass(frozen=True, slots=True)
class UntilOk:
    """Each op in turn, by any thread of [first, end): again, after a pause, until it comes out ok."""

    ops: tuple[Op, ...]
    first: int
    end: int
    trying: bool = False
    not_before_ns: int = 0

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """The first op that has not come out ok."""
        if not self.ops:
            return None
        free = within(context.free, self.first, self.end)
        if self.trying or not free:
            return PENDING
        op = replace(self.ops[0], time_ns=max(context.time_ns, self.not_before_ns), thread=free[0])
        return op, replace(self, trying=True)

    def update(self, completed: Completed) -> Generator:
        """On to the next one, or the same again."""
        if not self.trying:
            return self
        if completed.outcome == "ok":
            return replace(self, ops=self.ops[1:], trying=False, not_before_ns=0)
        return replace(self, trying=False, not_before_ns=completed.op.time_ns + _PAUSE_NS)


@dataclass(frozen=True, slots=True)
class About:
    """The ops of another generator, with this detail."""

    detail: str
    inner: Generator

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """The inner generator's op."""
        found = self.inner.next(context)
        if found is None or found == PENDING:
            return found
        op, after = found
        return replace(op, detail=self.detail), replace(self, inner=after)

    def update(self, completed: Completed) -> Generator:
        """Hands the completion on."""
        return replace(self, inner=self.inner.update(completed))


@dataclass(frozen=True, slots=True)
class Threads:
    """Which threads do what: plain senders come first, then pollers, transactional producers and processors."""

    senders: int
    pollers: int
    producers: int
    processors: int

    @property
    def first_producer(self) -> int:
        """Of the transactional producers."""
        return self.senders + self.pollers

    @property
    def first_processor(self) -> int:
        """Of the processors, which are the last."""
        return self.first_producer + self.producers

    @property
    def all(self) -> int:
        """How many there are."""
        return self.first_processor + self.processors


def threads_of(plan: Plan) -> Threads:
    """By [workload] and its options."""
    options = options_of(plan)
    return Threads(plan.workload.producers, plan.workload.consumers, options.transactional, options.processors)


def load(plan: Plan) -> Generator:
    """The operations of the main phase: all kinds of threads mixed by their number, at the plan's rate."""
    threads, partitions, rng = threads_of(plan), plan.topic.partitions, Rng(plan.seed_drawn)
    weighted: list[tuple[int, Generator]] = [
        (
            threads.senders,
            Sends(rng.split(1), Spread(0, threads.senders, partitions), plan.workload.records_per_send),
        ),
        (threads.pollers, Polls(rng.split(2), Spread(threads.senders, threads.first_producer, partitions))),
        (threads.producers, Steps(rng.split(5), threads.first_producer, threads.first_processor, _OF_PRODUCERS)),
        (threads.processors, Steps(rng.split(6), threads.first_processor, threads.all, _OF_PROCESSORS)),
    ]
    there = [(weight, part) for weight, part in weighted if weight]
    mixed = Mix(rng.split(3), tuple(part for _, part in there), tuple(weight for weight, _ in there))
    paced = Stagger(rng.split(4), 1e9 / plan.workload.rate, mixed)
    return TimeLimit(int(plan.workload.time_limit_s * 1e9), paced)


def ends(plan: Plan, ids: tuple[str, ...]) -> Generator:
    """An InitProducerId for each transactional id, which aborts what its last producer left open."""
    threads = threads_of(plan)
    ops = tuple(Op(0, 0, "init_producer", -1, detail=one) for one in ids)
    return TimeLimit(int(plan.limits.drain_s * 1e9), UntilOk(ops, threads.first_producer, threads.first_processor))


def committed_offsets(plan: Plan) -> Generator:
    """How far the processors' group has committed."""
    threads = threads_of(plan)
    ops = (Op(0, 0, "fetch_offsets", -1),)
    return TimeLimit(int(plan.limits.drain_s * 1e9), UntilOk(ops, threads.first_producer, threads.first_processor))


def sentinels(plan: Plan, again: int = 0) -> Generator:
    """Plain acknowledged sends, one for each partition of both topics. again: how often a run sent some before."""
    partitions, senders = tuple(range(plan.topic.partitions)), threads_of(plan).senders
    first = SENTINELS * (again + 1)
    of_topic = Sentinels(partitions, first, 0, senders)
    of_out = About(OUT, Sentinels(partitions, first + SENTINELS // 2, 0, senders))
    return TimeLimit(int(plan.limits.drain_s * 1e9), Phases((of_topic, of_out)))
