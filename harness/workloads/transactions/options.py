"""[workload.options] of the workload `transactions`: names, defaults and what is refused (docs/run-files.md).

Decides what a run file may say. Must not know what the load makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError

_COUNTS = {"transactional": (1, 1000), "processors": (0, 1000), "ids": (1, 1000), "timeout_ms": (1000, 900_000)}


@dataclass(frozen=True, slots=True)
class Options:
    """transactional, processors: threads, beside those of [workload]. ids: transactional ids that the first share.

    timeout_ms: transaction.timeout.ms. Shares, 0 to 1: read_committed, of polling processes; abort, of transactions
    that are aborted; abandon, of those that their producer leaves open; switch, of turns between transactions at which
    a producer takes another id; zombie, of producers that go on with their old epoch once they are fenced.
    """

    transactional: int = 3
    processors: int = 2
    ids: int = 6
    timeout_ms: int = 4000
    read_committed: float = 0.5
    abort: float = 0.2
    abandon: float = 0.05
    switch: float = 0.1
    zombie: float = 0.4


def options_of(plan: Plan) -> Options:
    """Raises PlanError by the run file's line."""
    names = {field.name for field in fields(Options)}
    given: dict[str, int | float] = {}
    for name, value in plan.workload.options.items():
        where = f"{plan.workload.options_where.get(name, 'workload.options')}: workload.options.{name}"
        if name not in names:
            raise PlanError(f"{where}: transactions has no such option; it has {', '.join(sorted(names))}")
        if name in _COUNTS:
            low, high = _COUNTS[name]
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise PlanError(f"{where}: {value!r} is not a whole number from {low} to {high}")
            given[name] = value
        elif not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise PlanError(f"{where}: {value!r} is not a number from 0 to 1")
        else:
            given[name] = float(value)
    return Options(**given)  # type: ignore[arg-type]
