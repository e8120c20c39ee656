"""`[workload.options]` of the workload `wide`: names, limits and defaults (docs/run-files.md)."""

from __future__ import annotations

from dataclasses import dataclass

from harness.plan.plan import Plan
from harness.workloads.options import Allowed, Number, Whole, given_options

_ALLOWED: dict[str, Allowed] = {
    "together": Number(0, 1),
    "sessions": Number(0, 1),
    "lookups": Number(0, 0.5),
    "acks_one": Number(0, 1),
    "deletions": Number(0, 0.5),
    "idempotent": Whole(0, 20),
    "busy_s": Number(0.1, 3600),
    "idle_s": Number(0, 3600),
    "follower_reads": Number(0, 1),
}


@dataclass(frozen=True, slots=True)
class Options:
    """together: share of sends that have batches for further partitions in their request. sessions: share of polling
    processes with a fetch session for each broker. follower_reads: share of polling processes that read from followers,
    without sessions. lookups: share of their operations that look an offset up by time. acks_one: share of sends with
    acks=1 where the run file has all. deletions: share of their operations that delete what lies below an offset.
    idempotent: how many producers with ids there are beside the others. busy_s, idle_s: how long the load goes on, and
    rests, in turn; with idle_s = 0 it never rests.
    """

    together: float = 0.5
    sessions: float = 0.5
    follower_reads: float = 0.0
    lookups: float = 0.05
    acks_one: float = 0.0
    deletions: float = 0.0
    idempotent: int = 0
    busy_s: float = 4.0
    idle_s: float = 0.0


def options_of(plan: Plan) -> Options:
    """Raises PlanError by the run file's line."""
    return Options(**given_options(plan, _ALLOWED))
