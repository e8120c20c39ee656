"""Slow, plain twins of the checkers of applications: loops over lists. The oracle on small histories.

Each takes all lines of one run with one group, and returns the values that it finds; nothing is shared with the
checkers.
"""

from __future__ import annotations

from typing import Any

from tests.support.twins import operations

Lines = list[dict[str, Any]]


def processed_twice(lines: Lines) -> set[int]:
    """Values that were processed more than once."""
    seen: set[int] = set()
    twice: set[int] = set()
    for op in operations(lines):
        if op.f == "process":
            for value in op.request["values"]:
                (twice if value in seen else seen).add(value)
    return twice


def never_processed(lines: Lines) -> set[int]:
    """Values that stand below what the group had committed in the end (acknowledged before that was noted, or read by
    somebody), of nobody.
    """
    ops = operations(lines)
    done = {value for op in ops if op.f == "process" for value in op.request["values"]}
    missing: set[int] = set()
    for line in lines:
        if line["f"] != "group-drained":
            continue
        for op in ops:
            if (op.request["topic"], op.request["partition"]) != (line["topic"], line["partition"]):
                continue
            there: list[tuple[int, int]] = []
            if op.f == "send" and op.outcome == "ok" and (op.done or 0) < line["time_ns"]:
                there = [(op.response["base_offset"] + nth, value) for nth, value in enumerate(op.request["values"])]
            elif op.f == "poll" and op.outcome == "ok":
                there = [(offset, value) for offset, value, _ in op.records if value is not None]
            missing |= {value for offset, value in there if offset < line["end"] and value not in done}
    return missing
