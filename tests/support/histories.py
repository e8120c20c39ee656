"""A small language for histories: a cluster of logs that never errs, and single lines for those that do.

Writes docs/history-format.md, version 1. `Story` keeps index and clock; every operation takes one tick to be answered
unless a test says when it was invoked and completed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.known_faults import said_of

TICK_NS = 1_000_000


class Story:
    """Lines of one history, in file order. Times are ticks (1 ms)."""

    def __init__(self, topic: str = "hw") -> None:
        self.topic = topic
        self.lines: list[dict[str, Any]] = []
        self.now = 0

    def _add(self, line: dict[str, Any], at: int | None) -> int:
        self.now = self.now + 1 if at is None else max(self.now, at)
        index = len(self.lines)
        time = self.now if at is None else at
        self.lines.append({"index": index, "time_ns": time * TICK_NS, **line})
        return index

    def invoke(self, f: str, *, process: int = 0, partition: int = 0, at: int | None = None, **fields: Any) -> int:
        """An invocation; returns its index."""
        base = {"type": "invoke", "process": process, "kind": "client", "f": f, "phase": fields.pop("phase", "main")}
        where: dict[str, Any] = {"topic": fields.pop("topic", self.topic), "partition": partition}
        where["node"] = fields.pop("node", "n1")
        if where["topic"] is None:
            where["partition"] = None
        return self._add({**base, **where, **fields}, at)

    def complete(self, invoke: int, outcome: str = "ok", *, at: int | None = None, **fields: Any) -> int:
        """The completion of an invocation, with the fields that a completion repeats."""
        asked = self.lines[invoke]
        kept = {key: asked[key] for key in ("process", "kind", "f", "phase", "topic", "partition", "node")}
        return self._add({"type": outcome, "invoke": invoke, **kept, **fields}, at)

    def send(
        self,
        values: int | Sequence[int],
        offset: int | None = None,
        *,
        outcome: str = "ok",
        acks: int = -1,
        invoked: int | None = None,
        completed: int | None = None,
        **fields: Any,
    ) -> int:
        """A send of consecutive offsets; offset None: the answer told none. Returns the invocation's index."""
        many = [values] if isinstance(values, int) else list(values)
        op = self.invoke("send", at=invoked, values=many, acks=acks, sentinel=fields.pop("sentinel", False), **fields)
        answer: dict[str, object] = {} if offset is None else {"base_offset": offset}
        if outcome == "fail":
            answer["error"] = "NOT_ENOUGH_REPLICAS"
        if outcome == "info":
            answer["error"] = "timeout"
        self.complete(op, outcome, at=completed, **answer)
        return op

    def coordinate(
        self, f: str, *, outcome: str = "ok", answer: Mapping[str, object] | None = None, **fields: Any
    ) -> int:
        """An operation of a coordinator; answer: the fields of its completion. Returns the invocation's index."""
        op = self.invoke(f, topic=None, **fields)
        fields = dict(answer or {})
        if outcome != "ok":
            fields["error"] = "PRODUCER_FENCED" if outcome == "fail" else "timeout"
        self.complete(op, outcome, **fields)
        return op

    def administer(
        self,
        f: str,
        asked: dict[str, Any],
        answer: dict[str, Any],
        *,
        outcome: str = "ok",
        error: str = "timeout",
        invoked: int | None = None,
        completed: int | None = None,
        **fields: Any,
    ) -> int:
        """An operation of an administrator; answer: of one that is ok. Returns the invocation's index."""
        op = self.invoke(f, at=invoked, **asked, **{**fields, "partition": None})
        self.complete(op, outcome, at=completed, **(answer if outcome == "ok" else {"error": error}))
        return op

    def poll(
        self,
        position: int,
        records: Iterable[tuple[int, int | None]] = (),
        *,
        next_position: int | None = None,
        hw: int | None = None,
        epoch: int = 0,
        outcome: str = "ok",
        error: str = "timeout",
        consumer: str = "c0",
        reader: str = "wire",
        intact: bool = True,
        log_start: int = 0,
        isolation: int = 0,
        lso: int | None = None,
        invoked: int | None = None,
        completed: int | None = None,
        epochs: Sequence[int] | None = None,
        **fields: Any,
    ) -> int:
        """A poll; next_position defaults to the one after the last record, hw to next_position, lso to hw. error: where
        not ok. epochs: of the records, by default that of the answer.

        The real client says that its position is where it asks, unless a test says `client_position`.
        """
        listed = list(records)
        after = next_position if next_position is not None else (listed[-1][0] + 1 if listed else position)
        mark = after if hw is None else hw
        sent_epoch = epoch if reader in ("wire", "follower") else -1
        if reader == "confluent":
            fields.setdefault("client_position", position)
        op = self.invoke(
            "poll",
            at=invoked,
            position=position,
            leader_epoch=sent_epoch,
            isolation=isolation,
            reader=reader,
            consumer=consumer,
            max_bytes=65536,
            **fields,
        )
        if outcome != "ok":
            self.complete(op, outcome, at=completed, error=error)
            return op
        self.complete(
            op,
            at=completed,
            next_position=after,
            hw=mark,
            lso=mark if lso is None else lso,
            log_start=log_start,
            records=[
                {"offset": o, "value": v, "epoch": epoch, "intact": intact}
                for (o, v), epoch in zip(listed, epochs or [sent_epoch] * len(listed), strict=True)
            ],
        )
        return op

    def list_offsets(
        self,
        offset: int,
        *,
        epoch: int = 0,
        timestamp: int = -1,
        found: int | None = None,
        isolation: int = 0,
        invoked: int | None = None,
        completed: int | None = None,
        **fields: Any,
    ) -> int:
        """timestamp: -1 the end, -2 the start, else a time, of which `found` is that of the record found."""
        asked = {"timestamp": timestamp, "isolation": isolation, "leader_epoch": epoch}
        op = self.invoke("list_offsets", at=invoked, **asked, **fields)
        of_time: dict[str, Any] = {} if found is None else {"timestamp_answered": found}
        self.complete(op, at=completed, offset=offset, leader_epoch_answered=epoch, **of_time)
        return op

    def delete(
        self,
        before: int,
        *,
        low: int | None = None,
        outcome: str = "ok",
        error: str = "timeout",
        invoked: int | None = None,
        completed: int | None = None,
        **fields: Any,
    ) -> int:
        """A delete_records; low: the low watermark of its acknowledgement, by default what it asked for."""
        op = self.invoke("delete_records", at=invoked, before=before, **fields)
        if outcome == "ok":
            self.complete(op, at=completed, low_watermark=before if low is None else low)
        else:
            self.complete(op, outcome, at=completed, error=error)
        return op

    def nemesis(
        self,
        f: str,
        fault: str,
        fault_id: int,
        targets: Sequence[str] = ("n1",),
        *,
        observed: bool = True,
        at: int | None = None,
        **fields: Any,
    ) -> int:
        return self._add(
            {
                "type": "info",
                "process": -1,
                "kind": "nemesis",
                "f": f,
                "phase": "main",
                "fault": fault,
                "fault_id": fault_id,
                "targets": list(targets),
                "params_json": "{}",
                "observed": observed,
                "observation": "seen",
                **said_of(fault),
                **fields,
            },
            at,
        )

    def harness(self, f: str, *, at: int | None = None, phase: str = "main", **fields: Any) -> int:
        return self._add({"type": "info", "process": -2, "kind": "harness", "f": f, "phase": phase, **fields}, at)

    def drained(
        self,
        end: int,
        *,
        partition: int = 0,
        start: int = 0,
        leader: str = "n1",
        reader: str = "wire",
        phase: str = "drain-0",
        **fields: Any,
    ) -> int:
        return self.harness(
            "drain-complete",
            phase=phase,
            topic=fields.pop("topic", self.topic),
            partition=partition,
            reader=reader,
            leader=leader,
            start=start,
            end=end,
            **fields,
        )

    def text(self) -> str:
        return "".join(json.dumps(line) + "\n" for line in self.lines)


def merged(histories: Mapping[str, Sequence[dict[str, Any]]], in_turn: Collection[str] = ()) -> list[dict[str, Any]]:
    """Several histories as one, each in a topic named after its key, so that one Spark pass judges them all.

    Indices, values, processes, consumers and fault ids are moved apart; times stay, since no checker but those of
    cycles compares partitions. in_turn: topics whose histories begin when all before them are over.
    """
    lines: list[dict[str, Any]] = []
    for number, (topic, history) in enumerate(histories.items()):
        shift = len(lines)
        since_ns = max((line["time_ns"] for line in lines), default=0) + TICK_NS if topic in in_turn else 0
        moved = [_moved(line, topic, shift, number) for line in history]
        lines += [{**line, "time_ns": line["time_ns"] + since_ns} for line in moved]
    return lines


def on_own_nodes(stories: Mapping[str, Story], nodes: Collection[str]) -> None:
    """Have each story, by its topic, on brokers of its own: what ends a process in one parts lives of that node in all.

    nodes: those that are told apart.
    """
    for topic, story in stories.items():
        for line in story.lines:
            line["node"] = f"{topic}{line['node']}" if line.get("node") in nodes else line.get("node")
            if "targets" in line:
                line["targets"] = [f"{topic}{node}" for node in line["targets"]]


_VALUES_APART = 1_000_000
OUT = "-out"
"""Ends the name of the topic that processors write to."""


def apart(values: Sequence[int], number: int) -> list[int]:
    """Values of one of several histories, as `merged` has them."""
    return [value + number * _VALUES_APART for value in values]


def _moved(line: dict[str, Any], topic: str, shift: int, number: int) -> dict[str, Any]:
    moved = dict(line)
    moved["index"] += shift
    if "invoke" in moved:
        moved["invoke"] += shift
    if "resends" in moved:
        moved["resends"] += shift
    if moved.get("topic") is not None:
        moved["topic"] = topic + (OUT if moved["topic"].endswith(OUT) else "")
    if moved["process"] >= 0:
        moved["process"] += number * 10_000
    for name in ("values", "sources"):
        if name in moved:
            moved[name] = apart(moved[name], number)
    if "txn" in moved:
        (moved["txn"],) = apart([moved["txn"]], number)
    if moved.get("transactional_id") is not None:
        moved["transactional_id"] = f"{topic}/{moved['transactional_id']}"
    if moved.get("producer_id") is not None:
        moved["producer_id"] += number * 10_000
    if "group" in moved:
        moved["group"] = f"{topic}/{moved['group']}"
    if "consumer" in moved:
        moved["consumer"] = f"{topic}/{moved['consumer']}"
    if "fault_id" in moved:
        moved["fault_id"] += number * 1000
    if "records" in moved:
        moved["records"] = [
            {**record, "value": None if record["value"] is None else record["value"] + number * _VALUES_APART}
            for record in moved["records"]
        ]
    return moved


def write_history(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
