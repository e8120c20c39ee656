"""What the history says of one record: the operations that are about it, and what other answers prove of its offset.

Decides which operations belong to a life. Takes lines as docs/history-format.md has them; one without what it should
have is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from harness.report.life.files import Line, RunFiles
from harness.report.steps import CLIENTS, Step, asker

_OF_TRANSACTIONS = frozenset({"add_partitions", "end_txn"})
_LATEST, _EARLIEST = -1, -2


@dataclass(slots=True)
class Told:
    """values: what stood at the offset; operations: (invocation, completion or nothing) of each send of one of them, of
    each poll that covered the offset, of each deletion below which it lay, and of the ends of its transactions; faults:
    as results.json has them; marks: the first answers by which it was committed (`hw`), stable (`lso`), deleted
    (`log_start`); copied: node → when its evidence was copied, in seconds; successors: key → (offset, value)
    of the first acknowledged record of that key behind the offset.

    is_known: the history has operations on this partition.
    """

    values: set[int]
    operations: list[list[Line]] = field(default_factory=list)
    faults: list[Line] = field(default_factory=list)
    marks: dict[str, Step] = field(default_factory=dict)
    copied: dict[str, float] = field(default_factory=dict)
    successors: dict[int, tuple[int, int]] = field(default_factory=dict)
    is_known: bool = False

    @property
    def sends(self) -> list[list[Line]]:
        """Of the values."""
        return [op for op in self.operations if op[0].get("f") == "send"]

    @property
    def deletions(self) -> list[list[Line]]:
        """Those below which the offset lay."""
        return [op for op in self.operations if op[0].get("f") == "delete_records"]

    def acknowledged_s(self, *, acks: int) -> list[float]:
        """When sends of the values with these acks were acknowledged."""
        return [_s(op[1]) for op in self.sends if op[0].get("acks") == acks and outcome(op) == "ok"]

    @property
    def transactions(self) -> set[int]:
        """Those that sent one of the values."""
        return {op[0]["txn"] for op in self.sends if op[0].get("txn") is not None}


def told(files: RunFiles, topic: str, number: int, offset: int, known: AbstractSet[int]) -> Told:
    """Of what stands at an offset. known: values that stand there by the files. Raises OSError without a history.

    One pass over the history. Where clients were told of other values, whose sends may have gone by, there is another.
    """
    found = _pass(files, topic, number, offset, known)
    return found if found.values <= known else _pass(files, topic, number, offset, found.values)


def _pass(files: RunFiles, topic: str, number: int, offset: int, known: AbstractSet[int]) -> Told:
    found = Told(set(known))
    begun: dict[object, Line] = {}
    faults: dict[object, Line] = {}
    transactions: dict[object, list[Line]] = {}
    name, _, topic_id = topic.partition("~")
    wanted = rb'"partition": ?%d\b|"kind": ?"nemesis"|"f": ?"(?:add_partitions|end_txn|evidence)"' % number
    for line in files.history(re.compile(wanted)):
        if line.get("kind") == "nemesis":
            _take_fault(faults, line)
        elif line.get("f") == "evidence":
            found.copied[str(line.get("node"))] = _s(line)
        elif line.get("f") in _OF_TRANSACTIONS:
            if line.get("type") == "invoke":
                transactions[line.get("index")] = [line]
            elif line.get("invoke") in transactions:
                transactions[line.get("invoke")].append(line)
        elif line.get("topic") != name or line.get("partition") != number:
            continue
        elif line.get("type") == "invoke":
            # A send to a topic that is made anew may go to a later life than the one that it names.
            if not topic_id or line.get("topic_id") == topic_id or line.get("f") == "send":
                found.is_known = True
                begun[line.get("index")] = line
        else:
            invocation = begun.pop(line.get("invoke"), None)
            if invocation is None and topic_id:
                continue
            if not topic_id or (invocation or {}).get("topic_id") == topic_id:
                found.values |= _values_at(invocation or {}, line, offset)
            if invocation is None:
                continue
            if _about(invocation, line, offset, found.values):
                found.operations.append([invocation, line])
            _take_marks(found.marks, invocation, line, offset)
            _take_keys(found.successors, invocation, line, offset)
    found.operations += [[line] for line in begun.values() if _about(line, {}, offset, found.values)]
    found.operations = _without_later_deletions(found.operations)
    own = found.transactions
    found.operations += [op for op in transactions.values() if op[0].get("txn") in own]
    found.faults += faults.values()
    return found


def _without_later_deletions(operations: list[list[Line]]) -> list[list[Line]]:
    """What was deleted is not deleted again: of those that began after one was acknowledged, none."""
    acknowledged_s = [_s(op[1]) for op in operations if op[0].get("f") == "delete_records" and outcome(op) == "ok"]
    first_s = min(acknowledged_s, default=float("inf"))
    return [op for op in operations if op[0].get("f") != "delete_records" or _s(op[0]) <= first_s]


def _values_at(invocation: Line, completion: Line, offset: int) -> set[int]:
    """What a client was told to be at that offset: by an acknowledgement or by a poll."""
    found: set[int] = set()
    if completion.get("f") == "send":
        values, base = list(invocation.get("values") or ()), completion.get("base_offset")
        if isinstance(base, int) and 0 <= base <= offset < base + len(values):
            found.add(int(values[offset - base]))
    for record in completion.get("records") or ():
        if record.get("offset") == offset and isinstance(record.get("value"), int):
            found.add(record["value"])
    return found


def _about(invocation: Line, completion: Line, offset: int, values: AbstractSet[int]) -> bool:
    if invocation.get("f") == "send":
        return not values.isdisjoint(invocation.get("values") or ())
    if invocation.get("f") == "delete_records":
        before = invocation.get("before")
        return isinstance(before, int) and before > offset and completion.get("type") != "fail"
    if invocation.get("f") != "poll" or completion.get("type") != "ok":
        return False
    if any(
        record.get("offset") == offset or record.get("value") in values for record in completion.get("records") or ()
    ):
        return True
    first, following = invocation.get("position"), completion.get("next_position")
    return isinstance(first, int) and isinstance(following, int) and first <= offset < following


def _take_keys(successors: dict[int, tuple[int, int]], invocation: Line, completion: Line, offset: int) -> None:
    base = completion.get("base_offset")
    if completion.get("type") != "ok" or not invocation.get("keys") or not isinstance(base, int) or base < 0:
        return
    for nth, (key, value) in enumerate(zip(invocation["keys"], invocation["values"], strict=False)):
        if base + nth > offset:
            successors[key] = min(successors.get(key, (base + nth, value)), (base + nth, value))


def _take_marks(marks: dict[str, Step], invocation: Line, completion: Line, offset: int) -> None:
    """The first answers that say something of the offset without being about it."""
    f, reader = invocation.get("f"), invocation.get("reader", "wire")
    if completion.get("type") != "ok" or reader != "wire":
        return
    if f == "poll":
        said = {"hw": completion.get("hw"), "lso": completion.get("lso"), "log_start": completion.get("log_start")}
    elif f == "list_offsets" and invocation.get("timestamp") == _LATEST:
        said = {"lso" if invocation.get("isolation") else "hw": completion.get("offset")}
    elif f == "list_offsets" and invocation.get("timestamp") == _EARLIEST:
        said = {"log_start": completion.get("offset")}
    else:
        return
    for what, value in said.items():
        if what not in marks and isinstance(value, int) and value > offset:
            marks[what] = _mark(what, value, invocation, completion)


_WORDS: dict[str, tuple[str, str, str]] = {
    "hw": ("commit", "high watermark", "what it had at this offset was committed"),
    "lso": ("commit", "last stable offset", "what it had at this offset was stable, of no open transaction"),
    "log_start": ("cut", "log start", "what lay below is shown no more"),
}


def _mark(what: str, value: int, invocation: Line, completion: Line) -> Step:
    kind, name, meaning = _WORDS[what]
    node = completion.get("node") or CLIENTS
    text = f"{node}'s answer to {asker(invocation)} gave the {name} {value}: {meaning}."
    return Step(_s(completion), kind, (node,), text, f"{name} {value}", CLIENTS)


def _take_fault(found: dict[object, Line], line: Line) -> None:
    number = line.get("fault_id")
    if line.get("f") == "start" and isinstance(line.get("time_ns"), int):
        found[number] = line | {"start_ns": line["time_ns"], "fault": str(line.get("fault"))}
    elif line.get("f") == "stop" and number in found:
        found[number]["stop_ns"] = line.get("time_ns")


def _s(line: Line) -> float:
    return int(line.get("time_ns", 0)) / 1e9


def outcome(operation: list[Line]) -> Any:
    """`ok`, `fail` or `info`: of one that was never completed as well."""
    return operation[1].get("type") if len(operation) > 1 else "info"
