"""The names that a run file may use for workloads and systems: this package's own, and those of installed packages.

Decides which implementation a name stands for. Own ones are one line each below; a package outside adds one by an entry
point of the group. An implementation is imported when a run names it, so that this floor knows names only. Must not
know what an implementation does: `harness.workloads.base` and `harness.systems.base` say that.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from harness.plan.toml_source import PlanError


@dataclass(frozen=True, slots=True)
class Extensions:
    """Implementations of one kind, by name. own: name → `module:attribute`, as an entry point of `group` has it."""

    group: str
    own: Mapping[str, str]

    def names(self) -> tuple[str, ...]:
        """Every name that a run file may use: this package's own ones first."""
        return (*self.own, *sorted({point.name for point in self._outside()} - set(self.own)))

    def outside(self, name: str) -> EntryPoint | None:
        """Where another package has what this name stands for; None for a name of this package's own, or of nobody."""
        points = [point for point in self._outside() if point.name == name]
        return points[0] if points and name not in self.own else None

    def load(self, name: str) -> object:
        """The implementation. Raises PlanError that says which package is at fault, and what names there are."""
        points = [EntryPoint(name, self.own[name], self.group)] if name in self.own else []
        points = points or [point for point in self._outside() if point.name == name]
        if not points:
            raise PlanError(f"{name!r} is not one of {', '.join(self.names())} (entry point group {self.group})")
        if len({point.value for point in points}) > 1:
            offers = " and ".join(_origin(point) for point in points)
            raise PlanError(f"{name!r} in entry point group {self.group} stands for {offers}; uninstall all but one")
        try:
            return points[0].load()
        except (ImportError, AttributeError) as error:
            raise PlanError(f"{name!r} in entry point group {self.group}: {_origin(points[0])}: {error}") from error

    def _outside(self) -> tuple[EntryPoint, ...]:
        return _installed(self.group, tuple(sys.path))


@lru_cache
def _installed(group: str, _sys_path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Reading the metadata of every installed package takes milliseconds: once for each search path."""
    return tuple(entry_points(group=group))


def _origin(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "highwater"
    return f"{point.value} of {package}"


WORKLOADS = Extensions(
    "highwater.workloads",
    {
        "append-poll": "harness.workloads.append_poll.workload:AppendPoll",
        "transactions": "harness.workloads.transactions.workload:Transactions",
        "idempotent": "harness.workloads.idempotent.workload:Idempotent",
        "groups": "harness.workloads.groups.workload:Groups",
        "wide": "harness.workloads.wide.workload:Wide",
        "compaction": "harness.workloads.compaction.workload:Compaction",
        "admin": "harness.workloads.admin.workload:Administrators",
        "recreate": "harness.workloads.recreate.workload:Recreate",
        "real-clients": "harness.workloads.real_clients.workload:RealClients",
    },
)
SYSTEMS = Extensions("highwater.systems", {"highwater": "harness.systems.highwater.kind:Highwater"})
