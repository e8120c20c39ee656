"""Slow, plain twins of rules on event logs: each goes through the lines of one broker's replica, one after the other.

Lines are dicts as docs/event-log.md has them, with `t_ns`. Nothing here knows Spark, or how the checkers find it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby, pairwise
from typing import Any

Line = Mapping[str, Any]
Found = set[tuple[str, int]]
"""(incarnation, s) of the lines that prove something."""


def _replicas(events: Iterable[Line], *, fetches: bool = False) -> dict[tuple[int, str], list[Line]]:
    """(broker, partition) → all lines about it, in the order of its lives. fetches: with those that name it."""
    began: dict[str, int] = {}
    found: dict[tuple[int, str], list[Line]] = defaultdict(list)
    for line in events:
        began[line["i"]] = min(line["t_ns"], began.get(line["i"], line["t_ns"]))
        if line.get("p") is not None:
            found[line["b"], line["p"]].append(line)
        elif fetches and line["e"] in ("fetch_sent", "fetch_answered"):
            for part in line["parts"]:
                found[line["b"], part[0]].append(line)
    for lines in found.values():
        lines.sort(key=lambda line: (began[line["i"]], line["i"], line["s"]))
    return found


def _lives(lines: Iterable[Line]) -> list[list[Line]]:
    """The lines of one replica by its broker's lives."""
    return [list(life) for _, life in groupby(lines, key=lambda line: line["i"])]


def _opened(life: Iterable[Line]) -> Line | None:
    return next((line for line in life if line["e"] == "recovered"), None)


def _end_of(life: Iterable[Line], p: str) -> int | None:
    """The end of its log as a life's lines leave it; None where something may have cut it behind the last of them."""
    end, agreed, agrees = None, None, False
    asked: dict[tuple[str, int], int] = {}
    for line in life:
        part = next((part for part in line.get("parts") or () if part[0] == p), None)
        match line["e"]:
            case "recovered" | "become_leader":
                end = line["leo"]
            case "append":
                end = line["last"] + 1
            case "become_follower" | "truncate" | "stop_replica":
                end, agreed, agrees = None, None, False
                asked.clear()
            case "fetch_sent" if part is not None:
                asked[line["rid"], line["leader"]] = int(part[1])
            case "fetch_answered" if part is not None:
                agrees = int(part[1]) == 0 and int(part[4]) < 0
                if agrees and (line["rid"], line["leader"]) in asked:
                    agreed = max(agreed or 0, asked[line["rid"], line["leader"]])
    return end if end is not None else agreed if agrees else None


_BEGINS_AT = {"become_leader": "leo", "become_follower": "leo", "truncate": "from_leo", "append": "base"}


def goes_on_elsewhere(events: Iterable[Line]) -> Found:
    """Lines of a log that ends elsewhere than where the lines before left it; what a follower appends may leave out
    something.
    """
    found: Found = set()
    for life in (life for lines in _replicas(events).values() for life in _lives(lines)):
        end: int | None = None
        for line in life:
            name = line["e"]
            if end is not None and name in _BEGINS_AT:
                begins = line[_BEGINS_AT[name]]
                if begins < end or (begins > end and not (name == "append" and line["role"] == "follower")):
                    found.add((line["i"], line["s"]))
            elif end is not None and name == "ack" and line["last"] >= end:
                found.add((line["i"], line["s"]))
            if name in ("recovered", "become_leader", "become_follower"):
                end = line["leo"]
            elif name == "append":
                end = line["last"] + 1
            elif name == "truncate":
                end = line["to"]
    return found


def shorter_after_restart(events: Iterable[Line]) -> Found:
    """Logs that a restarted broker opens below the end that the life before had written, and that nothing can have cut
    since: it led, or had appended something in the role of a follower that it had last, or its leader had agreed to it.
    """
    found: Found = set()
    for (_, p), lines in _replicas(events, fetches=True).items():
        lives = _lives(lines)
        for before, life in pairwise(lives):
            opened, end = _opened(life), _end_of(before, p)
            if opened is not None and end is not None and opened["leo"] < end:
                found.add((opened["i"], opened["s"]))
    return found


def _known_in(life: Iterable[Line]) -> tuple[int | None, bool]:
    """The highest watermark since the log was opened, cut or deleted last; and whether it was once it was open."""
    known, opened, changed = None, False, False
    for line in life:
        mark = line.get("hw")
        match line["e"]:
            case "truncate":
                known, changed, mark = None, True, min(line["hw"], line["to"])
            case "stop_replica" if line.get("delete", True):
                known, changed = None, True
            case "recovered":
                known, changed, opened = None, opened, True
        if mark is not None:
            known = max(mark, -1 if known is None else known)
    return known, changed


def _known_before(lives: Sequence[Sequence[Line]]) -> list[int | None]:
    """What was known to be committed as each life began: of all before since the log was last changed, or opened so
    short that it had been.
    """
    found: list[int | None] = []
    carried, highest = None, -1
    for life in lives:
        found.append(carried)
        known, changed = _known_in(life)
        opened = _opened(life)
        if changed or (opened is not None and opened["leo"] < highest):
            carried = None
        carried = max((mark for mark in (carried, known) if mark is not None), default=None)
        highest = max(highest, -1 if known is None else known)
    return found


def below_a_watermark_after_restart(events: Iterable[Line]) -> Found:
    """Logs that a restarted broker opens below a watermark that it had known."""
    found: Found = set()
    for lines in _replicas(events).values():
        lives = _lives(lines)
        for life, known in zip(lives, _known_before(lives), strict=True):
            opened = _opened(life)
            if opened is not None and known is not None and opened["leo"] < known:
                found.add((opened["i"], opened["s"]))
    return found


def _exposed(events: Iterable[Line]) -> dict[tuple[str, int], int]:
    """(partition, leader epoch) → the end up to which its leader told others, or a client."""
    exposed: dict[tuple[str, int], int] = {}
    for line in events:
        end = None
        match line["e"]:
            case "hw" if line["role"] == "leader":
                end = line["hw"]
            case "visible":
                end = line["upto"]
            case "ack" if line["acks"] == -1:
                end = line["last"] + 1
        if end is not None:
            exposed[line["p"], line["le"]] = max(end, exposed.get((line["p"], line["le"]), 0))
    return exposed


def cut_what_was_exposed(events: Iterable[Line]) -> Found:
    """Cuts below what the epoch of the last batch exposed, that this replica had appended before, or below a watermark
    that it had known; and of who counts itself to the ISR, below what any earlier epoch exposed.
    """
    lines = list(events)
    exposed = _exposed(lines)
    found: Found = set()
    for (_, p), mine in _replicas(lines).items():
        lives = _lives(mine)
        tail: tuple[int, int] | None = None
        taught = False
        for life, before in zip(lives, _known_before(lives), strict=True):
            as_opened, mark = True, 0
            for line in life:
                if line["e"] in ("recovered", "hw", "become_leader", "become_follower"):
                    mark = line["hw"]
                taught = taught or line["e"] == "hw"
                if line["e"] == "append":
                    tail, as_opened = (line["le"], line["last"] + 1), False
                if line["e"] != "truncate":
                    continue
                earlier = max((end for (q, le), end in exposed.items() if q == p and le < line["le"]), default=0)
                own = max(line["hw"], mark)
                told = line["in_isr"] and line["to"] < max(own, earlier)
                known = max(own, before if as_opened and before is not None else 0)
                held = tail is not None and (not as_opened or line["from_leo"] <= tail[1])
                held = (
                    held
                    and tail is not None
                    and (line["to"] < exposed.get((p, tail[0]), 0) or (taught and line["to"] < known))
                )
                if line["to"] < line["from_leo"] and (told or held):
                    found.add((line["i"], line["s"]))
                tail, as_opened = None, False
                mark = line["to"] if line["to"] > line["from_leo"] else min(line["hw"], line["to"])
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
