"""Workloads: what clients do in a run, and what of it is judged.

A workload is one folder (generator, client, final phase, the names of its checkers, its options) with one line of
registration (`harness.plan.extensions`). Takes addresses from the system; operations go to the history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from harness.plan.extensions import WORKLOADS
from harness.plan.plan import Plan
from harness.workloads.base import PlanChecked, Prepared, Remaking, WorkloadKind


def workload_kind(name: str) -> WorkloadKind:
    """The workload that `[workload] kind` names. Raises PlanError when no such workload is installed."""
    return cast(Callable[[], WorkloadKind], WORKLOADS.load(name))()


def checkers_of(plan: Plan) -> Sequence[str]:
    """Names of the checkers that judge what this plan's clients see."""
    kind = workload_kind(plan.workload.kind)
    return kind.checkers_of(plan) if isinstance(kind, PlanChecked) else kind.checkers


def remade_topics(plan: Plan) -> Sequence[str]:
    """Names of the topics that this plan's clients delete and make anew."""
    kind = workload_kind(plan.workload.kind)
    return kind.remade_topics(plan) if isinstance(kind, Remaking) else ()


def prepared(plan: Plan) -> Mapping[str, str]:
    """Versions of the programs that this plan's clients are, beside the lab's own, once they are at hand. Raises
    PlanError.
    """
    kind = workload_kind(plan.workload.kind)
    return kind.prepare(plan) if isinstance(kind, Prepared) else {}
