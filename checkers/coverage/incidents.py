"""What the history's own lines say went wrong beside the faults: processes that died, evidence that is not whole,
faults that were not taken back, faults that these nodes cannot do.

Pure: mark lines in, sentences out. Each is a reason why a run is not valid (unknown), or stands in its verdict.
Source: docs/history-format.md, harness lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.history.faults import Fault
from checkers.history.run_info import RunInfo

MARKS = ("crash", "heal", "evidence", "logs", "observer", "client-lost", "unavailable")
"""Values of `f` that this module reads."""

Marks = Sequence[Mapping[str, Any]]


def unexplained(marks: Marks) -> list[str]:
    """Reasons for unknown that belong to no checker's rule. `judge_coverage` lists them, and nothing lowers them."""
    problems: list[str] = []
    for mark in marks:
        if mark["f"] == "crash":
            problems.append(f"the process of {mark['node']} {mark['error'] or 'ended'} (phase {mark['phase']})")
        elif mark["f"] == "heal" and mark["error"]:
            problems.append(f"after the faults: {mark['error']}")
        elif mark["f"] == "observer" and mark["error"]:
            problems.append(f"not all of the run was observed: {mark['error']}")
        elif mark["f"] == "client-lost":
            problems.append(f"the process of a client ended though nothing was to end it: {mark['error']}")
        elif mark["f"] == "logs" and mark["error"]:
            problems.append(f"what {mark['node']} logged after its evidence was copied is not known: {mark['error']}")
        elif mark["kind"] == "nemesis" and mark["f"] == "start" and mark["effects"] is None:
            problems.append(f"fault {mark['fault_id']} ({mark['fault']}) does not say what its effects are")
    return problems


def not_fired(info: RunInfo, faults: Iterable[Fault], unavailable: Mapping[str, str]) -> list[str]:
    """Kinds of faults in the run file that these nodes can do, and that never came about."""
    return sorted(set(info.fault_kinds) - {fault.fault for fault in faults} - set(unavailable))


def copied(marks: Marks) -> frozenset[str]:
    """Nodes of which everything was copied, as the history says; a folder that is there may hold a part."""
    copies = [mark for mark in marks if mark["f"] == "evidence"]
    return frozenset(mark["node"] for mark in copies) - {mark["node"] for mark in copies if mark["error"]}


def uncopied_evidence(marks: Marks, info: RunInfo) -> dict[str, list[str]]:
    """Source → what was not copied of a node, though its folder may be there.

    A node without a line belongs to a run that broke off before all was copied.
    """
    copies = [mark for mark in marks if mark["f"] == "evidence"]
    problems = [(mark["node"], mark["error"]) for mark in copies if mark["error"]]
    heard = {mark["node"] for mark in copies}
    problems += [(node.name, "no line says that all was copied") for node in info.nodes if node.name not in heard]
    missing_evidence: dict[str, list[str]] = {}
    zookeepers = {node.name for node in info.zookeepers}
    for node, why in problems:
        for source in ("zookeeper",) if node in zookeepers else ("events", "segments"):
            missing_evidence.setdefault(source, []).append(f"the evidence of {node} is not whole: {why}")
    return missing_evidence


def unavailable(marks: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Fault → what is missing on these nodes, for faults that the run file asks for."""
    return {
        str(mark["fault"]): str(mark["error"] or mark["observation"] or "")
        for mark in marks
        if mark["kind"] == "nemesis" and mark["f"] == "unavailable"
    }
