"""All faults that there are: the families of this package, and those that other installed packages bring.

A package brings one by an entry point of the group `highwater.faults`, with the family's name, whose object is a
`nemesis.base.Family`. To add a family here is to add its file to `nemesis.faults` and its line to `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.plan.extensions import Extensions
from harness.plan.toml_source import PlanError
from nemesis.base import ClusterView, Family, Fault
from nemesis.kinds import FaultKind

FAMILIES = Extensions(
    "highwater.faults",
    {
        "process": "nemesis.faults.process:FAMILY",
        "partition": "nemesis.faults.partition:FAMILY",
        "clock": "nemesis.faults.clock:FAMILY",
        "controller": "nemesis.faults.deposed:FAMILY",
        "membership": "nemesis.faults.membership:FAMILY",
        "power": "nemesis.faults.power:FAMILY",
        "files": "nemesis.faults.files:FAMILY",
    },
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """families: in the order of registration. kinds: every kind by its name, in the order of families."""

    families: tuple[Family, ...]
    kinds: Mapping[str, FaultKind]

    def make(self) -> Mapping[str, Fault]:
        """Fresh instances of every fault, for one run, by the name of the kind."""
        return {fault.kind.name: fault for family in self.families for fault in family.make()}

    def named(self, names: Sequence[str]) -> tuple[FaultKind, ...]:
        """The kinds of these names, in their order. Raises PlanError for one that there is not."""
        missing = [name for name in names if name not in self.kinds]
        if missing:
            raise PlanError(f"there is no fault {missing[0]!r}; there are {', '.join(self.kinds)}")
        return tuple(self.kinds[name] for name in names)

    def heal_order(self, fault: Fault) -> int:
        """When the fault is taken back among those in force at the end of a run, lower first."""
        return next((one.heal.value for one in self.families if one.name == fault.kind.family), 1)


def catalogue_of(families: Sequence[Family]) -> Catalogue:
    """A catalogue of exactly these. Raises PlanError for a kind of another family, or a name given twice."""
    kinds: dict[str, FaultKind] = {}
    for family in families:
        for fault in family.make():
            kind = fault.kind
            if kind.family != family.name:
                raise PlanError(f"fault {kind.name!r} of family {family.name!r} says it is of {kind.family!r}")
            if kind.name in kinds:
                other = kinds[kind.name].family
                raise PlanError(f"fault {kind.name!r} of family {family.name!r} is there already, in {other!r}")
            kinds[kind.name] = kind
    return Catalogue(tuple(families), kinds)


def load_catalogue() -> Catalogue:
    """The families of this package, and after them those of installed packages, by name.

    Raises PlanError for one that cannot be loaded, or that does not go with the others.
    """
    families = []
    for name in FAMILIES.names():
        family = FAMILIES.load(name)
        if not isinstance(family, Family):
            raise PlanError(f"{name!r} in entry point group {FAMILIES.group}: {family!r} is no nemesis.base.Family")
        if family.name != name:
            raise PlanError(f"{name!r} in entry point group {FAMILIES.group}: calls itself {family.name!r}")
        families.append(family)
    return catalogue_of(families)


def available(view: ClusterView) -> list[tuple[str, str | None]]:
    """(fault, None when these nodes can do it, else what is missing), in the order of the catalogue."""
    return [(name, fault.probe(view)) for name, fault in load_catalogue().make().items()]
