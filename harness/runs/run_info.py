"""What run.json says of a run (docs/history-format.md).

Decides names and values of its keys. Must not know phases or clients.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.nodes.base import Node
from harness.nodes.compiled import compiled_modules
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.runs.provenance import code_digest, versions

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
    source = broker_source(plan)
    return {
        "schema": SCHEMA,
        "name": plan.name,
        "seed": plan.seed_drawn,
        "started_wall_ns": origin_wall_ns,
        "origin_monotonic_ns": origin_monotonic_ns,
        "origin_wall_ns": origin_wall_ns,
        "highwater_version": version(),
        "versions": versions(),
        "code": code_digest(source),
        "command": list(argv),
        "run_file": str(run_file),
        "system": {
            "kind": plan.system.kind,
            "event_log": True,
            "source": str(source),
            "compiled": bool(compiled_modules(source / "broker")),
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
        "workload": dataclasses.asdict(plan.workload),
        "faults": {} if plan.faults is None else dataclasses.asdict(plan.faults),
        "checks": plan.checks.given(),
        "limits": dataclasses.asdict(plan.limits),
        "scripted": bool(plan.script),
        "aborted": None,
        "finished": False,
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
        # The interpreter's start comes before the reading: the answer is nearer to `after`.
        if best is None or after_ns - before_ns < best[0]:
            best = (after_ns - before_ns, int(theirs) - after_ns)
    return None if best is None else best[1]


def broker_source(plan: Plan | None) -> Path:
    """The folder that holds the `broker` package to run; without a plan the installed one. Raises PlanError."""
    if plan is not None and plan.system.source is not None:
        folder = Path(plan.system.source).expanduser().resolve()
        if not (folder / "broker" / "cli.py").is_file():
            raise PlanError(f"system.source: {plan.system.source!r} holds no broker/cli.py (looked in {folder})")
        return folder
    found = importlib.util.find_spec("broker")
    if found is None or not found.submodule_search_locations:
        raise PlanError(f"system.source: not given, and {sys.executable} has no package `broker` installed")
    return Path(next(iter(found.submodule_search_locations))).resolve().parent
