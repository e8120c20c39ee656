"""How a made history begins and ends: phases and leaders, sentinels, their reads, what is lost behind them; pure.

A few rows at every size, as dicts by table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.checkers.planted import Anomaly
from benchmarks.checkers.shape import EPOCHS, PARTITIONS, READERS, ROUND_NS, TOPIC, Shape

Row = dict[str, Any]
_LATENCY_NS = 2_000_000


def rows_of(shape: Shape, anomalies: Iterable[Anomaly]) -> dict[str, list[Row]]:
    """Table → its rows, in the order of their lines."""
    tables: dict[str, list[Row]] = {"sends": [], "requests": [], "polls": [], "ops": [], "marks": list(_marks(shape))}
    begun = (shape.rounds + shape.poll_round(0)) * ROUND_NS
    for p in range(PARTITIONS):
        _send(tables, shape, p, shape.sentinel(p), shape.sentinel_value(p), shape.end, begun, "final")
    for reader in READERS[1:]:
        for p in range(PARTITIONS):
            _poll(tables, shape, p, reader)
    tail = [one for one in anomalies if one.kind == "truncated-tail"]
    assert len(tail) == 1, "the layout of lines has room for one"
    _send(tables, shape, tail[0].p, shape.extra, tail[0].foreign, shape.end + 1, begun + 2 * _LATENCY_NS, "final")
    return tables


def _send(
    tables: dict[str, list[Row]], shape: Shape, p: int, number: int, value: int, at: int, begun: int, phase: str
) -> None:
    row = {
        "op": shape.line(number),
        "process": 6000 + p,
        "phase": phase,
        "p": f"{TOPIC}-{p}",
        "node": shape.node(p, shape.epoch(shape.rounds)),
        "acks": -1,
        "sentinel": at == shape.end,
        "outcome": "ok",
        "error": None,
        "invoke_ns": begun,
        "complete_ns": begun + _LATENCY_NS,
    }
    of_value = {"value": value, "nth": 0, "of": 1, "offset": at, "in_order": False, "tombstone": False}
    tables["sends"].append({**row, **of_value})
    tables["ops"].append({**row, "f": "send", "n_values": 1, "base_offset": at})


def _poll(tables: dict[str, list[Row]], shape: Shape, p: int, reader: str) -> None:
    """Of a drain, that reads the sentinel."""
    wire = reader == "wire"
    begun = shape.drains_ns + ((0 if wire else shape.blocks + 2) + shape.blocks) * ROUND_NS
    epoch = shape.epoch(shape.rounds)
    op = {
        "op": shape.line(shape.drain(reader, p, shape.blocks)),
        "process": (2000 if wire else 3000) + p,
        "phase": "drain-current",
        "p": f"{TOPIC}-{p}",
        "node": shape.node(p, epoch),
        "invoke_ns": begun,
        "complete_ns": begun + _LATENCY_NS,
    }
    asked = {
        "reader": reader,
        "consumer": f"drain-{reader}-{p}",
        "isolation": 0,
        "leader_epoch": epoch if wire else -1,
    }
    ended = {"f": "poll", "outcome": "ok", "error": None}
    tables["ops"].append({**op, **ended, "sentinel": False, "n_values": 0})
    ends = {"hw": shape.end + 1, "lso": shape.end + 1, "log_start": 0}
    tables["requests"].append(
        {
            **op,
            **asked,
            **ended,
            **ends,
            **({} if wire else {"client_position": shape.end}),
            "position": shape.end,
            "next_position": shape.end + 1,
            "returned": 1,
            "in_range": 1,
            "first_offset": shape.end,
            "last_offset": shape.end,
            "ascending": True,
            "epochs_ascend": True,
            **({"highest_epoch": epoch} if wire else {}),
        }
    )
    record = {"nth": 0, "offset": shape.end, "value": shape.sentinel_value(p), "epoch": epoch if wire else -1}
    tables["polls"].append({**op, **asked, **record, "intact": True})


def _marks(shape: Shape) -> Iterator[Row]:
    """Phases, leaders, and what the drains say of themselves."""
    common = {"kind": "harness", "observed": False, "isolation": 0}
    yield {**common, "index": 0, "f": "phase", "phase": "main", "time_ns": 0}
    index = 1
    for epoch in range(EPOCHS):
        for p in range(PARTITIONS):
            at = shape.epoch_begins(epoch) * ROUND_NS
            led = {"p": f"{TOPIC}-{p}", "leader": shape.node(p, epoch), "epoch": epoch, "isr": [1, 2, 3]}
            yield {**common, **led, "index": index, "f": "leadership", "phase": "main", "time_ns": at}
            index += 1
    index = shape.line(shape.operations)
    for reader in READERS[1:]:
        for p in range(PARTITIONS):
            leader = shape.node(p, shape.epoch(shape.rounds))
            read = {"p": f"{TOPIC}-{p}", "reader": reader, "leader": leader, "start": 0, "end": shape.end + 1}
            over = {"f": "drain-complete", "phase": "drain-current", "time_ns": shape.over_ns}
            yield {**common, **read, **over, "index": index}
            index += 1
