"""Operations on one object, and what it does: the language of the search.

Times are ns of one clock. An operation takes effect at one moment between its invocation and its completion. One that
never completed (`info`) takes effect at any moment after its invocation, or never.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

State = Hashable
"""Of a specification's own kind."""


@dataclass(frozen=True, slots=True)
class Operation:
    """index: which operation of the history it is. f and value: what the specification makes of them.

    complete_ns: None where nobody was told of its effect. since_ns: of a read that may be answered from an older copy,
    from when on it may take effect, though it was invoked later; None: not before its invocation. session: who answered
    it; what one session answered after something else, it answered of no older state.
    """

    index: int
    f: str
    value: Any
    invoke_ns: int
    complete_ns: int | None
    session: str | None = None
    since_ns: int | None = None

    @property
    def open_ns(self) -> int:
        """From when on it may take effect."""
        return self.invoke_ns if self.since_ns is None else min(self.since_ns, self.invoke_ns)


class Specification(Protocol):
    """What one object does, one operation after the other."""

    @property
    def initial(self) -> State:
        """Before the first operation."""
        ...

    @property
    def forgetful(self) -> bool:
        """Whether what a write leaves behind depends on that write alone."""
        ...

    def is_read(self, op: Operation) -> bool:
        """Whether it changes no state whatever."""
        ...

    def allows(self, state: State, op: Operation) -> bool:
        """Whether the operation may return what it did."""
        ...

    def after(self, state: State, op: Operation) -> State:
        """The state that an allowed operation leaves."""
        ...


Verdict = Literal["linearizable", "not-linearizable", "out-of-budget"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the search found.

    completed: how many operations have completed in the longest prefix of the history that was seen to be linearizable
    (of all that is begun by then, those that never complete included). order: one order that explains it, by index.
    blocking: the operation with whose completion no order was found; None where all have one. states: those that the
    object can be in before it. configurations: how many were looked at.
    """

    verdict: Verdict
    completed: int
    order: tuple[int, ...]
    blocking: int | None
    states: tuple[Any, ...]
    configurations: int
