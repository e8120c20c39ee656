"""What clients do in a run: one module per workload, by the name that run files use."""

from __future__ import annotations

from harness.plan.plan import Plan
from harness.workloads.append_poll.workload import AppendPoll
from harness.workloads.base import Workload


def make_workload(plan: Plan) -> Workload:
    """The workload that a run file asks for."""
    match plan.workload.kind:
        case "append-poll":
            return AppendPoll(plan)
        case kind:
            raise AssertionError(f"workload {kind!r} passed the run file's check but is not here")
