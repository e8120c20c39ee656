"""The nodes of a run and the system on them, opened in order and closed whatever happens.

Decides the order of opening and closing. Must not know workloads or faults. Invariants: a system that was opened is
torn down, and nodes are closed after it; a run that breaks off keeps the evidence there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from harness.nodes.base import NodeSet
from harness.nodes.factory import make_nodes
from harness.plan.plan import Plan
from harness.runs import run_info
from harness.runs.evidence import EvidenceCollector
from harness.runs.recording import Recording
from harness.runs.room import lacking_room
from harness.systems import system_kind
from harness.systems.base import System


class Cluster(NamedTuple):
    """system: opened, not set up."""

    system: System
    evidence: EvidenceCollector


@contextmanager
def open_cluster(plan: Plan, recording: Recording) -> Iterator[Cluster]:
    """Nodes and system of a run, until the block ends. An error of the block is raised once both are closed."""
    with _open_nodes(plan, recording) as nodes:
        system = system_kind(plan.system.kind).open(nodes.nodes, plan)
        evidence = EvidenceCollector(system, recording)
        try:
            yield Cluster(system, evidence)
        except Exception as error:
            # Where nothing more can be written, half of the evidence is all that could be had.
            if lacking_room(error) is None:
                recording.attempt("evidence", evidence.rescue)
            raise
        finally:
            recording.attempt("teardown", system.teardown)


@contextmanager
def _open_nodes(plan: Plan, recording: Recording) -> Iterator[NodeSet]:
    known = plan.nodes.known_hosts
    nodes = make_nodes(
        plan.nodes.kind,
        plan.nodes.brokers,
        plan.nodes.zookeepers,
        run_dir=recording.store.path,
        source=system_kind(plan.system.kind).source(plan),
        hosts=plan.nodes.hosts,
        known_hosts=None if known is None else Path(known).expanduser(),
        mounts=plan.cuts_power,
    )
    try:
        nodes.open()
        recording.store.update_run(nodes=run_info.nodes(plan, nodes.nodes))
        yield nodes
    finally:
        recording.attempt("close nodes", nodes.close)
