"""A small finished run as its JSON files, with one counterexample: what the report's tests are made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FAULT = {
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
    "command": ["highwater", "test", "sample.toml"],
    "run_file": "sample.toml",
    "node_kind": "local",
    "system": {"kind": "highwater", "event_log": True, "settings": {"replica.lag.time.max.ms": 3000}},
    "nodes": [{"name": "n1", "role": "broker", "broker_id": 1, "address": "10.77.0.1"}],
    "topic": {"name": "hw", "partitions": 1, "replication_factor": 3},
    "workload": {"kind": "append-poll", "acks": "all"},
    "aborted": None,
    "finished": True,
}

RESULTS: dict[str, Any] = {
    "schema": 1,
    "verdict": "invalid",
    "sentence": "Invalid: 1 acknowledged record was lost.",
    "checkers": {
        "lost-write": {
            "verdict": "invalid",
            "family": "black-box",
            "title": "Lost write",
            "reasons": ["1 of 3 acknowledged records is gone."],
            "counts": {"acknowledged": 1234, "lost": 1},
            "measures": {},
            "witnesses": [
                {
                    "summary": "value 17 <m2> at hw-0 offset 2 was acknowledged and is gone",
                    "partition": "hw-0",
                    "from_ns": 1_000_000_000,
                    "to_ns": 5_000_000_000,
                    "faults": [1],
                    "operations": [{"f": "send", "type": "ok", "values": [17]}],
                    "evidence": [{"broker": 3, "leo": 2}],
                }
            ],
            "allowed": None,
        },
        "fabricated-value": {
            "verdict": "valid",
            "family": "black-box",
            "title": "Fabricated value",
            "reasons": [],
            "counts": {"polled": 3},
            "measures": {"worst_ms": 12.5},
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
    "coverage": {"met": False, "missing": ["no lag shrink"], "lowered": {}, "figures": {"acknowledged": 1234}},
    "faults": [FAULT],
    "analysis": {"seconds": 3.2, "operations": 99, "evidence_nodes": ["n1"], "spark": "4.0.1"},
}

SERIES: dict[str, Any] = {
    "duration_ns": 6_000_000_000,
    "rate": [{"second": s, "f": "send", "ok": 10 + s, "fail": 0, "info": s % 2} for s in range(6)],
    "latency": [
        {"second": s, "f": "send", "p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3.0, "max_ms": 9.0} for s in range(6)
    ],
    "latency_points": [{"t_s": s / 10, "f": "send", "ms": 1.0 + s % 7, "outcome": "ok"} for s in range(60)],
    "partitions": {
        "hw-0": {
            "hw": [[0.1, 1, 0], [1.0, 1, 3], [4.5, 3, 2]],
            "leo": [[0.1, 1, 0], [0.9, 1, 3], [4.5, 3, 2]],
            "isr": [[0.1, [1, 2, 3]], [3.0, [2, 3]]],
            "leader": [[0.1, 1, 0], [2.5, 2, 1]],
        }
    },
    "clock": [{"node": "n1", "points": [[0.1, 0.0], [3.0, 5000.0]]}],
    "faults": [FAULT],
}


def write_sample_run(folder: Path) -> Path:
    """Write run.json, results.json and series.json into folder and return it."""
    for name, value in (("run", RUN), ("results", RESULTS), ("series", SERIES)):
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder
