"""Which code of other packages a run uses: its workload, its system, its faults, where another package brings them.

Decides which files of such a package count: every importable file of the topmost regular package on the path that the
entry point names, or its one module. Must not know what the code does.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

from harness.plan.extensions import SYSTEMS, WORKLOADS
from harness.plan.plan import Plan
from harness.runs.provenance import code_digest, digest_of
from nemesis.catalogue import FAMILIES

GROUPS = {extensions.group: extensions for extensions in (WORKLOADS, SYSTEMS, FAMILIES)}


@dataclass(frozen=True, slots=True)
class OutsideCode:
    """One entry point that a run uses. code: digest, 12 hex digits; package, version, code: `none` where the package
    is not installed.
    """

    group: str
    name: str
    package: str
    version: str
    code: str

    def as_json(self) -> dict[str, object]:
        """As run.json has it."""
        return asdict(self)


def outside_names(plan: Plan) -> list[tuple[str, str]]:
    """(group, name) of every entry point of another package that the plan names."""
    used = [(WORKLOADS, plan.workload.kind), (SYSTEMS, plan.system.kind)]
    used += [(FAMILIES, family) for family in sorted({kind.family for kind in plan.fault_kinds})]
    return [(extensions.group, name) for extensions, name in used if name not in extensions.own]


def outside_code(names: Iterable[tuple[str, str]]) -> list[OutsideCode]:
    """What is installed now under these names."""
    return [_outside(group, name) for group, name in names]


def run_code(source: Path, names: Iterable[tuple[str, str]]) -> str:
    """Digest of broker, lab and the packages of these names, 12 hex digits. source: the folder that holds `broker`."""
    points = [GROUPS[group].outside(name) for group, name in names]
    return code_digest(source, [place for point in points if point is not None for place in _places(point)])


def changed(run: Mapping[str, object]) -> str | None:
    """What differs between the code that a run.json names and the installed code, as text; None: nothing does.

    Also None for a run.json that does not name its code.
    """
    then, system, outside = run.get("code"), run.get("system"), run.get("outside", [])
    if not isinstance(system, dict) or not isinstance(outside, list) or not isinstance(then, str):
        return None
    names = [(str(one["group"]), str(one["name"])) for one in outside if one["group"] in GROUPS]
    now = run_code(Path(str(system.get("source", ""))), names)
    if now == then:
        return None
    before = {(str(one["group"]), str(one["name"])): one for one in outside}
    others = [one for one in outside_code(names) if one.as_json() != before[one.group, one.name]]
    what = ", ".join(f"{one.package if one.package != 'none' else one.name} ({one.group})" for one in others)
    return f"code {then}, now {now}" + (f"; changed: {what}" if what else "")


def _outside(group: str, name: str) -> OutsideCode:
    point = GROUPS[group].outside(name)
    if point is None:
        return OutsideCode(group, name, "none", "none", "none")
    package, version = ("none", "none") if point.dist is None else (point.dist.name, point.dist.version)
    return OutsideCode(group, name, package, version, digest_of(_places(point)))


def _places(point: EntryPoint) -> Sequence[Path]:
    """Folders of the package, or the file of the module; nothing where it cannot be found."""
    parts = point.module.split(".")
    for length in range(1, len(parts) + 1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:length]))
        except ImportError:
            return ()
        if spec is None:
            return ()
        if spec.origin is not None:
            return [Path(place) for place in spec.submodule_search_locations or [spec.origin]]
    return ()
