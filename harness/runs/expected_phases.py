"""Which phases a run of a plan goes through when nothing goes wrong, for people who wait for its end.

Decides nothing about a run: what really happens stands in its history. Must not know what a phase does.
"""

from __future__ import annotations

from harness.operations.history import FINAL, HEAL, MAIN, SETUP, drain_phase
from harness.plan.extensions import WORKLOADS
from harness.plan.plan import Plan

ANALYSIS = "analysis"
"""No phase of the history, which is closed by then."""


def expected_phases(plan: Plan, *, judged: bool) -> list[str] | None:
    """Names in their order; None where another package's workload has a final phase that nobody here knows."""
    if plan.workload.kind not in WORKLOADS.own:
        return None
    leaders = [
        drain_phase(name) for name in ("current", *(f"n{broker}" for broker in range(1, plan.nodes.brokers + 1)))
    ]
    return [SETUP, MAIN, HEAL, FINAL, *leaders, *([ANALYSIS] if judged else [])]
