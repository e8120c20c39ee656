"""Idempotent producers against a leader that keeps Kafka's rules and loses requests and responses: what they may send,
what they send again, and that nothing they send on purpose can ever be taken."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from harness.operations.generator import Completed, Generator, Op, Rng, Stagger, TimeLimit
from harness.workloads.idempotent.generators import ProducerSends
from harness.workloads.idempotent.producer import Identity, Lane, Producer, Request
from tests.support import virtual_time

SECOND = 10**9
PARTITIONS = 3
IN_FLIGHT = 5
SEEDS = range(4)


def request_of(op: Op) -> Request:
    assert isinstance(op.detail, Request)
    return op.detail


def load(seed: int, *, partitions: int = PARTITIONS, give_up_s: float = 8, length_s: int = 40) -> Generator:
    producer = Producer(Identity(0, 0, 0), tuple(Lane() for _ in range(partitions)), IN_FLIGHT, int(give_up_s * SECOND))
    sends = ProducerSends(Rng(seed), 0, producer, 4, 0.1, 0, 1)
    return TimeLimit(length_s * SECOND, Stagger(Rng(seed + 1), SECOND / 100, sends))


def simulate(generator: Generator, latency_ns: Callable[[Op], int], came_out: Callable[[Op], Completed]) -> list[Op]:
    """As the interpreter does it."""
    return virtual_time.simulate(
        generator, IN_FLIGHT, latency_ns=latency_ns, came_out=came_out, asked_every_ns=50_000_000
    )


@dataclass
class Leader:
    """All partitions: per (partition, id) the epoch, the last five batches as (sequence, count, offset), and the log.

    Some requests are lost on the way and some responses on the way back; some of the lost ones come in late.
    """

    rng: Random
    losing: bool = True
    logs: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    known: dict[tuple[int, int], tuple[int, list[tuple[int, int, int]]]] = field(default_factory=dict)
    late: list[Op] = field(default_factory=list)
    taken: list[Op] = field(default_factory=list)
    responses: dict[int, str | None] = field(default_factory=dict)
    acked: list[Op] = field(default_factory=list)
    index: int = 0

    def came_out(self, op: Op) -> Completed:
        self.index += 1
        if request_of(op).why == "init":
            return Completed(op, "ok", None, self.index)
        if self.late and self.rng.random() < 0.2:
            self.take(self.late.pop(0))
        lost = self.rng.random() if self.losing else 1.0
        if lost < 0.05:
            self.late.append(op)
            return Completed(op, "info", "timeout", self.index)
        error = self.take(op)
        if lost < 0.1:
            return Completed(op, "info", "connection-reset", self.index)
        self.responses[id(op)] = error
        if error is None:
            self.acked.append(op)
        return Completed(op, "fail" if error else "ok", error, self.index)

    def take(self, op: Op) -> str | None:
        request = request_of(op)
        home = (op.partition, request.identity.asked)
        epoch, batches = self.known.get(home, (-1, []))
        if request.identity.bumps < epoch:
            return "INVALID_PRODUCER_EPOCH"
        if request.identity.bumps > epoch:
            if request.sequence and epoch >= 0:
                return "OUT_OF_ORDER_SEQUENCE_NUMBER"
            batches = []
        if (request.sequence, len(op.values)) in {(first, count) for first, count, _ in batches}:
            return None
        if batches and request.sequence != batches[-1][0] + batches[-1][1]:
            return "OUT_OF_ORDER_SEQUENCE_NUMBER"
        entry = (request.sequence, len(op.values), len(self.logs[op.partition]))
        self.known[home] = (request.identity.bumps, [*batches, entry][-5:])
        self.logs[op.partition] += op.values
        self.taken.append(op)
        return None


def carried_out(seed: int, leader: Leader) -> list[Op]:
    jitter = Random(seed)
    return simulate(load(seed), lambda _: jitter.choice((1, 5, 40)) * 1_000_000, leader.came_out)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_batch_is_in_the_log_once_and_in_order(seed: int) -> None:
    leader = Leader(Random(seed))
    carried_out(seed, leader)
    for partition, log in leader.logs.items():
        assert len(log) == len(set(log))
        taken = [request_of(op) for op in leader.taken if op.partition == partition]
        keys = [(request.identity, request.sequence) for request in taken]
        assert keys == sorted(keys)
    acked = {value for op in leader.acked for value in op.values}
    assert acked <= {value for log in leader.logs.values() for value in log}
    assert len(acked) > 1000


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_sent_on_purpose_is_never_taken_however_late(seed: int) -> None:
    leader = Leader(Random(seed))
    ops = carried_out(seed, leader)
    why = Counter(request_of(op).why for op in ops)
    assert all(why[kind] for kind in ("init", "fresh", "resend", "repeat", "stale", "ahead", "overlap")), why
    assert {request_of(op).why for op in leader.taken} <= {"fresh", "resend"}
    answered = {
        (request_of(op).why, leader.responses[id(op)])
        for op in ops
        if id(op) in leader.responses and request_of(op).why in ("stale", "ahead", "overlap")
    }
    assert answered == {
        ("stale", "INVALID_PRODUCER_EPOCH"),
        ("ahead", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ("overlap", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_sequences_go_on_and_a_resend_is_the_batch_that_it_repeats(seed: int) -> None:
    ops = carried_out(seed, Leader(Random(seed)))
    first: dict[tuple[int, Identity, int], Op] = {}
    after: dict[tuple[int, Identity], int] = {}
    for op in ops:
        request = request_of(op)
        home = (op.partition, request.identity)
        if request.why == "fresh":
            assert request.sequence == after.get(home, 0)
            after[home] = request.sequence + len(op.values)
            first[(*home, request.sequence)] = op
        elif request.repeats is not None:
            original = first[(*home, request.sequence)]
            assert (op.values, request.born_ns) == (original.values, request_of(original).born_ns)
            assert request.repeats > 0
    values = [value for op in ops if request_of(op).repeats is None for value in op.values]
    assert len(values) == len(set(values))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_more_than_five_are_open_and_the_first_is_alone(seed: int) -> None:
    """Open: not acknowledged. Whatever goes out again is the first of them."""
    leader = Leader(Random(seed))
    most = 0
    open_: dict[tuple[int, Identity], set[int]] = defaultdict(set)
    begun: set[tuple[int, Identity]] = set()

    def came_out(op: Op) -> Completed:
        completed, request = leader.came_out(op), request_of(op)
        if completed.outcome == "ok" and request.why in ("fresh", "resend"):
            open_[op.partition, request.identity].discard(request.sequence)
            begun.add((op.partition, request.identity))
        return completed

    def latency(op: Op) -> int:
        nonlocal most
        request = request_of(op)
        home = (op.partition, request.identity)
        if request.why == "fresh":
            open_[home].add(request.sequence)
            assert home in begun or len(open_[home]) == 1
            most = max(most, len(open_[home]))
        if request.why == "resend":
            assert request.sequence == min(open_[home])
        return 30_000_000

    simulate(load(seed, partitions=1), latency, came_out)
    assert most == IN_FLIGHT


def test_producer_without_an_acknowledgement_takes_another_identity_and_goes_on() -> None:
    """One leader takes requests and never responds, for 15 s."""
    leader = Leader(Random(1), losing=False)

    def came_out(op: Op) -> Completed:
        if op.partition == 0 and 10 * SECOND <= op.time_ns < 25 * SECOND:
            leader.take(op)
            return Completed(op, "info", "timeout", 1)
        return leader.came_out(op)

    def latency(op: Op) -> int:
        return 3 * SECOND if op.partition == 0 and 10 * SECOND <= op.time_ns < 25 * SECOND else 5_000_000

    ops = simulate(load(3, give_up_s=4), latency, came_out)
    given_up = {request_of(op).identity for op in ops if 10 * SECOND <= op.time_ns < 25 * SECOND}
    assert len(given_up) >= 3
    late = [op for op in ops if op.time_ns > 30 * SECOND and op.partition == 0 and op.f == "send"]
    assert any(op in leader.acked for op in late)


@pytest.mark.parametrize("seed", SEEDS)
def test_partition_that_responds_gets_requests_while_the_others_hang(seed: int) -> None:
    leader = Leader(Random(seed), losing=False)

    def hangs(op: Op) -> bool:
        return 0 <= op.partition < PARTITIONS - 1 and 5 * SECOND <= op.time_ns < 15 * SECOND

    def came_out(op: Op) -> Completed:
        return Completed(op, "info", "timeout", 1) if hangs(op) else leader.came_out(op)

    ops = simulate(load(seed, give_up_s=20, length_s=20), lambda op: 3 * SECOND if hangs(op) else 5_000_000, came_out)
    # Within the first time-out all five may have gone to leaders that had not answered yet.
    asked = [op.time_ns for op in ops if op.partition == PARTITIONS - 1 and 8 * SECOND < op.time_ns < 15 * SECOND]
    assert max(later - earlier for earlier, later in pairwise(asked)) < SECOND


def test_refused_first_batch_is_given_up_as_kafkas_producer_does() -> None:
    """A leader that refuses the batch that is next has lost, or never had, what it was acknowledged: only another
    identity helps."""
    asked: list[Identity] = []

    def came_out(op: Op) -> Completed:
        request = request_of(op)
        if request.why == "init":
            asked.append(request.identity)
            return Completed(op, "ok")
        return Completed(op, "fail", "UNKNOWN_PRODUCER_ID", 1)

    simulate(load(1, length_s=2), lambda _: 1_000_000, came_out)
    assert len(asked) > 5
    assert [identity.asked for identity in asked] == list(range(len(asked)))
