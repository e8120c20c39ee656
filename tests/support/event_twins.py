"""Slow, plain twins of rules on event logs: each goes through the lines of one broker's replica, one after the other.

Lines are dicts as docs/event-log.md has them, with `t_ns`. Nothing here knows Spark, or how the checkers find it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
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


def raised_by_a_role(events: Iterable[Line]) -> Found:
    """Roles taken with a watermark above the one that the replica had just before."""
    found: Found = set()
    for lines in _replicas(events).values():
        life, known = None, None
        for line in lines:
            if line["i"] != life:
                life, known = line["i"], None
            match line["e"]:
                case "become_leader" | "become_follower":
                    if known is not None and line["hw"] > known:
                        found.add((line["i"], line["s"]))
                    known = line["hw"]
                case "recovered" | "hw":
                    known = line["hw"]
                case "truncate":
                    known = line["to"] if line["to"] > line["from_leo"] else min(line["hw"], line["to"])
    return found


def raised_below_min_isr(
    events: Iterable[Line], isrs: Mapping[tuple[str, int], AbstractSet[int]], min_isr: int
) -> Found:
    """Leaders' advances by too small an ISR: by what the line says, or by the version that they last took for
    committed.

    isrs: (partition, version) → ISR, as ZooKeeper has it.
    """
    found: Found = set()
    for (_, p), lines in _replicas(events).items():
        life, version = None, -1
        for line in lines:
            if line["i"] != life:
                life, version = line["i"], -1
            if line["e"] in ("become_leader", "isr_commit"):
                version = line["pe"]
            if line["e"] == "hw" and line["role"] == "leader":
                committed = isrs.get((p, version))
                if len(line["isr"]) < min_isr or (committed is not None and len(committed) < min_isr):
                    found.add((line["i"], line["s"]))
    return found


def acted_by_another_isr(events: Iterable[Line], isrs: Mapping[tuple[str, int], AbstractSet[int]]) -> Found:
    """Leaders' advances and acks=all responses by another ISR than that of the version last taken for committed."""
    found: Found = set()
    for (_, p), lines in _replicas(events).items():
        life, version = None, -1
        for line in lines:
            if line["i"] != life:
                life, version = line["i"], -1
            if line["e"] in ("become_leader", "isr_commit"):
                version = line["pe"]
            acts = (line["e"] == "hw" and line["role"] == "leader") or (line["e"] == "ack" and line["acks"] == -1)
            if acts and isrs.get((p, version), set(line["isr"])) != set(line["isr"]):
                found.add((line["i"], line["s"]))
    return found
