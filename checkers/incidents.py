"""What the history's own lines say went wrong beside the faults: processes that died, evidence that is not whole,
faults that were not taken back, faults that these nodes cannot do.

Pure: mark lines in, sentences out. Each is a reason why a run is not valid (unknown), or stands in its verdict.
Source: docs/history-format.md, harness lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.run_info import RunInfo
from checkers.run_report import Fault

TOLD = ("crash", "heal", "evidence", "logs", "unavailable")
"""Values of `f` that this module reads."""

Marks = Sequence[Mapping[str, Any]]


def unexplained(marks: Marks) -> list[str]:
    """Reasons for unknown that no checker's rule speaks of. The floor holds them, and nothing lowers them."""
    said: list[str] = []
    for mark in marks:
        if mark["f"] == "crash":
            said.append(f"the process of {mark['node']} {mark['error'] or 'ended'} (phase {mark['phase']})")
        elif mark["f"] == "heal" and mark["error"]:
            said.append(f"after the faults: {mark['error']}")
        elif mark["f"] == "logs" and mark["error"]:
            said.append(f"what {mark['node']} logged after its evidence was copied is not known: {mark['error']}")
    return said


def not_fired(info: RunInfo, faults: Iterable[Fault], unavailable: Mapping[str, str]) -> list[str]:
    """Kinds that the run file asks for, that these nodes can do, and that never came about."""
    return sorted(set(info.fault_kinds) - {fault.fault for fault in faults} - set(unavailable))


def evidence_holes(marks: Marks, info: RunInfo) -> dict[str, list[str]]:
    """Source → what was not copied of a node, though its folder may be there."""
    holes: dict[str, list[str]] = {}
    zookeepers = {node.name for node in info.zookeepers}
    for mark in marks:
        if mark["f"] != "evidence" or not mark["error"]:
            continue
        for source in ("zookeeper",) if mark["node"] in zookeepers else ("events", "segments"):
            holes.setdefault(source, []).append(f"the evidence of {mark['node']} is not whole: {mark['error']}")
    return holes


def unavailable(marks: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Fault → what is missing on these nodes, for faults that the run file asks for."""
    return {
        str(mark["fault"]): str(mark["error"] or mark["observation"] or "")
        for mark in marks
        if mark["kind"] == "nemesis" and mark["f"] == "unavailable"
    }
