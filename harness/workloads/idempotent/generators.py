"""The operations of the workload `idempotent`: batches of several producers, resends, and requests that are wrong.

Decides the mix, the pace and the values, and which thread sends what. A producer has `in_flight` threads, so many
requests of it are under way at once; threads pass on its identity, processes do not have one. Must not know clients.
Invariant: while some partition responds, it gets requests, however many others hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.operations.generator import (
    PENDING,
    Completed,
    Context,
    Generator,
    Mix,
    Op,
    Pending,
    Rng,
    Stagger,
    TimeLimit,
    within,
)
from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import Polls, Spread
from harness.workloads.idempotent.options import Options
from harness.workloads.idempotent.producer import AHEAD, ON_PURPOSE, Batch, Identity, Lane, Producer, Request, Why

RENEWED = 0.004
"""After which share of its batches a producer that is well takes another identity, so that epochs and ids change."""


WEIGHT = 2
"""Of a producer among the load's operations, where a consumer has 1: a batch may need several requests."""


@dataclass(frozen=True, slots=True)
class ProducerSends:
    """Endless requests of one producer, by threads [first, first + in_flight).

    records: of a batch at most. Its values are next_value and every step-th from there on.
    """

    rng: Rng
    first: int
    producer: Producer
    records: int
    on_purpose: float
    next_value: int
    step: int
    busy: tuple[tuple[int, int], ...] = ()
    """(thread, partition) of each request under way."""

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """A request that the producer's rules allow now, by an idle thread."""
        end = self.first + self.producer.in_flight
        free = within(context.free, self.first, end)
        if not free:
            return PENDING
        producer, rng, now_ns = self.producer, self.rng, context.time_ns
        if producer.ready and not producer.given_up and producer.late(now_ns):
            producer = replace(producer, given_up=True)
        if producer.over:
            coin, rng = rng.below(2)
            producer = producer.renewed(bump=coin == 0)
        if producer.given_up:
            return PENDING
        if not producer.ready:
            return replace(self, rng=rng, producer=producer)._ask(free[0], now_ns)
        open_ = self._open(producer, len(free), now_ns)
        if not open_:
            return PENDING
        at, rng = rng.below(len(open_))
        thread, rng = rng.below(len(free))
        return replace(self, rng=rng, producer=producer)._request(free[thread], open_[at], now_ns)

    def _ask(self, thread: int, now_ns: int) -> tuple[Op, Generator] | Pending:
        """Ask for a producer id, once at a time."""
        producer = self.producer
        if producer.under_way or now_ns < producer.ask_after_ns:
            return PENDING
        op = Op(now_ns, thread, "init_producer", -1, detail=Request("init", producer.identity))
        return op, replace(self, producer=replace(producer, under_way=1), busy=(*self.busy, (thread, -1)))

    def _open(self, producer: Producer, free: int, now_ns: int) -> tuple[int, ...]:
        """Partitions that may be sent something. The last idle thread takes none that another one waits for."""
        may = [at for at in range(len(producer.lanes)) if producer.sends(at, now_ns) is not None]
        if free > 1 or producer.in_flight == 1:
            return tuple(may)
        waited_for = {partition for _, partition in self.busy}
        return tuple(at for at in may if at not in waited_for) or tuple(may if len(producer.lanes) == 1 else ())

    def _request(self, thread: int, partition: int, now_ns: int) -> tuple[Op, Generator]:
        producer, lane = self.producer, self.producer.lanes[partition]
        chance, rng = self.rng.unit()
        if producer.sends(partition, now_ns) == "resend":
            batch = lane.due(now_ns)
            assert batch is not None
            request = Request("resend", producer.identity, batch.sequence, batch.born_ns, batch.index)
            producer = producer.with_lane(partition, lane.sent(batch))
            return self._sent(rng, producer, thread, partition, now_ns, batch.values, request)
        if chance < self.on_purpose and lane.acked:
            return self._on_purpose(rng, thread, partition, now_ns)
        size, rng = rng.below(self.records)
        values = self._values(size + 1)
        batch = Batch(values, lane.next_sequence, now_ns)
        request = Request("fresh", producer.identity, batch.sequence, now_ns)
        chance, rng = rng.unit()
        producer = replace(
            producer.with_lane(partition, lane.sent(batch)), leaving=producer.leaving or chance < RENEWED
        )
        return self._sent(rng, producer, thread, partition, now_ns, values, request)

    def _on_purpose(self, rng: Rng, thread: int, partition: int, now_ns: int) -> tuple[Op, Generator]:
        producer, lane = self.producer, self.producer.lanes[partition]
        kinds = [why for why in ON_PURPOSE if why != "stale" or producer.identity.bumps]
        # Half of them repeat, and may be answered; the others are refused.
        at, rng = rng.below(2 * len(kinds) - 2)
        why = kinds[at] if at < len(kinds) else "repeat"
        at, rng = rng.below(len(lane.acked))
        batch = lane.acked[at]
        if why == "repeat":
            request = Request(why, producer.identity, batch.sequence, batch.born_ns, batch.index)
            return self._sent(rng, producer, thread, partition, now_ns, batch.values, request)
        values = self._values(len(batch.values) + 1)
        request = _wrong(why, producer.identity, lane, batch, now_ns)
        return self._sent(rng, producer, thread, partition, now_ns, values, request)

    def _values(self, count: int) -> tuple[int, ...]:
        return tuple(self.next_value + nth * self.step for nth in range(count))

    def _sent(
        self,
        rng: Rng,
        producer: Producer,
        thread: int,
        partition: int,
        now_ns: int,
        values: tuple[int, ...],
        request: Request,
    ) -> tuple[Op, Generator]:
        fresh = request.repeats is None
        after = replace(
            self,
            rng=rng,
            producer=replace(producer, under_way=producer.under_way + 1),
            next_value=self.next_value + len(values) * self.step if fresh else self.next_value,
            busy=(*self.busy, (thread, partition)),
        )
        return Op(now_ns, thread, "send", partition, values, detail=request), after

    def update(self, completed: Completed) -> Generator:
        """A request of this producer has come out; others' are none of its."""
        request = completed.op.detail
        if not isinstance(request, Request) or request.identity.producer != self.producer.identity.producer:
            return self
        producer = self.producer.update(request, completed)
        return replace(self, producer=producer, busy=tuple(one for one in self.busy if one[0] != completed.op.thread))


def _wrong(why: Why, identity: Identity, lane: Lane, batch: Batch, now_ns: int) -> Request:
    """What a leader that knows the producer has to refuse, now and however late it comes. batch: an acknowledged one,
    which the request has one record more than.
    """
    if why == "stale":
        return Request(why, identity._replace(bumps=identity.bumps - 1), lane.next_sequence, now_ns)
    if why == "ahead":
        return Request(why, identity, lane.next_sequence + AHEAD, now_ns)
    return Request(why, identity, batch.sequence, now_ns)


def threads_of(plan: Plan, options: Options) -> int:
    """How many threads the load has: [0, producers * in_flight) send, the rest poll."""
    return max(1, plan.workload.producers * options.in_flight + plan.workload.consumers)


def producers_of(
    plan: Plan, options: Options, rng: Rng, count: int, first_thread: int, first_value: int
) -> Sequence[Generator]:
    """The requests of so many producers, by `in_flight` threads each from first_thread on, with values of their own
    from first_value on.
    """
    return [
        ProducerSends(
            rng.split(10 + number),
            first_thread + number * options.in_flight,
            Producer(
                Identity(number, 0, 0),
                tuple(Lane() for _ in range(plan.topic.partitions)),
                options.in_flight,
                int(options.give_up_s * 1e9),
            ),
            plan.workload.records_per_send,
            options.on_purpose,
            first_value + number,
            count,
        )
        for number in range(count)
    ]


def load(plan: Plan, options: Options) -> Generator:
    """The operations of the main phase: every producer's requests and the polls, at the plan's rate."""
    workload, partitions = plan.workload, plan.topic.partitions
    rng = Rng(plan.seed_drawn)
    parts: list[Generator] = [*producers_of(plan, options, rng, workload.producers, 0, 0)]
    weights = [WEIGHT] * len(parts)
    if workload.consumers:
        senders = workload.producers * options.in_flight
        parts.append(Polls(rng.split(2), Spread(senders, threads_of(plan, options), partitions)))
        weights.append(workload.consumers)
    mixed = Mix(rng.split(3), tuple(parts), tuple(weights))
    return TimeLimit(int(workload.time_limit_s * 1e9), Stagger(rng.split(4), 1e9 / workload.rate, mixed))
