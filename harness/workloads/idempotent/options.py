"""`[workload.options]` of the workload `idempotent`: names, limits and defaults (docs/run-files.md)."""

from __future__ import annotations

from dataclasses import dataclass

from harness.plan.plan import Plan
from harness.workloads.options import Allowed, Number, Whole, given_options

IN_FLIGHT_MAX = 5
"""Of how many batches a broker remembers the offsets; Kafka's producer sends no more at once."""

_ALLOWED: dict[str, Allowed] = {
    "in_flight": Whole(1, IN_FLIGHT_MAX),
    "on_purpose": Number(0, 0.5),
    "give_up_s": Number(1, 3600),
}


@dataclass(frozen=True, slots=True)
class Options:
    """in_flight: requests of one producer that may be under way. on_purpose: share of requests that repeat what is
    acknowledged, or must be refused. give_up_s: after how long without an acknowledgement a producer takes another
    identity.
    """

    in_flight: int = 5
    on_purpose: float = 0.08
    give_up_s: float = 12.0


def options_of(plan: Plan) -> Options:
    """Raises PlanError by the run file's line."""
    return Options(**given_options(plan, _ALLOWED))
