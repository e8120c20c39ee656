"""`[workload.options]` of the workload `admin`: names, limits and defaults (docs/run-files.md)."""

from __future__ import annotations

from dataclasses import dataclass

from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import threads_of
from harness.workloads.options import Allowed, Whole, given_options

CONFIGS = ("retention.ms", "segment.bytes")
"""Settings that are changed: each takes any whole number from SETTINGS_FROM on, and changes nothing of an empty log."""
SETTINGS_FROM = 1_000_000

_ALLOWED: dict[str, Allowed] = {
    "administrators": Whole(1, 32),
    "topics": Whole(1, 8),
    "partitions_first": Whole(1, 100),
    "partitions_most": Whole(2, 200),
}


@dataclass(frozen=True, slots=True)
class Options:
    """administrators: processes beside those of the load. topics: of theirs. partitions_first, partitions_most: of each
    of these topics, at the beginning, and at most.
    """

    administrators: int = 4
    topics: int = 2
    partitions_first: int = 2
    partitions_most: int = 40


def options_of(plan: Plan) -> Options:
    """Raises PlanError by the run file's line."""
    return Options(**given_options(plan, _ALLOWED))


def topic_name(plan: Plan, nth: int) -> str:
    """Of an administrators' topic, from 0 on."""
    return f"{plan.topic.name}-admin{nth}"


def first_administrator(plan: Plan) -> int:
    """The threads before it are append-poll's."""
    return threads_of(plan.workload)
