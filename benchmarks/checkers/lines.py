"""A made history as JSON lines, as the harness writes them: for sizes at which loading them is to be measured.

Made of the same columns as the tables. What it holds of the whole is one piece for each partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.checkers.chunks import Tables, tables_of
from benchmarks.checkers.closing import Row, rows_of
from benchmarks.checkers.planted import plan
from benchmarks.checkers.shape import PARTITIONS, READERS, TOPIC, Shape, Unit
from benchmarks.checkers.stored import arrow

_OF_POLL = ("position", "leader_epoch", "isolation", "reader", "consumer", "client_position", "timestamp")
_ANSWERED = ("next_position", "hw", "lso", "log_start", "leader_epoch_answered")


def write_lines(shape: Shape, path: Path) -> int:
    """The whole history; how many lines it has."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for line in history(shape):
            file.write(json.dumps({**line, "index": count}, separators=(",", ":")) + "\n")
            count += 1
    return count


def history(shape: Shape) -> Iterator[dict[str, Any]]:
    """Its lines, without `index`, in their order."""
    anomalies = plan(shape)
    closing = rows_of(shape, anomalies)
    marks = closing.pop("marks")
    yield from (_mark(row) for row in marks[: shape.head])
    load: dict[int, list[Unit]] = {}
    drains: list[Unit] = []
    for unit in shape.units():
        if unit.reader == "main":
            load.setdefault(unit.first, []).append(unit)
        else:
            drains.append(unit)
    for units in load.values():
        yield from _operations(tables_of(shape, unit, anomalies) for unit in units)
    extra = shape.line(shape.extra)
    yield from _operations([_only(closing, lambda row: row["phase"] == "final" and row["op"] != extra)])
    for reader in READERS[1:]:
        for p in range(PARTITIONS):
            of_this = [tables_of(shape, unit, anomalies) for unit in drains if (unit.reader, unit.p) == (reader, p)]
            name = f"drain-{reader}-{p}"
            sentinels = {row["op"] for row in closing["requests"] if row["consumer"] == name}
            yield from _operations([*of_this, _only(closing, lambda row: row["op"] in sentinels)])  # noqa: B023
    yield from _operations([_only(closing, lambda row: row["op"] == extra)])
    yield from (_mark(row) for row in marks[shape.head :])


def _only(tables: Mapping[str, list[Row]], wanted: Any) -> dict[str, list[Row]]:
    return {name: [row for row in rows if wanted(row)] for name, rows in tables.items()}


def _mark(row: Row) -> dict[str, Any]:
    line = {name: value for name, value in row.items() if value is not None and name not in ("p", "index", "observed")}
    return {"type": "info", "process": -2, **line, **(_place(row["p"]) if "p" in row else {})}


def _operations(pieces: Iterable[Tables | dict[str, list[Row]]]) -> Iterator[dict[str, Any]]:
    """Invocation and completion of each operation of these pieces, in order."""
    ops: list[Row] = []
    values: dict[int, list[int]] = {}
    records: dict[int, list[dict[str, Any]]] = {}
    requests: dict[int, Row] = {}
    for piece in pieces:
        tables = {name: _rows(rows) for name, rows in piece.items()}
        ops += tables["ops"]
        for row in tables.get("sends", ()):
            values.setdefault(row["op"], []).append(row["value"])
        for row in tables.get("polls", ()):
            record = {name: row[name] for name in ("offset", "value", "epoch", "intact")}
            records.setdefault(row["op"], []).append(record)
        requests |= {row["op"]: row for row in tables.get("requests", ())}
    for op in sorted(ops, key=lambda row: int(row["op"])):
        number = op["op"]
        common = {"kind": "client", **{name: op[name] for name in ("f", "process", "phase", "node")}, **_place(op["p"])}
        asked, answered = _request(requests[number], records) if number in requests else _send(op, values[number])
        yield _known({"type": "invoke", "time_ns": op["invoke_ns"], **common, **asked})
        ended = {"type": op["outcome"], "invoke": number, "time_ns": op["complete_ns"], "error": op["error"]}
        yield _known({**ended, **common, **answered})


def _rows(rows: Any) -> list[Row]:
    return rows if isinstance(rows, list) else arrow(rows).to_pylist()


def _send(op: Row, values: list[int]) -> tuple[Row, Row]:
    asked = {"values": values, "acks": op["acks"], "sentinel": op["sentinel"]}
    return asked, {"base_offset": op.get("base_offset")}


def _request(row: Row, records: Mapping[int, list[dict[str, Any]]]) -> tuple[Row, Row]:
    answered = {name: row.get(name) for name in _ANSWERED}
    if row["outcome"] == "ok":
        if row["f"] == "poll":
            answered["records"] = records.get(row["op"], [])
        else:
            answered["offset"] = row["end_offset"]
    return {name: row.get(name) for name in _OF_POLL}, answered


def _place(p: str) -> Row:
    return {"topic": TOPIC, "partition": int(p.rpartition("-")[2])}


def _known(line: Row) -> Row:
    return {name: value for name, value in line.items() if value is not None}
