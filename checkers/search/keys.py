"""One key's operations, as rows, to what the search finds of it, as a row: what runs in Spark's Python workers.

Pure. A row is (op, f, value, invoke_ns, complete_ns, session, since_ns), the fields of `Operation` in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from checkers.search.linearization import search
from checkers.search.operations import Operation
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
    by_index = {op.index: op for op in operations}
    writes = [index for index in outcome.order if by_index[index].f == WRITE]
    ends = [by_index[outcome.blocking].complete_ns] if outcome.blocking is not None else []
    return (
        outcome.verdict,
        outcome.completed,
        outcome.blocking,
        [int(state) for state in outcome.states[:_STATES_SHOWN]],
        list(dict.fromkeys([*writes[-1:], *outcome.order[-1:]])),
        min((op.invoke_ns for op in operations), default=0),
        max((end for end in ends if end is not None), default=0),
    )
