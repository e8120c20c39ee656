"""Refuses a plan whose workload or system, where another package brings it, names a checker that does not exist.

The checkers would refuse such a run too, but only once it is over. Which checkers there are, their program says
(`python -m checkers --list`): the lab imports nothing of theirs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

from harness.plan.extensions import SYSTEMS, WORKLOADS, Extensions
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError, did_you_mean
from harness.systems import system_kind
from harness.workloads import workload_kind


def installed_checkers() -> list[str]:
    """Names of the checkers that would judge a run now. Raises CalledProcessError; the reason is on stderr."""
    command = [sys.executable, "-m", "checkers", "--list"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def check_checker_names(plan: Plan, installed: Callable[[], Sequence[str]] = installed_checkers) -> None:
    """Raises PlanError. The names of this package's own workloads and systems are not looked up: a test holds them."""
    workload, system = plan.workload.kind, plan.system.kind
    _check(WORKLOADS, "workload", workload, lambda: workload_kind(workload).checkers, installed)
    _check(SYSTEMS, "system", system, lambda: system_kind(system).checkers, installed)


def _check(
    extensions: Extensions,
    section: str,
    kind: str,
    named: Callable[[], Sequence[str]],
    installed: Callable[[], Sequence[str]],
) -> None:
    point = extensions.outside(kind)
    if point is None:
        return
    known = installed()
    for name in named():
        if name not in known:
            package = point.value if point.dist is None else point.dist.name
            raise PlanError(
                f"{section}.kind: {kind!r} of {package} names a checker {name!r}, which does not exist"
                f"{did_you_mean(name, known)}; there are {', '.join(known)}"
            )
