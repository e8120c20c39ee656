"""Slow, plain twins of the checkers of compaction: loops over lists. The oracle on small histories.

Each takes all lines of a run with one partition, and returns (reading, key) of what it finds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.twins import Op, operations

Lines = list[dict[str, Any]]


class _Placed(NamedTuple):
    offset: int
    tombstone: bool
    since: int


def _keyed(ops: list[Op]) -> dict[int, tuple[int, bool, Op]]:
    """Value → key, whether it is a tombstone, its send."""
    return {
        value: (key, gone, op)
        for op in ops
        if op.f == "send" and "keys" in op.request
        for value, key, gone in zip(op.request["values"], op.request["keys"], op.request["tombstones"], strict=True)
    }


def _readings(lines: Lines, ops: list[Op]) -> list[list[Op]]:
    """The polls of each consumer of a drain that came to its end."""
    found = []
    for line in lines:
        if line["f"] != "drain-complete":
            continue
        mine: dict[str, list[Op]] = {}
        for op in ops:
            if op.f == "poll" and op.outcome == "ok" and op.request["phase"] == line["phase"]:
                mine.setdefault(op.request["consumer"], []).append(op)
        found += [polls for polls in mine.values() if max(op.response["next_position"] for op in polls) >= line["end"]]
    return found


def _judged(lines: Lines) -> list[tuple[str, int, _Placed, int | None, bool]]:
    """(reading, key, newest, last offset that was returned, whether a tombstone above newest is in doubt)."""
    ops = operations(lines)
    keyed = _keyed(ops)
    places: dict[int, tuple[int, int]] = {}
    for op in ops:
        if op.f == "send" and op.outcome == "ok":
            places[op.request["values"][0]] = (op.response["base_offset"], op.done or 0)
    for op in ops:
        for offset, value, _ in op.records if op.f == "poll" and op.outcome == "ok" else ():
            if value is not None and value not in places:
                places[value] = (offset, op.done or 0)
    out = []
    for polls in _readings(lines, ops):
        began, ended = min(op.invoked for op in polls), max(op.done or 0 for op in polls)
        returned = [(offset, value) for op in polls for offset, value, _ in op.records]
        for key in {key for key, _, _ in keyed.values()}:
            mine = [
                _Placed(places[value][0], gone, places[value][1])
                for value, (of, gone, _) in keyed.items()
                if of == key and value in places and places[value][1] < began
            ]
            if mine:
                kept = [offset for offset, value in returned if value is not None and keyed[value][0] == key]
                newest = max(mine)
                doubt = any(
                    of == key
                    and gone
                    and op.outcome != "fail"
                    and op.invoked < ended
                    and (value not in places or (places[value][1] >= began and places[value][0] > newest.offset))
                    for value, (of, gone, op) in keyed.items()
                )
                out.append((polls[0].request["consumer"], key, newest, max(kept, default=None), doubt))
    return out


def last_value(lines: Lines) -> set[tuple[str, int]]:
    """Keys of which nothing was returned, though the newest record is no tombstone, nor may have been deleted."""
    return {
        (reading, key)
        for reading, key, newest, kept, doubt in _judged(lines)
        if kept is None and not newest.tombstone and not doubt
    }


def old_value(lines: Lines) -> set[tuple[str, int]]:
    """Keys of which an older record than the newest was the last to be returned."""
    return {
        (reading, key) for reading, key, newest, kept, _ in _judged(lines) if kept is not None and kept < newest.offset
    }
