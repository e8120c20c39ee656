"""A history of Jepsen's Kafka workload as lines of ours (docs/history-format.md), and the run's folder around them.

Decides what each operation is in our terms, and how far a poll reached, which the format does not say: from its first
record to its last, and down to where its consumer certainly stood. That is where the poll before left off, while keys
stay assigned; or the log's beginning, behind an `assign` that sought it. Of what lies between, as much counts as nobody
ever read: the rest is a jump, which is judged between polls and not inside one. Must not know the file, nor judge.
"""

from __future__ import annotations

import bisect
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.exchange.edn import Keyword, to_edn
from harness.exchange.operations import MICRO, SUBSCRIBES, ForeignHistory, Operation, Poll, Send, read_history
from harness.operations.history import MAIN
from harness.runs.run_info import SCHEMA, version
from harness.runs.store import RunStore, create_whole
from harness.systems import system_kind
from harness.workloads.append_poll.workload import CHECKERS

TOPIC = "jepsen"
READER = "imported"
GROUP = "jepsen"
"""Of polls that are judged against the poll before."""
OF_TRANSACTIONS = ("precommitted-read",)
"""Checkers beside append-poll's, where operations are transactions."""
SOURCE = "source"
"""Folder within the run's that keeps the file as it came."""

Line = dict[str, object]


def import_history(path: Path, root: Path, name: str, argv: Sequence[str]) -> RunStore:
    """Make a run's folder of a history. Nothing is left in the store where the file is none.

    Raises ForeignHistoryError, StoreError.
    """
    history = read_history(path)
    made = Imported(history)
    lines = made.lines()
    run = _run_json(path, name, argv, made, lines)

    def fill(folder: Path) -> None:
        (folder / SOURCE).mkdir()
        shutil.copyfile(path, folder / SOURCE / path.name)
        with (folder / "history.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        RunStore(folder).write_run(run)

    return create_whole(root, name, fill)


def _run_json(path: Path, name: str, argv: Sequence[str], made: Imported, lines: Sequence[Line]) -> dict[str, object]:
    now_ns = time.time_ns()
    return {
        "schema": SCHEMA,
        "name": name,
        "started_wall_ns": now_ns,
        "origin_wall_ns": now_ns,
        "origin_monotonic_ns": 0,
        "highwater_version": version(),
        "versions": {},
        "command": list(argv),
        "imported": {"from": "jepsen", "file": f"{SOURCE}/{path.name}", "keys": made.keys},
        "system": {"kind": "imported", "event_log": False, "settings": {}},
        "nodes": [],
        "topic": {"name": TOPIC, "partitions": len(made.keys), "config": {}},
        "workload": {"kind": "jepsen.tests.kafka"},
        # Those of nodes say themselves that nothing is there for them.
        "checkers": [
            *CHECKERS,
            *system_kind("highwater").checkers,
            *(OF_TRANSACTIONS if made.transactional else ()),
        ],
        "faults": {},
        "fault_kinds": {},
        "checks": {},
        "scripted": False,
        "aborted": None,
        "finished": True,
        "lines": len(lines),
    }


@dataclass(slots=True)
class _Consumer:
    """What is known of where a process's consumer stands on one key. next: behind the last poll; None: not known."""

    name: str
    next: int | None = None


@dataclass(slots=True)
class _Process:
    """number: in our history. subscribed: others decide what its consumer reads, and where it goes on."""

    number: int
    subscribed: bool = False
    consumers: dict[int, _Consumer] = field(default_factory=dict)


@dataclass(slots=True)
class _Part:
    """What one operation of ours asks and is answered. key: None where it is of no partition."""

    f: str
    asked: Line
    answered: Line
    outcome: str
    key: int | None


class Imported:
    """The lines of one history. keys: key of each partition, by its number. transactional: some operation is a
    transaction.
    """

    def __init__(self, history: ForeignHistory) -> None:
        self._history = history
        self.keys = sorted({key for operation in history.operations for key in _keys(operation)})
        self.transactional = any(map(_is_transaction, history.operations))
        self._partition = {key: number for number, key in enumerate(self.keys)}
        self._read = _offsets_read(history.operations)
        self._processes: dict[int, _Process] = {}
        self._numbers = 0
        self._consumers = 0

    def lines(self) -> list[Line]:
        """In the order of the file, with indices of their own; `source` is the operation's index in the file."""
        parts = self._parts()
        out: list[Line] = []
        begun: dict[int, list[int]] = {}
        invoked_by = {done: position for position, done in self._history.completion.items()}
        for position, operation in enumerate(self._history.operations):
            if operation.process is None:
                out.append(_foreign(operation, len(out)))
            elif operation.type == "invoke":
                number, mine = parts.get(position, (0, ()))
                begun[position] = list(range(len(out), len(out) + len(mine)))
                for part in mine:
                    line = self._line(operation, "invoke", number, part, len(out))
                    out.append({**line, **part.asked})
            else:
                number, mine = parts.get(invoked_by[position], (0, ()))
                for part, index in zip(mine, begun[invoked_by[position]], strict=True):
                    line = self._line(operation, part.outcome, number, part, len(out))
                    error = {} if part.outcome == "ok" or operation.error is None else {"error": operation.error}
                    out.append({**line, "invoke": index, **error, **part.answered})
        return out

    def _line(self, operation: Operation, kind: str, number: int, part: _Part, index: int) -> Line:
        return {
            "index": index,
            "time_ns": operation.time_ns,
            "type": kind,
            "process": number,
            "kind": "client",
            "f": part.f,
            "phase": MAIN,
            "topic": None if part.key is None else TOPIC,
            "partition": None if part.key is None else self._partition[part.key],
            "node": None,
            "source": operation.index,
        }

    def _parts(self) -> dict[int, tuple[int, Sequence[_Part]]]:
        """Position of an invocation → (number of its process, its operations in our history)."""
        parts: dict[int, tuple[int, Sequence[_Part]]] = {}
        # In the order of completions, for a poll says only then where its consumer stood.
        order = {completed: position for position, completed in self._history.completion.items()}
        for position, operation in enumerate(self._history.operations):
            if operation.process is None:
                continue
            if operation.type == "invoke":
                if position not in self._history.completion:
                    process = self._process(operation.process)
                    parts[position] = process.number, list(self._sends(operation, operation, ended=False))
                continue
            invoked = self._history.operations[order[position]]
            process = self._process(operation.process)
            parts[order[position]] = process.number, self._of_operation(process, invoked, operation)
            if operation.type == "info":
                # Its client may still be at it: whoever has this number next is somebody else.
                del self._processes[operation.process]
        return parts

    def _process(self, process: int) -> _Process:
        if process not in self._processes:
            self._processes[process] = _Process(self._numbers)
            self._numbers += 1
        return self._processes[process]

    def _of_operation(self, process: _Process, invoked: Operation, completed: Operation) -> Sequence[_Part]:
        if completed.f in SUBSCRIBES:
            self._subscribe(process, invoked, completed)
        if completed.f == "crash":
            process.consumers, process.subscribed = {}, False
        if completed.f not in MICRO:
            return ()
        of_transaction = _is_transaction(invoked) and completed.type != "fail"
        txn: Line = {"txn": invoked.index, "transactional_id": str(process.number)} if of_transaction else {}
        parts = [*self._sends(invoked, completed, ended=True), *self._polls(process, invoked, completed, txn)]
        if of_transaction:
            parts.append(_Part("end_txn", {**txn, "commit": True}, {}, completed.type, None))
        return parts

    def _subscribe(self, process: _Process, invoked: Operation, completed: Operation) -> None:
        """A consumer keeps its positions on what it goes on to have assigned; what it subscribes to is not known."""
        if completed.type == "fail":
            return
        process.subscribed = completed.f == "subscribe"
        kept = process.consumers if not process.subscribed and not invoked.from_beginning else {}
        process.consumers = {key: kept[key] for key in invoked.keys if key in kept}
        if invoked.from_beginning and completed.type == "ok" and not process.subscribed:
            process.consumers = {key: self._consumer(0) for key in invoked.keys}

    def _consumer(self, position: int | None = None) -> _Consumer:
        self._consumers += 1
        return _Consumer(f"c{self._consumers}", position)

    def _sends(self, invoked: Operation, completed: Operation, *, ended: bool) -> Iterator[_Part]:
        """One for each value; of a transaction that certainly failed, sends that failed."""
        sends = [micro for micro in invoked.micro if isinstance(micro, Send)]
        offsets = [micro.offset for micro in completed.micro if isinstance(micro, Send)] or [None] * len(sends)
        transaction = _is_transaction(invoked) and completed.type != "fail"
        for send, offset in zip(sends, offsets, strict=True):
            asked: Line = {"values": [send.value], "acks": -1, "sentinel": False, "reader": READER}
            if len(sends) > 1:
                # What one operation sends to a key stands there in that order.
                asked["in_order"] = True
            if transaction:
                asked["txn"] = invoked.index
            known = ended and completed.type == "ok" and offset is not None
            yield _Part("send", asked, {"base_offset": offset} if known else {}, completed.type, send.key)

    def _polls(self, process: _Process, invoked: Operation, completed: Operation, txn: Line) -> Iterator[_Part]:
        """One for each key of which records came, in whichever polls of the operation."""
        together: dict[int, list[tuple[int, int | None]]] = {}
        for micro in completed.micro:
            if isinstance(micro, Poll):
                for key, records in micro.records.items():
                    together.setdefault(key, []).extend(records)
        transaction = {"txn": txn["txn"]} if txn else {}
        for key, records in together.items():
            if not records:
                continue
            if key in completed.rebalanced:
                # Whose it was may have changed from one record to the next.
                process.consumers.pop(key, None)
                for record in records:
                    yield self._poll(self._consumer(), key, [record], transaction)
            elif completed.type == "ok" and not process.subscribed:
                consumer = process.consumers.setdefault(key, self._consumer())
                yield self._poll(consumer, key, records, transaction)
                consumer.next = max(offset for offset, _ in records) + 1
            else:
                # What did not come out well is read again; where it began is not known.
                yield self._poll(self._consumer(), key, records, transaction)

    def _poll(
        self, consumer: _Consumer, key: int, records: Sequence[tuple[int, int | None]], transaction: Line
    ) -> _Part:
        first, last = records[0][0], max(offset for offset, _ in records)
        lowest = min(offset for offset, _ in records)
        position = lowest
        if consumer.next is not None and consumer.next < lowest:
            offsets = self._read[key]
            below = bisect.bisect_left(offsets, lowest)
            position = max(consumer.next, offsets[below - 1] + 1 if below else 0)
        asked: Line = {
            "position": position,
            "client_position": first,
            "leader_epoch": -1,
            "isolation": 1 if self.transactional else 0,
            "reader": READER,
            "consumer": consumer.name,
            "group": GROUP,
            **transaction,
        }
        shown = [
            {"offset": offset, "value": value, "epoch": -1, "intact": value is not None} for offset, value in records
        ]
        return _Part("poll", asked, {"next_position": last + 1, "records": shown}, "ok", key)


def _is_transaction(operation: Operation) -> bool:
    """Whether its micro-operations happen together: so says its name, or that there are several."""
    return operation.f == "txn" or (operation.f in MICRO and len(operation.micro) > 1)


def _keys(operation: Operation) -> Iterator[int]:
    for micro in operation.micro:
        if isinstance(micro, Send):
            yield micro.key
        else:
            yield from (key for key, records in micro.records.items() if records)


def _offsets_read(operations: Sequence[Operation]) -> Mapping[int, Sequence[int]]:
    """Key → the offsets at which anybody read anything, ascending."""
    read: dict[int, set[int]] = {}
    for operation in operations:
        for micro in operation.micro:
            if isinstance(micro, Poll):
                for key, records in micro.records.items():
                    read.setdefault(key, set()).update(offset for offset, _ in records)
    return {key: sorted(offsets) for key, offsets in read.items()}


def _foreign(operation: Operation, index: int) -> Line:
    """What is no client's: kept for who reads the history, and judged by nothing."""
    return {
        "index": index,
        "time_ns": operation.time_ns,
        "type": "info",
        "process": -2,
        "kind": "harness",
        "f": "foreign",
        "phase": MAIN,
        "observation": f"{operation.process_name} :{operation.f} {to_edn(operation.value)}",
        "source": operation.index,
        **({} if operation.error is None else {"error": operation.error}),
    }


def as_map(operation: Operation) -> dict[object, object]:
    """An operation as a map in Jepsen's order of keys."""
    process: object = operation.process
    if process is None:
        process = Keyword(str(operation.process_name))
    return {
        Keyword("index"): operation.index,
        Keyword("time"): operation.time_ns,
        Keyword("type"): Keyword(operation.type),
        Keyword("process"): process,
        Keyword("f"): Keyword(operation.f),
        Keyword("value"): value_of(operation),
        **{Keyword(name): value for name, value in operation.extra.items()},
    }


def value_of(operation: Operation) -> object:
    """Its `:value`."""
    if operation.micro:
        return [_micro_edn(micro, operation.type != "invoke") for micro in operation.micro]
    return list(operation.keys) if operation.f in SUBSCRIBES and operation.process is not None else operation.value


def _micro_edn(micro: Send | Poll, done: bool) -> list[object]:
    if isinstance(micro, Send):
        return [Keyword("send"), micro.key, [micro.offset, micro.value] if done else micro.value]
    if not done:
        return [Keyword("poll")]
    return [Keyword("poll"), {key: [list(pair) for pair in records] for key, records in micro.records.items()}]
