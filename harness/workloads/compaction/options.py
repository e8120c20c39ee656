"""`[workload.options]` of the workload `compaction`: names, limits and defaults (docs/run-files.md)."""

from __future__ import annotations

from dataclasses import dataclass

from harness.plan.plan import Plan
from harness.workloads.options import Allowed, Number, Whole, given_options

_ALLOWED: dict[str, Allowed] = {
    "keys": Whole(1, 1_000_000),
    "tombstones": Number(0, 1),
    "settle_s": Number(0, 600),
}


@dataclass(frozen=True, slots=True)
class Options:
    """keys: of each partition. tombstones: share of records that delete their key. settle_s: how long the cleaners have
    after the load, before everything is read.
    """

    keys: int = 40
    tombstones: float = 0.15
    settle_s: float = 5.0


def options_of(plan: Plan) -> Options:
    """Raises PlanError by the run file's line."""
    return Options(**given_options(plan, _ALLOWED))
