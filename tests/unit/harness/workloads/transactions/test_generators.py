from __future__ import annotations

from harness.operations.generator import PENDING, Completed, Context, Op, Rng
from harness.workloads.transactions.generators import STEP_VALUES, Steps, UntilOk

MS = 1_000_000


def taken(generator: Steps | UntilOk, time_ns: int, free: tuple[int, ...]) -> tuple[Op, Steps | UntilOk]:
    found = generator.next(Context(time_ns, free, 4))
    assert found is not None
    assert found != PENDING
    op, after = found
    assert isinstance(after, Steps | UntilOk)
    return op, after


def test_steps_have_fresh_values_and_go_to_their_own_threads() -> None:
    steps: Steps | UntilOk = Steps(Rng(1), 2, 4, 1000)
    seen: list[int] = []
    for _ in range(5):
        op, steps = taken(steps, 0, (0, 1, 2, 3))
        assert op.thread in (2, 3)
        seen += op.values
    assert len(set(seen)) == 5 * STEP_VALUES
    assert steps.next(Context(0, (0, 1), 4)) == PENDING


def test_thread_whose_step_was_refused_pauses_and_no_other() -> None:
    op, after = taken(Steps(Rng(1), 2, 4, 0), 0, (2,))
    refused = after.update(Completed(op, "fail"))
    assert refused.next(Context(99 * MS, (2,), 4)) == PENDING
    assert refused.next(Context(99 * MS, (3,), 4)) != PENDING
    assert refused.next(Context(100 * MS, (2,), 4)) != PENDING
    assert after.update(Completed(op, "ok")).next(Context(MS, (2,), 4)) != PENDING


def test_each_op_is_carried_out_until_it_comes_out_ok_after_a_pause() -> None:
    ends: Steps | UntilOk = UntilOk((Op(0, 0, "a", -1), Op(0, 0, "b", -1)), 1, 2)
    op, ends = taken(ends, 0, (0, 1))
    assert (op.f, op.thread) == ("a", 1)
    assert ends.next(Context(0, (0, 1), 2)) == PENDING
    again = ends.update(Completed(op, "fail"))
    assert isinstance(again, UntilOk)
    op, ends = taken(again, 0, (0, 1))
    assert (op.f, op.time_ns) == ("a", 100 * MS)
    done = ends.update(Completed(op, "ok"))
    assert isinstance(done, UntilOk)
    op, ends = taken(done, 0, (0, 1))
    assert op.f == "b"
    last = ends.update(Completed(op, "ok"))
    assert last.next(Context(0, (0, 1), 2)) is None
