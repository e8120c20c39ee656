"""`[workload.options]` of the workload `groups`: how many groups there are, and how their members are set up."""

from __future__ import annotations

from dataclasses import dataclass

from harness.plan.plan import Plan
from harness.workloads.options import Allowed, Whole, given_options

GROUPS, SESSION_MS, REBALANCE_MS = 2, 3000, 4000

READERS = 2
"""Consumers of no group, who read, and ask where the log ends, as those of append-poll do."""


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """groups: each of `consumers` members. Times in ms, as JoinGroup has them."""

    groups: int = GROUPS
    session_timeout_ms: int = SESSION_MS
    rebalance_timeout_ms: int = REBALANCE_MS


_ALLOWED: dict[str, Allowed] = {
    "groups": Whole(1, 16),
    "session_timeout_ms": Whole(500, 60_000),
    "rebalance_timeout_ms": Whole(500, 60_000),
}


def options_of(plan: Plan) -> GroupOptions:
    """Raises PlanError for options that there are not, and for values that make no group."""
    return GroupOptions(**given_options(plan, _ALLOWED))


def group_name(nth: int) -> str:
    """Groups are g0, g1, …"""
    return f"g{nth}"


@dataclass(frozen=True, slots=True)
class Threads:
    """Which threads do what: producers from 0 on, then readers, then members, group by group."""

    producers: int
    readers: int
    members: int

    @property
    def first_member(self) -> int:
        """The first thread that is a member."""
        return self.producers + self.readers

    @property
    def count(self) -> int:
        """All of them."""
        return self.first_member + self.members


def threads_of(plan: Plan) -> Threads:
    """The threads of a run."""
    return Threads(plan.workload.producers, READERS, options_of(plan).groups * plan.workload.consumers)
