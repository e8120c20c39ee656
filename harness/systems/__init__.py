"""Systems under test: what starts, stops and describes them on a run's nodes, and the copies of what they leave.

A system is one implementation of `base.SystemKind`, a folder or file with one line of registration
(`harness.plan.extensions`). Uses nodes and the plan; hands addresses to the workload, a view to the nemesis, and files
to the run's evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from harness.plan.extensions import SYSTEMS
from harness.systems.base import SystemKind


def system_kind(name: str) -> SystemKind:
    """The system that `[system] kind` names. Raises PlanError when no such system is installed."""
    return cast(Callable[[], SystemKind], SYSTEMS.load(name))()
