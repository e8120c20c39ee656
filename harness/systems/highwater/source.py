"""Which broker code a run uses: the run file's `[system] source`, or the installed package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError


def broker_source(plan: Plan | None) -> Path:
    """The folder that holds the `broker` package to run; without a plan the installed one. Raises PlanError."""
    if plan is not None and plan.system.source is not None:
        folder = Path(plan.system.source).expanduser().resolve()
        if not (folder / "broker" / "cli.py").is_file():
            raise PlanError(f"system.source: {plan.system.source!r} holds no broker/cli.py (looked in {folder})")
        return folder
    found = importlib.util.find_spec("broker")
    if found is None or not found.submodule_search_locations:
        raise PlanError(f"system.source: not given, and {sys.executable} has no package `broker` installed")
    return Path(next(iter(found.submodule_search_locations))).resolve().parent
