"""Operations: what a client is to do, and how it came out.

One operation is one request. Must not know sockets, files or generators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Outcome = Literal["ok", "fail", "info"]
F = Literal["send", "poll", "list_offsets"]

_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Invocation:
    """An operation that is about to be sent. node: where the request goes, None when no leader is known.

    fields: the invocation's further fields of docs/history-format.md (`values`, `position`, …).
    """

    process: int
    f: F
    phase: str
    topic: str
    partition: int
    node: str | None
    fields: Mapping[str, object] = field(default_factory=lambda: _NOTHING)


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
