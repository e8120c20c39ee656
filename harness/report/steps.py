"""One operation of the history as steps of a story: who asked whom for what, and what the answer was.

Decides the words for operations. Takes history lines as docs/history-format.md has them, and tolerates missing fields:
a witness may hold lines of older runs. Knows nothing of faults, leaders or pages. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.words import SCRIPT_PROCESSES, duration, listed, number, runs_of, value_name

CLIENTS = "clients"
"""The lane of all that is no node."""

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened at at_s seconds of the run.

    kind: `send`, `ack`, `refused`, `silence`, `read`, `call`, `append`, `copy`, `commit`, `cut`, `election`, `isr`,
    `fault`, `healed`. lanes: who it happened to, or who did it; to: whose lane an arrow goes to, None: no arrow.
    text: a sentence. label: the few words of it that a diagram has room for. stops: after it those lanes do not run, or
    are cut off.
    """

    at_s: float
    kind: str
    lanes: tuple[str, ...]
    text: str
    label: str
    to: str | None = None
    stops: bool = False


_ORDER = {"fault": 0, "healed": 1, "isr": 2, "election": 3, "send": 4, "append": 5, "copy": 6, "commit": 7}


def causal(step: Step) -> tuple[float, int]:
    """What steps are sorted by: their time, and at one instant a cause before what it leads to."""
    return step.at_s, _ORDER.get(step.kind, len(_ORDER))


@dataclass(frozen=True, slots=True)
class Subject:
    """The record that a story is about; None where the finding names none. names: value → the script's name for it.

    epoch_at: (partition, seconds) → the leader epoch then, None where it is not known.
    """

    partition: str | None
    offset: int | None
    value: int | None
    names: Mapping[str, str]
    epoch_at: Callable[[str, float], int | None] = lambda _p, _s: None


def of_operation(lines: Sequence[Line], subject: Subject) -> list[Step]:
    """lines: an invocation and, where there is one, its completion."""
    invocation = next((line for line in lines if line.get("type") == "invoke"), None)
    completion = next((line for line in lines if line.get("type") != "invoke"), None)
    if invocation is None or "time_ns" not in invocation:
        return []
    if invocation.get("f") == "send":
        return _send(invocation, completion, subject)
    if invocation.get("f") == "poll":
        return [_poll(invocation, completion, subject)]
    return [_call(invocation, completion)]


def _send(invocation: Line, completion: Line | None, subject: Subject) -> list[Step]:
    values = list(invocation.get("values") or ())
    node, p = invocation.get("node"), _partition(invocation)
    chosen = subject.value if subject.value in values else None
    what = _values(values, subject)
    about = values[0] if chosen is None and values else chosen
    short = "last record" if invocation.get("sentinel") else subject.names.get(str(about), str(about))
    label = f"send {short}" + (f" +{len(values) - 1}" if len(values) > 1 else "")
    acks = "all" if invocation.get("acks") == -1 else invocation.get("acks")
    again = " again (the same batch as before)" if invocation.get("resends") is not None else ""
    if invocation.get("txn") is not None:
        again += f" in transaction {invocation['txn']}"
    to = f"to {node}" if node else "to nobody, because no leader was known,"
    text = f"{_begins(asker(invocation))} sent {what} {to} for {p}{again}, acks={acks}."
    steps = [Step(_s(invocation), "send", (CLIENTS,), text, label, node)]
    outcome = completion.get("type") if completion is not None else "info"
    at_s = _s(completion) if completion is not None and "time_ns" in completion else _s(invocation)
    after = duration(at_s - _s(invocation))
    lanes = (node,) if node else (CLIENTS,)
    if completion is not None and outcome == "ok":
        base = completion.get("base_offset")
        if base is None:
            where, label = f"of {p}, without saying at which offset", "ack"
        else:
            offset = base + (values.index(chosen) if chosen is not None else 0)
            label = f"ack @{offset}"
            last = base + len(values) - 1
            where = f"at offset {base} of {p}" if last == base else f"at offsets {base} to {last} of {p}"
            if last != base and chosen is not None:
                where += f" ({value_name(chosen, subject.names)} at {offset})"
        epoch = subject.epoch_at(p, at_s)
        led = "" if epoch is None else f" (leader epoch {epoch})"
        text = f"{node or 'The broker'} acknowledged {what} {where}{led}, after {after}."
        steps.append(Step(at_s, "ack", lanes, text, label, CLIENTS))
    elif completion is not None and outcome == "fail":
        text = f"{node or 'Nobody'} refused it: {_error(completion)}. It was certainly not appended."
        steps.append(Step(at_s, "refused", lanes, text, "refused", CLIENTS if node else None))
    else:
        text = f"No answer came ({_error(completion)}): whether it was appended is not known."
        steps.append(Step(at_s, "silence", (CLIENTS,), text, "no answer"))
    return steps


def _poll(invocation: Line, completion: Line | None, subject: Subject) -> Step:
    node, p = invocation.get("node"), _partition(invocation)
    who, position = asker(invocation), invocation.get("position")
    lanes = (node,) if node else (CLIENTS,)
    to = CLIENTS if node else None
    source = node or "Its client"
    if completion is None or completion.get("type") != "ok":
        asked = f"{_begins(who)} asked{' ' + node if node else ''} for the records of {p} from offset {position} on"
        text = f"{asked}, and got none: {_error(completion)}."
        return Step(_s(completion or invocation), "read", lanes, text, "error", to)
    records = list(completion.get("records") or ())
    following = completion.get("next_position", position)
    mark = completion.get("hw")
    known = "" if mark is None else f" Its high watermark was {mark}."
    if mark is not None and invocation.get("isolation") == 1 and (completion.get("lso") or -1) >= 0:
        known = f" Its high watermark was {mark}, its last stable offset {completion['lso']} (read_committed)."
    if not records:
        text = f"{source} returned nothing to {who} for {p} from offset {position} on."
        if following != position:
            text = f"{source} passed over offsets {position} to {following - 1} of {p} for {who}, without a record."
        return Step(_s(completion), "read", lanes, text + known, "nothing", to)
    seen = runs_of(int(r["offset"]) for r in records)
    shown = f"{source} returned offsets {seen} of {p} to {who}, asked from {position} on"
    if completion.get("records_left_out"):
        shown += f" ({completion['records_left_out']} more records left out here)"
    at, label = _at_subject(records, position, following, p, subject)
    return Step(_s(completion), "read", lanes, shown + at + "." + known, label, to)


def _at_subject(
    records: Sequence[Line], position: object, following: object, p: str, subject: Subject
) -> tuple[str, str]:
    """(what a poll returned at the subject's offset, as the rest of a sentence; the label)."""
    offset = subject.offset
    if offset is None or p != subject.partition or not isinstance(position, int) or not isinstance(following, int):
        return "", f"read @{records[0]['offset']}"
    there = next((r for r in records if r["offset"] == offset), None)
    if there is not None:
        value = there.get("value")
        what = "a record that could not be read" if value is None else value_name(value, subject.names)
        other = f", not {value_name(subject.value, subject.names)}" if subject.value not in (None, value) else ""
        short = "unreadable" if value is None else subject.names.get(str(value), str(value))
        return f": at offset {offset} {what}{other}", f"read {short} @{offset}"
    if position <= offset < following:
        return f": it passed over offset {offset}, without a record", f"nothing @{offset}"
    return "", f"read @{records[0]['offset']}"


def _sets(line: Line) -> str:
    setting = line.get("setting")
    return f"took back {line.get('config')}" if setting in (None, -1) else f"set {line.get('config')} to {setting}"


def _which_offset(line: Line) -> str:
    timestamp = line.get("timestamp")
    if isinstance(timestamp, int) and timestamp >= 0:
        return f"the first, by time {timestamp},"
    return "the first" if timestamp == -2 else "the end"


_CALLS: dict[str, Callable[[Line], str]] = {
    "list_offsets": lambda line: f"asked for {_which_offset(line)} offset of {_partition(line)}",
    "delete_records": lambda line: f"asked to delete what lies below offset {line.get('before')} of {_partition(line)}",
    "init_producer": lambda line: f"took up the transactional id {line.get('transactional_id')}",
    "add_partitions": lambda line: f"added {_names(line)} to transaction {line.get('txn')}",
    "add_offsets": lambda line: f"added the offsets of group {line.get('group')} to transaction {line.get('txn')}",
    "txn_offsets": lambda line: f"committed {_offsets(line)} of group {line.get('group')} in a transaction",
    "end_txn": lambda line: f"asked to {'commit' if line.get('commit') else 'abort'} transaction {line.get('txn')}",
    "join": lambda line: f"joined group {line.get('group')}",
    "sync": lambda line: f"asked which partitions it has in generation {line.get('generation')}",
    "heartbeat": lambda line: f"said that it lives, in generation {line.get('generation')}",
    "leave": lambda line: f"left group {line.get('group')}",
    "commit_offsets": lambda line: f"committed {_offsets(line)} of group {line.get('group')}",
    "fetch_offsets": lambda line: f"asked for the committed offsets of group {line.get('group')}",
    "assign": lambda line: f"was given {_names(line)}",
    "revoke": lambda line: f"gave up {_names(line)}",
    "lost": lambda line: f"lost {_names(line)}",
    "alter_config": lambda line: f"{_sets(line)} of topic {line.get('topic')}",
    "describe_config": lambda line: f"asked what {line.get('config')} of topic {line.get('topic')} is",
    "create_partitions": lambda line: f"asked for {line.get('count')} partitions of topic {line.get('topic')}",
    "count_partitions": lambda line: f"asked how many partitions topic {line.get('topic')} has",
    "create_topic": lambda line: f"asked for a topic {line.get('topic')}",
    "delete_topic": lambda line: f"asked to delete topic {line.get('topic')} with id {line.get('topic_id')}",
    "describe_topic": lambda line: f"asked which id topic {line.get('topic')} has",
    "process": lambda line: f"processed {_values(line.get('values') or (), None)} of {_partition(line)}",
}


_TOLD = ("offset", "low_watermark", "producer_id", "producer_epoch", "member", "generation", "setting", "count")
"""Fields of a completion that are told as they are."""


def _call(invocation: Line, completion: Line | None) -> Step:
    f, node = str(invocation.get("f")), invocation.get("node")
    did = _CALLS[f](invocation) if f in _CALLS else f"called {f}"
    where = f" at {node}" if node else ""
    if completion is None or completion.get("type") == "info":
        outcome = f"no answer ({_error(completion)})"
    elif completion.get("type") == "fail":
        outcome = f"refused, {_error(completion)}"
    else:
        outcome = _answer(completion)
    at_s = _s(completion) if completion is not None and "time_ns" in completion else _s(invocation)
    text = f"{_begins(asker(invocation))} {did}{where}: {outcome}."
    return Step(at_s, "call", (CLIENTS,), text, f.replace("_", " "), node)


def _answer(completion: Line) -> str:
    said = [
        f"{name.replace('_', ' ')} {number(completion[name])}" for name in _TOLD if completion.get(name) is not None
    ]
    if completion.get("offsets"):
        said.append(_offsets(completion))
    if completion.get("partitions") is not None:
        said.append(_names(completion))
    if completion.get("topic_id"):
        said.append(f"id {completion['topic_id']}")
    elif completion.get("f") == "describe_topic":
        said.append("there is none")
    return listed(said) or "done"


def _begins(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def asker(line: Line) -> str:
    """Who asked, by a line of its operation."""
    process, phase = line.get("process"), str(line.get("phase", ""))
    if isinstance(process, int) and process >= SCRIPT_PROCESSES:
        who = "the final read" if phase.startswith("drain") else "the script"
        return f"{who} ({line['reader']})" if line.get("reader") not in (None, "wire") else who
    member = f" ({line['member']})" if line.get("member") else ""
    return f"client {process}{member}"


def _values(values: Sequence[int], subject: Subject | None) -> str:
    names = {} if subject is None else subject.names
    if len(values) == 1:
        return value_name(values[0], names)
    named = [names[str(value)] for value in values if str(value) in names]
    return f"values {runs_of(values)}" + (f" ({', '.join(named)})" if named else "")


def _partition(line: Line) -> str:
    """As the checkers name it: of a topic that is made anew by its id, too (docs/history-format.md)."""
    topic, topic_id = line.get("topic"), line.get("topic_id")
    return f"{topic}~{topic_id}-{line.get('partition')}" if topic_id else f"{topic}-{line.get('partition')}"


def _names(line: Line) -> str:
    return ", ".join(map(str, line.get("partitions") or ())) or "no partition"


def _offsets(line: Line) -> str:
    offsets = line.get("offsets") or ()
    said = (f"no offset of {o['p']}" if o["offset"] == -1 else f"offset {o['offset']} of {o['p']}" for o in offsets)
    return ", ".join(said) or "no offsets"


def _error(completion: Line | None) -> str:
    return str((completion or {}).get("error") or "nothing was heard before the time-out")


def _s(line: Line) -> float:
    return int(line.get("time_ns", 0)) / 1e9
