"""What the brokers' event logs say of one record, as steps.

Decides which events are of its life, and their words. Takes lines as docs/event-log.md has them; a line without what
it should have is passed over. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.report.steps import CLIENTS, Step
from harness.report.words import listed

Line = Mapping[str, Any]


@dataclass(slots=True)
class Replica:
    """One node's event log, read in its order. has: whether its log held the offset last, None while that is not known.

    shift_ns: run time = `m` - shift_ns. markers: offsets of markers that ended its transaction. leaderships: by their
    leader epochs; isrs: committed ones by the number of the znode's version (`pe`); versions: number → when it was
    first spoken of. is_known: it speaks of the partition.
    """

    node: str
    p: str
    offset: int
    shift_ns: int
    names: Mapping[int, str]
    markers: frozenset[int] = frozenset()
    has: bool | None = None
    steps: list[Step] = field(default_factory=list)
    leaderships: list[tuple[int, Step]] = field(default_factory=list)
    isrs: list[tuple[int, Step]] = field(default_factory=list)
    versions: dict[int, float] = field(default_factory=dict)
    is_known: bool = False
    elections: dict[int, str] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    def read(self, lines: Iterable[Line]) -> None:
        """Take them all in."""
        for line in lines:
            try:
                self._take(line)
            except (KeyError, TypeError, ValueError, AttributeError):
                continue

    def _take(self, line: Line) -> None:
        event = line["e"]
        if event in ("start", "stop"):
            if self.has is not None:
                words = "started again" if event == "start" else "stopped in good order"
                self._step(line, "call", f"{self.node} {words}.", event)
        elif line.get("p") == self.p:
            self.is_known = True
            if isinstance(line.get("pe"), int):
                self.versions.setdefault(line["pe"], self._at_s(line))
            if event in _TAKEN:
                _TAKEN[event](self, line)

    def _append(self, line: Line) -> None:
        for marker in self.markers if line["role"] == "leader" else ():
            if line["base"] <= marker <= line["last"]:
                where = f"offset {marker}, in leader epoch {line['le']}"
                text = f"{self.node} appended the marker of its transaction, {where}."
                self._step(line, "call", text, f"marker @{marker}")
        if not line["base"] <= self.offset <= line["last"]:
            return
        first = line["role"] == "leader"
        span = f"offsets {line['base']} to {line['last']}" if line["last"] > line["base"] else f"offset {line['base']}"
        text = f"{self.node} appended {span} as {line['role']}, in leader epoch {line['le']}."
        self._step(line, "append" if first else "copy", text, "append" if first else "copy")
        self.has = True
        self._said -= {"hw", "flush"}

    def _hw(self, line: Line) -> None:
        if line["hw"] <= self.offset or not self._first("hw"):
            return
        if line["role"] == "leader":
            isr = f", ISR {listed(self._names(line['isr']))}" if line.get("isr") else ""
            text = f"{self.node}'s high watermark reached {line['hw']}: the record is committed{isr}."
        else:
            text = f"{self.node} learnt that it is committed (high watermark {line['hw']})."
        self._step(line, "commit", text, f"HW {line['hw']}")

    def _ack(self, line: Line) -> None:
        if line["base"] <= self.offset <= line["last"]:
            acks = "all" if line["acks"] == -1 else line["acks"]
            isr = listed(self._names(line["isr"]))
            text = f"{self.node} acknowledged it, acks={acks}, high watermark {line['hw']}, ISR {isr}."
            self._step(line, "ack", text, "ack", CLIENTS)

    def _visible(self, line: Line) -> None:
        if line["upto"] > self.offset and self._first("visible"):
            what = "an end offset" if line["kind"] == "list_offsets" else "records"
            text = f"{self.node} showed consumers {what} up to {line['upto']}, its high watermark {line['hw']}."
            self._step(line, "read", text, f"shown <{line['upto']}", CLIENTS)

    def _flush(self, line: Line) -> None:
        if line["upto"] > self.offset and self.has and self._first("flush"):
            self._step(line, "call", f"{self.node} had it on disk (fsync up to {line['upto']}).", "fsync")

    def _truncate(self, line: Line) -> None:
        if line["to"] <= self.offset < line["from_leo"]:
            text = (
                f"{self.node} cut its log from {line['from_leo']} to {line['to']} ({line['reason']}), and the record "
                f"with it; its high watermark was {line['hw']}."
            )
            self._step(line, "cut", text, f"cut to {line['to']}")
            self.has = False

    def _recovered(self, line: Line) -> None:
        before, self.has = self.has, line["log_start"] <= self.offset < line["leo"]
        if before is None and not self.has:
            self.has = None
        elif before is not None:
            there = "still in it" if self.has and before else "not in it" if not self.has else "in it"
            text = f"{self.node} opened its log, which ends at {line['leo']}: this offset is {there}."
            self._step(line, "cut" if before and not self.has else "call", text, f"opened @{line['leo']}")

    def _stop_replica(self, line: Line) -> None:
        if line["delete"] and self.has:
            self._step(line, "cut", f"{self.node} was told to delete its replica.", "deleted")
            self.has = False

    def _become_leader(self, line: Line) -> None:
        where = "beyond this offset" if line["leo"] > self.offset else "not beyond this offset"
        text = f"{self.node} became leader in epoch {line['le']}, its log's end {line['leo']}, {where}."
        self.leaderships.append((line["le"], self._made(line, "election", text, f"leader, epoch {line['le']}")))

    def _election(self, line: Line) -> None:
        leader = line["leader"]
        chosen = "nobody" if leader in (None, -1) else self.names.get(leader, str(leader))
        self.elections[line["le"]] = f"{self.node}, the controller, chose {chosen} ({line['reason']})"

    def _isr_commit(self, line: Line) -> None:
        text = f"The committed ISR is {listed(self._names(line['isr']))} in epoch {line['le']}, says {self.node}."
        self.isrs.append((line["pe"], self._made(line, "isr", text, "ISR " + ",".join(map(str, line["isr"])))))

    def _names(self, brokers: Iterable[int]) -> list[str]:
        return [self.names.get(broker, str(broker)) for broker in brokers]

    def _first(self, what: str) -> bool:
        if what in self._said:
            return False
        self._said.add(what)
        return True

    def _step(self, line: Line, kind: str, text: str, label: str, to: str | None = None) -> None:
        self.steps.append(self._made(line, kind, text, label, to))

    def _made(self, line: Line, kind: str, text: str, label: str, to: str | None = None) -> Step:
        return Step(self._at_s(line), kind, (self.node,), text, label, to)

    def _at_s(self, line: Line) -> float:
        return float(line["m"] - self.shift_ns) / 1e9


_TAKEN: Mapping[str, Callable[[Replica, Line], None]] = {
    "append": Replica._append,
    "hw": Replica._hw,
    "ack": Replica._ack,
    "visible": Replica._visible,
    "flush": Replica._flush,
    "truncate": Replica._truncate,
    "recovered": Replica._recovered,
    "stop_replica": Replica._stop_replica,
    "become_leader": Replica._become_leader,
    "election": Replica._election,
    "isr_commit": Replica._isr_commit,
}
