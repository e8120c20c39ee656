"""`highwater doctor`'s rows about faults: which faults can be done to local nodes on this machine.

Decides how the faults are probed: on nodes that are made for it in a sandbox of their own. Must not know how a fault
probes. Part of the command line: it plugs the nemesis into the harness.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.commands.doctor import Row, State
from harness.nodes import sandbox
from harness.nodes.factory import make_nodes
from harness.systems.coordination import Coordination
from harness.systems.highwater.configuration import PORT
from harness.systems.highwater.source import broker_source
from harness.systems.view import SystemView
from nemesis.catalogue import available

LIMIT_S = 120.0


def fault_rows() -> Sequence[Row]:
    """One row for each fault, on local nodes; one row with the reason where they cannot be probed."""
    root = str(Path(__file__).resolve().parents[2])
    command = sandbox.sandbox_command([sys.executable, "-m", "harness.commands.faults"])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return [Row("faults", State.MISSING, f"the probes did not end in {LIMIT_S:g} s")]
    if done.returncode != 0:
        errors = done.stderr.strip().splitlines() or ["the probes printed no reason"]
        return [Row("faults", State.MISSING, f"local nodes cannot be made: {errors[-1]}")]
    findings: list[tuple[str, str | None]] = json.loads(done.stdout.splitlines()[-1])
    return [
        Row(f"fault: {name}", State.OK if missing is None else State.MISSING, missing or "on local nodes")
        for name, missing in findings
    ]


def main() -> int:
    """Inside the sandbox: make three brokers' nodes and a ZooKeeper's, probe every fault, print what is missing for
    each as JSON.
    """
    with tempfile.TemporaryDirectory() as folder:
        nodes = make_nodes("local", 3, 1, run_dir=Path(folder), source=broker_source(None))
        try:
            nodes.open()
            brokers = [node for name, node in sorted(nodes.nodes.items()) if name.startswith("n")]
            zookeepers = [node for name, node in sorted(nodes.nodes.items()) if name.startswith("zk")]
            clocks = {n.name: f"{n.root}/faketime" for n in brokers if n.faketime_library is not None}
            view = SystemView(
                brokers,
                zookeepers,
                Coordination("127.0.0.1:1"),
                "none",
                1,
                # As a run of these nodes can have it.
                replication_factor=len(brokers),
                copies_acknowledged=len(brokers),
                broker_daemon="broker",
                restart=lambda _name: None,
                expect_down=lambda _name: None,
                crashed=list,
                event_log=lambda name: f"/nonexistent/{name}",
                clock_files=clocks,
                port=PORT,
            )
            print(json.dumps(available(view)))
        finally:
            nodes.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
