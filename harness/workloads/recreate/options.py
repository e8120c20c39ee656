"""`[workload.options]` of the workload `recreate`: names, limits and defaults (docs/run-files.md)."""

from __future__ import annotations

from dataclasses import dataclass

from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import threads_of
from harness.workloads.options import Allowed, Number, Whole, given_options

_ALLOWED: dict[str, Allowed] = {
    "topics": Whole(1, 8),
    "partitions": Whole(1, 20),
    "senders": Whole(1, 32),
    "readers": Whole(1, 32),
    "life_s": Number(0.5, 3600),
    "former": Number(0, 0.9),
}


@dataclass(frozen=True, slots=True)
class Options:
    """topics: how many are deleted and made anew; partitions: of each. senders, readers: processes that use them,
    beside those of the load. life_s: how long one lives, on average, before it is deleted. former: share of polls that
    ask for the topic that had the name before.
    """

    topics: int = 2
    partitions: int = 2
    senders: int = 2
    readers: int = 3
    life_s: float = 6.0
    former: float = 0.1


def options_of(plan: Plan) -> Options:
    """Raises PlanError by the run file's line."""
    return Options(**given_options(plan, _ALLOWED))


def topic_name(plan: Plan, nth: int) -> str:
    """Of a topic that is made anew, from 0 on."""
    return f"{plan.topic.name}-anew{nth}"


def first_administrator(plan: Plan) -> int:
    """The threads before it are append-poll's; each topic has one from here on, then come senders, then readers."""
    return threads_of(plan.workload)
