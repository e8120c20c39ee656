"""What run.json says of a run (docs/history-format.md).

Decides names and values of its keys. Must not know phases or clients.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.nodes.base import Node
from harness.plan.plan import Plan
from harness.runs.outside_code import outside_code, outside_names, run_code
from harness.runs.provenance import versions
from harness.systems import system_kind
from harness.workloads import checkers_of, prepared

SCHEMA = 1


def version() -> str:
    """Of the installed package; `unknown` when it runs from a folder that was never installed."""
    try:
        return importlib.metadata.version("highwater")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def run_json(
    plan: Plan, argv: Sequence[str], origin_monotonic_ns: int, origin_wall_ns: int, run_file: Path
) -> dict[str, object]:
    """run.json at the beginning: `nodes` without addresses, not finished. run_file: the one that the store keeps."""
    system = system_kind(plan.system.kind)
    source, outside = system.source(plan), outside_names(plan)
    return {
        "schema": SCHEMA,
        "name": plan.name,
        "seed": plan.seed_drawn,
        "started_wall_ns": origin_wall_ns,
        "origin_monotonic_ns": origin_monotonic_ns,
        "origin_wall_ns": origin_wall_ns,
        "highwater_version": version(),
        "versions": {**versions(), **prepared(plan)},
        "code": run_code(source, outside),
        "outside": [one.as_json() for one in outside_code(outside)],
        "command": list(argv),
        "run_file": str(run_file),
        "system": {
            "kind": plan.system.kind,
            "event_log": system.event_log,
            "source": str(source),
            **system.describe(plan),
            "settings": dict(plan.system.settings),
            "broker": {str(broker): dict(settings) for broker, settings in plan.system.broker.items()},
        },
        "nodes": nodes(plan, {}),
        "node_kind": plan.nodes.kind,
        "external_zookeeper": plan.nodes.zookeeper,
        "topic": {
            "name": plan.topic.name,
            "partitions": plan.topic.partitions,
            "replication_factor": plan.topic.replication_factor,
            "min_insync_replicas": plan.min_insync_replicas,
            "unclean_leader_election": plan.unclean_leader_election,
            "config": dict(plan.topic.config),
        },
        "workload": {
            **plan.workload.given(),
            **({"options": dict(plan.workload.options)} if plan.workload.options else {}),
        },
        "remade_topics": list(plan.remade_topics),
        "checkers": [*checkers_of(plan), *system.checkers],
        "faults": {} if plan.faults is None else dataclasses.asdict(plan.faults),
        "fault_kinds": {
            kind.name: {"family": kind.family, "effects": sorted(kind.effects)} for kind in plan.fault_kinds
        },
        "checks": plan.checks.given(),
        "limits": plan.limits.given(),
        "online": None if plan.online is None else plan.online.given(),
        "scripted": bool(plan.script),
        "aborted": None,
        "finished": False,
        "lines": None,
    }


def nodes(plan: Plan, made: Mapping[str, Node]) -> list[dict[str, object]]:
    """One entry for each node; address null until the node is made."""
    names = [f"n{i + 1}" for i in range(plan.nodes.brokers)] + [f"zk{i + 1}" for i in range(plan.nodes.zookeepers)]
    out: list[dict[str, object]] = []
    for name in names:
        node = made.get(name)
        broker = broker_id(name) if name.startswith("n") else None
        entry: dict[str, object] = {
            "name": name,
            "role": "zookeeper" if broker is None else "broker",
            "broker_id": broker,
            "address": None if node is None else node.address,
        }
        if node is not None and plan.nodes.kind == "ssh" and plan.nodes.hosts:
            offset = monotonic_offset_ns(node)
            if offset is not None:
                entry["monotonic_offset_ns"] = offset
        out.append(entry)
    return out


def broker_id(node: str) -> int:
    """Broker id on a node, by its name."""
    return int(node.removeprefix("n"))


def monotonic_offset_ns(node: Node) -> int | None:
    """The node's CLOCK_MONOTONIC minus ours, to within half a round trip; None when the node shares our kernel."""
    code = "import time;print(open('/proc/sys/kernel/random/boot_id').read().strip(),time.monotonic_ns())"
    best: tuple[int, int] | None = None
    for _ in range(3):
        before_ns = time.monotonic_ns()
        boot, theirs = node.run([node.python, "-c", code]).stdout.split()
        after_ns = time.monotonic_ns()
        if boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip():
            return None
        # The interpreter's start comes before the reading: the output is nearer to `after`.
        if best is None or after_ns - before_ns < best[0]:
            best = (after_ns - before_ns, int(theirs) - after_ns)
    return None if best is None else best[1]
