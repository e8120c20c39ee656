"""Operations of Jepsen's Kafka workload: read from a file, each checked, and paired with its completion.

Decides what a history is, and says of one that is none where and why: the file, the line, the operation, what stands
there and what should. Must not know what becomes of it. Source: jepsen.tests.kafka, docs/jepsen.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.exchange.edn import EdnError, Form, Keyword, Tagged, is_vector, read_elements, read_forms, to_edn

TYPES = ("invoke", "ok", "fail", "info")
MICRO = frozenset({"send", "poll", "txn"})
"""Values of `f` whose operations consist of micro-operations."""
SUBSCRIBES = frozenset({"assign", "subscribe"})
OTHERS = frozenset({"crash", "debug-topic-partitions"})
FUNCTIONS = (*sorted(MICRO), *sorted(SUBSCRIBES), *sorted(OTHERS))
NEMESIS = "nemesis"
_OWN = ("index", "process", "type", "f", "value", "time")
INT64 = 1 << 63
_SHOWN = 120


class ForeignHistoryError(Exception):
    """A file that is no history of this workload; the text names the file, the line, and what would be right."""


@dataclass(frozen=True, slots=True)
class Send:
    """offset: None where it is not known."""

    key: int
    value: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """What one poll returned: (offset, value) of each key, in order; value None where it could not be read."""

    records: Mapping[int, Sequence[tuple[int, int | None]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One line of a history. micro: of `send`, `poll` and `txn` alone; keys: of `assign` and `subscribe`. process:
    None of the nemesis and of others that are no client. extra: fields that say nothing to this program.
    """

    index: int
    process: int | None
    type: str
    f: str
    time_ns: int
    line: int
    micro: Sequence[Send | Poll] = ()
    keys: Sequence[int] = ()
    value: object = None
    from_beginning: bool = False
    rebalanced: frozenset[int] = frozenset()
    error: str | None = None
    process_name: object = None
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForeignHistory:
    """Operations in the order of the file; completion: position of an invocation → that of its completion."""

    operations: Sequence[Operation]
    completion: Mapping[int, int]


def read_history(path: Path) -> ForeignHistory:
    """EDN or JSON, by what stands in the file: one operation a line, or one vector. Raises ForeignHistoryError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ForeignHistoryError(f"{path}: not text in UTF-8 (byte {error.start}): should be EDN or JSON") from None
    except OSError as error:
        raise ForeignHistoryError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        forms = list(_json(text) if _is_json(text) else _edn(text))
    except EdnError as error:
        raise ForeignHistoryError(f"{path}: line {error.line}: {error}") from None
    if not forms:
        raise ForeignHistoryError(f"{path}: no operation in it: should be a history of Jepsen's Kafka workload")
    reader = _Checked(path)
    with_index = isinstance(forms[0].value, dict) and "index" in forms[0].value
    operations = [reader.operation(form, nth, with_index=with_index) for nth, form in enumerate(forms)]
    return ForeignHistory(operations, reader.completion)


_JSON_BEGINS = re.compile(r'\s*\[?\s*\{\s*("[^"]*"\s*:|\})|\s*\[\s*\]')


def _is_json(text: str) -> bool:
    return _JSON_BEGINS.match(text) is not None


def _edn(text: str) -> Iterator[Form]:
    """Records print as tagged maps."""
    for form in read_elements(text) if is_vector(text) else read_forms(text):
        value = form.value
        yield Form(value.value if isinstance(value, Tagged) and isinstance(value.value, dict) else value, form.line)


def _json(text: str) -> Iterator[Form]:
    """An array as a whole, whose elements have no line of their own, or one object a line. Raises EdnError."""
    if text.lstrip()[:1] == "[":
        operations = _parsed(text, 1)
        assert isinstance(operations, list)
        yield from (Form(value, 0) for value in operations)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield Form(_parsed(line, number), number)


def _parsed(text: str, line: int) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        raise EdnError(line + error.lineno - 1, f"not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise EdnError(line, f"not JSON: {error}") from None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for nth, (name, _) in enumerate(pairs) if name in dict(pairs[:nth]))
        raise ValueError(f"an object names {twice!r} twice")
    return found


class _Checked:
    """Operations one after the other, against those before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[int, tuple[int, Operation]] = {}
        self._sent: dict[tuple[int, int], Operation] = {}
        self.completion: dict[int, int] = {}

    def operation(self, form: Form, nth: int, *, with_index: bool) -> Operation:
        """The operation at a position. Raises ForeignHistoryError."""
        where = f"{self._path}: line {form.line}: operation {nth}" if form.line else f"{self._path}: operation {nth}"
        try:
            operation = _operation(form, nth, with_index=with_index)
            self._pair(operation, nth)
        except _Wrong as wrong:
            raise ForeignHistoryError(f"{where}: {wrong}") from None
        return operation

    def _pair(self, operation: Operation, nth: int) -> None:
        if operation.process is None:
            return
        before = self._open.pop(operation.process, None)
        if operation.type == "invoke":
            if before is not None:
                raise _Wrong(
                    f"process {operation.process} invokes :{operation.f}, while its :{before[1].f} of operation "
                    f"{before[0]} is open: should be completed by then, for a process does one thing at a time"
                )
            self._open[operation.process] = (nth, operation)
            self._unsent(operation)
            return
        if before is None:
            raise _Wrong(
                f":{operation.type} of process {operation.process}, which has no open operation: should follow its "
                ":invoke"
            )
        position, invoked = before
        if invoked.f != operation.f:
            raise _Wrong(
                f":f :{operation.f}, should be :{invoked.f}, which process {operation.process} invoked in operation "
                f"{position}"
            )
        if operation.time_ns < invoked.time_ns:
            raise _Wrong(f":time {operation.time_ns}, should be at least {invoked.time_ns}, when it was invoked")
        if operation.f in MICRO:
            _same(invoked, operation)
        self.completion[position] = nth

    def _unsent(self, operation: Operation) -> None:
        for micro in operation.micro:
            if isinstance(micro, Send):
                first = self._sent.setdefault((micro.key, micro.value), operation)
                if first is not operation or sum(_alike(micro, other) for other in operation.micro) > 1:
                    raise _Wrong(
                        f"value {micro.value} of key {micro.key} was sent before, by the operation with index "
                        f"{first.index}: should be a value of its own"
                    )


def _alike(micro: Send, other: Send | Poll) -> bool:
    return isinstance(other, Send) and (other.key, other.value) == (micro.key, micro.value)


class _Wrong(Exception):
    """What is wrong with an operation."""


def _operation(form: Form, nth: int, *, with_index: bool) -> Operation:
    raw = form.value
    if not isinstance(raw, dict):
        raise _Wrong(f"{_shown(raw)}, should be a map such as {{:type :invoke, :f :poll, …}}")
    fields: dict[str, object] = {str(name): value for name, value in raw.items()}
    index = nth
    if with_index:
        index = _whole(fields, "index", 0)
        if index != nth:
            more = "it stands there twice, or operations are missing" if index < nth else "operations are missing"
            raise _Wrong(f":index {index}, should be {nth}: {more}")
    elif "index" in fields:
        raise _Wrong(f":index {_shown(fields['index'])}, though the first operation has none: should be in all or none")
    kind, f = _name(fields, "type"), _name(fields, "f")
    if kind not in TYPES:
        raise _Wrong(f":type {_shown(fields['type'])}, should be one of {_listed(TYPES)}")
    time_ns = _whole(fields, "time", 0)
    if "process" not in fields:
        raise _Wrong("no :process, should be a whole number from 0, or :nemesis")
    process = fields["process"]
    extra = {name: value for name, value in fields.items() if name not in _OWN}
    if isinstance(process, str):
        if kind != "info":
            raise _Wrong(f":type :{kind} of process :{process}, should be :info, for it is no client")
        return Operation(
            index, None, kind, f, time_ns, form.line, value=fields.get("value"), process_name=process, extra=extra
        )
    number = _whole(fields, "process", 0)
    if f not in FUNCTIONS:
        raise _Wrong(f":f {_shown(fields['f'])} of a client, should be one of {_listed(FUNCTIONS)}")
    value = fields.get("value")
    return Operation(
        index,
        number,
        kind,
        f,
        time_ns,
        form.line,
        micro=_micro(f, kind, value) if f in MICRO else (),
        keys=_keys(value, ":value") if f in SUBSCRIBES and (value is not None or kind == "invoke") else (),
        value=value,
        from_beginning=fields.get("seek-to-beginning?") is True,
        rebalanced=_rebalanced(fields.get("rebalance-log")),
        error=None if fields.get("error") is None else _said(fields["error"]),
        extra=extra,
    )


def _said(error: object) -> str:
    return error if isinstance(error, str) else to_edn(error)


def _name(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _Wrong(
            f"no :{name}, should be a keyword" if value is None else f":{name} {_shown(value)}, should be a keyword"
        )
    return str(value).removeprefix(":")


def _whole(fields: Mapping[str, object], name: str, least: int) -> int:
    value = fields.get(name)
    if value is None:
        raise _Wrong(f"no :{name}, should be a whole number from {least}")
    return _number(value, f":{name}", least)


def _number(value: object, what: str, least: int = -INT64) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not max(least, -INT64) <= value < INT64:
        bound = f" from {least}" if least > -INT64 else ""
        raise _Wrong(f"{what} {_shown(value)}, should be a whole number{bound} of 64 bits")
    return value


def _keys(value: object, what: str) -> Sequence[int]:
    if not isinstance(value, list):
        raise _Wrong(f"{what} {_shown(value)}, should be a vector of keys")
    return [_number(one, "key") for one in value]


def _rebalanced(log: object) -> frozenset[int]:
    if log is None:
        return frozenset()
    if not isinstance(log, list) or not all(isinstance(event, dict) for event in log):
        raise _Wrong(f":rebalance-log {_shown(log)}, should be a vector of maps with :keys")
    return frozenset(key for event in log for key in _keys(event.get("keys") or [], "rebalanced :keys"))


def _micro(f: str, kind: str, value: object) -> Sequence[Send | Poll]:
    if value is None and kind in ("fail", "info"):
        return ()
    if not isinstance(value, list):
        raise _Wrong(f":value {_shown(value)}, should be a vector of [:send k v] and [:poll]")
    micro = [_micro_operation(one, done=kind != "invoke") for one in value]
    wrong = {"send": Poll, "poll": Send}.get(f)
    if wrong is not None and any(isinstance(one, wrong) for one in micro):
        other = "poll" if f == "send" else "send"
        raise _Wrong(f":value {_shown(value)}, should hold no [:{other} …], for :f is :{f}")
    return micro


def _micro_operation(value: object, *, done: bool) -> Send | Poll:
    name = str(value[0]).removeprefix(":") if isinstance(value, list) and value and isinstance(value[0], str) else None
    if isinstance(value, list) and name == "send" and len(value) == 3:
        return _send(value, done=done)
    if isinstance(value, list) and name == "poll" and len(value) == 1:
        return Poll()
    if isinstance(value, list) and name == "poll" and len(value) == 2 and done:
        return _poll(value[1])
    right = "[:send k [offset v]] or [:poll {k [[offset v] …]}]" if done else "[:send k v] or [:poll]"
    raise _Wrong(f"micro-operation {_shown(value)}, should be {right}")


def _send(value: list[object], *, done: bool) -> Send:
    key, sent = _number(value[1], "key"), value[2]
    if not isinstance(sent, list):
        return Send(key, _number(sent, f"value of key {key}"))
    if not done or len(sent) != 2:
        right = f"[:send {key} [offset v]]" if done else f"[:send {key} v]"
        raise _Wrong(f"micro-operation {_shown(value)}, should be {right}")
    offset = None if sent[0] is None else _number(sent[0], f"offset of key {key}", 0)
    return Send(key, _number(sent[1], f"value of key {key}"), offset)


def _poll(value: object) -> Poll:
    if not isinstance(value, dict):
        raise _Wrong(f"result of a poll {_shown(value)}, should be a map {{k [[offset v] …]}}")
    records: dict[int, Sequence[tuple[int, int | None]]] = {}
    for name, pairs in value.items():
        # In JSON the keys of an object are texts.
        text = isinstance(name, str) and not isinstance(name, Keyword) and re.fullmatch(r"-?\d{1,19}", name)
        key = _number(int(str(name)) if text else name, "key")
        if not isinstance(pairs, list):
            raise _Wrong(f"records of key {key} {_shown(pairs)}, should be a vector [[offset v] …]")
        records[key] = [_record(pair, key) for pair in pairs]
    return Poll(records)


def _record(pair: object, key: int) -> tuple[int, int | None]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise _Wrong(f"record of key {key} {_shown(pair)}, should be [offset v]")
    value = None if pair[1] is None else _number(pair[1], f"value of key {key}")
    return _number(pair[0], f"offset of key {key}", 0), value


def _same(invoked: Operation, completed: Operation) -> None:
    """A completion repeats what was invoked, or says nothing of it. Raises _Wrong."""
    if completed.micro == () and completed.type != "ok":
        return
    asked = [None if isinstance(one, Poll) else (one.key, one.value) for one in invoked.micro]
    done = [None if isinstance(one, Poll) else (one.key, one.value) for one in completed.micro]
    if asked != done:
        raise _Wrong(
            f":value {_shown(completed.value)}, should complete the micro-operations {_shown(invoked.value)} of the "
            f"operation with index {invoked.index}, in their order"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f":{name}" for name in names)


def _shown(value: object) -> str:
    try:
        text = to_edn(value)
    except TypeError:
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
