"""Carries a generator out in virtual time: no threads, no clock, latencies from a function."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from harness.operations.generator import PENDING, Context, Done, Draw, Generator
from harness.operations.op import Outcome

STEPS_MAX = 1_000_000


def simulate(
    generator: Generator,
    threads: int,
    latency_ns: Callable[[Draw], int] = lambda _draw: 1_000_000,
    outcome: Callable[[Draw], Outcome] = lambda _draw: "ok",
    end_ns: int | None = None,
) -> list[Draw]:
    """Every draw in the order in which it was handed out."""
    now_ns = 0
    busy: list[tuple[int, int, Draw]] = []
    drawn: list[Draw] = []
    for step in range(STEPS_MAX):
        taken = {draw.thread for _, _, draw in busy}
        free = tuple(thread for thread in range(threads) if thread not in taken)
        asked = generator.next(Context(now_ns, free, threads))
        if asked is None or (end_ns is not None and now_ns >= end_ns):
            return drawn
        if asked != PENDING and asked[0].time_ns <= now_ns:
            draw, generator = asked
            assert draw.thread in free, f"{draw} names a thread that is not free in {free}"
            drawn.append(draw)
            heapq.heappush(busy, (now_ns + latency_ns(draw), step, draw))
            continue
        due_ns = None if asked == PENDING else asked[0].time_ns
        if busy and (due_ns is None or busy[0][0] <= due_ns):
            now_ns, _, draw = heapq.heappop(busy)
            generator = generator.update(Done(draw, outcome(draw)))
        else:
            assert due_ns is not None, "nothing under way, and nothing to draw"
            now_ns = due_ns
    raise AssertionError("no end")
