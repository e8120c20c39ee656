"""`[workload.options]` of the workload `real-clients`: what the applications promise, and how patient they are."""

from __future__ import annotations

from dataclasses import dataclass

from harness.plan.plan import Plan
from harness.workloads.options import Allowed, Number, OneOf, Whole, given_options

AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE = "at-most-once", "at-least-once", "exactly-once"
PROMISES = (AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE)

_ALLOWED: dict[str, Allowed] = {
    "promise": OneOf(PROMISES),
    "session_timeout_ms": Whole(1000, 60_000),
    "max_poll_interval_ms": Whole(1000, 600_000),
    "delivery_timeout_ms": Whole(1000, 600_000),
    "stall": Number(0, 1),
    "life_s": Number(1, 3600),
}


@dataclass(frozen=True, slots=True)
class Options:
    """promise: what becomes of each record in the end. delivery_timeout_ms: after which a producer gives a record up.

    stall: share of a member's lives in which it polls so late that its group goes on without it. life_s: how long a
    member lives on average before it closes, and begins anew.
    """

    promise: str = AT_LEAST_ONCE
    session_timeout_ms: int = 3000
    max_poll_interval_ms: int = 4000
    delivery_timeout_ms: int = 10_000
    stall: float = 0.3
    life_s: float = 12.0


def options_of(plan: Plan) -> Options:
    """Raises PlanError by the run file's line."""
    return Options(**given_options(plan, _ALLOWED))
