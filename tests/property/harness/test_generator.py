from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.operations.generator import PENDING, Completed, Context, Generator, Mix, Op, Rng, Sentinels, Stagger
from harness.operations.op import Outcome
from harness.workloads.append_poll.generators import Polls, Sends, Spread
from tests.support.examples import examples
from tests.support.virtual_time import simulate

pytestmark = pytest.mark.guarantee("H4")

SEEDS = st.integers(0, 2**63 - 1)


def load(seed: int, producers: int, consumers: int, partitions: int, records: int) -> Generator:
    rng = Rng(seed)
    threads = producers + consumers
    parts = (
        Sends(rng.split(1), Spread(0, producers, partitions), records),
        Polls(rng.split(2), Spread(producers, threads, partitions)),
    )
    return Stagger(rng.split(3), 1e6, Mix(rng.split(4), parts, (producers, consumers)))


@given(SEEDS, st.integers(1, 5), st.integers(1, 5), st.integers(1, 6), st.integers(1, 3), st.data())
@examples(60)
def test_generator_is_pure_and_draws_only_free_threads(
    seed: int, producers: int, consumers: int, partitions: int, records: int, data: st.DataObject
) -> None:
    generator = load(seed, producers, consumers, partitions, records)
    threads = producers + consumers
    values: list[int] = []
    now_ns = 0
    for _ in range(20):
        free = tuple(sorted(data.draw(st.sets(st.integers(0, threads - 1)))))
        context = Context(now_ns, free, threads)
        found = generator.next(context)
        assert found == generator.next(context)
        if found is None or found == PENDING:
            assert not free
            continue
        op, after = found
        assert op.thread in free
        assert op.time_ns >= now_ns
        assert 0 <= op.partition < partitions
        assert (op.f == "send") == (op.thread < producers)
        values.extend(op.values)
        now_ns = op.time_ns
        generator = after.update(Completed(op, "ok"))
    assert values == list(range(len(values)))


@given(st.integers(1, 6), st.lists(st.sampled_from(["ok", "fail", "info"]), max_size=30))
@examples()
def test_sentinels_end_with_exactly_one_ok_per_partition(partitions: int, outcomes: list[Outcome]) -> None:
    left = iter(outcomes)
    came_out: list[tuple[int, Outcome]] = []

    def outcome(op: Op) -> Outcome:
        came_out.append((op.partition, next(left, "ok")))
        return came_out[-1][1]

    ops = simulate(Sentinels(tuple(range(partitions)), 0, 0, 3), 3, outcome=outcome)
    assert sorted(partition for partition, how in came_out if how == "ok") == list(range(partitions))
    assert len({op.values for op in ops}) == len(ops)
