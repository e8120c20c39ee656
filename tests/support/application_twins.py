"""Slow, plain twins of the checkers of applications: loops over lists. The oracle on small histories.

Each takes all lines of one run with one group, and returns the values that it finds; nothing is shared with the
checkers.
"""

from __future__ import annotations

from typing import Any

from tests.support.twins import operations

Lines = list[dict[str, Any]]


def processed_twice(lines: Lines) -> set[int]:
    """Values that more than one operation processed."""
    seen: set[int] = set()
    twice: set[int] = set()
    for op in operations(lines):
        if op.f == "process":
            for value in op.request["values"]:
                (twice if value in seen else seen).add(value)
    return twice


def never_processed(lines: Lines) -> set[int]:
    """Values acknowledged below what the group had committed in the end, and before that was noted, of nobody."""
    ops = operations(lines)
    done = {value for op in ops if op.f == "process" for value in op.request["values"]}
    missing: set[int] = set()
    for line in lines:
        if line["f"] != "group-drained":
            continue
        for op in ops:
            home = op.request["topic"], op.request["partition"]
            if op.f != "send" or op.outcome != "ok" or home != (line["topic"], line["partition"]):
                continue
            assert op.done is not None
            for nth, value in enumerate(op.request["values"]):
                if op.response["base_offset"] + nth < line["end"] and op.done < line["time_ns"] and value not in done:
                    missing.add(value)
    return missing
