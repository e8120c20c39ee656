"""Carries a generator out in virtual time: no threads, no clock, latencies from a function."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from harness.operations.generator import PENDING, Completed, Context, Generator, Op
from harness.operations.op import Outcome

STEPS_MAX = 1_000_000


def simulate(
    generator: Generator,
    threads: int,
    latency_ns: Callable[[Op], int] = lambda _op: 1_000_000,
    outcome: Callable[[Op], Outcome] = lambda _op: "ok",
    end_ns: int | None = None,
    came_out: Callable[[Op], Completed] | None = None,
    asked_every_ns: int | None = None,
) -> list[Op]:
    """Every op in the order in which it was handed out. came_out: the whole completion, in place of outcome.

    asked_every_ns: a generator that is pending may wait for time alone, and is asked again after that long.
    """
    now_ns = 0
    busy: list[tuple[int, int, Op]] = []
    ops: list[Op] = []
    for step in range(STEPS_MAX):
        taken = {op.thread for _, _, op in busy}
        free = tuple(thread for thread in range(threads) if thread not in taken)
        asked = generator.next(Context(now_ns, free, threads))
        if asked is None or (end_ns is not None and now_ns >= end_ns):
            return ops
        if asked != PENDING and asked[0].time_ns <= now_ns:
            op, generator = asked
            assert op.thread in free, f"{op} names a thread that is not free in {free}"
            ops.append(op)
            heapq.heappush(busy, (now_ns + latency_ns(op), step, op))
            continue
        due_ns = None if asked == PENDING else asked[0].time_ns
        if due_ns is None and asked_every_ns is not None:
            due_ns = now_ns + asked_every_ns
        if busy and (due_ns is None or busy[0][0] <= due_ns):
            now_ns, _, op = heapq.heappop(busy)
            generator = generator.update(Completed(op, outcome(op)) if came_out is None else came_out(op))
        else:
            assert due_ns is not None, "nothing under way, and no op left"
            now_ns = due_ns
    raise AssertionError("no end")
