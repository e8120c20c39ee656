"""Puts one record's life together: operations of the history, events of the brokers, ZooKeeper's versions of the
partition's state, faults, and what is left in files.

Decides which operations and surroundings belong to it, and their order. Must not know how it is shown. What a run did
not record is said (`missing`), never taken for what did not happen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.plan.recorded import is_compacted
from harness.report import background
from harness.report.life import states
from harness.report.life import told as history
from harness.report.life.checkpoints import Checkpoints, checkpoints, disagreement
from harness.report.life.events import Replica
from harness.report.life.fates import fates
from harness.report.life.files import RunFiles
from harness.report.life.holdings import Holding, below_start, holding
from harness.report.life.missing import missing, unread
from harness.report.life.zookeeper import Versions, versions
from harness.report.steps import Step, Subject, causal, of_operation
from harness.report.words import broker_names, listed, value_name

_AROUND_S = 1.0
_FAULT_NEAR_S = 15.0
"""Beginnings and ends of faults count that are so near to something that decided the record's life."""
_DECIDES = frozenset({"send", "append", "copy", "commit", "ack", "cut", "refused", "silence"})
_THERE = frozenset({"record", "marker", "compacted"})


class NoSuchPlace(Exception):
    """A partition or offset that the run cannot know; the text says what would be right."""


class Unreadable(NoSuchPlace):
    """Files of the run say something else than they should, so that no life comes of them."""


@dataclass(frozen=True, slots=True)
class Life:
    """values: all that stood at that offset, at any time, anywhere; fates: a sentence on what became of each; steps: in
    their order; disagreements, missing: sentences.
    """

    partition: str
    offset: int
    title: str
    values: tuple[int, ...]
    fates: tuple[str, ...]
    steps: tuple[Step, ...]
    holdings: tuple[Holding, ...]
    checkpoints: tuple[Checkpoints, ...]
    disagreements: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def sections(self) -> list[tuple[str, list[str]]]:
        """(heading, sentences) of what comes after the steps, without what is empty."""
        said = (
            ("What is left of it", [one.text for one in self.holdings]),
            ("What the checkpoints say", [one.text for one in self.checkpoints]),
            ("Where replicas disagree", list(self.disagreements)),
            ("What was not seen", list(self.missing)),
        )
        return [(heading, texts) for heading, texts in said if texts]

    @property
    def is_empty(self) -> bool:
        """Nothing that was recorded stood there."""
        return not self.values and not self.steps and not any(one.kind in _THERE for one in self.holdings)


@dataclass(slots=True)
class _Sources:
    """All that was recorded of the place."""

    nodes: Mapping[int, str]
    holdings: list[Holding]
    checkpoints: list[Checkpoints]
    told: history.Told
    replicas: list[Replica]
    znode: Versions


def life(files: RunFiles, run: Mapping[str, Any], p: str, offset: int, names: Mapping[str, str]) -> Life:
    """Of what stands, or stood, at an offset of a partition.

    run: run.json; names: value → the name that a script gave its record. Raises NoSuchPlace, Unreadable, and OSError
    where there is no history.
    """
    try:
        return _life(files, run, p, offset, names)
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise Unreadable(f"the run's files cannot be made sense of: {type(error).__name__}") from error


def _life(files: RunFiles, run: Mapping[str, Any], p: str, offset: int, names: Mapping[str, str]) -> Life:
    topic, number = _place(p, offset)
    if topic in (run.get("remade_topics") or ()):
        raise NoSuchPlace(f"{p!r}: this topic was made anew in the run: name one of its lives, {_lives(files, topic)}")
    nodes = broker_names(run)
    holdings, said = _left(files, nodes, p, offset)
    known = {one.value for one in holdings if one.value is not None}
    found = _Sources(
        nodes,
        holdings,
        said,
        history.told(files, topic, number, offset, known),
        _replicas(files, run, nodes, p, offset, holdings),
        versions(files, _zookeepers(run), p),
    )
    _refuse_unknown(files, run, p, found)
    values = found.told.values
    steps = _steps(found, run, p, offset, names)
    made = Life(
        partition=p,
        offset=offset,
        title=f"{p}, offset {offset}: {_titled(values, holdings, names)}",
        values=tuple(sorted(values)),
        fates=tuple(
            fates(
                found.told,
                holdings,
                offset,
                names,
                lambda epoch: states.led_by(found.znode.found, epoch, nodes),
                compacts=is_compacted(run),
            )
        ),
        steps=tuple(sorted(steps, key=causal)),
        holdings=tuple(holdings),
        checkpoints=tuple(said),
        disagreements=_disagreements(holdings, said),
        missing=tuple(missing(files, run, found.replicas, found.znode, _seen_until(found.told, steps))),
    )
    if made.is_empty:
        nothing = f"Nothing that was recorded stood at offset {offset} of {p}."
        return replace(made, missing=(nothing, *made.missing))
    return made


def _lives(files: RunFiles, topic: str) -> str:
    """How the lives of a topic are named, those that the history names."""
    ids: dict[str, None] = {}
    for line in files.history(re.compile(b'"topic_id"')):
        if line.get("topic") == topic and line.get("topic_id"):
            ids.setdefault(str(line["topic_id"]))
    return listed([f"{topic}~{one}-N" for one in ids][:20]) or f"{topic}~ID-N"


def _place(p: str, offset: int) -> tuple[str, int]:
    topic, dash, number = p.rpartition("-")
    if not (dash and topic and number.isascii() and number.isdigit() and len(number) < 10) or "/" in p or "\0" in p:
        raise NoSuchPlace(f"{p!r}: not a partition, which is written as topic-number, such as hw-0")
    if not 0 <= offset < 1 << 63:
        raise NoSuchPlace(f"{offset}: not an offset, which is a whole number from 0")
    return topic, int(number)


def _refuse_unknown(files: RunFiles, run: Mapping[str, Any], p: str, found: _Sources) -> None:
    """Raises NoSuchPlace for a partition of which nothing at all was recorded."""
    topic = run.get("topic") or {}
    count = topic.get("partitions")
    own = [f"{topic.get('name')}-{number}" for number in range(count if isinstance(count, int) else 0)]
    if (
        p in own
        or found.told.is_known
        or found.znode.found
        or any(one.is_known for one in found.replicas)
        or any(one.kind != "missing" for one in found.holdings)
    ):
        return
    others = {one for node in found.nodes.values() for one in files.partitions(node)} - set(own)
    has = listed([f"{own[0]} to {own[-1]}" if len(own) > 1 else own[0]] if own else []) or "none that is known"
    beside = f", and {listed(sorted(others)[:10])}" if others else ""
    damage = "".join(f". {text}" for text in unread(files, run))
    raise NoSuchPlace(f"{p!r}: not a partition of this run, which has {has}{beside}{damage}")


def _titled(values: set[int], holdings: Sequence[Holding], names: Mapping[str, str]) -> str:
    said = [value_name(value, names) for value in sorted(values)]
    if any(one.kind == "marker" for one in holdings):
        said.append("a transaction's marker")
    if any(one.kind == "record" and one.value is None for one in holdings):
        said.append("a record that the lab did not write")
    return listed(said) or "no record that is known"


def _left(files: RunFiles, nodes: Mapping[int, str], p: str, offset: int) -> tuple[list[Holding], list[Checkpoints]]:
    holdings, said = [], []
    for node in nodes.values():
        held = holding(files, node, p, offset)
        replica = files.replica(node, p) if held.kind != "missing" else None
        if replica is not None:
            said.append(checkpoints(replica, node, offset))
            held = below_start(held, said[-1].log_start, offset)
        holdings.append(held)
    return holdings, said


def _disagreements(holdings: Sequence[Holding], said: Sequence[Checkpoints]) -> tuple[str, ...]:
    """Between replicas that hold something there, by their checkpoints and by their batches, and of both."""
    here = {one.node: one.epoch for one in holdings if one.kind in _THERE and one.epoch is not None}
    by_file = {one.node: one.epoch for one in said if one.node in here and one.epoch is not None}
    found = [
        disagreement(list(by_file.items()), "by their leader-epoch-checkpoint"),
        disagreement(list(here.items()), "by the batches themselves"),
        *(
            f"{node}'s leader-epoch-checkpoint says leader epoch {epoch}, and its batch is of {here[node]}."
            for node, epoch in by_file.items()
            if epoch != here[node]
        ),
    ]
    return tuple(text for text in found if text is not None)


def _zookeepers(run: Mapping[str, Any]) -> list[str]:
    return [str(node["name"]) for node in run.get("nodes", ()) if node.get("role") == "zookeeper"]


def _replicas(
    files: RunFiles,
    run: Mapping[str, Any],
    nodes: Mapping[int, str],
    p: str,
    offset: int,
    holdings: Sequence[Holding],
) -> list[Replica]:
    """What each node's event log says; none of a node that has none."""
    origin_ns = run.get("origin_monotonic_ns")
    shifts = {node.get("name"): node.get("monotonic_offset_ns") or 0 for node in run.get("nodes", ())}
    markers = frozenset(one.marker for one in holdings if one.marker is not None)
    replicas = []
    for node in nodes.values():
        replica = Replica(node, p, offset, int(origin_ns or 0) + int(shifts.get(node) or 0), nodes, markers)
        try:
            replica.read(files.events(node, p))
        except OSError:
            continue
        replicas.append(replica)
    return replicas


def _steps(found: _Sources, run: Mapping[str, Any], p: str, offset: int, names: Mapping[str, str]) -> list[Step]:
    """All of them, in no order but that ZooKeeper's are before what was told of them."""
    values, marks = found.told.values, found.told.marks
    steps = [step for replica in found.replicas for step in replica.steps]
    about = Subject(p, offset, min(values) if len(values) == 1 else None, names)
    for pair in found.told.operations:
        steps += of_operation(pair, about)
    committed_s = [step.at_s for step in steps if step.kind == "commit"] + found.told.acknowledged_s(acks=-1)
    if "hw" in marks and not any(at_s <= marks["hw"].at_s for at_s in committed_s):
        steps.append(marks["hw"])
    if "lso" in marks and found.told.transactions:
        steps.append(marks["lso"])
    deleted_s = [_s(op[1]) for op in found.told.deletions if history.outcome(op) == "ok"]
    if "log_start" in marks and not any(at_s <= marks["log_start"].at_s for at_s in deleted_s):
        steps.append(marks["log_start"])
    placed = _placed(found, run)
    epochs = {one.epoch for one in found.holdings if one.epoch is not None}
    begun = [state.at_s for state in placed if state.version.leader_epoch in epochs]
    if steps:
        return [*_surroundings(steps, found, placed, p), *steps]
    return _of_states(placed, [(min(begun), max(begun))], [], found, p) if begun else []


def _placed(found: _Sources, run: Mapping[str, Any]) -> list[states.State]:
    """Versions of the znode in run time; none where run.json does not say when it began."""
    origin_ns = run.get("origin_wall_ns")
    if not isinstance(origin_ns, int):
        return []
    seen_s: dict[int, float] = {}
    for replica in found.replicas:
        for number, at_s in replica.versions.items():
            seen_s[number] = min(at_s, seen_s.get(number, at_s))
    return states.placed(found.znode.found, origin_ns, seen_s)


def _of_states(
    placed: Sequence[states.State],
    open_s: Sequence[tuple[float, float]],
    cuts_s: Sequence[float],
    found: _Sources,
    p: str,
) -> list[Step]:
    reasons = _reasons(found.replicas)
    led = {epoch for replica in found.replicas for epoch, _ in replica.leaderships}
    told_of: set[int] = set()
    steps = []
    for state, before in states.of_life(placed, open_s, cuts_s):
        epoch = state.version.leader_epoch
        # Where the leader said that it took over, the reason is told with that.
        reason = None if epoch in led or epoch in told_of else reasons.get(epoch)
        told_of.add(epoch)
        steps.append(states.step(state, before, p, found.nodes, reason))
    return steps


def _surroundings(steps: Sequence[Step], found: _Sources, placed: Sequence[states.State], p: str) -> list[Step]:
    """What was in force, leaders from the record's beginning on and ISRs until it was committed; and the faults around
    what decided its life. An ISR that ZooKeeper tells is not told again.
    """
    begins_s = min(step.at_s for step in steps)
    open_s = _open(steps, found.told)
    cuts_s = [step.at_s for step in steps if step.kind == "cut"]
    decided_s = [step.at_s for step in steps if step.kind in _DECIDES]
    reasons = _reasons(found.replicas)
    around = _of_states(placed, open_s, cuts_s, found, p)
    numbers = {version.number for version in found.znode.found}
    leaders: list[tuple[int, Step]] = []
    for replica in found.replicas:
        leaders += replica.leaderships
        for number, step in replica.isrs:
            if number not in numbers and any(from_s <= step.at_s <= to_s for from_s, to_s in open_s):
                around.append(step)
    before = [led for led in leaders if led[1].at_s < begins_s]
    kept = [led for led in leaders if led[1].at_s >= begins_s]
    kept += [max(before, key=lambda led: led[1].at_s)] if before else []
    around += [
        replace(step, text=f"{step.text} {reasons[epoch]}.") if epoch in reasons else step for epoch, step in kept
    ]
    near = background.of_faults(found.told.faults, begins_s - _AROUND_S, max([begins_s, *decided_s]) + _AROUND_S)
    return around + [
        step for step in near if any(abs(step.at_s - at_s) <= _FAULT_NEAR_S for at_s in [begins_s, *decided_s])
    ]


def _open(steps: Sequence[Step], told: history.Told) -> list[tuple[float, float]]:
    """(from, to) of each record that stood at the offset: from its append, or its sending, until it was committed."""
    commits_s = sorted([*(step.at_s for step in steps if step.kind == "commit"), *told.acknowledged_s(acks=-1)])
    last_s = max(step.at_s for step in steps)
    appends_s = [step.at_s for step in steps if step.kind == "append"]
    begins_s = appends_s or [_s(op[0]) for op in told.sends] or [min(step.at_s for step in steps)]
    return [(at_s, next((to_s for to_s in commits_s if to_s >= at_s), last_s)) for at_s in begins_s]


def _seen_until(told: history.Told, steps: Sequence[Step]) -> float | None:
    """When the first node's evidence was copied, where something of the record is later than that."""
    copied_s = min(told.copied.values(), default=float("inf"))
    return copied_s if any(step.at_s > copied_s for step in steps) else None


def _s(line: Mapping[str, Any]) -> float:
    return int(line.get("time_ns", 0)) / 1e9


def _reasons(replicas: Sequence[Replica]) -> dict[int, str]:
    """Leader epoch → which controller chose whom, and why."""
    return {epoch: text for replica in replicas for epoch, text in replica.elections.items()}
