"""What a run did not record, or did not keep, of a record's life: said, never taken for what did not happen.

Decides the words for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.report.life.events import Replica
from harness.report.life.files import RunFiles
from harness.report.life.zookeeper import Versions
from harness.report.words import broker_names


def missing(
    files: RunFiles, run: Mapping[str, Any], replicas: Sequence[Replica], znode: Versions, copied_s: float | None
) -> Iterator[str]:
    """Sentences: of the run, of each node, of ZooKeeper. copied_s: when evidence was copied, if more came later."""
    if not run.get("finished", True):
        why = run.get("aborted") or "its harness ended without closing the history"
        yield f"The run was not finished ({why}): what came later is not told."
    yield from unread(files, run)
    nodes = broker_names(run)
    if not nodes:
        yield "run.json names no broker: nothing is known but what clients saw."
        return
    if copied_s is not None:
        yield f"Files and logs of the nodes were copied at {copied_s:.3f} s: what came later only clients tell."
    yield from _of_nodes(files, run, list(nodes.values()), {one.node for one in replicas})
    yield from _of_zookeeper(run, znode)


def unread(files: RunFiles, run: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on lines that could not be read. A torn last line of a run that was not finished is as it should be."""
    for parts, lines in files.unread.items():
        name = "/".join(parts)
        if lines.count == 1:
            yield f"{name}: line {lines.first} cannot be read, and is not told."
        elif lines.count:
            yield f"{name}: {lines.count:,} lines cannot be read, the first is line {lines.first}; they are not told."
        if lines.torn and run.get("finished", True):
            yield f"{name}: its last line has no end, and is not told: what came later may be missing."


def _of_nodes(files: RunFiles, run: Mapping[str, Any], nodes: Sequence[str], with_events: set[str]) -> Iterator[str]:
    system = run.get("system") or {}
    writes = bool(system.get("event_log", True))
    if not writes and not with_events:
        kind = system.get("kind", "this system")
        yield f"No event logs ({kind} writes none): when each replica appended, copied, or cut the record is not known."
    for node in nodes:
        found = files.evidence(node)
        if not found:
            part = (
                f" What there is of it, in {node}.part, is not whole, and is not told." if files.is_part(node) else ""
            )
            yield f"{node}'s evidence is missing: what it held, and what it did, is not known.{part}"
        elif writes and node not in with_events:
            yield f"No event log of {node}: {files.why_no_events(node)}."


def _of_zookeeper(run: Mapping[str, Any], znode: Versions) -> Iterator[str]:
    yield from znode.problems
    if znode.found:
        if not isinstance(run.get("origin_wall_ns"), int):
            yield "run.json has no origin_wall_ns: when ZooKeeper's versions of the state came is not known."
    elif not any(node.get("role") == "zookeeper" for node in run.get("nodes", ())):
        yield "No ZooKeeper node is in run.json: who led in which leader epoch, with which ISR, is not known."
    elif not znode.problems:
        yield "ZooKeeper's transactions have no state of this partition."
