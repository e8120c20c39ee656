"""What a run's run.json says, for tests that are about a part of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from checkers.history.retention import Retention
from checkers.history.run_info import RunInfo

_INFO = RunInfo(
    name="x",
    topic="hw",
    partitions=("hw-0",),
    replication_factor=3,
    min_insync_replicas=2,
    unclean=False,
    system_kind="highwater",
    event_log=True,
    retention=Retention(),
    session_timeout_ms=6000,
    workload_acks="all",
    nodes=(),
    origin_monotonic_ns=0,
    origin_wall_ns=0,
    scripted=False,
    aborted=None,
    finished=True,
)


def run_info(**changes: Any) -> RunInfo:
    """A finished run of highwater with one partition, acks=all and no node; changes: fields of RunInfo."""
    return replace(_INFO, **changes)
