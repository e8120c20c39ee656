"""What the nodes did around an operation, as steps of a story: faults, elections, in-sync sets, logs that grew or were
cut.

Decides the words for it and what of a partition's samples counts as a change. Of a fault it reads the effects, not the
kind: those of other packages read as well. Takes series.json and the faults of results.json (docs/results-format.md).
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.report.curves import Timeline
from harness.report.steps import CLIENTS, Step
from harness.report.words import listed

_EFFECTS = {
    "stops-process": ("did not run from here on", "ran again"),
    "cuts-links": ("lost packets to or from other nodes", "had all links again"),
    "skews-clock": ("got a wrong wall clock", "had the right time again"),
    "damages-files": ("had files damaged", "was started again"),
}
"""What of a node is said at the beginning and at the end of a fault."""
_STOPS = frozenset({"stops-process", "cuts-links", "damages-files"})


def of_faults(faults: Sequence[Mapping[str, Any]], from_s: float, to_s: float) -> list[Step]:
    """Beginnings and ends of faults that were in force in the span, or began in it."""
    steps: list[Step] = []
    for fault in faults:
        began_s = fault["start_ns"] / 1e9
        ended_s = None if fault.get("stop_ns") is None else fault["stop_ns"] / 1e9
        if began_s > to_s or (ended_s is not None and ended_s < from_s):
            continue
        effects = [effect for effect in _EFFECTS if effect in (fault.get("effects") or ())]
        targets = tuple(map(str, fault.get("targets") or ()))
        name = f"Fault {fault.get('fault_id')} ({fault['fault']})"
        said = listed(_EFFECTS[effect][0] for effect in effects) or "were its targets"
        file = f" ({fault['file']})" if fault.get("file") else ""
        seen = f" Seen from outside: {fault['observation']}." if fault.get("observation") else ""
        unseen = "" if fault.get("observed", True) else " Its effect was not seen from outside."
        stops = bool(_STOPS & set(effects))
        text = f"{name} began: {listed(targets) or 'nodes'} {said}{file}.{seen}{unseen}"
        steps.append(Step(began_s, "fault", targets, text, str(fault["fault"]), stops=stops))
        if ended_s is not None and ended_s <= to_s:
            steps += _healed(fault, name, ended_s, effects, targets, faults)
    return steps


def _healed(
    fault: Mapping[str, Any],
    name: str,
    ended_s: float,
    effects: Sequence[str],
    targets: Sequence[str],
    faults: Iterable[Mapping[str, Any]],
) -> list[Step]:
    """The end of a fault; of nodes that another one still stops or cuts off, no more is said than that."""
    others = {
        str(target)
        for other in faults
        if other is not fault
        and _STOPS & set(other.get("effects") or ())
        and other["start_ns"] / 1e9 <= ended_s
        and (other.get("stop_ns") is None or other["stop_ns"] / 1e9 > ended_s)
        for target in other.get("targets") or ()
    }
    free = tuple(target for target in targets if target not in others)
    held = tuple(target for target in targets if target in others)
    said = listed(_EFFECTS[effect][1] for effect in effects) or "were left alone"
    label = f"{fault['fault']} over"
    steps = []
    if free or not held:
        text = f"{name} was taken back: {listed(free) or 'nodes'} {said}."
        steps.append(Step(ended_s, "healed", free, text, label))
    if held:
        text = f"{name} was taken back, while another fault held {listed(held)}."
        steps.append(Step(ended_s, "healed", held, text, label, stops=True))
    return steps


def of_leaders(timeline: Timeline, p: str, names: Mapping[int, str], from_s: float, to_s: float) -> list[Step]:
    """Every new leader in the span, who was chosen and never led, and who led when the span began."""
    steps: list[Step] = []
    before: tuple[float, int, int] | None = None
    for t_s, broker, epoch in timeline.leaders:
        if t_s > to_s:
            break
        if t_s < from_s:
            before = (t_s, broker, epoch)
            continue
        name = names.get(broker, f"broker {broker}")
        text = f"{name} became leader of {p}, in leader epoch {epoch}."
        steps.append(Step(t_s, "election", (name,), text, f"leads, epoch {epoch}"))
    said = {(broker, epoch) for _, broker, epoch in timeline.leaders}
    for t_s, broker, epoch, by, reason in timeline.elected:
        if from_s <= t_s <= to_s and (broker, epoch) not in said:
            name, chooser = names.get(broker, f"broker {broker}"), names.get(by, f"broker {by}")
            chosen = f"{chooser}, the controller, made {name} leader of {p}, in leader epoch {epoch} ({reason})"
            text = f"{chosen}. {name} never said that it took over."
            steps.append(Step(t_s, "election", (name,), text, f"chosen, epoch {epoch}"))
    if before is not None:
        name = names.get(before[1], f"broker {before[1]}")
        text = f"{name} led {p} when this began, in leader epoch {before[2]}; it had since {before[0]:,.3f} s."
        steps.insert(0, Step(before[0], "election", (name,), text, f"leads, epoch {before[2]}"))
    return steps


def of_isr(timeline: Timeline, p: str, names: Mapping[int, str], from_s: float, to_s: float) -> list[Step]:
    """Every change of the in-sync set in the span."""
    steps: list[Step] = []
    last: tuple[int, ...] | None = None
    for t_s, isr in timeline.isrs:
        now = tuple(sorted(isr))
        if last is not None and now != last and from_s <= t_s <= to_s:
            called = [names.get(b, f"broker {b}") for b in now]
            left = [names.get(b, f"broker {b}") for b in last if b not in now]
            came = [names.get(b, f"broker {b}") for b in now if b not in last]
            changes = [f"{listed(left)} left"] * bool(left) + [f"{listed(came)} came back"] * bool(came)
            text = f"The in-sync set (ISR) of {p} became {listed(called)}: {' and '.join(changes)}."
            label = " ".join([f"−{name}" for name in left] + [f"+{name}" for name in came])
            steps.append(Step(t_s, "isr", tuple(called), text, f"ISR {label}"))
        last = now
    return steps


def of_logs(
    data: Mapping[str, Any], p: str, offset: int, names: Mapping[int, str], leader_at: Timeline, acked_s: float | None
) -> list[Step]:
    """When each broker's log came to hold the offset, when it was committed there, and when the log was cut below it.

    data: the partition of series.json. Its samples are the last of each slice of the run, so that each step says "by
    then". acked_s: when the record was acknowledged; its leader had it before.
    """
    steps: list[Step] = []
    for broker, samples in _by_broker(data.get("leo", ())).items():
        name = names.get(broker, f"broker {broker}")
        holds: bool | None = None
        for t_s, end in samples:
            if (end > offset) == bool(holds):
                holds = end > offset
                continue
            if end > offset:
                steps.append(_grown(t_s, broker, name, p, offset, names, leader_at, acked_s))
            else:
                text = f"The log of {p} on {name} ended at offset {end} by then: what it held at {offset} was gone."
                steps.append(Step(t_s, "cut", (name,), text, f"cut to {end}"))
            holds = end > offset
    for broker, samples in _by_broker(data.get("hw", ())).items():
        name = names.get(broker, f"broker {broker}")
        led = [t_s for t_s, hw in samples if hw > offset and (leader_at.leader_at(t_s) or (None,))[0] == broker]
        if led:
            text = f"The high watermark of {p} on {name}, its leader, was above offset {offset} by then: committed."
            steps.append(Step(led[0], "commit", (name,), text, "committed"))
    kept = [step for nth, step in enumerate(steps) if step.kind != "commit" or _first_commit(steps, nth)]
    return [_before_copies(step, kept, leader_at.slice_s) for step in kept]


def _grown(
    t_s: float,
    broker: int,
    name: str,
    p: str,
    offset: int,
    names: Mapping[int, str],
    timeline: Timeline,
    acked_s: float | None,
) -> Step:
    leader = timeline.leader_at(t_s)
    before = timeline.leader_at(t_s - timeline.slice_s)
    if leader is None or before not in (None, leader):
        # It grew in this slice, before or after somebody else took over.
        return Step(
            t_s, "copy", (name,), f"The log of {p} on {name} reached past offset {offset} by then.", f"has @{offset}"
        )
    if leader[0] == broker:
        # The sample may be later than the acknowledgement, which proves that the leader had appended it.
        at_s = t_s if acked_s is None or not acked_s < t_s < acked_s + 1 else acked_s
        text = f"{name}, the leader, had a record at offset {offset} of {p} by then."
        return Step(at_s, "append", (name,), text, f"append @{offset}")
    source = names.get(leader[0], f"broker {leader[0]}")
    text = f"{name} had copied offset {offset} of {p} from {source} by then."
    return Step(t_s, "copy", (source,), text, f"copy @{offset}", name)


def _before_copies(step: Step, steps: Sequence[Step], slice_s: float) -> Step:
    """An append not later than the copies made of it: its sample may be of a later append in the same slice."""
    if step.kind != "append":
        return step
    copies = [one.at_s for one in steps if one.kind == "copy" and one.to is not None and one.lanes == step.lanes]
    return replace(step, at_s=min([step.at_s, *(t for t in copies if step.at_s - slice_s < t)]))


def _first_commit(steps: Sequence[Step], nth: int) -> bool:
    return steps[nth].at_s == min(step.at_s for step in steps if step.kind == "commit")


def _by_broker(samples: Iterable[Sequence[float]]) -> dict[int, list[tuple[float, int]]]:
    found: dict[int, list[tuple[float, int]]] = {}
    for t_s, broker, offset in sorted(samples, key=lambda sample: sample[0]):
        found.setdefault(int(broker), []).append((float(t_s), int(offset)))
    return found


def lanes(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Clients, then every broker of the run, in run.json's order."""
    return (CLIENTS, *(str(node["name"]) for node in run.get("nodes", ()) if node.get("role") == "broker"))
