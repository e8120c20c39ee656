"""`[workload.options]` of the workload `real-clients`: what the applications promise, and how patient they are."""

from __future__ import annotations

from dataclasses import dataclass

from harness.clients.java.program import VERSIONS
from harness.plan.plan import Plan
from harness.workloads.options import Allowed, Number, OneOf, Whole, given_options

AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE = "at-most-once", "at-least-once", "exactly-once"
PROMISES = (AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE)
CONFLUENT, JAVA, MIXED = "confluent", "java", "mixed"
CLIENTS = (CONFLUENT, JAVA, MIXED)
RANGE, COOPERATIVE = "range", "cooperative-sticky"
SYNC, ASYNC = "sync", "async"
DYNAMIC, STATIC = "dynamic", "static"

_ALLOWED: dict[str, Allowed] = {
    "promise": OneOf(PROMISES),
    "client": OneOf(CLIENTS),
    "java_client": OneOf(VERSIONS),
    "assignor": OneOf((RANGE, COOPERATIVE)),
    "commits": OneOf((SYNC, ASYNC)),
    "membership": OneOf((DYNAMIC, STATIC)),
    "session_timeout_ms": Whole(1000, 60_000),
    "max_poll_interval_ms": Whole(1000, 600_000),
    "delivery_timeout_ms": Whole(1000, 600_000),
    "stall": Number(0, 1),
    "life_s": Number(1, 3600),
}


@dataclass(frozen=True, slots=True)
class Options:
    """promise: what becomes of each record in the end. delivery_timeout_ms: after which a producer gives a record up.

    client: `mixed` has producers and members of both libraries in turn, the Java client the odd ones. java_client: its
    version. assignor: of the members; `cooperative-sticky` rebalances cooperatively. commits: whether a
    member waits for them. membership: `static` members keep their place while they are away for less than a session
    (KIP-345).
    stall: share of a member's lives in which it polls so late that its group goes on without it. life_s: how long a
    member lives on average before it closes, and begins anew.
    """

    promise: str = AT_LEAST_ONCE
    client: str = CONFLUENT
    java_client: str = VERSIONS[0]
    assignor: str = RANGE
    commits: str = SYNC
    membership: str = DYNAMIC
    session_timeout_ms: int = 3000
    max_poll_interval_ms: int = 4000
    delivery_timeout_ms: int = 10_000
    stall: float = 0.3
    life_s: float = 12.0

    @property
    def cooperative(self) -> bool:
        """Whether members keep what they have through a rebalance."""
        return self.assignor == COOPERATIVE

    @property
    def any_java(self) -> bool:
        """Whether the Java client takes part."""
        return self.client != CONFLUENT

    def is_java(self, number: int) -> bool:
        """Whether the producer, or the member, of that number is the Java client."""
        return self.client == JAVA or (self.client == MIXED and number % 2 == 1)


def options_of(plan: Plan) -> Options:
    """Raises PlanError by the run file's line."""
    return Options(**given_options(plan, _ALLOWED))
