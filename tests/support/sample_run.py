"""A small finished run as its JSON files, with one lost record: what the tests of report and `explain` are made from.

Broker 1 led, appended value 17 (the script's m2) at offset 2 of hw-0, acknowledged it and was killed; broker 2, which
had not copied it, became leader, and the others cut it off.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FAULT: dict[str, Any] = {
    "fault_id": 1,
    "fault": "kill",
    "family": "process",
    "effects": ["stops-process"],
    "targets": ["n1"],
    "start_ns": 2_000_000_000,
    "stop_ns": 4_000_000_000,
    "observed": True,
    "observation": "pid 4711 is gone",
}

RUN: dict[str, Any] = {
    "schema": 1,
    "name": "sample",
    "seed": 7,
    "highwater_version": "0.1.0",
    "code": "a2d5e3bbd842",
    "versions": {"python": "3.11.7", "kernel": "6.1", "java": "17"},
    "started_wall_ns": 1_700_000_000_000_000_000,
    "command": ["highwater", "test", "sample.toml"],
    "run_file": "sample.toml",
    "node_kind": "local",
    "system": {"kind": "highwater", "event_log": True, "settings": {"replica.lag.time.max.ms": 3000}},
    "nodes": [
        *({"name": f"n{n}", "role": "broker", "broker_id": n, "address": f"10.77.0.{n}"} for n in (1, 2, 3)),
        {"name": "zk1", "role": "zookeeper", "broker_id": None, "address": "10.77.0.101"},
    ],
    "topic": {"name": "hw", "partitions": 1, "replication_factor": 3},
    "workload": {"kind": "append-poll", "acks": "all"},
    "aborted": None,
    "finished": True,
}

_OF_HW_0 = {"kind": "client", "topic": "hw", "partition": 0}
OPERATIONS: list[dict[str, Any]] = [
    {"index": 40, "time_ns": 1_000_000_000, "type": "invoke", "process": 3, "f": "send", "phase": "main", "node": "n1"}
    | {"values": [17], "acks": -1, **_OF_HW_0},
    {"index": 41, "time_ns": 1_012_000_000, "type": "ok", "invoke": 40, "process": 3, "f": "send", "phase": "main"}
    | {"node": "n1", "base_offset": 2, **_OF_HW_0},
    {"index": 90, "time_ns": 4_990_000_000, "type": "invoke", "process": 1_000_000_000, "f": "poll", **_OF_HW_0}
    | {"phase": "drain-n2", "node": "n2", "position": 0, "leader_epoch": 1, "reader": "wire"},
    {
        "index": 91,
        "time_ns": 5_000_000_000,
        "type": "ok",
        "invoke": 90,
        "process": 1_000_000_000,
        "f": "poll",
        **_OF_HW_0,
    }
    | {"phase": "drain-n2", "node": "n2", "next_position": 3, "hw": 3}
    | {"records": [{"offset": o, "value": v, "epoch": 0, "intact": True} for o, v in ((0, 15), (1, 16), (2, 99))]},
]
EVIDENCE: list[dict[str, Any]] = [
    {"node": "n1", "log_end": 2},
    {"node": "n2", "log_end": 3, "base": 2, "last": 2, "epoch": 1, "value": 99, "file": "0.log", "file_position": 140},
]


def witness(summary: str, **said: Any) -> dict[str, Any]:
    """A witness of the lost record, as results.json has it."""
    return {
        "summary": summary,
        "kind": "invalid",
        "partition": "hw-0",
        "offset": 2,
        "value": 17,
        "from_ns": 1_000_000_000,
        "to_ns": 5_000_000_000,
        "faults": [1],
        "operations": OPERATIONS,
        "evidence": EVIDENCE,
        **said,
    }


RESULTS: dict[str, Any] = {
    "schema": 1,
    "verdict": "invalid",
    "sentence": "Invalid: 1 acknowledged record lost; found by lost-write, in 1,234 acknowledged records.",
    "names": {"17": "m2"},
    "checkers": {
        "lost-write": {
            "verdict": "invalid",
            "family": "black-box",
            "title": "Lost write",
            "reasons": ["1 of 3 acknowledged records is gone."],
            "counts": {"acknowledged": 1234, "lost": 1},
            "measures": {},
            "witnesses": [witness("value 17 <m2> at hw-0 offset 2 was acknowledged and is gone")],
            "allowed": None,
        },
        "leader-completeness": {
            "verdict": "invalid",
            "family": "white-box",
            "title": "A new leader holds all that was exposed",
            "reasons": ["broker 2 led without offset 2"],
            "counts": {"leaderships": 2, "found": 1},
            "measures": {},
            "witnesses": [
                witness("broker 2 led without offset 2", value=None, operations=[], from_ns=None, to_ns=2_500_000_000)
            ],
            "allowed": None,
        },
        "availability": {
            "verdict": "valid",
            "family": "black-box",
            "title": "Availability (measured)",
            "reasons": [],
            "counts": {"acknowledged": 3, "sends": 4, "found": 0},
            "measures": {"worst_ms": 3900.282},
            "witnesses": [],
            "allowed": None,
        },
    },
    "durability": [
        {
            "partition": "hw-0",
            "acknowledged": 1234,
            "read": 1233,
            "lost": 1,
            "gone": 0,
            "unseen": 0,
            "unknown_sends": 2,
            "recovered_unknown": 1,
        }
    ],
    "linearizability": {"verdict": "invalid", "checked": ["order"], "not_checked": ["admin"], "witnesses": []},
    "coverage": {
        "met": False,
        "missing": ["no lag shrink"],
        "lowered": {},
        "figures": {"acknowledged": 1234, "lag_shrinks": 0},
    },
    "faults": [FAULT],
    "analysis": {"seconds": 3.2, "operations": 99, "evidence_nodes": ["n1"], "spark": "4.0.1"},
}

SERIES: dict[str, Any] = {
    "duration_ns": 6_000_000_000,
    "rate": [
        {"second": s, "f": f, "ok": 10 + s, "fail": 0, "info": s % 2}
        for s in range(6)
        for f in ("send", "poll", "join")
    ],
    "latency": [
        {"second": s, "f": f, "p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3.0, "max_ms": 9.0}
        for s in (0, 1, 4, 5)
        for f in ("send", "poll", "join")
    ],
    "latency_points": [
        {"t_s": s / 10, "f": "send", "ms": 1.0 + s % 7, "outcome": "info" if s == 25 else "ok"} for s in range(60)
    ],
    "partitions": {
        "hw-0": {
            "hw": [[0.1, 1, 0], [1.06, 1, 3], [2.9, 2, 3]],
            "leo": [
                *([0.1, broker, 0] for broker in (1, 2, 3)),
                *([0.95, broker, 2] for broker in (1, 2, 3)),
                *([1.05, 1, 3], [1.06, 3, 3], [2.6, 3, 2], [2.9, 2, 3], [3.1, 3, 3], [4.5, 1, 2], [4.6, 1, 3]),
            ],
            "isr": [[0.1, [1, 2, 3]], [2.5, [2, 3]], [4.7, [1, 2, 3]]],
            "leader": [[0.1, 1, 0], [2.5, 2, 1]],
        }
    },
    "clock": [{"node": "n1", "points": [[0.1, 0.0], [1.0, 0.0], [5.0, 5000.0]]}],
    "faults": [FAULT],
}


def write_sample_run(folder: Path, **changes: Any) -> Path:
    """Write run.json, results.json and series.json into folder and return it; changes: of results.json."""
    for name, value in (("run", RUN), ("results", {**RESULTS, **changes}), ("series", SERIES)):
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder
