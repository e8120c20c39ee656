"""A register: `write` sets it, `read` returns it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from checkers.search.operations import Operation

READ, WRITE = "read", "write"


@dataclass(frozen=True, slots=True)
class Register:
    """Implements `checkers.search.operations.Specification`."""

    initial: Hashable
    forgetful: bool = True

    def is_read(self, op: Operation) -> bool:
        """Anything that is no write."""
        return op.f != WRITE

    def allows(self, state: Hashable, op: Operation) -> bool:
        """A read returns what is there."""
        return op.f == WRITE or op.value == state

    def after(self, state: Hashable, op: Operation) -> Hashable:
        """What was written."""
        return op.value if op.f == WRITE else state


def needed(operations: Sequence[Operation]) -> list[Operation]:
    """Without the writes that never completed, and that no read can have returned: which changes no answer.

    An order without such a write is one in which it never took effect. In an order with it no read follows it before
    the next write, which overwrites it: without it the order is legal too.
    """
    last_read: dict[Hashable, int] = {}
    for op in operations:
        if op.f != WRITE and op.complete_ns is not None:
            last_read[op.value] = max(op.complete_ns, last_read.get(op.value, op.complete_ns))
    return [
        op
        for op in operations
        if op.f != WRITE or op.complete_ns is not None or last_read.get(op.value, op.invoke_ns - 1) >= op.invoke_ns
    ]
