"""Which faults local nodes of this machine can do: nodes are made in a sandbox, and each fault is asked.

Run as a program inside the sandbox, it prints its answers as JSON. For `highwater doctor`.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.nodes.factory import make_nodes
from harness.nodes.sandbox import sandbox_command
from nemesis.bare import BareView
from nemesis.registry import available
from nemesis.schedule import KINDS

TIMEOUT_S = 60.0


def faults_of_local_nodes() -> list[tuple[str, str | None]]:
    """(fault, None when three brokers and a ZooKeeper on local nodes can have it, else what is missing)."""
    root = str(Path(__file__).resolve().parents[1])
    program = f"import sys; sys.path.insert(0, {root!r}); from nemesis.availability import main; main()"
    try:
        done = subprocess.run(
            sandbox_command([sys.executable, "-c", program]),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [(kind, f"local nodes did not come up in {TIMEOUT_S:g} s") for kind in KINDS]
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return [(kind, f"no local nodes: {said}") for kind in KINDS]
    return [(str(name), missing) for name, missing in json.loads(done.stdout)]


def main() -> None:
    spec = importlib.util.find_spec("broker")
    assert spec is not None
    assert spec.origin is not None
    with tempfile.TemporaryDirectory(prefix="highwater-doctor-") as folder:
        nodes = make_nodes("local", 3, 1, run_dir=Path(folder), source=Path(spec.origin).parents[1])
        try:
            nodes.open()
            view = BareView([nodes.nodes[f"n{i}"] for i in (1, 2, 3)], [nodes.nodes["zk1"]])
            print(json.dumps(available(view)))
        finally:
            nodes.close()
