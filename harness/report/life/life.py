"""Puts one record's life together: operations of the history, events of the brokers, faults, and what is left in files.

Decides which operations and surroundings belong to it, and their order. Must not know how it is shown. What a run did
not record is said (`missing`), never taken for what did not happen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from harness.report import background
from harness.report.life.events import Replica
from harness.report.life.files import Line, RunFiles
from harness.report.life.holdings import Holding, holding
from harness.report.steps import Step, Subject, causal, of_operation
from harness.report.words import broker_names, listed, value_name

_AROUND_S = 1.0
_FAULT_NEAR_S = 15.0
"""Beginnings and ends of faults count that are so near to something that decided the record's life."""
_DECIDES = frozenset({"send", "append", "copy", "commit", "ack", "cut", "refused", "silence"})


class NoSuchPlace(Exception):
    """A partition or offset that the run cannot know; the text says what would be right."""


@dataclass(frozen=True, slots=True)
class Life:
    """values: all that stood at that offset, at any time, anywhere; steps: in their order; missing: sentences."""

    partition: str
    offset: int
    title: str
    values: tuple[int, ...]
    steps: tuple[Step, ...]
    holdings: tuple[Holding, ...]
    missing: tuple[str, ...]


def life(files: RunFiles, run: Mapping[str, Any], p: str, offset: int, names: Mapping[str, str]) -> Life:
    """Of what stands, or stood, at an offset of a partition.

    run: run.json; names: value → the name that a script gave its record. Raises NoSuchPlace, and OSError where there is
    no history.
    """
    topic, number = _place(p, offset)
    nodes = broker_names(run)
    holdings = tuple(holding(files, node, p, offset) for node in nodes.values())
    told = _told(files, topic, number, offset, {one.value for one in holdings if one.value is not None})
    values = told.values
    replicas, missing = _replicas(files, run, nodes, p, offset)
    steps = [step for replica in replicas for step in replica.steps]
    about = Subject(p, offset, min(values) if len(values) == 1 else None, names)
    for pair in told.operations:
        steps += of_operation(pair, about)
    if steps:
        steps += _surroundings(steps, replicas, told.faults)
    if not values and not steps:
        missing.append(f"Nothing that was recorded stood at offset {offset} of {p}.")
    said = listed(value_name(value, names) for value in sorted(values)) or "no record that is known"
    return Life(
        partition=p,
        offset=offset,
        title=f"{p}, offset {offset}: {said}",
        values=tuple(sorted(values)),
        steps=tuple(sorted(steps, key=causal)),
        holdings=holdings,
        missing=tuple(missing),
    )


def _place(p: str, offset: int) -> tuple[str, int]:
    topic, dash, number = p.rpartition("-")
    if not (dash and topic and number.isascii() and number.isdigit() and len(number) < 10) or "/" in p or "\0" in p:
        raise NoSuchPlace(f"{p!r}: not a partition, which is written as topic-number, such as hw-0")
    if not 0 <= offset < 1 << 63:
        raise NoSuchPlace(f"{offset}: not an offset, which is a whole number from 0")
    return topic, int(number)


@dataclass(slots=True)
class _Told:
    """What the history says. values: what stood at the offset; operations: (invocation, completion or nothing) of each
    send of one of them, and of each poll that covered the offset; faults: as results.json has them.
    """

    values: set[int]
    operations: list[list[Line]] = field(default_factory=list)
    faults: list[Line] = field(default_factory=list)


def _told(files: RunFiles, topic: str, number: int, offset: int, known: AbstractSet[int]) -> _Told:
    """One pass over the history. known: values that stand there by the files.

    Where clients were told of other values, whose sends may have gone by, there is another.
    """
    told = _pass(files, topic, number, offset, known)
    return told if told.values <= known else _pass(files, topic, number, offset, told.values)


def _pass(files: RunFiles, topic: str, number: int, offset: int, known: AbstractSet[int]) -> _Told:
    told = _Told(set(known))
    begun: dict[object, Line] = {}
    faults: dict[object, Line] = {}
    for line in files.history(re.compile(rb'"partition": ?%d\b|"kind": ?"nemesis"' % number)):
        if line.get("kind") == "nemesis":
            _take_fault(faults, line)
        elif line.get("topic") != topic or line.get("partition") != number:
            continue
        elif line.get("type") == "invoke":
            begun[line.get("index")] = line
        else:
            invocation = begun.pop(line.get("invoke"), None)
            told.values |= _values_at(invocation or {}, line, offset)
            if invocation is not None and _about(invocation, line, offset, told.values):
                told.operations.append([invocation, line])
    told.operations += [[line] for line in begun.values() if _about(line, {}, offset, told.values)]
    told.faults += faults.values()
    return told


def _values_at(invocation: Line, completion: Line, offset: int) -> set[int]:
    """What a client was told to be at that offset: by an acknowledgement or by a poll."""
    found: set[int] = set()
    if completion.get("f") == "send":
        values, base = list(invocation.get("values") or ()), completion.get("base_offset")
        if isinstance(base, int) and base <= offset < base + len(values):
            found.add(int(values[offset - base]))
    for record in completion.get("records") or ():
        if record.get("offset") == offset and isinstance(record.get("value"), int):
            found.add(record["value"])
    return found


def _about(invocation: Line, completion: Line, offset: int, values: AbstractSet[int]) -> bool:
    if invocation.get("f") == "send":
        return not values.isdisjoint(invocation.get("values") or ())
    if invocation.get("f") != "poll" or completion.get("type") != "ok":
        return False
    if any(
        record.get("offset") == offset or record.get("value") in values for record in completion.get("records") or ()
    ):
        return True
    first, following = invocation.get("position"), completion.get("next_position")
    return isinstance(first, int) and isinstance(following, int) and first <= offset < following


def _take_fault(found: dict[object, Line], line: Line) -> None:
    number = line.get("fault_id")
    if line.get("f") == "start" and isinstance(line.get("time_ns"), int):
        found[number] = line | {"start_ns": line["time_ns"], "fault": str(line.get("fault"))}
    elif line.get("f") == "stop" and number in found:
        found[number]["stop_ns"] = line.get("time_ns")


def _replicas(
    files: RunFiles, run: Mapping[str, Any], nodes: Mapping[int, str], p: str, offset: int
) -> tuple[list[Replica], list[str]]:
    """(what each node's event log says, what is missing)."""
    origin_ns = run.get("origin_monotonic_ns")
    shifts = {node.get("name"): node.get("monotonic_offset_ns") or 0 for node in run.get("nodes", ())}
    replicas, missing = [], []
    for node in nodes.values():
        replica = Replica(node, p, offset, int(origin_ns or 0) + int(shifts.get(node) or 0), nodes)
        try:
            replica.read(files.events(node, p))
        except OSError as error:
            missing.append(f"No event log of {node}: {error.strerror or error}.")
            continue
        replicas.append(replica)
    return replicas, missing


def _surroundings(steps: Sequence[Step], replicas: Sequence[Replica], faults: Sequence[Line]) -> list[Step]:
    """Leaderships from the record's beginning on, ISRs until it was committed, faults around what decided its life."""
    begins_s = min(step.at_s for step in steps)
    committed_s = min((step.at_s for step in steps if step.kind == "commit"), default=max(s.at_s for s in steps))
    decided_s = [step.at_s for step in steps if step.kind in _DECIDES]
    reasons = {epoch: text for replica in replicas for epoch, text in replica.elections.items()}
    found = []
    for replica in replicas:
        for step in replica.leaderships:
            if step.kind == "isr":
                found += [step] if begins_s <= step.at_s <= committed_s else []
            elif step.at_s >= begins_s:
                found.append(_with_reason(step, reasons))
    led = [step for replica in replicas for step in replica.leaderships if step.kind == "election"]
    before = [step for step in led if step.at_s < begins_s]
    found += [_with_reason(max(before, key=lambda step: step.at_s), reasons)] if before else []
    around = background.of_faults(faults, begins_s - _AROUND_S, max([begins_s, *decided_s]) + _AROUND_S)
    return found + [
        step for step in around if any(abs(step.at_s - at_s) <= _FAULT_NEAR_S for at_s in [begins_s, *decided_s])
    ]


def _with_reason(step: Step, reasons: Mapping[int, str]) -> Step:
    found = re.search(r"epoch (\d+)", step.text)
    reason = None if found is None else reasons.get(int(found[1]))
    return step if reason is None else replace(step, text=f"{step.text} {reason}.")
