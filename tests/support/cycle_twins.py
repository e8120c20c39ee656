"""A slow, plain twin of the checkers of cycles: whole relations, closures by loops. The oracle on small histories.

Nothing here is shared with the checkers: every pair of records is ordered, every pair of times is compared, and nothing
is peeled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from tests.support.twins import Op, operations

Lines = list[dict[str, Any]]
Pair = tuple[int, int]


@dataclass
class Node:
    """A transaction, or a poll by itself (below 0)."""

    process: int
    began: int
    over: int | None
    polls: list[Op] = field(default_factory=list)
    written: list[tuple[int, int, int]] = field(default_factory=list)
    """(partition, offset, value)."""

    @property
    def values(self) -> set[int]:
        return {value for _, _, value in self.written}

    @property
    def returned(self) -> set[int | None]:
        return {value for op in self.polls for _, value, _ in op.records}

    def ends(self) -> dict[int, int]:
        """Partition → where the last poll that ended highest did, at the last stable offset."""
        ends: dict[int, tuple[int, int]] = {}
        for op in self.polls:
            p = op.request["partition"]
            ends[p] = max(ends.get(p, (-1, -1)), (op.response["next_position"], op.response["lso"]))
        return {p: end for p, (end, lso) in ends.items() if end >= lso}


def nodes_of(lines: Lines) -> dict[int, Node]:
    ops = operations(lines)
    committed_polls = [op for op in ops if op.f == "poll" and op.outcome == "ok" and op.request["isolation"] == 1]
    offsets = {value: offset for op in committed_polls for offset, value, _ in op.records}
    nodes: dict[int, Node] = {}
    for txn in {op.request["txn"] for op in ops if op.request.get("txn") is not None}:
        mine = [op for op in ops if op.request.get("txn") == txn]
        commits = [op for op in mine if op.f == "end_txn" and op.request["commit"]]
        sends = [op for op in mine if op.f == "send"]
        shown = any(value in offsets for op in sends for value in op.request["values"])
        if not any(c.outcome == "ok" or (c.outcome == "info" and shown) for c in commits):
            continue
        acting = [op for op in mine if op.f in ("send", "poll")]
        over = min((op.done or 0 for op in commits if op.outcome == "ok"), default=None)
        node = Node(acting[0].process, min(op.invoked for op in acting), over)
        node.polls = [op for op in mine if op in committed_polls]
        for op in sends:
            for nth, value in enumerate(op.request["values"]):
                node.written.append((op.request["partition"], op.response["base_offset"] + nth, value))
        nodes[txn] = node
    for op in committed_polls:
        if op.request.get("txn") is None and op.request["phase"] == "main":
            nodes[-op.index - 1] = Node(op.process, op.invoked, op.done, [op])
    return nodes


def relations(nodes: Mapping[int, Node]) -> dict[str, set[Pair]]:
    found: dict[str, set[Pair]] = {kind: set() for kind in ("ww", "wr", "rw", "part", "process", "real-time")}
    for a, first in nodes.items():
        for b, second in nodes.items():
            if a == b:
                continue
            if any(p == q and at < to for p, at, _ in first.written for q, to, _ in second.written):
                found["ww"].add((a, b))
            if first.values & second.returned:
                found["wr"].add((a, b))
            if any(at >= first.ends().get(p, at + 1) for p, at, _ in second.written):
                found["rw"].add((a, b))
            if first.process == second.process and (first.began, a) < (second.began, b):
                found["process"].add((a, b))
            if a >= 0 and b >= 0 and first.over is not None and first.over < second.began:
                found["real-time"].add((a, b))
    found["part"] = {pair for a, b in found["wr"] if (b, a) in found["rw"] for pair in ((a, b), (b, a))}
    return found


def _reachable(pairs: Set[Pair], nodes: Iterable[int]) -> dict[int, set[int]]:
    after: dict[int, set[int]] = {node: set() for node in nodes}
    for a, b in pairs:
        after[a].add(b)
    reached = {}
    for node in after:
        seen: set[int] = set()
        waiting = [node]
        while waiting:
            for following in after[waiting.pop()] - seen:
                seen.add(following)
                waiting.append(following)
        reached[node] = seen
    return reached


def _components(pairs: Set[Pair], nodes: Iterable[int]) -> set[frozenset[int]]:
    reached = _reachable(pairs, nodes)
    return {frozenset(b for b in reached if b in reached[a] and a in reached[b]) for a in reached if a in reached[a]}


def cycles(lines: Lines) -> Counter[tuple[str, str]]:
    """(checker, form; `reads` before it of what is wrong) → how many are found."""
    nodes = nodes_of(lines)
    pairs = relations(nodes)
    forms = {"": set(), "session": pairs["process"], "strict": pairs["process"] | pairs["real-time"]}
    found: Counter[tuple[str, str]] = Counter()
    levels: dict[tuple[str, str], Set[Pair]] = {}
    below: dict[str, tuple[str, ...]] = {"reads": (), "g0": (), "g1c": ("reads", "g0"), "g2": ("g1c", "part")}
    data = {
        "reads": pairs["wr"],
        "g0": pairs["ww"],
        "part": pairs["part"],
        "g1c": pairs["ww"] | pairs["wr"],
        "g2": pairs["ww"] | pairs["wr"] | pairs["rw"],
    }
    found["g1b", ""] = len(pairs["part"]) // 2
    order = list(forms)
    for form, orders in forms.items():
        for kind, kinds in data.items():
            levels[kind, form] = kinds | (orders if kind != "part" else set())
        for kind in ("reads", "g0", "g1c", "g2"):
            lower = [(one, form) for one in below[kind]]
            lower += [(kind, earlier) for earlier in order[: order.index(form)]]
            known = [one for level in lower for one in _components(levels[level], nodes)]
            for component in _components(levels[kind, form], nodes):
                parts = _joined([one for one in known if one & component])
                if len(component) == 1 or any(part == component for part in parts):
                    continue
                name = {"reads": "g1c"}.get(kind, kind)
                if kind == "g2":
                    reached = _reachable(levels["g1c", form], nodes)
                    inside = [
                        (a, b) for a, b in pairs["rw"] if {a, b} <= component and not any({a, b} <= p for p in parts)
                    ]
                    if any(a in reached[b] for a, b in inside):
                        name = "g-single"
                found[name, "-".join(part for part in ("reads" if kind == "reads" else "", form) if part)] += 1
    return +found


def _joined(sets: list[frozenset[int]]) -> list[set[int]]:
    """Sets that meet as one."""
    joined: list[set[int]] = []
    for one in sets:
        meeting = [other for other in joined if other & one]
        joined = [other for other in joined if not other & one]
        joined.append(set(one).union(*meeting))
    return joined
