"""Slow, plain twins of rules on event logs: each goes through the lines of one broker's replica, one after the other.

Lines are dicts as docs/event-log.md has them, with `t_ns`. Nothing here knows Spark, or how the checkers find it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Line = Mapping[str, Any]
Found = set[tuple[str, int]]
"""(incarnation, s) of the lines that prove something."""


def _replicas(events: Iterable[Line]) -> dict[tuple[int, str], list[Line]]:
    """(broker, partition) → all lines about it, in the order of its lives."""
    began: dict[str, int] = {}
    found: dict[tuple[int, str], list[Line]] = defaultdict(list)
    for line in events:
        began[line["i"]] = min(line["t_ns"], began.get(line["i"], line["t_ns"]))
        if line.get("p") is not None:
            found[line["b"], line["p"]].append(line)
    for lines in found.values():
        lines.sort(key=lambda line: (began[line["i"]], line["i"], line["s"]))
    return found


def shorter_after_restart(events: Iterable[Line]) -> Found:
    """Logs that a restarted broker opens below the end that the life before had written, and that nothing can have cut
    since: it led, or had appended something in the role of a follower that it had last.
    """
    found: Found = set()
    for lines in _replicas(events).values():
        life, end, before, opened = None, None, None, False
        for line in lines:
            if line["i"] != life:
                life, before, end, opened = line["i"], end, None, False
            match line["e"]:
                case "recovered":
                    if not opened and before is not None and line["leo"] < before:
                        found.add((line["i"], line["s"]))
                    opened, end = True, line["leo"]
                case "become_leader":
                    end = line["leo"]
                case "append":
                    end = line["last"] + 1
                case "become_follower" | "truncate":
                    end = None
                case "stop_replica" if line.get("delete", True):
                    end = None
    return found
