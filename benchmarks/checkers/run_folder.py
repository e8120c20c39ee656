"""What `run.json` says of a made history: of clients alone, of a system without event logs."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.checkers.shape import PARTITIONS, TOPIC
from checkers.verdicts.catalogue import BLACK_BOX, DRAINS


def write_run(folder: Path, lines: int | None = None) -> None:
    """lines: of its history, where that is JSON lines."""
    run = {
        "schema": 1,
        "name": "bench-checkers",
        "topic": {"name": TOPIC, "partitions": PARTITIONS, "replication_factor": 3, "min_insync_replicas": 2},
        "system": {"kind": "made", "event_log": False},
        "workload": {"acks": "all"},
        "checkers": [spec.name for spec in (*BLACK_BOX, *DRAINS)],
        "fault_kinds": {},
        "finished": True,
        **({} if lines is None else {"lines": lines}),
    }
    (folder / "run.json").write_text(json.dumps(run, indent=1), encoding="utf-8")
