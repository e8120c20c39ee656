"""Offsets in operations of Jepsen's Kafka workload: which they name, what lies below a log's start, and other numbers
for them.

Takes operations as values; knows no file and no run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.exchange.operations import Operation, Poll, Send

LARGE_OFFSET = 1_000_000
"""From here on Jepsen's vector of a log, which has a place for each offset, takes a noticeable share of its heap."""


def highest_offset(operations: Sequence[Operation]) -> int:
    """0 where none is named."""
    return max((offset for operation in operations for _, offset in offsets_of(operation)), default=0)


def offsets_of(operation: Operation) -> Iterator[tuple[int, int]]:
    """(key, offset) of all that an operation names."""
    for micro in operation.micro:
        if isinstance(micro, Send):
            if micro.offset is not None:
                yield micro.key, micro.offset
        else:
            yield from ((key, offset) for key, records in micro.records.items() for offset, _ in records)


def with_dense_offsets(operations: Sequence[Operation]) -> list[Operation]:
    """Offsets that the history knows of, numbered from 0 in each key; their order stays."""
    known: dict[int, set[int]] = {}
    for operation in operations:
        for key, offset in offsets_of(operation):
            known.setdefault(key, set()).add(offset)
    place = {key: {offset: nth for nth, offset in enumerate(sorted(offsets))} for key, offsets in known.items()}

    def moved(micro: Send | Poll) -> Send | Poll:
        if isinstance(micro, Send):
            return micro if micro.offset is None else replace(micro, offset=place[micro.key][micro.offset])
        return Poll({key: [(place[key][at], value) for at, value in got] for key, got in micro.records.items()})

    return [replace(operation, micro=[moved(micro) for micro in operation.micro]) for operation in operations]


def unread_below(starts: Mapping[int, int], operations: Sequence[Operation]) -> int:
    """How many acknowledged values below the starts no operation that came out well returned."""
    sent: set[tuple[int, int | None]] = set()
    read: set[tuple[int, int | None]] = set()
    for operation in operations:
        for micro in operation.micro if operation.type == "ok" else ():
            if isinstance(micro, Poll):
                read.update((key, value) for key, records in micro.records.items() for _, value in records)
            elif micro.offset is not None and micro.offset < starts.get(micro.key, 0):
                sent.add((micro.key, micro.value))
    return len(sent - read)
