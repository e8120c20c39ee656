"""Operations: what a client is to do, and how it came out.

One operation is one request. Must not know sockets, files or generators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Outcome = Literal["ok", "fail", "info"]
F = str
"""Name of an operation: `send`, `poll`, `list_offsets`, and those of transactions and groups in
docs/history-format.md.
"""

_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Invocation:
    """An operation that is about to be sent. node: where the request goes, None when no leader is known. topic and
    partition: None for operations of a coordinator, which name partitions in their fields.

    fields: the invocation's further fields of docs/history-format.md (`values`, `position`, …).
    """

    process: int
    f: F
    phase: str
    topic: str | None
    partition: int | None
    node: str | None
    fields: Mapping[str, object] = field(default_factory=lambda: _NOTHING)

    @property
    def home(self) -> tuple[str, int]:
        """Topic and partition of an operation that has both."""
        assert self.topic is not None
        assert self.partition is not None
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Completion:
    """How an operation came out: ok (happened), fail (certainly did not), info (unknown).

    at_ns: CLOCK_MONOTONIC when the response, or the lack of one, was seen. fields: the response's, by
    docs/history-format.md.
    """

    outcome: Outcome
    at_ns: int
    error: str | None = None
    fields: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
