"""A real client's calls and callbacks as operations of the history.

Decides process numbers and fields that all of them have. Must not know client libraries. A `Process` is used by one
thread; after an operation that came out `info` it goes on under a new number, as processes of the lab do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from harness.operations.history import History
from harness.operations.op import Completion, Invocation, Outcome
from harness.workloads.base import RunContext


class Begun(NamedTuple):
    """An operation that has been invoked. op: index of its line."""

    op: int
    invocation: Invocation


class Process:
    """One application thread's operations. reader: whose calls they are, as the history has it."""

    def __init__(self, run: RunContext, reader: str) -> None:
        self._run = run
        self._reader = reader
        self._number = run.next_process()

    @property
    def history(self) -> History:
        """Where the operations go."""
        return self._run.history

    def invoke(self, f: str, home: tuple[str, int] | None, fields: Mapping[str, object]) -> Begun:
        """Record a call that is about to be made. home: topic and partition, where it has one."""
        topic, partition = home if home is not None else (None, None)
        invocation = Invocation(
            self._number, f, self.history.phase, topic, partition, None, {"reader": self._reader, **fields}
        )
        return Begun(self.history.invoke(invocation), invocation)

    def complete(
        self, begun: Begun, outcome: Outcome, error: str | None = None, fields: Mapping[str, object] | None = None
    ) -> None:
        """Record how it came out, now."""
        completion = Completion(outcome, time.monotonic_ns(), error, fields or {})
        self.history.complete(begun.op, begun.invocation, completion)
        if outcome == "info" and begun.invocation.process == self._number:
            self._number = self._run.next_process()

    def at_once(
        self,
        f: str,
        home: tuple[str, int] | None,
        fields: Mapping[str, object],
        found: Mapping[str, object] | None = None,
    ) -> None:
        """A callback, or what a call handed out: invoked and ok."""
        self.complete(self.invoke(f, home, fields), "ok", None, found)
