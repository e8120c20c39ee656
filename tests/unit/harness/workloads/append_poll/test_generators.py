from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from harness.operations.generator import Generator, Op, Rng, Stagger, TimeLimit
from harness.workloads.append_poll.generators import Polls, Sends, Spread
from tests.support.virtual_time import simulate

SECOND = 10**9
PARTITIONS = 4
THREADS = 6


def paced(load: Generator, rate: int = 400) -> Generator:
    return TimeLimit(20 * SECOND, Stagger(Rng(9), SECOND / rate, load))


def hung(op: Op) -> int:
    """Three of four leaders hang from 5 s to 15 s, until a request times out after 3 s."""
    return 3 * SECOND if op.partition < PARTITIONS - 1 and 5 * SECOND <= op.time_ns < 15 * SECOND else 5_000_000


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("f", ["send", "poll"])
def test_partition_that_responds_gets_requests_while_the_others_hang(f: str, seed: int) -> None:
    spread = Spread(0, THREADS, PARTITIONS)
    load: Generator = Sends(Rng(seed), spread, 1) if f == "send" else Polls(Rng(seed), spread)
    ops = simulate(paced(load), THREADS, latency_ns=hung)
    # Within the first time-out all six may have gone to leaders that had not answered yet.
    asked = [op.time_ns for op in ops if op.partition == PARTITIONS - 1 and 8 * SECOND < op.time_ns < 15 * SECOND]
    assert len(asked) > 100
    assert max(after - before for before, after in pairwise(asked)) < SECOND


@pytest.mark.parametrize("free", [tuple(range(THREADS)), (3, 4), (5,)])
def test_every_partition_is_chosen_equally_often(free: tuple[int, ...]) -> None:
    """However many threads are idle; the last partition is no exception."""
    spread, rng = Spread(0, THREADS, PARTITIONS), Rng(7)
    chosen: Counter[int] = Counter()
    for _ in range(4000):
        found = spread.next(rng, free)
        assert found is not None
        thread, partition, rng, spread = found
        chosen[partition] += 1
        spread = spread.over(thread)
    assert {partition: round(count / 1000, 1) for partition, count in chosen.items()} == dict.fromkeys(
        range(PARTITIONS), pytest.approx(1.0, abs=0.1)
    )


def test_threads_meet_on_a_partition_while_several_are_idle() -> None:
    ops = simulate(paced(Sends(Rng(1), Spread(0, THREADS, PARTITIONS), 1)), THREADS, latency_ns=lambda _: 5_000_000)
    met = sum(
        after.partition == before.partition and after.time_ns - before.time_ns < 5_000_000
        for before, after in pairwise(ops)
    )
    assert met > len(ops) // 10


def test_two_threads_still_meet_on_a_partition() -> None:
    ops = simulate(paced(Sends(Rng(1), Spread(0, 2, 2), 1)), 2, latency_ns=lambda _: 5_000_000)
    assert any(
        after.partition == before.partition and after.time_ns - before.time_ns < 5_000_000
        for before, after in pairwise(ops)
    )
