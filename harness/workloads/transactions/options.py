"""[workload.options] of the workload `transactions`: names, defaults and what is refused (docs/run-files.md).

Decides what a run file may say. Must not know what the load makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.plan.plan import Plan
from harness.workloads.options import Allowed, Number, Whole, given_options

_SHARE = Number(0, 1)
_ALLOWED: dict[str, Allowed] = {
    "transactional": Whole(1, 1000),
    "processors": Whole(0, 1000),
    "ids": Whole(1, 1000),
    "timeout_ms": Whole(1000, 900_000),
    "read_committed": _SHARE,
    "abort": _SHARE,
    "abandon": _SHARE,
    "switch": _SHARE,
    "zombie": _SHARE,
}


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
    return Options(**given_options(plan, _ALLOWED))
