from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from harness.operations.generator import (
    PENDING,
    Completed,
    Context,
    Fixed,
    Generator,
    Mix,
    Op,
    Phases,
    Rng,
    Sentinels,
    Stagger,
    TimeLimit,
)
from harness.operations.op import Outcome
from harness.plan.run_file import parse_plan
from harness.workloads.append_poll.generators import SENTINELS, Polls, Sends, Spread
from harness.workloads.append_poll.generators import load as load_of
from tests.support.virtual_time import simulate

pytestmark = pytest.mark.guarantee("H4")

SECOND = 10**9
PLAN = 'name = "x"\nseed = 5\n[topic]\npartitions = 4\n[workload]\nrate = 1000.0\ntime_limit_s = 10\n'


def load(seed: int = 5) -> Generator:
    return load_of(parse_plan("x.toml", PLAN).with_overrides(seed=seed))


def test_rng_same_state_gives_same_numbers() -> None:
    first, after = Rng(1).bits()
    assert Rng(1).bits() == (first, after)
    assert after.bits()[0] != first


def test_rng_unit_is_spread_over_the_unit_interval() -> None:
    rng, tenths = Rng(3), Counter[int]()
    for _ in range(10_000):
        unit, rng = rng.unit()
        assert 0.0 <= unit < 1.0
        tenths[int(unit * 10)] += 1
    assert set(tenths) == set(range(10))
    assert all(850 < count < 1150 for count in tenths.values())


def test_rng_split_streams_differ_by_name_and_by_seed() -> None:
    assert len({Rng(seed).split(name).bits()[0] for seed in range(20) for name in range(5)}) == 100


def test_generator_called_twice_gives_the_same_op() -> None:
    generator = load()
    context = Context(0, (0, 3, 7), 10)
    first = generator.next(context)
    second = generator.next(context)
    assert first is not None
    assert first != PENDING
    assert first == second


def test_load_same_seed_draws_the_same_other_seed_does_not() -> None:
    ops = simulate(load(5), 10)
    assert ops == simulate(load(5), 10)
    assert ops[:50] != simulate(load(6), 10)[:50]


def test_load_keeps_the_rate_on_average_and_ends_with_the_time_limit() -> None:
    ops = simulate(load(), 10)
    assert 9_400 < len(ops) < 10_600
    assert max(op.time_ns for op in ops) < 10 * SECOND


def test_load_gaps_are_random_not_regular() -> None:
    gaps = [after.time_ns - before.time_ns for before, after in pairwise(simulate(load(), 10))]
    mean = sum(gaps) / len(gaps)
    # Exponential gaps: a share of 1 - 1/e lies below the mean.
    assert sum(gap < mean for gap in gaps) / len(gaps) == pytest.approx(0.632, abs=0.05)


def test_load_mixes_by_processes_and_uses_all_threads_and_partitions() -> None:
    ops = simulate(load(), 10)
    kinds = Counter(op.f for op in ops)
    assert kinds["send"] / len(ops) == pytest.approx(0.6, abs=0.03)
    assert 0.01 < kinds["list_offsets"] / len(ops) < 0.04
    assert {op.thread for op in ops if op.f == "send"} == set(range(6))
    assert {op.thread for op in ops if op.f != "send"} == {6, 7, 8, 9}
    for f in ("send", "poll"):
        assert {op.partition for op in ops if op.f == f} == {0, 1, 2, 3}


def test_load_values_are_unique_and_below_the_sentinels() -> None:
    values = [value for op in simulate(load(), 10) for value in op.values]
    assert len(set(values)) == len(values)
    assert max(values) < SENTINELS


def test_load_slow_operations_lower_the_rate_and_are_not_caught_up_in_a_burst() -> None:
    # Ten threads of 100 ms each do 100 a second, however much more is asked for.
    ops = simulate(load(), 10, latency_ns=lambda _op: SECOND // 10)
    assert 900 < len(ops) <= 1010


def test_stagger_after_a_standstill_catches_up_no_more_than_the_burst() -> None:
    # Everything hangs for the first 5 s; then latency is 1 ms again.
    ops = simulate(load(), 10, latency_ns=lambda op: 5 * SECOND if op.time_ns < SECOND // 100 else 1_000_000)
    after = [op for op in ops if op.time_ns >= 5 * SECOND]
    assert 4_600 < len(after) < 5_500


def test_mix_without_a_free_thread_is_pending() -> None:
    mix = Mix(Rng(1), (Sends(Rng(1), Spread(0, 2, 1), 1), Polls(Rng(2), Spread(2, 4, 1))), (1, 1))
    assert mix.next(Context(0, (), 4)) == PENDING


def test_mix_where_one_part_is_busy_draws_from_the_other() -> None:
    mix = Mix(Rng(1), (Sends(Rng(1), Spread(0, 2, 1), 1), Polls(Rng(2), Spread(2, 4, 1))), (1, 1))
    for free, f in (((0,), "send"), ((3,), "poll")):
        found = mix.next(Context(0, free, 4))
        assert found is not None
        assert found != PENDING
        assert found[0].f == f or found[0].f == "list_offsets"
        assert found[0].thread == free[0]


def test_mix_of_exhausted_parts_is_exhausted() -> None:
    assert Mix(Rng(1), (Fixed(()), Fixed(())), (1, 1)).next(Context(0, (0,), 1)) is None


def test_sends_carry_as_many_values_as_records() -> None:
    ops = simulate(TimeLimit(SECOND, Stagger(Rng(1), SECOND / 50, Sends(Rng(1), Spread(0, 1, 1), 3))), 1)
    assert [op.values for op in ops[:2]] == [(0, 1, 2), (3, 4, 5)]


def test_phases_begin_when_every_thread_is_free() -> None:
    slow, fast = Op(0, 0, "poll", 0), Op(0, 1, "poll", 1)
    ops = simulate(Phases((Fixed((slow,)), Fixed((fast,)))), 2, latency_ns=lambda op: SECOND if op.thread == 0 else 1)
    assert [(op.thread, op.time_ns) for op in ops] == [(0, 0), (1, SECOND)]


def test_sentinels_one_per_partition_when_all_come_out_ok() -> None:
    ops = simulate(Sentinels((0, 1, 2), 100, 0, 2), 4)
    assert [op.partition for op in ops] == [0, 1, 2]
    assert all(op.sentinel and op.f == "send" for op in ops)
    assert {op.thread for op in ops} <= {0, 1}


def test_sentinels_are_tried_again_with_a_new_value_until_ok() -> None:
    tries = Counter[int]()

    def outcome(op: Op) -> Outcome:
        tries[op.partition] += 1
        if op.partition == 1 and tries[1] < 4:
            return "info" if tries[1] % 2 else "fail"
        return "ok"

    ops = simulate(Sentinels((0, 1), 100, 0, 2), 2, outcome=outcome)
    assert Counter(op.partition for op in ops) == {0: 1, 1: 4}
    values = [value for op in ops for value in op.values]
    assert len(set(values)) == len(values) == 5


def test_sentinels_never_ok_end_with_the_time_limit() -> None:
    ops = simulate(TimeLimit(SECOND, Sentinels((0,), 0, 0, 1)), 1, outcome=lambda _op: "fail")
    assert 5 <= len(ops) <= 11


def test_sentinels_ignore_what_is_not_theirs() -> None:
    sentinels = Sentinels((0,), 0, 0, 1)
    assert sentinels.update(Completed(Op(0, 0, "send", 0), "ok")) == sentinels
