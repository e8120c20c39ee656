"""A history as the search goes through it: when operations open and return, and what has to stand before a stale read.

Pure. A number is an operation's place in `ops`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from checkers.search.operations import Operation

OPENS, RETURNS = 0, 1


@dataclass(frozen=True, slots=True)
class Timeline:
    """events: (OPENS or RETURNS, number) by time; what is over at the very moment when another one begins is beside it.

    opened_at, returned_at: places of a number's events, the second the number of events where it never returns.
    bits: one bit for each number, which no other has that is open beside it, nor, of what never returns, any other at
    any time. before: of a read that may stand before
    its invocation, what its session answered last before that.
    """

    ops: Sequence[Operation]
    events: Sequence[tuple[int, int]]
    opened_at: Sequence[int]
    returned_at: Sequence[int]
    bits: Sequence[int]
    before: Sequence[tuple[int, ...]]


def timeline_of(operations: Sequence[Operation]) -> Timeline:
    """Of operations in any order. Raises ValueError for one that is over before it begins."""
    wrong = next((op for op in operations if op.complete_ns is not None and op.complete_ns < op.invoke_ns), None)
    if wrong is not None:
        raise ValueError(f"operation {wrong.index} is over at {wrong.complete_ns} ns and begins at {wrong.invoke_ns}")
    ops = sorted(operations, key=lambda op: (op.invoke_ns, op.index))
    opens = [(op.open_ns, OPENS, n) for n, op in enumerate(ops)]
    returns = [(op.complete_ns, RETURNS, n) for n, op in enumerate(ops) if op.complete_ns is not None]
    events = [(kind, n) for _, kind, n in sorted([*opens, *returns])]
    opened_at, returned_at = [0] * len(ops), [len(events)] * len(ops)
    bits, free, used = [0] * len(ops), list[int](), 0
    for at, (kind, n) in enumerate(events):
        if kind == RETURNS:
            returned_at[n] = at
            free.append(bits[n])
            continue
        opened_at[n] = at
        if free and ops[n].complete_ns is not None:
            bits[n] = free.pop()
        else:
            bits[n], used = 1 << used, used + 1
    return Timeline(ops, events, opened_at, returned_at, bits, _before(ops))


def _before(ops: Sequence[Operation]) -> list[tuple[int, ...]]:
    """For each number what its session answered last before it was invoked. All that was answered earlier stands before
    one of these, and what was over before the read opens, before the read anyway.
    """
    by_session: dict[str, list[tuple[int, int]]] = {}
    for n, op in enumerate(ops):
        if op.session is not None and op.complete_ns is not None:
            by_session.setdefault(op.session, []).append((op.complete_ns, n))
    sessions = {}
    for name, mine in by_session.items():
        mine.sort()
        latest_invocation = list(accumulate((ops[n].invoke_ns for _, n in mine), max))
        sessions[name] = ([done for done, _ in mine], [n for _, n in mine], latest_invocation)
    before: list[tuple[int, ...]] = []
    for op in ops:
        if op.session not in sessions or op.open_ns == op.invoke_ns:
            before.append(())
            continue
        completions, numbers, latest_invocation = sessions[op.session]
        end = bisect_left(completions, op.invoke_ns)
        start = bisect_left(completions, max(latest_invocation[end - 1], op.open_ns)) if end else 0
        before.append(tuple(numbers[start:end]))
    return before
