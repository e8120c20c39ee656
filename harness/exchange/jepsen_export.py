"""A run's history as operations of Jepsen's Kafka workload, one EDN map a line.

Decides how operations of ours become operations there. A process does one thing at a time and is over with an `:info`,
so that each sender and each consumer gets processes of its own; a consumer that seeks is another one from then on, for
Jepsen's checker takes polls of one process for consecutive. Operations that are never answered are closed with `:info`:
that checker knows the sends that have a completion. What the format cannot carry is counted, and named to the caller
(docs/jepsen.md). An imported run goes out as it came. Must not know who reads it, nor judge.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.exchange.edn import Keyword, to_edn
from harness.exchange.jepsen_import import as_map
from harness.exchange.offsets import LARGE_OFFSET, highest_offset, unread_below, with_dense_offsets
from harness.exchange.operations import NEMESIS, Operation, Poll, Send, read_history
from harness.plan.recorded import is_compacted
from harness.runs.store import RunStore, StoreError

_ORDER = {"ok": 2, "info": 1, "fail": 0}

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """How many operations a file got; notes: what a reader of it has to know."""

    operations: int
    notes: Sequence[str]


@dataclass(slots=True)
class _Event:
    """An operation there, from begin to end. lane: what does one thing at a time. asked, done: its micro-operations, or
    keys. end_ns: None: never.
    """

    lane: object
    f: str
    begin_ns: int
    asked: Sequence[Send | Poll] | Sequence[int]
    end_ns: int | None = None
    type: str = "info"
    done: Sequence[Send | Poll] | Sequence[int] = ()
    error: str | None = None
    from_beginning: bool = False
    rebalanced: Sequence[int] = ()


@dataclass(slots=True)
class _Open:
    """An operation of ours that may have come out by now."""

    line: Line
    done: Line | None = None

    @property
    def outcome(self) -> str:
        return "info" if self.done is None else str(self.done["type"])

    @property
    def end_ns(self) -> int | None:
        return None if self.done is None else int(self.done["time_ns"])


def export_history(store: RunStore, path: Path, *, dense: bool = False) -> Written:
    """Write the file, whole or not at all. Raises StoreError, ForeignHistoryError.

    dense: number the known offsets of each partition anew.
    """
    if path.exists():
        raise StoreError(f"{path}: is there already")
    run = store.read_run()
    imported = run.get("imported")
    if isinstance(imported, dict):
        operations = list(read_history(store.path / str(imported["file"])).operations)
        notes: list[str] = []
    else:
        exported = Exported(read_lines(store))
        operations, notes = exported.operations(), exported.notes()
        if is_compacted(run):
            notes.append("compaction: Jepsen takes a value for lost that a newer one replaced before it was read")
    highest = highest_offset(operations)
    if dense:
        operations = with_dense_offsets(operations)
    elif highest >= LARGE_OFFSET:
        notes.append(f"offsets up to {highest:,}: with --dense-offsets Jepsen's checker needs less memory")
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.writelines(to_edn(as_map(operation)) + "\n" for operation in operations)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f"{path}: cannot be written: {error.strerror}") from None
    return Written(len(operations), notes)


def read_lines(store: RunStore) -> list[Line]:
    """Lines of the history; a torn last one is left out. Raises StoreError."""
    lines: list[Line] = []
    texts = store.history.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, text in enumerate(texts, 1):
        try:
            if text:
                line = json.loads(text)
                if not isinstance(line, dict) or not isinstance(line.get("time_ns"), int):
                    raise ValueError("no line of a history")
                lines.append(line)
        except RecursionError:
            raise StoreError(f"{store.history}: line {number} cannot be read: brackets are nested too deeply") from None
        except ValueError as error:
            if number < len(texts):
                raise StoreError(f"{store.history}: line {number} cannot be read: {error}") from None
    return lines


class Exported:
    """Operations for Jepsen of one history of ours."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._end_ns = max((int(line["time_ns"]) for line in lines), default=0)
        self._left_out: Counter[str] = Counter()
        every = [line for line in lines if line.get("kind") == "client"]
        self._remade = {str(line["topic"]) for line in every if line.get("topic_id") and line.get("topic")}
        client = [line for line in every if line.get("topic") not in self._remade]
        self._of_remade = len(every) - len(client)
        places = sorted(
            {(str(line["topic"]), int(line["partition"])) for line in client if line.get("partition") is not None}
        )
        one_topic = len({topic for topic, _ in places}) <= 1
        self._keys = {place: place[1] if one_topic else number for number, place in enumerate(places)}
        self._one_topic = one_topic
        self._opened: dict[int, _Open] = {}
        for line in client:
            if line["type"] == "invoke":
                self._opened[int(line["index"])] = _Open(line)
            elif int(line["invoke"]) in self._opened:
                self._opened[int(line["invoke"])].done = line
        sends = [opened.line for opened in self._opened.values() if opened.line["f"] == "send"]
        self._transactional = {self._key(line) for line in sends if line.get("txn") is not None}
        self._acks_one = sum(line.get("acks") == 1 for line in sends)
        self._starts: dict[int, int] = {}
        for opened in self._opened.values():
            if opened.outcome == "ok" and (start := _start(opened)) > 0:
                key = self._key(opened.line)
                self._starts[key] = max(start, self._starts.get(key, 0))
        self._deleted_unread = 0

    def notes(self) -> list[str]:
        """What became of partitions of several topics, and what was left out."""
        notes = []
        if self._acks_one:
            notes.append(f"{self._acks_one:,} sends with acks=1: Jepsen takes them for ones that may not be lost")
        if self._starts:
            notes.append(
                f"log starts up to {max(self._starts.values()):,}: Jepsen knows no deletion, and takes for lost what "
                f"was acknowledged below them and read by nobody ({self._deleted_unread:,}), and for a skip what a "
                "consumer that was behind jumped over"
            )
        if self._remade:
            notes.append(
                f"{self._of_remade:,} lines on topics that are made anew left out, for Jepsen knows a log by its name: "
                f"{', '.join(sorted(self._remade))}"
            )
        if not self._one_topic:
            named = ", ".join(f"{key} is {topic}-{number}" for (topic, number), key in self._keys.items())
            notes.append(f"keys: {named}")
        if self._left_out:
            counted = ", ".join(f"{count:,} {f}" for f, count in sorted(self._left_out.items()))
            notes.append(f"left out, for Jepsen's history has no such operations: {counted}")
        return notes

    def operations(self) -> list[Operation]:
        """In the order of time; every operation has its completion."""
        events = [*self._sends(), *self._polls()]
        known = {"send", "poll", "end_txn"}
        for opened in self._opened.values():
            if opened.line["f"] not in known:
                self._left_out[str(opened.line["f"])] += 1
        timed: list[tuple[tuple[int, int, int, int], Operation]] = []
        for nth, (event, process) in enumerate(_with_processes(events)):
            end_ns = max(self._end_ns if event.end_ns is None else event.end_ns, event.begin_ns)
            timed.append(((event.begin_ns, 1, nth, 0), _operation(event, process, "invoke", event.begin_ns)))
            # In one nanosecond all that began earlier ends before anything else begins.
            tier = 1 if end_ns == event.begin_ns else 0
            timed.append(((end_ns, tier, nth, 1), _operation(event, process, event.type, end_ns)))
        for nth, line in enumerate(self._lines):
            timed += [((at, 2, nth, 0), one) for at, one in _nemesis(line)]
        timed.sort(key=lambda one: one[0])
        operations = [replace(operation, index=index) for index, (_, operation) in enumerate(timed)]
        self._deleted_unread = unread_below(self._starts, operations)
        return operations

    def _key(self, line: Line) -> int:
        return self._keys[str(line["topic"]), int(line["partition"])]

    def _sends(self) -> Iterator[_Event]:
        """Each batch one operation, with all requests that sent it; those of a transaction, and its polls, together."""
        again: dict[int, list[_Open]] = {}
        for index, opened in self._opened.items():
            if opened.line["f"] == "send":
                again.setdefault(int(opened.line.get("resends", index)), []).append(opened)
        of_transactions: dict[int, list[tuple[_Open, Sequence[Send], Sequence[Send]]]] = {}
        for requests in again.values():
            first = requests[0]
            asked, best = self._asked(first), max(requests, key=lambda one: _ORDER[_in_log(one)])
            done = self._placed(asked, next((one for one in requests if _base(one) is not None), best))
            if first.line.get("txn") is not None:
                of_transactions.setdefault(int(first.line["txn"]), []).append((best, asked, done))
                continue
            ends = [one.end_ns for one in requests]
            end_ns = best.end_ns if _in_log(best) == "ok" else _last(ends)
            yield _Event(
                ("sender", first.line["process"]),
                "send",
                int(first.line["time_ns"]),
                asked,
                end_ns,
                _in_log(best),
                done,
                None if best.done is None else best.done.get("error"),
            )
        yield from self._transactions(of_transactions)

    def _asked(self, opened: _Open) -> Sequence[Send]:
        key = self._key(opened.line)
        return [Send(key, int(value)) for value in opened.line["values"]]

    def _placed(self, sends: Sequence[Send], answered: _Open) -> Sequence[Send]:
        base = _base(answered)
        if base is None:
            return sends
        return [Send(one.key, one.value, base + nth) for nth, one in enumerate(sends)]

    def _transactions(
        self, sent: Mapping[int, Sequence[tuple[_Open, Sequence[Send], Sequence[Send]]]]
    ) -> Iterator[_Event]:
        polled: dict[int, list[_Open]] = {}
        ended: dict[int, list[_Open]] = {}
        for opened in self._opened.values():
            if (txn := opened.line.get("txn")) is not None:
                if opened.line["f"] == "poll" and opened.outcome == "ok":
                    polled.setdefault(int(txn), []).append(opened)
                elif opened.line["f"] == "end_txn" and opened.line.get("commit"):
                    ended.setdefault(int(txn), []).append(opened)
        for txn in sorted({*sent, *polled}):
            commits = ended.get(txn, [])
            outcome = max((one.outcome for one in commits), key=_ORDER.__getitem__, default="fail")
            sends = [(opened, asked, done) for opened, asked, done in sent.get(txn, ()) if _in_log(opened) != "fail"]
            parts = [*(opened for opened, _, _ in sends), *polled.get(txn, ())]
            if not parts:
                continue
            ends = [one.end_ns for one in (*parts, *commits)]
            asked: list[Send | Poll] = [one for _, of_send, _ in sends for one in of_send]
            done: list[Send | Poll] = [one for _, _, of_send in sends for one in of_send]
            for opened in polled.get(txn, ()):
                asked.append(Poll())
                done.append(self._returned(opened))
            yield _Event(
                # Polls of two transactions need not follow one another.
                ("transaction", txn if txn in polled else parts[0].line.get("transactional_id")),
                "txn",
                min(int(one.line["time_ns"]) for one in parts),
                asked,
                None if outcome == "info" else _last(ends),
                outcome,
                done,
                rebalanced=self._rebalanced(polled.get(txn, ())),
            )

    def _rebalanced(self, polls: Sequence[_Open]) -> Sequence[int]:
        """Keys that several consumers polled: what they returned need not go on one from another."""
        consumers = {(self._key(opened.line), opened.line.get("consumer")) for opened in polls}
        return sorted(key for key, count in Counter(key for key, _ in consumers).items() if count > 1)

    def _polls(self) -> Iterator[_Event]:
        """Each consumer assigns its partition, and again, as somebody else, wherever it seeks."""
        stands: dict[object, tuple[object, int]] = {}
        for index, opened in self._opened.items():
            line = opened.line
            if line["f"] != "poll" or (line.get("txn") is not None and opened.outcome == "ok"):
                continue
            if self._key(line) in self._transactional and line.get("isolation") != 1:
                self._left_out["polls under read_uncommitted of what transactions write"] += 1
                continue
            consumer = (line.get("process"), line.get("consumer"), self._key(line), line.get("isolation", 0))
            position = int(line["position"])
            lane, expected = stands.get(consumer, (None, -1))
            if lane is None or (position != expected and line.get("client_position") is None):
                lane = ("consumer", *consumer, index)
                yield _Event(
                    lane,
                    "assign",
                    int(line["time_ns"]),
                    [self._key(line)],
                    int(line["time_ns"]),
                    "ok",
                    [self._key(line)],
                    from_beginning=position == 0,
                )
            if opened.outcome == "ok":
                assert opened.done is not None
                position = int(opened.done["next_position"])
            stands[consumer] = (lane, position)
            done = [self._returned(opened)] if opened.outcome == "ok" else [Poll()]
            error = None if opened.done is None else opened.done.get("error")
            yield _Event(lane, "poll", int(line["time_ns"]), [Poll()], opened.end_ns, opened.outcome, done, error)

    def _returned(self, opened: _Open) -> Poll:
        """An empty map where nothing came: Jepsen's checker takes every key in it for one with records."""
        records = [] if opened.done is None else opened.done.get("records") or []
        pairs = [(int(one["offset"]), one["value"] if one.get("intact") else None) for one in records]
        return Poll({self._key(opened.line): pairs} if pairs else {})


def _in_log(opened: _Open) -> str:
    """A request that is refused because the log has its batch leaves open where; acks=0 is no acknowledgement."""
    known = opened.done is not None and opened.done.get("error") == "DUPLICATE_SEQUENCE_NUMBER"
    silent = opened.line.get("acks") == 0 and opened.outcome == "ok"
    return "info" if known or silent else opened.outcome


def _last(ends: Sequence[int | None]) -> int | None:
    """None where one of them is."""
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(ends) else None


def _base(opened: _Open) -> int | None:
    """Offset of its first value, where it was told."""
    base = None if opened.done is None or opened.outcome != "ok" else opened.done.get("base_offset")
    return None if base is None or int(base) < 0 else int(base)


def _with_processes(events: Sequence[_Event]) -> Iterator[tuple[_Event, int]]:
    """Each event with a process that is free then: one of its lane, or a new one."""
    free_from: dict[object, dict[int, int]] = {}
    count = 0
    for event in sorted(events, key=lambda one: one.begin_ns):
        lane = free_from.setdefault(event.lane, {})
        process = next((one for one, free_ns in lane.items() if free_ns <= event.begin_ns), None)
        if process is None:
            process, count = count, count + 1
        if event.end_ns is None or event.type == "info":
            lane.pop(process, None)
        else:
            lane[process] = event.end_ns
        yield event, process


def _operation(event: _Event, process: int, kind: str, time_ns: int) -> Operation:
    what: Sequence[Any] = event.asked if kind == "invoke" else event.done
    assigns = event.f == "assign"
    extra: dict[str, object] = {"seek-to-beginning?": True} if event.from_beginning else {}
    if kind != "invoke" and event.rebalanced:
        extra["rebalance-log"] = [{Keyword("keys"): list(event.rebalanced)}]
    if kind not in ("invoke", "ok") and event.error is not None:
        extra["error"] = Keyword(event.error) if event.error.replace("-", "").isalnum() else event.error
    return Operation(
        0, process, kind, event.f, time_ns, 0, micro=() if assigns else what, keys=what if assigns else (), extra=extra
    )


def _start(opened: _Open) -> int:
    """The log's start that an answer told; 0 where it told none."""
    assert opened.done is not None
    told = (opened.done.get("log_start"), opened.done.get("low_watermark"))
    return max((int(one) for one in told if one is not None), default=0)


def _nemesis(line: Line) -> Iterator[tuple[int, Operation]]:
    """A fault, or its end, as two operations: when its change was begun, and when it was made and observed."""
    if line.get("kind") != "nemesis" or line.get("f") not in ("start", "stop"):
        return
    made_ns = int(line["time_ns"])
    seen = {
        Keyword("targets"): list(line.get("targets") or ()),
        Keyword("observed"): bool(line.get("observed")),
        Keyword("observation"): str(line.get("observation") or ""),
    }
    asked: dict[Keyword, object] = {Keyword("targets"): seen[Keyword("targets")]}
    for at, value in ((int(line.get("began_ns") or made_ns), asked), (made_ns, seen)):
        name = f"{line['f']}-{line['fault']}"
        yield at, Operation(0, None, "info", name, at, 0, value=value, process_name=NEMESIS)
