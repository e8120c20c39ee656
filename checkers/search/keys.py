"""One key's operations, as rows, to what the search finds of it, as a row: what runs in Spark's Python workers.

Pure. A row is (op, f, value, invoke_ns, complete_ns, session, since_ns), the fields of `Operation` in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from checkers.search.counts import GROW, Growing
from checkers.search.linearization import search
from checkers.search.operations import Operation, Outcome
from checkers.search.places import places
from checkers.search.register import WRITE, Register, needed

BUDGET = 50_000
"""Configurations of one key, beyond one for each operation: some seconds."""

_STATES_SHOWN = 5

Found = tuple[str, int, int | None, list[int], list[int], int, int]
"""verdict; how many operations had completed before the one that blocks, and which that is; the states before it, five
at most; the operations of an order of the others that lead to it: its last write, and its last operation; begin of the
first operation, and end of the one that blocks (ns).
"""


def search_register(rows: Iterable[Sequence[Any]], initial: int, budget: int = BUDGET) -> Found:
    """Of one register. Rows in any order."""
    operations = needed([Operation(*row) for row in rows])
    outcome = search(Register(initial), operations, budget)
    return _found(operations, outcome, WRITE, [int(state) for state in outcome.states])


def search_count(rows: Iterable[Sequence[Any]], begins_at: int, budget: int = BUDGET) -> Found:
    """Of one number that grows (`counts`), from begins_at on. Rows in any order."""
    operations = [Operation(*row) for row in rows]
    outcome = search(Growing(begins_at), operations, budget)
    return _found(operations, outcome, GROW, list(dict.fromkeys(now for _, now in outcome.states)))


def _found(operations: Sequence[Operation], outcome: Outcome, write: str, states: Sequence[int]) -> Found:
    """write: name of the operations that change the state."""
    by_index = {op.index: op for op in operations}
    writes = [index for index in outcome.order if by_index[index].f == write]
    ends = [by_index[outcome.blocking].complete_ns] if outcome.blocking is not None else []
    return (
        outcome.verdict,
        outcome.completed,
        outcome.blocking,
        list(states[:_STATES_SHOWN]),
        list(dict.fromkeys([*writes[-1:], *outcome.order[-1:]])),
        min((op.invoke_ns for op in operations), default=0),
        max((end for end in ends if end is not None), default=0),
    )


Unplaced = tuple[int, int, int, int]
"""The append that has no place, and the operation with whose completion that was certain, by index; begin of the first,
and end of the second (ns).
"""


def search_log(
    rows: Iterable[Sequence[Any]], passed_over: Iterable[tuple[int, int]], budget: int = BUDGET
) -> Unplaced | None:
    """Of one log, of appends some of which have no known offset. passed_over: ranges of offsets, the end excluded, in
    which there is nothing but what has a known offset there.

    None where each has a place, or that was not found out; and where what is known by itself has no order, or two
    records one offset, for then others say what is wrong.
    """
    operations = [Operation(*row) for row in rows]
    known = [op for op in operations if op.value is not None]
    log = places([op.value for op in known], passed_over)
    if len(log.known) < len(known) or search(log, known, budget).verdict != "linearizable":
        return None
    outcome = search(log, operations, budget)
    if outcome.verdict != "not-linearizable":
        return None
    by_index = {op.index: op for op in operations}
    floating = [index for index in (*outcome.order, outcome.blocking) if index in by_index]
    unplaced = [by_index[index] for index in floating if by_index[index].value is None][-1]
    blocking = by_index[floating[-1]]
    assert unplaced.complete_ns is not None
    assert blocking.complete_ns is not None
    return unplaced.index, blocking.index, unplaced.invoke_ns, max(unplaced.complete_ns, blocking.complete_ns)
